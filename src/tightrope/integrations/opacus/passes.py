"""Steps on batches among which records choose once in each pass: counted as the batches that were drawn."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tightrope.audit.steps.draws import Draw
from tightrope.errors import Described, InvalidSetting
from tightrope.numerics import check
from tightrope.samplers.sampler import Passes
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.run import Step
from tightrope.setting.sampling import Allocated
from tightrope.setting.tables import Table

ONE_NOISE = "A record is in one batch of the pass or in another: change the noise where a pass begins."
EARLIER = "one on a batch that was drawn before the state was loaded"
Restore = Callable[[], None]


class SavedPasses(NamedTuple):
    """What a checkpoint holds of the batches that were counted.

    `counted` is their number, `drawn` that of the sampler at the last step, and `noise` that of this step.
    `begun` says whether the begun pass of the ledger is the one that the sampler goes on with.
    """

    counted: int
    drawn: int
    noise: float | None
    begun: bool

    @staticmethod
    def read(plain: Any) -> "SavedPasses | None":
        """The state that `_asdict` gave; None where there were no passes."""
        if plain is None:
            return None
        kept = Table.of(plain, "state: tightrope.passes.")
        kept.keep_to(SavedPasses._fields)
        noise: Any = kept.need("noise", "It is that of the last step.")
        return SavedPasses(
            counted=check.whole(counted=kept.need("counted", "It is a number of batches.")),
            drawn=check.whole(drawn=kept.need("drawn", "It is a number of batches.")),
            noise=None if noise is None else check.positive(noise=noise),
            begun=bool(kept.need("begun", "It is true or false.")),
        )


class LoaderDraws:
    """Where the draws of one loader lie among those of its sampler, from which others may draw as well."""

    def __init__(self, sampler: Passes, numbers: Iterator[int]) -> None:
        self._numbers, self._first = numbers, 0  # of the draws of the loader; of those that may be stepped on
        self._place = sampler.drawn  # where the first of them lies at the earliest

    def go_on(self) -> None:
        """A state is loaded: the sampler goes on elsewhere, and its loader counts on."""
        self._first = next(self._numbers, 0) + 1

    def begin_at(self, place: int) -> None:
        """Where the sampler goes on."""
        self._place = place

    def number(self, used: Sequence[Draw]) -> int:
        """The number of a draw in the sampler, or less where others drew from it; -1 if it is unknown."""
        if not used:
            return -1
        (draw,) = used
        if draw.number < self._first:
            remedy = "Iterate over the loader anew."
            raise InvalidSetting("step", Described(EARLIER), "be taken on a batch drawn after it", remedy)
        return self._place + draw.number - self._first

    def remember(self) -> Restore:
        """What undoes a load that is refused. It took a number, so draws may lie one earlier from then on."""
        first, place = self._first, self._place

        def restore() -> None:
            self._first, self._place = first, place - 1

        return restore


class PassCount:
    """How many batches of a sampler a ledger holds.

    Each step brings it up to the batches that were drawn, so that those which were skipped, or fetched ahead
    and lost, count as used: a batch that is not released tells less. What was drawn of the first pass before
    counts as well. Batches that were fetched ahead are counted with the noise of that time, so it may change
    only with a batch that was drawn since, the first of its pass.
    """

    def __init__(self, sampler: Passes, sampling: Allocated) -> None:
        self.sampler, self.sampling = sampler, sampling
        self.counted = sampler.drawn - count_begun(sampler)  # with what is paid for and still to come
        self._drawn = sampler.drawn  # at the last step
        self._noise: float | None = None
        self._loaders: list[LoaderDraws] = []
        self._before_load: tuple[int, int] | None = (
            None  # batches counted and handed out, until the next step
        )

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_loaders": []}  # nobody steps through a copy

    @property
    def place(self) -> int:
        """How many batches are counted of a pass that was begun."""
        return self.counted % self.sampling.batches

    @property
    def news(self) -> int:
        """How many batches were drawn and are not counted."""
        return max(self.sampler.drawn - self.counted, 0)

    @property
    def step(self) -> Step | None:
        """The kind of the last step."""
        return None if self._noise is None else self._make_step(self._noise)

    def add_loader(self, numbers: Iterator[int]) -> LoaderDraws:
        """A loader draws from the sampler, and counts its draws with these numbers."""
        self._loaders.append(LoaderDraws(self.sampler, numbers))
        return self._loaders[-1]

    def begin_step(self, noise: float, number: int) -> Step:
        """The step that is taken with this noise on the draw with this number of the sampler."""
        is_first = self.place == 0 and number >= self.counted
        if self._noise not in (None, noise) and not is_first:
            must = f"stay {self._noise!r} until the pass of {self.sampling.batches} batches ends"
            raise InvalidSetting("noise_multiplier", noise, must, ONE_NOISE)
        self._noise, self._drawn = noise, self.sampler.drawn
        return self._make_step(noise)

    def _make_step(self, noise: float) -> Step:
        return Step(Gaussian(noise_multiplier=noise), self.sampling)

    # checkpoints

    def save(self, *, begun: bool) -> SavedPasses:
        """What a checkpoint holds."""
        return SavedPasses(counted=self.counted, drawn=self._drawn, noise=self._noise, begun=begun)

    def go_on(self, saved: SavedPasses) -> None:
        """Count on from what a checkpoint held, if the sampler goes on there as well."""
        self._before_load = self.counted, self.sampler.handed_out
        self.counted, self._drawn, self._noise, _ = saved
        for loader in self._loaders:
            loader.go_on()

    def settle_load(self) -> bool:
        """At the first step after a load: whether the sampler goes on where the checkpoint was written.

        If it does not, its batches are others, and they are counted from where they were counted before.
        """
        if self._before_load is None:
            return True
        (counted, handed_out), self._before_load = self._before_load, None
        place = self.sampler.drawn - (self.sampler.handed_out - handed_out)
        for loader in self._loaders:
            loader.begin_at(place)
        if place >= self._drawn:
            return True
        self.counted, self._noise = counted, None
        return False

    def remember(self) -> Restore:
        """What undoes a load that is refused."""
        kept, loaders = dict(vars(self)), [loader.remember() for loader in self._loaders]

        def restore() -> None:
            vars(self).update(kept)
            for loader in loaders:
                loader()

        return restore


def count_begun(sampler: Passes) -> int:
    """How many batches of the pass that comes next were drawn before: they count with the others of it."""
    sampling = sampler.sampling
    return sampler.drawn % sampling.batches if isinstance(sampling, Allocated) else 0
