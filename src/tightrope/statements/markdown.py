"""A privacy statement as a block of a model card: front matter for programs, a table for people."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tightrope.audit.claims.judge import Verdict
from tightrope.audit.finding import Scheme
from tightrope.curve.bracket import Bracket
from tightrope.errors import InvalidSetting
from tightrope.report.digits import ends
from tightrope.report.words import mechanism_in_words, relation_in_words, sampling_in_words
from tightrope.setting.mechanism import Finite, Mechanism
from tightrope.setting.run import Step
from tightrope.statements.model import Ends, Statement

KEY = "differential_privacy"
OPENS, CLOSES = "<!-- tightrope-statement -->", "<!-- /tightrope-statement -->"

_RESTS_ON = {
    "declared": "somebody says so, and nobody looked",
    "inspected": "the structure of the loader was read",
    "watched": "recorded batches were tested",
}
_NUMBERS_OF_BATCHES = {
    "records": "records",
    "batch": "batch",
    "epoch": "batches per epoch",
    "full": "full batches at the start of an epoch",
    "share": "largest probability that one draw takes a given record",
    "draws": "draws per step",
    "rate": "rate of one draw",
}


@dataclass(frozen=True)
class Entry:
    """One subject of a statement and what is said about it; `typed` texts are typed as they stand, such as commands."""

    subject: str
    texts: tuple[str, ...]
    typed: bool = False


def markdown(statement: Statement, card: str = "") -> str:
    """The statement as Markdown, put into `card` where one is given: front matter and body are replaced, or added.

    Everything else in the card stays as it is, byte for byte.
    """
    newline = "\r\n" if "\r\n" in card else "\n"
    block = "".join(line + newline for line in yaml_lines({KEY: _summary(statement)}))
    body = newline.join([OPENS, *_body(statement), CLOSES])
    front, rest = _with_front_matter(card, block, newline)
    return front + _with_body(rest, body, newline, starts_a_line=front[-1] in "\r\n")


def standing(statement: Statement) -> str:
    """How firmly the claim is established for what runs: proved, conjectured, not proved, or refuted.

    It is refuted if epsilon is certified to be larger than claimed.
    """
    claimed, runs = statement.claim.epsilon, statement.certified.runs
    if claimed < runs.lower:
        return "refuted"
    standings = {theorem.standing for theorem in statement.theorems}
    if runs.upper is None or claimed < runs.upper or not standings or "refuted" in standings:
        return "not proved"
    return "conjectured" if "conjectured" in standings else "proved"


def claim_in_words(statement: Statement) -> str:
    """The claim as a formal sentence, which says so where the claim is not proved or is false."""
    claim, runs = statement.claim, statement.certified.runs
    private = f"({plain_number(claim.epsilon)}, {plain_number(claim.delta)})-differentially private in the {statement.setting} setting"
    lower, upper = ends(_bracket(runs))
    known = f"at most {upper} is" if runs.upper is not None else "no bound is"
    opening = {
        "proved": f"The release is {private}",
        "conjectured": f"If the conjectures below are true, the release is {private}",
        "not proved": f"It is claimed, and not proved, that the release is {private}",
        "refuted": f"It is claimed that the release is {private}",
    }[standing(statement)]
    verdict = {
        "not proved": f" For what runs, {known} known of epsilon.",
        "refuted": f" The claim is false: for what runs, epsilon is at least {lower}.",
    }.get(standing(statement), "")
    who = f"neighbours: {relation_in_words(statement.neighbours)}; unit: {_unit(statement)}."
    unchecked = sum(one.holds == "not checked" for one in statement.assumptions)
    stated = f"{len(statement.assumptions)} assumption{'s' * (len(statement.assumptions) != 1)}"
    rests = f" This rests on {stated}, {unchecked} of which not checked." if statement.assumptions else ""
    return f"{opening}; {who}{verdict}{rests}"


def entries(statement: Statement) -> list[Entry]:
    """Everything that a statement says, subject by subject."""
    claim, certified, dataset = statement.claim, statement.certified, statement.dataset
    verdict = f"{certified.verdict}: {Verdict[certified.verdict.upper()].value}"
    sizes = [
        f"{name} {plain_number(value)}"
        for name, value in (
            ("records", dataset.records),
            ("batch", dataset.batch),
            ("epochs", dataset.epochs),
        )
        if value is not None
    ]
    stated = [
        Entry("description", (statement.description,)),
        Entry(
            "claim",
            (
                f"epsilon {plain_number(claim.epsilon)}, delta {plain_number(claim.delta)}: {standing(statement)}",
            ),
        ),
        Entry("setting", (statement.setting,)),
        Entry("data accesses covered", (statement.data_accesses,)),
        Entry("tuning", (statement.tuning,)),
        Entry("outputs covered", (statement.outputs,)),
        Entry("unit", (_unit(statement),)),
        Entry("neighbours", (relation_in_words(statement.neighbours),)),
        Entry("mechanism", tuple(mechanisms_in_words(statement))),
        Entry("noise multiplier", (statement.noise_convention,)),
        Entry("sampling as accounted", tuple(samplings_in_words(statement))),
        Entry("sampling as implemented", tuple(implemented_in_words(statement))),
        Entry("steps", (str(statement.accounted.steps),)),
        Entry("dataset", (", ".join(sizes),)),
        Entry("epsilon as accounted", (ends_in_words(certified.accounted),)),
        Entry("epsilon of what runs", (ends_in_words(certified.runs),)),
        Entry("verdict", (verdict,)),
        Entry("provided that", (certified.provided,)),
        Entry("why nothing is proved", (certified.why_not,)),
        Entry(
            "assumptions",
            tuple(f"{one.says} Holds: {one.holds}. {one.because}" for one in statement.assumptions),
        ),
        Entry("theorems", tuple(theorems_in_words(statement))),
        Entry("code", (statement.code,), typed=True),
        Entry("checked by", (statement.command,), typed=True),
        Entry("accountant", (accountant(statement),)),
    ]
    return [entry for entry in stated if any(entry.texts)]


def mechanisms_in_words(statement: Statement) -> list[str]:
    """The noise of each part of the run."""
    return _of_each_part(statement, lambda step: _mechanism(step.mechanism))


def samplings_in_words(statement: Statement) -> list[str]:
    """How the batches of each part of the run were accounted."""
    return _of_each_part(statement, lambda step: sampling_in_words(step.sampling))


def implemented_in_words(statement: Statement) -> Iterator[str]:
    """How batches are really drawn, what that rests on, and the numbers that were found."""
    found, finding = statement.implemented, statement.finding
    yield f"{_scheme(statement)}: {Scheme[found.scheme.upper()].value}"
    yield found.sentence
    yield f"Evidence: {found.evidence} ({_RESTS_ON[found.evidence]})."
    if finding.sampling is not None and sampling_in_words(finding.sampling) not in found.sentence:
        yield sampling_in_words(finding.sampling)
    numbers = [(words, getattr(found, name)) for name, words in _NUMBERS_OF_BATCHES.items()]
    said = [f"{words} {plain_number(value)}" for words, value in numbers if value is not None]
    if found.rate_range is not None:
        said.append(f"rates that agree with the batches {' to '.join(map(plain_number, found.rate_range))}")
    if found.times != 1:
        said.append(f"a record comes at most {found.times} times per epoch")
    if found.alike:
        said.append("one record fewer changes one place of an epoch")
    if found.reshuffles is not None:
        said.append("every epoch draws a new order" if found.reshuffles else "the order stays the same")
    if said:
        yield "; ".join(said)
    yield from found.notes


def theorems_in_words(statement: Statement) -> Iterator[str]:
    """Each theorem with its standing and where its proof is."""
    for theorem in statement.theorems:
        yield f"{theorem.name}: {theorem.statement} [{theorem.standing}: {theorem.reference}]"


def accountant(statement: Statement) -> str:
    """What computed the numbers."""
    return f"tightrope {statement.tightrope}"


def ends_in_words(certified: Ends) -> str:
    """A certified bracket, each end rounded outwards.

    >>> ends_in_words(Ends(lower=2 / 3, upper=None))
    'at least 0.666666; no upper end is proved'
    """
    lower, upper = ends(_bracket(certified))
    return (
        f"at least {lower}; no upper end is proved"
        if certified.upper is None
        else f"at least {lower}, at most {upper}"
    )


def plain_number(value: float) -> str:
    """A number with all its digits, so that reading it gives the same number.

    >>> plain_number(50.0), plain_number(0.1 + 0.2), plain_number(1e-6)
    ('50', '0.30000000000000004', '1e-06')
    """
    return repr(value).removesuffix(".0")


def escaped(text: str) -> str:
    r"""Plain text that no reader of Markdown takes for markup, on one line.

    >>> print(escaped("a|b *c* x_1 _d_ <e> $2"))
    a\|b \*c\* x_1 \_d\_ &lt;e&gt; \$2
    """
    text = re.sub(r"[\\`*\[\]|$~#]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", text.strip())
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, entity)
    return re.sub(r"[\r\n]+", "<br>", text)


def yaml_lines(table: Mapping[str, object], indent: str = "") -> Iterator[str]:
    r"""Nested tables, lists and plain values as lines of YAML that every reader takes for the same values.

    >>> print(*yaml_lines({"a": {"delta": 1e-6}, "b": ["x: y"]}), sep="\n")
    a:
      delta: 1.0e-06
    b:
      - "x: y"
    """
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from yaml_lines(value, indent + "  ")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield f"{indent}{key}:"
            for item in value:
                lines = yaml_lines(item, indent + "    ") if isinstance(item, Mapping) else [_scalar(item)]
                yield f"{indent}  - " + "\n".join(lines).lstrip()
        else:
            yield f"{indent}{key}: {_scalar(value)}"


def _scalar(value: object) -> str:
    if isinstance(value, str):
        # YAML reads these as line ends or refuses them; beyond 16 bits it knows no pairs of escapes, so those stay
        unreadable = "[\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
        return re.sub(
            unreadable, lambda sign: f"\\u{ord(sign[0]):04x}", json.dumps(value, ensure_ascii=False)
        )
    if isinstance(value, float):
        digits, e, exponent = repr(value).partition("e")
        return f"{digits}.0e{exponent}" if e and "." not in digits else repr(value)
    return json.dumps(value)


def _summary(statement: Statement) -> dict[str, object]:
    return {
        "epsilon": statement.claim.epsilon,
        "delta": statement.claim.delta,
        "standing": standing(statement),
        "unit": statement.unit.protects,
        "relation": statement.relation,
        "noise": "; ".join(mechanisms_in_words(statement)),
        "sampling_accounted": "; ".join(samplings_in_words(statement)),
        "sampling_implemented": _scheme(statement),
        "sampling_evidence": statement.implemented.evidence,
        "verdict": statement.certified.verdict,
        "certified_epsilon": {
            "lower": statement.certified.runs.lower,
            "upper": statement.certified.runs.upper,
        },
        "steps": statement.accounted.steps,
        "accountant": accountant(statement),
    }


def _body(statement: Statement) -> Iterator[str]:
    yield from (f"## Differential privacy of {escaped(' '.join(statement.name.split()))}", "")
    yield from (escaped(claim_in_words(statement)), "")
    yield from ("| subject | statement |", "| --- | --- |")
    for entry in entries(statement):
        written = [_typed(text) if entry.typed else escaped(text) for text in entry.texts]
        yield f"| {entry.subject} | {'<br>'.join(written)} |"


def _typed(text: str) -> str:
    plain = re.fullmatch(r"[^\s`\\|<>](?:[^`\\|<>\r\n]*[^\s`\\|<>])?", text)
    return f"`{text}`" if plain else f"<code>{escaped(text)}</code>"


def _with_front_matter(card: str, block: str, newline: str) -> tuple[str, str]:
    """The front matter of a card with the block in it, and the rest of the card."""
    mark = "\ufeff" if card.startswith("\ufeff") else ""  # of byte order, which some editors write
    text = card.removeprefix(mark)
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
    fences = [place for place, line in enumerate(lines) if line.rstrip() == "---"]
    if len(fences) < 2 or fences[0] > 0:
        return f"{mark}---{newline}{block}---{newline}", text and newline + text
    last = fences[1]
    matter = lines[1:last]
    first = next((line for line in matter if line.strip() and not line.startswith("#")), f"{KEY}:")
    if not re.match(r"[^\s{\[-][^:]*:(\s|$)", first):
        raise InvalidSetting(
            f"card must open with keys at the start of their lines, got {first.rstrip()!r}. "
            "Write the front matter of the card as lines such as license: mit."
        )
    before = next((place for place, line in enumerate(matter) if _is_key(line)), len(matter))
    matter = [*matter[:before], block, *_without_key(matter[before:])]
    return "".join([mark, lines[0], *matter, lines[last]]), "".join(lines[last + 1 :])


def _is_key(line: str) -> bool:
    return re.match(rf"""(["']?){KEY}\1[ \t]*:""", line) is not None


def _without_key(matter: list[str]) -> list[str]:
    kept: list[str] = []
    waiting: list[str] = []  # blank lines and comments, which belong to the key only if more of it follows
    inside = False
    for line in matter:
        if _is_key(line):
            inside = True
        elif inside and (not line.strip() or line.startswith("#")):
            waiting.append(line)
            continue
        elif inside and not re.match(r"[ \t}\]]|-\s", line):
            inside = False
        kept += [] if inside else [*waiting, line]
        waiting = []
    return kept + waiting


def _with_body(rest: str, body: str, newline: str, *, starts_a_line: bool) -> str:
    opened, closed = rest.count(OPENS), rest.count(CLOSES)
    if not opened and not closed:
        ended = rest[-1] in "\r\n" if rest else starts_a_line
        return f"{rest}{'' if ended else newline}{newline}{body}{newline}"
    start, end = rest.find(OPENS), rest.find(CLOSES)
    if opened != 1 or closed != 1 or end < start:
        raise InvalidSetting(
            f"card must hold one statement between {OPENS} and {CLOSES}, got {opened} and {closed} of these lines. "
            "Delete all but one pair, or both."
        )
    return rest[:start] + body + rest[end + len(CLOSES) :]


def _of_each_part(statement: Statement, said: Callable[[Step], str]) -> list[str]:
    parts = statement.accounted.parts
    return [f"{times} steps: {said(step)}" if len(parts) > 1 else said(step) for step, times in parts]


def _mechanism(mechanism: Mechanism) -> str:
    said = mechanism_in_words(mechanism)
    if isinstance(mechanism, Finite):
        observed, alternative = (
            ", ".join(map(plain_number, one)) for one in (mechanism.observed, mechanism.alternative)
        )
        return f"{said}: {observed} on one dataset, {alternative} on its neighbour"
    return said


def _scheme(statement: Statement) -> str:
    return str(statement.implemented.scheme).replace("_", "-")


def _unit(statement: Statement) -> str:
    unit = statement.unit
    return f"{unit.protects} ({unit.details})" if unit.details else unit.protects


def _bracket(certified: Ends) -> Bracket:
    return Bracket(certified.lower, math.inf if certified.upper is None else certified.upper)
