"""The generic bound for groups of records: as many neighbours in a row as a group has records."""

from tightrope.accountants.certified import BY_DEFAULT, Certified, check_certified
from tightrope.curve.bracket import Bracket, Decision, Gap
from tightrope.curve.curve import check_delta
from tightrope.errors import NoTheorem
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import Run, Step, as_run
from tightrope.theorems.groups import keeps_its_curve
from tightrope.theorems.repeated_records import COPIES_ONE_BY_ONE, bound_one_by_one


def epsilon_one_by_one(
    run: Run | Step, *, delta: float, relation: Relation | str, by: Certified = BY_DEFAULT
) -> Bracket:
    """epsilon at `delta` for groups of records, from the curve of one record alone.

    If one record is (e, d)-private, m records are (m e, d (1 + e^e + ... + e^((m-1) e)))-private, whatever
    the sampling, as long as one curve holds for all datasets in between; then a group may also be partly
    added and partly removed. The best e is looked for. `tightrope.epsilon` knows the curve of a group itself
    for most samplings, which is never above; this is for the others. The lower end is that of one record.

    >>> import tightrope as tr
    >>> run = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=1e-3)) * 10_000
    >>> many = tr.ADD_OR_REMOVE.of(5)
    >>> print(f"{epsilon_one_by_one(run, delta=1e-6, relation=many).upper:.4}")
    3.293
    >>> print(f"{tr.epsilon(run, delta=1e-6, relation=many).upper:.4}")
    3.19
    """
    run, neighbours, at = as_run(run), as_relation(relation), check_delta(delta)
    if unfit := [step for step, _ in run if not keeps_its_curve(step.sampling, neighbours)]:
        kind = f"{{{type(unfit[0].sampling).__name__}}}"
        why = "datasets of other sizes lie between the two neighbours, and their curves are others"
        raise NoTheorem(f"{kind} under {neighbours.text}: {why}", "Known under {SUBSTITUTE}.")
    curve = check_certified(by).curve(run, neighbours.single)
    one = curve.epsilon(at)
    if neighbours.group == 1:
        return one
    upper = bound_one_by_one(lambda d: curve.epsilon(d).upper, copies=neighbours.group, delta=at)
    why = "the upper end follows from the curve of one record alone, and is not known to be reached"
    gap = Gap(1 - one.lower / upper, by.accuracy, why) if upper > one.upper else None
    reached = one.decided_by.reached_by if one.decided_by else ""
    because = (*curve.because, COPIES_ONE_BY_ONE)
    return Bracket(
        one.lower, max(upper, one.lower), gap=gap, decided_by=Decision(because, reached, neighbours.name)
    )
