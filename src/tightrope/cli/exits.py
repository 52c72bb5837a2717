"""What an exit code says."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The codes with which a command ends."""

    FINE = 0
    INTERNAL = 1  # a bug in tightrope
    REFUSED = 2  # bad input, no theorem, or a question that every value answers
    NOT_MET = 3  # a claim does not hold, or nothing meets the target
    NOT_KNOWN = 4  # the answer could not be certified, or what runs is not known
    INTERRUPTED = 130
