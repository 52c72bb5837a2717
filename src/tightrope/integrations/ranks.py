"""Ranks that train together, compared through their process group before the first step."""

from collections.abc import Sequence

from torch import distributed

from tightrope.errors import Described, InvalidSetting
from tightrope.samplers.sampler import Fingerprint, Passes, Share

NOT_COMPARED = "whether the other ranks drew their shares of the same batches was not seen"

_SAME_SAMPLER = "Build the same sampler on every rank, and give each rank its own share(rank=..., ranks=...)."
_AGREED = (
    ("scheme", "the scheme", _SAME_SAMPLER),
    (
        "seed",
        "the seed",
        "Call fresh_seed() on one rank, broadcast it, and pass it as seed on every rank.",
    ),
    (
        "drawn",
        "the count of batches",
        "Load the same checkpoint on every rank: all must go on with the same batch.",
    ),
)


def compare_ranks(sampler: Passes) -> str:
    """Refuse shares that are not those of one global draw. Why they could not be compared, if so.

    All ranks must call it, and all of them refuse. Samplers that are not shared have nothing to compare.
    """
    if not isinstance(sampler, Share) or sampler.ranks == 1:
        return ""
    if not (distributed.is_available() and distributed.is_initialized()):
        return NOT_COMPARED
    if distributed.get_world_size() != sampler.ranks:
        return NOT_COMPARED
    everyone: list[Fingerprint] = [sampler.fingerprint()] * sampler.ranks
    distributed.all_gather_object(everyone, sampler.fingerprint())
    check_agreement(everyone)
    return ""


def check_agreement(everyone: Sequence[Fingerprint]) -> None:
    """Raise unless these, in the order of the processes, are the shares of one global draw."""
    for name, what, remedy in _AGREED:
        values = [getattr(one, name) for one in everyone]
        other = next((process for process, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            # a seed is a secret, and so is its digest
            found = "different ones" if name == "seed" else f"{values[0]!r} and {values[other]!r}"
            got = Described(f"{found} in processes 0 and {other}")
            raise InvalidSetting(f"{what} of the sampler", got, "be the same on every rank", remedy)
    places = [one.rank for one in everyone]
    if sorted(places) != list(range(len(everyone))):
        twice = next(rank for rank in places if places.count(rank) > 1)
        who = " and ".join(str(process) for process, rank in enumerate(places) if rank == twice)
        got = Described(f"share(rank={twice}) in processes {who}")
        raise InvalidSetting("rank", got, "be another one on every rank", _SAME_SAMPLER)
