"""Privacy statements: made, written, read and verified."""
