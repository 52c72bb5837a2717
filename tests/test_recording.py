"""Batches written as they are drawn: a crash loses at most one, and what is damaged is refused by line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from tightrope.audit.finding import Scheme
from tightrope.audit.recordings.naming import find_interval
from tightrope.audit.recordings.recording import read_recording, record
from tightrope.audit.recordings.watch import watch
from tightrope.errors import InvalidSetting

HEADER = '{"format":"tightrope-batches","version":1,"records":10}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "batches.jsonl"


def test_batches_pass_through_unchanged_and_come_back(path: Path) -> None:
    batches = [[1, 2], np.array([3, 4, 9]), (), range(2)]
    for passed, batch in zip(record(batches, path, records=10), batches, strict=True):
        assert passed is batch
    records, found = read_recording(path)
    assert (records, [batch.tolist() for batch in found]) == (10, [[1, 2], [3, 4, 9], [], [0, 1]])
    assert path.read_text() == HEADER + "[1,2]\n[3,4,9]\n[]\n[0,1]\n"


def test_a_line_is_written_before_its_batch_is_used(path: Path) -> None:
    for number, _ in enumerate(record([[1], [2], [3]], path, records=10)):
        assert len(read_recording(str(path))[1]) == number + 1


def test_batches_are_drawn_one_by_one(path: Path) -> None:
    drawn = []

    def sampler() -> Iterator[list[int]]:
        for index in range(5):
            drawn.append(index)
            yield [index]

    recorded = record(sampler(), path, records=10)
    next(recorded)
    next(recorded)
    assert drawn == [0, 1]
    recorded.close()  # type: ignore[attr-defined]
    assert len(read_recording(path)[1]) == 2


def test_a_crash_loses_nothing_that_was_used(path: Path) -> None:
    script = (
        "import os, sys\nfrom tightrope.audit.recordings.recording import record\n"
        "for number, _ in enumerate(record(([k] for k in range(10)), sys.argv[1], records=10)):\n"
        "    if number == 6: os._exit(1)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == 1
    assert [batch.tolist() for batch in read_recording(path)[1]] == [[k] for k in range(7)]


def test_a_half_written_last_line_is_named(path: Path) -> None:
    path.write_text(HEADER + "[1,2]\n[3,")
    with pytest.raises(InvalidSetting, match=r"batches.jsonl, line 3, has no end: .* Delete this line"):
        read_recording(path)
    path.write_text(HEADER + "[1,2]\n")
    assert len(read_recording(path)[1]) == 1


def test_a_file_that_exists_is_left_alone(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(InvalidSetting, match=r"batches.jsonl exists. Recordings are never overwritten"):
        record([[1]], path, records=10)
    assert path.read_text() == "mine"


def test_a_bad_batch_is_refused_and_not_written(path: Path) -> None:
    recorded = record([[1], [10]], path, records=10)
    next(recorded)
    with pytest.raises(InvalidSetting, match=r"batches\[1\] must hold indices below records=10, got 10"):
        next(recorded)
    assert len(read_recording(path)[1]) == 1


def test_what_cannot_be_recorded_is_refused_at_once(path: Path, tmp_path: Path) -> None:
    for records, message in ((0, "at least 1"), (2.5, "a whole number"), (10**13, "at most 1e[+]12")):
        with pytest.raises(InvalidSetting, match=f"records must be {message}"):
            record([[1]], path, records=records)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="batches must be an iterable of batches, got 5"):
        record(5, path, records=10)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="path must be a string or a Path, got 5"):
        record([[1]], 5, records=10)  # type: ignore[arg-type]
    for place in (tmp_path / "nowhere" / "x", tmp_path / "a\0b"):
        with pytest.raises(InvalidSetting, match=r"could not be written: .* Choose another place"):
            record([[1]], place, records=10)
    assert not path.exists()


REFUSED = {
    "empty": ("", "holds no whole line"),
    "half a header": (HEADER[:-5], "holds no whole line"),
    "not ours": ('{"a": 1}\n', "is no recording: line 1 must be"),
    "no JSON": ("hello\n", "is no recording"),
    "other version": (HEADER.replace("1,", "2,"), "line 1: version must be 1, got 2"),
    "version as bool": (HEADER.replace("1,", "true,"), "line 1: version must be 1, got True"),
    "unknown key": (
        HEADER.replace("}", ',"seed":5}'),
        "line 1: unknown 'seed'. Known are format, version, records",
    ),
    "no records": (HEADER.replace(',"records":10', ""), "line 1: records must be a whole number, got None"),
    "records as text": (HEADER.replace("10", '"10"'), "line 1: records must be a whole number, got '10'"),
    "too many records": (HEADER.replace("10", "1" + "0" * 13), "line 1: records must be at most"),
    "line that is no list": (
        HEADER + '[1]\n{"a":1}\n',
        r"is damaged[\s\S]*line 3: batches\[1\] must be a list of indices",
    ),
    "line that is no JSON": (HEADER + "[1]\n[2\n[3]\n", r"line 3: batches\[1\] is no JSON"),
    "empty line": (HEADER + "[1]\n\n[3]\n", r"line 3: batches\[1\] is no JSON"),
    "out of range": (
        HEADER + "[1]\n[2]\n[10]\n",
        r"line 4: batches\[2\] must hold indices below records=10, got 10",
    ),
    "floats": (HEADER + "[1.5]\n", r"line 2: batches\[0\] must hold indices only, got 1.5"),
    "bool": (HEADER + "[1, true]\n", r"line 2: batches\[0\] must hold indices only, got True"),
    "nested": (HEADER + "[[1, 2]]\n", r"line 2: batches\[0\] must be one flat sequence"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_damaged_file_is_refused(path: Path, case: str) -> None:
    text, message = REFUSED[case]
    path.write_text(text)
    with pytest.raises(InvalidSetting, match=message):
        read_recording(path)


@pytest.mark.parametrize("end", ["", "\n"])
def test_lists_without_a_header_are_read_where_the_size_of_the_dataset_is_said(path: Path, end: str) -> None:
    path.write_text(f"[1,2]\n[]\n[9]{end}")
    records, found = read_recording(path, records=10)
    assert (records, [batch.tolist() for batch in found]) == (10, [[1, 2], [], [9]])
    assert watch(path, records=10).batch_count == 3
    with pytest.raises(InvalidSetting, match=r"is no recording: .* are read with records=60000"):
        watch(path)
    with pytest.raises(InvalidSetting, match=r"line 3: batches\[2\] must hold indices below records=9"):
        watch(path, records=9)


def test_a_header_is_believed_and_not_what_contradicts_it(path: Path) -> None:
    path.write_text(HEADER + "[1]\n[2]\n[3]")
    assert len(read_recording(path, records=10)[1]) == 3
    with pytest.raises(InvalidSetting, match="records must be 10, as the recording states, or be left out"):
        watch(path, records=11)


def test_a_list_that_was_cut_off_is_refused_with_or_without_a_header(path: Path) -> None:
    path.write_text("[1]\n[2,")
    with pytest.raises(InvalidSetting, match=r"batches.jsonl, line 2, has no end"):
        read_recording(path, records=10)


def test_all_wrong_lines_are_named_up_to_ten(path: Path) -> None:
    path.write_text(HEADER + "".join(json.dumps([k]) + "\n" for k in range(30)))
    with pytest.raises(InvalidSetting, match=r"line 12: [\s\S]*line 21: [\s\S]*and 10 more lines"):
        read_recording(path)


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"batches.jsonl could not be read: No such file"):
        read_recording(path)


@pytest.mark.parametrize(("successes", "trials"), [(3, 50), (12_800, 2_000_000), (0, 100), (100, 100)])
def test_the_interval_of_a_rate_covers_it_as_often_as_is_said(successes: int, trials: int) -> None:
    low, high = find_interval(successes, trials)
    # exact limits: at each of them the count seen, or one further off, has probability (1 - 0.999) / 2
    assert (
        low == 0
        if successes == 0
        else binom.sf(successes - 1, trials, low) == pytest.approx(0.0005, rel=1e-6)
    )
    assert (
        high == 1
        if successes == trials
        else binom.cdf(successes, trials, high) == pytest.approx(0.0005, rel=1e-6)
    )


@pytest.mark.parametrize("times", [15, 20])
def test_one_record_that_comes_far_too_often_is_noticed(times: int) -> None:
    rng = np.random.default_rng(times)
    rates = np.full(10_000, 0.0064)
    rates[77] *= times
    finding = watch([np.flatnonzero(rng.random(10_000) < rates) for _ in range(200)], records=10_000)
    assert finding.scheme is not Scheme.POISSON
    assert any("a record came" in test.saw for test in finding.tests)


def test_what_one_record_may_do_unnoticed_is_said() -> None:
    rng = np.random.default_rng(3)
    finding = watch([np.flatnonzero(rng.random(10_000) < 0.0064) for _ in range(200)], records=10_000)
    assert finding.scheme is Scheme.POISSON
    assert "one record that comes up to 12 times as often as the others, may go unnoticed" in " ".join(
        finding.notes
    )


def test_empty_batches_alone_say_nothing() -> None:
    finding = watch([[]] * 50, records=10)
    assert finding.sentence == "All batches are empty, so they do not tell how batches are drawn."
