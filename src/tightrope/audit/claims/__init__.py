"""What was accounted, set against what is run."""
