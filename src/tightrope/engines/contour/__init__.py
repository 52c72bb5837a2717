"""One certified integral over a vertical line in the complex plane."""
