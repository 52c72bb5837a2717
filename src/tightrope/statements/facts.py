"""What people state about a release, and no accountant can know."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What no accountant can know: the facts that people state about a release.

    Relations are between datasets of records. A `unit` that is no record, such as a user, is protected only
    if `records_per_unit` is 1. `schedule` says whether steps were "fixed in advance" or "chosen on the way";
    a ledger that says it itself decides.
    """

    name: str
    setting: str
    unit: str
    data_accesses: str
    tuning: str
    outputs: str
    description: str = ""
    unit_details: str = ""
    records_per_unit: int | None = None
    code: str = ""
    records: int | None = None
    batch: float | None = None
    epochs: float | None = None
    schedule: str = "not stated"
