"""Samplers that carry their accounting: what is drawn is what is accounted."""
