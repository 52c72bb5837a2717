"""Rechecked settings as cells, sentences, a page and plain data."""

import dataclasses
import math
import textwrap
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from reproduction.published.file import DROPPED, JOINED, KEPT, NOT_STATED, SEVERAL_DRAWS, SHUFFLE, Setting
from reproduction.published.row import Row, Standing
from tightrope.answers.verdict import written
from tightrope.curve.bracket import Bracket, round_to
from tightrope.report.digits import ends
from tightrope.report.words import spelled
from tightrope.setting.relation import SUBSTITUTE, Relation

_WIDTH = 125
_DIGITS = 5
_ONE_NUMBER = 1e-4  # relative width below which a bracket is written as one number
_HEADING = [
    "setting",
    "claimed epsilon",
    "delta",
    "certified as accounted",
    "the claim is",
    "implemented",
    "proved as implemented",
]
_HEADING += ["for that, the claim is", "missing"]
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
Training runs whose papers, tutorials and configurations print their hyperparameters and an epsilon, accounted again on equal
terms. Nothing here was trained: the numbers are those the sources print, and the sources are named below. *Certified as
accounted* is the bracket for the sampling that the claim was accounted with; where no relation is stated, add-or-remove comes
first and substitute second. *Proved as implemented* takes the batches as the named lines of code draw them: for a shuffle a
lower end, which real neighbouring datasets reach, and an upper end without amplification where one is proved.

A claim above the certified epsilon is valid for that sampling, and loose, as bounds from Rényi moments are. A claim can be
right for the sampling that was accounted and say nothing about other batches: to shuffle and to account Poisson sampling is a
common practice (Chua et al. 2024, arXiv 2411.04205), and the documentation of some of these projects says so itself. *Claim too
small* means that real neighbouring datasets reach a larger epsilon than the claim, if batches are drawn as stated in orders that
are uniformly random and the model is released after every step, as these accountants assume. *Not decided* means that the claim
lies between the proved ends, and *missing* is what one would have to know besides.
"""


def table(rows: Sequence[Row]) -> list[list[str]]:
    """One line of cells per row, under a heading."""
    return [_HEADING, *([row.setting.id, *_cells(row)] for row in rows)]


def _cells(row: Row) -> list[str]:
    setting = row.setting
    return [
        setting.claimed_epsilon.text,
        NOT_STATED if setting.delta is None else f"{setting.delta:g}",
        _accounted(row),
        _against(row),
        setting.implemented or NOT_STATED,
        "as accounted" if row.as_accounted else _proved(row),
        "" if row.as_accounted else _against_proved(row),
        ", ".join(row.missing) or "-",
    ]


def _accounted(row: Row) -> str:
    if not row.accounted:
        return "-"
    first, *others = row.accounted.items()
    return "; ".join(
        [_short(first[1]), *(f"{spelled(relation)} {_short(found)}" for relation, found in others)]
    )


def _short(bracket: Bracket) -> str:
    return (
        written([bracket])[0]
        if bracket.relative_width < _ONE_NUMBER
        else " to ".join(ends(bracket, _DIGITS - 1))
    )


def _against(row: Row) -> str:
    if row.standing is Standing.ABOVE and row.excess is not None:
        return f"{100 * row.excess:.0f} % above"
    return "-" if row.standing is Standing.UNKNOWN else row.standing.value


def _proved(row: Row) -> str:
    first = next(iter(row.implemented.values()))
    return "-" if _knows_nothing(first.epsilon) else _in_words(first.epsilon)


def _against_proved(row: Row) -> str:
    return "-" if row.standing_as_implemented is Standing.UNKNOWN else row.standing_as_implemented.value


def _knows_nothing(bracket: Bracket) -> bool:
    return bracket.lower <= 0 and math.isinf(bracket.upper)


def _in_words(bracket: Bracket) -> str:
    least = [f"at least {round_to(bracket.lower, 3, down=True)}"] if bracket.lower > 0 else []
    most = [f"at most {round_to(bracket.upper, 3, down=False)}"] if math.isfinite(bracket.upper) else []
    return ", ".join(least + most)


def summary(rows: Sequence[Row]) -> list[str]:
    """What the rows say together."""
    known = [row for row in rows if row.accounted]
    above = [row.excess for row in known if row.standing is Standing.ABOVE and row.excess is not None]
    small = _named(row for row in known if row.standing is Standing.TOO_SMALL)
    others = [row for row in rows if row.setting.implemented is not None and not row.as_accounted]
    told = [f"{len(rows)} settings, of which {len(known)} state enough to be accounted again."]
    if above:
        spread = f"by {100 * min(above):.0f} % to {100 * max(above):.0f} %"
        told.append(f"As accounted, {len(above)} claims are above the certified epsilon, {spread}.")
    told.append(
        f"As accounted, the claim is too small in: {small}."
        if small
        else "As accounted, no claim is too small."
    )
    if others:
        beyond = [row for row in others if row.standing_as_implemented is Standing.TOO_SMALL]
        told.append(f"In {len(others)} settings batches are not drawn as accounted.")
        if beyond:
            told.append(f"For batches drawn as stated, the claim is too small in: {_named(beyond)}.")
    unstated = [row for row in rows if row.setting.relation is None]
    if unstated:
        exchanged = sum(SUBSTITUTE in row.too_small_under for row in unstated)
        told.append(
            f"The relation is not stated in {len(unstated)}; under substitute {exchanged} of these claims would be too small."
        )
    return told


def _named(rows: Iterable[Row]) -> str:
    return ", ".join(row.setting.id for row in rows)


def markdown_page(rows: Sequence[Row], path: Path) -> str:
    """The page as Markdown."""
    command = f"python -m reproduction published {path.as_posix()} --markdown"
    parts = [
        "# Published claims, accounted again",
        f"This page is made by `{command}`; `{path.as_posix()}` holds the settings.",
    ]
    parts += [_INTRODUCTION.strip(), " ".join(summary(rows)), _markdown_table(table(rows)), "## The settings"]
    parts += [part for row in rows for part in _described(row)]
    return "\n\n".join(part if part.startswith(("#", "|", "-")) else _filled(part) for part in parts) + "\n"


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def _filled(text: str, indent: str = "") -> str:
    paragraphs = text.split("\n\n")
    wrapper = textwrap.TextWrapper(
        width=_WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent
    )
    return "\n\n".join(wrapper.fill(paragraph) for paragraph in paragraphs)


def _described(row: Row) -> list[str]:
    setting = row.setting
    claim = f"epsilon {setting.claimed_epsilon.text} at delta {NOT_STATED if setting.delta is None else f'{setting.delta:g}'}"
    lines = [
        f"Claimed: {claim}, by {setting.accountant}; the unit is {setting.unit}; {setting.dataset}.",
        f"Source: {setting.citation}. {setting.source}",
        f"As accounted: {_question(setting)}. {_answers(row)}",
        f"As implemented: {_batches(setting)}.{_source(setting)} {_proofs(row)}",
        *(f"Missing: {key}; {what.removesuffix('.')}." for key, what in row.missing.items()),
        *(f"Note: {note}" for note in setting.notes),
    ]
    return [
        f"### {setting.title} ({setting.id})",
        "\n".join(_filled(f"- {line.strip()}", indent="  ") for line in lines),
    ]


def _question(setting: Setting) -> str:
    noise = NOT_STATED if setting.noise_multiplier is None else f"{setting.noise_multiplier:.10g}"
    steps = "steps not stated" if setting.steps is None else setting.steps.how
    rate = "" if setting.rate is None or setting.accounted == "every-record" else f" at rate {_rate(setting)}"
    relation = "relation not stated" if setting.relation is None else spelled(setting.relation)
    return (
        f"noise multiplier {noise}; {setting.accounted or 'sampling not stated'}{rate}; {steps}; {relation}"
    )


def _rate(setting: Setting) -> str:
    if setting.batch and setting.records:
        return f"{setting.batch:,} / {setting.records:,}"
    return f"{float(setting.rate or 0):g}"


def _answers(row: Row) -> str:
    if not row.accounted:
        return "Not computed."
    found = " and ".join(
        f"{_bracket(bracket)} under {spelled(relation)}" for relation, bracket in row.accounted.items()
    )
    kindest = "" if len(row.accounted) == 1 else ", under the smaller of the two"
    verdict = {
        Standing.ABOVE: f"the claim is {_against(row)} the upper end{kindest}",
        Standing.AGREES: f"the claim agrees with it to its printed digits{kindest}",
        Standing.TOO_SMALL: "claim too small: it is below the lower end",
        Standing.UNDECIDED: "the claim lies between the ends",
        Standing.UNKNOWN: "",
    }[row.standing]
    others = (
        ""
        if row.standing is Standing.TOO_SMALL
        else " and ".join(spelled(relation) for relation in row.too_small_under)
    )
    return f"Certified: epsilon in {found}; {verdict}." + (
        f" Under {others} it would be too small." if others else ""
    )


def _bracket(bracket: Bracket) -> str:
    lower, upper = ends(bracket, _DIGITS)
    return f"[{lower}, {upper}]"


def _batches(setting: Setting) -> str:
    if setting.implemented == SHUFFLE:
        return f"shuffle; {_RESHUFFLED[setting.reshuffled]}; {_LAST_BATCHES[setting.last_batch]}"
    if setting.implemented == SEVERAL_DRAWS:
        each = (
            ""
            if setting.rate is None or not setting.draws
            else f" at rate {float(setting.rate / setting.draws):g} each"
        )
        return f"each step sums {setting.draws} Poisson draws{each}"
    return setting.implemented or NOT_STATED


def _source(setting: Setting) -> str:
    return f" {setting.implemented_source}" if setting.implemented_source else ""


def _proofs(row: Row) -> str:
    if row.as_accounted:
        return "This is what was accounted."
    told = []
    for relation, found in row.implemented.items():
        known = (
            ""
            if _knows_nothing(found.epsilon)
            else f"epsilon is {_in_words(found.epsilon)} under {spelled(relation)}"
        )
        provided = f", provided that {found.provided}" if found.provided else ""
        proofs = f" ({', '.join(evidence.name for evidence in found.because)})" if found.because else ""
        why_not = (
            f"no upper end: {found.why_not}"
            if found.why_not and known
            else f"no bound: {found.why_not}"
            if found.why_not
            else ""
        )
        told.append("; ".join(part for part in (known + provided + proofs, why_not) if part))
    verdict = {
        Standing.TOO_SMALL: " For such batches the claim is too small.",
        Standing.UNDECIDED: " Whether the claim holds for such batches is not decided.",
    }.get(row.standing_as_implemented, "")
    return " ".join(_sentence(each) for each in dict.fromkeys(told)) + verdict


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].removesuffix(".") + "."


def plain_row(row: Row) -> dict[str, Any]:
    """Everything about one setting, as JSON holds it; what is not stated is null and an infinite end is "infinity"."""
    setting = row.setting
    values = {field.name: getattr(setting, field.name) for field in dataclasses.fields(setting)}
    return {
        **{key: _plain(value) for key, value in values.items()},
        "claimed_epsilon": float(setting.claimed_epsilon),
        "claimed_as_printed": setting.claimed_epsilon.text,
        "certified_as_accounted": {
            spelled(relation): _plain(found) for relation, found in row.accounted.items()
        },
        "standing": row.standing.name.lower(),
        "excess": row.excess,
        "proved_as_implemented": {
            spelled(relation): {
                "epsilon": _plain(found.epsilon),
                "theorems": [evidence.name for evidence in found.because],
                "provided": found.provided,
                "why_not": found.why_not,
            }
            for relation, found in row.implemented.items()
        },
        "standing_as_implemented": row.standing_as_implemented.name.lower(),
        "missing": dict(row.missing),
    }


def _plain(value: object) -> Any:
    match value:
        case Bracket():
            return {"lower": _plain(value.lower), "upper": _plain(value.upper)}
        case Relation():
            return spelled(value)
        case Fraction():
            return float(value)
        case float() if math.isinf(value):
            return "infinity"
        case tuple():
            return list(value)
    return (
        dataclasses.asdict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type)
        else value
    )
