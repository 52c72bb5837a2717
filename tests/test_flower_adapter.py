"""The adapter for Flower: its protocol, its budget and its strategies with a certified accountant."""

import inspect
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # before Flower is imported: tests send nothing
pytest.importorskip(
    "flwr.serverapp", reason="flwr is not installed: make training"
)  # holds its warnings back, too

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import (
    GaussianPrivacyEvent,
    Grid,
    NeighboringRelation,
    PrivacyAccountant,
    PrivacyConfig,
    RdpAccountant,
    SamplingMethod,
)
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.task_identity import TaskIdentity

import tightrope as tr
from tightrope.integrations.flower import AnyPrivacyConfig, FlowerAccountant

ADD_OR_REMOVE_ONE, REPLACE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
POISSON, FIXED, ALL = (
    SamplingMethod.POISSON,
    SamplingMethod.WITHOUT_REPLACEMENT,
    SamplingMethod.NO_AMPLIFICATION,
)
EVENT = GaussianPrivacyEvent(noise_multiplier=1.0, sample_size=10, population_size=20)


def configured(sampling: SamplingMethod, relation: NeighboringRelation, **more: Any) -> AnyPrivacyConfig:
    given = {"target_delta": 1e-5, "population_size": 20, **more}
    return AnyPrivacyConfig(neighboring_relation=relation, sampling_method=sampling, **given)


def gaussian(noise: float, sampling: Any) -> tr.Step:
    return tr.Step(tr.Gaussian(noise_multiplier=noise), sampling)


@pytest.mark.parametrize(
    ("sampling", "relation", "step", "asked"),
    [
        (POISSON, ADD_OR_REMOVE_ONE, gaussian(1, tr.Poisson(rate=0.5)), tr.ADD_OR_REMOVE),
        (POISSON, REPLACE_ONE, gaussian(1, tr.Poisson(rate=0.5)), tr.SUBSTITUTE),
        (
            FIXED,
            ADD_OR_REMOVE_ONE,
            gaussian(1, tr.WithoutReplacement(batch=10, population=20)),
            tr.ADD_OR_REMOVE,
        ),
        (FIXED, REPLACE_ONE, gaussian(1, tr.WithoutReplacement(batch=10, population=20)), tr.SUBSTITUTE),
        (
            ALL,
            ADD_OR_REMOVE_ONE,
            gaussian(1, tr.EveryRecord()),
            tr.SUBSTITUTE,
        ),  # one who joins takes another's place
        (ALL, REPLACE_ONE, gaussian(1, tr.EveryRecord()), tr.SUBSTITUTE),
    ],
)
def test_every_model_answers_with_the_upper_end_of_the_core(
    sampling: SamplingMethod, relation: NeighboringRelation, step: tr.Step, asked: tr.Relation
) -> None:
    accountant = FlowerAccountant(configured(sampling, relation))
    accountant.compose(EVENT, 3)
    accountant.compose(EVENT)
    expected = tr.epsilon(step * 4, delta=1e-5, relation=asked)
    assert accountant.num_releases == 4
    assert accountant.get_epsilon(1e-5) == expected.upper
    assert accountant.epsilon_bracket(1e-5) == expected
    assert accountant.get_delta(3.0) == tr.delta(step * 4, epsilon=3, relation=asked).upper
    spent = accountant.get_privacy_spent()
    assert (spent.epsilon, spent.delta, spent.num_releases, spent.accounting_method) == (
        expected.upper,
        1e-5,
        4,
        "tightrope",
    )
    assert accountant.get_privacy_spent(1e-3).epsilon < spent.epsilon


def test_the_protocol_is_satisfied_to_the_last_parameter() -> None:
    wanted = {name: value for name, value in vars(PrivacyAccountant).items() if not name.startswith("_")}
    assert {"compose", "would_exceed", "state_dict"} <= wanted.keys()
    for name, value in wanted.items():
        ours = inspect.getattr_static(FlowerAccountant, name)
        if isinstance(value, property):
            assert isinstance(ours, property)
        else:
            assert list(inspect.signature(ours).parameters) == list(inspect.signature(value).parameters)


def test_nothing_released_costs_nothing() -> None:
    assert FlowerAccountant(configured(POISSON, ADD_OR_REMOVE_ONE)).get_privacy_spent().epsilon == 0


def test_poisson_sampling_costs_less_than_by_their_renyi_accountant() -> None:
    config = PrivacyConfig(1e-5, 1000, ADD_OR_REMOVE_ONE, POISSON)
    event = GaussianPrivacyEvent(noise_multiplier=1.0, sample_size=10, population_size=1000)
    ours, theirs = FlowerAccountant(config), RdpAccountant(config)
    for accountant in (ours, theirs):
        accountant.compose(event, 500)
    assert 0.5 * theirs.get_epsilon(1e-5) < ours.get_epsilon(1e-5) < theirs.get_epsilon(1e-5)


def test_their_accountant_reads_noise_per_sensitivity_though_strategies_add_it_per_client() -> None:
    config = PrivacyConfig(1e-6, 1000, REPLACE_ONE, FIXED)
    event = GaussianPrivacyEvent(noise_multiplier=0.8, sample_size=1, population_size=1000)
    ours, theirs = FlowerAccountant(config), RdpAccountant(config)
    for accountant in (ours, theirs):
        accountant.compose(event, 10_000)
    assert theirs.get_epsilon(1e-6) == pytest.approx(1.979, abs=1e-3)
    assert ours.epsilon_bracket(1e-6).lower > 15


def test_without_amplification_their_accountant_is_too_small_for_clients_drawn_without_replacement() -> None:
    # Flower draws a fixed number of clients, and who joins then pushes another out: the sum moves by two
    # clipping norms
    ours, theirs = (
        FlowerAccountant(configured(ALL, ADD_OR_REMOVE_ONE)),
        RdpAccountant(configured(ALL, ADD_OR_REMOVE_ONE)),
    )
    for accountant in (ours, theirs):
        accountant.compose(EVENT, 10)
    drawn = gaussian(1, tr.WithoutReplacement(batch=10, population=20)) * 10
    truth = tr.epsilon(drawn, delta=1e-5, relation=tr.ADD_OR_REMOVE)
    reported = theirs.get_epsilon(1e-5), truth.lower, ours.get_epsilon(1e-5)
    assert reported == pytest.approx((19.05, 31.37, 46.21), abs=0.01)  # as docs/interop.md says
    assert theirs.get_epsilon(1e-5) < truth.lower < truth.upper < ours.get_epsilon(1e-5)


def test_where_all_take_part_nobody_is_pushed_out() -> None:
    accountant = FlowerAccountant(configured(ALL, ADD_OR_REMOVE_ONE))
    accountant.compose(GaussianPrivacyEvent(noise_multiplier=1.0, sample_size=20, population_size=20))
    assert (
        accountant.get_epsilon(1e-5)
        == tr.epsilon(gaussian(1, tr.EveryRecord()), delta=1e-5, relation=tr.ADD_OR_REMOVE).upper
    )


def test_the_budget_is_checked_ahead_and_nothing_changes() -> None:
    accountant = FlowerAccountant(configured(POISSON, ADD_OR_REMOVE_ONE, max_epsilon=8.0))
    while not accountant.would_exceed(EVENT):
        accountant.compose(EVENT)
    released, spent = accountant.num_releases, accountant.get_privacy_spent().epsilon
    assert released > 1
    assert spent <= 8
    assert not accountant.would_exceed(EVENT, max_epsilon=100.0)
    assert accountant.would_exceed(EVENT, max_epsilon=spent)
    assert accountant.would_exceed(EVENT, max_epsilon=100.0, count=1000)
    assert (accountant.num_releases, accountant.get_privacy_spent().epsilon) == (released, spent)
    accountant.compose(EVENT)
    assert accountant.get_privacy_spent().epsilon > 8
    with pytest.raises(ValueError, match="max_epsilon must be given"):
        FlowerAccountant(configured(POISSON, ADD_OR_REMOVE_ONE)).would_exceed(EVENT)


@pytest.mark.parametrize("sampling", list(SamplingMethod))
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_a_saved_state_continues_where_it_stopped(
    sampling: SamplingMethod, relation: NeighboringRelation
) -> None:
    config = configured(sampling, relation, max_epsilon=8.0)
    first, second = FlowerAccountant(config), FlowerAccountant(config)
    first.compose(EVENT, 2)
    second.compose(EVENT, 5)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.run == first.run
    assert second.get_epsilon(1e-5) == first.get_epsilon(1e-5)


def test_a_state_that_is_not_this_accountants_is_refused_and_changes_nothing() -> None:
    accountant = FlowerAccountant(configured(POISSON, ADD_OR_REMOVE_ONE))
    accountant.compose(EVENT)
    state, other = accountant.state_dict(), FlowerAccountant(configured(FIXED, REPLACE_ONE)).state_dict()
    cases: list[tuple[Any, str]] = [
        (other, "state: config must be"),
        ({**state, "backend": "rdp"}, "state: backend must be 'tightrope', got 'rdp'"),
        ({**state, "schema_version": 2}, "state: schema_version must be 1"),
        ({**state, "orders": []}, "state: orders"),
        ({key: value for key, value in state.items() if key != "parts"}, "state: parts"),
        ({**state, "parts": [{"mechanism": "gaussian"}]}, "state: parts"),
        ([], "state must be a table"),
    ]
    for bad, why in cases:
        with pytest.raises(ValueError, match=why):
            accountant.load_state_dict(bad)
    assert accountant.state_dict() == state


def test_refusals_leave_everything_as_it_was() -> None:
    accountant = FlowerAccountant(configured(FIXED, ADD_OR_REMOVE_ONE))
    elsewhere = GaussianPrivacyEvent(noise_multiplier=1.0, sample_size=10, population_size=30)
    everyone = GaussianPrivacyEvent(noise_multiplier=1.0, sample_size=20, population_size=20)
    cases: list[tuple[Any, Any, Any, str]] = [
        (elsewhere, 1, ValueError, "population_size must be 20"),
        (EVENT, 0, ValueError, "count must be at least 1"),
        (EVENT, 1.5, ValueError, "count must be a whole number"),
        ("event", 1, ValueError, "must be a GaussianPrivacyEvent"),
        (everyone, 1, tr.NoTheorem, "Gaussian with WithoutReplacement sampling under REMOVE"),
    ]
    for event, count, kind, why in cases:
        with pytest.raises(kind, match=why):
            accountant.compose(event, count)
    assert accountant.num_releases == 0
    with pytest.raises(tr.InvalidSetting, match="must be a PrivacyConfig"):
        FlowerAccountant("config")


def test_flower_itself_knows_three_models_and_ours_all_six() -> None:
    with pytest.raises(ValueError, match="Unsupported privacy accounting model"):
        PrivacyConfig(1e-5, 20, REPLACE_ONE, POISSON)
    assert isinstance(configured(POISSON, REPLACE_ONE), PrivacyConfig)
    for bad in ({"target_delta": 0.0}, {"population_size": 0}, {"max_epsilon": -1.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            configured(POISSON, REPLACE_ONE, **bad)
    with pytest.raises(ValueError, match="sampling_method must be a SamplingMethod"):
        configured("poisson", REPLACE_ONE)


# inside a strategy


@pytest.fixture
def inside_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower writes into every message which run it belongs to."""
    monkeypatch.setattr(TaskIdentity, "_run_id", 1)
    monkeypatch.setattr(TaskIdentity, "_node_id", 1)
    monkeypatch.setattr(TaskIdentity, "_task_id", 1)


class Nodes(Grid):  # type: ignore[misc]
    """Twenty clients that are always there."""

    run = None

    def get_node_ids(self) -> list[int]:
        return list(range(1, 21))

    def set_run(self, *_: Any) -> None: ...
    def create_message(self, *_: Any) -> None: ...
    def push_messages(self, *_: Any) -> None: ...
    def pull_messages(self, *_: Any) -> None: ...
    def send_and_receive(self, *_: Any, **__: Any) -> None: ...


def strategy(accountant: FlowerAccountant, clients: int = 10) -> DifferentialPrivacyServerSideFixedClipping:
    plain = FedAvg(fraction_train=clients / 20, min_train_nodes=clients, min_available_nodes=20)
    return DifferentialPrivacyServerSideFixedClipping(
        plain, noise_multiplier=1.0, clipping_norm=0.5, num_sampled_clients=clients, accountant=accountant
    )


def train_round(private: DifferentialPrivacyServerSideFixedClipping, server_round: int) -> Any:
    arrays = ArrayRecord({"weights": Array(np.zeros(4))})
    messages = private.configure_train(server_round, arrays, ConfigRecord(), Nodes())
    replies = [
        Message(
            RecordDict(
                {
                    "arrays": ArrayRecord({"weights": Array(np.full(4, 3.0))}),
                    "metrics": MetricRecord({"num-examples": 1}),
                }
            ),
            reply_to=message,
        )
        for message in messages
    ]
    return private.aggregate_train(server_round, replies)[0]


@pytest.mark.usefixtures("inside_a_run")
def test_a_strategy_accounts_its_rounds_and_stops_before_the_budget_is_exceeded() -> None:
    accountant = FlowerAccountant(configured(ALL, ADD_OR_REMOVE_ONE, max_epsilon=35.0))
    private = strategy(accountant)
    most = tr.most_steps(gaussian(1, tr.EveryRecord()), epsilon=35, delta=1e-5, relation=tr.SUBSTITUTE).value
    assert most > 1
    for server_round in range(1, most + 1):
        assert train_round(private, server_round) is not None
    with pytest.raises(PrivacyBudgetExhausted, match="would exceed max_epsilon"):
        train_round(private, most + 1)
    assert accountant.num_releases == most
    assert private.privacy_spent() == accountant.get_privacy_spent()


@pytest.mark.usefixtures("inside_a_run")
def test_strategies_take_no_accountant_that_counts_on_amplification() -> None:
    for sampling, relation in ((POISSON, ADD_OR_REMOVE_ONE), (FIXED, REPLACE_ONE)):
        with pytest.raises(ValueError, match="no-amplification"):
            strategy(FlowerAccountant(configured(sampling, relation)))
    # replacement is no model of Flower's, but its strategies do not mind
    assert train_round(strategy(FlowerAccountant(configured(ALL, REPLACE_ONE))), 1) is not None


@pytest.mark.usefixtures("inside_a_run")
def test_a_strategy_adds_the_noise_multiplier_times_the_clipping_norm_to_the_sum() -> None:
    private = strategy(FlowerAccountant(configured(ALL, REPLACE_ONE)))
    np.random.seed(0)  # the generator that Flower draws its noise from
    released = np.concatenate([train_round(private, n).to_numpy_ndarrays()[0] for n in range(1, 201)]) * 10
    assert np.std(released) == pytest.approx(
        1.0 * 0.5, rel=0.12
    )  # 800 draws: the deviation is within 10 % at four sigma


def test_the_examples_of_the_page_run_as_they_stand() -> None:
    page = (Path(__file__).parent.parent / "docs" / "interop.md").read_text()
    blocks = [
        block
        for block in re.findall(r"^~~~python\n(.*?)^~~~", page, re.MULTILINE | re.DOTALL)
        if "flwr" in block
    ]
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/interop.md", "exec"), {})
