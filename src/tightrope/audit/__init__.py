"""Which sampling a training really runs, set against what was accounted.

The package can be called: `tightrope.audit(loader, run, ...)` is `tightrope.audit.audit(loader, run, ...)`.
"""

import inspect
import sys
from types import ModuleType
from typing import Any

from tightrope.audit.claims.judge import Audit, audit
from tightrope.audit.claims.prove import ProvedBound, prove_bound
from tightrope.audit.claims.verdict import Verdict
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.loaders.inspect import inspect_loader
from tightrope.audit.recordings.recording import read_recording, record
from tightrope.audit.recordings.watch import watch

__all__ = [
    "Audit",
    "Finding",
    "How",
    "ProvedBound",
    "Scheme",
    "Verdict",
    "audit",
    "inspect_loader",
    "prove_bound",
    "read_recording",
    "record",
    "watch",
]


class _CallableRoom(ModuleType):
    # Importing anything of this package makes it the attribute `audit` of tightrope, whatever stood there. So
    # the package itself answers the call, and `tightrope.audit.watch` goes on working beside it.
    __signature__ = inspect.signature(audit)

    def __call__(self, *args: Any, **named: Any) -> Audit:
        return audit(*args, **named)


sys.modules[__name__].__class__ = _CallableRoom
