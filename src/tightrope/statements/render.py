"""A statement as JSON, Markdown for a model card, LaTeX for an appendix and YAML for the registry."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from tightrope.errors import Described, InvalidSetting, RefutedClaim
from tightrope.extras import MissingExtra
from tightrope.files import MOST_DEPTH
from tightrope.numerics.text import write_number
from tightrope.report.words import relation_in_words
from tightrope.statements.model import RegistryFacts, Statement
from tightrope.statements.words import (
    Entry,
    describe_assumptions,
    describe_claim,
    describe_ends,
    describe_implemented,
    describe_mechanisms,
    describe_samplings,
    describe_theorems,
    describe_tuning,
    explain_claim,
    judge_claim,
    list_entries,
    list_unchecked,
    name_accountant,
    name_claim,
    name_scheme,
    quote,
    state_claim,
)

try:
    import yaml
except ImportError as missing:
    raise MissingExtra("rendering a statement", "PyYAML", "statement") from missing

KEY = "differential_privacy"
MOST_CARD, MOST_FRONT_MATTER = 2**20, 2**16  # characters; PyYAML takes three seconds at worst
OPENS, CLOSES = "<!-- tightrope-statement -->", "<!-- /tightrope-statement -->"


def refuse_refuted(statement: Statement, *, even_if_refuted: bool) -> None:
    """Raise for a claim that is false, unless it shall be rendered all the same."""
    if judge_claim(statement) == "refuted" and not even_if_refuted:
        claimed = f"epsilon {write_number(statement.claim.epsilon)} is claimed"
        what = f"the claim is refuted: {claimed}, and {explain_claim(statement)}"
        remedy = "Claim what is proved (leave out epsilon), or ask for it: {even_if_refuted=True}."
        raise RefutedClaim(what, remedy)


def render_json(statement: Statement, *, even_if_refuted: bool = False) -> str:
    """The statement as JSON text in ASCII, so that every terminal and file holds it; always the same."""
    refuse_refuted(statement, even_if_refuted=even_if_refuted)
    unsearched = {"trials"} if statement.trials is None else None
    text = statement.model_dump_json(indent=2, exclude=unsearched) + "\n"
    return re.sub(r"[^\x00-\x7f]", lambda sign: json.dumps(sign[0])[1:-1], text)


# Markdown


def render_markdown(statement: Statement, card: str = "", *, even_if_refuted: bool = False) -> str:
    """The statement as Markdown; in a `card` that is given, its front matter and body are replaced, or added.

    Everything else in the card stays as it is, byte for byte.
    """
    refuse_refuted(statement, even_if_refuted=even_if_refuted)
    _check_length("card", card, MOST_CARD)
    newline = "\r\n" if "\r\n" in card else "\n"
    block = write_yaml({KEY: _summarise(statement)}).replace("\n", newline)
    body = newline.join([OPENS, *_table(statement), CLOSES])
    front, rest = _put_front_matter(card, block, newline)
    return front + _put_body(rest, body, newline, starts_a_line=front[-1] in "\r\n")


def escape_markdown(text: str) -> str:
    r"""Plain text that no reader of Markdown takes for markup, on one line.

    >>> print(escape_markdown("a|b *c* x_1 _d_ <e> $2"))
    a\|b \*c\* x_1 \_d\_ &lt;e&gt; \$2
    """
    text = re.sub(r"[\\`*\[\]|$~#]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", text.strip())
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, entity)
    return re.sub(r"[\r\n]+", "<br>", text)


def _summarise(statement: Statement) -> dict[str, object]:
    return {
        "claim_standing": judge_claim(statement),
        "sampling_verdict": statement.certified.sampling_verdict,
        "not_checked": list_unchecked(statement),
        "epsilon": statement.claim.epsilon,
        "delta": statement.claim.delta,
        "unit": statement.unit.protects,
        "relation": statement.relation,
        "noise": "; ".join(describe_mechanisms(statement)),
        "sampling_accounted": "; ".join(describe_samplings(statement)),
        "sampling_implemented": name_scheme(statement),
        "sampling_evidence": statement.implemented.evidence,
        "certified_epsilon": statement.certified.runs.model_dump(),
        "steps": statement.accounted.steps,
        "accountant": name_accountant(statement),
    }


def _table(statement: Statement) -> Iterator[str]:
    yield from (f"## {escape_markdown(name_claim(statement))}", "")
    yield from (escape_markdown(describe_claim(statement)), "")
    yield from ("| subject | statement |", "| --- | --- |")
    for entry in list_entries(statement):
        cells = [_type(text) if entry.typed else escape_markdown(text) for text in entry.texts]
        yield f"| {entry.subject} | {'<br>'.join(cells)} |"


def _type(text: str) -> str:
    plain = re.fullmatch(r"[^\s`\\|<>](?:[^`\\|<>\r\n]*[^\s`\\|<>])?", text)
    return f"`{text}`" if plain else f"<code>{escape_markdown(text)}</code>"


def _put_front_matter(card: str, block: str, newline: str) -> tuple[str, str]:
    """The front matter of a card with the block in it, and the rest of the card."""
    mark = "\ufeff" if card.startswith("\ufeff") else ""  # of byte order, which some editors write
    text = card.removeprefix(mark)
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
    fences = [place for place, line in enumerate(lines) if line.rstrip() == "---"]
    if len(fences) < 2 or fences[0] > 0:
        return f"{mark}---{newline}{block}---{newline}", text and newline + text
    last = fences[1]
    matter = _put_key("".join(lines[1:last]), block)
    return f"{mark}{lines[0]}{matter}{lines[last]}", "".join(lines[last + 1 :])


def _put_key(matter: str, block: str) -> str:
    """The front matter with the block in the place of our key, or at the end; other keys keep their bytes."""
    keys = _find_keys(matter)
    starts = [*(key.start_mark.index for key in keys), len(matter)]
    pieces = [matter[: starts[0]]]
    for key, start, end in zip(keys, starts, starts[1:], strict=False):
        piece = matter[start:end]
        if key.value == KEY:  # blank lines and comments at its end belong to the next key
            after = re.findall(r"(?m)(?:^(?:[ \t]*|#[^\r\n]*)(?:\r\n|\r|\n))*\Z", piece)
            piece, block = block + after[0], ""
        pieces.append(piece)
    return "".join([*pieces, block])


def _check_length(what: str, text: str, most: int) -> None:
    if len(text) > most:
        found = Described(f"{len(text):,}")
        raise InvalidSetting(what, found, f"have at most {most:,} characters", "Move the rest elsewhere.")


def _find_keys(matter: str) -> list[Any]:
    """The keys of the front matter, each of which must open a line."""
    _check_length("front matter of the card", matter, MOST_FRONT_MATTER)
    opened = accumulate((sign in "[{") - (sign in "]}") for sign in matter)
    if max(opened, default=0) > MOST_DEPTH:
        must = f"have at most {MOST_DEPTH} lists and tables within one another"
        raise InvalidSetting("front matter of the card", Described("more"), must, "Write it flatter.")
    try:
        root = yaml.compose(matter, Loader=yaml.SafeLoader)
        keys = [key for key, _ in root.value] if root else []
        if keys and (root.flow_style or any(key.start_mark.column for key in keys)):
            raise ValueError("a key within its line")
    except (yaml.YAMLError, ValueError, RecursionError):  # also of texts and lists, which hold no pairs
        first = next(line for line in matter.splitlines() if line.strip() and not line.startswith("#"))
        must = "open with keys at the start of their lines"
        remedy = "Write the front matter of the card as lines such as license: mit."
        raise InvalidSetting("card", first, must, remedy) from None
    return keys


def _put_body(rest: str, body: str, newline: str, *, starts_a_line: bool) -> str:
    opened, closed = rest.count(OPENS), rest.count(CLOSES)
    if not opened and not closed:
        ended = rest[-1] in "\r\n" if rest else starts_a_line
        return f"{rest}{'' if ended else newline}{newline}{body}{newline}"
    start, end = rest.find(OPENS), rest.find(CLOSES)
    if opened != 1 or closed != 1 or end < start:
        must = f"hold one statement between {OPENS} and {CLOSES}"
        found = f"{opened} and {closed} of these lines"
        raise InvalidSetting("card", found, must, "Delete all but one pair, or both.")
    return rest[:start] + body + rest[end + len(CLOSES) :]


# LaTeX

# letters: longer words may be broken at signs, since TeX does not hyphenate addresses and commands
LONG_WORD = 20
_COMMANDS = {
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",  # some languages give it a meaning
    "`": r"{}\char96{}",
}
_IN_MATHS = (
    r"α\alpha γ\gamma δ\delta ε\varepsilon ϵ\epsilon λ\lambda μ\mu "  # noqa: RUF001
    r"ρ\rho σ\sigma ≤\leq ≥\geq ×\times ∞\infty −-"  # noqa: RUF001
)
_SYMBOLS = {pair[0]: pair[1:] for pair in _IN_MATHS.split()}  # fonts of text lack these
_SIGNS = _COMMANDS | {sign: rf"\ensuremath{{{command}}}" for sign, command in _SYMBOLS.items()}
_JOINED = "-',"  # two of these in a row become one sign in some fonts


def render_latex(statement: Statement, *, document: bool = False, even_if_refuted: bool = False) -> str:
    """The statement as a fragment that needs no package; with `document` as a document of its own."""
    refuse_refuted(statement, even_if_refuted=even_if_refuted)
    lines = [rf"\begin{{sloppypar}}{escape_latex(describe_claim(statement))}\end{{sloppypar}}"]
    lines.append(r"\begin{description}\sloppy")
    lines += [_write_item(entry) for entry in list_entries(statement)]
    lines.append(r"\end{description}")
    if document:
        heading = rf"\section*{{{escape_latex(name_claim(statement))}}}"
        opening = [r"\documentclass{article}", r"\usepackage[utf8]{inputenc}", r"\begin{document}", heading]
        lines = [*opening, *lines, r"\end{document}"]
    return "\n".join(lines) + "\n"


def escape_latex(text: str) -> str:
    r"""Plain text as LaTeX that prints it, on one line; long words may be broken at signs.

    >>> print(escape_latex("50% of x_1 & {y}"))
    50\% of x\_1 \& \{y\}
    """
    return " ".join(map(_write_word, text.split()))


def _write_word(word: str) -> str:
    stretches = [word]
    if len(word) > LONG_WORD:
        stretches = re.findall(rf"[^\W_]{{1,{LONG_WORD}}}[\W_]?|[\W_]", word)
    return r"\allowbreak{}".join(
        "".join(_write_sign(sign, after) for sign, after in zip(part, [*part[1:], ""], strict=True))
        for part in stretches
    )


def _write_sign(sign: str, follower: str) -> str:
    if sign in _SIGNS:
        return _SIGNS[sign]
    if not sign.isprintable():
        return f"[U+{ord(sign):04X}]"
    return sign + "{}" if sign in _JOINED and follower == sign else sign


def _write_item(entry: Entry) -> str:
    item = rf"\item[{escape_latex(entry.subject)}]"
    texts = [
        rf"\texttt{{{escape_latex(text)}}}" if entry.typed else escape_latex(text) for text in entry.texts
    ]
    if len(texts) == 1:
        return f"{item} {texts[0]}"
    # the empty group keeps a text that opens with [ from being read as the label of its item
    return "\n".join([item, r"\begin{itemize}", *(rf"\item{{}} {text}" for text in texts), r"\end{itemize}"])


# YAML


class _QuotingDumper(yaml.SafeDumper):  # type: ignore[misc] # PyYAML has no types
    """Quotes every text, so that no reader takes one for a number or a date, and no key; indents lists."""

    def choose_scalar_style(self) -> Any:
        is_text = self.event.implicit[1]
        return '"' if is_text and not self.simple_key_context else super().choose_scalar_style()

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def write_yaml(table: dict[str, object]) -> str:
    r"""Nested tables, lists and plain values as YAML that every reader takes for the same values.

    >>> print(write_yaml({"a": {"delta": 1e-6}, "b": ["x: y"]}), end="")
    a:
      delta: 1.0e-06
    b:
      - "x: y"
    """
    written = yaml.dump(table, Dumper=_QuotingDumper, sort_keys=False, allow_unicode=True, width=math.inf)
    return str(written)


def render_registry(statement: Statement, facts: RegistryFacts, *, even_if_refuted: bool = False) -> str:
    """The statement as the file of one deployment in the registry kept by OpenDP and NIST."""
    refuse_refuted(statement, even_if_refuted=even_if_refuted)
    description = facts.description or statement.description
    if not description.strip():
        raise InvalidSetting("description", description, "be some words", "The registry asks for it.")
    basic: dict[str, object] = {
        "name": statement.name,
        "data_curators": [{"data_curator_name": facts.curator, "data_curator_type": facts.curator_type}],
        "description": description,
        "intended_use": facts.intended_use,
        "data_product_type": facts.product_type,
        "data_product_region": facts.region,
        "data_product_sector": facts.sector,
        "publication_date": facts.publication_date.isoformat(),
    }
    deployment = {
        "basic": {key: value for key, value in basic.items() if value is not None},
        "dp_variant": {"variant_name": "Approximate DP"},
        "privacy_loss": _privacy_loss(statement),
        "deployment_model": {"model_name": statement.setting.capitalize()},
        "implementation": {key: _list(texts) for key, texts in _implementation(statement).items()},
        "administrative": {
            "status": facts.status,
            "registry_authors": facts.authors,
            "tier": facts.tier,
        },
    }
    news = f"{judge_claim(statement)}: {quote(state_claim(statement))}"
    return f"# {news}\n{write_yaml({'url_slug': facts.slug, 'deployment': deployment})}"


def _privacy_loss(statement: Statement) -> dict[str, object]:
    adjacent = escape_markdown(f"Neighbours: {relation_in_words(statement.neighbours)}.")
    loss: dict[str, object] = {
        "privacy_unit": statement.unit.protects,
        "privacy_unit_details": f"{adjacent} {escape_markdown(statement.unit.details)}".rstrip(),
        "number_of_privacy_units": statement.dataset.records,
        "privacy_parameters": statement.claim.model_dump(exclude={"standing"}),
        "privacy_parameters_details": escape_markdown(describe_claim(statement)),
    }
    return {key: value for key, value in loss.items() if value is not None}


def _implementation(statement: Statement) -> dict[str, list[str]]:
    certified, steps = statement.certified, statement.accounted.steps
    composed = f"{steps} step{'s' * (steps != 1)}, composed numerically by {name_accountant(statement)}"
    return {
        "preprocessing_and_hyperparameter_tuning": [
            f"Data accesses covered: {statement.data_accesses}",
            f"Tuning: {' '.join(describe_tuning(statement))}",
        ],
        "mechanisms": [
            *describe_mechanisms(statement),
            f"Noise multiplier: {statement.noise_convention}.",
            "Batches as accounted:",
            *describe_samplings(statement),
            "Batches as implemented:",
            *describe_implemented(statement),
        ],
        "composition": [
            f"{composed}, with certified ends.",
            f"Epsilon as accounted: {describe_ends(certified.accounted)}.",
            f"Epsilon of what runs: {describe_ends(certified.runs)}.",
            *describe_theorems(statement),
        ],
        "justification": [
            describe_claim(statement),
            f"Sampling verdict: {certified.sampling_verdict}.",
            f"Provided that {certified.provided}." if certified.provided else "",
            f"Nothing is proved: {certified.why_not}" if certified.why_not else "",
            *describe_assumptions(statement),
        ],
        "additional_information": [
            f"Outputs covered: {statement.outputs}",
            f"Code: {statement.code}" if statement.code else "",
            f"Checked by: {statement.command}",
        ],
    }


def _list(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape_markdown(text)}" for text in texts if text)
