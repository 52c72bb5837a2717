"""Many steps: from a schedule of pairs to certified bounds on its curve."""
