"""The question: mechanism, sampling, relation and run, as frozen values without mathematics."""
