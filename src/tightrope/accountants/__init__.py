"""Who answers, as values: each accountant makes one kind of curve."""
