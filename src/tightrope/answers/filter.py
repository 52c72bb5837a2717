"""A budget over a declared menu of steps, each of which may be chosen after looking at earlier outputs."""

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from tightrope.accountants.certified import BY_DEFAULT, Certified, check_certified
from tightrope.answers.filter_file import SavedFilter, refuse_changed
from tightrope.answers.filter_game import find_game_rule, play_policy
from tightrope.answers.filter_rules import (
    FilterRule,
    MenuQuestion,
    RuleKind,
    check_entries,
    count_alone,
    refuse_entry,
)
from tightrope.answers.free_filters import find_gaussian_rule, find_renyi_rule
from tightrope.curve.bracket import Bracket, Decision
from tightrope.curve.curve import check_delta, check_epsilon
from tightrope.engines.face import Progress
from tightrope.errors import Infeasible, InvalidSetting, NoSuchValue, NoTheorem, NotPreciseEnough
from tightrope.files import as_path, write_alone
from tightrope.numerics import check, html
from tightrope.numerics.text import Flat, align
from tightrope.setting.relation import Relation, as_relation
from tightrope.setting.run import MOST_STEPS, Run, Step, as_run, check_steps
from tightrope.theorems.evidence import Evidence

POLICY = "the records of each entry's worst case, and a choice by what was lost so far"
PROMISE = "each entry is chosen from what was released before it, and from nothing else about the records"


@dataclass(frozen=True, kw_only=True)
class MenuRow:
    """How often an entry fits an unspent filter, how often if it were fixed in advance, and what is left."""

    entry: Run
    fits: int
    fixed_in_advance: int
    left: int


class Filter:
    """A privacy budget over a declared menu: any entry that `may` be taken may be chosen after any outputs.

    Whatever is chosen, and whenever one stops, everything released is (epsilon, delta)-private, if each entry
    is chosen from what was released before it and from nothing else about the records. The promise is the
    whole budget: an unspent rest does not make epsilon smaller. Each entry has a cost, the filter a capacity,
    and both are fixed when it is made: by the game over the menu, which is certified from above, or by the
    free filters of full batches with Gaussian noise and of Rényi divergences at one order. With `steps`,
    every entry costs one and so many are certified, or the filter is refused.

    >>> import tightrope as tr
    >>> calm = tr.Step(tr.Gaussian(noise_multiplier=2), tr.Poisson(rate=0.05))
    >>> bold = tr.Step(tr.Gaussian(noise_multiplier=1), tr.Poisson(rate=0.05))
    >>> budget = Filter(menu=[calm, bold], epsilon=2, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    >>> while budget.may(bold):  # look at the outputs, choose, spend, then release
    ...     budget.spend(bold)
    >>> budget.spent.steps < tr.most_steps(bold, epsilon=2, delta=1e-5, relation=tr.ADD_OR_REMOVE).value
    True
    """

    def __init__(
        self,
        *,
        menu: Iterable[Step | Run],
        epsilon: float,
        delta: float,
        relation: Relation | str,
        steps: int | None = None,
        by: Certified = BY_DEFAULT,
        progress: Progress | None = None,
    ) -> None:
        entries = _check_menu(menu)
        budget = {"epsilon": _check_budget(epsilon), "delta": check_delta(delta)}
        whose, answers = as_relation(relation), check_certified(by)
        alone = tuple(count_alone(entry, relation=whose, by=answers, **budget) for entry in entries)
        for entry, times in zip(entries, alone, strict=True):
            if times == 0:
                raise refuse_entry(entry)
        self._question = MenuQuestion(entries=entries, relation=whose, by=answers, alone=alone, **budget)
        tell = progress or _tell_nobody
        if steps is None:
            self._rule = find_rule(self._question, tell)
        else:
            most = check_steps(steps, least=1, remedy="It is how many entries are ever taken, at most.")
            self._rule = _check_reached(find_game_rule(self._question, tell, most), most)
        self._times = [0] * len(entries)
        self._saved: dict[Path, SavedFilter] = {}  # what each file held when it was loaded or saved

    def save(self, path: str | Path) -> None:
        """Write the filter with what is spent; whatever goes wrong, the old file or the new one is there.

        Save after spending and before the output is seen: a crash in between then counts one entry too many,
        and never one too few. A file that another filter wrote to meanwhile is refused.
        """
        given = as_path(path)
        with write_alone(given, what="the filter") as draft:
            known = self._saved.get(draft.target)
            if (draft.target.exists() or known) and (known is None or SavedFilter.read(given) != known):
                raise refuse_changed(given)
            content = SavedFilter(question=self._question, rule=self._rule, times=tuple(self._times))
            try:
                draft.put_in_place(content.seal())
            finally:
                if draft.is_in_place:  # an interrupt may come right after
                    self._saved[draft.target] = content

    @staticmethod
    def load(path: str | Path) -> "Filter":
        """The filter saved there, with what it has spent; a file that is damaged or edited is refused."""
        given = as_path(path)
        found = SavedFilter.read(given)
        loaded = Filter.__new__(Filter)
        loaded._question, loaded._rule, loaded._times = found.question, found.rule, list(found.times)
        loaded._saved = {given.resolve(): found}
        return loaded

    def is_certified_anew(self) -> bool:
        """Whether this menu and budget lead to the same costs again, and no more is spent than they allow.

        What a file says is not taken on trust. It takes as long as making the filter.
        """
        if self._spent > self._rule.capacity:
            return False
        ways: list[int | None] = [None]
        if self._rule.kind is RuleKind.GAME and set(self._rule.costs) <= {Fraction(0), Fraction(1)}:
            # made with `steps` or without: a file does not say which
            ways = [int(self._rule.capacity) or None, None]
        return any(self._leads_again(steps) for steps in ways)

    def _leads_again(self, steps: int | None) -> bool:
        asked = self._question
        try:
            anew = Filter(
                menu=asked.entries,
                epsilon=asked.epsilon,
                delta=asked.delta,
                relation=asked.relation,
                steps=steps,
                by=asked.by,
            )
        except (
            Infeasible,
            InvalidSetting,
        ):  # so many steps are not certified, or an entry does not fit at all
            return False
        return (anew._rule, anew._question) == (self._rule, asked)

    @property
    def menu(self) -> tuple[Run, ...]:
        """The entries, each a run; what was declared as a step is a run of one."""
        return self._question.entries

    @property
    def epsilon(self) -> float:
        """The budget's epsilon."""
        return self._question.epsilon

    @property
    def delta(self) -> float:
        """The budget's delta."""
        return self._question.delta

    @property
    def relation(self) -> Relation:
        """Who counts as a neighbour."""
        return self._question.relation

    @property
    def rule(self) -> FilterRule:
        """What each entry costs, how much there is, and what certifies it."""
        return self._rule

    @property
    def because(self) -> Evidence:
        """The theorem that certifies it."""
        return self._rule.kind.because

    @property
    def spent(self) -> Run:
        """Everything chosen so far."""
        return sum((entry * times for entry, times in zip(self.menu, self._times, strict=True)), Run())

    @property
    def spent_share(self) -> float:
        """The share of the capacity that is spent."""
        return float(self._spent / self._rule.capacity) if self._rule.capacity else 0.0

    def may(self, step: Step | Run, times: int = 1) -> bool:
        """Whether an entry, taken `times` times, fits what is left. Whoever obeys it stays in the budget."""
        return _check_times(times) <= self.remaining(step)

    def spend(self, step: Step | Run, times: int = 1) -> None:
        """Take an entry `times` times. Spend before the output is seen; what does not fit is refused."""
        count, left = _check_times(times), self.remaining(step)
        if count > left:
            fits = f"it fits {left:,} more time{'s' * (left != 1)}" if left else "it does not fit any more"
            must = f"fit what is left of the budget: {fits}"
            remedy = "Ask may(step) first. The budget was promised as a whole, and cannot be extended."
            raise InvalidSetting("step", as_run(step) * count, must, remedy)
        self._times[self._find(step)] += count

    def remaining(self, step: Step | Run) -> int:
        """How many more times an entry fits, if nothing else is taken; 10**15 for one that loses nothing."""
        return self._rule.count_fitting(self._find(step), self._spent)

    @property
    def rows(self) -> tuple[MenuRow, ...]:
        """Each entry beside what would fit if it were fixed in advance: what the freedom costs."""
        unspent = Fraction(0)
        return tuple(
            MenuRow(
                entry=entry,
                fits=self._rule.count_fitting(i, unspent),
                fixed_in_advance=self._question.alone[i],
                left=self._rule.count_fitting(i, self._spent),
            )
            for i, entry in enumerate(self.menu)
        )

    @property
    def price(self) -> float:
        """The largest share of an entry's steps that the freedom to choose costs; 0 where it is free."""
        return max(1 - self._question.count_share(self._rule), 0.0)

    @cached_property
    def worst_delta(self) -> Bracket:
        """Delta at the budget's epsilon if whoever chooses does their worst.

        From above as certified, from below by a policy that is played, or by the entry that alone comes
        closest. Asking takes about as long as making the filter.
        """
        reached, by = max(self._play_policy(), self._try_alone())
        decided = Decision((self.because,), by, self.relation.name)
        return Bracket(min(reached, self._rule.delta), self._rule.delta, decided_by=decided)

    def to_dicts(self) -> list[Flat]:
        """One flat row for each entry."""
        return [
            {
                "entry": _name(row.entry),
                "fits": row.fits,
                "fixed_in_advance": row.fixed_in_advance,
                "left": row.left,
            }
            for row in self.rows
        ]

    def _play_policy(self) -> tuple[float, str]:
        if self._rule.kind is RuleKind.GAME:
            with suppress(NotPreciseEnough):
                return play_policy(self._question, self._rule, _tell_nobody), POLICY
        return 0.0, "nothing"

    def _try_alone(self) -> tuple[float, str]:
        """The entry that comes closest to the budget if it is all that is taken."""
        reached = [(0.0, "nothing")]
        for row in self.rows:
            if row.fits < MOST_STEPS:
                curve = self._question.by.curve(row.entry * row.fits, self.relation)
                reached.append((curve.delta(self.epsilon).lower, f"{_name(row.entry)} and nothing else"))
        return max(reached)

    @property
    def _spent(self) -> Fraction:
        return sum(
            (times * cost for times, cost in zip(self._times, self._rule.costs, strict=True)), Fraction(0)
        )

    def _find(self, step: Step | Run) -> int:
        """Which entry it is."""
        run = as_run(step)
        if run not in self.menu:
            must = f"be on the menu: {'; '.join(map(_name, self.menu))}"
            remedy = "The menu is fixed when the filter is made, before any output: make one that lists it."
            raise InvalidSetting("step", step, must, remedy)
        return self.menu.index(run)

    def __repr__(self) -> str:
        budget = f"epsilon {self.epsilon!r}, delta {self.delta!r} under {self.relation.name}"
        return f"<Filter: {budget}, {self._told}>"

    def __str__(self) -> str:
        table = [["entry", "fits", "fixed in advance", "left"], *map(_write_row, self.rows)]
        lines = "\n".join(f"  {line}" for line in align(table).splitlines())
        return f"{self._heading}\n{lines}\n  {self._priced}\n  It holds if {PROMISE}."

    def _repr_html_(self) -> str:
        table = html.write_table([["entry", "fits", "fixed in advance", "left"], *map(_write_row, self.rows)])
        said = html.write_text(self._heading, strong=self._heading)
        return html.join(said, table, html.write_text(self._priced), html.fold("why", [self.because.in_full]))

    @property
    def _told(self) -> str:
        return f"{self.spent_share:.1%} spent"

    @property
    def _heading(self) -> str:
        budget = f"epsilon {self.epsilon:g}, delta {self.delta:g} under {self.relation.name}"
        return f"Filter for {budget}, by {self.because.name}: {self._told}"

    @property
    def _priced(self) -> str:
        if not self.price:
            return "To choose on the way costs nothing here."
        return f"To choose on the way costs up to {math.ceil(1000 * self.price) / 10:g} % of the steps."


def find_rule(question: MenuQuestion, progress: Progress) -> FilterRule:
    """The rule that admits most: one, chosen in advance. No theorem bounds what either of two admits."""
    free = find_gaussian_rule(question)
    if free is not None:
        return free
    try:
        by_game = find_game_rule(question, progress)
    except NotPreciseEnough:  # too many steps for a game
        return find_renyi_rule(question)
    try:
        by_moments = find_renyi_rule(question)
    except (NoTheorem, NoSuchValue):
        return by_game
    return max(by_game, by_moments, key=question.count_share)


def _name(entry: Run) -> str:
    """A run of one step as the step it is."""
    if entry.steps == 1:
        ((step, _),) = entry.parts
        return repr(step)
    return repr(entry)


def _write_row(row: MenuRow) -> list[str]:
    counts = (row.fits, row.fixed_in_advance, row.left)
    return [_name(row.entry), *(f"{count:,}" if count < MOST_STEPS else "always" for count in counts)]


def _check_menu(menu: Iterable[Step | Run]) -> tuple[Run, ...]:
    remedy = "List the steps or runs that may be chosen, each once: menu=[calm, bold]."
    if isinstance(menu, Step | Run | str) or not isinstance(menu, Iterable):
        raise InvalidSetting("menu", menu, "be a list of steps or runs", remedy)
    entries = tuple(as_run(entry) for entry in menu)
    if not entries or len(set(entries)) < len(entries):
        must = "list each entry once" if entries else "hold at least one entry"
        raise InvalidSetting("menu", list(entries), must, remedy)
    check_entries(entries)
    return entries


def _check_times(times: int) -> int:
    """As an int of Python: others overflow as they add up, and no file holds them."""
    return check.whole(remedy="It is how often the entry is taken.", times=times)


def _check_budget(epsilon: float) -> float:
    found = check_epsilon(epsilon)
    if found < 0:
        raise InvalidSetting("epsilon", epsilon, "be at least 0", "It is what may be spent in all.")
    return found


def _check_reached(rule: FilterRule, steps: int) -> FilterRule:
    if rule.capacity < steps:
        what = f"{{steps={steps}}} chosen on the way from this menu do not fit the budget"
        raise Infeasible(what, f"Certified are {rule.capacity} at most.", limit=float(rule.capacity))
    return rule


def _tell_nobody(done: int, of: int) -> None:
    """What is called where nobody asked to be told."""
