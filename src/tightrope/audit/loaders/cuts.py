"""A pass over indices, cut into batches, as a finding."""

from dataclasses import dataclass, replace

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.loaders.words import counted, unknown
from tightrope.errors import InvalidSetting
from tightrope.setting.sampling import EveryRecord, WithoutReplacement


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The indices of one pass of all processes together, in the order they come.

    `kind` is what the stream becomes when cut into several batches. Of the `length` indices the last `repeated` are those the
    pass began with. `renewed` says that each pass is drawn afresh whatever the training loop does. `follows` says whether the
    length is that of the dataset, and would be one less for a neighbour; None where that is not known.
    """

    kind: Scheme
    records: int
    length: int
    whose: str
    repeated: int = 0
    renewed: bool = True
    follows: bool | None = None
    share: float | None = None
    ranks: int = 1
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A stream cut into global batches; a short last one is dropped, or filled from the start to a multiple of `fill_to`."""

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
        """Batches per pass."""
        return -(-self.used // self.batch)

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
        """Whether one record fewer changes one place of a pass and no other: as many batches, none of them filled up."""
        stream = self.stream
        if stream.follows is None or stream.repeated or self.filled or not stream.renewed:
            return False
        if not stream.follows:
            return stream.length < stream.records or stream.share is not None
        fewer = replace(self, stream=replace(stream, records=stream.records - 1, length=stream.length - 1))
        lost = self.used - fewer.used
        # draws one by one must be as many: there is no order of which a neighbour could leave out one place
        return fewer.steps == self.steps and fewer.filled == 0 and lost <= (1 if stream.share is None else 0)


def found(cut: Cut) -> Finding:
    """What a cut stream runs."""
    stream = cut.stream
    if cut.used == 0:
        raise InvalidSetting(
            f"The loader yields no batch: a pass has {counted(stream.length, 'draw')}, the batch size is {cut.batch:,}, and "
            "drop_last drops what is left over. Take a smaller batch size, or drop_last=False."
        )
    if stream.kind in (Scheme.WITH_REPLACEMENT, Scheme.WEIGHTED):
        return _drawn_one_by_one(cut)
    if cut.distinct > stream.records:
        return _reshuffled_within_a_pass(cut)
    if cut.steps > 1:
        return _partition(cut)
    if cut.repeats:
        return _unknown(
            cut,
            f"Its one batch per pass repeats some of {stream.whose} to be full, so a record may count twice in it",
        )
    if cut.distinct == stream.records:
        return _every_record(cut)
    return _one_fresh_batch(cut) if stream.kind is Scheme.SHUFFLE and stream.renewed else _partition(cut)


def _notes(cut: Cut, *more: str) -> tuple[str, ...]:
    return (*more, *cut.stream.notes, *cut.notes)


def _unknown(cut: Cut, reason: str) -> Finding:
    return unknown(reason, records=cut.stream.records, notes=_notes(cut))


def _every_record(cut: Cut) -> Finding:
    if cut.drop_last or not cut.stream.follows:
        return _unknown(
            cut, "Every batch holds all records, but with one record fewer it would be dropped or filled up"
        )
    return Finding(
        scheme=Scheme.EVERY_RECORD,
        how=How.INSPECTED,
        sentence=f"This loader puts all of {cut.stream.whose} into every batch.",
        sampling=EveryRecord(),
        records=cut.stream.records,
        batch=cut.stream.records,
        notes=_notes(cut),
    )


def _one_fresh_batch(cut: Cut) -> Finding:
    return Finding(
        scheme=Scheme.WITHOUT_REPLACEMENT,
        how=How.INSPECTED,
        sentence=f"This loader draws one batch of {cut.used:,} of {cut.stream.whose} without replacement, afresh in every pass.",
        sampling=WithoutReplacement(batch=cut.used, population=cut.stream.records),
        records=cut.stream.records,
        batch=cut.used,
        notes=_notes(cut, "A pass over the loader is one step: run as many passes as steps are accounted."),
    )


def _pieces(cut: Cut) -> str:
    size = min(cut.batch, cut.used)
    short = f" (the last has {cut.last:,})" if cut.steps > 1 and cut.last < size and not cut.filled else ""
    return f"{counted(cut.steps, 'batch')} of {size:,} per epoch{short}"


def _partition(cut: Cut) -> Finding:
    stream = cut.stream
    verb = "shuffles" if stream.kind is Scheme.SHUFFLE else "takes"
    order = "" if stream.kind is Scheme.SHUFFLE else ", the same ones in the same order every time"
    some = "" if stream.length >= stream.records else f"{stream.length:,} of "
    notes = []
    if cut.repeats:
        notes.append(
            f"To be full, the last batch takes the first {counted(cut.repeats, 'draw')} of the epoch once more: "
            f"a record may come in two of its {counted(cut.steps, 'step')}."
        )
    if cut.distinct < stream.length - stream.repeated:
        notes.append(
            f"drop_last leaves {counted(stream.length - stream.repeated - cut.distinct, 'record')} out of each epoch."
        )
    if stream.length < stream.records and stream.kind is Scheme.SHUFFLE:
        notes.append(
            f"Each pass draws {stream.length:,} of the records afresh; batches of one pass are disjoint."
        )
    return Finding(
        scheme=stream.kind,
        how=How.INSPECTED,
        sentence=f"This loader {verb} {some}{stream.whose} and cuts them into {_pieces(cut)}{order}.",
        records=stream.records,
        batch=min(cut.batch, cut.used),
        epoch=cut.steps,
        times=2 if cut.repeats else 1,
        full=cut.used // cut.batch,
        removal_changes_one_slot=cut.removal_changes_one_slot,
        reshuffles=True if stream.kind is Scheme.SHUFFLE and stream.renewed else None,
        notes=_notes(cut, *notes),
    )


def _reshuffled_within_a_pass(cut: Cut) -> Finding:
    """More indices than records: whole shuffles one after another, then the start of one more."""
    stream = cut.stream
    if cut.batch == stream.records and cut.used % stream.records == 0:
        return _every_record(cut)
    # indices that fill the last batch come from another shuffle and may be in that batch already
    if cut.batch >= stream.records or stream.records % cut.batch or cut.filled:
        return _unknown(
            cut,
            f"A pass draws {stream.length:,} indices, one shuffle of {stream.whose} after another, and a batch of "
            f"{cut.batch:,} may join the end of one with the start of another, and hold a record twice",
        )
    epoch = stream.records // cut.batch
    if cut.used % stream.records:  # two passes would meet in the middle of a shuffle: count them as passes
        times = -(-cut.used // stream.records)
        return Finding(
            scheme=Scheme.SHUFFLE,
            how=How.INSPECTED,
            sentence=f"This loader shuffles {stream.whose} again and again and cuts them into {_pieces(cut)}.",
            records=stream.records,
            batch=cut.batch,
            epoch=cut.steps,
            times=times,
            notes=_notes(
                cut, f"A record comes up to {times} times in a pass of {counted(cut.steps, 'batch')}."
            ),
        )
    return Finding(
        scheme=Scheme.SHUFFLE,
        how=How.INSPECTED,
        sentence=f"This loader shuffles {stream.whose} and cuts them into {counted(epoch, 'batch')} of {cut.batch:,} per epoch.",
        records=stream.records,
        batch=cut.batch,
        epoch=epoch,
        full=epoch,
        reshuffles=True if stream.renewed else None,
        notes=_notes(cut, f"One pass is {cut.distinct // stream.records} epochs, each shuffled anew."),
    )


def _drawn_one_by_one(cut: Cut) -> Finding:
    stream = cut.stream
    if cut.filled:
        return _unknown(
            cut,
            f"The last batch of a pass is filled with {counted(cut.filled, 'draw')} that its first batch already used",
        )
    law = "with replacement" if stream.kind is Scheme.WITH_REPLACEMENT else "with weights"
    size = min(cut.batch, cut.used)
    return Finding(
        scheme=stream.kind,
        how=How.INSPECTED,
        sentence=f"This loader draws each batch of {size:,} one by one from {stream.whose}, {law}.",
        records=stream.records,
        batch=size,
        share=stream.share,
        epoch=cut.steps if stream.share is None else None,  # drawn without replacement: once per pass
        removal_changes_one_slot=cut.removal_changes_one_slot,
        notes=_notes(cut),
    )
