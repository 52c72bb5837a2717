"""Answers as words, pages and pictures."""
