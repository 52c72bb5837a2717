"""Certified privacy accounting for subsampled mechanisms under composition.

State what is run (mechanism, sampling, steps) and who counts as a neighbour (relation). Get a certified
bracket and the theorem behind it, or a refusal that says what is known.
"""

TYPE_CHECKING = False  # typing has one, and takes as long to load as everything here
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.8.0"

# The public names in pipeline order. Each is imported from its module when it is first used, so that a
# question loads the engines it needs and `tightrope --version` none.
_HOMES = {
    "setting.mechanism": "Gaussian Laplace RandomizedResponse Finite",
    "setting.sampling": "EveryRecord Poisson TruncatedPoisson WithoutReplacement BallsInBins "
    "RandomAllocation Shuffled",
    "setting.run": "Step Run",
    "setting.trials": "TrialLaw GeometricTrials NegativeBinomialTrials LogarithmicTrials PoissonTrials "
    "FixedTrials",
    "setting.tuned": "tuned Tuned",
    "setting.training": "Training",
    "setting.banded": "banded_run",
    "setting.relation": "Relation ADD REMOVE ADD_OR_REMOVE SUBSTITUTE",
    "setting.effort": "Effort QUICK TIGHT",
    "accountants.accountant": "Accountant",
    "accountants.certified": "Certified",
    "accountants.exact": "Exact",
    "accountants.renyi": "Renyi",
    "accountants.gaussian_limit": "GaussianLimit",
    "accountants.monte_carlo": "MonteCarlo",
    "numerics.confidence": "draws_needed HOEFFDING CHERNOFF BETTING",
    "engines.draws.tilts": "PLAIN TILTED",
    "answers.spend": "epsilon delta privacy_curve",
    "answers.one_by_one": "epsilon_one_by_one",
    "answers.calibrate": "smallest_noise most_steps largest_rate Calibration",
    "answers.batches": "largest_batch fewest_batches",
    "answers.contrast": "contrast Contrast",
    "answers.compare": "compare Comparison",
    "sweeps.sweep": "sweep",
    "sweeps.grid": "Grid",
    "answers.private_size": "private_size PrivateSize",
    "answers.ledger": "Ledger",
    "answers.filter": "Filter",
    "audit.claims.shuffled": "epsilon_if_shuffled",
    "theorems.lookup": "support_matrix SupportMatrix",
    "audit": "audit",
    "statements.facts": "Facts",
    "statements.state": "statement verify",
    "curve.bracket": "Bracket Decision Gap",
    "curve.privacy_curve": "PrivacyCurve",
    "curve.trade_off": "TradeOff",
    "curve.exact_curve": "ExactCurve",
    "curve.renyi_curve": "UpperBound RenyiCurve",
    "curve.limit_curve": "Approximation GaussianLimitCurve",
    "curve.simulated_curve": "Estimate SimulatedCurve",
    "theorems.evidence": "Evidence Standing PROVED CONJECTURED REFUTED",
    "errors": "TightropeError InvalidSetting UnusableFile NoTheorem NoSuchValue NotPreciseEnough "
    "UncertainComparison StopWork UnwrittenRows WorkerDied",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

if TYPE_CHECKING:
    from tightrope.public import *  # noqa: F403
    from tightrope.public import __all__ as __all__
else:
    __all__ = list(_HOME_OF)

    def __getattr__(name: str) -> "Any":
        import importlib

        if name not in _HOME_OF:
            raise AttributeError(f"module 'tightrope' has no attribute {name!r}")
        if name == "audit":  # the package itself, which can be called
            return importlib.import_module("tightrope.audit")
        value = getattr(importlib.import_module(f"tightrope.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
