"""The file of a ledger: the same bytes each time, whole or refused, and nothing lost."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tightrope as tr
from ledgers import RELEASE, SAVED_BY_07, SAVED_BY_08, STEP, TABLE, ledger, mixed, small
from tightrope.answers.ledger import Ledger
from tightrope.answers.sealed_json import SealedJson


@pytest.mark.parametrize(
    "kept",
    [
        ledger(),
        small(),
        mixed(),
        ledger(TABLE, relation=tr.ADD, by=tr.Certified(accuracy=1e-7, effort=tr.TIGHT)),
    ],
    ids=str,
)
def test_a_saved_ledger_loads_equal_and_saves_to_the_same_bytes(kept: Ledger, tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    kept.save(first)
    loaded = Ledger.load(str(first))
    loaded.save(second)
    assert loaded == kept
    assert loaded.run.parts == kept.run.parts
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().endswith(b"}\n")
    assert loaded.epsilon(1e-6) == kept.epsilon(1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.json", "second.json"]


def test_the_file_says_what_it_holds(tmp_path: Path) -> None:
    small().save(tmp_path / "ledger.json")
    found = json.loads((tmp_path / "ledger.json").read_text())
    assert len(found.pop("sha256")) == 64
    assert len(found.pop("id")) == 32
    assert found == {
        "format": "tightrope-ledger",
        "version": 3,
        "relation": "add-or-remove",
        "accuracy": 0.001,
        "effort": "quick",
        "parts": [
            {
                "mechanism": "gaussian",
                "noise_multiplier": 0.8,
                "sampling": "poisson",
                "rate": 0.001,
                "steps": 3,
            },
            {"mechanism": "laplace", "noise_multiplier": 4.0, "sampling": "every-record", "steps": 1},
        ],
        "last": 1,
    }


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    small().save(tmp_path / "ledger.json")
    whole = (tmp_path / "ledger.json").read_bytes()
    cut = tmp_path / "cut.json"
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        if whole[:length] == whole.rstrip():
            assert Ledger.load(cut) == small()  # only the last newline is gone
        else:
            with pytest.raises(tr.InvalidSetting, match=r"cut\.json must be a whole JSON file"):
                Ledger.load(cut)
        assert cut.read_bytes() == whole[:length]


@pytest.mark.parametrize("flip", [0x01, 0x08, 0x20, 0x80], ids=hex)
def test_a_file_with_any_byte_flipped_is_refused_or_means_the_same(flip: int, tmp_path: Path) -> None:
    small().save(tmp_path / "ledger.json")
    whole = (tmp_path / "ledger.json").read_bytes()
    damaged = tmp_path / "damaged.json"
    for place in range(len(whole)):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
        try:
            loaded = Ledger.load(damaged)
        except tr.InvalidSetting:
            continue
        assert loaded == small()
        assert whole[place] in b" \n"  # which now is other white space


def edited(change: Callable[[dict[str, Any]], object], path: Path) -> Path:
    """The small ledger, changed on purpose, with a checksum that fits."""
    small().save(path)
    document = json.loads(path.read_text())
    document.pop("sha256")
    change(document)
    kind, version = document.pop("format", None), document.pop("version", None)
    path.write_bytes(SealedJson(kind, version).seal(document))
    return path


def test_a_flipped_digit_is_noticed_and_the_refusal_says_how_an_edit_is_accepted(tmp_path: Path) -> None:
    small().save(tmp_path / "ledger.json")
    edit = (tmp_path / "ledger.json").read_text().replace('"steps": 3', '"steps": 2')
    (tmp_path / "ledger.json").write_text(edit)
    with pytest.raises(
        tr.InvalidSetting, match=r"sha256 must be the checksum .* If it was edited on purpose, write '"
    ) as refusal:
        Ledger.load(tmp_path / "ledger.json")
    assert (tmp_path / "ledger.json").read_text() == edit
    fitting = str(refusal.value).split("write '")[1].split("'")[0]
    document = {**json.loads(edit), "sha256": fitting}
    (tmp_path / "ledger.json").write_text(json.dumps(document))
    assert Ledger.load(tmp_path / "ledger.json") == ledger(STEP * 2, RELEASE)


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "other format": (
        lambda d: d.update(format="diary"),
        "format must be 'tightrope-ledger', got 'diary'. It is a file of another kind",
    ),
    "no format": (lambda d: d.update(format=None), "format must be a string, got None"),
    "newer": (
        lambda d: d.update(version=4),
        "version must be 3, the newest understood here, or an older one, got 4. Use the tightrope that",
    ),
    "version true": (lambda d: d.update(version=True), "version must be 3"),
    "version text": (lambda d: d.update(version="3"), "version must be 3"),
    "no id": (lambda d: d.pop("id"), "id is missing"),
    "id": (lambda d: d.update(id=7), "id must be a string, got 7"),
    "unknown key": (lambda d: d.update(acuracy=1), "acuracy = 1 is not a known key. Did you mean accuracy?"),
    "no relation": (
        lambda d: d.pop("relation"),
        "relation is missing. Write one of add, remove, add-or-remove, substitute",
    ),
    "relation": (lambda d: d.update(relation="ADD"), "relation must be a known name, got 'ADD'"),
    "no accuracy": (lambda d: d.pop("accuracy"), "accuracy is missing"),
    "accuracy": (lambda d: d.update(accuracy="fine"), "accuracy must be a real number, got 'fine'"),
    "accuracy 2": (lambda d: d.update(accuracy=2), "accuracy must be at least 1e-09 and below 1, got 2"),
    "effort": (lambda d: d.update(effort="great"), "effort must be a known name, got 'great'"),
    "parts": (lambda d: d.update(parts={}), "parts must be a list, got {}"),
    "part": (lambda d: d["parts"].append(7), "parts[2] must be a table, got 7"),
    "key in part": (
        lambda d: d["parts"][1].update(step=7),
        "parts[1].step = 7 is not a known key. Did you mean steps?",
    ),
    "value in part": (lambda d: d["parts"][0].update(rate=7), "parts[0].rate must be in [0, 1], got 7"),
    "twice": (lambda d: d["parts"].insert(0, d["parts"][0]), "parts must list each step once"),
    "no steps": (lambda d: d["parts"][0].update(steps=0), "last must be a whole number below 1, got 1"),
    "no last": (lambda d: d.pop("last"), "last is missing"),
    "last too far": (lambda d: d.update(last=2), "last must be a whole number below 2, got 2"),
    "last null": (lambda d: d.update(last=None), "last must be a whole number below 2, got None"),
    "last true": (lambda d: d.update(last=True), "last must be a whole number below 2, got True"),
    "last without parts": (lambda d: d.update(parts=[], last=0), "last must be null, got 0"),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_is_not_understood_is_refused_by_key_and_form(
    change: Callable[[dict[str, Any]], object], reason: str, tmp_path: Path
) -> None:
    path = edited(change, tmp_path / "ledger.json")
    before = path.read_bytes()
    with pytest.raises(tr.InvalidSetting) as refusal:
        Ledger.load(path)
    assert str(refusal.value).startswith(f"{path}: {reason}")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must be a whole JSON file"),
        (b"ledger", "must be a whole JSON file"),
        (b"[]", "must be a table, got []"),
        (b"{}", "format is missing"),
        (b'{"format": 1, "format": 1}', "the key 'format' twice"),
        (b'{"a": NaN}', "NaN, which is not a finite number"),
        (b'{"a": -Infinity}', "-Infinity, which is not a finite number"),
        (b'{"a": 1e999}', "1e999, which is not a finite number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "must be a whole JSON file"),
        (b"[" * 100_000, "must be a whole JSON file"),
        (b"\xff\xfe{}", "it is not UTF-8 text"),
        (b"\xef\xbb\xbf{}", "opens with a byte order mark"),
        (b'{"format": "tightrope-ledger", "version": 1}', "sha256 is missing"),
        (b'{"format": "tightrope-ledger", "version": 2, "sha256": 3}', "sha256 must be a string, got 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_ledger_at_all_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    path.write_bytes(content)
    with pytest.raises(tr.InvalidSetting) as refusal:
        Ledger.load(path)
    assert str(refusal.value).startswith(str(path))
    assert reason in str(refusal.value)
    assert path.read_bytes() == content


def test_files_that_cannot_be_read_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        tr.InvalidSetting, match=r"none\.json could not be read: No such file or directory\. Pass"
    ):
        Ledger.load(tmp_path / "none.json")
    with pytest.raises(tr.InvalidSetting, match="could not be read: Is a directory"):
        Ledger.load(tmp_path)
    with pytest.raises(tr.InvalidSetting, match="could not be read: embedded null byte"):
        Ledger.load("a\0b")


# saving that fails


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", ["os.replace", "os.fsync"])
@pytest.mark.parametrize(("failure", "error"), [(full, tr.InvalidSetting), (interrupted, KeyboardInterrupt)])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    call: str,
    failure: Callable[..., None],
    error: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "ledger.json"
    kept = small()
    kept.save(path)
    before = path.read_bytes()
    kept.record(TABLE)
    with monkeypatch.context() as patched:
        patched.setattr(call, failure)
        with pytest.raises(error) as refusal:
            kept.save(path)
    if error is tr.InvalidSetting:
        assert str(refusal.value) == (
            f"the ledger {str(path)!r} could not be written: No space left on device. "
            "What was there is unchanged; choose another place."
        )
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    kept.save(path)
    assert Ledger.load(path) == kept == ledger(STEP * 3, RELEASE, TABLE)


def test_a_disk_that_fills_up_while_writing_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    small().save(path)
    kept = Ledger.load(path)
    kept.record(TABLE)
    write = os.write

    def write_some(descriptor: int, content: bytes) -> int:
        write(descriptor, content[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write_some)
        with pytest.raises(tr.InvalidSetting, match="No space left on device"):
            kept.save(path)
    assert list(tmp_path.iterdir()) == [path]
    assert Ledger.load(path) == small()


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "no" / "ledger.json", tmp_path / "file" / "ledger.json", tmp_path, "a\0b"):
        with pytest.raises(
            tr.InvalidSetting, match=r"the ledger .* could not be written: .* choose another place"
        ):
            small().save(place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)  # root may write anywhere, so ask as nobody
    try:
        with pytest.raises(tr.InvalidSetting, match="Permission denied"):
            small().save(tmp_path / "ledger.json")
    finally:
        os.seteuid(before)
        tmp_path.chmod(0o700)


def test_saving_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    small().save(tmp_path / "real.json")
    (tmp_path / "link.json").symlink_to("real.json")
    kept = Ledger.load(tmp_path / "link.json")
    kept.record(STEP)
    kept.save(tmp_path / "link.json")
    kept.save(tmp_path / "real.json")  # the same file
    assert (tmp_path / "link.json").is_symlink()
    assert Ledger.load(tmp_path / "real.json").run == STEP * 4 + RELEASE


def test_saving_keeps_the_permissions_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    kept = small()
    kept.save(path)
    path.chmod(0o600)
    kept.record(STEP)
    kept.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Ledger.load(path) == kept


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(tr.InvalidSetting, match="it exists and is no file"):
        Ledger(relation=tr.ADD).save(pipe)
    assert not pipe.is_file()


@pytest.mark.parametrize("path", [5, None, b"ledger.json"])
def test_a_path_is_a_string_or_a_path(path: object) -> None:
    with pytest.raises(tr.InvalidSetting, match="path must be a string or a Path"):
        Ledger(relation=tr.ADD).save(path)  # type: ignore[arg-type]
    with pytest.raises(tr.InvalidSetting, match="path must be a string or a Path"):
        Ledger.load(path)  # type: ignore[arg-type]


@pytest.mark.parametrize("saved", [SAVED_BY_07, SAVED_BY_08], ids=["0.7", "0.8"])
def test_what_older_versions_saved_is_read_and_gone_on_with(saved: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(saved)
    first, second = Ledger.load(path), Ledger.load(path)
    assert first == second == small()
    for kept in (first, second):
        kept.record(STEP)
        kept.save(path)
    assert json.loads(path.read_text())["version"] == 3
    assert Ledger.load(path).run == STEP * 5 + RELEASE


def test_a_ledger_of_version_1_that_trusted_conjectures_is_refused(tmp_path: Path) -> None:
    def distrust(document: dict[str, Any]) -> None:
        document |= {"version": 1, "trusting": "conjectured"}
        del document["effort"], document["id"]

    with pytest.raises(tr.InvalidSetting, match="trusting must be a known name, got 'conjectured'"):
        Ledger.load(edited(distrust, tmp_path / "other.json"))
