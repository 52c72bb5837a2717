"""What people state about a release, and no accountant can know."""

from dataclasses import dataclass

from tightrope.setting.trials import TrialLaw


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What no accountant can know: the facts that people state about a release.

    Relations are between datasets of records. A `unit` that is no record, such as a user, is protected only
    if `records_per_unit` is 1, or at most the group of the relation: 5 under ADD_OR_REMOVE.of(5).

    `tuning` says in words how hyper-parameters were chosen. Where the best of several runs was published, as
    in `tuned`, `trials` is the law of their number, and the claim covers all.
    `schedule` says whether steps were "fixed in advance" or "chosen on the way"; a ledger that says it itself
    decides.

    >>> release = {"name": "digits", "setting": "central", "unit": "example", "outputs": "the last weights"}
    >>> Facts(**release, data_accesses="all passes", tuning="none").unit
    'example'
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
    trials: TrialLaw | str | int | None = None
    schedule: str = "not stated"
