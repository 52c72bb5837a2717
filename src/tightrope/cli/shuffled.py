"""What is proved for shuffled batches, and what to do instead: an answer, and rows of a contrast."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from tightrope.accountants.certified import Certified
from tightrope.answers.contrast import Contrast, ContrastRow, compare_row
from tightrope.answers.resample import rate_meant
from tightrope.answers.spend import epsilon
from tightrope.audit.claims.shuffled import (
    batches_of,
    count_shuffled_steps,
    declare_shuffle,
    epsilon_if_shuffled,
)
from tightrope.cli import options as opt
from tightrope.cli import show
from tightrope.cli.form import Form, print_brief
from tightrope.cli.refusals import Misused
from tightrope.cli.sentences import safe_number, short, tell, tell_direction, tell_worth
from tightrope.curve.bracket import Bracket
from tightrope.errors import NoTheorem, NotPreciseEnough
from tightrope.numerics.text import write_number
from tightrope.report.words import (
    assumed_in_words,
    mechanism_in_short,
    mechanism_in_words,
    relation_in_words,
    write_steps,
)
from tightrope.setting.mechanism import Mechanism
from tightrope.setting.plain import plain_setting
from tightrope.setting.relation import RELATIONS, SUBSTITUTE, Relation
from tightrope.setting.sampling import BallsInBins, Poisson
from tightrope.setting.training import Training


def show_shuffled(
    asked: opt.RunOptions,
    relation: Relation,
    deltas: Sequence[float],
    who: opt.AccountantOptions,
    *,
    form: Form,
) -> None:
    """Print both ends at each delta, and epsilon for batches that are drawn by Poisson sampling instead."""
    by = who.by(asked.accuracy)
    if not isinstance(by, Certified):
        raise Misused(
            f"--accountant {who.accountant} contradicts --sampling shuffle, whose bounds are certified"
        )
    plan, mechanism = _plan(asked), asked.stated_mechanism
    found = [epsilon_if_shuffled(plan, mechanism, delta=at, relation=relation, by=by) for at in deltas]
    if form.brief:
        print_brief(map(safe_number, found))
        return
    if_poisson = [epsilon(plan.run(mechanism), delta=at, relation=relation, by=by) for at in deltas]
    if_bins = _draw_in_bins(plan, mechanism, relation, deltas, by)
    said = f"{tell('epsilon', 'delta', deltas, found)}: shuffled batches, {assumed_in_words([], relation)}."
    if form.json:
        show.print_json(
            {"answer": said, **_answer_object(asked, plan, relation, deltas, found, if_poisson, if_bins)}
        )
        return
    run = f"{write_steps(count_shuffled_steps(plan))} of {mechanism_in_short(mechanism)}"
    page = show.open_page(
        [said, tell_direction(relation), _tell_way_out(plan, if_poisson, if_bins), tell_worth(found)],
        question=[_tell_epochs(plan) + _tell_larger(relation), f"Run: {run}."],
        facts=[
            ("mechanism", mechanism_in_words(mechanism)),
            ("sampling", f"shuffle, {_tell_epochs(plan)}{_tell_larger(relation)}"),
            ("relation", relation_in_words(relation)),
        ],
        why=form.why,
    )
    if len(deltas) > 1 or form.why:
        rows = [
            [write_number(at), *show.answer_cells(bound)] for at, bound in zip(deltas, found, strict=True)
        ]
        page.table([["delta", "epsilon, lower end", "epsilon, upper end"], *rows])
    show.close_page(page, show.find_theorems(found), show.find_datasets(found), why=form.why)


class _Shuffled:
    """Stands where a table names a sampling: a shuffle is none."""

    spelling = opt.SHUFFLE


SHUFFLED: Any = _Shuffled


def contrast_shuffle(asked: opt.RunOptions, table: Contrast, by: Certified) -> list[ContrastRow]:
    """A row for each relation: the same steps on batches of the same share that are cut from a shuffle.

    Where only a rate was stated, batches have two records: with more, the same is proved, and of one the
    neighbours under add and remove would be cut into different numbers of them.
    """
    if asked.stated_sampling.exact_rate in (0, 1):
        return []  # nobody, or everybody in one batch: there is nothing to shuffle
    if asked.records is not None and asked.batch is not None:
        records, batch = asked.records, asked.batch
    else:
        meant = rate_meant(asked.stated_sampling)
        records, batch = 2 * meant.denominator, 2 * meant.numerator
    epochs = Fraction(asked.steps, -(-records // batch))
    rows = []
    for relation in RELATIONS.values() if epochs else ():
        plan = Training(records=records, batch=batch, epochs=epochs, sampling=Poisson)
        row = partial(ContrastRow, SHUFFLED, relation, table.run)
        try:
            ask = partial(epsilon_if_shuffled, plan, asked.stated_mechanism, relation=relation, by=by)
            found = row(tuple(ask(delta=delta) for delta in table.deltas))
            rows.append(compare_row(found, table.claimed_epsilons))
        except (NoTheorem, NotPreciseEnough) as refusal:
            rows.append(row((), refusal, "refused"))
    return rows


def _draw_in_bins(
    plan: Training, mechanism: Mechanism, relation: Relation, deltas: Sequence[float], by: Certified
) -> list[Bracket]:
    """What the same epochs cost if each record takes one random batch of each; empty where none is known.

    Under SUBSTITUTE too: that takes a minute, so who wants to know asks for it by itself.
    """
    if relation is SUBSTITUTE:
        return []
    bins = Training(records=plan.records, batch=plan.batch, epochs=plan.epochs, sampling=BallsInBins)
    try:
        return [epsilon(bins.run(mechanism), delta=at, relation=relation, by=by) for at in deltas]
    except (NoTheorem, NotPreciseEnough):
        return []


def _tell_way_out(plan: Training, if_poisson: Sequence[Bracket], if_bins: Sequence[Bracket]) -> str:
    """What the same epochs cost if batches are drawn as a theorem wants them."""
    drawn = (
        f"Drawn by Poisson sampling, in {write_steps(plan.steps)}, they cost at most {_uppers(if_poisson)}"
    )
    if if_bins:
        drawn += f"; with balls in bins, as many batches as now, at most {_uppers(if_bins)}"
    return f"{drawn}: docs/training.md shows how to draw so."


def _uppers(brackets: Sequence[Bracket]) -> str:
    return ", ".join(short(bracket.upper, up=True) for bracket in brackets)


def _plan(asked: opt.RunOptions) -> Training:
    """The plan whose batches are shuffled; the rate of a shuffle is batch / records."""
    of, example = "--sampling shuffle", "for example --records 60000 --batch 256"
    opt.refuse(of, "cuts batches of one size: use --records and --batch", rate=asked.rate)
    records, batch = (
        opt.require(of, example, records=asked.records),
        opt.require(of, example, batch=asked.batch),
    )
    epochs = asked.epochs
    if epochs is not None:
        opt.refuse_both_lengths(epochs, asked.stated_steps)
    else:
        steps = opt.require(of, "for example --epochs 30", steps=asked.stated_steps)
        epoch = batches_of(Training(records=records, batch=batch, epochs=1, sampling=Poisson))
        if steps % epoch:
            raise Misused(f"--steps {steps} is no whole number of epochs of {epoch} batches: pass --epochs")
        epochs = steps // epoch
    return Training(records=records, batch=batch, epochs=epochs, sampling=Poisson)


def _tell_epochs(plan: Training) -> str:
    epochs = write_number(plan.epochs)
    return f"{epochs} epoch{'s' * (plan.epochs != 1)}: {declare_shuffle(plan).sentence}"


def _tell_larger(relation: Relation) -> str:
    return "" if relation is SUBSTITUTE else " The records are those of the larger neighbour."


def _answer_object(
    asked: opt.RunOptions,
    plan: Training,
    relation: Relation,
    deltas: Sequence[float],
    found: Sequence[Bracket],
    if_poisson: Sequence[Bracket],
    if_bins: Sequence[Bracket],
) -> show.Object:
    bins = map(show.bracket_object, if_bins) if if_bins else [None] * len(deltas)
    rows = [
        {
            "delta": at,
            "epsilon": show.bracket_object(bound),
            **show.width_object(bound),
            "if_poisson": show.bracket_object(instead),
            "if_balls_in_bins": in_bins,
        }
        for at, bound, instead, in_bins in zip(deltas, found, if_poisson, bins, strict=True)
    ]
    return {
        "question": {
            "mechanism": plain_setting(asked.stated_mechanism),
            "sampling": {"kind": opt.SHUFFLE, "batch": plan.batch, "records": plan.records},
            "steps": count_shuffled_steps(plan),
            "accuracy": asked.accuracy,
            "relation": show.relation_object(relation),
            "training": _tell_epochs(plan),
        },
        "brackets": rows,
        **show.why_object(show.find_theorems(found), show.find_datasets(found)),
    }
