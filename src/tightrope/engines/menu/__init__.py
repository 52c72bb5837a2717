"""Steps chosen on the way from a menu: the worst adaptive choice, from above and from below."""
