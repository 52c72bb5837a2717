"""The numbers of batches as implemented are possible together, or refused with the fields that are not."""

import itertools
import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from tightrope.audit import Finding, How, Scheme, prove_bound
from tightrope.numerics.floats import ceil_fraction
from tightrope.statements.arithmetic import CONSTRAINTS, TAKES, check_arithmetic
from tightrope.statements.checks import parse_statement
from tightrope.statements.make import Facts, declare_as_accounted, state_run
from tightrope.statements.model import Dataset, Implemented, Statement

RUN = tr.Step(tr.Gaussian(noise_multiplier=4), tr.Poisson(rate=1e-3)) * 100
FACTS = Facts(
    name="x", setting="central", unit="record", data_accesses="all", tuning="none", outputs="the last model"
)


def problems(scheme: Scheme, *, dataset: Dataset | None = None, **numbers: Any) -> list[str]:
    stated = {"scheme": scheme.name.lower(), "evidence": "declared", "sentence": "So it is.", **numbers}
    implemented = Implemented.model_validate_json(json.dumps(stated))
    return [str(found) for found in check_arithmetic(implemented, dataset or Dataset())]


# every small case, against passes that are cut one by one


def passes_like(scheme: Scheme, records: int, batch: int, epoch: int, times: int) -> list[int]:
    """The lengths of a pass, in which no record comes more than `times` times, that make so many batches."""
    longest = records * (times if scheme is not Scheme.WEIGHTED else 1)
    return [length for length in range(1, longest + 1) if -(-length // batch) == epoch]


def is_possible(
    scheme: Scheme, records: int, batch: int, epoch: int, times: int, full: int, alike: bool
) -> bool:
    if batch > records or times > epoch or not epoch - 1 <= full <= epoch:
        return False
    for length in passes_like(scheme, records, batch, epoch, times):
        one_fewer = length if length < records else length - 1
        stays = times == 1 and -(-one_fewer // batch) == epoch
        if full <= length // batch and (stays or not alike):
            return True
    return False


@pytest.mark.parametrize("scheme", [Scheme.SHUFFLE, Scheme.FIXED_PARTITION])
def test_numbers_of_an_epoch_pass_exactly_if_some_pass_over_the_records_has_them(scheme: Scheme) -> None:
    seen = {True: 0, False: 0}
    sizes = itertools.product(range(1, 6), range(1, 5), range(1, 6), (1, 2, 3), range(7), (False, True))
    for records, batch, epoch, times, full, alike in sizes:
        possible = is_possible(scheme, records, batch, epoch, times, full, alike)
        numbers: dict[str, Any] = {"records": records, "batch": batch, "epoch": epoch, "times": times}
        numbers |= {"full": full, "alike": alike}
        assert (problems(scheme, **numbers) == []) == possible, numbers
        seen[possible] += 1
    assert min(seen.values()) > 100


# random statements, and each with one number changed


def draw_numbers(scheme: Scheme, random_: random.Random) -> dict[str, Any]:
    """Numbers that a loader of this kind could have."""
    records, batch = random_.randint(100, 10**6), random_.randint(2, 99)
    length = random_.randint(records // 2, records)
    epoch = -(-length // batch)
    rate = random_.uniform(1e-4, 0.5)
    if scheme in (Scheme.SHUFFLE, Scheme.FIXED_PARTITION):
        full = {"full": length // batch, "alike": (epoch - 1) * batch < records - 1}
        return {"records": records, "batch": batch, "epoch": epoch, "times": 1, **full}
    others: dict[Scheme, dict[str, Any]] = {
        Scheme.POISSON: {"sampling": {"kind": "poisson", "rate": rate}, "records": records, "rate": rate},
        Scheme.WITHOUT_REPLACEMENT: {
            "sampling": {"kind": "without-replacement", "batch": batch, "population": records},
            "records": records,
            "batch": batch,
            "rate": batch / records,
        },
        Scheme.EVERY_RECORD: {
            "sampling": {"kind": "every-record"},
            "records": records,
            "batch": records,
            "rate": 1.0,
        },
        Scheme.BALLS_IN_BINS: {"records": records, "batch": batch, "epoch": records // batch},
        Scheme.WITH_REPLACEMENT: {
            "records": records,
            "batch": batch,
            "share": ceil_fraction(Fraction(1, records)),
        },
        Scheme.WEIGHTED: {"records": records, "batch": batch, "share": random_.uniform(2 / records, 1)},
        Scheme.SEVERAL_DRAWS: {"records": records, "draws": random_.randint(2, 8), "rate": rate},
        Scheme.TRUNCATED_POISSON: {
            "sampling": {"kind": "truncated-poisson", "rate": rate, "at_most": batch, "population": records},
            "records": records,
            "rate": rate,
        },
        Scheme.RANDOM_ALLOCATION: {
            "sampling": {"kind": "random-allocation", "batches": epoch, "chosen": 2},
            "records": records,
            "epoch": epoch,
        },
    }
    return others[scheme]


BREAKS: dict[Scheme, dict[str, Any]] = {
    Scheme.TRUNCATED_POISSON: {
        "rate": lambda n: n["rate"] / 2,
        "records": lambda n: n["records"] + 1,
        "epoch": lambda n: 5,
    },
    Scheme.RANDOM_ALLOCATION: {"epoch": lambda n: n["epoch"] + 1, "share": lambda n: 0.5},
    Scheme.POISSON: {
        "rate": lambda n: n["rate"] / 2,
        "draws": lambda n: 4,
        "batch": lambda n: 3,
        "epoch": lambda n: 5,
        "times": lambda n: 2,
        "share": lambda n: 0.5,
        "full": lambda n: 2,
        "alike": lambda n: True,
        "reshuffles": lambda n: True,
        "rate_range": lambda n: [0.0, 1.0],
    },
    Scheme.WITHOUT_REPLACEMENT: {
        "batch": lambda n: n["batch"] + 1,
        "records": lambda n: n["records"] - 1,
        "rate": lambda n: n["rate"] * 0.999,
        "epoch": lambda n: 2,
        "draws": lambda n: 2,
    },
    Scheme.EVERY_RECORD: {
        "batch": lambda n: n["batch"] - 1,
        "records": lambda n: n["records"] + 1,
        "rate": lambda n: 0.999,
        "share": lambda n: 0.5,
    },
    Scheme.SHUFFLE: {
        "epoch": lambda n: n["records"] // n["batch"] + 2,
        "records": lambda n: (n["epoch"] - 1) * n["batch"],
        "batch": lambda n: n["records"] + 1,
        "full": lambda n: n["epoch"] + 1,
        "times": lambda n: n["epoch"] + 1,
        "rate": lambda n: 0.5,
        "share": lambda n: 0.5,
    },
    Scheme.FIXED_PARTITION: {
        "epoch": lambda n: n["records"] // n["batch"] + 2,
        "records": lambda n: (n["epoch"] - 1) * n["batch"],
        "full": lambda n: n["epoch"] - 2,
        "reshuffles": lambda n: True,
        "draws": lambda n: 2,
    },
    Scheme.BALLS_IN_BINS: {
        "epoch": lambda n: n["epoch"] + 2,
        "batch": lambda n: 2 * n["batch"],
        "full": lambda n: n["epoch"] + 1,
        "times": lambda n: 2,
        "share": lambda n: 0.5,
    },
    Scheme.WITH_REPLACEMENT: {
        "share": lambda n: 0.9 / n["records"],
        "records": lambda n: n["records"] * 2,
        "epoch": lambda n: 5,
        "rate": lambda n: 0.1,
    },
    Scheme.WEIGHTED: {
        "share": lambda n: 0.9 / n["records"],
        "records": lambda n: 1 if n["share"] < 1 else None,
        "epoch": lambda n: 5,
        "full": lambda n: 5,
    },
    Scheme.SEVERAL_DRAWS: {
        "draws": lambda n: 1,
        "rate": lambda n: 0.0,
        "batch": lambda n: 5,
        "epoch": lambda n: 5,
    },
}
BASE = state_run(RUN, relation=tr.SUBSTITUTE, delta=1e-6, facts=FACTS, implemented=declare_as_accounted(RUN))


def state(scheme: Scheme, numbers: dict[str, Any]) -> Statement:
    entries = json.loads(BASE.model_dump_json())
    sampling = {"sampling": None}
    named = {"scheme": scheme.name.lower(), "evidence": "declared", "sentence": "So it is."}
    entries["implemented"] = {**sampling, **named, **numbers}
    return parse_statement(json.dumps(entries))


@pytest.mark.parametrize("scheme", TAKES, ids=lambda scheme: scheme.name)
def test_numbers_that_a_loader_could_have_pass_and_each_that_breaks_an_equation_is_refused_by_name(
    scheme: Scheme,
) -> None:
    random_ = random.Random(scheme.name)
    for _ in range(20):
        numbers = draw_numbers(scheme, random_)
        state(scheme, numbers)
        for name, change in BREAKS[scheme].items():
            with pytest.raises(tr.InvalidSetting) as refused:
                state(scheme, {**numbers, name: change(numbers)})
            assert f"implemented.{name} = " in str(refused.value), (name, numbers)


def test_every_number_of_every_scheme_is_tried() -> None:
    assert set(CONSTRAINTS) == set(Scheme)
    for scheme, constraints in CONSTRAINTS.items():
        tied = {name for constraint in constraints for name in constraint.ties}
        own = tied & set(TAKES.get(scheme, ())) - {"alike", "times", "rate_range"}
        assert own <= set(BREAKS.get(scheme, ())) | {"batch", "records"}, scheme


# what was accepted before


def test_an_epoch_of_ten_times_as_many_batches_as_records_allow_is_refused() -> None:
    entries = json.loads(BASE.model_dump_json())
    shuffled = {"scheme": "shuffle", "evidence": "inspected", "sentence": "It shuffles.", "sampling": None}
    sizes = {"records": 50_000, "batch": 50, "epoch": 10_000, "times": 2}
    entries["implemented"] = {**shuffled, **sizes}
    with pytest.raises(tr.InvalidSetting) as refused:
        parse_statement(json.dumps(entries))
    assert (
        "implemented.epoch = 10000, implemented.batch = 50, implemented.times = 2 and implemented.records = "
        "50000 contradict each other: only the last batch of an epoch may be short, so (epoch - 1) * batch < "
        "times * records. Correct one of them."
    ) in str(refused.value)
    entries["implemented"] = {**shuffled, **sizes, "epoch": 2000}
    parse_statement(json.dumps(entries))


def test_numbers_of_other_schemes_beside_a_poisson_rate_are_refused() -> None:
    entries = json.loads(BASE.model_dump_json())
    entries["implemented"] |= {"rate": 0.5, "draws": 4, "records": 10, "batch": 3}
    with pytest.raises(tr.InvalidSetting) as refused:
        parse_statement(json.dumps(entries))
    for said in (
        "implemented.rate = 0.5 and implemented.sampling.rate = 0.001 contradict each other",
        "implemented.draws = 4 means nothing for implemented.scheme = 'poisson'",
        "implemented.batch = 3 means nothing for implemented.scheme = 'poisson'",
    ):
        assert said in str(refused.value)


def test_an_epoch_that_nobody_can_check_is_refused() -> None:
    """Without the sizes, an epoch of a billion batches would make any run harmless."""
    (said,) = problems(Scheme.SHUFFLE, epoch=10**9, reshuffles=True)
    assert (
        "implemented.epoch = 1000000000 is stated without implemented.records and implemented.batch" in said
    )
    sizes = Dataset(records=50_000, batch=50.0)
    assert problems(Scheme.SHUFFLE, dataset=sizes, epoch=1000) == []
    (said,) = problems(Scheme.SHUFFLE, dataset=sizes, epoch=1001)
    assert "dataset.batch = 50, implemented.times = 1 and dataset.records = 50000" in said


def test_what_only_a_loader_tells_is_refused_where_batches_were_watched() -> None:
    sizes: dict[str, Any] = {"records": 100, "batch": 10, "epoch": 10, "evidence": "watched"}
    (said,) = problems(Scheme.SHUFFLE, **sizes, alike=True)
    assert "implemented.alike = true and implemented.evidence = watched contradict each other" in said
    assert problems(Scheme.SHUFFLE, **sizes) == []
    poisson: dict[str, Any] = {"sampling": {"kind": "poisson", "rate": 0.1}}
    (said,) = problems(Scheme.POISSON, evidence="watched", **poisson)
    assert "implemented.rate_range = nothing and implemented.evidence = watched" in said
    assert problems(Scheme.POISSON, evidence="watched", rate_range=[0.09, 0.11], **poisson) == []
    (said,) = problems(Scheme.POISSON, evidence="watched", rate_range=[0.101, 0.11], **poisson)
    assert "the range of a rate holds the rate" in said


def test_shares_are_compared_as_fractions() -> None:
    """1 / 49 as a float is below 1 / 49: the nearest float is accepted, the one below it is not."""
    nearest = 1 / 49
    assert Fraction(nearest) < Fraction(1, 49)
    assert problems(Scheme.WITH_REPLACEMENT, records=49, batch=7, share=nearest) == []
    below = float.fromhex(nearest.hex()) - 2**-58
    assert below < nearest
    assert "share >= 1 / records" in problems(Scheme.WITH_REPLACEMENT, records=49, batch=7, share=below)[0]


def test_a_share_is_accounted_at_no_less_than_one_over_the_records() -> None:
    declared: dict[str, Any] = {
        "scheme": Scheme.WITH_REPLACEMENT,
        "how": How.DECLARED,
        "sentence": "So it is.",
    }
    impossible, least = (
        prove_bound(
            RUN,
            Finding(**declared, records=49, batch=7, share=share),
            relation=tr.SUBSTITUTE,
            delta=1e-6,
        )
        for share in (1e-9, ceil_fraction(Fraction(1, 49)))
    )
    assert impossible == least


def test_every_sentence_of_the_table_is_in_the_docs() -> None:
    page = " ".join((Path(__file__).parent.parent / "docs" / "statements.md").read_text().split())
    told = {constraint.sentence for constraints in CONSTRAINTS.values() for constraint in constraints}
    assert [sentence for sentence in told if sentence not in page] == []
