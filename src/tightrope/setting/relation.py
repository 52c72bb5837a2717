"""Which datasets count as neighbours: four relations and the one-directional branches each consists of."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tightrope.errors import InvalidSetting


@dataclass(frozen=True)
class Relation:
    """A neighbouring relation. `branches` are the ordered relations whose curves are composed separately."""

    name: str
    meaning: str
    branch_names: tuple[str, ...]

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")

    def __reduce__(self) -> "tuple[Callable[[str], Relation], tuple[str]]":
        return _find, (self.name,)  # a copy is the relation itself: code asks `relation is SUBSTITUTE`

    @property
    def branches(self) -> "tuple[Relation, ...]":
        """The one-directional relations whose worse curve, after composition, is this relation's curve."""
        return tuple(RELATIONS[name] for name in self.branch_names)

    @property
    def opposite(self) -> "Relation":
        """The relation of reversed neighbours: the relation itself where it is symmetric."""
        return {ADD: REMOVE, REMOVE: ADD}.get(self, self)


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
    """
    if any(value is relation for relation in RELATIONS.values()):
        return value  # type: ignore[return-value]  # it is one
    name = re.sub(r"[\s_/-]+", "-", value.strip().lower()) if isinstance(value, str) else ""
    if name in _NAMED:
        return _NAMED[name]
    names = ", ".join(f"{{{name}}}" for name in RELATIONS)
    remedy = "Say who counts as a neighbour: there is no default."
    if name in _BLANKED.split():
        remedy = (
            "No theorem here is about records that are zeroed out. With Poisson sampling and with full "
            "batches a zeroed record is as good as none, so {ADD_OR_REMOVE} gives the same bound; with "
            "batches of a fixed size the two differ, and {SUBSTITUTE} covers it and may say more than needed."
        )
    raise InvalidSetting("relation", value, f"be one of {names}", remedy)


def _find(name: str) -> Relation:
    return RELATIONS[name]
