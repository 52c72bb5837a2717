"""A privacy statement as an entry for the registry of differential privacy deployments kept by OpenDP and NIST."""

import datetime
import re
from collections.abc import Collection, Sequence
from typing import Final

from tightrope.errors import InvalidSetting
from tightrope.report.words import relation_in_words
from tightrope.statements.markdown import (
    accountant,
    claim_in_words,
    ends_in_words,
    escaped,
    implemented_in_words,
    mechanisms_in_words,
    samplings_in_words,
    theorems_in_words,
    yaml_lines,
)
from tightrope.statements.model import Statement

CURATOR_TYPES: Final = ("Government", "Industry", "Nonprofit")
PRODUCT_TYPES: Final = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
SECTORS: Final = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
STATUSES: Final = (
    "Converted",
    "Draft",
    "Pending",
    "Changes Required",
    "Approved",
    "Approved (Update Requested)",
    "Approved (Pending)",
)
TIERS: Final = (1, 2, 3)


def registry(
    statement: Statement,
    *,
    slug: str,
    curator: str,
    curator_type: str,
    intended_use: str,
    region: str,
    publication_date: str | datetime.date,
    authors: Sequence[str],
    description: str | None = None,
    product_type: str = "Machine learning model",
    sector: str | None = None,
    tier: int = 3,
    status: str = "Draft",
) -> str:
    """The statement as the YAML file of one deployment.

    The registry asks for more than a statement holds: who publishes what (`curator`, `product_type`), where and when
    (`region`, `publication_date`), and who writes the entry (`authors`). `description` is that of the statement unless given.
    """
    described = statement.description if description is None else description
    basic: dict[str, object] = {
        "name": statement.name,
        "data_curators": [
            {
                "data_curator_name": _words(curator=curator),
                "data_curator_type": _one_of(CURATOR_TYPES, curator_type=curator_type),
            }
        ],
        "description": _words(description=described),
        "intended_use": _words(intended_use=intended_use),
        "data_product_type": _one_of(PRODUCT_TYPES, product_type=product_type),
        "data_product_region": _words(region=region),
    }
    if sector is not None:
        basic["data_product_sector"] = _one_of(SECTORS, sector=sector)
    basic["publication_date"] = _day(publication_date)
    administrative = {
        "status": _one_of(STATUSES, status=status),
        "registry_authors": _names(authors),
        "tier": _one_of(TIERS, tier=tier),
    }
    deployment = {
        "basic": basic,
        "dp_variant": {"variant_name": "Approximate DP"},
        "privacy_loss": _privacy_loss(statement),
        "deployment_model": {"model_name": statement.setting.capitalize()},
        "implementation": _implementation(statement),
        "administrative": administrative,
    }
    return "\n".join(yaml_lines({"url_slug": _slug(slug), "deployment": deployment})) + "\n"


def _privacy_loss(statement: Statement) -> dict[str, object]:
    claim, unit = statement.claim, statement.unit
    adjacent = escaped(f"Neighbours: {relation_in_words(statement.neighbours)}.")
    loss: dict[str, object] = {
        "privacy_unit": unit.protects,
        "privacy_unit_details": f"{adjacent} {escaped(unit.details)}".rstrip(),
    }
    if statement.dataset.records is not None:
        loss["number_of_privacy_units"] = statement.dataset.records
    loss["privacy_parameters"] = {"epsilon": claim.epsilon, "delta": claim.delta}
    loss["privacy_parameters_details"] = escaped(claim_in_words(statement))
    return loss


def _implementation(statement: Statement) -> dict[str, object]:
    certified = statement.certified
    drawn = [
        "Batches as accounted:",
        *samplings_in_words(statement),
        "Batches as implemented:",
        *implemented_in_words(statement),
    ]
    return {
        "preprocessing_and_hyperparameter_tuning": _listed(
            [f"Data accesses covered: {statement.data_accesses}", f"Tuning: {statement.tuning}"]
        ),
        "mechanisms": _listed(
            [*mechanisms_in_words(statement), f"Noise multiplier: {statement.noise_convention}.", *drawn]
        ),
        "composition": _listed(
            [
                f"{statement.accounted.steps} steps, composed numerically by {accountant(statement)}, with certified ends.",
                f"Epsilon as accounted: {ends_in_words(certified.accounted)}.",
                f"Epsilon of what runs: {ends_in_words(certified.runs)}.",
                *theorems_in_words(statement),
            ]
        ),
        "justification": _listed(
            [
                claim_in_words(statement),
                f"Verdict: {certified.verdict}.",
                *(f"Provided that {text}." for text in [certified.provided] if text),
                *(f"Nothing is proved: {text}" for text in [certified.why_not] if text),
                *(f"{one.says} Holds: {one.holds}. {one.because}" for one in statement.assumptions),
            ]
        ),
        "additional_information": _listed(
            [
                f"Outputs covered: {statement.outputs}",
                *(f"Code: {text}" for text in [statement.code] if text),
                f"Checked by: {statement.command}",
            ]
        ),
    }


def _listed(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(text)}" for text in texts)


def _words(**named: str) -> str:
    ((name, value),) = named.items()
    if not isinstance(value, str) or not value.strip():
        raise InvalidSetting(f"{name} must be some words, got {value!r}. The registry asks for it.")
    return value


def _one_of(choices: Collection[object], **named: object) -> object:
    ((name, value),) = named.items()
    if type(value) not in (str, int) or value not in choices:
        known = ", ".join(map(repr, choices))
        raise InvalidSetting(f"{name} must be one of {known}, got {value!r}. The registry knows no other.")
    return value


def _slug(slug: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", _words(slug=slug)):
        raise InvalidSetting(
            f"slug must be letters, digits, - and _, got {slug!r}. It becomes part of an address."
        )
    return slug


def _day(day: str | datetime.date) -> str:
    text = day.strftime("%Y-%m-%d") if isinstance(day, datetime.date) else day
    try:
        if isinstance(text, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise InvalidSetting(
        f"publication_date must be a date, got {day!r}. Write it as 2026-01-31; 01 stands for an unknown day."
    )


def _names(authors: Sequence[str]) -> list[str]:
    if (
        isinstance(authors, str)
        or not authors
        or not all(isinstance(name, str) and name.strip() for name in authors)
    ):
        raise InvalidSetting(
            f"authors must be a list of at least one name, got {authors!r}. They write the entry."
        )
    return list(authors)
