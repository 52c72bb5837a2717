"""tightrope epsilon --sampling shuffle: what is proved for shuffled batches, and what to do instead."""

from collections.abc import Sequence

from tightrope.accountants.certified import Certified
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
from tightrope.cli.sentences import safe_number, short, tell, tell_worth
from tightrope.curve.bracket import Bracket
from tightrope.numerics.text import write_number
from tightrope.report.words import (
    assumed_in_words,
    mechanism_in_short,
    mechanism_in_words,
    relation_in_words,
    write_steps,
)
from tightrope.setting.plain import plain_setting
from tightrope.setting.relation import SUBSTITUTE, Relation
from tightrope.setting.sampling import Poisson
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
    said = f"{tell('epsilon', 'delta', deltas, found)}: shuffled batches, {assumed_in_words([], relation)}."
    if form.json:
        show.print_json({"answer": said, **_answer_object(asked, plan, relation, deltas, found, if_poisson)})
        return
    run = f"{write_steps(count_shuffled_steps(plan))} of {mechanism_in_short(mechanism)}"
    page = show.open_page(
        [said, _tell_way_out(plan, if_poisson), tell_worth(found)],
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


def _tell_way_out(plan: Training, if_poisson: Sequence[Bracket]) -> str:
    """What the same epochs cost if each batch is drawn by itself."""
    ends = ", ".join(short(bracket.upper, up=True) for bracket in if_poisson)
    drawn = f"Drawn by Poisson sampling, in {write_steps(plan.steps)}, they cost at most {ends}"
    return f"{drawn}: docs/training.md shows how to draw so."


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
) -> show.Object:
    rows = [
        {
            "delta": at,
            "epsilon": show.bracket_object(bound),
            **show.width_object(bound),
            "if_poisson": show.bracket_object(instead),
        }
        for at, bound, instead in zip(deltas, found, if_poisson, strict=True)
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
