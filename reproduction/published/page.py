"""Rechecked runs as a table, sentences, a page and plain data."""

import dataclasses
import math
import textwrap
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from reproduction.markdown import markdown_table
from reproduction.published.recheck import ClaimStanding, RecheckedRun
from reproduction.published.runs_file import (
    DROPPED,
    JOINED,
    KEPT,
    NOT_STATED,
    SEVERAL_DRAWS,
    SHUFFLE,
    PublishedRun,
)
from tightrope.curve.bracket import Bracket
from tightrope.curve.digits import ends, write_brackets
from tightrope.numerics.text import align, round_outwards
from tightrope.setting.plain import spell
from tightrope.setting.relation import SUBSTITUTE, Relation

_WIDTH = 110
_DIGITS = 5
_ONE_NUMBER = 1e-4  # relative width below which a bracket is written as one number
_HEADING = (
    "setting",
    "claimed epsilon",
    "delta",
    "certified as accounted",
    "the claim is",
    "implemented",
    "proved as implemented",
    "for that, the claim is",
    "missing",
)
_LAST_BATCHES = {
    KEPT: "the last batch of an epoch is kept",
    DROPPED: "the last batch of an epoch is dropped if it is not full",
    JOINED: "a batch may join the end of one epoch with the start of the next",
    None: "what becomes of the last batch of an epoch is not stated",
}
_RESHUFFLED = {
    True: "every epoch has a new order",
    False: "every epoch has the same order",
    None: "new orders are not stated",
}

_INTRODUCTION = """\
Training runs whose papers, tutorials and configurations print their hyperparameters and an epsilon, accounted
again on equal terms. Nothing here was trained: the numbers are those the sources print, and the sources are
named below. *Certified as accounted* is the bracket for the sampling that the claim was accounted with; where
no relation is stated, add-or-remove comes first and substitute second. *Proved as implemented* takes the
batches as the named lines of code draw them: for a shuffle a lower end, which real neighbouring datasets
reach, and an upper end where one is proved.

A claim above the certified epsilon is valid for that sampling, and loose, as bounds from Rényi moments are;
by how much is rounded down. A claim can be right for the sampling that was accounted and say nothing about
other batches: to shuffle and to account Poisson sampling is a common practice (Chua et al. 2024, arXiv
2411.04205), and the documentation of some of these projects says so itself. *Claim too small* means that real
neighbouring datasets reach a larger epsilon than the claim, if batches are drawn as stated in orders that are
uniformly random and the model is released after every step, as these accountants assume. *Not decided* means
that the claim lies between the proved ends, and *missing* is what one would have to know besides.
"""


def text_table(found: Sequence[RecheckedRun]) -> str:
    """One line per run under a heading, and what the runs say together."""
    return "\n".join([align(table(found)), "", *summary(found)])


def table(found: Sequence[RecheckedRun]) -> list[list[str]]:
    """One line of cells per run, under a heading."""
    return [list(_HEADING), *([each.run.id, *_cells(each)] for each in found)]


def _cells(found: RecheckedRun) -> list[str]:
    run = found.run
    return [
        run.claimed_epsilon.text,
        NOT_STATED if run.delta is None else f"{run.delta:g}",
        _accounted(found),
        _against(found),
        run.implemented or NOT_STATED,
        "as accounted" if found.is_as_accounted else _proved(found),
        "" if found.is_as_accounted else _unless_unknown(found.standing_as_implemented),
        ", ".join(found.missing) or "-",
    ]


def _accounted(found: RecheckedRun) -> str:
    if not found.accounted:
        return "-"
    (_, first), *others = found.accounted.items()
    return "; ".join(
        [_in_short(first), *(f"{spell(relation)} {_in_short(each)}" for relation, each in others)]
    )


def _in_short(bracket: Bracket) -> str:
    if bracket.relative_width < _ONE_NUMBER:
        return write_brackets([bracket])[0]
    return " to ".join(ends(bracket, _DIGITS - 1))


def _against(found: RecheckedRun) -> str:
    if found.standing is ClaimStanding.ABOVE and found.excess is not None:
        return f"{_percent(found.excess)} above"
    return _unless_unknown(found.standing)


def _percent(excess: float) -> str:
    """What a claim certainly exceeds the truth by, rounded down."""
    return f"{math.floor(100 * excess)} %"


def _unless_unknown(standing: ClaimStanding) -> str:
    return "-" if standing is ClaimStanding.UNKNOWN else standing.value


def _proved(found: RecheckedRun) -> str:
    first = next(iter(found.implemented.values()))
    return _in_words(first.epsilon) or "-"


def _in_words(bracket: Bracket) -> str:
    """What is known about epsilon; empty where nothing is."""
    least = [f"at least {round_outwards(bracket.lower, 3, up=False)}"] if bracket.lower > 0 else []
    most = [f"at most {round_outwards(bracket.upper, 3, up=True)}"] if math.isfinite(bracket.upper) else []
    return ", ".join(least + most)


def summary(found: Sequence[RecheckedRun]) -> list[str]:
    """What the runs say together."""
    known = [each for each in found if each.accounted]
    above = [
        each.excess for each in known if each.standing is ClaimStanding.ABOVE and each.excess is not None
    ]
    small = _names(each for each in known if each.standing is ClaimStanding.TOO_SMALL)
    told = [f"{len(found)} settings, of which {len(known)} state enough to be accounted again."]
    if above:
        spread = f"by {_percent(min(above))} to {_percent(max(above))}"
        told.append(f"As accounted, {len(above)} claims are above the certified epsilon, {spread}.")
    told.append(
        f"As accounted, the claim is too small in: {small}."
        if small
        else "As accounted, no claim is too small."
    )
    others = [each for each in found if each.run.implemented is not None and not each.is_as_accounted]
    beyond = [each for each in others if each.standing_as_implemented is ClaimStanding.TOO_SMALL]
    if others:
        told.append(f"In {len(others)} settings batches are not drawn as accounted.")
    if beyond:
        told.append(f"For batches drawn as stated, the claim is too small in: {_names(beyond)}.")
    unstated = [each for each in found if each.run.relation is None]
    if unstated:
        exchanged = sum(SUBSTITUTE in each.too_small_under for each in unstated)
        told.append(
            f"The relation is not stated in {len(unstated)}; under substitute {exchanged} of these claims "
            "would be too small."
        )
    return told


def _names(found: Iterable[RecheckedRun]) -> str:
    return ", ".join(each.run.id for each in found)


def markdown_page(found: Sequence[RecheckedRun], path: Path) -> str:
    """The page: what was asked, the table, and each run with its sources, its numbers and what is missing."""
    command = f"python -m reproduction published {path.as_posix()} --markdown"
    parts = [
        "# Published claims, accounted again",
        f"This page is made by `{command}`; `{path.as_posix()}` holds the settings.",
        *_INTRODUCTION.strip().split("\n\n"),
        " ".join(summary(found)),
        markdown_table([[cell.replace("|", "\\|") for cell in row] for row in table(found)]),
        "## The settings",
        *(part for each in found for part in _describe(each)),
    ]
    return "\n\n".join(part if part.startswith(("#", "|", "-")) else _fill(part) for part in parts) + "\n"


def _fill(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent
    )


def _describe(found: RecheckedRun) -> list[str]:
    run = found.run
    delta = NOT_STATED if run.delta is None else f"{run.delta:g}"
    claim = f"epsilon {run.claimed_epsilon.text} at delta {delta}"
    source = f" {run.implemented_source}" if run.implemented_source else ""
    lines = [
        f"Claimed: {claim}, by {run.accountant}; the unit is {run.unit}; {run.dataset}.",
        f"Source: {run.citation}. {run.source}",
        f"As accounted: {_question(run)}. {_answers(found)}",
        f"As implemented: {_batches(run)}.{source} {_proofs(found)}",
        *(f"Missing: {key}; {what.removesuffix('.')}." for key, what in found.missing.items()),
        *(f"Note: {note}" for note in run.notes),
    ]
    return [f"### {run.title} ({run.id})", "\n".join(_fill(f"- {line.strip()}", "  ") for line in lines)]


def _question(run: PublishedRun) -> str:
    noise = NOT_STATED if run.noise_multiplier is None else f"{run.noise_multiplier:.10g}"
    steps = "steps not stated" if run.steps is None else run.steps.how
    rate = "" if run.rate is None or run.accounted == "every-record" else f" at rate {_rate(run)}"
    relation = "relation not stated" if run.relation is None else spell(run.relation)
    return f"noise multiplier {noise}; {run.accounted or 'sampling not stated'}{rate}; {steps}; {relation}"


def _rate(run: PublishedRun) -> str:
    if run.batch and run.records:
        return f"{run.batch:,} / {run.records:,}"
    return f"{float(run.rate or 0):g}"


def _answers(found: RecheckedRun) -> str:
    if not found.accounted:
        return "Not computed."
    epsilons = " and ".join(
        f"[{', '.join(ends(each, _DIGITS))}] under {spell(relation)}"
        for relation, each in found.accounted.items()
    )
    kindest = "" if len(found.accounted) == 1 else ", under the smaller of the two"
    verdict = {
        ClaimStanding.ABOVE: f"the claim is {_against(found)} the upper end{kindest}",
        ClaimStanding.AGREES: f"the claim agrees with it to its printed digits{kindest}",
        ClaimStanding.TOO_SMALL: "claim too small: it is below the lower end",
        ClaimStanding.UNDECIDED: "the claim lies between the ends",
        ClaimStanding.UNKNOWN: "",
    }[found.standing]
    small = () if found.standing is ClaimStanding.TOO_SMALL else found.too_small_under
    others = f" Under {' and '.join(map(spell, small))} it would be too small." if small else ""
    return f"Certified: epsilon in {epsilons}; {verdict}.{others}"


def _batches(run: PublishedRun) -> str:
    if run.implemented == SHUFFLE:
        return f"shuffle; {_RESHUFFLED[run.reshuffled]}; {_LAST_BATCHES[run.last_batch]}"
    if run.implemented == SEVERAL_DRAWS:
        each = f" at rate {float(run.rate / run.draws):g} each" if run.rate is not None and run.draws else ""
        return f"each step sums {run.draws} Poisson draws{each}"
    return run.implemented or NOT_STATED


def _proofs(found: RecheckedRun) -> str:
    if found.is_as_accounted:
        return "This is what was accounted."
    told = []
    for relation, each in found.implemented.items():
        known = _in_words(each.epsilon)
        answer = f"epsilon is {known} under {spell(relation)}" if known else ""
        answer += f", provided that {each.provided}" if each.provided else ""
        answer += f" ({', '.join(evidence.name for evidence in each.because)})" if each.because else ""
        why_not = f"no {'upper end' if known else 'bound'}: {each.why_not}" if each.why_not else ""
        sentence = "; ".join(filter(None, (answer, why_not)))
        told.append(sentence[:1].upper() + sentence[1:].removesuffix(".") + ".")
    verdict = {
        ClaimStanding.TOO_SMALL: " For such batches the claim is too small.",
        ClaimStanding.UNDECIDED: " Whether the claim holds for such batches is not decided.",
    }.get(found.standing_as_implemented, "")
    return " ".join(dict.fromkeys(told)) + verdict


def plain_run(found: RecheckedRun) -> dict[str, Any]:
    """Everything about one run, as JSON holds it; what is not stated is null, an infinite end "infinity"."""
    run = found.run
    stated = [name for name, field in PublishedRun.model_fields.items() if not field.exclude]
    return {
        **{name: _plain(getattr(run, name)) for name in stated},
        "claimed_as_printed": run.claimed_epsilon.text,
        "certified_as_accounted": {spell(each): _plain(end) for each, end in found.accounted.items()},
        "standing": found.standing.name.lower(),
        "excess": found.excess,
        "proved_as_implemented": {
            spell(relation): {
                "epsilon": _plain(each.epsilon),
                "theorems": [evidence.name for evidence in each.because],
                "provided": each.provided,
                "why_not": each.why_not,
            }
            for relation, each in found.implemented.items()
        },
        "standing_as_implemented": found.standing_as_implemented.name.lower(),
        "missing": dict(found.missing),
    }


def _plain(value: object) -> Any:
    match value:
        case Bracket():
            return {"lower": _plain(value.lower), "upper": _plain(value.upper)}
        case Relation():
            return spell(value)
        case float() | Fraction():
            return "infinity" if math.isinf(value) else float(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.asdict(value)
    return value
