"""tightrope explore without a browser: states, answers, copies, and what is exported."""

import gzip
import json
import random
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from shell import Shell, absent
from tightrope.cli.printed.sentences import short_ends
from tightrope.errors import InvalidSetting, NoTheorem
from tightrope.explore.answers import (
    answer_question,
    answer_row,
    ask_others,
    draw_attack,
    draw_curve,
    draw_epochs,
    judge,
    work_harder,
)
from tightrope.explore.copies import write_command, write_python, write_statement
from tightrope.explore.export import bake
from tightrope.explore.places import FILES
from tightrope.explore.questions import EXAMPLE, PAGE, PageQuestion, read_link, read_state
from tightrope.explore.rows import list_rows
from tightrope.explore.serve import bind

QUICK = ("poisson", "without-replacement", "every-record")
SMALL = (
    "records=1000&batch=50&epochs=2&mechanism=gaussian&noise=2&sampling={}&relation={}&delta=1e-06&epsilon=2"
)


def random_state(seed: int) -> str:
    """A question that people might ask, whose answer takes milliseconds."""
    draw = random.Random(seed)
    records = draw.choice([500, 10**3, 60_000, 10**6])
    relation = draw.choice(["add", "remove", "add-or-remove", "add-or-remove", "substitute"])
    sampling = draw.choice(QUICK[::2] if relation == "substitute" else QUICK)
    values = {
        "records": records,
        "batch": draw.randint(1, records // 10),
        "epochs": draw.choice([1, 3, 30, 0.5, "7/3"]),
        "mechanism": "gaussian",
        "noise": round(draw.uniform(0.6, 6), draw.randint(0, 4)) or 1,
        "sampling": sampling,
        "relation": relation,
        "delta": draw.choice(["1e-05", "1e-06", "3e-09", "0.001"]),
    }
    return "&".join(f"{key}={value}" for key, value in values.items())


def ask_library(state: str) -> tr.Bracket:
    """The library's own answer to a state, read by itself."""
    given = dict(pair.split("=") for pair in state.split("&"))
    batch = None if given["sampling"] == "every-record" else int(given["batch"])
    plan = tr.Training(
        records=int(given["records"]),
        batch=batch,
        epochs=Fraction(given["epochs"]),
        sampling=given["sampling"],
    )
    run = plan.run(noise_multiplier=float(given["noise"]))
    return tr.epsilon(run, delta=float(given["delta"]), relation=given["relation"])


def test_numbers_are_the_library_s_over_200_random_states() -> None:
    for seed in range(200):
        state = random_state(seed)
        found, asked = answer_question(read_state(state)), ask_library(state)
        assert (found["epsilon"]["lower"], found["epsilon"]["upper"]) == (asked.lower, asked.upper), state
        assert found["number"] == short_ends(asked)[1]
        assert read_state(found["state"]) == read_state(state)
        assert read_state(found["settled"]).state == found["settled"]


@pytest.mark.parametrize("solve", ["noise", "epochs", "batch"])
@pytest.mark.parametrize("sampling", ["poisson", "without-replacement"])
def test_what_is_solved_for_meets_the_budget_and_is_what_the_library_finds(solve: str, sampling: str) -> None:
    stated = SMALL.format(sampling, "add-or-remove")
    state = re.sub(rf"&?{solve}=[^&]*", "", stated) + f"&solve={solve}"
    asked = read_state(state)
    assert asked.state == state
    found = answer_question(asked)
    assert found["epsilon"]["upper"] <= 2
    again = ask_library(found["settled"].replace("&epsilon=2", ""))
    assert (again.lower, again.upper) == (found["epsilon"]["lower"], found["epsilon"]["upper"])
    target: dict[str, Any] = {"epsilon": 2, "delta": 1e-6, "relation": "add-or-remove"}
    plan = tr.Training(records=1000, batch=50, epochs=2, sampling=sampling)
    library: dict[str, Any] = {
        "noise": lambda: tr.smallest_noise(plan, **target).value,
        "epochs": lambda: tr.most_steps(plan.step(noise_multiplier=2), **target).value,
        "batch": lambda: (
            tr.largest_batch(
                tr.Gaussian(noise_multiplier=2), population=1000, epochs=2, sampling=sampling, **target
            ).value
        ),
    }
    assert found["solved"]["value"] == library[solve]()


def test_a_bar_is_the_answer_of_its_own_state() -> None:
    asked = read_state(SMALL.format("poisson", "add-or-remove") + "&rows=all")
    rows = list_rows(asked)
    assert len(rows) == 20
    claim = ask_library(SMALL.format("poisson", "add-or-remove").replace("&epsilon=2", ""))
    for row in rows:
        if row.patience:
            continue
        found = answer_row(asked, row.names, (claim.lower, claim.upper))
        answered = answer_question(read_state(found["state"]))
        assert found["epsilon"] == answered["epsilon"]
        assert found["claimed"] == (row.names == ("poisson", "add-or-remove"))
        assert (found["ratio"] == "claimed") == found["claimed"]


def test_a_refusal_is_words_where_the_bar_would_be() -> None:
    asked = read_state(SMALL.format("poisson", "substitute").replace("gaussian", "laplace"))
    found = answer_row(asked, ("poisson", "substitute"), None)
    assert "no theorem" in found["refusal"]
    assert "epsilon" not in found
    with pytest.raises(NoTheorem):
        answer_question(asked)


def test_the_verdict_is_that_of_contrast() -> None:
    asked = read_state(SMALL.format("poisson", "add-or-remove"))
    table = tr.contrast(asked.run(), delta=1e-6)
    rows = [(row.sampling.spelling, str(row.relation), row.epsilons[0]) for row in table.rows]
    known = [(name, relation, found.lower, found.upper) for name, relation, found in rows]
    assert judge(asked, known)["said"] == table.verdict


FULL = ("every-record", "substitute", 91.2, 91.2)


@pytest.mark.parametrize(
    ("known", "is_complete", "said"),
    [
        ((), True, "{} 9.00."),
        ((), False, "So far: {} 9.00."),
        ((FULL,), True, "{} 9.00. Full batches make it 91.20."),
        ((FULL,), False, "So far: {} 9.00. Full batches make it 91.20."),
        (
            (("poisson", "substitute", 9.5, 9.5),),
            False,
            "If batches are Poisson sampled, epsilon is 9.50, not 9.00.",
        ),
    ],
)
def test_the_verdict_is_true_of_every_bar(known: tuple[Any, ...], is_complete: bool, said: str) -> None:
    asked = read_state(SMALL.format("without-replacement", "substitute"))
    claimed = ("without-replacement", "substitute", 9.0, 9.0)
    none = "at this rate no other sampling or relation is certified to make epsilon larger than the claimed"
    found = judge(asked, [claimed, *known], is_complete=is_complete)["said"]
    assert found.lower() == said.format(none).lower()


def test_full_batches_that_are_claimed_are_judged_like_any_other() -> None:
    asked = read_state(SMALL.format("every-record", "add"))
    found = judge(asked, [("every-record", "add", 2.0, 2.0), FULL], is_complete=False)
    assert found["said"] == "If one record is exchanged for another, epsilon is 91.20, not 2.00."


def test_what_is_known_of_a_bar_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.explore.answers.ask_epsilon", None)
    asked = read_state(SMALL.format("shuffled", "substitute"))
    found = answer_row(asked, ("shuffled", "substitute"), (1.0, 2.0), (1.0, 2.0))
    assert (found["epsilon"]["lower"], found["epsilon"]["upper"], found["ratio"]) == (1.0, 2.0, "claimed")
    beside = answer_row(asked, ("poisson", "substitute"), (1.0, 2.0), (4.0, 4.0))
    assert beside["ratio"] == "1.99x to 4.01x"


def test_whole_epochs_are_written_as_whole_numbers() -> None:
    full = (
        SMALL.format("every-record", "add-or-remove").replace("epochs=2&", "").replace("noise=2", "noise=9")
    )
    found = answer_question(read_state(full + "&solve=epochs"))
    assert found["number"] == str(found["solved"]["value"])
    assert f"({found['number']} epochs)" in found["said"]


def test_charts_show_the_library_s_numbers() -> None:
    asked = read_state(SMALL.format("poisson", "add-or-remove"))
    curve = tr.privacy_curve(asked.run(), relation=tr.ADD_OR_REMOVE)
    most = curve.epsilon(1e-6).upper
    points = draw_curve(asked)["points"]
    found = curve.delta([2 * most * i / 60 for i in range(61)])
    assert [[one.lower, one.upper] for one in found] == [ends for _, *ends in points]
    attack = draw_attack(asked)
    fresh = tr.privacy_curve(asked.run(), relation=tr.ADD_OR_REMOVE)  # what a curve was asked before shows
    assert attack["success"]["upper"] == fresh.trade_off().attack_success().upper
    after = [line["point"] for line in draw_epochs(asked)]
    assert after[11][0] == 2
    assert after[11][2] == curve.epsilon(1e-6).upper
    others = ask_others(asked, patiently=False)["rows"]
    assert others[0]["upper"] == curve.epsilon(1e-6).upper


def test_a_game_tells_how_far_it_is_narrows_the_bracket_and_is_copied_as_it_was_asked(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = read_state(
        "records=20&batch=1&epochs=1&mechanism=gaussian&noise=4&sampling=without-replacement"
        "&relation=substitute&delta=1e-05"
    )
    quick = answer_question(asked)
    assert quick["why"]["tight"]["seconds"] > 0
    told: list[tuple[int, int]] = []
    found = work_harder(asked, lambda done, of: told.append((done, of)))
    assert told[-1] == (20, 20)
    tight = tr.epsilon(asked.run(), delta=1e-5, relation="substitute", by=tr.Certified(effort=tr.TIGHT))
    assert (found["epsilon"]["lower"], found["epsilon"]["upper"]) == (tight.lower, tight.upper)
    assert tight.width < (quick["epsilon"]["upper"] - quick["epsilon"]["lower"]) / 10
    exec(compile(found["copies"]["python"], "copied", "exec"), {})
    assert capsys.readouterr().out.strip() == str(tight)
    code, out, _ = shell(found["copies"]["command"].removeprefix("tightrope "))
    assert code == 0
    assert out.lower().startswith(found["said"].lower())
    assert "# Statements are made without working harder" in found["copies"]["statement"]


# the address


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("records=60000>records=", "records must be a whole number"),
        ("batch=256>batch=70000", "batch must be at most records 60000, got 70000"),
        ("epochs=30>epochs=0", "epochs must be above 0"),
        ("epochs=30>epochs=1/0", "epochs must be a number"),
        ("noise=1.1>noise=nan", "noise must be a number"),
        ("noise=1.1>noise=-1", "noise must be above 0, got -1"),
        ("records=60000>records=-5", "records must be at least 1, got -5"),
        ("delta=1e-05>delta=-1", "delta must be in (0, 1), got -1"),
        ("epochs=30>epochs=0/3", "epochs must be above 0, got 0."),
        ("noise=1.1>noise=1e%202", "noise must be a number, got '1e 2'"),
        ("noise=1.1>noise=1e400", "noise"),
        ("&sampling=poisson>", "sampling must be stated"),
        ("sampling=poisson>sampling=shuffle", "sampling must be one of poisson"),
        ("relation=add-or-remove>relation=add-or-remove+of+5", "relation must be one of"),
        ("delta=1e-05>delta=1", "delta must be in (0, 1)"),
        ("epsilon=3>epsilon=0", "epsilon must be above 0"),
        ("epsilon=3>epsilon=3&solve=noise", "noise must be left out where it is solved for"),
        ("noise=1.1>solve=noise&rows=some", "rows must be one of usual, all"),
        ("&epsilon=3>&solve=records", "solve must be one of noise, epochs, batch"),
        ("epsilon=3>epsilon=3&epsilon=4", "epsilon must be stated once"),
        ("epsilon=3>epsilon=3&colour=red", "the link must have no keys but"),
        ("records=60000>records=1000000000000000000000", "records must be a whole number"),
        ("epochs=30>epochs=1e300", "epochs must take at most"),
    ],
)
def test_a_wrong_state_is_refused_by_name(change: str, said: str) -> None:
    before, after = change.split(">")
    assert before in EXAMPLE
    with pytest.raises(InvalidSetting) as refusal:
        read_state(EXAMPLE.replace(before, after))
    assert said in refusal.value.in_words(PAGE)


def test_a_plus_in_a_link_is_a_plus() -> None:
    assert read_state(EXAMPLE.replace("noise=1.1", "noise=1e+2")).noise == 100


@pytest.mark.parametrize("sampling", ["every-record", "shuffled"])
def test_a_sampling_without_a_largest_batch_is_refused_in_its_own_name(sampling: str) -> None:
    state = SMALL.format(sampling, "add-or-remove").replace("batch=50&", "") + "&solve=batch"
    with pytest.raises(InvalidSetting) as refusal:
        answer_question(read_state(state))
    assert f"balls-in-bins, got {sampling}." in refusal.value.in_words(PAGE)


def test_a_link_is_its_state() -> None:
    assert read_link(f"http://127.0.0.1:1234/token/?{EXAMPLE}") == read_state(EXAMPLE) == read_link(EXAMPLE)


# what people take home


COPIED = [
    SMALL.format("poisson", "add-or-remove"),
    SMALL.format("without-replacement", "substitute"),
    SMALL.format("every-record", "remove"),
    SMALL.format("poisson", "add").replace("gaussian", "laplace").replace("epochs=2", "epochs=5/2"),
    SMALL.format("poisson", "add-or-remove").replace("noise=2&", "") + "&solve=noise",
    SMALL.format("poisson", "add-or-remove").replace("epochs=2&", "") + "&solve=epochs",
    SMALL.format("poisson", "add-or-remove").replace("batch=50&", "") + "&solve=batch",
    SMALL.format("every-record", "add-or-remove").replace("epochs=2&", "").replace("noise=2", "noise=9")
    + "&solve=epochs",
]


@pytest.mark.parametrize("state", COPIED)
def test_the_copied_command_says_what_the_page_says(shell: Shell, state: str) -> None:
    asked = read_state(state)
    code, out, _ = shell(write_command(asked).removeprefix("tightrope "))
    assert code == 0
    aside = r" \([\d.,]+ epochs.*?\)| on average out of .*?\)"  # which the two word differently
    first, said = (re.sub(aside, "", text) for text in (out.splitlines()[0], answer_question(asked)["said"]))
    assert first.lower().startswith(said.lower())


@pytest.mark.parametrize("state", COPIED)
def test_the_copied_python_runs_and_prints_the_same_number(
    capsys: pytest.CaptureFixture[str], state: str
) -> None:
    asked = read_state(state)
    exec(compile(write_python(asked), "copied", "exec"), {})
    printed = capsys.readouterr().out
    found = answer_question(asked)
    if asked.solve:
        assert f" {found['solved']['value']!r} " in printed
    else:
        assert printed.strip() == str(ask_library_as_asked(asked))


def ask_library_as_asked(asked: PageQuestion) -> tr.Bracket:
    return tr.epsilon(asked.run(), delta=asked.delta, relation=asked.relation)


def test_the_copied_statement_claims_what_the_page_says(tmp_path: Path, shell: Shell) -> None:
    for place, state in enumerate(COPIED[:4]):
        asked = read_state(state)
        file = tmp_path / f"{place}.toml"
        file.write_text(write_statement(asked).replace('"..."', '"filled in"'))
        code, out, err = shell(f"statement {file} --format json")
        assert code == 0, err
        claimed, upper = json.loads(out)["claim"]["epsilon"], ask_library_as_asked(asked).upper
        assert upper <= claimed <= upper + 1e-4


def test_no_statement_is_offered_where_none_can_be_made(tmp_path: Path, shell: Shell) -> None:
    asked = read_state(SMALL.format("shuffled", "add-or-remove").replace("gaussian", "laplace"))
    copies = answer_question(asked)["copies"]
    assert copies["statement"] == ""
    assert copies["no_statement"].startswith("No statement can be made of this. ")
    assert "no theorem gives the worst case" in copies["no_statement"]
    (tmp_path / "x.toml").write_text(write_statement(asked).replace('"..."', '"filled in"'))
    assert shell(f"statement {tmp_path}/x.toml")[0] == 2  # as it says
    assert answer_question(read_state(COPIED[0]))["copies"]["no_statement"] == ""


# files and the command


def served_files() -> list[str]:
    page = (FILES / "index.html").read_text()
    return ["index.html", *re.findall(r'(?:src|href)="page/([^"]+)"', page)]


def test_the_page_is_small_and_names_its_licences() -> None:
    sizes = {name: len(gzip.compress((FILES / name).read_bytes(), 9)) for name in served_files()}
    assert sum(sizes.values()) < 250_000  # answers take some 30,000 more, of the 300,000 that are allowed
    for library in ("d3", "plot"):
        assert "Copyright" in (FILES / "vendor" / f"{library}.LICENSE").read_text()


def test_an_exported_page_holds_everything_and_asks_nobody() -> None:
    asked = read_state(SMALL.format("poisson", "add-or-remove"))
    page = bake(asked, [answer_question(asked), {"part": "end"}])
    for fetched in ('src="', '<link rel="stylesheet"', "@import"):
        assert fetched not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert "default-src 'none'" in page
    found = re.search(r'<script type="application/json" id="baked">(.*?)</script>', page)
    assert found is not None
    baked = json.loads(found[1])
    assert baked["state"] == asked.state
    assert set(baked["proofs"]) >= {"poisson_add_remove.md"}
    assert page.count("</script>") == 1 + len([name for name in served_files() if name.endswith(".js")])


def test_a_port_that_is_taken_is_said_so(shell: Shell) -> None:
    with bind(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = shell(f"explore --no-browser --port {port}")
    assert (code, out) == (2, "")
    assert f"--port must be free (Address already in use), got {port}" in err
    assert "--port must be between 0 and 65535" in shell("explore --port 70000 --no-browser")[2]


def test_a_wrong_question_or_folder_is_refused_before_anything_starts(shell: Shell, tmp_path: Path) -> None:
    assert (
        "--sampling must be stated"
        in shell("explore --at 'records=5&batch=1&epochs=1&mechanism=gaussian&noise=1' --export x.html")[2]
    )
    assert "--at must be keys and values, got 'bogus'" in shell("explore --at bogus")[2]
    code, _, err = shell(f"explore --export {tmp_path}/missing/page.html")
    assert (code, "is in a folder that does not exist" in err) == (2, True)


@pytest.mark.parametrize("library", ["starlette", "uvicorn"])
def test_without_its_libraries_it_says_what_to_install(library: str) -> None:
    script = f"{absent(library)}\nfrom tightrope.cli.entry import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "explore", "--no-browser"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("tightrope: tightrope explore needs starlette and uvicorn. Install it with")
    assert "[explore]" in done.stderr
