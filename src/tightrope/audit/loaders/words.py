"""The exact class of a foreign object, and what is said where it is not known or does not fit."""

import sys
from functools import partial

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.errors import Described, InvalidSetting
from tightrope.setting.sampling import Poisson

tell = partial(Finding, how=How.INSPECTED)
WATCHED_ITERATORS = "tightrope.integrations.torch_loaders.WatchedIterators"  # ours: they change no batch


def kind_of(value: object) -> str:
    """The full name of the very class of `value`, or nothing if its module holds another class of that name.

    Libraries are never imported here: an object of theirs cannot exist before they are. `type` and not
    `__class__`, since accelerate's loaders pretend to be torch's.

    >>> kind_of(1)
    'builtins.int'
    """
    cls = type(value)
    home = sys.modules.get(cls.__module__)
    return f"{cls.__module__}.{cls.__qualname__}" if getattr(home, cls.__qualname__, None) is cls else ""


def name_class(value: object) -> str:
    """The short name of a class with its article, as in 'a RandomSampler'.

    >>> name_class([]), name_class(1)
    ('a list', 'an int')
    """
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def name_replaced(value: object) -> str:
    """The method that was replaced on this very object, so that its class no longer tells what it does.

    >>> class Quiet:
    ...     def draw(self): ...
    >>> quiet = Quiet()
    >>> name_replaced(quiet)
    ''
    >>> quiet.draw = list
    >>> name_replaced(quiet)
    'draw'
    """
    own = getattr(value, "__dict__", {})
    return next((name for name, held in own.items() if _replaces(type(value), name, held)), "")


def _replaces(cls: type, name: str, held: object) -> bool:
    return callable(getattr(cls, name, None)) and kind_of(held) != WATCHED_ITERATORS


def tell_replaced(value: object, *, role: str, records: int | None = None) -> Finding | None:
    """The finding about an object whose method was replaced; None where none was."""
    method = name_replaced(value)
    if not method:
        return None
    reason = f"The {role} is {name_class(value)} whose {method} was replaced, so that it may draw otherwise"
    return tell_unknown(reason, records=records)


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "record"), count(10_000, "batch")
    ('1 record', '10,000 batches')
    """
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def tell_poisson(
    sampling: Poisson,
    records: int,
    notes: tuple[str, ...],
    *,
    batch_count: int,
    by: str = "This loader",
) -> Finding:
    """The finding that each record joins each batch on its own."""
    joins = f"each of the {count(records, 'record')} joins each batch on its own"
    return tell(
        scheme=Scheme.POISSON,
        sentence=f"{by} draws Poisson batches: {joins}, with probability {sampling.rate:.10g}.",
        sampling=sampling,
        records=records,
        rate=sampling.rate,
        batch_count=batch_count,
        notes=notes,
    )


def tell_truncated(rate: float, most: int, records: int) -> str:
    """What a sampler with a cap does, without its subject."""
    draws = f"draws Poisson batches of the {count(records, 'record')} at rate {rate:.10g}"
    return f"{draws}, and keeps a random {most:,} of those that have more"


def tell_unknown(reason: str, *, records: int | None = None, notes: tuple[str, ...] = ()) -> Finding:
    """A finding that names no scheme; `reason` opens its sentence."""
    sentence = f"{reason}: watch its batches instead."
    return tell(scheme=Scheme.UNKNOWN, sentence=sentence, records=records, notes=notes)


def tell_unread(value: object, *, role: str, records: int | None = None) -> Finding:
    """The finding about an object of a class whose way of drawing is not known here."""
    libraries = ("torch.", "opacus.", "accelerate.", "jax_privacy.")
    bases = [base.__name__ for base in type(value).__mro__[1:] if base.__module__.startswith(libraries)]
    why = (
        f"derived from {bases[0]} but free to draw otherwise"
        if bases
        else "whose way of drawing is not known here"
    )
    return tell_unknown(f"The {role} is {name_class(value)}, {why}", records=records)


def refuse(must: str, found: str, remedy: str) -> InvalidSetting:
    """The refusal of a loader, by what was found in it."""
    return InvalidSetting("loader", Described(found), must, remedy)


def refuse_size(sampler: object, made_for: str, records: int) -> InvalidSetting:
    """The refusal of a sampler that was made for another number of records than the dataset has now."""
    return refuse(
        f"have a sampler made for the {count(records, 'record')} of its dataset",
        f"{name_class(sampler)} made for {made_for}",
        "The dataset changed size, so the accounted rate is not the rate run: make the sampler anew.",
    )


def check_size(sampler: object, made_for: int, records: int) -> None:
    """Raise unless a sampler was made for as many records as the dataset has now."""
    if made_for != records:
        raise refuse_size(sampler, count(made_for, "record"), records)
