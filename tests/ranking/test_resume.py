"""A training that was interrupted anywhere goes on from its checkpoint, to the same bits."""

import itertools
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises
from ranking.interruptions import SETTINGS, killed, outcome, training_set

from sylvan import LabelTree, XRLinear, store
from sylvan.errors import ModelError, ParameterError
from sylvan.ranking import linear
from sylvan.runtime import checkpointed
from sylvan.runtime.checkpoint import Checkpoint
from sylvan.runtime.groups import block_state, read_block
from sylvan.store import write

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to kill a process at a chosen place")
X, Y = training_set()


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cluster is a job of its own, and every few results are written together."""
    monkeypatch.setattr(checkpointed, "BLOCK_BYTES", 6000)
    monkeypatch.setattr(linear, "LEAST_COST", 1)


def dying(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, at: int, die: Callable[[], None]) -> None:
    """Let the call number ``at`` of a function be the last thing that happens."""
    function, count = getattr(owner, name), itertools.count()

    def call(*args: Any, **options: Any) -> Any:
        if next(count) == at:
            die()
        return function(*args, **options)

    monkeypatch.setattr(owner, name, call)


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@forks
@pytest.mark.parametrize("settings", ["man", "two trees", "one layer"])
def test_killed_at_every_part(settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies before each part that it writes, each time a little further on than the last time."""
    expected = outcome(XRLinear(**SETTINGS[settings]).fit(X, Y))
    folder = tmp_path / "work"

    def train(n_jobs: int) -> None:
        XRLinear(**SETTINGS[settings], n_jobs=n_jobs).fit(X, Y, checkpoint=Checkpoint(folder))

    for parts in itertools.count():
        with monkeypatch.context() as patch:
            dying(patch, store, "save", parts and 1, kill_this_process)
            if not killed(partial(train, 1 + parts % 2)):
                break
    assert parts > (1 if settings == "one layer" else 4)
    before = sorted(os.listdir(folder))
    solved = []
    monkeypatch.setattr("sylvan.ranking.linear._solve_cluster", lambda *args: solved.append(args))
    resumed = XRLinear(**SETTINGS[settings], n_jobs=2).fit(X, Y, checkpoint=folder)
    assert outcome(resumed) == expected
    assert not solved and before and not folder.exists()


@forks
def test_killed_in_the_midst_of_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = outcome(XRLinear(**SETTINGS["man"]).fit(X, Y))
    for at in range(0, 200, 13):
        folder = tmp_path / str(at)
        with monkeypatch.context() as patch:
            dying(patch, write, "_write_file", at, kill_this_process)
            model = XRLinear(**SETTINGS["man"])
            if not killed(partial(model.fit, X, Y, checkpoint=Checkpoint(folder))):
                break
        assert outcome(XRLinear(**SETTINGS["man"]).fit(X, Y, checkpoint=folder)) == expected
    assert at > 20


def begun(folder: Path, **params: Any) -> Checkpoint:
    """A checkpoint with parts of a training."""
    checkpoint = Checkpoint(folder)
    XRLinear(**{**SETTINGS["man"], **params}).fit(X, Y, checkpoint=checkpoint)
    return checkpoint


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any], object]] = {
    "X": ({}, {"X": X * 2}, "X"),
    "Y": ({}, {"Y": (Y > 1).astype(np.float32)}, "Y"),
    "rows": ({}, {"X": X[1:], "Y": Y[1:]}, ("X", "[150, 60]", "[149, 60]")),
    "weights": ({}, {"sample_weight": np.arange(150.0)}, "sample_weight"),
    "embeddings": ({}, {"label_embeddings": np.eye(40)}, "label_embeddings"),
    "seed": ({"seed": 1}, {}, ("seed", 0, 1)),
    "words": ({"negatives": ["tfn"] * 2}, {}, ("negatives", "'tfn+man'", "['tfn', 'tfn']")),
    "shares": ({"alpha": np.full(40, 0.5)}, {}, "alpha"),
    "tree": ({"tree": LabelTree.flat(40)}, {}, "tree"),
    "layers": ({}, {"layers": {0: XRLinear(**SETTINGS["man"]).fit(X, Y).layers_[0]}}, "layers"),
}


def test_another_training_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path / "work")
    for params, given, difference in OTHERS.values():
        data = {"X": X, "Y": Y, **given}
        with raises(ModelError, tmp_path / "work", difference):
            XRLinear(**{**SETTINGS["man"], **params}).fit(**data, checkpoint=tmp_path / "work")
    with monkeypatch.context() as patch:
        patch.setattr("sylvan.runtime.checkpoint.__version__", "99.0.0")
        with raises(ModelError, "99.0.0", "release"):
            XRLinear(**SETTINGS["man"]).fit(X, Y, checkpoint=tmp_path / "work")
    XRLinear(**SETTINGS["man"], n_jobs=2).fit(X, Y, checkpoint=tmp_path / "work")


def test_damaged_parts_are_made_again(tmp_path: Path) -> None:
    """Whatever file is cut short, altered or gone, the bits are the same."""
    expected = outcome(XRLinear(**SETTINGS["man"]).fit(X, Y))
    for number, spoil in enumerate(
        (lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1]), flip_a_bit)
    ):
        folder = tmp_path / f"work{number}"
        begun(folder)
        for path in sorted(folder.glob("block*/*"))[number::3]:
            spoil(path)
        assert outcome(XRLinear(**SETTINGS["man"]).fit(X, Y, checkpoint=folder)) == expected


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("field", ["ends", "changed_rows", "features", "weights", "intercepts"])
def test_a_block_that_fits_no_tree_is_left(field: str, tmp_path: Path) -> None:
    """Whole and checksummed, but with arrays that don't belong together."""
    expected = outcome(XRLinear(**SETTINGS["tfn"]).fit(X, Y))
    begun(tmp_path / "work", negatives="tfn", beam=10)
    for block in (tmp_path / "work").glob("block*"):
        results = list(read_block(store.load(block, mmap=False)))
        if field in results[0][1]:  # of clusters, not of the tree
            cut = [(name, {**arrays, field: arrays[field][1:]}) for name, arrays in results]
            store.save(block, block_state(cut))
    model = XRLinear(**SETTINGS["tfn"]).fit(X, Y, checkpoint=tmp_path / "work")
    assert outcome(model) == expected


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    with raises(ModelError, "empty"):
        XRLinear().fit(X, Y, checkpoint=tmp_path)
    Checkpoint(tmp_path).remove()
    assert (tmp_path / "letter.txt").exists()
    XRLinear().fit(X, Y).save(tmp_path / "model")
    with raises(ModelError, "checkpoint"):
        XRLinear().fit(X, Y, checkpoint=tmp_path / "model")


def test_a_checkpoint_that_cannot_be_made_is_refused_before_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with raises(ModelError, "can't be made", "is a file"):
        XRLinear().fit(X, Y, checkpoint=tmp_path / "file" / "work")


def test_two_trainings_at_once_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    first = begun(tmp_path / "work")
    first._lock()
    with raises(ModelError, "using"):
        XRLinear(**SETTINGS["man"]).fit(X, Y, checkpoint=tmp_path / "work")
    with raises(ModelError, "using"):
        Checkpoint(tmp_path / "work").remove()
    first.close()
    XRLinear(**SETTINGS["man"]).fit(X, Y, checkpoint=tmp_path / "work")


@pytest.mark.parametrize("wrong", [3, True, b"\0", ""])
def test_no_folder_at_all(wrong: Any) -> None:
    with raises(ParameterError, "path"):
        XRLinear().fit(X, Y, checkpoint=wrong)
