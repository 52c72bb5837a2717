"""The substitution game: the worst adaptive choice of exchanges, from above and from below."""
