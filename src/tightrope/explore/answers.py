"""What the page shows, part by part: the library's answers as plain values, and refusals in words."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from tightrope.accountants.certified import Certified, effort_matters
from tightrope.accountants.gaussian_limit import GaussianLimit
from tightrope.accountants.renyi import Renyi
from tightrope.answers.batches import largest_batch
from tightrope.answers.calibrate import Calibration, most_steps, smallest_noise
from tightrope.answers.compare import compare
from tightrope.answers.contrast import Contrast, ContrastRow, compare_row, judge_claim
from tightrope.answers.spend import epsilon, privacy_curve
from tightrope.audit.claims.shuffled import epsilon_if_shuffled
from tightrope.cli.printed.calibrated import TypedValue
from tightrope.cli.printed.sentences import (
    percent,
    short,
    short_ends,
    tell,
    tell_attack,
    tell_calibration,
    tell_direction,
)
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import write_brackets
from tightrope.engines.face import Progress
from tightrope.errors import Infeasible, NoSuchValue, TightropeError
from tightrope.explore.copies import copy_texts
from tightrope.explore.questions import PAGE, SAMPLINGS, PageQuestion, settle
from tightrope.explore.rows import Ends, takes_long
from tightrope.numerics.text import write_number
from tightrope.report.words import assumed_in_words
from tightrope.setting.effort import TIGHT
from tightrope.setting.relation import RELATION_SPELLINGS
from tightrope.setting.run import Run
from tightrope.setting.sampling import EveryRecord, Shuffled
from tightrope.setting.training import Training
from tightrope.theorems.evidence import Evidence

Plain = dict[str, Any]
Claim = tuple[str, str]  # the printed names of a sampling and a relation

CURVE_POINTS, ATTACK_POINTS, EPOCH_POINTS, FEW_EPOCH_POINTS = 61, 33, 24, 6
FALSE_ALARMS = (0.001, 0.01, 0.1)
FARTHEST = 1e4  # the largest epsilon that a curve is drawn around
QUICK_ACCOUNTANTS = (Certified(), Renyi(), GaussianLimit())


# the answer


def answer_question(asked: PageQuestion) -> Plain:
    """The number in words, what was solved for, why it holds, and how to ask the same elsewhere."""
    if asked.solve:
        return _solve(asked)
    found = ask_epsilon(asked)
    said = tell("epsilon", "delta", [asked.delta], [found])
    return {
        "part": "answer",
        "said": f"{_capital(said)}: {_assumed(asked)}.",
        "number": short_ends(found)[1],
        "of": "epsilon",
        **_describe(asked, asked, found),
    }


def ask_epsilon(
    asked: PageQuestion, by: Certified | None = None, progress: Progress | None = None
) -> Bracket:
    """Epsilon of the settled question; of shuffles with the lower end that fixed datasets reach."""
    how: dict[str, Any] = {"delta": asked.delta, "relation": asked.relation, "by": by or Certified()}
    if asked.sampling is Shuffled:
        return epsilon_if_shuffled(asked.plan(), asked.noised(), **how)
    found: Bracket = epsilon(asked.run(), progress=progress, **how)
    return found


def _solve(asked: PageQuestion) -> Plain:
    typed, settled = solve_for(asked)
    at = f"epsilon {write_number(asked.epsilon or 0.0)} at delta {write_number(asked.delta)}"
    number, of, more = typed.text, {"noise": "noise multiplier"}.get(asked.solve, "records in a batch"), ""
    if asked.solve == "epochs":
        epochs = settled.epochs or 0
        number, of = str(epochs) if isinstance(epochs, int) else short(float(epochs), up=False), "epochs"
        more = f" ({number} epoch{'s' * (epochs != 1)})"
    calibration = typed.calibration
    said = tell_calibration(calibration.parameter, typed.text, typed.missing, at, more)
    return {
        "part": "answer",
        "said": f"{said}: {_assumed(asked)}.",
        "number": number,
        "of": of,
        **_describe(asked, settled, typed.epsilon),
        "solved": {"value": _number(calibration.value), "beyond": _number(calibration.beyond)},
    }


def solve_for(asked: PageQuestion) -> tuple[TypedValue[Any], PageQuestion]:
    """The value to type, and the question in which it is stated."""
    target: dict[str, Any] = {"epsilon": asked.epsilon, "delta": asked.delta, "relation": asked.relation}
    found: Calibration[Any]
    if asked.solve == "noise":
        plan, noise = asked.plan(), asked.mechanism

        def run(value: float) -> Run:
            return plan.run(noise(noise_multiplier=value))

        found = smallest_noise(plan, mechanism=noise, **target)
        typed = TypedValue.rounded(found, run, up=True)
        return typed, settle(asked, noise=typed.value)
    if asked.solve == "batch":
        assert asked.epochs is not None
        size: dict[str, Any] = {"population": asked.records, "epochs": asked.epochs}
        found = largest_batch(asked.noised(), sampling=asked.sampling, **size, **target)  # type: ignore[arg-type]
        return TypedValue.exact(found, steps_follow=True), settle(asked, batch=found.value)
    return _solve_epochs(asked, target)


def _solve_epochs(asked: PageQuestion, target: dict[str, Any]) -> tuple[TypedValue[Any], PageQuestion]:
    """The most steps, as epochs."""
    plan = _plan_one_epoch(asked)
    found = most_steps(plan.step(asked.noised()), **target)
    if not found.value:
        remedy = "Add noise, or accept a larger {epsilon} or {delta}."
        raise Infeasible(f"not even one step meets {found.target.named}", remedy, limit=0.0)
    epochs = found.value * plan.sampling.exact_rate
    return TypedValue.exact(found), settle(asked, epochs=epochs if epochs.denominator > 1 else int(epochs))


def _describe(asked: PageQuestion, settled: PageQuestion, found: Bracket) -> Plain:
    """What an answer carries besides its number."""
    return {
        "state": asked.state,
        "settled": settled.state,
        "training": str(settled.plan()),
        "epsilon": write_bracket(found),
        "why": _explain(settled, found),
        "copies": copy_texts(asked, settled),
    }


def _explain(settled: PageQuestion, found: Bracket) -> Plain:
    decided = found.decided_by
    run = settled.run()
    gap = None if found.gap is None else found.gap.in_words(PAGE)
    tight = found.gap is not None and "TIGHT" in found.gap.remedy and effort_matters(run, settled.relation)
    return {
        "theorems": [] if decided is None else [write_theorem(each) for each in decided.because],
        "reached_by": "" if decided is None else decided.reached_by,
        "branch": "" if decided is None else decided.branch.lower(),
        "direction": tell_direction(settled.relation),
        "gap": gap,
        "conditions": list(found.conditions),
        "tight": {"seconds": found.gap.seconds} if tight and found.gap is not None else None,
    }


def write_theorem(evidence: Evidence) -> Plain:
    """A theorem as the page shows it."""
    return {
        "name": evidence.name,
        "statement": evidence.in_words(PAGE),
        "standing": evidence.standing.value,
        "reference": evidence.reference,
        "proof": evidence.proof.rpartition("/")[2],
    }


# the bars


def answer_row(asked: PageQuestion, row: Claim, claimed: Ends | None, found: Ends | None = None) -> Plain:
    """One bar: the same training under this sampling and relation, and how many times the claim it is.

    What was `found` before is not asked for again.
    """
    sampling, relation = SAMPLINGS[row[0]], RELATION_SPELLINGS[row[1]]
    other = settle(asked, sampling=sampling, relation=relation)
    drawn = other.plan().sampling
    shown: Plain = {
        "part": "bar",
        "sampling": row[0],
        "relation": row[1],
        "label": assumed_in_words([drawn], relation),
        "steps": other.plan().steps,
        "claimed": (sampling, relation) == (asked.sampling, asked.relation),
        "state": other.state,
    }
    try:
        epsilon = ask_epsilon(other) if found is None else Bracket(*found)
    except TightropeError as refusal:
        return {**shown, "refusal": refusal.in_words(PAGE)}
    ratio = ""
    if claimed is not None:
        rows = ContrastRow(sampling, relation, other.run(), (epsilon,))
        claim = (Bracket(*claimed),) if not shown["claimed"] else rows.epsilons
        table = Contrast(other.run(), (asked.delta,), (), (asked.sampling, asked.relation))
        ratio = "".join(table.ratios_in_words(compare_row(rows, claim))).strip(" ()")
    return {**shown, "epsilon": write_bracket(epsilon), "ratio": ratio}


def judge(
    asked: PageQuestion, known: Sequence[tuple[str, str, float, float]], *, is_complete: bool = True
) -> Plain:
    """What a reader must know: the largest mismatch between the claim and the other rows.

    A mismatch stands whatever comes. That there is none is said of the rows so far until all have come, and
    at this rate: full batches that exceed the claim are named, because their bar is shown as well.
    """
    answers = {(SAMPLINGS[row[0]], RELATION_SPELLINGS[row[1]]): Bracket(row[2], row[3]) for row in known}
    claimed = asked.sampling, asked.relation
    said = judge_claim(claimed, answers)
    if claimed not in answers:
        return {"part": "verdict", "said": said}
    larger = {row: found for row, found in answers.items() if found.lower > answers[claimed].upper}
    full = [found for row, found in larger.items() if row[0] is EveryRecord and row[0] is not asked.sampling]
    if len(full) == len(larger):
        said = said if is_complete else f"So far: {said[:1].lower()}{said[1:]}"
        if full:
            said += f" Full batches make it {write_brackets([max(full, key=lambda each: each.lower)])[0]}."
    return {"part": "verdict", "said": said}


# the charts


def draw_curve(asked: PageQuestion) -> Plain:
    """Both ends of delta over epsilon, from 0 to twice the epsilon asked about."""
    curve = privacy_curve(asked.run(), relation=asked.relation)
    answer = curve.epsilon(asked.delta).upper
    if not answer <= FARTHEST:
        said = f"epsilon is {short_ends(Bracket(answer, answer))[1]} at {{delta}} {write_number(asked.delta)}"
        raise NoSuchValue(f"{said}: there is no curve to draw", limit=math.inf)
    most = answer or 1.0
    at = [2 * most * i / (CURVE_POINTS - 1) for i in range(CURVE_POINTS)]
    points = [
        [x, _number(found.lower), _number(found.upper)] for x, found in zip(at, curve.delta(at), strict=True)
    ]
    return {"part": "curve", "points": points, "epsilon": _number(answer), "delta": asked.delta}


def draw_attack(asked: PageQuestion) -> Plain:
    """The trade-off of the best attack, and how often it is right."""
    attack = privacy_curve(asked.run(), relation=asked.relation).trade_off()
    success = attack.attack_success(0.5)
    alarms = []
    for rate in FALSE_ALARMS:
        found = attack.true_positive_rate(rate)
        alarms.append({"false": rate, "true": write_bracket(found), "percent": percent(found.upper)})
    rates, misses = attack.points(ATTACK_POINTS)
    points = [
        [float(rate), _number(miss.lower), _number(miss.upper)]
        for rate, miss in zip(rates, misses, strict=True)
    ]
    said = f"{tell_attack([0.5], [success], asked.relation)}."
    return {
        "part": "attack",
        "said": said,
        "success": write_bracket(success),
        "alarms": alarms,
        "points": points,
    }


def draw_epochs(asked: PageQuestion) -> Iterator[Plain]:
    """Epsilon after each of some shares of twice the epochs, as they are found."""
    count = FEW_EPOCH_POINTS if takes_long(asked) else EPOCH_POINTS
    for i in range(1, count + 1):
        epochs = 2 * asked.plan().exact_epochs * Fraction(i, count)
        found = ask_epsilon(settle(asked, epochs=epochs))
        point = [float(epochs), _number(found.lower), _number(found.upper)]
        yield {"part": "epochs", "point": point, "of": count, "budget": asked.epsilon}


def ask_others(asked: PageQuestion, *, patiently: bool) -> Plain:
    """What the other accountants say: those that are quick, or all of them."""
    how: dict[str, Any] = {"relation": asked.relation, "delta": asked.delta}
    table = compare(asked.run(), by=Certified() if patiently else QUICK_ACCOUNTANTS, **how)
    rows = []
    for row in table.rows:
        found = row.epsilons[0] if row.epsilons else None
        rows.append(
            {
                "name": row.name,
                "promise": row.by.promise,
                "answer": "" if found is None else str(found),
                "lower": _number(getattr(found, "lower", getattr(found, "value", None))),
                "upper": _number(getattr(found, "upper", getattr(found, "value", None))),
                "beside": table.locate(row, 0),
                "refusal": "" if row.refusal is None else row.refusal.in_words(PAGE),
            }
        )
    return {"part": "accountants", "rows": rows, "all": patiently}


def work_harder(asked: PageQuestion, progress: Progress) -> Plain:
    """The claimed epsilon with effort TIGHT, which narrows its bracket."""
    found = ask_epsilon(asked, Certified(effort=TIGHT), progress)
    said = tell("epsilon", "delta", [asked.delta], [found])
    return {
        "part": "tight",
        "said": f"{_capital(said)}: {_assumed(asked)}.",
        "number": short_ends(found)[1],
        "of": "epsilon",
        "epsilon": write_bracket(found),
        "why": {**_explain(asked, found), "tight": None},
        "copies": copy_texts(asked, asked, TIGHT),
    }


# plain values


def write_bracket(found: Bracket) -> Plain:
    """Both ends, as numbers and as people read them."""
    low, high = short_ends(found)
    return {"lower": _number(found.lower), "upper": _number(found.upper), "low": low, "high": high}


def _number(value: Any) -> Any:
    """A number as JSON has it; what is infinite is a word."""
    return "infinity" if isinstance(value, float) and math.isinf(value) else value


def _assumed(asked: PageQuestion) -> str:
    return assumed_in_words([_plan_one_epoch(asked).sampling], asked.relation)


def _plan_one_epoch(asked: PageQuestion) -> Training:
    """A plan whose batches are drawn as in the question, also while epochs or batch are to be found."""
    batch = None if asked.sampling is EveryRecord else asked.batch or 1
    return Training(records=asked.records, batch=batch, epochs=1, sampling=asked.sampling)


def _capital(said: str) -> str:
    return said[:1].upper() + said[1:]


def as_lines(found: Plain | Iterable[Plain]) -> Iterable[Plain]:
    """One part or several."""
    return [found] if isinstance(found, dict) else found


PARTS: dict[str, Callable[..., Plain | Iterable[Plain]]] = {
    "answer": answer_question,
    "bar": answer_row,
    "verdict": judge,
    "curve": draw_curve,
    "attack": draw_attack,
    "epochs": draw_epochs,
    "accountants": ask_others,
    "tight": work_harder,
}
