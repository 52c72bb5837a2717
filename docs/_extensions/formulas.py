"""Mathematics in plain text, as the proof notes have it, becomes MathML, which browsers draw by themselves.

Only the typography changes: indices, exponents, Greek letters and signs. No symbol is moved, added or left
out, and what is not understood stays a word. A test compares the symbols of every note with what is drawn.
"""

import re
from collections.abc import Iterator
from html import escape

_LETTERS = (
    "alpha α beta β gamma γ delta δ eps ε epsilon ε zeta ζ eta η theta θ kappa κ lambda λ mu μ nu ν xi ξ "
    "pi π rho ρ sigma σ tau τ phi φ chi χ psi ψ omega ω ell ℓ "
    "Gamma Γ Delta Δ Theta Θ Lambda Λ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω"
).split()
GREEK = dict(zip(_LETTERS[::2], _LETTERS[1::2], strict=True))
NAMED = frozenset("exp ln log max min sup cos sin Re Im Var Pr sqrt floor ceil".split())
LARGE = {"sum": "∑", "prod": "∏", "int": "∫"}
SIGNS = {
    **{"<=": "≤", ">=": "≥", "!=": "≠", "->": "→", ":=": "≔", "+-": "±"},
    **{"||": "‖", "...": "…", "-": "−", "*": "·", "<<": "≪", ">>": "≫"},
}
RELATIONS = {"≤", "≥", "≠", "→", "≔", "=", "<", ">", "≪", "≫", "~"}
SPACE = "0.22em"  # around relations and sums: browsers differ, and some leave far more
TOKEN = re.compile(
    r"(?P<number>\d+(?:,\d{3})+(?!\d)|\d*\.?\d+(?:e[+-]?\d+)?)"
    r"|(?P<code>[A-Za-z]{2,}(?:_[a-z]{2,})+)"
    r"|(?P<name>[A-Za-zÀ-ÿ]+)"
    r"|(?P<attach>[_^])"
    r"|(?P<prime>'+)"
    r"|(?P<sign>\.\.\.|<=|>=|!=|->|:=|\+-|\|\||<<|>>|\S)"
    r"|(?P<space>\s+)"
)
CELL = re.compile(r"( *)(\S+(?: \S+)*)( *)")  # two spaces begin a new column
CHARACTER = 0.48  # em
_BRACES = r"\{(?:[^{}]|\{[^{}]*\})*\}"
_ROUND = r"\((?:[^()]|\([^()]*\))*\)"
GROUP = re.compile(rf"{_BRACES}|{_ROUND}|\|[^|\s]+\|")
INDEX = re.compile(r"\+-|[+-](?![A-Za-z0-9])|[+-]?(?:\d+|[A-Za-z]+)|\*")

WORD = re.compile(rf"\s+|(?:[_^]{_ROUND}|{_BRACES}|[^\s{{]|\{{)+")  # no word ends within an index
EDGES = re.compile(r"^([\"“]*)(.*?)([.,;:?!\"”]*)\Z", re.DOTALL)
DIFFERENTIAL = re.compile(r"d[A-Z]")  # dP, of which densities are made
ARTICLES = {"a", "A", "I"}
SIGN = re.compile(r"<=|>=|!=|->|:=|[=<>+*/-]|\+-")


def write_formula(text: str) -> str:
    """The inside of a `math` element for plain text.

    >>> write_formula("x_1^2, e^{a}")
    '<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup><mo>,</mo><msup><mi>e</mi><mi>a</mi></msup>'
    >>> write_formula("if u > 0")
    '<mtext>if&nbsp;</mtext><mi>u</mi><mo lspace="0.22em" rspace="0.22em">&gt;</mo><mn>0</mn>'
    """
    return "".join(_Formula(text).pieces())


class _Formula:
    """Reads plain mathematics from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def pieces(self) -> Iterator[str]:
        before, spaced = "start", False  # what was written last: an operand, a sign or a word
        while found := TOKEN.match(self.text, self.at):
            kind, token, self.at = str(found.lastgroup), found[0], found.end()
            if kind == "space":
                spaced = True
                continue
            drawn, after = self._draw(kind, token, before, spaced)
            both = before == after == "operand" and spaced
            yield f'<mspace width="0.2em"/>{drawn}' if both else drawn
            before, spaced = after, False

    def _draw(self, kind: str, token: str, before: str, spaced: bool) -> tuple[str, str]:
        if kind == "prime":  # of a word, or an apostrophe in it
            owned = self.text[self.at : self.at + 1].isalpha()
            return f"<mo>{'’' if owned else '′' * len(token)}</mo>", "word"
        if kind == "attach":  # with nothing to attach to
            return f"<mo>{escape(token)}</mo>", "sign"
        if kind == "number":
            return self._attach(f"<mn>{token}</mn>"), "operand"
        if kind == "code":
            return f"<mtext>{token}</mtext>", "word"
        if kind == "name":
            return self._draw_name(token, before, spaced)
        return self._draw_sign(token, before)

    def _draw_name(self, token: str, before: str, spaced: bool) -> tuple[str, str]:
        followed = self.text[self.at : self.at + 1]
        counted = token in LARGE and not re.match(r" (?:over|of|to)\b", self.text[self.at :])
        if counted:
            return self._attach(f'<mo movablelimits="false">{LARGE[token]}</mo>'), "sign"
        if token in GREEK:
            return self._attach(f"<mi>{GREEK[token]}</mi>"), "operand"
        if len(token) == 1:
            return self._attach(f"<mi>{token}</mi>"), "operand"
        if token in NAMED or DIFFERENTIAL.fullmatch(token) or followed in ("_", "^", "("):
            return self._attach(f'<mi mathvariant="normal">{token}</mi>'), "operand"
        left = "&nbsp;" if spaced and before in ("operand", "sign") else ""
        right = "&nbsp;" if followed == " " else ""
        return f"<mtext>{left}{token}{right}</mtext>", "word"

    def _draw_sign(self, token: str, before: str) -> tuple[str, str]:
        sign = SIGNS.get(token, token)
        if sign in ")]}":
            return self._attach(f'<mo stretchy="false">{sign}</mo>'), "operand"
        if sign in "([{":
            return f'<mo stretchy="false">{sign}</mo>', "opening"
        if sign == "|":
            return self._attach('<mi mathvariant="normal">|</mi>'), "operand"
        if sign in ".…'\"":
            return f'<mi mathvariant="normal">{escape(sign)}</mi>', "word"
        if sign in "−+±" and before != "operand":
            return f'<mo form="prefix">{sign}</mo>', "opening"
        if sign == "/":
            return '<mo lspace="0" rspace="0">/</mo>', "sign"
        if sign in RELATIONS or sign in "+−±·":
            return f'<mo lspace="{SPACE}" rspace="{SPACE}">{escape(sign)}</mo>', "sign"
        return f"<mo>{escape(sign)}</mo>", "sign"

    def _attach(self, base: str) -> str:
        """The base with its primes, star, index and exponent."""
        below, above = "", list[str]()
        while True:
            rest = self.text[self.at :]
            if primes := re.match(r"'+|\*(?![\w(])(?! [\w(])|\*(?=[()\],.|])", rest):
                above.append(f"<mo>{primes[0].replace(chr(39), '′').replace('*', '∗')}</mo>")
                self.at += primes.end()
            elif rest[:1] == "~":
                base, self.at = f'<mover accent="true">{base}<mo>~</mo></mover>', self.at + 1
            elif rest[:1] == "_" and not below and (inside := self._index(self.at + 1)):
                below = inside
            elif rest[:1] == "^" and (inside := self._index(self.at + 1)):
                above.append(inside)
            else:
                break
        over = "".join(above) if len(above) < 2 else f"<mrow>{''.join(above)}</mrow>"
        if below and over:
            return f"<msubsup>{base}{below}{over}</msubsup>"
        if below:
            return f"<msub>{base}{below}</msub>"
        return f"<msup>{base}{over}</msup>" if over else base

    def _index(self, start: int) -> str:
        """What stands at an index: a group, of which braces are not drawn, or one symbol with its sign."""
        found = GROUP.match(self.text, start) or INDEX.match(self.text, start)
        if not found:
            return ""
        self.at = found.end()
        inside = write_formula(
            found[0].removeprefix("{").removesuffix("}") if found[0][0] == "{" else found[0]
        )
        inside = "<mo>∗</mo>" if found[0] == "*" else inside
        return inside if inside.count("<m") == 1 else f"<mrow>{inside}</mrow>"


def write_sign(sign: str) -> str:
    """A sign between two words, which have their spaces already."""
    return f'<mo lspace="0" rspace="0">{escape(SIGNS.get(sign, sign))}</mo>'


def write_display(block: str) -> str:
    """An indented block: what stands in columns in the source does so on the page."""
    lines = []
    for line in block.rstrip().splitlines():
        cells = [
            _write_cell(len(found[1]), "") + _write_cell(len(found[2] + found[3]), write_formula(found[2]))
            for found in CELL.finditer(line)
        ]
        lines.append(f"<div>{''.join(cells) or '&nbsp;'}</div>")
    return f'<div class="plain-mathematics" tabindex="0">{"".join(lines)}</div>'


def _write_cell(characters: int, formula: str) -> str:
    """A formula as wide as so many characters of the source, or wider."""
    if not characters:
        return ""
    drawn = f"<math>{formula}</math>" if formula else ""
    return f'<span style="min-width:{characters * CHARACTER:.2f}em">{drawn}</span>'


def is_mathematical(word: str) -> bool:
    """Whether a word holds symbols only: numbers, signs, letters, Greek, and names of functions.

    >>> [is_mathematical(word) for word in ("H_t(P||Q)", "<=", "e^eps", "batch", "P-mass", "e.g", "11")]
    [True, True, True, False, False, False, True]
    """
    if not word.strip() or re.search(r"[A-Za-z]\.[A-Za-z]", word) or re.fullmatch(r"[–—()'\"]+", word):
        return False
    tokens = list(TOKEN.finditer(re.sub(r"[_^](?:\{.*\}|[A-Za-z]+)", "", word)))
    return not any(found["code"] or (found["name"] and not _is_symbol(found["name"])) for found in tokens)


def _is_symbol(name: str) -> bool:
    return len(name) == 1 or name in GREEK or name in NAMED or DIFFERENTIAL.fullmatch(name) is not None


def _is_sure(word: str) -> bool:
    """Whether a mathematical word is certainly one, wherever it stands."""
    letters = [found["name"] for found in TOKEN.finditer(word) if found["name"]]
    symbols = any(_is_symbol(name) and name not in NAMED for name in letters)
    return word not in ARTICLES and (symbols or re.search(r"[_^=<>]|\|\||->", word) is not None)


def split_prose(text: str) -> Iterator[tuple[bool, str]]:
    """The text in pieces, each with whether it is mathematics.

    >>> [piece for is_it, piece in split_prose("for a batch, H_t <= 1 - e^{s D} and a = 2.") if is_it]
    ['H_t', '<=', '1', '-', 'e^{s D}', 'a', '=', '2']
    """
    found = (EDGES.match(word) for word in WORD.findall(text))
    parts = [match.groups() for match in found if match]
    mathematical = [is_mathematical(word) for _, word, _ in parts]
    for i, (before, word, after) in enumerate(parts):
        beside = [parts[j][1] for j in (i - 2, i + 2) if 0 <= j < len(parts) and mathematical[j]]
        if word == "-":
            sure = len(beside) == 2
        else:
            sure = mathematical[i] and (_is_sure(word) or any(SIGN.fullmatch(each) for each in beside))
        yield False, before
        yield sure, word
        yield False, after
