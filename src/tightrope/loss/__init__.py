"""One step as numbers: loss atoms with a side, and transforms with a bounded error."""
