"""Which sampling a training really runs, set against what was accounted."""

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
