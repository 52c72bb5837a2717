"""A sampler that counts what it hands out, and its shares for several ranks."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import final

from tightrope.errors import InvalidSetting
from tightrope.numerics import check
from tightrope.samplers.draws import Indices
from tightrope.samplers.entropy import ByteSource, checked_seed, seeded_bytes, system_bytes
from tightrope.samplers.passes import Passes
from tightrope.setting.run import MOST_STEPS
from tightrope.setting.sampling import Poisson, WithoutReplacement

MOST_RECORDS = 2**62  # indices are 64-bit numbers


class Sampler(Passes):
    """Global batches under one sampling scheme, with the scheme and the count that the accountant takes."""

    def __init__(self, *, records: int, steps: int, seed: int | None, drawn: int) -> None:
        self._records = _checked_records(records)
        self._steps = check.whole(
            least=1, remedy="It is the number of batches in one pass over the loader.", steps=steps
        )
        self._seed = checked_seed(seed)
        self._next = _checked_drawn(drawn)
        self._ranks = 0
        self._shares: dict[int, Share] = {}

    @abstractmethod
    def _draw(self, source: ByteSource) -> Indices:
        """One batch made of these bytes."""

    @property
    @abstractmethod
    def _scheme(self) -> dict[str, object]:
        """The kind of sampler and its numbers, by the names of the arguments."""

    @property
    def records(self) -> int:
        """The number of records drawn from."""
        return self._records

    @property
    def steps(self) -> int:
        """The number of batches in one pass."""
        return self._steps

    @property
    def drawn(self) -> int:
        """The number of batches handed out so far, through any share; the number of the next one, counted from 0."""
        return max([self._next, *(share.drawn for share in self._shares.values())])

    def batch_at(self, number: int) -> Indices:
        """Batch `number`, counted from 0: a pure function of the seed and the number. It is not counted as drawn."""
        if self._seed is None:
            raise InvalidSetting(
                f"batch_at({number!r}) needs a sampler with a seed, got seed=None. "
                "Batches from the operating system's entropy cannot be drawn again: pass seed=fresh_seed()."
            )
        return self._draw(seeded_bytes(seed=self._seed, number=_checked_number(number)))

    def share(self, *, rank: int, ranks: int) -> "Share":
        """The part of each global batch that is for this rank; from then on batches are handed out through shares only.

        Every rank builds the same sampler from the same seed and takes its own share. One draw per rank would be
        another scheme than the one accounted: with equal seeds every rank would pick the same positions.
        """
        if self._seed is None:
            raise InvalidSetting(
                f"share(rank={rank!r}, ranks={ranks!r}) needs a sampler with a seed, got seed=None. All ranks must make the "
                "same draw: call fresh_seed() on one rank, broadcast it, and pass it as seed on each."
            )
        ranks = check.whole(least=1, remedy="It is the number of processes that train together.", ranks=ranks)
        rank = check.whole(rank=rank)
        if rank >= ranks:
            raise InvalidSetting(
                f"rank must be below ranks, got rank={rank} and ranks={ranks}. Ranks count from 0."
            )
        if self._ranks not in (0, ranks):
            raise InvalidSetting(
                f"ranks must be {self._ranks} as in the shares already taken, got {ranks}. "
                "Shares of two divisions overlap: to divide differently, load the state into a new sampler."
            )
        if rank not in self._shares:
            self._shares[rank] = Share(sampler=self, rank=rank, ranks=ranks, drawn=self._next)
            self._ranks = ranks
        return self._shares[rank]

    def state_dict(self) -> dict[str, object]:
        """Scheme, seed and count. With a seed it is a secret."""
        return self._state(self.drawn)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on with the batch after the last one handed out by the sampler that gave `state`."""
        drawn = self._checked_state(state)
        self._next = drawn
        for share in self._shares.values():
            share._next = drawn

    def _state(self, drawn: int) -> dict[str, object]:
        return {**self._scheme, "steps": self.steps, "seed": self._seed, "drawn": drawn}

    def _checked_state(self, state: Mapping[str, object]) -> int:
        """The count in a state of this very scheme, not before the batches already handed out."""
        if not isinstance(state, Mapping):
            raise InvalidSetting(f"state must be a mapping, got {state!r}. Pass what state_dict() returned.")
        for name, value in self._scheme.items():
            if state.get(name) != value:
                raise InvalidSetting(
                    f"{name} in the state must be {value!r} as in this sampler, got {state.get(name)!r}. "
                    "Another scheme has another privacy: build the sampler the state came from."
                )
        if state.get("seed") != self._seed:  # the message keeps both secret
            raise InvalidSetting(
                "seed in the state must be the seed of this sampler, got another one (or one of the two has none). "
                "Build the sampler with the seed of the run to resume."
            )
        drawn = _checked_drawn(state.get("drawn"))
        if drawn < self.drawn:
            raise InvalidSetting(
                f"drawn in the state must be at least {self.drawn}, the batches this sampler has handed out, got {drawn}. "
                "Going back would use batches again that count once: load it into a new sampler, and account for both runs."
            )
        return drawn

    def _hand_out(self) -> Indices:
        if self._shares:
            raise InvalidSetting(
                f"this sampler was divided among ranks={self._ranks}, and a whole batch would repeat what its shares hand out. "
                "Iterate over the share."
            )
        number = self._next
        self._next += 1  # first: a batch that fails half-way is counted, and not drawn again
        return self._draw(system_bytes) if self._seed is None else self.batch_at(number)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value!r}" for name, value in self._scheme.items() if name != "kind")
        seed = "" if self._seed is None else "seed=..., "  # a log is no place for a secret
        return f"{type(self).__name__}({numbers}, steps={self.steps}, {seed}drawn={self.drawn})"


@final
class Share(Passes):
    """One rank's part of each global batch of a seeded sampler: every `ranks`-th record of it.

    The shares of all ranks are disjoint and together are the batch. A share may be empty: the rank takes part in the
    step all the same. Sampling, expected batch, count and state are those of the global batch, so that a run can be
    resumed on another number of ranks.
    """

    def __init__(self, *, sampler: Sampler, rank: int, ranks: int, drawn: int) -> None:
        self._sampler = sampler
        self._rank = rank
        self._ranks = ranks
        self._next = drawn

    @property
    def sampler(self) -> Sampler:
        """The sampler whose batches are shared."""
        return self._sampler

    @property
    def rank(self) -> int:
        """Which share this is, counted from 0."""
        return self._rank

    @property
    def ranks(self) -> int:
        """The number of shares."""
        return self._ranks

    @property
    def sampling(self) -> Poisson | WithoutReplacement:
        """How the global batch is drawn."""
        return self._sampler.sampling

    @property
    def records(self) -> int:
        """The number of records drawn from, over all ranks."""
        return self._sampler.records

    @property
    def steps(self) -> int:
        """The number of batches in one pass."""
        return self._sampler.steps

    @property
    def drawn(self) -> int:
        """The number of global batches of which this share was handed out."""
        return self._next

    @property
    def expected_batch(self) -> float:
        """The expected size of the global batch: divide the sum over all ranks by it."""
        return self._sampler.expected_batch

    def batch_at(self, number: int) -> Indices:
        """The part of batch `number`, counted from 0, that is for this rank. It is not counted as drawn."""
        return self._sampler.batch_at(number)[self._rank :: self._ranks]

    def state_dict(self) -> dict[str, object]:
        """The state of the global draw, the same on every rank. It holds the seed."""
        return self._sampler._state(self._next)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on, with every share of the sampler, after the last batch in `state`."""
        self._sampler.load_state_dict(state)

    def _hand_out(self) -> Indices:
        number = self._next
        self._next += 1
        return self.batch_at(number)

    def __repr__(self) -> str:
        return f"Share(rank={self._rank}, ranks={self._ranks}, drawn={self._next}, sampler={self._sampler!r})"


def _checked_number(number: object) -> int:
    """The number of a batch, counted from 0."""
    value = check.whole(remedy="Batches are counted from 0.", number=number)
    if value >= MOST_STEPS:
        raise InvalidSetting(
            f"number must be below {MOST_STEPS:.0e}, got {value}. Nobody runs more steps than that."
        )
    return value


def _checked_drawn(drawn: object) -> int:
    """A count of batches handed out."""
    value = check.whole(remedy="It is the number of batches handed out before, 0 for a new run.", drawn=drawn)
    if value > MOST_STEPS:
        raise InvalidSetting(
            f"drawn must be at most {MOST_STEPS:.0e}, got {value}. Nobody runs more steps than that."
        )
    return value


def _checked_records(records: object) -> int:
    """The number of records, at least one and few enough to number them."""
    value = check.whole(least=1, remedy="It is the size of the dataset: len(dataset).", records=records)
    if value > MOST_RECORDS:
        raise InvalidSetting(f"records must be at most 2^62, got {value}. Indices are 64-bit numbers.")
    return value
