"""The answer: brackets and bracketed privacy curves."""
