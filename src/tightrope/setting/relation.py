"""Which datasets count as neighbours: four relations and the one-directional branches each consists of."""

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


def as_relation(value: object) -> Relation:
    """The relation itself, or the one with this printed name; anything else is refused.

    >>> as_relation("add-or-remove")
    ADD_OR_REMOVE
    """
    for relation in RELATIONS.values():
        if value is relation or (isinstance(value, str) and value in (str(relation), relation.name)):
            return relation
    names = ", ".join(f"{{{name}}}" for name in RELATIONS)
    remedy = "Say who counts as a neighbour: there is no default."
    raise InvalidSetting("relation", value, f"be one of {names}", remedy)


def _find(name: str) -> Relation:
    return RELATIONS[name]
