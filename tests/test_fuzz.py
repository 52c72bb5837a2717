"""A sample of the fuzz (`make fuzz`): thousands of questions from every corner, none answered wrongly."""

import json
from collections import Counter
from pathlib import Path

import pytest

import tightrope as tr
from fuzz import __main__ as command
from fuzz.ask import KINDS, ask, draw_question, judge
from fuzz.verdict import AGREES, CRASHED, DISAGREES, REFUSED, UNDECIDED, Kind, Verdict

SEED = 16
SECONDS = 1.0  # of CPU for one question: the sample leaves out what takes long
# how many questions of each kind: about 20 s of CPU in all
SAMPLE = {
    "delta": 400,
    "epsilon": 200,
    "infinite mass": 400,
    "renyi": 15,
    "monte carlo": 12,
    "noise for one release": 12,
    "attack": 6,
    "delta, two steps": 4,
    "epsilon, two steps": 4,
    "accuracies": 5,
    "inverse": 5,
    "add or remove": 5,
    "more": 8,
    "ledger": 3,
    "renyi bound": 6,
}


# The clock may ring in a callback of hypothesis, which no exception leaves: it is remembered there.
RINGS = "ignore:Exception ignored in.*gc_callback:pytest.PytestUnraisableExceptionWarning"


@pytest.mark.filterwarnings(RINGS)
@pytest.mark.parametrize("kind", SAMPLE)
def test_no_answer_is_contradicted(kind: str) -> None:
    fared: Counter[str] = Counter()
    for index in range(SAMPLE[kind]):
        result = ask(SEED, index, (kind,), SECONDS)
        assert result.verdict.status not in (DISAGREES, CRASHED), json.dumps(result.plain())
        fared[result.verdict.status] += 1
    assert fared[AGREES] > SAMPLE[kind] / 3, fared  # a fuzz that is always refused tests nothing
    assert fared[UNDECIDED] <= SAMPLE[kind] / 10, fared


def test_a_question_is_the_same_for_the_same_seed_and_index() -> None:
    kinds = tuple(KINDS)
    for index in range(50):
        drawn = draw_question(3, index, kinds)
        assert draw_question(3, index, kinds) == drawn
        assert json.loads(json.dumps(drawn[1])) == drawn[1]
    assert draw_question(4, 0, kinds) != draw_question(3, 0, kinds)


def wrong_by(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every delta that the library answers wrong by a factor."""
    honest = tr.PrivacyCurve._deltas

    def wrong(self: tr.PrivacyCurve, epsilons: list[float]) -> list[tr.Bracket]:
        return [tr.Bracket(found.lower * factor, found.upper * factor) for found in honest(self, epsilons)]

    monkeypatch.setattr(tr.PrivacyCurve, "_deltas", wrong)


QUESTION = {
    "run": [
        {"mechanism": "gaussian", "noise_multiplier": 2.0, "sampling": "poisson", "rate": 0.1, "steps": 1}
    ],
    "relation": "REMOVE",
    "epsilon": 0.25,
    "accuracy": 1e-3,
    "log": False,
}


@pytest.mark.parametrize("factor", [1 - 1e-9, 1 + 1e-9])
def test_an_answer_that_is_wrong_in_the_ninth_digit_is_noticed(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge("delta", QUESTION).status == AGREES
    wrong_by(factor, monkeypatch)
    assert judge("delta", QUESTION).status == DISAGREES


def test_refusals_crashes_and_questions_that_take_too_long_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    laplace = [
        {"mechanism": "laplace", "noise_multiplier": 2.0, "sampling": "poisson", "rate": 0.1, "steps": 1}
    ]
    refused = {**QUESTION, "run": laplace, "relation": "SUBSTITUTE"}
    assert judge("delta", refused).status == REFUSED

    def crash(question: object) -> Verdict:
        raise ZeroDivisionError

    def hang(question: object) -> Verdict:
        while True:
            pass

    monkeypatch.setitem(KINDS, "delta", Kind(KINDS["delta"].draw, crash, 1))
    assert judge("delta", QUESTION).status == CRASHED

    def hide(question: object) -> Verdict:
        try:
            return hang(question)
        except BaseException as stop:
            raise SystemError("a callback raised") from stop

    for slow in (hang, hide):
        monkeypatch.setitem(KINDS, "delta", Kind(KINDS["delta"].draw, slow, 1))
        assert judge("delta", QUESTION, 0.05).status == "too slow"


def test_the_command_counts_and_a_line_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.jsonl"
    words = ["--n", "6", "--seed", "1", "--workers", "2", "--kind", "infinite mass", "--out", str(report)]
    assert command.main(words) == 0
    assert "6 questions" in capsys.readouterr().out
    assert report.read_text() == ""

    told = {"seed": 0, "index": 0, "kind": "delta", "status": DISAGREES, "question": QUESTION}
    report.write_text(json.dumps(told) + "\n")
    assert command.main(["--replay", str(report)]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["before"], again["status"]) == (DISAGREES, AGREES)
    wrong_by(1.1, monkeypatch)
    assert command.main(["--replay", json.dumps(told)]) == 1
