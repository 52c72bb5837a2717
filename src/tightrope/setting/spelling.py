"""How settings are written on a command line and in files."""

from tightrope.setting.mechanism import Finite, Gaussian, Laplace, Mechanism, RandomizedResponse
from tightrope.setting.relation import RELATIONS, Relation
from tightrope.setting.sampling import EveryRecord, Poisson, Sampling, WithoutReplacement

MECHANISM_SPELLINGS: dict[str, type[Mechanism]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "randomized-response": RandomizedResponse,
    "finite": Finite,
}
SAMPLING_SPELLINGS: dict[str, type[Sampling]] = {
    "every-record": EveryRecord,
    "poisson": Poisson,
    "without-replacement": WithoutReplacement,
}
RELATION_SPELLINGS: dict[str, Relation] = {
    name.lower().replace("_", "-"): relation for name, relation in RELATIONS.items()
}

_SPELLED = {
    what: name
    for table in (MECHANISM_SPELLINGS, SAMPLING_SPELLINGS, RELATION_SPELLINGS)
    for name, what in table.items()
}


def spelled(what: type[Mechanism] | type[Sampling] | Relation) -> str:
    """How a kind of mechanism or sampling, or a relation, is written.

    >>> from tightrope import ADD_OR_REMOVE
    >>> spelled(WithoutReplacement), spelled(ADD_OR_REMOVE)
    ('without-replacement', 'add-or-remove')
    """
    return _SPELLED[what]
