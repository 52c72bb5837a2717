"""Questions whose truth is known in balls: every answer is claims against it."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from random import Random

from flint import arb

import tightrope as tr
from fuzz.balls import exact, precision
from fuzz.claims import Claims, largest_at, log_of
from fuzz.draws import draw_delta, draw_known_run, draw_telling_epsilon, draw_width
from fuzz.references import Curve, NormalRun
from fuzz.truth import Truth, find_truth
from fuzz.verdict import Kind, Plain, Verdict, curve_of, ends, exact_curve_of, run_of, step_of

ACCURACIES = {
    "closed": (1e-3, 1e-3, 1e-6),
    # a lattice takes seconds for more, and what it does is the same
    "mixed": (1e-2, 1e-3, 1e-3, 1e-4),
    "two steps": (1e-2, 1e-3, 1e-3, 1e-4),
}


# -- delta and epsilon ---------------------------------------------------------------------------------------


def _draw_delta(rng: Random, shape: str = "closed") -> Plain:
    run, relation, truth = draw_known_run(rng, shape)
    epsilon = draw_telling_epsilon(rng, truth)
    accuracy = rng.choice(ACCURACIES[shape])
    asked = {"run": run, "relation": relation, "epsilon": epsilon, "accuracy": accuracy}
    return {**asked, "log": rng.random() < 0.5}


def _judge_delta(question: Plain) -> Verdict:
    curve, at = curve_of(question), question["epsilon"]
    found = curve.log_delta(at) if question["log"] else curve.delta(at)
    claims = Claims(find_truth(question["run"], question["relation"]))
    claims.delta(at, found, log=question["log"])
    return claims.verdict({"log_delta" if question["log"] else "delta": ends(found)})


def _draw_epsilon(rng: Random, shape: str = "closed") -> Plain:
    run, relation, truth = draw_known_run(rng, shape)
    delta = draw_delta(rng)
    with precision(128):
        mass = truth.infinite_mass()
    if mass > 0 and rng.random() < 0.5:  # beside the mass at infinity
        delta = min(max(float(mass), 1e-300), 1 - 1e-15)
        for _ in range(rng.randint(0, 4)):
            delta = math.nextafter(delta, rng.choice((0.0, 1.0)))
    return {"run": run, "relation": relation, "delta": delta, "accuracy": rng.choice(ACCURACIES[shape])}


def _judge_epsilon(question: Plain) -> Verdict:
    found = curve_of(question).epsilon(question["delta"])
    claims = Claims(find_truth(question["run"], question["relation"]))
    claims.epsilon(question["delta"], found)
    return claims.verdict({"epsilon": ends(found)})


def _judge_infinite_mass(question: Plain) -> Verdict:
    found = curve_of(question).infinite_mass
    claims = Claims(find_truth(question["run"], question["relation"]))
    claims.between(found.lower, claims.truth.infinite_mass, found.upper, "the mass at infinity")
    return claims.verdict({"infinite_mass": ends(found)})


# -- attacks -------------------------------------------------------------------------------------------------


def _draw_attack(rng: Random) -> Plain:
    question = _draw_delta(rng)
    for part in question["run"]:
        if "noise_multiplier" not in part:  # the search below asks for a hundred sums over outcomes
            part["steps"] = min(part["steps"], 6)
    share = draw_delta(rng)
    return {**question, "false_positive_rate": max(share, 1e-280), "prior": draw_delta(rng)}


def _judge_attack(question: Plain) -> Verdict:
    """T(a) = inf over odds t of D(t) + t a, and the success (1-p) + p D((1-p)/p)."""
    attack = curve_of(question).trade_off()
    rate, prior = question["false_positive_rate"], question["prior"]
    hits, success = attack.true_positive_rate(rate), attack.attack_success(prior)
    truth = find_truth(question["run"], question["relation"])
    claims = Claims(truth)
    p = Fraction(prior)
    if success.upper < 1:
        least = partial(_success, p, truth.lower)
        claims.between(-1, least, success.upper, "the success")
    if success.lower > max(p, 1 - p):
        most = partial(_success, p, truth.upper)
        claims.between(success.lower, most, 2, "the success")
    with precision(128):
        odds = _best_odds(truth, exact(rate))
    claims.between(hits.lower, lambda: _hits_at(truth.upper, rate, odds), math.inf, "the true positive rate")
    if hits.upper < 1:
        with precision(1000):
            chord = _least_hits(truth, rate, odds)
        if chord is not None and chord > exact(hits.upper):
            claims.wrong.append(f"the true positive rate is at least {chord.str(20)}")
    return claims.verdict({"true_positive_rate": ends(hits), "attack_success": ends(success)})


def _success(prior: Fraction, curves: Sequence[Curve]) -> arb:
    return exact(1 - prior) + exact(prior) * largest_at(curves, exact((1 - prior) / prior))


def _hits_at(curves: Sequence[Curve], rate: float, odds: arb) -> arb:
    return largest_at(curves, odds) + odds * exact(rate)


def _best_odds(truth: Truth, rate: arb) -> arb:
    """About where D(t) + t a is least: a search by thirds in ln t."""
    low, high = arb(-900), arb(900)
    for _ in range(90):
        third = (high - low) / 3
        one, two = (low + third).mid(), (high - third).mid()
        values = [largest_at(truth.upper, x.exp()) + x.exp() * rate for x in (one, two)]
        low, high = (low, two) if values[0].mid() <= values[1].mid() else (one, high)
    return ((low + high) / 2).mid().exp().mid()


def _least_hits(truth: Truth, rate: float, odds: arb) -> arb | None:
    """A lower bound on T: the least D(t) + t a lies between chords that fall and rise, where D falls."""
    for width in (arb(2) ** -40, arb(2) ** -20):
        points = [odds * (1 + place * width) for place in (-2, -1, 1, 2)]
        totals = [_hits_at(truth.lower, rate, t) for t in points]
        if totals[0] >= totals[1] and totals[2] <= totals[3]:
            return largest_at(truth.lower, points[3]) + points[0] * exact(rate)
    return None


# -- other accountants ---------------------------------------------------------------------------------------


def _draw_renyi(rng: Random) -> Plain:
    question = _draw_delta(rng)
    return {**question, "delta": draw_delta(rng), "order": 1 + 10 ** rng.uniform(-6, 6)}


def _judge_renyi(question: Plain) -> Verdict:
    run, relation = run_of(question["run"]), question["relation"]
    curve = tr.privacy_curve(run, relation=relation, by=tr.Renyi())
    epsilon, delta = curve.epsilon(question["delta"]).upper, curve.delta(question["epsilon"]).upper
    log_delta, rho = curve.log_delta(question["epsilon"]).upper, curve.zero_concentrated().upper
    divergence = curve.divergence(question["order"]).upper
    truth = find_truth(question["run"], relation)
    claims = Claims(truth)
    if math.isfinite(epsilon):
        claims.at_most(epsilon, question["delta"])
    claims.at_most(question["epsilon"], delta)
    if log_delta < 0:
        claims.between(-math.inf, lambda: log_of(truth.at_least(question["epsilon"])), log_delta, "ln delta")
    for normal in truth.lower:
        if isinstance(normal, NormalRun):
            exact_rho = normal.mu_squared / 2
            if math.isfinite(rho) and Fraction(rho) < exact_rho:
                claims.wrong.append("rho is larger")
            if math.isfinite(divergence) and Fraction(divergence) < exact_rho * Fraction(question["order"]):
                claims.wrong.append("the divergence is larger")
    answer = {
        "epsilon": epsilon,
        "delta": delta,
        "log_delta": log_delta,
        "rho": rho,
        "divergence": divergence,
    }
    return claims.verdict(answer)


def _draw_simulation(rng: Random) -> Plain:
    question = {**_draw_epsilon(rng), **_draw_delta(rng)}
    return {**question, "seed": rng.randint(0, 10**6)}


def _judge_simulation(question: Plain) -> Verdict:
    """So high a confidence that a single miss is a mistake."""
    by = tr.MonteCarlo(draws=1000, confidence=1 - 1e-12, seed=question["seed"])
    curve = tr.privacy_curve(run_of(question["run"]), relation=question["relation"], by=by)
    delta, epsilon = curve.delta(question["epsilon"]), curve.epsilon(question["delta"])
    claims = Claims(find_truth(question["run"], question["relation"]))
    claims.delta(question["epsilon"], delta)
    claims.epsilon(question["delta"], epsilon)
    return claims.verdict({"delta": ends(delta), "epsilon": ends(epsilon)})


def _draw_exact(rng: Random) -> Plain:
    question = {**_draw_epsilon(rng, rng.choice(("closed", "closed", "two steps")))}
    epsilon = draw_telling_epsilon(rng, find_truth(question["run"], question["relation"]))
    width = max(draw_width(rng, 1e-5, question["delta"]), 1e-5 * abs(epsilon))
    return {**question, "epsilon": epsilon, "width": min(width, 1.0)}


def _judge_exact(question: Plain) -> Verdict:
    curve = exact_curve_of(question)
    delta, epsilon = curve.delta(question["epsilon"]), curve.epsilon(question["delta"])
    claims = Claims(find_truth(question["run"], question["relation"]))
    claims.delta(question["epsilon"], delta)
    claims.epsilon(question["delta"], epsilon)
    return claims.verdict({"delta": ends(delta), "epsilon": ends(epsilon)})


# -- calibrations --------------------------------------------------------------------------------------------


def _draw_noise(rng: Random) -> Plain:
    run, relation, _ = draw_known_run(rng, "closed")
    while len(run) > 1 or "noise_multiplier" not in run[0]:
        run, relation, _ = draw_known_run(rng, "closed")
    epsilon = abs(draw_telling_epsilon(rng, find_truth(run, relation)))
    return {"run": run, "relation": relation, "epsilon": epsilon, "delta": draw_delta(rng)}


def _judge_noise(question: Plain) -> Verdict:
    """The value meets the target, and the value beyond misses it."""
    (part,) = question["run"]
    target = {key: question[key] for key in ("epsilon", "delta", "relation")}
    mechanism = tr.Gaussian if part["mechanism"] == "gaussian" else tr.Laplace
    sampling = step_of(part).sampling
    found = tr.smallest_noise(sampling, steps=part["steps"], mechanism=mechanism, **target)
    answer = {"value": found.value, "beyond": found.beyond}
    claims = Claims(find_truth([{**part, "noise_multiplier": found.value}], question["relation"]))
    claims.at_most(question["epsilon"], question["delta"])
    if found.beyond is not None:
        missed = Claims(find_truth([{**part, "noise_multiplier": found.beyond}], question["relation"]))
        missed.at_least(question["epsilon"], question["delta"])
        claims.wrong += [problem and f"beyond: {problem}" for problem in missed.wrong]
        claims.undecided |= missed.undecided
    return claims.verdict(answer)


KNOWN = {
    "delta": Kind(_draw_delta, _judge_delta, 55_000),
    "epsilon": Kind(_draw_epsilon, _judge_epsilon, 28_000),
    "delta, mixed": Kind(lambda rng: _draw_delta(rng, "mixed"), _judge_delta, 300),
    "epsilon, mixed": Kind(lambda rng: _draw_epsilon(rng, "mixed"), _judge_epsilon, 300),
    "delta, two steps": Kind(lambda rng: _draw_delta(rng, "two steps"), _judge_delta, 400),
    "epsilon, two steps": Kind(lambda rng: _draw_epsilon(rng, "two steps"), _judge_epsilon, 400),
    "infinite mass": Kind(_draw_epsilon, _judge_infinite_mass, 8_000),
    "attack": Kind(_draw_attack, _judge_attack, 1_500),
    "renyi": Kind(_draw_renyi, _judge_renyi, 1_500),
    "monte carlo": Kind(_draw_simulation, _judge_simulation, 1_500),
    "exact, known": Kind(_draw_exact, _judge_exact, 300),
    "noise for one release": Kind(_draw_noise, _judge_noise, 1_200),
}
