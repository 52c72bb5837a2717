"""tightrope filter: a budget over a menu of steps that may be chosen on the way, kept in a file."""

import math
from pathlib import Path
from typing import Annotated

from tightrope.accountants.certified import Certified
from tightrope.answers.filter import PROMISE, Filter
from tightrope.cli.commands.runs import RunsFile, read_runs
from tightrope.cli.printed import show
from tightrope.cli.printed.terminal import print_brief, say
from tightrope.cli.process.exits import ExitCode
from tightrope.cli.typed import options as opt
from tightrope.cli.typed.form import IN_WORDS, Form
from tightrope.cli.typed.misused import Misused
from tightrope.report.words import relation_in_words
from tightrope.setting.plain import plain_run
from tightrope.setting.relation import Relation
from tightrope.setting.run import MOST_STEPS

SAVED = ".json"

FilterPath = Annotated[
    Path,
    opt.about("The menu, a TOML file whose runs are the entries, or a .json that --out wrote.", opt.QUESTION),
]
Budget = Annotated[opt.MaybeNumber, opt.about("Privacy loss that may be spent in all.", opt.QUESTION)]
Failure = Annotated[opt.MaybeNumber, opt.about("Failure probability of the whole.", opt.QUESTION)]
Most = Annotated[
    opt.MaybeWhole, opt.about("Certify so many entries, whichever they are, or refuse.", opt.QUESTION)
]
Out = Annotated[
    Path | None, opt.about("Keep the filter in this .json file, to spend from it later.", opt.ANSWER)
]
Spend = Annotated[
    opt.MaybeWhole,
    opt.about("Take the entry of this number, before its output is seen; the file keeps it.", opt.ANSWER),
]
Verify = Annotated[bool, opt.flag("Certify the budget of the file anew, and compare.")]
Times = Annotated[opt.MaybeWhole, opt.about("How often it is taken; once unless told.", opt.ANSWER)]


def filter(
    file: FilterPath,
    *,
    epsilon: Budget = None,
    delta: Failure = None,
    steps: Most = None,
    out: Out = None,
    spend: Spend = None,
    times: Times = None,
    verify: Verify = False,
    form: Form = IN_WORDS,
) -> int:
    """Tell how often each entry of a menu fits a budget if it is chosen on the way, and keep account."""
    count = _count_taken(spend, times)
    if file.suffix == SAVED:
        if any(given is not None for given in (epsilon, delta, steps, out)):
            raise Misused(f"{file} holds its budget, which was promised as a whole and cannot be changed")
        kept = Filter.load(file)
        names = [str(row["entry"]) for row in kept.to_dicts()]  # a file holds no names
        if spend is not None:
            _take(kept, file, spend, count)
        if verify:
            return _verify(kept, file)
    else:
        if spend is not None or verify:
            what = "--verify" if spend is None else "--spend"
            raise Misused(f"{what} is about a filter that is kept: write one with --out budget{SAVED}")
        names, kept = _make(read_runs(file), epsilon, delta, steps)
        if out is not None:
            _keep(kept, out)
    _print(names, kept, form)
    return ExitCode.FINE


def _count_taken(spend: int | None, times: int | None) -> int:
    if times is not None and spend is None:
        raise Misused("--times is how often the entry of --spend is taken: give its number too, --spend 1")
    if times == 0:
        raise Misused("--times must be at least 1, got 0: without --spend nothing is taken")
    return 1 if times is None else times


def _verify(kept: Filter, path: Path) -> int:
    if kept.is_certified_anew():
        print(f"{path} holds: its budget was certified anew, with the same costs.")
        return ExitCode.FINE
    print(f"{path} is not confirmed: other costs are certified for its menu and budget.")
    return ExitCode.NOT_KNOWN


def _make(
    menu: RunsFile, epsilon: float | None, delta: float | None, steps: int | None
) -> tuple[list[str], Filter]:
    """The filter over the runs of a file, which say the relation."""
    missing = [name for name, value in (("--epsilon", epsilon), ("--delta", delta)) if value is None]
    if epsilon is None or delta is None:
        told = " and ".join(missing)
        raise Misused(f"{told} must be given: the budget is promised before the first output")
    if any(run.trials is not None for run in menu.runs):
        raise Misused(f"{menu.path}: a search over several runs is no entry of a menu")
    made = Filter(
        menu=[run.run for run in menu.runs],
        epsilon=epsilon,
        delta=delta,
        relation=_one_relation(menu),
        steps=steps,
        by=Certified(accuracy=menu.accuracy),
    )
    return [run.name for run in menu.runs], made


def _one_relation(menu: RunsFile) -> Relation:
    relations = dict.fromkeys(run.relation for run in menu.runs)
    if len(relations) > 1:
        told = ", ".join(map(str, relations))
        raise Misused(f"{menu.path} must state one relation for the whole menu, got {told}")
    return next(iter(relations))


def _keep(kept: Filter, path: Path) -> None:
    if path.suffix != SAVED:
        raise Misused(f"--out must be a {SAVED} file, got {str(path)!r}")
    kept.save(path)
    say(f"wrote {path}: spend from it with tightrope filter {path} --spend 1")


def _take(kept: Filter, path: Path, number: int, times: int) -> None:
    """Spend and save, before anybody sees an output."""
    if not 1 <= number <= len(kept.menu):
        raise Misused(f"--spend must be the number of an entry, 1 to {len(kept.menu)}, got {number}")
    entry = kept.menu[number - 1]
    if not kept.may(entry, times):
        left = kept.remaining(entry)
        raise Misused(f"--times must be at most {left:,}, what is left of entry {number}, got {times:,}")
    kept.spend(entry, times)
    kept.save(path)


def _print(names: list[str], kept: Filter, form: Form) -> None:
    if form.json:
        show.print_json(_as_object(names, kept))
    elif form.brief:
        print_brief(str(row.left) for row in kept.rows)
    else:
        _show(names, kept, form)


def _tell(kept: Filter) -> str:
    """The promise and its price."""
    share = math.ceil(1000 * kept.price) / 10
    price = f"costs up to {share:g} % of the steps" if kept.price else "costs nothing here"
    return (
        f"Whatever is chosen, everything released is ({kept.epsilon:g}, {kept.delta:g})-private; "
        f"to choose on the way {price}."
    )


def _show(names: list[str], kept: Filter, form: Form) -> None:
    relation = relation_in_words(kept.relation)
    page = show.open_page(
        [_tell(kept), f"{kept.spent_share:.1%} of the budget is spent."],
        question=[f"Neighbours: {relation}."],
        facts=[("epsilon", f"{kept.epsilon:g}"), ("delta", f"{kept.delta:g}"), ("relation", relation)],
        why=form.why,
    )
    rows = [["", "entry", "fits", "if fixed in advance", "left"]]
    for i, (name, row) in enumerate(zip(names, kept.rows, strict=True), start=1):
        counts = (row.fits, row.fixed_in_advance, row.left)
        rows.append([str(i), name, *(f"{n:,}" if n < MOST_STEPS else "always" for n in counts)])
    page.table(rows)
    page.line(f"It holds if {PROMISE}. An unspent rest does not make epsilon smaller.")
    if form.why:
        page.line(f"The worst choice reaches a delta in {kept.worst_delta} at epsilon {kept.epsilon:g}.")
    reached = show.find_datasets([kept.worst_delta]) if form.why else []
    show.close_page(page, [kept.because], reached, why=form.why)


def _as_object(names: list[str], kept: Filter) -> show.Object:
    entries = [
        {
            "name": name,
            "parts": plain_run(row.entry),
            "fits": row.fits,
            "fixed_in_advance": row.fixed_in_advance,
            "left": row.left,
        }
        for name, row in zip(names, kept.rows, strict=True)
    ]
    return {
        "answer": _tell(kept),
        "epsilon": kept.epsilon,
        "delta": kept.delta,
        "relation": show.relation_object(kept.relation),
        "price": kept.price,
        "spent_share": kept.spent_share,
        "entries": entries,
        "condition": PROMISE,
        "theorems": [show.theorem_object(kept.because)],
    }
