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
from tightrope.cli.refusals import WORDS, Misused
from tightrope.cli.terminal import Page
from tightrope.curve.bracket import Bracket
from tightrope.numerics.text import round_outwards, write_number
from tightrope.report.words import mechanism_in_words, relation_in_words
from tightrope.setting.plain import plain_setting
from tightrope.setting.relation import Relation
from tightrope.setting.sampling import Poisson
from tightrope.setting.training import Training
from tightrope.theorems.evidence import Evidence


def show_shuffled(
    asked: opt.RunOptions,
    relation: Relation,
    deltas: Sequence[float],
    who: opt.AccountantOptions,
    *,
    json: bool,
) -> None:
    """Print both ends at each delta, then epsilon for batches that are drawn by Poisson sampling instead."""
    by = who.by(asked.accuracy)
    if not isinstance(by, Certified):
        raise Misused(
            f"--accountant {who.accountant} contradicts --sampling shuffle, whose bounds are certified"
        )
    plan, mechanism = _plan(asked), asked.stated_mechanism
    found = [epsilon_if_shuffled(plan, mechanism, delta=at, relation=relation, by=by) for at in deltas]
    drawn = [epsilon(plan.run(mechanism), delta=at, relation=relation, by=by) for at in deltas]
    if json:
        show.print_json(_answer_object(asked, plan, relation, deltas, found, drawn))
        return
    page = Page()
    for at, bound, instead in zip(deltas, found, drawn, strict=True):
        page.line(_sentence(at, bound, instead))
    page.line("")
    page.line(f"{_mapping(plan)} {mechanism_in_words(mechanism)}; {relation_in_words(relation)}.")
    page.heading("What to do instead")
    page.line(
        "Draw each batch by itself, as tightrope.samplers.PoissonSampler does: it is as easy to run, and its "
        "epsilon is known to the last digit. docs/training.md shows how."
    )
    theorems: dict[Evidence, None] = dict.fromkeys(one for bound in found for one in bound.because)
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
    said, epochs = declare_shuffle(plan).sentence, write_number(plan.epochs)
    return f"{count_shuffled_steps(plan):,} steps, {epochs} epochs: {said[0].lower()}{said[1:]}"


def _sentence(delta: float, bound: ProvedBound, drawn: Bracket) -> str:
    at = write_number(delta)
    lower = round_outwards(bound.epsilon.lower, 4, up=False)
    upper = round_outwards(bound.epsilon.upper, 4, up=True)
    known = f"epsilon is at least {lower} and at most {upper} at delta {at}: shuffled batches."
    if bound.why_not:
        why_not = f"No upper bound is proved: {WORDS.fill(bound.why_not)}"
        known = f"epsilon is at least {lower} at delta {at}: shuffled batches. {why_not}."
    return f"{known} Drawn by Poisson sampling it would be at most {round_outwards(drawn.upper, 4, up=True)}."


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
        },
        "training": _mapping(plan),
        "brackets": rows,
        "theorems": [show.theorem_object(theorem) for theorem in theorems],
    }
