"""Which sampling a training really runs, set against what was accounted."""
