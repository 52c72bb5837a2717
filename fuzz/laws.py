"""Laws that hold for every run, and `Exact` where no reference in closed form exists."""

import math
from fractions import Fraction
from random import Random
from typing import Any

import tightrope as tr
from fuzz.draws import RELATIONS, Plain, draw_any_part, draw_delta, draw_run, draw_width, spread
from fuzz.verdict import (
    Interval,
    Kind,
    Verdict,
    accountant,
    curve_of,
    ends,
    exact_curve_of,
    judged,
    run_of,
    step_of,
)

CLOSE = (1.0, 1.0, 1.0, 0.9, 0.5, 1.1, 2.0, 10.0, -0.5)  # multiples of a telling epsilon


def exceeds(lower: Interval, upper: Interval, law: str) -> str | None:
    """What is wrong if the first value certainly exceeds the second, although `law` forbids it."""
    if lower.lower > upper.upper:
        return f"{law}: {lower.lower!r} > {upper.upper!r}"
    return None


def apart(one: Interval, other: Interval, law: str) -> str | None:
    """What is wrong if two brackets of the same number do not overlap."""
    return exceeds(one, other, law) or exceeds(other, one, law)


def _telling_epsilon(question: Plain) -> float:
    """An epsilon near which the curve has the question's delta, as Tightrope itself finds it."""
    found = curve_of(question, accuracy=1e-3, effort="quick").epsilon(question["delta"]).upper
    return float(found) * question["close"] if math.isfinite(found) else 1.0


def _draw(rng: Random, most_steps: float = 1e9) -> Plain:
    question = {"run": draw_run(rng, most_steps), "relation": rng.choice(RELATIONS), "delta": draw_delta(rng)}
    return {**question, "close": rng.choice(CLOSE)}


# -- one number, asked twice ---------------------------------------------------------------------------------


def _judge_accuracies(question: Plain) -> Verdict:
    at = _telling_epsilon(question)
    asked = [curve_of(question, accuracy=accuracy) for accuracy in (1e-3, 1e-6)]
    deltas = [curve.log_delta(at) for curve in asked]
    epsilons = [curve.epsilon(question["delta"]) for curve in asked]
    answer = {"at": at, "log_delta": [*map(ends, deltas)], "epsilon": [*map(ends, epsilons)]}
    return judged(
        [apart(deltas[0], deltas[1], "accuracies"), apart(epsilons[0], epsilons[1], "accuracies")], answer
    )


def _judge_inverse(question: Plain) -> Verdict:
    curve, delta = curve_of(question), question["delta"]
    epsilon = curve.epsilon(delta)
    target = tr.Bracket(delta, delta)
    problems: list[str | None] = []
    answer: Plain = {"epsilon": ends(epsilon)}
    if math.isfinite(epsilon.upper):
        found = curve.delta(epsilon.upper)
        problems.append(exceeds(found, target, "delta(epsilon.upper) <= delta"))
        answer["delta at the upper end"] = ends(found)
    if 0 < epsilon.lower < math.inf:
        found = curve.delta(epsilon.lower)
        problems.append(exceeds(target, found, "delta(epsilon.lower) >= delta"))
        answer["delta at the lower end"] = ends(found)
    return judged(problems, answer)


def _judge_add_or_remove(question: Plain) -> Verdict:
    """ADD_OR_REMOVE is the worse of both."""
    at = _telling_epsilon({**question, "relation": "ADD_OR_REMOVE"})
    both, add, remove = (
        curve_of(question, relation=relation).log_delta(at) for relation in ("ADD_OR_REMOVE", "ADD", "REMOVE")
    )
    worse = tr.Bracket(max(add.lower, remove.lower), max(add.upper, remove.upper))
    answer = {"at": at, "both": ends(both), "add": ends(add), "remove": ends(remove)}
    return judged([apart(both, worse, "the worse of both")], answer)


def _judge_ledger(question: Plain) -> Verdict:
    """A ledger that records the run in pieces answers as the run does, to the last bit."""
    ledger = tr.Ledger(relation=question["relation"], by=accountant(question))
    for part in question["run"]:
        some = part["steps"] // 3
        for steps in (some, part["steps"] - some):
            ledger.record(run_of([{**part, "steps": steps}]))
    by_ledger = ledger.epsilon(question["delta"])
    by_run = curve_of(question).epsilon(question["delta"])
    answer = {"ledger": ends(by_ledger), "run": ends(by_run)}
    return judged([None if by_ledger == by_run else "the ledger answers differently"], answer)


def _draw_game(rng: Random) -> Plain:
    question = _draw(rng)
    population = max(int(spread(rng, 2, 1000)), 2)
    part = {
        "mechanism": rng.choice(("gaussian", "gaussian", "laplace")),
        "noise_multiplier": spread(rng, 0.25, 50),
        "sampling": "without-replacement",
        "batch": rng.randint(1, population - 1),
        "population": population,
        "steps": rng.choice((2, 2, 3, 4, 6)),
    }
    return {**question, "run": [part], "relation": "SUBSTITUTE"}


def _judge_game(question: Plain) -> Verdict:
    at = _telling_epsilon(question)
    quick, tight = (curve_of(question, effort=effort).log_delta(at) for effort in ("quick", "tight"))
    answer = {"at": at, "quick": ends(quick), "tight": ends(tight)}
    return judged([apart(quick, tight, "efforts")], answer)


def _draw_exact(rng: Random) -> Plain:
    question = _draw(rng, 1e4)
    close = rng.choice((1.0, 1.0, 0.9, 0.5, 1.1, -0.5))  # far out it takes long
    return {**question, "close": close, "width": draw_width(rng, 1e-3, question["delta"])}


def _judge_exact(question: Plain) -> Verdict:
    """Exact integers and the engines in floats bracket the same numbers."""
    at, exact, certified = _telling_epsilon(question), exact_curve_of(question), curve_of(question)
    deltas = certified.log_delta(at), exact.log_delta(at)
    epsilons = certified.epsilon(question["delta"]), exact.epsilon(question["delta"])
    answer = {"at": at, "log_delta": [*map(ends, deltas)], "epsilon": [*map(ends, epsilons)]}
    return judged([apart(one, other, "exact") for one, other in (deltas, epsilons)], answer)


# -- more of one thing ---------------------------------------------------------------------------------------


def _draw_more(rng: Random) -> Plain:
    question = _draw(rng)
    part = question["run"][0]
    ways = ["steps", "epsilon"]
    ways += ["noise"] if "noise_multiplier" in part else []
    ways += ["rate"] if part["sampling"] == "poisson" else []
    ways += ["batch"] if part["sampling"] == "without-replacement" else []
    return {**question, "more": rng.choice(ways), "by": spread(rng, 1e-9, 10)}


def _judge_more(question: Plain) -> Verdict:
    """More steps, a higher rate or a larger batch cost no less; more noise or epsilon costs no more."""
    at = _telling_epsilon(question)
    first, *others = question["run"]
    share = question["by"]
    grown, later = dict(first), at
    match question["more"]:
        case "steps":
            grown["steps"] = min(max(int(first["steps"] * (1 + share)), first["steps"] + 1), 10**15)
        case "noise":
            grown["noise_multiplier"] = float(Fraction(first["noise_multiplier"])) * (1 + share)
        case "rate":
            grown["rate"] = min(float(Fraction(first["rate"])) * (1 + share), 1.0)
        case "batch":
            most = first["population"] - 1
            grown["batch"] = min(max(int(first["batch"] * (1 + share)), first["batch"] + 1), most)
        case "epsilon":
            later = at + share
    before = curve_of(question).log_delta(at)
    after = curve_of(question, run=[grown, *others]).log_delta(later)
    less, more = (before, after) if question["more"] in ("steps", "rate", "batch") else (after, before)
    answer = {"at": at, "before": ends(before), "after": ends(after)}
    return judged([exceeds(less, more, f"more {question['more']}")], answer)


def _judge_renyi_bound(question: Plain) -> Verdict:
    """A bound by moments is not below what is attained."""
    run, relation = run_of(question["run"]), question["relation"]
    bound = tr.privacy_curve(run, relation=relation, by=tr.Renyi()).epsilon(question["delta"])
    found = curve_of(question).epsilon(question["delta"])
    wrong = f"attained: {found.lower!r} > {bound.upper!r}" if found.lower > bound.upper else None
    return judged([wrong], {"renyi": bound.upper, "certified": ends(found)})


# -- calibrations --------------------------------------------------------------------------------------------


def _draw_calibration(rng: Random) -> Plain:
    part = draw_any_part(rng, 1e6)
    if part["sampling"] == "every-record" and rng.random() < 0.5:
        part = draw_any_part(rng, 1e6)
    ways = ["steps"]
    ways += ["noise"] if "noise_multiplier" in part else []
    ways += ["rate"] if part["sampling"] == "poisson" else []
    ways += ["batch"] if part["sampling"] == "without-replacement" else []
    target = {"epsilon": spread(rng, 1e-3, 100), "delta": spread(rng, 1e-30, 0.5)}
    return {"run": [part], "relation": rng.choice(RELATIONS), "wanted": rng.choice(ways), **target}


def _calibrate(question: Plain) -> tuple[Any, str]:
    """The calibration, and the key of the part that it sets."""
    (part,) = question["run"]
    target = {key: question[key] for key in ("epsilon", "delta", "relation")}
    step, steps = step_of(part), part["steps"]
    match question["wanted"]:
        case "steps":
            return tr.most_steps(step, **target), "steps"
        case "rate":
            return tr.largest_rate(step.mechanism, steps=steps, **target), "rate"
        case "batch":
            size = part["population"]
            return tr.largest_batch(step.mechanism, population=size, steps=steps, **target), "batch"
    kind = type(step.mechanism)
    assert kind is tr.Gaussian or kind is tr.Laplace
    return tr.smallest_noise(step.sampling, steps=steps, mechanism=kind, **target), "noise_multiplier"


def _judge_calibration(question: Plain) -> Verdict:
    """At the value the target is met, and beyond it is missed, also at a finer accuracy."""
    (part,) = question["run"]
    found, key = _calibrate(question)
    answer: Plain = {"value": found.value, "beyond": found.beyond}
    target = tr.Bracket(question["delta"], question["delta"])

    def spend(value: float) -> tr.Bracket:
        run = [{**part, key: value}] if value else []
        for accuracy in (1e-6, 1e-3):
            try:
                return curve_of(question, run=run, accuracy=accuracy).delta(question["epsilon"])
            except tr.NotPreciseEnough:
                continue
        return tr.Bracket(0.0, 1.0)

    safe = spend(found.value)
    problems = [exceeds(safe, target, "the value is safe")]
    answer["delta"] = ends(safe)
    if found.beyond is not None:
        unsafe = spend(found.beyond)
        problems.append(exceeds(target, unsafe, "the value beyond is not"))
        answer["delta beyond"] = ends(unsafe)
    return judged(problems, answer)


LAWS = {
    "accuracies": Kind(_draw, _judge_accuracies, 250),
    "inverse": Kind(_draw, _judge_inverse, 400),
    "add or remove": Kind(_draw, _judge_add_or_remove, 400),
    "ledger": Kind(_draw, _judge_ledger, 300),
    "exact": Kind(_draw_exact, _judge_exact, 200),
    "game": Kind(_draw_game, _judge_game, 150),
    "more": Kind(_draw_more, _judge_more, 500),
    "renyi bound": Kind(_draw, _judge_renyi_bound, 300),
    "calibration": Kind(_draw_calibration, _judge_calibration, 150),
}
