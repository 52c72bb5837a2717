"""Tightrope inside the libraries that train: each module needs its library, and nothing else imports it."""
