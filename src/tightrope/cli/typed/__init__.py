"""What people type: words, numbers and options, and the settings they state."""
