"""Numbered batches, each handed out once and counted, whole or shared among ranks."""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

from tightrope.errors import Described, InvalidSetting
from tightrope.numerics import check
from tightrope.samplers.draws import Indices
from tightrope.samplers.entropy import ByteSource, check_seed, digest_seed, seeded_bytes, system_bytes
from tightrope.samplers.forks import tell_when_forked
from tightrope.samplers.pieces import PaddedBatch, Piece, cut_batches, pad_batches
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.plain import plain_setting, read_exactly
from tightrope.setting.run import MOST_STEPS, Run, Step
from tightrope.setting.sampling import Sampling

MOST_RECORDS = 2**62  # indices are 64-bit numbers


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """A sampler or a share as other ranks may see it: the seed as a digest that says nothing about it."""

    scheme: str
    seed: str
    drawn: int
    rank: int
    ranks: int


class Passes(ABC):
    """What a sampler and its shares have in common.

    `for indices in passes` is one pass of `steps` logical batches. The next pass goes on with new ones, and
    two iterators over one object never hand out the same batch, in whatever threads they are. A batch counts
    as drawn when it is handed out: a loader that fetches ahead is counted ahead, which is the safe side.
    """

    def __init__(self, *, records: int, steps: int, drawn: int) -> None:
        self._records, self._steps, self._next = records, steps, drawn
        self._handed_out = 0

    @property
    @abstractmethod
    def sampling(self) -> Sampling:
        """How the global batch of one step is drawn: the value the accountant takes."""

    @property
    def records(self) -> int:
        """The number of records drawn from, over all ranks."""
        return self._records

    @property
    def steps(self) -> int:
        """The number of batches in one pass."""
        return self._steps

    @property
    def drawn(self) -> int:
        """The number of logical, global batches handed out so far: the steps to account for."""
        return self._next

    @property
    def handed_out(self) -> int:
        """How many of them this object has handed out itself, not counting those of a run that it goes on."""
        return self._handed_out

    @property
    @abstractmethod
    def expected_batch(self) -> float:
        """The expected size of the global batch: divide the noisy sum of all ranks' gradients by it.

        Never divide by the size of the batch that was drawn. It depends on the records, is released without
        noise that way, and is 0 now and then.
        """

    @property
    @abstractmethod
    def ample_batch(self) -> int:
        """A size that batches exceed once in 10^12 times at most."""

    @abstractmethod
    def batch_at(self, number: int) -> Indices:
        """Batch `number`, counted from 0, handed out or not; needs a seed. It does not count as drawn."""

    @abstractmethod
    def state_dict(self) -> dict[str, object]:
        """What a checkpoint needs to go on with the next batch. A seed in it is as secret as the records."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where the sampler that gave `state` stopped, if it drew in the same way.

        The length of a pass may differ, and the next pass is a whole one. Going back is refused: batches
        would be handed out twice and counted once. So forget what was computed after the state was taken.
        """

    @abstractmethod
    def fingerprint(self) -> "Fingerprint":
        """What ranks that train together must agree about; it does not tell the seed."""

    @abstractmethod
    def _hand_out(self) -> Indices:
        """The next batch, counted."""

    def step(self, mechanism: Mechanism) -> Step:
        """One step of `mechanism` on a batch of this sampler."""
        return Step(mechanism, self.sampling)

    def run(self, mechanism: Mechanism) -> Run:
        """The steps taken so far, if each batch drawn was used once by `mechanism`."""
        return self.step(mechanism) * self.drawn

    def pieces(self, *, most: int) -> Iterator[Piece]:
        """One pass in pieces of at most `most` records, for gradient accumulation.

        An empty batch is one empty piece that ends its step: it adds noise only, but it is a step all the
        same.
        """
        remedy = "It is the number of records that fit into memory."
        return cut_batches(self, check.whole(least=1, remedy=remedy, most=most))

    def padded(self, *, to: int | None = None) -> Iterator[PaddedBatch]:
        """One pass in batches of one physical size, as compilers want them: `to`, or else `ample_batch`.

        Padding changes nothing about privacy. A batch that does not fit is refused: to drop a record would be
        another sampling than the one accounted.
        """
        size = self.ample_batch if to is None else to
        size = check.whole(least=1, remedy="It is the size that all batches get.", to=size)
        return pad_batches(self, size, ample=self.ample_batch)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Indices]:
        for _ in range(self.steps):
            yield self._hand_out()


class Sampler(Passes):
    """Global batches under one sampling scheme, with the scheme and the count that the accountant takes."""

    def __init__(self, *, records: int, steps: int, seed: int | None, drawn: int) -> None:
        size = check.whole(least=1, remedy="It is the size of the dataset: len(dataset).", records=records)
        if size > MOST_RECORDS:
            raise InvalidSetting("records", records, "be at most 2^62", "Indices are 64-bit numbers.")
        remedy = "It is the number of batches in one pass over the loader."
        length = check.whole(least=1, remedy=remedy, steps=steps)
        super().__init__(records=size, steps=length, drawn=_check_drawn(drawn))
        self._seed = check_seed(seed)
        self._ranks = 0
        self._shares: dict[int, Share] = {}
        tell_when_forked(self)
        self.leave_parent()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_drawing"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        tell_when_forked(self)
        self.leave_parent()

    def leave_parent(self) -> None:
        """In a copy or a forked process: have nothing in common with the sampler that it comes from."""
        self._drawing = threading.RLock()  # without it, two threads that draw at once might get one number

    @abstractmethod
    def _draw(self, number: int) -> Indices:
        """Batch `number`, made of the bytes that `_bytes_of` gives."""

    def _bytes_of(self, number: int) -> ByteSource:
        """The bytes of draw `number`: those of the seed, or fresh ones of the operating system."""
        return system_bytes if self._seed is None else seeded_bytes(seed=self._seed, number=number)

    @property
    def _scheme(self) -> dict[str, object]:
        """The kind of sampler and its numbers, by the names of the arguments."""
        sampling = plain_setting(self.sampling)
        sampling.pop("population", None)  # it is `records`
        return {"kind": sampling.pop("kind"), "records": self.records, **sampling}

    @property
    def drawn(self) -> int:
        """The number of batches handed out so far, through any share: the number of the next one."""
        return max([self._next, *(share.drawn for share in self._shares.values())])

    @property
    def handed_out(self) -> int:
        """How many of them this object and its shares have handed out themselves."""
        return self._handed_out + max((share.handed_out for share in self._shares.values()), default=0)

    @property
    def ample_batch(self) -> int:
        """A size that batches exceed once in 10^12 times at most, if records join independently of others.

        Bernstein's inequality: t more than expected have a chance of at most e^(-t^2 / (2 expected + 2t/3)).
        """
        expected, rarity = float(self.records * self.sampling.exact_rate), math.log(10**12)
        more = rarity / 3 + math.sqrt(rarity**2 / 9 + 2 * expected * rarity)
        return min(self.records, math.ceil(expected + more))

    def batch_at(self, number: int) -> Indices:
        """Batch `number`, counted from 0: a function of seed and number. It does not count as drawn."""
        if self._seed is None:
            remedy = "The operating system's entropy cannot be drawn again: pass seed=fresh_seed()."
            raise InvalidSetting("seed", None, f"be given for batch_at({number!r})", remedy)
        place = check.whole(remedy="Batches are counted from 0.", number=number)
        if place >= MOST_STEPS:
            raise InvalidSetting("number", number, f"be below {MOST_STEPS:.0e}", _TOO_MANY)
        return self._draw(place)

    def share(self, *, rank: int, ranks: int) -> "Share":
        """The part of each global batch for one rank; from then on only shares hand out batches.

        Every rank builds the same sampler from the same seed and takes its own share. One draw per rank would
        be another scheme than the one accounted: with equal seeds every rank would pick the same positions.
        """
        if self._seed is None:
            remedy = (
                "All ranks must make the same draw: call fresh_seed() on one rank, broadcast it, "
                "and pass it as seed on each."
            )
            raise InvalidSetting("seed", None, f"be given for share(rank={rank!r}, ranks={ranks!r})", remedy)
        ranks = check.whole(least=1, remedy="It is the number of processes that train together.", ranks=ranks)
        rank = check.whole(rank=rank)
        if rank >= ranks:
            raise InvalidSetting("rank", rank, f"be below ranks={ranks}", "Ranks count from 0.")
        if self._ranks not in (0, ranks):
            must = f"be {self._ranks} as in the shares already taken"
            remedy = (
                "Shares of two divisions overlap: to divide differently, load the state into a new sampler."
            )
            raise InvalidSetting("ranks", ranks, must, remedy)
        if rank not in self._shares:
            self._shares[rank] = Share(sampler=self, rank=rank, ranks=ranks, drawn=self._next)
            self._ranks = ranks
        return self._shares[rank]

    def fingerprint(self) -> Fingerprint:
        """The global draw, as the one rank that makes it alone."""
        return self._fingerprint(drawn=self.drawn, rank=0, ranks=1)

    def _fingerprint(self, *, drawn: int, rank: int, ranks: int) -> Fingerprint:
        scheme = ", ".join(f"{name}={value}" for name, value in self._scheme.items())
        return Fingerprint(scheme=scheme, seed=digest_seed(self._seed), drawn=drawn, rank=rank, ranks=ranks)

    def state_dict(self) -> dict[str, object]:
        """Scheme, seed and count. With a seed it is a secret."""
        return self._state(self.drawn)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on with the batch after the last one handed out by the sampler that gave `state`."""
        drawn = self._resume_after(self._check_state(state))
        self._next = drawn
        for share in self._shares.values():
            share._next = drawn

    def _resume_after(self, drawn: int) -> int:
        """The number of the next batch of a run that has drawn so many."""
        return drawn

    def _state(self, drawn: int) -> dict[str, object]:
        return {**self._scheme, "steps": self.steps, "seed": self._seed, "drawn": drawn}

    def _check_state(self, state: Mapping[str, object]) -> int:
        """The count in a state of this very scheme, not before the batches already handed out."""
        if not isinstance(state, Mapping):
            raise InvalidSetting("state", state, "be a mapping", "Pass what state_dict() returned.")
        if state.get("kind") == "without_replacement":  # as version 0.7 wrote it
            state = {**state, "kind": "without-replacement"}
        for name, value in self._scheme.items():
            if state.get(name) != value:
                must = f"be {value!r} as in this sampler"
                remedy = "Another scheme has another privacy: build the sampler the state came from."
                raise InvalidSetting(f"{name} in the state", state.get(name), must, remedy)
        if state.get("seed") != self._seed:
            secret = Described("another one (or one of the two has none)")
            remedy = "Build the sampler with the seed of the run to resume."
            raise InvalidSetting("seed in the state", secret, "be the seed of this sampler", remedy)
        drawn = _check_drawn(state.get("drawn"))
        if drawn < self.drawn:
            must = f"be at least {self.drawn}, the batches this sampler has handed out"
            remedy = (
                "Going back would use batches again that count once: load it into a new sampler, "
                "and account for both runs."
            )
            raise InvalidSetting("drawn in the state", drawn, must, remedy)
        return drawn

    def _hand_out(self) -> Indices:
        if self._shares:
            must = f"be iterated over through its shares, since it was divided among ranks={self._ranks}"
            remedy = "A whole batch would repeat what the shares hand out. Iterate over the share."
            raise InvalidSetting("the sampler", self, must, remedy)
        with self._drawing:
            number = self._next
            self._next += 1  # first: a batch that fails half-way is counted, and not drawn again
            self._handed_out += 1
            return self._draw(number)

    def __repr__(self) -> str:
        scheme = {name: read_exactly(value) for name, value in self._scheme.items() if name != "kind"}
        numbers = ", ".join(f"{name}={value!r}" for name, value in scheme.items())
        seed = "" if self._seed is None else "seed=..., "  # a log is no place for a secret
        return f"{type(self).__name__}({numbers}, steps={self.steps}, {seed}drawn={self.drawn})"


@final
class Share(Passes):
    """One rank's part of each global batch of a seeded sampler: every `ranks`-th record of it.

    The shares of all ranks are disjoint and together are the batch. A share may be empty: the rank takes part
    in the step all the same. Sampling, expected batch, count and state are those of the global batch, so a
    run can be resumed on another number of ranks.
    """

    def __init__(self, *, sampler: Sampler, rank: int, ranks: int, drawn: int) -> None:
        super().__init__(records=sampler.records, steps=sampler.steps, drawn=drawn)
        self._sampler, self._rank, self._ranks = sampler, rank, ranks

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
    def sampling(self) -> Sampling:
        """How the global batch is drawn."""
        return self._sampler.sampling

    @property
    def expected_batch(self) -> float:
        """The expected size of the global batch: divide the sum over all ranks by it."""
        return self._sampler.expected_batch

    @property
    def ample_batch(self) -> int:
        """A size that shares exceed once in 10^12 times at most."""
        return -(-self._sampler.ample_batch // self._ranks)

    def batch_at(self, number: int) -> Indices:
        """The part of batch `number` for this rank, counted from 0. It does not count as drawn."""
        return self._sampler.batch_at(number)[self._rank :: self._ranks]

    def fingerprint(self) -> Fingerprint:
        """The global draw, and which part of it this is."""
        return self._sampler._fingerprint(drawn=self._next, rank=self._rank, ranks=self._ranks)

    def state_dict(self) -> dict[str, object]:
        """The state of the global draw, the same on every rank. It holds the seed."""
        return self._sampler._state(self._next)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on, with every share of the sampler, after the last batch in `state`."""
        self._sampler.load_state_dict(state)

    def _hand_out(self) -> Indices:
        with self._sampler._drawing:
            number = self._next
            self._next += 1
            self._handed_out += 1
            return self.batch_at(number)

    def __repr__(self) -> str:
        return f"Share(rank={self._rank}, ranks={self._ranks}, drawn={self._next}, sampler={self._sampler!r})"


_TOO_MANY = "No run has more steps than that."


def _check_drawn(drawn: object) -> int:
    """A count of batches handed out."""
    value = check.whole(remedy="It is the number of batches handed out before, 0 for a new run.", drawn=drawn)
    if value > MOST_STEPS:
        raise InvalidSetting("drawn", value, f"be at most {MOST_STEPS:.0e}", _TOO_MANY)
    return value
