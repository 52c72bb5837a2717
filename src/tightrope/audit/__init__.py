"""Which sampling a training really runs, set against what was accounted."""

from tightrope.audit.claims.judge import Audit, Verdict, audit
from tightrope.audit.claims.proven import Proven, proven
from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.loaders.inspect import inspect_loader
from tightrope.audit.recordings.recording import read_recording, record
from tightrope.audit.recordings.watch import watch

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
