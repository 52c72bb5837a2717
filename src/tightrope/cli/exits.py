"""What an exit code says."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The codes with which a command ends."""

    FINE = 0
    INTERNAL = 1  # a bug in tightrope
    REFUSED = 2  # bad input, no theorem, or no such value
    NOT_MET = 3  # a claim does not hold
    NOT_KNOWN = 4  # the answer could not be certified, or what runs is not known
    INTERRUPTED = 130
