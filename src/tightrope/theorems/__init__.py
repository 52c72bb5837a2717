"""Why an answer is valid: from a question to the pairs that bound it, with evidence."""
