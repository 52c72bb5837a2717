"""The transform of a pair: made by the quadrature that its losses allow, and kept."""

from functools import lru_cache, singledispatch

from tightrope.engines.transforms.bounded import FiniteTransform, LaplaceTransform
from tightrope.engines.transforms.counted import CountedTransform
from tightrope.engines.transforms.envelope import EnvelopeTransform
from tightrope.engines.transforms.labelled import LabelledTransform
from tightrope.engines.transforms.normal import NormalTransform
from tightrope.engines.transforms.transform import KEPT_PAIRS, Transform
from tightrope.pairs.allocation import Allocation
from tightrope.pairs.counted import CountedPair
from tightrope.pairs.finite_pair import FinitePair
from tightrope.pairs.labelled import LabelledPair
from tightrope.pairs.pair import Pair
from tightrope.pairs.shift_pair import Envelope, ShiftPair


@singledispatch
def make_transform(pair: Pair) -> Transform:
    """The transform of a pair, with nothing asked of it yet."""
    raise TypeError(f"no transform is known for {pair!r}")


make_transform.register(FinitePair, FiniteTransform)
make_transform.register(Envelope, EnvelopeTransform)
make_transform.register(CountedPair, CountedTransform)


@make_transform.register
def _(pair: ShiftPair) -> Transform:
    return NormalTransform(pair) if pair.has_normal_noise else LaplaceTransform(pair)


@make_transform.register
def _(pair: LabelledPair) -> Transform:
    return LabelledTransform(pair, [kept_transform(part) for part in pair.pairs])


@make_transform.register
def _(pair: Allocation) -> Transform:
    # which load flint
    from tightrope.engines.transforms.allocated import AllocationTransform
    from tightrope.engines.transforms.exchanged import ExchangedTransform

    return ExchangedTransform(pair) if pair.is_exchanged else AllocationTransform(pair)


kept_transform = lru_cache(maxsize=KEPT_PAIRS)(make_transform)
