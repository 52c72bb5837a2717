"""The question as Python, as a command and as a statement to fill in: what people take home."""

from fractions import Fraction

from tightrope.accountants.certified import Certified
from tightrope.errors import NoTheorem
from tightrope.explore.questions import PAGE, PageQuestion
from tightrope.numerics.text import write_number
from tightrope.setting.effort import QUICK, TIGHT, Effort
from tightrope.setting.mechanism import Gaussian
from tightrope.setting.sampling import EveryRecord, Shuffled


def copy_texts(asked: PageQuestion, settled: PageQuestion, effort: Effort = QUICK) -> dict[str, str]:
    """All three; what was solved for is stated in the statement, which is about one run.

    Where no statement could be made, `no_statement` says why.
    """
    why_not = _refuse_statement(settled)
    return {
        "python": write_python(asked, effort),
        "command": write_command(asked, effort),
        "statement": "" if why_not else write_statement(settled, effort),
        "no_statement": why_not,
    }


def _refuse_statement(settled: PageQuestion) -> str:
    """Why nobody could make a statement: what only bounds a shuffle as if it were revealed is no theorem."""
    try:
        Certified().curve(settled.run(), settled.relation)
    except NoTheorem as refusal:
        return f"No statement can be made of this. {refusal.in_words(PAGE)}"
    return ""


def write_python(asked: PageQuestion, effort: Effort = QUICK) -> str:
    """Lines that print the answer of the page."""
    target = _target(asked)
    if effort is TIGHT:
        target += ", by=tr.Certified(effort=tr.TIGHT)"
    lines = ["import tightrope as tr", ""]
    if isinstance(asked.epochs, Fraction):
        lines.insert(0, "from fractions import Fraction")
    if asked.solve == "batch":
        noise, kind = f"tr.{asked.noised()!r}", asked.sampling.__name__
        given = f"population={asked.records}, epochs={_python(asked.epochs)}, sampling=tr.{kind}"
        return "\n".join([*lines, f"print(tr.largest_batch({noise}, {given}, {target}))"])
    batch = "" if asked.sampling is EveryRecord else f"batch={asked.batch}, "
    epochs = "1" if asked.epochs is None else _python(asked.epochs)
    kind = asked.sampling.__name__
    lines.append(f"plan = tr.Training(records={asked.records}, {batch}epochs={epochs}, sampling=tr.{kind})")
    if asked.solve == "noise":
        return "\n".join(
            [*lines, f"print(tr.smallest_noise(plan, {target}, mechanism=tr.{asked.mechanism.__name__}))"]
        )
    noise = f"tr.{asked.noised()!r}"
    if asked.mechanism is Gaussian:
        noise = f"noise_multiplier={write_number(asked.noised().noise_multiplier)}"  # type: ignore[union-attr]
    if asked.solve == "epochs":
        return "\n".join([*lines, f"print(tr.most_steps(plan.step({noise}), {target}))"])
    if asked.sampling is Shuffled:
        return "\n".join([*lines, f"print(tr.epsilon_if_shuffled(plan, {noise}, {target}))"])
    return "\n".join([*lines, f"print(tr.epsilon(plan.run({noise}), {target}))"])


def write_command(asked: PageQuestion, effort: Effort = QUICK) -> str:
    """The command whose first line is the answer of the page."""
    command = {"": "epsilon", "noise": "noise", "epochs": "steps", "batch": "rate"}[asked.solve]
    options = {
        "mechanism": None if asked.mechanism is Gaussian else asked.mechanism.spelling,
        "noise": None if asked.noise is None else write_number(asked.noise),
        "sampling": asked.sampling.spelling,
        "records": None if asked.sampling is EveryRecord and asked.solve == "epochs" else str(asked.records),
        "batch": None if asked.batch is None or asked.sampling is EveryRecord else str(asked.batch),
        "epochs": None if asked.epochs is None else write_number(asked.epochs),
        "relation": str(asked.relation),
        "epsilon": write_number(asked.epsilon) if asked.solve and asked.epsilon is not None else None,
        "delta": write_number(asked.delta),
        "effort": None if effort is QUICK else str(effort),
    }
    words = [f"--{name} {value}" for name, value in options.items() if value is not None]
    return " ".join([f"tightrope {command}", *words])


def write_statement(settled: PageQuestion, effort: Effort = QUICK) -> str:
    """The facts of `tightrope statement`, with what only people know left to fill in."""
    plan = settled.plan()
    wider = ["# Statements are made without working harder: this one claims the epsilon from before that."]
    run = [
        f'mechanism = "{settled.mechanism.spelling}"',
        f"noise_multiplier = {write_number(settled.noise or 0.0)}",
        f'sampling = "{settled.sampling.spelling}"',
    ]
    if settled.sampling is not EveryRecord:
        run += [f"records = {settled.records}", f"batch = {settled.batch}"]
    return "\n".join(
        [
            "# Fill in the dots, save as statement.toml, and: tightrope statement statement.toml --format md",
            *(wider if effort is TIGHT else []),
            'name = "..."',
            'setting = "central"',
            'unit = "example"',
            f'relation = "{settled.relation}"',
            f"delta = {_toml(settled.delta)}",
            'data_accesses = "..."',
            'tuning = "..."',
            'outputs = "..."',
            "",
            "[implemented]",
            'scheme = "as-accounted"',
            "",
            "[[run]]",
            *run,
            f"steps = {plan.steps}",
        ]
    )


def _target(asked: PageQuestion) -> str:
    budget = f"epsilon={write_number(asked.epsilon or 0.0)}, " if asked.solve else ""
    return f"{budget}delta={write_number(asked.delta)}, relation=tr.{asked.relation.name}"


def _python(value: float | Fraction | None) -> str:
    return repr(value) if isinstance(value, Fraction) else write_number(value or 0)


def _toml(value: float) -> str:
    return repr(float(value))
