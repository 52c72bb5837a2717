"""What people read: sentences, tables, JSON and refusals."""
