"""A certified accountant where jax_privacy expects one of its own, and one for batches of fixed size."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.errors import InvalidSetting
from tightrope.extras import MissingExtra
from tightrope.numerics import check

try:
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from jax_privacy.accounting import DpAccountantConfig, DpParams, DpTrainingAccountant
except ImportError as missing:
    raise MissingExtra("tightrope.integrations.jax_privacy", "jax_privacy", "jax") from missing

from tightrope.integrations.dp_accounting import DpEventAccountant, NoiseUnit

ONE_EXAMPLE_EACH = (
    "No theorem here covers it: each user has one example, and each batch is drawn from all of them and "
    "used whole."
)


@dataclass(frozen=True, kw_only=True)
class DpEventAccountantConfig(DpAccountantConfig):
    """Makes accountants that answer with certified upper ends; takes what `DpEventAccountant` takes.

    DpsgdTrainingAccountant says the noise per clipping norm: under REPLACE_ONE pass noise=PER_RECORD. Its
    FIXED_BATCH_SIZE arrives here as Poisson sampling at half the noise. That is the bound for fixed batches
    under ADD_OR_REMOVE_ONE only; for REPLACE_ONE take `FixedBatchTrainingAccountant`.
    """

    neighboring_relation: NeighboringRelation
    noise: NoiseUnit | None = None
    by: Certified = BY_DEFAULT

    def __post_init__(self) -> None:
        self.create_accountant()  # so that a bad setting is refused where it is written

    def create_accountant(self) -> DpEventAccountant:
        """An accountant that has composed nothing yet."""
        return DpEventAccountant(neighboring_relation=self.neighboring_relation, noise=self.noise, by=self.by)


class FixedBatchTrainingAccountant(DpTrainingAccountant):
    """Accounts DP-SGD on batches of exactly `batch_size` examples, drawn afresh at each update.

    This class is the sampling, whatever `DpParams.sampling_method` says: jax_privacy's calibration passes
    none on, and so always calibrates for Poisson sampling.
    """

    def can_calibrate_steps(self) -> bool:
        """Epsilon grows with the number of updates."""
        return True

    def can_calibrate_batch_size(self) -> bool:
        """Epsilon grows with the size of the batches."""
        return True

    def can_calibrate_noise_multipliers(self) -> bool:
        """Epsilon falls as the noise grows."""
        return True

    def _validate_dp_params(self, dp_params: DpParams) -> None:
        super()._validate_dp_params(dp_params)
        for name, plain in (
            ("examples_per_user", (None, 1)),
            ("cycle_length", (None, 1)),
            ("truncated_batch_size", (None,)),
        ):
            value = getattr(dp_params, name)
            if value not in plain:
                raise InvalidSetting(name, value, "be left out for batches of fixed size", ONE_EXAMPLE_EACH)

    def _compute_epsilon(self, num_updates: Any, dp_params: DpParams) -> float:
        accountant = self._dp_accountant_config.create_accountant()
        updates = _count(num_updates=num_updates)
        for times, noise, batch in _split_phases(dp_params.noise_multipliers, dp_params.batch_sizes, updates):
            size, release = _count(batch_size=batch), GaussianDpEvent(noise)
            accountant.compose(SampledWithoutReplacementDpEvent(dp_params.num_samples, size, release), times)
        return float(accountant.get_epsilon(target_delta=dp_params.delta))


def _split_phases(noises: Any, batches: Any, updates: int) -> Iterator[tuple[int, Any, Any]]:
    """How many updates use which noise and batch size; both may be lists of (first update, value)."""
    schedules = [
        list(value) if isinstance(value, list | tuple) else [(0, value)] for value in (noises, batches)
    ]
    starts = sorted({start for schedule in schedules for start, _ in schedule if start < updates})
    if any(min(start for start, _ in schedule) != 0 for schedule in schedules):
        remedy = "Say what holds from the start."
        raise InvalidSetting("schedules", (noises, batches), "start at update 0", remedy)
    for start, end in zip(starts, [*starts[1:], updates], strict=True):
        noise, batch = (
            max((entry for entry in schedule if entry[0] <= start), key=lambda entry: entry[0])[1]
            for schedule in schedules
        )
        yield end - start, noise, batch


def _count(**named: Any) -> int:
    """A count, which jax may hold as an array or a float."""
    ((name, value),) = named.items()
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return check.whole(least=1, **{name: plain})
