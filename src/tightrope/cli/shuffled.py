"""tightrope epsilon --sampling shuffle: what is proved for shuffled batches, and what to do instead."""

from collections.abc import Sequence

from tightrope.accountants.certified import Certified
from tightrope.answers.spend import epsilon
from tightrope.audit.claims.prove import ProvedBound
from tightrope.audit.claims.shuffled import (
    batches_of,
    count_shuffled_steps,
    declare_shuffle,
    epsilon_if_shuffled,
)
from tightrope.cli import options as opt
from tightrope.cli import show
from tightrope.cli.form import Form, print_brief
from tightrope.cli.refusals import WORDS, Misused
from tightrope.cli.sentences import safe_number, short, short_ends, tell_why
from tightrope.cli.terminal import Page
from tightrope.curve.bracket import Bracket
from tightrope.numerics.text import write_number
from tightrope.report.words import assumed_in_words, mechanism_in_short
from tightrope.setting.plain import plain_setting
from tightrope.setting.relation import Relation
from tightrope.setting.sampling import Poisson
from tightrope.setting.training import Training
from tightrope.theorems.evidence import Evidence

INSTEAD = (
    "Draw each batch by itself instead, as tightrope.samplers.PoissonSampler does: it is as easy to run, and "
    "its epsilon is known to the last digit (docs/training.md)."
)


def show_shuffled(
    asked: opt.RunOptions,
    relation: Relation,
    deltas: Sequence[float],
    who: opt.AccountantOptions,
    *,
    form: Form,
) -> None:
    """Print both ends at each delta, then epsilon for batches that are drawn by Poisson sampling instead."""
    by = who.by(asked.accuracy)
    if not isinstance(by, Certified):
        raise Misused(
            f"--accountant {who.accountant} contradicts --sampling shuffle, whose bounds are certified"
        )
    plan, mechanism = _plan(asked), asked.stated_mechanism
    found = [epsilon_if_shuffled(plan, mechanism, delta=at, relation=relation, by=by) for at in deltas]
    if form.brief:
        print_brief(safe_number(bound.epsilon) for bound in found)
        return
    drawn = [epsilon(plan.run(mechanism), delta=at, relation=relation, by=by) for at in deltas]
    if form.json:
        show.print_json(_answer_object(asked, plan, relation, deltas, found, drawn))
        return
    page = Page()
    for at, bound, instead in zip(deltas, found, drawn, strict=True):
        page.line(_sentence(at, bound, instead, relation))
    page.line(INSTEAD)
    page.line("")
    page.line(
        f"Run: {count_shuffled_steps(plan):,} steps of {mechanism_in_short(mechanism)}. {_mapping(plan)}"
    )
    theorems: dict[Evidence, None] = dict.fromkeys(one for bound in found for one in bound.because)
    page.line(tell_why(list(theorems), "what they state"))
    if form.why:
        page.heading("Both ends are proved by")
        show.show_theorems(page, list(theorems))


def _plan(asked: opt.RunOptions) -> Training:
    """The plan whose batches are shuffled; the rate of a shuffle is batch / records."""
    of, example = "--sampling shuffle", "for example --records 60000 --batch 256"
    opt.refuse(of, "cuts batches of one size: use --records and --batch", rate=asked.rate)
    records, batch = (
        opt.require(of, example, records=asked.records),
        opt.require(of, example, batch=asked.batch),
    )
    epochs = asked.epochs
    if epochs is None:
        steps = opt.require(of, "for example --epochs 30", steps=asked.stated_steps)
        epoch = batches_of(Training(records=records, batch=batch, epochs=1, sampling=Poisson))
        if steps % epoch:
            raise Misused(f"--steps {steps} is no whole number of epochs of {epoch} batches: pass --epochs")
        epochs = steps // epoch
    return Training(records=records, batch=batch, epochs=epochs, sampling=Poisson)


def _mapping(plan: Training) -> str:
    epochs = write_number(plan.epochs)
    return f"{epochs} epoch{'s' * (plan.epochs != 1)}: {declare_shuffle(plan).sentence}"


def _sentence(delta: float, bound: ProvedBound, drawn: Bracket, relation: Relation) -> str:
    at, (lower, upper) = write_number(delta), short_ends(bound.epsilon)
    known = f"epsilon is at least {lower} and at most {upper} at delta {at}"
    if bound.why_not:
        known = f"epsilon is at least {lower} at delta {at}, and no upper bound is proved"
    why_not = f" {WORDS.fill(bound.why_not).capitalize()}." if bound.why_not else ""
    poisson = f"With Poisson sampling it would be at most {short(drawn.upper, up=True)}."
    return f"{known}: shuffled batches, {assumed_in_words([], relation)}.{why_not} {poisson}"


def _answer_object(
    asked: opt.RunOptions,
    plan: Training,
    relation: Relation,
    deltas: Sequence[float],
    found: Sequence[ProvedBound],
    drawn: Sequence[Bracket],
) -> show.Object:
    rows = [
        {
            "delta": at,
            "epsilon": show.bracket_object(bound.epsilon),
            "why_not": bound.why_not or None,
            "if_poisson": show.bracket_object(instead),
        }
        for at, bound, instead in zip(deltas, found, drawn, strict=True)
    ]
    theorems: dict[Evidence, None] = dict.fromkeys(one for bound in found for one in bound.because)
    return {
        "question": {
            "mechanism": plain_setting(asked.stated_mechanism),
            "sampling": {"kind": opt.SHUFFLE, "batch": plan.batch, "records": plan.records},
            "steps": count_shuffled_steps(plan),
            "relation": show.relation_object(relation),
            "training": _mapping(plan),
        },
        "brackets": rows,
        "theorems": [show.theorem_object(theorem) for theorem in theorems],
    }
