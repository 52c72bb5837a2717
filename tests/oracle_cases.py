"""The published reference values as questions: a run, a relation, what is asked, and the exact answer."""

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import tightrope as tr
from precise import mp, mpf
from tightrope.engines.choose import compose
from tightrope.engines.face import ComposedCurve
from tightrope.pairs.schedule import Schedule
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.relation import RELATIONS
from tightrope.setting.sampling import Sampling
from tightrope.theorems.worst_pairs import step_laws

ORACLE = Path(__file__).parent / "oracle" / "cases.json"


@dataclass(frozen=True)
class Case:
    """One reference value. `witness` counts the (remove, add) steps of an adversary under SUBSTITUTE."""

    id: str
    run: tr.Run
    relation: tr.Relation
    epsilon: mpf
    delta: mpf
    asked: str
    exact: Fraction | None
    witness: tuple[int, int] | None


def load() -> tuple[Case, ...]:
    """Every published case."""
    return tuple(_case(entry) for entry in json.loads(ORACLE.read_text()))


def _case(entry: dict[str, Any]) -> Case:
    witness = entry.get("witness")
    return Case(
        id=entry["id"],
        run=sum((_part(step) for step in entry["steps"]), tr.Run()),
        relation=RELATIONS[entry["relation"]],
        epsilon=_number(entry["epsilon"]),
        delta=mpf(entry["delta"]),
        asked=entry["asked"],
        exact=Fraction(entry["delta_exact"]) if "delta_exact" in entry else None,
        witness=(witness["remove_steps"], witness["add_steps"]) if witness else None,
    )


def _number(text: str) -> mpf:
    """A decimal, or log(fraction)."""
    if text.startswith("log("):
        ratio = Fraction(text.removeprefix("log(").removesuffix(")"))
        return mp.log(mpf(ratio.numerator) / ratio.denominator)
    return mpf(text)


def _part(step: dict[str, Any]) -> tr.Run:
    times: int = step["times"]
    return tr.Step(_mechanism(step), _sampling(step)) * times


def _mechanism(step: dict[str, Any]) -> Mechanism:
    match step["mechanism"]:
        case "Gaussian":
            return tr.Gaussian(noise_multiplier=float(step["noise_multiplier"]))
        case "Laplace":
            return tr.Laplace(noise_multiplier=float(step["noise_multiplier"]))
        case "RandomizedResponse":
            return tr.RandomizedResponse(truth_probability=float(Fraction(step["truth_probability"])))
    raise ValueError(step["mechanism"])


def _sampling(step: dict[str, Any]) -> Sampling:
    if step["sampling"] == "EveryRecord":
        return tr.EveryRecord()
    rate = Fraction(step["rate"])
    if step["sampling"] == "Poisson":
        return tr.Poisson(rate=float(rate))
    if step["sampling"] == "WithoutReplacement":
        return tr.WithoutReplacement(batch=rate.numerator, population=rate.denominator)
    raise ValueError(step["sampling"])


def witness_schedule(case: Case) -> Schedule:
    """The adversary's own pairs: the remove pair so often, the add pair so often."""
    assert case.witness is not None
    ((step, _),) = case.run
    laws = step_laws(step.mechanism, step.sampling, tr.REMOVE)
    return Schedule([(laws.remove(), case.witness[0]), (laws.add(), case.witness[1])])


@dataclass(frozen=True)
class Answer:
    """What Tightrope says to a case: a bracket of ln delta and, where a curve exists, of delta or epsilon."""

    log_delta: tr.Bracket
    delta: tr.Bracket | None = None
    epsilon: tr.Bracket | None = None


@cache
def answer(case: Case, accuracy: float) -> Answer:
    """Tightrope's answer to `case`, computed once per accuracy."""
    epsilon = float(case.epsilon)
    if case.witness is not None:
        composed: ComposedCurve = compose(witness_schedule(case))
        bounds = composed.log_bounds(epsilon, accuracy)
        return Answer(tr.Bracket(bounds.lower, bounds.upper))
    curve = tr.privacy_curve(case.run, relation=case.relation, by=tr.Certified(accuracy=accuracy))
    if case.asked == "eps_at_delta":
        return Answer(curve.log_delta(epsilon), epsilon=curve.epsilon(float(case.delta)))
    return Answer(curve.log_delta(epsilon), delta=curve.delta(epsilon))
