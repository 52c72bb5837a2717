"""K steps as one certified integral over a vertical line in the complex plane."""
