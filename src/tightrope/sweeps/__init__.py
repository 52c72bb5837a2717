"""Many questions at once, on one machine or many."""
