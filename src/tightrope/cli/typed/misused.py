"""What is said of typed words that state no question."""

from tightrope.errors import TightropeError, Words


class Misused(TightropeError):
    """Options that are missing, unknown, or contradict each other."""

    def _advise(self, said: str, words: Words) -> str:
        return said if said.endswith("?") else super()._advise(said, words)


MIXED = "--runs states every run in its file: leave out the options that state one run."
