"""What an exit code says."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The codes with which a command ends.

    >>> ExitCode.NOT_MET, ExitCode.NOT_MET.meaning
    (<ExitCode.NOT_MET: 3>, 'a claim does not hold, or nothing meets the target')
    """

    meaning: str

    def __new__(cls, code: int, meaning: str) -> "ExitCode":
        """A whole number that knows what it means."""
        self = int.__new__(cls, code)
        self._value_ = code
        self.meaning = meaning
        return self

    FINE = 0, "answered"
    INTERNAL = 1, "a bug in tightrope"
    REFUSED = 2, "refused: bad input, no theorem, any value will do, or a library is missing"
    NOT_MET = 3, "a claim does not hold, or nothing meets the target"
    NOT_KNOWN = 4, "the answer could not be certified, or what runs is not known"
    ENVIRONMENT = 5, "the machine failed: the answer could not be written, or memory ran out"
    INTERRUPTED = 130, "interrupted by Ctrl-C"
    TERMINATED = 143, "terminated by SIGTERM"
