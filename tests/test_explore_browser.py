"""The explorer in a real browser: what people see, press, follow and download."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tightrope.cli.printed.sentences import short_ends
from tightrope.explore.answers import answer_question, ask_epsilon, draw_attack, draw_curve
from tightrope.explore.export import bake
from tightrope.explore.questions import read_state

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium in this system")

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 60_000  # milliseconds; an answer takes some, a busy machine many
SMALL = (
    "records=1000&batch=50&epochs=2&mechanism=gaussian&noise=2&sampling=poisson&relation=add-or-remove"
    "&delta=1e-06&epsilon=2"
)
GAME = (
    "records=1000&batch=50&epochs=1000&mechanism=gaussian&noise=4&sampling=without-replacement"
    "&relation=substitute&delta=1e-06"
)


@contextmanager
def run_server() -> Iterator[tuple[str, Callable[[], object]]]:
    """The address of a server, and what ends it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tightrope", "explore", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def end() -> None:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), end
    finally:
        if process.returncode is None:
            end()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with run_server() as (where, _):
        yield where


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open pages; whatever a page complains about fails the test."""
    complaints: list[str] = []
    pages: list[Any] = []

    def open_page(where: str, **options: Any) -> Any:
        page = browser.new_page(viewport={"width": 1200, "height": 900}, **options)
        pages.append(page)
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto(where)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


def state_of(page: Any) -> str:
    return page.evaluate("writeState(state)")  # type: ignore[no-any-return]


def expect_number(page: Any, number: str) -> None:
    page.wait_for_function(
        "number => document.getElementById('number').textContent === number"
        " && document.getElementById('answer').getAttribute('aria-busy') === 'false'",
        arg=number,
    )


def expect_library(page: Any) -> None:
    """The page shows the library's answer to the state in its address."""
    state = state_of(page)
    asked = read_state(state)
    number = answer_question(asked)["number"] if asked.solve else short_ends(ask_epsilon(asked))[1]
    expect_number(page, number)
    page.wait_for_function("state => location.search === '?' + state", arg=state)


def test_it_loads_asks_nobody_else_and_moves_every_control(address: str, visit: Any) -> None:
    page = visit(address)
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    expect_number(page, "1.637")
    assert page.title().startswith("epsilon 1.637")
    page.goto(f"{address}?{SMALL}")
    expect_library(page)
    for key, text in {
        "records": "2,000",
        "batch": "40",
        "epochs": "1.5",
        "noise": "1.7",
        "delta": "1e-5",
        "epsilon": "1",
    }.items():
        page.fill(f"input[data-key={key}]", text)
        assert f"{key}={text.replace(',', '')}" in state_of(page)
        expect_library(page)
    for key, value in {"sampling": "without-replacement", "relation": "add", "mechanism": "laplace"}.items():
        page.select_option(f"select[data-key={key}]", value)
        expect_library(page)
    assert hosts == {address.split("/")[2]}


def test_sliders_move_by_keyboard_alone_and_the_number_follows(address: str, visit: Any) -> None:
    page = visit(f"{address}?{SMALL}")
    expect_library(page)
    for name in ("records", "batch", "epochs", "noise", "delta"):
        page.focus(f"[data-slider={name}]")
        before = state_of(page)
        for _ in range(12):
            page.keyboard.press("ArrowRight")
        assert state_of(page) != before
        expect_library(page)
    page.focus("[name=solve][value='']")
    page.keyboard.press("ArrowRight")  # solve for the noise
    assert "solve=noise" in state_of(page)
    expect_library(page)
    assert page.evaluate("document.querySelector('[data-key=noise]').readOnly")
    # from the top, the Tab key reaches every control that can be used
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(e => e.dataset.key || e.dataset.slider || e.name || e.id)(document.activeElement)"
            )
        )
    wanted = {"records", "batch", "epochs", "mechanism", "sampling", "relation", "delta", "epsilon", "solve"}
    assert wanted <= reached


@pytest.mark.parametrize("name", ["noise", "epochs", "batch"])
def test_solving_keeps_what_was_found_when_it_is_switched_back(address: str, visit: Any, name: str) -> None:
    page = visit(f"{address}?{SMALL}")
    expect_library(page)
    page.check(f"[name=solve][value={name}]", force=True)
    expect_library(page)
    found = page.text_content("#said")
    assert "enough for epsilon 2 at delta 1e-06" in found
    settled = page.evaluate("shown.settled")
    page.check("[name=solve][value='']", force=True)
    expect_library(page)
    assert read_state(state_of(page)) == read_state(settled)
    page.go_back()
    expect_library(page)
    assert f"solve={name}" in state_of(page)


def test_bars_and_charts_show_the_library_s_numbers_and_lead_on(
    address: str, visit: Any, tmp_path: Path
) -> None:
    page = visit(f"{address}?{SMALL}")
    page.wait_for_function("() => known.bars.size >= 4 && known.curve && known.attack && known.accountants")
    for sampling, relation in (("poisson", "substitute"), ("without-replacement", "add-or-remove")):
        other = SMALL.replace("sampling=poisson", f"sampling={sampling}")
        other = other.replace("relation=add-or-remove", f"relation={relation}")
        shown = page.evaluate("key => known.bars.get(key).epsilon", f"{sampling}, {relation}")
        found = ask_epsilon(read_state(other))
        assert (shown["lower"], shown["upper"]) == (found.lower, found.upper)
    asked = read_state(SMALL)
    assert page.evaluate("known.curve.points") == draw_curve(asked)["points"]
    attack = draw_attack(asked)
    assert page.evaluate("known.attack.points") == attack["points"]
    assert attack["said"] in page.text_content("#attack-note")
    for name in ("bars", "curve", "attack", "accountants"):
        figure = page.locator(f"figure[data-chart={name}]")
        assert figure.locator("svg").get_attribute("aria-label")
        assert figure.locator("table tr").count() >= 3
    for kind in ("SVG", "PNG", "CSV"):
        with page.expect_download() as download:
            page.click(f"figure[data-chart=curve] button:text-is('{kind}')")
        download.value.save_as(tmp_path / kind)
    svg = (tmp_path / "SVG").read_text()
    assert svg.startswith("<svg")
    assert "var(--" not in svg
    assert (tmp_path / "PNG").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    rows = (tmp_path / "CSV").read_text().splitlines()
    assert rows[0] == 'epsilon,"delta, lower end","delta, upper end"'
    assert [float(cell) for cell in rows[-1].split(",")] == draw_curve(asked)["points"][-1]
    page.click("figure[data-chart=bars] svg a:has-text('without replacement, add or remove')")
    expect_library(page)
    assert "sampling=without-replacement" in state_of(page)
    with page.expect_popup() as note:
        page.click("#why a >> nth=0")
    assert "## Statement" in note.value.text_content("body")
    note.value.close()


def test_refusals_stand_in_words_where_the_chart_would_be(address: str, browser: Any) -> None:
    page = browser.new_page()  # a refused state is a 400, which browsers log as an error
    page.set_default_timeout(PATIENCE)
    no_theorem = SMALL.replace("gaussian", "laplace").replace("add-or-remove", "substitute")
    page.goto(f"{address}?{no_theorem}")
    page.wait_for_function("() => document.querySelectorAll('figure .refusal').length >= 3")
    assert "no theorem gives the worst case" in page.text_content("#said")
    assert page.text_content("#number") == "No answer"
    page.fill("input[data-key=batch]", "5000")
    page.wait_for_selector("input[data-key=batch][aria-invalid=true]")
    assert "Batch must be at most records 1000, got 5000" in page.text_content("#said")
    assert page.text_content("#copy-python") == ""
    assert not page.is_visible(".copies")  # nothing to copy, and no button that copies it
    assert page.is_visible("#no-copies")
    assert page.evaluate("document.querySelectorAll('.stale:not([hidden] *, .copies *)').length") == 0
    page.close()


def test_a_game_is_offered_and_can_be_cancelled(address: str, visit: Any) -> None:
    page = visit(f"{address}?{GAME}")
    page.wait_for_selector("#harder:visible")
    assert page.text_content("#harder").startswith("Work harder (about ")
    before = page.text_content("#number")
    page.click("#harder")
    page.wait_for_selector("#progress:visible")
    page.evaluate("showAnswer(shown)")  # as when the quick answer comes once more, before the charts
    page.click("#cancel")
    page.wait_for_function("() => document.getElementById('tight-said').textContent.startsWith('Cancelled')")
    assert page.text_content("#number") == before
    page.fill("input[data-key=noise]", "5")  # and somebody answers
    expect_library(page)


def test_more_work_tells_on_which_conditions_its_answer_holds(address: str, visit: Any) -> None:
    page = visit(f"{address}?{GAME}")
    page.wait_for_selector("#harder:visible")
    page.wait_for_function("() => known.answer")
    page.evaluate("asking.abort()")  # its bars would come between
    why = page.evaluate("shown.why")
    why |= {"gap": None, "conditions": ["pigs fly"], "direction": "One way."}
    bar = {"part": "bar", "sampling": "without-replacement", "relation": "substitute", "claimed": True}
    bar["epsilon"] = {"lower": 0.9, "upper": 1, "low": "0.9", "high": "1"}
    copies = {
        "python": "tight",
        "command": "--effort tight",
        "statement": "",
        "no_statement": "There is none.",
    }
    lines = (
        {"part": "tight", "said": "It is one.", "number": "1", "of": "epsilon", "why": why, "copies": copies},
        bar,
        {"part": "verdict", "said": "The claim is 1."},
        {"part": "end"},
    )
    body = "".join(f"{json.dumps(line)}\n" for line in lines)
    page.route("**/ask/tight*", lambda route: route.fulfill(body=body))
    page.click("#harder")
    page.wait_for_function("() => document.getElementById('tight-said').textContent.startsWith('This is as')")
    assert not page.is_visible("#harder")
    assert page.text_content("#number") == "1"
    assert page.text_content("#gap") == "One way. This holds if pigs fly."
    assert page.title() == "epsilon 1 · Tightrope"
    assert page.evaluate("known.bars.get('without-replacement, substitute').epsilon.high") == "1"
    assert page.text_content("#verdict") == "The claim is 1."
    page.evaluate("known.curve = { points: [] }")
    assert page.evaluate("NOTES.curve()").endswith("The dot is the answer before more work.")
    assert page.text_content("#copy-command") == "--effort tight"
    assert page.text_content("#no-statement") == "There is none."
    assert not page.is_visible("[data-copy=statement]")
    assert page.is_visible("[data-copy=python]")


def test_a_server_that_is_lost_at_work_was_not_cancelled(browser: Any) -> None:
    with run_server() as (where, end):
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{where}?{GAME}")
        page.wait_for_selector("#harder:visible")
        before = page.text_content("#number")
        page.click("#harder")
        page.wait_for_selector("#progress:visible")
        end()
        page.wait_for_selector("#lost:visible")
        page.wait_for_selector("#harder:visible")
        assert page.text_content("#tight-said") == ""
        assert page.text_content("#number") == before
        page.close()


def test_words_on_charts_have_room_where_they_stand(address: str, visit: Any) -> None:
    page = visit(f"{address}?{SMALL}")
    overlaps = page.evaluate(
        """() => {
          const label = 'no attack gets here';
          const source = 'renyi (Wang, Balle, Kasiviswanathan 2020, Thm 9 and Cor. 10)';
          const rows = [['certified', ''], [source, '+39.61%'], ['exact', 'holds the bracket']];
          const row = ([name, beside], i) => ({ name, beside, lower: 15 + i, upper: 16 + i });
          const accountants = { rows: rows.map(row) };
          const strong = { points: [[0, 1, 1], [0.1, 0.2, 0.3], [0.3, 0.01, 0.1], [1, 0, 0]] };
          const weak = { points: [[0, 1, 1], [0.5, 0.4, 0.4], [1, 0, 0]] };
          const words = (svg) => [...svg.querySelectorAll('text, tspan')].map((text) => text.textContent);
          const wrong = [];
          for (const width of [280, 320, 500]) {
            const svg = CHARTS.accountants({ accountants }, width);
            document.body.append(svg);
            const edge = svg.getBoundingClientRect().right;
            for (const text of svg.querySelectorAll('text'))
              if (text.getBoundingClientRect().right > edge + 1) wrong.push([width, text.textContent]);
            if (!words(svg).some((text) => text.includes(': +39.61%'))) wrong.push([width, 'unsaid']);
            svg.remove();
            const isSaid = (attack) => words(CHARTS.attack({ attack }, width)).includes(label);
            if (isSaid(strong) || !isSaid(weak)) wrong.push([width, 'attack']);
          }
          return wrong;
        }"""
    )
    assert overlaps == []


NOTES: list[tuple[float, list[list[Any]], str]] = [
    (0.5, [[1, 0.9, 1], [2, 1.9, 2]], "is above {} from 1 epoch on, or earlier"),
    (2.5, [[1, 0.9, 1], [2, 1.9, 2], [3, 2.9, 3]], "stays within {} up to 2 epochs, and is above it at 3"),
    (4, [[1, 0.9, 1], [2, 1.9, 2]], "stays within {} up to 2 epochs"),
    (
        1,
        [[1, 0, 0.9], [3, 0.7, 1.2]],
        "stays within {} up to 1 epoch, and is not proved to be within it at 3",
    ),
    (1, [[1, 0, 1.8], [2, 0, "infinity"]], "is not proved to be within {} at 1 epoch"),
    (1, [[1, 0, 1.8], [3, 1.1, 4]], "is not proved to be within {} at 1 epoch, and is above it at 3"),
    (
        *(1, [[1, 0.5, 0.8], [2, 0.9, 2], [3, 1.1, 4]]),
        "stays within {} up to 1 epoch, is not proved to be within it at 2, and is above it at 3",
    ),
]


def test_the_note_says_of_the_budget_what_is_proved(address: str, visit: Any) -> None:
    page = visit(f"{address}?{SMALL}")
    tell = """([budget, points]) => {
      known = { ...emptyKnowledge(), epochs: { budget, points } };
      return NOTES.epochs();
    }"""
    for budget, points, said in NOTES:
        expected = said.format(f"the budget of epsilon {budget}")
        assert page.evaluate(tell, [budget, points]) == f"It {expected}."


def test_a_link_is_asked_as_it_is_written(address: str, browser: Any) -> None:
    page = browser.new_page()  # a refused state is a 400, which browsers log as an error
    page.set_default_timeout(PATIENCE)
    said = "text => document.getElementById('said').textContent.startsWith(text)"
    page.goto(f"{address}?{SMALL}&group=5&$(x)=1")
    page.wait_for_function(said, arg="The link must have no keys but")
    assert "got 'group'. Leave it out." in page.text_content("#said")
    assert "$" not in state_of(page)  # it is printed for people to paste
    page.goto(f"{address}?{SMALL}&noise=9")
    page.wait_for_function(said, arg="Noise must be stated once, got '9'")
    page.fill("input[data-key=noise]", "1e+1")  # from here on the controls are the question
    expect_library(page)
    assert read_state(state_of(page)).noise == 10
    page.goto(f"{address}?{SMALL.replace('noise=2', 'noise=1e+1')}")
    expect_library(page)
    page.close()


def test_what_a_link_leaves_out_is_shown_as_left_out(address: str, browser: Any) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}?records=1000&sampling=shuffle")
    page.wait_for_function("() => document.getElementById('number').textContent === 'No answer'")
    chosen = "key => document.querySelector(`select[data-key=${key}]`).selectedOptions[0].textContent"
    shown = [page.evaluate(chosen, key) for key in ("mechanism", "sampling", "relation")]
    assert shown == ["not stated", "shuffle", "not stated"]
    for key, value in (("batch", "50"), ("epochs", "2"), ("noise", "2"), ("delta", "1e-6")):
        assert page.input_value(f"input[data-key={key}]") == ""
        page.fill(f"input[data-key={key}]", value)
    page.select_option(
        "select[data-key=mechanism]", "gaussian"
    )  # the first, which a reader may take for chosen
    page.select_option("select[data-key=sampling]", "poisson")
    page.select_option("select[data-key=relation]", "add-or-remove")
    expect_library(page)
    page.close()


def test_it_is_usable_at_360_pixels_in_the_dark_and_on_paper(address: str, visit: Any) -> None:
    page = visit(f"{address}?{SMALL}", color_scheme="dark")
    page.set_viewport_size({"width": 360, "height": 740})
    expect_library(page)
    page.wait_for_selector("figure[data-chart=curve] svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    contrasts = """() => {
      const paint = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
      const light = (colour) => {
        paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
          .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const style = getComputedStyle(document.documentElement);
      const paper = light(style.getPropertyValue('--paper'));
      return Object.fromEntries(['--ink', '--soft', '--accent', '--wrong'].map((name) => {
        const ink = light(style.getPropertyValue(name));
        return [name, (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)];
      }));
    }"""
    assert min(page.evaluate(contrasts).values()) >= 4.5
    page.emulate_media(color_scheme="light")
    assert min(page.evaluate(contrasts).values()) >= 4.5
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('input, select, button, svg[role=img], progress')]
        .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length))
        .map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    small = page.evaluate(
        """() => [...document.querySelectorAll('main input, main select, main button, main summary')]
        .filter((e) => e.offsetParent && e.getBoundingClientRect().height < 24
          && !['checkbox', 'radio'].includes(e.type)).map((e) => e.outerHTML)"""
    )
    assert small == []
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((h) => h.tagName)[0]") == "H1"
    page.emulate_media(media="print")
    assert not page.is_visible("#sliders")
    assert page.is_visible("#number")


def test_an_exported_page_shows_the_same_without_a_server(visit: Any, tmp_path: Path) -> None:
    asked = read_state(SMALL)
    (tmp_path / "page.html").write_text(
        bake(asked, [answer_question(asked), draw_curve(asked), draw_attack(asked), {"part": "end"}])
    )
    page = visit(f"file://{tmp_path}/page.html")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.wait_for_selector("figure[data-chart=curve] svg")
    assert page.text_content("#number") == answer_question(asked)["number"]
    assert page.input_value("input[data-key=records]") == "1,000"
    assert not page.is_visible("#sliders")
    page.wait_for_timeout(300)
    assert [url for url in requests if not url.startswith(("data:", "blob:", "file:"))] == []


def test_it_says_so_when_the_server_is_lost(browser: Any) -> None:
    with run_server() as (where, end):
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{where}?{SMALL}")
        page.wait_for_function("() => known.verdict && known.curve")
        end()
        page.fill("input[data-key=noise]", "3")
        page.wait_for_selector("#lost:visible")
        said = page.text_content("#lost")
        assert page.text_content("#number") == "No answer"
        assert page.text_content("#verdict") == ""  # nothing of noise 2 stands beside noise 3
        assert page.locator("figure svg").count() == 0
        page.close()
    assert "does not answer" in said
    link = re.search(r'--at "(.*)"', said)
    assert link is not None
    assert read_state(link[1]).noise == 3


def test_a_slider_that_moves_fast_ends_at_the_answer_of_the_last_question(address: str, visit: Any) -> None:
    page = visit(f"{address}?{SMALL}")
    expect_library(page)
    page.evaluate(
        """async () => {
          const slider = document.querySelector('[data-slider=noise]');
          for (let t = 300; t < 700; t += 5) {
            slider.value = t;
            slider.dispatchEvent(new Event('input'));
            await new Promise((done) => setTimeout(done, 8));
          }
        }"""
    )
    expect_library(page)


def test_numbers_on_charts_are_rounded_away_from_what_is_known(
    visit: Callable[..., Any], address: str
) -> None:
    page = visit(f"{address}?{SMALL}")
    wrong = page.evaluate(
        """() => {
          const wrong = [];
          for (let i = 1; i <= 20000; i++) {
            const x = Math.exp(((i * 0.7548776662466927) % 1) * 60 - 30);
            const short = +x.toPrecision(4);
            for (const value of [x, short, short * (1 + 2.3e-16), 1.0250000000000001]) {
              if (!(+above(value) >= value && +below(value) <= value)) wrong.push(value);
            }
          }
          return wrong;
        }"""
    )
    assert wrong == []
    assert page.evaluate("[above(2.01349), below(2469.2), above(30), below(0.001)]") == [
        "2.014",
        "2469",
        "30",
        "0.001",
    ]


def test_a_decimal_comma_is_refused_and_never_dropped(visit: Callable[..., Any], address: str) -> None:
    page = visit(f"{address}?{SMALL}")
    read = "([key, text]) => readNumber(key, text)"
    for key, text, value in (
        ("noise", "1,1", "1,1"),
        ("noise", "1,100", "1,100"),
        ("epochs", "0,5", "0,5"),
        ("epochs", "1.000,5", "1.000,5"),
        ("records", "60,000", "60000"),
        ("batch", " 1 000 ", "1000"),
    ):
        assert page.evaluate(read, [key, text]) == value
