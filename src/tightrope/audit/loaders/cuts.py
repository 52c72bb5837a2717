"""A pass over indices, cut into batches, as a finding."""

from dataclasses import dataclass, replace

from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.loaders.words import count, refuse, tell, tell_unknown
from tightrope.setting.sampling import EveryRecord, WithoutReplacement


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The indices of one pass of all processes together, in the order they come.

    `kind` is what the stream becomes when it is cut into several batches. The last `repeated` of the `length`
    indices are those the pass began with. `renewed` says that each pass is drawn afresh whatever the training
    loop does, and `is_seeded` that it follows from a generator that was given. `follows` says whether the
    length is that of the dataset, and would be one less for a neighbour; it is None where that is not known.
    """

    kind: Scheme
    records: int
    length: int
    whose: str
    repeated: int = 0
    renewed: bool = True
    is_seeded: bool = False
    follows: bool | None = None
    share: float | None = None
    ranks: int = 1
    notes: tuple[str, ...] = ()

    @property
    def is_fresh(self) -> bool:
        """Whether each pass has a new order, which nobody knows before."""
        return self.renewed and not self.is_seeded


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A stream cut into global batches; the last is short, dropped, or filled to a multiple of `fill_to`.

    It is filled with the indices the pass began with.
    """

    stream: Stream
    batch: int
    drop_last: bool
    fill_to: int = 1
    notes: tuple[str, ...] = ()

    @property
    def used(self) -> int:
        """How many indices of a pass reach a batch."""
        return self.stream.length // self.batch * self.batch if self.drop_last else self.stream.length

    @property
    def steps(self) -> int:
        """How many batches a pass has."""
        return -(-self.used // self.batch)

    @property
    def size(self) -> int:
        """The size of a full batch."""
        return min(self.batch, self.used)

    @property
    def last(self) -> int:
        """The size of the last batch before it is filled."""
        return self.used - (self.steps - 1) * self.batch

    @property
    def filled(self) -> int:
        """How many indices the last batch takes once more from the start of the pass."""
        return -self.last % self.fill_to

    @property
    def distinct(self) -> int:
        """How many indices of a pass are not taken once more from its start."""
        return min(self.used, self.stream.length - self.stream.repeated)

    @property
    def repeats(self) -> int:
        """How many indices come once more at the end of a pass."""
        return self.filled + self.used - self.distinct

    @property
    def removal_changes_one_slot(self) -> bool:
        """Whether one record fewer changes only one slot of a pass: as many batches, none filled up."""
        stream = self.stream
        if stream.follows is None or stream.repeated or self.filled or not stream.renewed:
            return False
        if not stream.follows:
            return stream.length < stream.records or stream.share is not None
        fewer = replace(self, stream=replace(stream, records=stream.records - 1, length=stream.length - 1))
        lost = self.used - fewer.used
        # single draws must be as many: there is no order of which a neighbour could leave out one slot
        return fewer.steps == self.steps and fewer.filled == 0 and lost <= (1 if stream.share is None else 0)

    def find(self) -> Finding:
        """What the cut stream runs."""
        stream = self.stream
        if self.used == 0:
            found = f"{count(stream.length, 'draw')} per pass, a batch size of {self.batch:,} and drop_last"
            raise refuse("yield a batch", found, "Take a smaller batch size, or drop_last=False.")
        if stream.kind in (Scheme.WITH_REPLACEMENT, Scheme.WEIGHTED):
            return _find_single_draws(self)
        if self.distinct > stream.records:
            return _find_repeated_shuffles(self)
        if self.steps > 1:
            return _find_partition(self)
        if self.repeats:
            reason = f"Its one batch per pass repeats some of {stream.whose} to be full"
            return _find_nothing(self, f"{reason}, so a record may count twice in it")
        if self.distinct == stream.records:
            return _find_every_record(self)
        is_drawn = stream.kind is Scheme.SHUFFLE and stream.is_fresh
        return _find_fresh_batch(self) if is_drawn else _find_partition(self)

    def gather_notes(self, *more: str) -> tuple[str, ...]:
        """These notes, then those of the stream and of the cut."""
        return (*more, *self.stream.notes, *self.notes)


def _find_nothing(cut: Cut, reason: str) -> Finding:
    return tell_unknown(reason, records=cut.stream.records, notes=cut.gather_notes())


def _find_every_record(cut: Cut) -> Finding:
    if cut.drop_last or not cut.stream.follows:
        reason = "Every batch holds all records, but with one record fewer it would be dropped or filled up"
        return _find_nothing(cut, reason)
    return tell(
        scheme=Scheme.EVERY_RECORD,
        sentence=f"This loader puts all of {cut.stream.whose} into every batch.",
        sampling=EveryRecord(),
        records=cut.stream.records,
        batch=cut.stream.records,
        batch_count=cut.steps,
        notes=cut.gather_notes(),
    )


def _find_fresh_batch(cut: Cut) -> Finding:
    draws = f"one batch of {cut.used:,} of {cut.stream.whose} without replacement, afresh in every pass"
    passes = "A pass over the loader is one step: run as many passes as steps are accounted."
    return tell(
        scheme=Scheme.WITHOUT_REPLACEMENT,
        sentence=f"This loader draws {draws}.",
        sampling=WithoutReplacement(batch=cut.used, population=cut.stream.records),
        records=cut.stream.records,
        batch=cut.used,
        batch_count=cut.steps,
        notes=cut.gather_notes(passes),
    )


def _count_batches(cut: Cut) -> str:
    is_short = cut.steps > 1 and cut.last < cut.size and not cut.filled
    short = f" (the last has {cut.last:,})" if is_short else ""
    return f"{count(cut.steps, 'batch')} of {cut.size:,} per epoch{short}"


def _find_partition(cut: Cut) -> Finding:
    stream, shuffles = cut.stream, cut.stream.kind is Scheme.SHUFFLE
    verb = "shuffles" if shuffles else "takes"
    order = "" if shuffles else ", the same ones in the same order every time"
    some = "" if stream.length >= stream.records else f"{stream.length:,} of "
    notes = []
    if cut.repeats:
        notes.append(
            f"To be full, the last batch takes the first {count(cut.repeats, 'draw')} of the epoch once "
            f"more: a record may come in two of its {count(cut.steps, 'step')}."
        )
    if (left_out := stream.length - stream.repeated - cut.distinct) > 0:
        notes.append(f"drop_last leaves {count(left_out, 'record')} out of each epoch.")
    if some and shuffles:
        drawn = f"Each pass draws {stream.length:,} of the records afresh"
        notes.append(f"{drawn}; batches of one pass are disjoint.")
    return tell(
        scheme=stream.kind,
        sentence=f"This loader {verb} {some}{stream.whose} and cuts them into {_count_batches(cut)}{order}.",
        records=stream.records,
        batch=cut.size,
        batch_count=cut.steps,
        epoch=cut.steps,
        times=2 if cut.repeats else 1,
        full=_count_full(cut),
        removal_changes_one_slot=cut.removal_changes_one_slot,
        reshuffles=True if shuffles and stream.is_fresh else None,
        notes=cut.gather_notes(*notes),
    )


def _count_full(cut: Cut) -> int:
    """The full batches of a pass; one fewer where its end would be taken for that of the dataset.

    Fewer draws than records may end in the batch in which the records would end, with fewer in it: some
    records are in no batch then, which costs something else than a last batch of all that are left.
    """
    full, records = cut.used // cut.batch, cut.stream.records
    ends_there = cut.stream.length < records and cut.steps == -(-records // cut.batch)
    return full - 1 if full and ends_there and full < cut.steps else full


def _find_repeated_shuffles(cut: Cut) -> Finding:
    """More indices than records: whole shuffles one after another, then the start of one more."""
    stream = cut.stream
    if cut.batch == stream.records and cut.used % stream.records == 0:
        return _find_every_record(cut)
    # indices that fill the last batch come from another shuffle and may be in that batch already
    if cut.batch >= stream.records or stream.records % cut.batch or cut.filled:
        reason = (
            f"A pass draws {stream.length:,} indices, one shuffle of {stream.whose} after another, and "
            f"a batch of {cut.batch:,} may join the end of one with the start of another, and hold a "
            "record twice"
        )
        return _find_nothing(cut, reason)
    again = f"shuffles {stream.whose} again and again and cuts them into {_count_batches(cut)}"
    finding = tell(
        scheme=Scheme.SHUFFLE,
        sentence=f"This loader {again}.",
        records=stream.records,
        batch=cut.batch,
        batch_count=cut.steps,
    )
    if cut.used % stream.records:  # two passes would meet in the middle of a shuffle: count them as passes
        times = -(-cut.used // stream.records)
        often = f"A record comes up to {times} times in a pass of {count(cut.steps, 'batch')}."
        return replace(finding, epoch=cut.steps, times=times, notes=cut.gather_notes(often))
    epoch = stream.records // cut.batch
    cuts = f"cuts them into {count(epoch, 'batch')} of {cut.batch:,} per epoch"
    several = f"One pass is {cut.distinct // stream.records} epochs, each shuffled anew."
    return replace(
        finding,
        sentence=f"This loader shuffles {stream.whose} and {cuts}.",
        epoch=epoch,
        full=epoch,
        reshuffles=True if stream.is_fresh else None,
        notes=cut.gather_notes(several),
    )


def _find_single_draws(cut: Cut) -> Finding:
    stream = cut.stream
    if cut.filled:
        reused = f"{count(cut.filled, 'draw')} that its first batch already used"
        return _find_nothing(cut, f"The last batch of a pass is filled with {reused}")
    law = "with replacement" if stream.kind is Scheme.WITH_REPLACEMENT else "with weights"
    return tell(
        scheme=stream.kind,
        sentence=f"This loader draws each batch of {cut.size:,} one by one from {stream.whose}, {law}.",
        records=stream.records,
        batch=cut.size,
        batch_count=cut.steps,
        share=stream.share,
        epoch=cut.steps if stream.share is None else None,  # drawn without replacement: once per pass
        removal_changes_one_slot=cut.removal_changes_one_slot,
        notes=cut.gather_notes(),
    )
