"""The paper and published runs, claim by claim, beside the library."""
