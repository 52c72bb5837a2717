"""What must not be drawn twice, told when its process is forked."""

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """What two processes have after a fork, each as if it were its own."""

    def leave_parent(self) -> None:
        """In the new process: keep nothing that the other one goes on with."""


_TOLD: WeakSet[Forked] = WeakSet()


def tell_when_forked(one: Forked) -> None:
    """Tell `one`, as long as it lives, in every process that is forked from this one."""
    _TOLD.add(one)


def _tell() -> None:
    for one in list(_TOLD):
        one.leave_parent()


if hasattr(os, "register_at_fork"):  # not where there are no forks
    os.register_at_fork(after_in_child=_tell)
