"""Which sampling a training really runs, set against what was accounted."""

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.judging import Audit, Verdict, audit
from tightrope.audit.loaders import inspect_loader
from tightrope.audit.proven import Proven, proven
from tightrope.audit.recording import read_recording, record
from tightrope.audit.watching import watch

__all__ = [
    "Audit",
    "Finding",
    "How",
    "Proven",
    "Scheme",
    "Verdict",
    "audit",
    "inspect_loader",
    "proven",
    "read_recording",
    "record",
    "watch",
]
