"""Python's format specs for numbers that have a side: an upper end is only ever rounded up."""

import re
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

from tightrope.errors import InvalidSetting

MOST_CHARACTERS = 1000  # of width or precision
USUAL_PRECISION = 6  # of Python's floats

_SPEC = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>^]))?(?P<sign>[-+ ])?z?(?P<width>[1-9]\d*)?(?P<group>[,_])?"
    r"(?:\.(?P<precision>\d+))?(?P<kind>[eEfFgG%])?",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """A format spec: sign, grouping, precision and kind are for each number, the rest for the whole text.

    >>> spec = NumberFormat.read(".3f")
    >>> spec.write(2 / 3, up=True), spec.write(2 / 3, up=False), spec.write(0.1, up=True)
    ('0.667', '0.666', '0.100')
    """

    fill: str
    align: str
    width: int
    sign: str
    group: str
    precision: int | None
    kind: str

    @staticmethod
    def read(spec: str) -> "NumberFormat":
        """The spec as Python reads it for a float. What has no meaning for several numbers is refused."""
        found = _SPEC.fullmatch(spec)
        if found is None:
            must = 'be a format of floats such as ".3f", ".4g", ".1%" or ">24.3f"'
            remedy = (
                "Kinds other than e, f, g and %, and zeros that fill the width, mean nothing for answers."
            )
            raise InvalidSetting("format_spec", spec, must, remedy)
        numbers = [int(found[key] or 0) for key in ("width", "precision")]
        if max(numbers) > MOST_CHARACTERS:
            must = f"ask for at most {MOST_CHARACTERS:,} characters"
            raise InvalidSetting("format_spec", spec, must, "An answer has 17 digits at most.")
        return NumberFormat(
            fill=found["fill"] or " ",
            align=found["align"] or ">",
            width=numbers[0],
            sign=found["sign"] or "-",
            group=found["group"] or "",
            precision=None if found["precision"] is None else numbers[1],
            kind=found["kind"] or "",
        )

    @property
    def only_pads(self) -> bool:
        """Whether it says nothing about numbers."""
        return (self.sign, self.group, self.precision, self.kind) == ("-", "", None, "")

    def pad(self, text: str) -> str:
        """The whole text in its width; on the right side of it by default, as numbers are."""
        return f"{text:{self.fill}{self.align}{self.width}}" if self.width else text

    def write(self, value: float, *, up: bool | None) -> str:
        """The number, rounded up or down, or to the nearest if `up` is None; a zero has no minus sign.

        As in `round_outwards`, the number is what its repr says: 0.1, and not the binary fraction nearest it.
        """
        exact = Decimal(repr(float(value)))
        if exact.is_infinite():
            text = "inf" if self.kind in ("", "e", "f", "g", "%") else "INF"
            return self._sign(exact) + text + "%" * (self.kind == "%")
        rounding = ROUND_HALF_EVEN if up is None else ROUND_CEILING if up else ROUND_FLOOR
        return self._write(exact, Context(rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN))

    def _write(self, exact: Decimal, context: Context) -> str:
        precision = USUAL_PRECISION if self.precision is None else self.precision
        if self.kind in ("f", "F", "%"):
            # a float has at most 309 digits before the point, two more as percent
            context.prec = 400 + precision
            scaled = exact.scaleb(2, context) if self.kind == "%" else exact
            rounded = context.quantize(scaled, Decimal(1).scaleb(-precision))
            return self._sign(rounded) + self._group(f"{rounded.copy_abs():f}") + "%" * (self.kind == "%")
        if self.kind in ("e", "E"):
            context.prec = precision + 1
            rounded = context.plus(exact)
            text = _scientific(rounded.copy_abs(), precision)
        else:
            # without kind or precision all digits are written: at most 17
            context.prec = max(precision, 1) if self.kind or self.precision is not None else 17
            rounded = context.plus(exact)
            text = self._general(rounded.copy_abs(), context.prec)
        return self._sign(rounded) + (text.upper() if self.kind in ("E", "G") else text)

    def _general(self, rounded: Decimal, digits: int) -> str:
        """Fixed point or scientific, whichever suits the size, without zeros at the end."""
        # a number of no kind keeps one digit behind the point
        limit = digits if self.kind else 16 if self.precision is None else digits - 1
        size = rounded.adjusted() if rounded else 0
        if not -4 <= size < limit:
            mantissa, exponent = _scientific(rounded, digits - 1).split("e")
            return f"{_strip(mantissa)}e{exponent}"
        text = self._group(_strip(f"{rounded:f}"))
        return text if self.kind or "." in text else f"{text}.0"

    def _sign(self, rounded: Decimal) -> str:
        return "-" if rounded < 0 else self.sign.replace("-", "")

    def _group(self, text: str) -> str:
        whole, point, rest = text.partition(".")
        return f"{int(whole):{self.group}}{point}{rest}"


def _scientific(rounded: Decimal, decimals: int) -> str:
    """One digit before the point and an exponent of at least two digits, as Python writes floats."""
    digits = "".join(map(str, rounded.as_tuple().digits)).ljust(decimals + 1, "0")
    if not rounded:
        digits = "0" * (decimals + 1)
    mantissa = f"{digits[0]}.{digits[1:]}" if decimals else digits[0]
    return f"{mantissa}e{rounded.adjusted() if rounded else 0:+03d}"


def _strip(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
