"""Small certified building blocks: argument checks, tails of the noise, logarithms of sums."""
