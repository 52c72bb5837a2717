"""docs/findings/shuffles.md: tables, and what they come to."""

import math
from collections.abc import Iterable, Sequence
from itertools import product

from shuffles_asked import (
    ADDED_BATCHINGS,
    ADDED_NOISES,
    BATCH,
    BATCHES,
    BINS_BATCHES,
    BOTH,
    EPOCHS,
    LEAST_FOR_LEVELS,
    LEAST_FOR_SPARE,
    LEAST_IN_TIME,
    MOST_FOR_LEVELS,
    NAMES,
    NOISES,
    PROTOTYPE,
    Answers,
    Question,
    is_too_long,
    lower,
    no_gain,
    told,
    upper,
)
from shuffles_clones import GUESSES
from tightrope.numerics.text import round_outwards

ENDS = ("lower end", "upper end", "before")

PAGE = """# Shuffled batches

Almost everybody who trains shuffles: in each epoch all records are put into a new secret order, which is
cut into batches. Accountants say of it "no better than without sampling", or treat it as Poisson sampling,
which it is not. This page says what is proved, from both sides: Gaussian noise, delta 1e-6, one record
exchanged (SUBSTITUTE) unless said otherwise, T batches in an epoch, a fresh order in every epoch. Every
number is made by `make shuffles` (`examples/shuffles.py`), and one by one by

```python
import tightrope as tr

step = tr.Step(tr.Gaussian(noise_multiplier=4), tr.Shuffled(batches=1000))
tr.epsilon(step * 1000, delta=1e-6, relation="substitute", by=tr.Certified(effort="tight"))  # one epoch
```

with `batch=1000` where batches hold so many records, and `left_over=1` besides where a record is in no
batch. Upper ends are rounded up and lower ends down.

![Epsilon of shuffled batches by noise, number of batches and epochs](../figures/shuffles.png)

*The band is what is proved about shuffled batches of 1,000: real datasets reach its lower edge, and no
dataset exceeds its upper edge. Upper ends that are no amplification are left out.* [As a
pdf](../figures/shuffles.pdf).

## Statement

With noise s on sums of vectors of norm at most 1, let D* be the law whose call function E(D* - K)_+ is
G(2/s, tau + K) for K >= 0 and (1 - K) G(2/s, tau/(1 - K)) for K <= 0, where G(m, t) is the hockey-stick
divergence of N(m, 1) from N(0, 1). It is the worst that one step can do, for every adaptive choice of
vectors in every dimension. One epoch then has, at every order tau:

- **a spare place** (a record is left over, as with `drop_last`): H_tau <= E(sum over all batches of (b/n)
  D*_t + (1 - T b/n)(1 - tau))_+, a walk of independent copies;
- **batches of known size**: the same walk with random weights, the likelihood ratios of the displaced
  records at the first output; the larger the batch, the closer they are to their mean;
- **any batch size**: the weights may depend on each other in any way; each is sent to one of a few levels,
  and a bound that is linear in the counts of levels needs nothing but their means.

Epochs compose as pairs, and no amplification is never exceeded. Statements in full, proofs, how the bounds
are computed, and what was tried to break them: [shuffles](../../src/tightrope/theorems/proofs/shuffles.md).
The lower end is a random allocation at half the noise: all other records equal the one that takes the place
of the exchanged one, and point the other way.

## One epoch

{one}

"-" is where a bound says no more than no amplification. "Any batch size" is asked with `effort="tight"`
(five levels); below noise {levels:g} it is not tried. A spare place is tried from noise {spare:g} on. The
lower end is that of full batches. Cells are empty where nothing was asked, to keep the command short: any
batch size with noise from {levels:g} to below {in_time:g} or more than {most:,} batches, and balls in bins
but for {bins:,} batches and noise 1 to 4.

**Clones** is the shuffle model's bound: Feldman, McMillan and Talwar, *Hiding among the clones* (FOCS 2021,
[arXiv 2012.12803](https://arxiv.org/abs/2012.12803)), their reduction to binomial counts evaluated
numerically, with their allowance for randomizers that are private only up to a delta0, as normal noise is,
at the best of {guesses} values of epsilon0. Given who shares a batch, an epoch permutes T reports.
`examples/shuffles_clones.py` computes it in floats. Their later, stronger bound ([arXiv
2208.04591](https://arxiv.org/abs/2208.04591)) has an erratum which restricts it to certain randomizers, so
it is not used. Clones are given for one epoch only.

## Ten epochs

{ten}

## A hundred epochs

{hundred}

## What is seen

**From noise 2 on, shuffling amplifies.** At most half of no amplification is certain in {gains}. At noise 4
and batches of {batch:,} the ends are a factor of {four_least} to {four_most} apart, with a spare place
{spare_least} to {spare_most}, and whatever the batches hold {any_least} to {any_most}.

**With little noise it does not.** At noise 0.5 real datasets reach {small_one} of no amplification in one
epoch and {small_hundred} in a hundred, and no proof can gain more than the rest. At noise 1 they reach
{unit_one} and {unit_hundred}. There a spare place gives an upper end close to the lower one where batches
are many; without one the ends are far apart, and nobody knows where the truth lies.

**A shuffle is not Poisson sampling.** The lower end is at least {poisson_least} and up to {poisson_most}
times what Poisson sampling at rate 1/T costs, the most with little noise. Balls in bins uses every record
once in an epoch too, and costs about what Poisson sampling does: see [every way to make
batches](batching.md).

**Large batches, or a place to spare, make the proof easy.** Where batches hold {batch:,} records, the
weights of displaced records average out, and the bound is close to that of a spare place, which needs no
weights. The difference to "any batch size" is a loss of the proof; that small batches really cost more is
not known.

## Add or remove: the last batch

Where a record is added or removed, epsilon is known exactly ([theorem
4](../../src/tightrope/theorems/proofs/shuffles.md)). A removed record lets others move up, and the last
batch of the epoch always holds one record less: all sums but that one are a random allocation at half the
noise, and the last one moves by a full clipping norm, in the open. It costs a full batch per epoch, however
many batches there are. A loader that drops an incomplete last batch, and leaves a record over, does not pay
for it. {batch:,} batches of {batch:,}, add-or-remove:

{last}

So `drop_last=True` with a number of records that is no multiple of the batch size is worth more here than
any other setting. (With exactly T b records the neighbours have different numbers of batches, and there is
no bound.)

## The same by an earlier computation

Theorem 3 was first computed without charging for rounding, and for ten epochs with a linear program that
was not checked ("before" in the table). The certified ends, any batch size, five levels, for noise
{in_time:g} and more:

{prototype}

{prototype_said}

## What is open

- The truth between the ends. D* is a maximum over several choices of vectors at once, which no adversary
  can make together. The lower end is that of queries fixed in advance; an adversary who adapts reaches more
  in small cases.
- Noise below {levels:g} for batches of unknown size, and below {spare:g} for all: bounds exist on paper,
  but lattices do not hold the differences.
- Whether small batches cost more than large ones.
- Noise that is not Gaussian; orders that are kept over epochs, or follow from a known seed; groups of
  records.

How long these answers take is in [benchmarks/](../../benchmarks/README.md#shuffles)."""


def make_page(answers: Answers) -> str:
    """The page that these answers make."""
    four, spare, whatever = (
        find_gaps(answers, each, 4.0) for each in ("thousand", "spare-place", "any-size")
    )
    poisson = poisson_ratio(answers)
    one, ten, hundred = (grid_table(answers, epochs) for epochs in EPOCHS)
    return PAGE.format(
        one=one,
        ten=ten,
        hundred=hundred,
        levels=LEAST_FOR_LEVELS,
        spare=LEAST_FOR_SPARE,
        most=MOST_FOR_LEVELS,
        in_time=LEAST_IN_TIME,
        bins=BINS_BATCHES,
        guesses=GUESSES,
        batch=BATCH,
        gains=count_gains(answers),
        four_least=write(four[0], digits=3),
        four_most=write(four[1], digits=3),
        spare_least=write(spare[0], digits=3),
        spare_most=write(spare[1], digits=3),
        any_least=write(whatever[0], digits=3),
        any_most=write(whatever[1], digits=3),
        small_one=share_kept(answers, 0.5, 1),
        small_hundred=share_kept(answers, 0.5, 100),
        unit_one=share_kept(answers, 1.0, 1),
        unit_hundred=share_kept(answers, 1.0, 100),
        poisson_least=write(poisson[0], up=False, digits=3),
        poisson_most=write(poisson[1], up=False, digits=3),
        last=last_batch_table(answers),
        prototype=prototype_table(answers),
        prototype_said=say_prototype(answers),
    )


def say_prototype(answers: Answers) -> str:
    """How certified ends compare with the earlier ones."""
    ratios = [
        answers[Question("any-size", *setting, epochs)].upper / value
        for setting, earlier in PROTOTYPE.items()
        for epochs, value in zip(EPOCHS, earlier, strict=False)
        if not is_too_long("any-size", *setting)
    ]
    below = sum(ratio <= 1 for ratio in ratios)
    most = write(max(ratios), digits=3)
    return f"{below} of {len(ratios)} are no larger than before; the largest is {most} times that."


def percent(share: float) -> str:
    """Rounded down to two digits."""
    return f"{write(100 * share, up=False, digits=2)} %"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [heading, ["---"] * len(heading), *rows])


def write(value: float, *, up: bool = True, digits: int = 4) -> str:
    """Upper ends up, lower ends down."""
    return round_outwards(value, digits, up=up)


def grid_table(answers: Answers, epochs: int) -> str:
    """One row for each noise and number of batches."""
    names = {each: name for each, name in NAMES.items() if each != "clones" or epochs == 1}
    rows = []
    for noise, batches in product(NOISES, BATCHES):
        cells = [write(lower(answers, noise, batches, epochs), up=False)]
        for batching in names:
            setting = batching, noise, batches, epochs
            is_shown = batching == "told" or not no_gain(answers, *setting)
            is_left_out = is_too_long(batching, noise, batches)
            cells.append("" if is_left_out else write(upper(answers, *setting)) if is_shown else "-")
        rows.append([f"{noise:g}", f"{batches:,}", *cells])
    return table(["noise", "batches", "lower end", *names.values()], rows)


def prototype_table(answers: Answers) -> str:
    """Certified ends beside those of an earlier computation."""
    rows = []
    for (noise, batches), earlier in PROTOTYPE.items():
        if is_too_long("any-size", noise, batches):
            continue
        row = [f"{noise:g}", f"{batches:,}"]
        for epochs, value in zip(EPOCHS, earlier, strict=False):
            found = answers[Question("any-size", noise, batches, epochs)]
            row += [write(found.lower, up=False), write(found.upper), f"{value:g}"]
        rows.append(row)
    ends = [f"{epochs} epoch{'s' * (epochs > 1)}: {end}" for epochs in EPOCHS[:2] for end in ENDS]
    return table(["noise", "batches", *ends], rows)


def last_batch_table(answers: Answers) -> str:
    """Under add-or-remove: the last batch kept, and a place that is spare."""
    rows = []
    for noise, epochs in product(ADDED_NOISES, EPOCHS):
        kept, spare = (answers[Question(each, noise, BATCH, epochs, BOTH)].upper for each in ADDED_BATCHINGS)
        ratio = write(kept / spare, up=False, digits=2)
        rows.append([f"{noise:g}", str(epochs), write(kept), write(spare), ratio])
    return table(["noise", "epochs", "last batch kept", "one record left over", "ratio"], rows)


def count_gains(answers: Answers) -> str:
    """In how many settings each bound is at most half of no amplification."""
    said = []
    for batching in ("any-size", "thousand", "spare-place"):
        asked = [key for key in product(NOISES, BATCHES, EPOCHS) if not is_too_long(batching, *key[:2])]
        gains = sum(amplifies(answers, batching, *key) for key in asked)
        said.append(f"{gains} of {len(asked)} settings ({NAMES[batching]})")
    return ", ".join(said)


def amplifies(answers: Answers, batching: str, noise: float, batches: int, epochs: int) -> bool:
    """Whether it certainly costs at most half of what it would without a secret order."""
    return 2 * upper(answers, batching, noise, batches, epochs) <= told(answers, noise, epochs).lower


def find_gaps(answers: Answers, batching: str, noise: float) -> tuple[float, float]:
    """The smallest and the largest ratio of both ends at this noise, where a shuffle is known to amplify."""
    ratios = [
        upper(answers, batching, noise, *size) / lower(answers, noise, *size)
        for size in product(BATCHES, EPOCHS)
        if amplifies(answers, batching, noise, *size)
    ]
    return min(ratios, default=math.nan), max(ratios, default=math.nan)


def share_kept(answers: Answers, noise: float, epochs: int) -> str:
    """The least and the largest part of no amplification that fixed queries reach, by number of batches."""
    most = told(answers, noise, epochs).upper
    parts = [lower(answers, noise, batches, epochs) / most for batches in BATCHES]
    return f"{percent(min(parts))} to {percent(max(parts))}"


def poisson_ratio(answers: Answers) -> tuple[float, float]:
    """How many times what Poisson sampling does a shuffle certainly costs: least and most on the grid."""
    ratios = [
        lower(answers, *key) / answers[Question("poisson", *key)].upper
        for key in product(NOISES, BATCHES, EPOCHS)
    ]
    return min(ratios), max(ratios)
