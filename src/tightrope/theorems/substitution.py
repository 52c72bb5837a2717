"""An exchanged record and batches of a fixed size: two covers, and the datasets that come closest to them.

The worst step depends on what was seen before, so no pair is tight under composition. The envelope
dominates every step on its own. The game lets an adversary choose each step from all earlier outputs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tightrope.pairs.exchange import Exchange, Game
from tightrope.pairs.pair import Pair
from tightrope.pairs.schedule import Schedule
from tightrope.pairs.shift_pair import ShiftPair
from tightrope.setting.effort import QUICK, Effort
from tightrope.setting.mechanism import Gaussian, Laplace
from tightrope.setting.relation import SUBSTITUTE, Relation
from tightrope.setting.run import Step
from tightrope.setting.sampling import WithoutReplacement
from tightrope.theorems.composition import COMPOSITION
from tightrope.theorems.evidence import PROVED, Evidence
from tightrope.theorems.table import Analysis, Cover, Witness
from tightrope.theorems.worst_pairs import step_laws

GAME_COVER = Evidence(
    "substitution_game_cover",
    "The worst adaptive choice of triangles, over a finite list that dominates every triple, bounds the "
    "curve of every adaptive run of Gaussian steps without replacement under {SUBSTITUTE}.",
    PROVED,
    "proof note; extends Lebeda, Regehr, Kamath, Steinke 2024, sections 7-8",
    "proofs/substitution_game.md",
)
ENVELOPE_ALONE = Evidence(
    "substitution_envelope_alone",
    "Where the game has no cover (noise that is not Gaussian, or below 0.2 or above 100), the envelope alone "
    "is the upper end.",
    PROVED,
    "proof note",
    "proofs/substitution_envelope.md",
)
ADAPTIVE = "a record that is +1 or -1 and shared records at -1 or +1, chosen from all earlier outputs"
REMOVING = "D = (-1, ..., -1, 1) and D' = (-1, ..., -1, -1)"
EVERY_SPLIT = 8  # up to so many steps, try every split between the two directions
SOME_SPLITS = 64  # and up to so many, some


@dataclass(frozen=True)
class DominatedStep:
    """One kind of step of a run, with the pair that dominates it, why, and which datasets come closest."""

    step: Step
    times: int
    dominating: Pair
    evidence: Evidence
    attained_by: str
    below: Pair | None = None  # what these datasets reach, where it is not the dominating pair
    also: tuple[Evidence, ...] = ()  # on what else the pair rests

    @property
    def because(self) -> tuple[Evidence, ...]:
        """Everything the pair rests on."""
        return self.evidence, *self.also

    @property
    def reached(self) -> Pair:
        """The pair of the datasets `attained_by`."""
        return self.dominating if self.below is None else self.below

    @property
    def exchanges(self) -> bool:
        """Whether an exchanged record can go either way in a batch of fixed size that is sampled."""
        return isinstance(self.step.sampling, WithoutReplacement) and 0 < self.step.sampling.exact_rate < 1

    @property
    def remove(self) -> Pair:
        """The pair of the direction in which the record stands out in P."""
        if not self.exchanges:
            return self.dominating
        return step_laws(self.step.mechanism, self.step.sampling, SUBSTITUTE).remove()

    def split(self, removing: int) -> list[tuple[Pair, int]]:
        """`removing` steps in the remove direction, the others in the add direction."""
        if not self.exchanges:
            return [(self.reached, self.times)]
        return [(self.remove, removing), (self.remove.reverse, self.times - removing)]


def is_exchange(parts: list[DominatedStep], branch: Relation) -> bool:
    """Whether no single schedule is known to be the curve."""
    return branch is SUBSTITUTE and any(part.exchanges for part in parts)


def analyse_exchange(parts: list[DominatedStep], effort: Effort) -> Analysis:
    """Covers and witnesses of a run with an exchanged record and at least one batch of fixed size."""
    envelopes = Schedule((part.dominating, part.times) for part in parts)
    because = dict.fromkeys(why for part in parts for why in part.because)
    if envelopes.steps > 1:
        because[COMPOSITION] = None
    if effort is QUICK or envelopes.steps == 1:  # a single step's envelope is attained
        cover = Cover((envelopes,), tuple(because))
        return Analysis(SUBSTITUTE, (cover,), tuple(_directions(parts)))
    game = _cover_by_game(parts)
    alone = Cover((envelopes,), (*because, ENVELOPE_ALONE) if game is None else tuple(because))
    covers = (alone,) if game is None else (alone, game)
    return Analysis(SUBSTITUTE, covers, (*_directions(parts), *_adaptive_witness(parts)))


def _cover_by_game(parts: list[DominatedStep]) -> Cover | None:
    """The game over the weightiest kind of Gaussian steps, or None; the other steps keep their pairs."""
    played = _weightiest([part for part in parts if part.exchanges and _is_covered(part)], Gaussian)
    if played is None:
        return None
    others = [part for part in parts if part is not played]
    why = dict.fromkeys((GAME_COVER, *(why for part in others for why in part.because), COMPOSITION))
    return Cover((_game(played, [(part.dominating, part.times) for part in others]),), tuple(why))


def _adaptive_witness(parts: list[DominatedStep]) -> Iterator[Witness]:
    """An adversary who chooses each step of the weightiest kind; the other steps go their fixed way."""
    played = _weightiest(parts, Gaussian) or _weightiest(parts, Laplace)
    if played is None:
        return
    others = [part for part in parts if part is not played]
    pairs = [pair for part in others for pair in part.split(part.times)]
    fixed = dict.fromkeys(REMOVING if part.exchanges else part.attained_by for part in others)
    yield Witness(_game(played, pairs), "; in the other steps ".join((ADAPTIVE, *fixed)))


def _weightiest(
    parts: list[DominatedStep], mechanism: type[Gaussian] | type[Laplace]
) -> DominatedStep | None:
    """The kind of sampled steps that loses most: times * rate^2 * chi-squared divergence of its two ends."""
    kinds = [part for part in parts if part.exchanges and isinstance(part.step.mechanism, mechanism)]
    return max(kinds, key=_log_weight, default=None)


def _log_weight(part: DominatedStep) -> float:
    pair = part.remove
    if not isinstance(pair, ShiftPair):
        return -math.inf
    shift = pair.observed.shift
    exponent = shift**2 if isinstance(part.step.mechanism, Gaussian) else shift
    log_divergence = math.log(math.expm1(exponent)) if exponent < 30 else exponent
    return math.log(part.times) + 2 * pair.observed.log_rate + log_divergence


def _is_covered(part: DominatedStep) -> bool:
    return isinstance(part.remove, ShiftPair) and _game(part, []).exchange.is_covered


def _game(part: DominatedStep, others: list[tuple[Pair, int]]) -> Game:
    pair = part.remove
    assert isinstance(pair, ShiftPair)
    exchange = Exchange(pair.noise, pair.observed.exact_rate, pair.observed.exact_shift)
    return Game(exchange, part.times, Schedule(others))


def _directions(parts: list[DominatedStep]) -> Iterator[Witness]:
    """Fixed directions: all steps one way, all the other, and some of each, in proportion for every kind."""
    kinds = [part for part in parts if part.exchanges]
    main = max(kinds, key=lambda part: part.times)
    gaussian = all(isinstance(part.step.mechanism, Gaussian) for part in kinds)
    elsewhere = dict.fromkeys(part.attained_by for part in parts if not part.exchanges)
    seen = set()
    for removing in _splits(main.times, gaussian=gaussian):
        share = removing / main.times
        pairs = [pair for part in parts for pair in part.split(round(share * part.times))]
        schedule = Schedule(pairs)
        if schedule not in seen:
            seen.add(schedule)
            adding = main.times - removing
            how = f"{REMOVING}, the other way round in {adding} of {main.times} steps" if adding else REMOVING
            yield Witness(schedule, "; ".join((how, *elsewhere)))


def _splits(times: int, *, gaussian: bool) -> list[int]:
    """How many steps go in the remove direction, most promising first."""
    if times <= EVERY_SPLIT:
        return list(range(times, -1, -1))
    if gaussian:
        # Removing costs at least as much as adding (gaussian_remove_dominates_add).
        # No mixture was seen to cost more.
        return [times, times - 1, times // 2]
    if times <= SOME_SPLITS:
        return [times, 3 * times // 4, times // 2, times // 4, 0]
    return [times, 0]  # in longer runs of Laplace noise no split was seen to gain more than 4e-5
