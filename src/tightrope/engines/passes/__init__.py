"""One pass of random allocation as a finite pair, from above and from below, in exact integers."""
