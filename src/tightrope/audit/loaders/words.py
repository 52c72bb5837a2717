"""The exact class of a foreign object, with the refusals and admissions of ignorance that name it."""

import sys

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.errors import InvalidSetting


def kind_of(value: object) -> str:
    """The full name of the very class of `value`, or nothing if its module holds another class of that name.

    Libraries are never imported here: an object of theirs cannot exist before they are. `type` and not `__class__`, since
    accelerate's loaders pretend to be torch's.

    >>> kind_of(1)
    'builtins.int'
    """
    cls = type(value)
    home = sys.modules.get(cls.__module__)
    return f"{cls.__module__}.{cls.__qualname__}" if getattr(home, cls.__qualname__, None) is cls else ""


def called(value: object) -> str:
    """The short name of a class with its article, as in 'a RandomSampler'.

    >>> called([]), called(1)
    ('a list', 'an int')
    """
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "record"), counted(10_000, "batch")
    ('1 record', '10,000 batches')
    """
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def unknown(reason: str, *, records: int | None = None, notes: tuple[str, ...] = ()) -> Finding:
    """A finding that names no scheme: `reason` is the first part of its sentence."""
    sentence = f"{reason}: watch its batches instead."
    return Finding(scheme=Scheme.UNKNOWN, how=How.INSPECTED, sentence=sentence, records=records, notes=notes)


def unread(value: object, *, role: str, records: int | None = None) -> Finding:
    """The finding about an object of a class whose way of drawing is not known here."""
    libraries = ("torch.", "opacus.", "accelerate.")
    base = next(
        (base.__name__ for base in type(value).__mro__[1:] if base.__module__.startswith(libraries)), None
    )
    doubt = (
        f"derived from {base} but free to draw otherwise"
        if base
        else "whose way of drawing is not known here"
    )
    return unknown(f"The {role} is {called(value)}, {doubt}", records=records)


def refuse_other_size(maker: object, made_for: int, records: int) -> None:
    """Raise unless a sampler was made for as many records as the dataset has now."""
    if made_for != records:
        raise InvalidSetting(
            f"The {type(maker).__name__} was made for {counted(made_for, 'record')}, but the dataset has {records:,} now. "
            "The dataset changed size, so the accounted rate is not the rate run: make the sampler anew from this dataset."
        )
