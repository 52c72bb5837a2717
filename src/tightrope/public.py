"""The public names for type checkers, which do not follow names that are imported when first used."""

from typing import TYPE_CHECKING

from tightrope.accountants.accountant import Accountant
from tightrope.accountants.certified import Certified
from tightrope.accountants.exact import Exact
from tightrope.accountants.gaussian_limit import GaussianLimit
from tightrope.accountants.monte_carlo import MonteCarlo
from tightrope.accountants.renyi import Renyi
from tightrope.answers.batches import fewest_batches, largest_batch
from tightrope.answers.calibrate import Calibration, largest_rate, most_steps, smallest_noise
from tightrope.answers.compare import Comparison, compare
from tightrope.answers.contrast import Contrast, contrast
from tightrope.answers.filter import Filter
from tightrope.answers.ledger import Ledger
from tightrope.answers.one_by_one import epsilon_one_by_one
from tightrope.answers.private_size import PrivateSize, private_size
from tightrope.answers.spend import delta, epsilon, privacy_curve
from tightrope.audit.claims.shuffled import epsilon_if_shuffled
from tightrope.curve.bracket import Bracket, Decision, Gap
from tightrope.curve.exact_curve import ExactCurve
from tightrope.curve.limit_curve import Approximation, GaussianLimitCurve
from tightrope.curve.privacy_curve import PrivacyCurve
from tightrope.curve.renyi_curve import RenyiCurve, UpperBound
from tightrope.curve.simulated_curve import Estimate, SimulatedCurve
from tightrope.curve.trade_off import TradeOff
from tightrope.engines.draws.tilts import PLAIN, TILTED
from tightrope.errors import (
    InvalidSetting,
    NoSuchValue,
    NoTheorem,
    NotPreciseEnough,
    StopWork,
    TightropeError,
    UncertainComparison,
    UnusableFile,
    UnwrittenRows,
    WorkerDied,
)
from tightrope.numerics.confidence import BETTING, CHERNOFF, HOEFFDING, draws_needed
from tightrope.setting.banded import banded_run
from tightrope.setting.effort import QUICK, TIGHT, Effort
from tightrope.setting.mechanism import Finite, Gaussian, Laplace, RandomizedResponse
from tightrope.setting.relation import ADD, ADD_OR_REMOVE, REMOVE, SUBSTITUTE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import (
    BallsInBins,
    EveryRecord,
    Poisson,
    RandomAllocation,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
)
from tightrope.setting.training import Training
from tightrope.setting.trials import (
    FixedTrials,
    GeometricTrials,
    LogarithmicTrials,
    NegativeBinomialTrials,
    PoissonTrials,
    TrialLaw,
)
from tightrope.setting.tuned import Tuned, tuned
from tightrope.statements.facts import Facts
from tightrope.statements.state import statement, verify
from tightrope.sweeps.grid import Grid
from tightrope.sweeps.sweep import sweep
from tightrope.theorems.evidence import CONJECTURED, PROVED, REFUTED, Evidence, Standing
from tightrope.theorems.lookup import SupportMatrix, support_matrix

if TYPE_CHECKING:
    from tightrope.audit import audit
else:
    from tightrope import audit  # the package itself, which can be called

# in pipeline order: the question, the relation, the answers, what they are made of, the refusals
# fmt: off
__all__ = [  # noqa: RUF022
    "Gaussian", "Laplace", "RandomizedResponse", "Finite",
    "EveryRecord", "Poisson", "TruncatedPoisson", "WithoutReplacement", "BallsInBins",
    "RandomAllocation", "Shuffled",
    "Step", "Run", "Training", "banded_run",
    "tuned", "Tuned", "TrialLaw", "GeometricTrials", "NegativeBinomialTrials", "LogarithmicTrials",
    "PoissonTrials", "FixedTrials",
    "Relation", "ADD", "REMOVE", "ADD_OR_REMOVE", "SUBSTITUTE",
    "Effort", "QUICK", "TIGHT",
    "Accountant", "Certified", "Exact", "Renyi", "GaussianLimit", "MonteCarlo",
    "draws_needed", "PLAIN", "TILTED", "HOEFFDING", "CHERNOFF", "BETTING",
    "epsilon", "delta", "privacy_curve", "epsilon_one_by_one",
    "smallest_noise", "most_steps", "largest_rate", "largest_batch", "fewest_batches",
    "contrast", "compare", "sweep", "Grid",
    "private_size", "PrivateSize", "Ledger", "Filter", "epsilon_if_shuffled",
    "support_matrix",
    "audit", "Facts", "statement", "verify",
    "Bracket", "Decision", "Gap",
    "PrivacyCurve", "TradeOff", "ExactCurve",
    "UpperBound", "RenyiCurve",
    "Approximation", "GaussianLimitCurve",
    "Estimate", "SimulatedCurve",
    "Calibration", "Contrast", "Comparison", "SupportMatrix",
    "Evidence", "Standing", "PROVED", "CONJECTURED", "REFUTED",
    "TightropeError", "InvalidSetting",
    "UnusableFile", "NoTheorem", "NoSuchValue", "NotPreciseEnough",
    "UncertainComparison", "StopWork", "UnwrittenRows", "WorkerDied",
]
