"""A privacy statement as LaTeX: a fragment for an appendix, or a whole document."""

import re
from collections.abc import Iterator

from tightrope.statements.markdown import Entry, claim_in_words, entries
from tightrope.statements.model import Statement

LONG_WORD = 20  # letters: longer ones may be broken at signs, for TeX hyphenates no addresses and commands

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",  # some languages give it a meaning
    "`": r"{}\char96{}",
}
_OUTSIDE_FONTS = {
    "\N{GREEK SMALL LETTER ALPHA}": r"\ensuremath{\alpha}",
    "\N{GREEK SMALL LETTER GAMMA}": r"\ensuremath{\gamma}",
    "\N{GREEK SMALL LETTER DELTA}": r"\ensuremath{\delta}",
    "\N{GREEK SMALL LETTER EPSILON}": r"\ensuremath{\varepsilon}",
    "\N{GREEK LUNATE EPSILON SYMBOL}": r"\ensuremath{\epsilon}",
    "\N{GREEK SMALL LETTER LAMDA}": r"\ensuremath{\lambda}",
    "\N{GREEK SMALL LETTER MU}": r"\ensuremath{\mu}",
    "\N{GREEK SMALL LETTER RHO}": r"\ensuremath{\rho}",
    "\N{GREEK SMALL LETTER SIGMA}": r"\ensuremath{\sigma}",
    "\N{LESS-THAN OR EQUAL TO}": r"\ensuremath{\leq}",
    "\N{GREATER-THAN OR EQUAL TO}": r"\ensuremath{\geq}",
    "\N{MULTIPLICATION SIGN}": r"\ensuremath{\times}",
    "\N{MINUS SIGN}": r"\ensuremath{-}",
    "\N{INFINITY}": r"\ensuremath{\infty}",
}
_JOINED = "-',"  # two of these in a row become one sign in some fonts


def latex(statement: Statement, *, document: bool = False) -> str:
    """The statement as a fragment without a heading, which needs no package; with `document` as a document of its own."""
    fragment = [
        r"\begin{sloppypar}",
        escaped(claim_in_words(statement)),
        r"\end{sloppypar}",
        *_list(statement),
    ]
    if not document:
        return "\n".join(fragment) + "\n"
    heading = rf"\section*{{Differential privacy of {escaped(statement.name)}}}"
    opening = [r"\documentclass{article}", r"\usepackage[utf8]{inputenc}", r"\begin{document}", heading]
    return "\n".join([*opening, *fragment, r"\end{document}"]) + "\n"


def escaped(text: str) -> str:
    r"""Plain text as LaTeX that prints it, on one line; long words may be broken at signs.

    >>> print(escaped("50% of x_1 & {y}"))
    50\% of x\_1 \& \{y\}
    """
    return " ".join(_breakable(word) if len(word) > LONG_WORD else _word(word) for word in text.split())


def _breakable(word: str) -> str:
    stretches = re.findall(rf"[^\W_]{{1,{LONG_WORD}}}[\W_]?|[\W_]", word)
    return r"\allowbreak{}".join(map(_word, stretches))


def _word(word: str) -> str:
    return "".join(_sign(sign, follower) for sign, follower in zip(word, [*word[1:], ""], strict=True))


def _sign(sign: str, follower: str) -> str:
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    if sign in _OUTSIDE_FONTS:
        return _OUTSIDE_FONTS[sign]
    if not sign.isprintable():
        return f"[U+{ord(sign):04X}]"
    return sign + "{}" if sign in _JOINED and follower == sign else sign


def _list(statement: Statement) -> Iterator[str]:
    yield r"\begin{description}\sloppy"
    for entry in entries(statement):
        yield rf"\item[{escaped(entry.subject)}]{_written(entry)}"
    yield r"\end{description}"


def _written(entry: Entry) -> str:
    texts = [rf"\texttt{{{escaped(text)}}}" if entry.typed else escaped(text) for text in entry.texts]
    if len(texts) == 1:
        return f" {texts[0]}"
    # the empty group keeps a text that opens with [ from being read as the label of its item
    return "\n".join(["", r"\begin{itemize}", *(rf"\item{{}} {text}" for text in texts), r"\end{itemize}"])
