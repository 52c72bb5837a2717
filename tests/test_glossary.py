"""Whatever word the software prints has an entry in the glossary."""

import re
from enum import Enum
from pathlib import Path

import pytest

import tightrope as tr
from tightrope import errors
from tightrope.audit.claims.verdict import Verdict
from tightrope.audit.finding import How, Scheme
from tightrope.setting.mechanism import MECHANISM_SPELLINGS
from tightrope.setting.relation import RELATIONS
from tightrope.setting.sampling import SAMPLING_SPELLINGS

PAGE = Path(__file__).parent.parent / "docs" / "glossary.md"
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)[1:]
WORDS = [word.strip() for heads, _ in ROWS for word in heads.split(",")]


def kebab(*kinds: type[Enum]) -> set[str]:
    return {member.name.lower().replace("_", "-") for kind in kinds for member in kind}


@pytest.mark.parametrize(
    "printed",
    [
        set(SAMPLING_SPELLINGS) | set(MECHANISM_SPELLINGS) | {str(one) for one in RELATIONS.values()},
        {by.name for by in (tr.Certified, tr.Exact, tr.Renyi, tr.GaussianLimit, tr.MonteCarlo)},
        kebab(Verdict, Scheme, How, tr.Standing, tr.Effort),
    ],
    ids=["settings", "accountants", "verdicts"],
)
def test_every_printed_name_is_explained(printed: set[str]) -> None:
    assert printed - set(WORDS) == set()


def test_every_refusal_is_explained() -> None:
    raised = {name for name, kind in vars(errors).items() if isinstance(kind, type) and _is_refusal(kind)}
    assert "NoTheorem" in raised
    assert raised - {"TightropeError", "SeveralProblems"} - set(WORDS) == set()  # these print others


def _is_refusal(kind: type) -> bool:
    return issubclass(kind, errors.TightropeError)


def test_words_are_in_order_and_explained_once_in_a_line_or_two() -> None:
    heads = [heads.split(",")[0].lower() for heads, _ in ROWS]
    assert heads == sorted(heads, key=lambda head: re.sub("[- ]", "", head))
    assert len(set(WORDS)) == len(WORDS)
    assert all(meaning.endswith(".") and len(meaning) < 300 for _, meaning in ROWS)
