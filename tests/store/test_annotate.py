"""Notes in a saved model's manifest: in one step, gone with the next save; where a model cannot be saved at all."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import bits
from kit.errors import raises

from sylvan import store
from sylvan.errors import ModelError
from sylvan.store import State


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store.save(tmp_path / "m", State("example", 1, meta={"n": 3}, arrays={"a": np.arange(5)}))
    return tmp_path / "m"


def test_notes_join_what_is_there(folder: Path) -> None:
    files = sorted(os.listdir(folder))
    before = store.contents(folder)["checksum"]
    store.annotate(folder, {"measured": {"P": {"1": np.float64(0.5)}}})
    store.annotate(folder, {"other": "é"})
    state = store.load(folder, mmap=False)
    assert state.meta == {"n": 3, "measured": {"P": {"1": 0.5}}, "other": "é"}
    assert state.arrays["a"].tolist() == list(range(5)) and sorted(os.listdir(folder)) == files
    assert store.contents(folder)["checksum"] != before
    store.save(folder, State("example", 1))
    assert store.load(folder).meta == {}


def test_a_foreign_file_stays(folder: Path) -> None:
    (folder / "README.md").write_text("mine", "utf-8")
    store.annotate(folder, {"a": 1})
    store.save(folder, State("example", 1, arrays={"b": np.arange(2)}))
    store.check_target(folder)
    assert store.load(folder).arrays["b"].tolist() == [0, 1]
    assert (folder / "README.md").read_text("utf-8") == "mine"
    assert len([name for name in os.listdir(folder) if name.endswith(".npy")]) == 1


@pytest.mark.parametrize("where", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_model(where: str, error: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bits(folder)

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(os, where, fail)
    expected = ModelError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        store.annotate(folder, {"a": 1})
    assert expected is KeyboardInterrupt or str(caught.value).endswith("No space left on device. It is unchanged.")
    monkeypatch.undo()
    assert bits(folder) == before


def test_what_is_no_model(tmp_path: Path, folder: Path) -> None:
    with raises(ModelError, "folder"):
        store.annotate(tmp_path / "missing", {})
    (tmp_path / "empty").mkdir()
    with raises(ModelError, "manifest.json", "holds"):
        store.annotate(tmp_path / "empty", {})
    with raises(ModelError, "manifest"):
        store.annotate(folder, {"a": object()})
    with raises(ModelError, "manifest"):
        store.annotate(folder, {"a": float("nan")})
    (folder / "manifest.json").write_text("{}")
    with raises(ModelError, "format"):
        store.annotate(folder, {})


def test_where_a_model_can_be_saved(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "new" / "deeper", tmp_path / "empty", folder):
        store.check_target(place)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [("thesis.tex", ("file", "folder")), ("thesis.tex/below", "thesis.tex"), ("", ("model", "empty"))],
)
@pytest.mark.parametrize("manifest", [None, '{"format": "other"}'])
def test_where_somebody_elses_files_are(name: str, words: object, manifest: str | None, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    before = sorted(os.listdir(tmp_path))
    for refuse in (store.check_target, lambda place: store.save(place, State("example", 1))):
        with raises(ModelError, words):
            refuse(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == before and (tmp_path / "thesis.tex").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with raises(ModelError, "written"):
        store.check_target(tmp_path / "model")
