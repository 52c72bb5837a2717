"""What shuffled batches cost, and what to do instead: an answer, and rows of a contrast."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from tightrope.accountants.certified import Certified
from tightrope.answers.contrast import Contrast, ContrastRow, compare_row
from tightrope.answers.resample import rate_meant
from tightrope.answers.spend import epsilon
from tightrope.audit.claims.shuffled import epsilon_if_shuffled, shuffle
from tightrope.cli.printed import show
from tightrope.cli.printed.sentences import safe_number, short, tell, tell_direction, tell_worth
from tightrope.cli.printed.terminal import print_brief
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.form import Form
from tightrope.curve.bracket import Bracket
from tightrope.errors import NoTheorem, NotPreciseEnough
from tightrope.numerics.text import write_number
from tightrope.report.words import assumed_in_words, write_steps
from tightrope.setting.relation import RELATIONS, SUBSTITUTE, Relation
from tightrope.setting.run import Run, Step
from tightrope.setting.sampling import BallsInBins, Poisson, Sampling, Shuffled
from tightrope.setting.training import Training


def show_shuffled(
    asked: opt.RunOptions, relation: Relation, deltas: Sequence[float], by: Certified, *, form: Form
) -> None:
    """Print both ends at each delta, and epsilon for batches that are drawn by Poisson sampling instead."""
    found = [_bound(asked, at, relation, by) for at in deltas]
    if form.brief:
        print_brief(map(safe_number, found))
        return
    said = (
        f"{tell('epsilon', 'delta', deltas, found)}: {assumed_in_words([asked.stated_sampling], relation)}."
    )
    poisson, if_poisson = _draw_instead(asked, relation, deltas, by, Poisson)
    _, if_bins = _draw_instead(asked, relation, deltas, by, BallsInBins)
    if form.json:
        told = _answer_object(asked, relation, deltas, by, found, if_poisson, if_bins)
        show.print_json({"answer": said, **told})
        return
    page = show.open_page(
        [said, tell_direction(relation), _tell_way_out(poisson, if_poisson, if_bins), tell_worth(found)],
        question=show.question_in_short(asked, relation, by),
        facts=show.question_facts(asked, relation, by),
        why=form.why,
    )
    if len(deltas) > 1 or form.why:
        rows = [
            [write_number(at), *show.answer_cells(bound)] for at, bound in zip(deltas, found, strict=True)
        ]
        page.table([["delta", "epsilon, lower end", "epsilon, upper end"], *rows])
    show.close_page(page, show.find_theorems(found), show.find_datasets(found), why=form.why)


def contrast_shuffle(asked: opt.RunOptions, table: Contrast, by: Certified) -> list[ContrastRow]:
    """A row for each relation: the same steps on batches of the same share that are cut from a shuffle.

    Where only a rate was stated, batches have two records: larger ones may hide more, and of one the
    neighbours under add and remove would be cut into different numbers of them.
    """
    stated = asked.stated_sampling
    if stated.exact_rate in (0, 1) or isinstance(stated, Shuffled):
        return []  # nobody, or everybody in one batch: there is nothing to shuffle; or that is its own row
    if asked.records is not None and asked.batch is not None:
        records, batch = asked.records, asked.batch
    else:
        meant = rate_meant(stated)
        records, batch = 2 * meant.denominator, 2 * meant.numerator
    epochs = Fraction(asked.steps, -(-records // batch))
    rows = []
    group = 1 if table.claimed is None else table.claimed[1].group
    for relation in (one.of(group) for one in RELATIONS.values() if epochs):
        plan = Training(records=records, batch=batch, epochs=epochs, sampling=Poisson)
        run = Step(asked.stated_mechanism, shuffle(plan)) * asked.steps
        row = partial(ContrastRow, Shuffled, relation, run)
        try:
            ask = partial(epsilon_if_shuffled, plan, asked.stated_mechanism, relation=relation, by=by)
            found = row(tuple(ask(delta=delta) for delta in table.deltas))
            rows.append(compare_row(found, table.claimed_epsilons))
        except (NoTheorem, NotPreciseEnough) as refusal:
            rows.append(row((), refusal, "refused"))
    return rows


def _bound(asked: opt.RunOptions, delta: float, relation: Relation, by: Certified) -> Bracket:
    sampling = asked.stated_sampling
    if asked.records is None or asked.batch is None:
        return epsilon(asked.run, delta=delta, relation=relation, by=by)
    epochs = Fraction(asked.steps) * sampling.exact_rate
    if not epochs:
        return epsilon(asked.run, delta=delta, relation=relation, by=by)
    plan = Training(records=asked.records, batch=asked.batch, epochs=epochs, sampling=sampling)
    return epsilon_if_shuffled(plan, asked.stated_mechanism, delta=delta, relation=relation, by=by)


def _draw_instead(
    asked: opt.RunOptions,
    relation: Relation,
    deltas: Sequence[float],
    by: Certified,
    kind: type[Poisson] | type[BallsInBins],
) -> tuple[Run, list[Bracket]]:
    """The same epochs with batches of this kind, and what they cost; empty where that is not known.

    Balls in bins under SUBSTITUTE take seconds, so who wants to know asks for them by themselves.
    """
    shuffled = asked.stated_sampling
    batches = round(1 / shuffled.exact_rate)
    rate = Fraction(1, batches)
    if asked.records is not None and asked.batch is not None:
        rate = Fraction(asked.batch, asked.records)
    drawn: Sampling = Poisson(rate=rate) if kind is Poisson else BallsInBins(batches=batches)
    epochs = Fraction(asked.steps) * shuffled.exact_rate if asked.epochs is None else Fraction(asked.epochs)
    run = Step(asked.stated_mechanism, drawn) * -(-epochs // drawn.exact_rate)
    if kind is BallsInBins and relation.single is SUBSTITUTE:
        return run, []
    try:
        return run, [epsilon(run, delta=at, relation=relation, by=by) for at in deltas]
    except (NoTheorem, NotPreciseEnough):
        return run, []


def _tell_way_out(poisson: Run, if_poisson: Sequence[Bracket], if_bins: Sequence[Bracket]) -> str:
    """What the same epochs cost if batches are drawn as other theorems want them."""
    told = []
    if if_poisson:
        drawn = f"drawn by Poisson sampling, in {write_steps(poisson.steps)}"
        told.append(f"{drawn}, they cost at most {_uppers(if_poisson)}")
    if if_bins:
        told.append(f"with balls in bins, as many batches as now, at most {_uppers(if_bins)}")
    said = "; ".join(told)
    return f"{said[0].upper()}{said[1:]}: docs/training.md shows how to draw so." if said else ""


def _uppers(brackets: Sequence[Bracket]) -> str:
    return ", ".join(short(bracket.upper, up=True) for bracket in brackets)


def _answer_object(
    asked: opt.RunOptions,
    relation: Relation,
    deltas: Sequence[float],
    by: Certified,
    found: Sequence[Bracket],
    if_poisson: Sequence[Bracket],
    if_bins: Sequence[Bracket],
) -> show.Object:
    instead = {"if_poisson": if_poisson, "if_balls_in_bins": if_bins}
    rows = [
        {
            "delta": at,
            "epsilon": show.bracket_object(bound),
            **show.width_object(bound),
            **{name: show.bracket_object(each[i]) if each else None for name, each in instead.items()},
        }
        for i, (at, bound) in enumerate(zip(deltas, found, strict=True))
    ]
    return {
        "question": show.question_object(asked, relation, by),
        "brackets": rows,
        **show.why_object(show.find_theorems(found), show.find_datasets(found)),
    }
