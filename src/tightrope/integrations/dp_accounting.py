"""A certified accountant where dp_accounting expects one of its own."""

from tightrope.accountants.certified import BY_DEFAULT, Certified
from tightrope.answers.ledger import Ledger
from tightrope.curve.bracket import Bracket
from tightrope.errors import TightropeError
from tightrope.extras import MissingExtra
from tightrope.integrations.dp_events import (
    PER_RECORD,
    PER_SENSITIVITY,
    NoiseUnit,
    check_noise_unit,
    from_dp_event,
    from_neighboring_relation,
    read_release,
    releases,
    to_dp_event,
    to_neighboring_relation,
)
from tightrope.setting.effort import QUICK
from tightrope.setting.relation import Relation
from tightrope.setting.run import Run
from tightrope.theorems.lookup import analyse

try:
    from dp_accounting import DpEvent, NeighboringRelation, PrivacyAccountant
except ImportError as missing:
    raise MissingExtra("tightrope.integrations.dp_accounting", "dp_accounting", "interop") from missing

__all__ = [
    "PER_RECORD",
    "PER_SENSITIVITY",
    "DpEventAccountant",
    "NoiseUnit",
    "from_dp_event",
    "from_neighboring_relation",
    "to_dp_event",
    "to_neighboring_relation",
]


class DpEventAccountant(PrivacyAccountant):
    """Composes events of dp_accounting; its answers are, to the last bit, the upper ends of `tr.epsilon`.

    Events that no theorem covers under the relation are not supported, and say why. Under REPLACE_ONE `noise`
    must say how the events' noise multipliers are meant.

    >>> import dp_accounting
    >>> add_or_remove = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    >>> event = dp_accounting.PoissonSampledDpEvent(0.001, dp_accounting.GaussianDpEvent(0.8))
    >>> accountant = DpEventAccountant(neighboring_relation=add_or_remove).compose(event, 10_000)
    >>> print(accountant.epsilon_bracket(1e-6))
    [0.94719..., 0.94719...]
    """

    def __init__(
        self,
        *,
        neighboring_relation: NeighboringRelation,
        noise: NoiseUnit | None = None,
        by: Certified = BY_DEFAULT,
    ) -> None:
        relation = from_neighboring_relation(neighboring_relation)
        super().__init__(neighboring_relation)
        self._noise = check_noise_unit(relation, noise)
        self._spent = Ledger(relation=relation, by=by)

    @property
    def relation(self) -> Relation:
        """Who counts as a neighbour."""
        return self._spent.relation

    @property
    def run(self) -> Run:
        """Everything composed so far, noise in units of C."""
        return self._spent.run

    def get_epsilon(self, target_delta: float) -> float:
        """The smallest epsilon that is certain to hold at `target_delta`."""
        return self.epsilon_bracket(target_delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """The smallest delta that is certain to hold at `target_epsilon`."""
        return self.delta_bracket(target_epsilon).upper

    def epsilon_bracket(self, target_delta: float) -> Bracket:
        """Both ends: the guarantee above, and below what real neighbouring datasets reach."""
        return self._spent.epsilon(target_delta)

    def delta_bracket(self, target_epsilon: float) -> Bracket:
        """Both ends: the guarantee above, and below what real neighbouring datasets reach."""
        return self._spent.delta(target_epsilon)

    def _maybe_compose(
        self, event: DpEvent, count: int, do_compose: bool
    ) -> PrivacyAccountant.CompositionErrorDetails | None:
        # dp_accounting asks without composing first, and has put the event into its own ledger by the time it
        # asks to compose: refuse the first time or never.
        refusal = self._refuse(event, count)
        if refusal is None and do_compose:
            self._spent.record(from_dp_event(event, self.relation, noise=self._noise) * count)
        return refusal

    def _refuse(self, event: DpEvent, count: int) -> PrivacyAccountant.CompositionErrorDetails | None:
        refused, run = event, Run()
        try:
            for release, times in releases(event):
                refused = release
                step = read_release(release, self.relation, self._noise)
                analyse(step * 1, self.relation, QUICK)
                run += step * times
            refused = event
            analyse(self.run + run * count, self.relation, QUICK)
        except TightropeError as why:
            return self.CompositionErrorDetails(invalid_event=refused, error_message=str(why))
        return None
