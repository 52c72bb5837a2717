"""Which datasets count as neighbours: four relations, their groups, and the branches each consists of."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tightrope.errors import InvalidSetting, NoTheorem
from tightrope.numerics import check

MOST_IN_GROUP = 10**6  # records of one user; more is a slip of the pen
GROUP_PATTERN = "[2-9]|[1-9][0-9]{1,5}|1000000"  # how the size of a group is spelled
NOT_COVERED = "a group that is partly added and partly removed is not covered"


@dataclass(frozen=True)
class Relation:
    """A neighbouring relation. `branches` are the ordered relations whose curves are composed separately.

    `group` is how many records differ at most: 1, or what `of` was given. `single` is the relation of one
    record. There is one object for each relation and group, so that code may ask `relation is SUBSTITUTE`,
    which a group never is; `relation.single is SUBSTITUTE` asks it of groups too.

    >>> ADD_OR_REMOVE.branches == (ADD, REMOVE)
    True
    >>> SUBSTITUTE.meaning
    "D' has one record of D exchanged for another"
    >>> print(ADD_OR_REMOVE.of(5))
    add-or-remove of 5
    """

    name: str
    meaning: str
    branch_names: tuple[str, ...]
    group: int = 1

    def of(self, records: int) -> "Relation":
        """The same relation for groups of up to so many records, such as all records of one user.

        A group is all added, all removed, or exchanged record by record. Of up to `records`, the largest
        group decides: what a smaller one loses is never more.

        >>> SUBSTITUTE.of(5), ADD.of(1) is ADD
        (SUBSTITUTE.of(5), True)
        """
        remedy = "It is the most records that one unit has, for example one user."
        size = check.whole(least=1, remedy=remedy, group=records)
        if size > MOST_IN_GROUP:
            raise InvalidSetting("group", records, f"be at most {MOST_IN_GROUP:,}", remedy)
        if self.group > 1:
            raise InvalidSetting("relation", self, "be that of one record", "Say the size of the group once.")
        return _find(self.name, size)

    @property
    def single(self) -> "Relation":
        """The relation of one record."""
        return RELATIONS[self.name.partition(".")[0]]

    @property
    def text(self) -> str:
        """The relation in the braces of refusals, which each front end writes in its words."""
        many = f" for groups of {self.group:,} records" if self.group > 1 else ""
        return f"{{{self.single.name}}}{many}"

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        spelling = self.single.name.lower().replace("_", "-")
        return f"{spelling} of {self.group}" if self.group > 1 else spelling

    def __reduce__(self) -> "tuple[Callable[[str, int], Relation], tuple[str, int]]":
        # a copy is the relation itself: code asks `relation is SUBSTITUTE`
        return _find, (self.single.name, self.group)

    @property
    def branches(self) -> "tuple[Relation, ...]":
        """The one-directional relations whose worse curve, after composition, is this relation's curve."""
        return tuple(_find(name, self.group) for name in self.branch_names)

    @property
    def opposite(self) -> "Relation":
        """The relation of reversed neighbours: the relation itself where it is symmetric."""
        return _find({"ADD": "REMOVE", "REMOVE": "ADD"}.get(self.single.name, self.single.name), self.group)


ADD = Relation("ADD", "D' has one record more than D", ("ADD",))
REMOVE = Relation("REMOVE", "D' has one record fewer than D", ("REMOVE",))
ADD_OR_REMOVE = Relation("ADD_OR_REMOVE", "D' has one record more or one fewer than D", ("ADD", "REMOVE"))
SUBSTITUTE = Relation("SUBSTITUTE", "D' has one record of D exchanged for another", ("SUBSTITUTE",))
RELATIONS = {relation.name: relation for relation in (ADD, REMOVE, ADD_OR_REMOVE, SUBSTITUTE)}
RELATION_SPELLINGS = {str(relation): relation for relation in RELATIONS.values()}


# What else people call them. A name stands here only if it can mean nothing else.
_OTHER_NAMES = {
    ADD: "add-one",
    REMOVE: "remove-one",
    ADD_OR_REMOVE: "add-remove addremove add-or-remove-one add-remove-one unbounded",
    SUBSTITUTE: "substitute-one substitution replace replace-one exchange swap change-one bounded",
}
_NAMED = RELATION_SPELLINGS | {name: of for of, names in _OTHER_NAMES.items() for name in names.split()}
_BLANKED = "zero-out zero-out-one zeroing-out zeroed-out replace-special replace-with-zero"


def as_relation(value: object) -> Relation:
    """The relation itself, or the one with this name in any of its usual spellings; anything else is refused.

    >>> as_relation("add-or-remove"), as_relation("add/remove"), as_relation("replace_one")
    (ADD_OR_REMOVE, ADD_OR_REMOVE, SUBSTITUTE)
    >>> as_relation("add-or-remove of 5")
    ADD_OR_REMOVE.of(5)
    """
    if any(value is relation for relation in (*RELATIONS.values(), *_GROUPS.values())):
        return value  # type: ignore[return-value]  # it is one
    name, of, records = _split_group(value) if isinstance(value, str) else ("", "", "")
    if name in _NAMED:
        return _NAMED[name].of(int(records)) if of else _NAMED[name]
    names = ", ".join(f"{{{name}}}" for name in RELATIONS)
    remedy = "Say who counts as a neighbour: there is no default."
    if name in _BLANKED.split():
        remedy = (
            "No theorem here is about records that are zeroed out. With Poisson sampling and with full "
            "batches a zeroed record is as good as none, so {ADD_OR_REMOVE} gives the same bound; with "
            "batches of a fixed size the two differ, and {SUBSTITUTE} covers it and may say more than needed."
        )
    raise InvalidSetting("relation", value, f"be one of {names}", remedy)


def _split_group(value: str) -> tuple[str, str, str]:
    """The name in one spelling, and " of " with the number of records that follows it; both empty if none.

    "add-or-remove of 5" is how a group is printed, and "ADD_OR_REMOVE.of(5)" what Python writes.
    """
    found = re.fullmatch(r"(.+?)(\s+of\s+|\.of\()(\d{1,9})\)?", value.strip(), flags=re.IGNORECASE)
    name, of, records = found.groups() if found else (value.strip(), "", "")
    return re.sub(r"[\s_/-]+", "-", name.lower()), of, records


_MEANINGS = {
    "ADD": "D' has up to {} records more than D",
    "REMOVE": "D' has up to {} records fewer than D",
    "ADD_OR_REMOVE": f"D' has up to {{}} records more or up to {{}} fewer than D; {NOT_COVERED}",
    "SUBSTITUTE": "D' has up to {} records of D exchanged for others",
}
_GROUPS: dict[tuple[str, int], Relation] = {}  # made so far: one object for each


def _find(name: str, group: int = 1) -> Relation:
    """The relation of that name for groups of that size."""
    one = RELATIONS[name]
    if group == 1:
        return one
    meaning = _MEANINGS[name].replace("{}", f"{group:,}")
    made = Relation(f"{name}.of({group})", meaning, one.branch_names, group)
    return _GROUPS.setdefault((name, group), made)


def spelled_relation(text: str) -> Relation | None:
    """The relation that is printed so, to the letter; None if there is none.

    >>> spelled_relation("remove of 3"), spelled_relation("remove of 03")
    (REMOVE.of(3), None)
    """
    name, _, records = text.partition(" of ")
    is_group = re.fullmatch(GROUP_PATTERN, records) is not None
    if name not in RELATION_SPELLINGS or (text != name and not is_group):
        return None
    return RELATION_SPELLINGS[name].of(int(records or 1))


def need_one_record(relation: Relation, what: str) -> Relation:
    """The relation, if it is that of one record; `what` is what groups of records are not accounted in.

    >>> need_one_record(ADD.of(3), "audits")
    Traceback (most recent call last):
    ...
    tightrope.errors.NoTheorem: audits know no groups of records, and 3 were asked for. Ask under ADD.
    """
    if relation.group == 1:
        return relation
    asked = f"{what} know no groups of records, and {relation.group:,} were asked for"
    raise NoTheorem(asked, f"Ask under {{{relation.single.name}}}.")
