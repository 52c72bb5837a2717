"""The batch selection strategies of jax_privacy, read as findings.

They hold no dataset and no random numbers: `batch_iterator(num_examples, rng)` is given both. numpy draws the
size of a Poisson batch from the binomial law, then that many records without replacement: each record joins
on its own (arXiv 2406.17298v3, lemma 1).
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from scipy.special import bdtrc

from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.loaders.words import (
    count,
    kind_of,
    name_class,
    refuse,
    tell,
    tell_poisson,
    tell_truncated,
    tell_unknown,
)
from tightrope.numerics import check
from tightrope.numerics.floats import ceil_fraction
from tightrope.setting.sampling import (
    BallsInBins,
    EveryRecord,
    Poisson,
    TruncatedPoisson,
    WithoutReplacement,
)

RNG_UNSEEN = (
    "Cannot be seen: the rng that each batch_iterator is given. With the same seed it yields the same "
    "batches again."
)
PADDING = (
    "A -1 in a padded batch stands for no record: it must reach the gradients as is_padding_example, "
    "which cannot be seen from here."
)


def _count(**named: Any) -> int:
    """A size of at least 1, which numpy or jax may hold."""
    ((name, value),) = named.items()
    return check.whole(least=1, **{name: value.item() if hasattr(value, "item") else value})


def _count_batches(strategy: Any) -> int:
    return _count(iterations=strategy.iterations)


def _tell_iterator(strategy: Any) -> tuple[str, ...]:
    batches = count(_count_batches(strategy), "batch")
    return (f"One batch_iterator yields {batches}: account as many steps for each.", RNG_UNSEEN, PADDING)


def _read_cyclic_poisson(strategy: Any, records: int) -> Finding:
    sampling = Poisson(rate=float(strategy.sampling_prob))
    groups, truncated = _count(cycle_length=strategy.cycle_length), strategy.truncated_batch_size
    if groups > records:
        found = f"{groups:,} groups of {count(records, 'record')}, so that some are empty"
        raise refuse("have a record in each group", found, "Take a shorter cycle_length.")
    notes = _tell_iterator(strategy)
    # groups that records choose by themselves may hold all of them; a limit that large is never reached
    largest = records // groups if strategy.partition_type.name == "EQUAL_SPLIT" else records
    if truncated is not None and truncated < largest:
        if groups == 1 <= truncated:
            return _find_truncated(strategy, records, notes)
        return _tell_truncated(strategy, records, notes)
    if groups == 1:
        return tell_poisson(
            sampling, records, notes, batch_count=_count_batches(strategy), by="This strategy"
        )
    if sampling.exact_rate == 1:
        return _find_cycle(strategy, records, notes)
    known = "no theorem here covers it"
    if strategy.partition_type.name == "INDEPENDENT":
        known = "no audit checks it; banded_run accounts for it, as one step for each cycle"
    reason = (
        f"This strategy assigns the {count(records, 'record')} to {groups} groups once and draws Poisson "
        f"batches at rate {sampling.rate:.10g} from one group after another: a record can come in every "
        f"{_ordinal(groups)} batch only. That is not Poisson sampling from all records, and {known}"
    )
    return _tell_uncovered(reason, records, notes)


def _ordinal(number: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if 10 <= number % 100 <= 20 else ends.get(number % 10, 'th')}"


def _find_truncated(strategy: Any, records: int, notes: tuple[str, ...]) -> Finding:
    """The size is drawn and cut before its records are, so those kept are a uniformly random subset."""
    most = _count(truncated_batch_size=strategy.truncated_batch_size)
    sampling = TruncatedPoisson(rate=float(strategy.sampling_prob), at_most=most, population=records)
    return tell(
        scheme=Scheme.TRUNCATED_POISSON,
        sentence=f"This strategy {tell_truncated(sampling.rate, most, records)}.",
        sampling=sampling,
        records=records,
        rate=sampling.rate,
        batch_count=_count_batches(strategy),
        notes=notes,
    )


def _tell_truncated(strategy: Any, records: int, notes: tuple[str, ...]) -> Finding:
    limit, groups = int(strategy.truncated_batch_size), int(strategy.cycle_length)
    group = records // groups
    often = float(bdtrc(limit, group, float(strategy.sampling_prob))) if 0 <= limit < group else 0.0
    cut = f" (a batch is cut with probability about {often:.2g})" if often else ""
    reason = (
        f"This strategy draws Poisson batches at rate {float(strategy.sampling_prob):.10g} and cuts those "
        f"of more than {limit:,} records down to that size{cut}: then a record pushes another out. That is "
        "not plain Poisson sampling, and no theorem here covers it"
    )
    return _tell_uncovered(reason, records, notes)


def _tell_uncovered(reason: str, records: int, notes: tuple[str, ...]) -> Finding:
    return tell(scheme=Scheme.UNKNOWN, sentence=f"{reason}.", records=records, notes=notes)


def _find_cycle(strategy: Any, records: int, notes: tuple[str, ...]) -> Finding:
    """Whole groups, one after another, the same ones in every cycle."""
    if strategy.partition_type.name == "INDEPENDENT":
        return _find_balls_in_bins(strategy, records, notes)
    groups = int(strategy.cycle_length)
    size, left_out = divmod(records, groups)
    never = (f"{count(left_out, 'record')}, drawn at random, are never used.",) if left_out else ()
    cuts = f"shuffles the {count(records, 'record')} once and cuts them into {groups} batches of {size:,}"
    return tell(
        scheme=Scheme.SHUFFLE,
        sentence=f"This strategy {cuts}, the same ones in every cycle.",
        records=records,
        batch=size,
        epoch=groups,
        batch_count=_count_batches(strategy),
        # with one record fewer all groups would shrink, unless some record is left out to take its place
        full=groups if left_out else None,
        removal_changes_one_slot=left_out > 0,
        reshuffles=False,
        notes=(*never, *notes),
    )


def _read_balls_in_bins(strategy: Any, records: int) -> Finding:
    return _find_balls_in_bins(strategy, records, _tell_iterator(strategy))


def _find_balls_in_bins(strategy: Any, records: int, notes: tuple[str, ...]) -> Finding:
    batches = _count(cycle_length=strategy.cycle_length)
    if batches == 1:
        return _find_every_record(strategy, records, notes)
    # one iterator that ends with its pass; in a second cycle the records would come as in the first
    is_one_pass = _count_batches(strategy) == batches
    throws = f"puts each of the {count(records, 'record')} into one of {batches:,} batches by chance, once"
    return tell(
        scheme=Scheme.BALLS_IN_BINS,
        sentence=f"This strategy {throws}: it comes in that batch of every cycle.",
        sampling=BallsInBins(batches=batches) if is_one_pass else None,
        records=records,
        epoch=batches,
        batch_count=_count_batches(strategy),
        reshuffles=False,
        notes=notes,
    )


def _find_every_record(strategy: Any, records: int, notes: tuple[str, ...]) -> Finding:
    return tell(
        scheme=Scheme.EVERY_RECORD,
        sentence=f"This strategy puts all of the {count(records, 'record')} into every batch.",
        sampling=EveryRecord(),
        records=records,
        batch=records,
        batch_count=_count_batches(strategy),
        notes=tuple(note for note in notes if note != RNG_UNSEEN),  # nothing is drawn
    )


def _read_fixed_batch(strategy: Any, records: int) -> Finding:
    batch, notes = _count(batch_size=strategy.batch_size), _tell_iterator(strategy)
    if strategy.replace:
        return tell(
            scheme=Scheme.WITH_REPLACEMENT,
            sentence=f"This strategy draws each batch of {batch:,} one by one from the "
            f"{count(records, 'record')}, with replacement.",
            records=records,
            batch=batch,
            batch_count=_count_batches(strategy),
            share=ceil_fraction(Fraction(1, records)),
            removal_changes_one_slot=True,  # the number of draws is set, whatever the number of records
            notes=notes,
        )
    if batch >= records:
        found = f"batches of {batch:,} out of {count(records, 'record')}"
        remedy = "With one record fewer there would be no batch: take smaller ones."
        raise refuse("draw some of the records without replacement", found, remedy)
    return tell(
        scheme=Scheme.WITHOUT_REPLACEMENT,
        sentence=f"This strategy draws each batch of {batch:,} of the {count(records, 'record')} without "
        "replacement, afresh at every step.",
        sampling=WithoutReplacement(batch=batch, population=records),
        records=records,
        batch=batch,
        batch_count=_count_batches(strategy),
        notes=notes,
    )


def _read_separated(strategy: Any, records: int) -> Finding:
    reason = (
        f"This strategy draws each record with probability {float(strategy.sampling_prob):.10g} unless it "
        f"came in one of the last {count(int(strategy.min_sep) - 1, 'batch')}, so batches depend on earlier "
        "ones. No theorem here covers it"
    )
    return _tell_uncovered(reason, records, _tell_iterator(strategy))


def _read_users(strategy: Any, records: int) -> Finding:
    base = strategy.base_strategy
    reader = STRATEGIES.get(kind_of(base))
    if reader is None or reader is _read_users:
        return tell_unknown(
            f"Its base_strategy is {name_class(base)}, whose way of drawing is not known here"
        )
    each = _count(examples_per_user_per_batch=strategy.examples_per_user_per_batch or 1)
    finding = reader(base, records)
    if each > 1 and finding.scheme is not Scheme.UNKNOWN:
        reason = (
            f"This strategy draws users and takes {each} examples of each: one record per user only if their "
            "gradients are clipped as one, which cannot be seen from here"
        )
        how = f"Users are drawn like this, if records= counts them: {finding.sentence}"
        return _tell_uncovered(reason, records, (how, *finding.notes))
    return replace(finding, notes=("Users are drawn: records= must count them.", *finding.notes))


STRATEGIES: dict[str, Callable[[Any, int], Finding]] = {
    "jax_privacy.batch_selection.CyclicPoissonSampling": _read_cyclic_poisson,
    "jax_privacy.batch_selection.BallsInBinsSampling": _read_balls_in_bins,
    "jax_privacy.batch_selection.FixedBatchSampling": _read_fixed_batch,
    "jax_privacy.batch_selection.BMinSepSampling": _read_separated,
    "jax_privacy.batch_selection.UserSelectionStrategy": _read_users,
}
