"""Privacy statements: make, check, render and verify them."""
