"""The epsilon that noise was chosen for, and the step until which it is kept."""

from dataclasses import dataclass

from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.samplers.sampler import Passes

GOES_ON = "They are accounted: engine.epsilon(delta) is what all steps cost."


@dataclass(frozen=True, kw_only=True)
class EpsilonTarget:
    """What `make_private_with_epsilon` was asked to keep to, until the ledger holds `steps` steps.

    >>> EpsilonTarget(epsilon=3, delta=1e-5, steps=20).say_exceeded(21)[:61]
    '21 steps are taken where the noise was chosen for 20: nothing'
    """

    epsilon: float
    delta: float
    steps: int

    def say_exceeded(self, steps: int) -> str:
        """What it means that so many steps are taken."""
        return (
            f"{steps:,} steps are taken where the noise was chosen for {self.steps:,}: nothing keeps epsilon "
            f"within the target {self.epsilon:g} at delta {self.delta:g}."
        )


def check_steps(steps: int, sampler: Passes) -> int:
    """The steps to come; a plan that ends before the first pass over the loader does is refused."""
    planned = check.whole(least=1, remedy="It is the number of steps to come.", steps=steps)
    if planned < len(sampler):
        must = f"be at least {len(sampler)}, the batches in one pass over the sampler"
        remedy = (
            "A loop over the loader takes that many steps: count all passes you will make, or build the "
            f"sampler with steps={planned}."
        )
        raise InvalidSetting("steps", planned, must, remedy)
    return planned
