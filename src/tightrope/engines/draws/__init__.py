"""Random draws of the privacy loss, and estimates made of them."""
