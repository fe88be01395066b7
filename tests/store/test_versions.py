"""Earlier versions in a model's folder: kept, brought back, and whole whatever interrupts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises
from stops import interrupted, stops_of

from sylvan import store
from sylvan.errors import ModelError
from sylvan.store import State, write


def example(number: int) -> State:
    files = {"encoder/config.json": bytes([number]) * 9}
    return State("example", 1, {}, {"number": number}, {"a": np.full(5, number)}, {}, files)


def number_of(folder: Path) -> int:
    """Which example the folder holds, every byte compared."""
    state = store.load(folder, mmap=False, verify=True)
    number = state.meta["number"]
    assert isinstance(number, int)
    np.testing.assert_array_equal(state.arrays["a"], example(number).arrays["a"])
    (path,) = state.files.values()
    assert Path(os.fsdecode(path)).read_bytes() == bytes([number]) * 9  # type: ignore[arg-type]
    return number


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
        assert number_of(folder) == expected
    with raises(ModelError, "earlier"):
        store.undo(folder)
    assert len(list(folder.iterdir())) == 3  # the manifest, an array, a folder of files


def test_a_plain_save_keeps_nothing(tmp_path: Path) -> None:
    for number, keep in ((1, 0), (2, 2), (3, 0)):
        store.save(tmp_path, example(number), keep=keep)
    assert number_of(tmp_path) == 3 and len(list(tmp_path.iterdir())) == 3


def test_without_second_names_manifests_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    for number in range(3):
        store.save(tmp_path, example(number), keep=1)
    assert store.undo(tmp_path) == 0 and number_of(tmp_path) == 1


def test_an_interrupted_update_leaves_the_old_model_or_the_new_one(tmp_path: Path) -> None:
    store.save(tmp_path / "m", example(1))
    store.save(tmp_path / "m", example(2), keep=1)
    found = []
    for folder in interrupted_everywhere(tmp_path / "m", lambda folder: store.save(folder, example(3), keep=2)):
        found.append(number_of(folder))
        assert _earlier_numbers(folder) == ([1] if found[-1] == 2 else [2, 1])
        if found[-1] == 3:
            assert store.undo(folder, keep=2) == 1 and number_of(folder) == 2
    assert len(found) > 50 and set(found) == {2, 3}


def test_an_interrupted_undo_leaves_the_one_or_the_other(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        store.save(tmp_path / "m", example(number), keep=2)
    found = []
    for folder in interrupted_everywhere(tmp_path / "m", lambda folder: store.undo(folder, keep=2)):
        found.append(number_of(folder))
        assert _earlier_numbers(folder) == ([2, 1] if found[-1] == 3 else [1])
    assert len(found) > 20 and set(found) == {2, 3}


def _earlier_numbers(folder: Path) -> list[int]:
    """The numbers of the earlier versions, all of whose files must be there."""
    found = []
    for manifest in write.earlier(folder):
        described = json.loads(manifest.read_bytes())["model"]
        assert all((folder / entry["file"]).exists() for entry in described["arrays"].values())
        found.append(described["meta"]["number"])
    return found


def test_a_damaged_earlier_version_is_a_sentence(tmp_path: Path) -> None:
    for number in range(2):
        store.save(tmp_path, example(number), keep=1)
    (tmp_path / "earlier.000001.json").write_bytes(b"{}")
    with raises(ModelError, "earlier.000001.json"):
        store.undo(tmp_path)
    assert number_of(tmp_path) == 1
    store.save(tmp_path, example(2), keep=1)
    assert store.undo(tmp_path) == 0 and number_of(tmp_path) == 1


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
