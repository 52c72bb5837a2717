"""Data loaders, read from their structure."""
