"""Why no scheme, or more than one, fits a recording: one plain sentence."""

import math
from collections.abc import Sequence

from tightrope.audit.finding import Scheme
from tightrope.audit.recordings.hypotheses import Clue, Tests, Verdict

SURELY = 1e-6  # a reason is named when its own p-value is below
CAPPED = 0.1  # the share of batches at the largest size from which sizes look capped


def probability(log_chance: float) -> str:
    """A probability in words, rounded up to a power of ten.

    >>> probability(-3000.0), probability(-9.0), probability(-1e-9)
    ('below 1e-300', 'below 0.001', 'below 1')
    """
    power = math.ceil(max(-300.0, log_chance / math.log(10)))
    return "below 1" if power >= 0 else f"below {10.0**power:g}"


def several_fit(count: str, fitting: Sequence[Verdict], enough: str) -> str:
    """More than one scheme fits."""
    names = [verdict.scheme.value for verdict in fitting]
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"These {count} are too few to tell {listed} apart{enough or ': a longer recording may'}."


def nothing_fits(tests: Tests, found: Sequence[Verdict]) -> str:
    """No scheme fits; the likeliest reason comes first."""
    if _surely(tests.top_index):
        return f"{_capital(tests.top_index.saw)}: is that the size of the dataset that was drawn from?"
    if _surely(tests.empty_batches):
        return (
            f"{_capital(tests.empty_batches.saw)}: if this is Poisson sampling, its empty batches seem to be "
            "dropped. Record them too, and let them count as steps."
        )
    if _looks_capped(tests):
        return (
            f"{_at_most(tests):,} batches hold exactly {tests.sizes.max():,} records and none holds more: these look like "
            "physical pieces of larger batches. Record logical batches, before they are cut."
        )
    if _surely(tests.recurrence):
        return f"No scheme that is known here fits these batches: {tests.recurrence.saw}, though not in the same order every epoch."
    once_per_epoch = _surely(tests.repeats)
    nearest = max(
        found,
        key=lambda one: (
            one.p_value,
            once_per_epoch == (one.epochs is not None),
            one.scheme is Scheme.POISSON,
        ),
    )
    return f"No scheme that is known here fits these batches; nearest comes {nearest.scheme.value}, but {nearest.clue.saw}."


def _surely(clue: Clue) -> bool:
    return clue.p_value < SURELY


def _at_most(tests: Tests) -> int:
    return int((tests.sizes == tests.sizes.max()).sum())


def _looks_capped(tests: Tests) -> bool:
    return (
        tests.unequal
        and _surely(tests.dispersion)
        and _at_most(tests) >= max(5, CAPPED * tests.count)
        and tests.within == 0
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
