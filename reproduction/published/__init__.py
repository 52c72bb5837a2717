"""Published training runs, accounted again on equal terms."""
