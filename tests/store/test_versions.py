"""Earlier versions in a model's folder: kept, brought back, and whole whatever interrupts."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit.errors import raises
from stops import ENTRIES, example, interrupted, stops_of, which

from sylvan import store
from sylvan.errors import ModelError
from sylvan.store import write


def interrupted_everywhere(prepared: Path, act: Callable[[Path], Any]) -> Iterator[Path]:
    """``act`` on copies of a folder, with a Ctrl-C before its first line, its second, ...; each copy afterwards.

    But for the lines of ``locked``: a lock that isn't given back would be waited for, as this process lives on.
    """
    whole, copy = prepared.with_name("whole"), prepared.with_name("copy")
    for stop in stops_of(lambda: act(shutil.copytree(prepared, whole)), "locked"):
        folder = Path(shutil.copytree(prepared, copy))
        assert interrupted(partial(act, folder), stop, "locked")
        yield folder
        shutil.rmtree(folder)


def test_as_many_versions_stay_as_are_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    for number in range(6):
        store.save(folder, example(number), keep=3)
    for expected, left in ((4, 2), (3, 1), (2, 0)):
        assert store.undo(folder, keep=3) == left
        assert which(folder) == expected
    with raises(ModelError, "earlier"):
        store.undo(folder)
    assert len(list(folder.iterdir())) == ENTRIES


def test_a_plain_save_keeps_nothing(tmp_path: Path) -> None:
    for number, keep in ((1, 0), (2, 2), (3, 0)):
        store.save(tmp_path, example(number), keep=keep)
    assert which(tmp_path) == 3 and len(list(tmp_path.iterdir())) == ENTRIES


def test_without_second_names_manifests_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    for number in range(3):
        store.save(tmp_path, example(number), keep=1)
    assert store.undo(tmp_path) == 0 and which(tmp_path) == 1


@pytest.mark.parametrize(
    ("act", "n_stops", "earlier"),
    [
        (lambda folder: store.save(folder, example(4), keep=3), 50, {3: [2, 1], 4: [3, 2, 1]}),
        (lambda folder: store.undo(folder, keep=2), 20, {3: [2, 1], 2: [1]}),
    ],
    ids=["update", "undo"],
)
def test_an_interruption_leaves_the_one_model_or_the_other(
    act: Callable[[Path], Any], n_stops: int, earlier: dict[int, list[int]], tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        store.save(tmp_path / "m", example(number), keep=2)
    found = []
    for folder in interrupted_everywhere(tmp_path / "m", act):
        found.append(which(folder))
        assert _earlier_numbers(folder) == earlier[found[-1]]
        if found[-1] == 4:
            assert store.undo(folder, keep=3) == 2 and which(folder) == 3
    assert len(found) > n_stops and set(found) == set(earlier)


def _earlier_numbers(folder: Path) -> list[int]:
    """The numbers of the earlier versions, all of whose files must be there."""
    found = []
    for manifest in write.earlier(folder):
        described = json.loads(manifest.read_bytes())["model"]
        assert all((folder / entry["file"]).exists() for entry in described["arrays"].values())
        found.append(described["params"]["number"])
    return found


def test_a_damaged_earlier_version_is_a_sentence(tmp_path: Path) -> None:
    for number in range(2):
        store.save(tmp_path, example(number), keep=1)
    (tmp_path / "earlier.000001.json").write_bytes(b"{}")
    with raises(ModelError, "earlier.000001.json"):
        store.undo(tmp_path)
    assert which(tmp_path) == 1
    store.save(tmp_path, example(2), keep=1)
    assert store.undo(tmp_path) == 0 and which(tmp_path) == 1


@pytest.mark.parametrize("spoil", ["missing", "cut", "byte"])
def test_an_incomplete_earlier_version_leaves_the_model_as_it_is(spoil: str, tmp_path: Path) -> None:
    for number in range(2):
        store.save(tmp_path, example(number), keep=1)
    described = json.loads((tmp_path / "earlier.000001.json").read_bytes())["model"]
    file = tmp_path / next(iter(described["arrays"].values()))["file"]
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + (b"" if spoil == "cut" else bytes([whole[-1] ^ 1])))
    if spoil == "missing":
        file.unlink()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    word = {"missing": "missing", "cut": "truncated", "byte": "altered"}[spoil]
    with raises(ModelError, "stays as it is", file.name, word):
        store.undo(tmp_path, keep=1)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert which(tmp_path) == 1
    file.write_bytes(whole)
    assert store.undo(tmp_path, keep=1) == 0 and which(tmp_path) == 0


def test_a_lock_that_is_left_is_taken_over(tmp_path: Path) -> None:
    store.save(tmp_path, example(1))
    (tmp_path / write.LOCK).write_text("123456789\n")
    with store.updating(tmp_path):
        assert (tmp_path / write.LOCK).read_text() == f"{os.getpid()}\n"
        with raises(ModelError, os.getpid(), "updated"), store.updating(tmp_path):
            pass
    with store.updating(tmp_path):
        pass
    assert not (tmp_path / write.LOCK).exists()
    store.save(tmp_path, example(2))  # a lock that is left is no foreign file
