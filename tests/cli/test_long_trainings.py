"""Trainings that are killed, resumed, begun anew and limited in memory, and disks without room: no model is lost."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import subprocess
import tempfile
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from child_processes import python
from kit.errors import raises
from processes import same_models

import sylvan
from sylvan import XRLinear, data, store
from sylvan.cli import app
from sylvan.cli import models as cli_models
from sylvan.cli.session import Session
from sylvan.errors import DataError, DiskSpaceError, ModelError
from sylvan.models.text import TextModel
from sylvan.ranking import linear
from sylvan.runtime import checkpointed, plan
from sylvan.runtime.plan import Need, Plan, free_bytes, need_room

# Runs the command with blocks of a few clusters, and ends the process by a signal before it writes part number N.
CHILD = """
import os, sys
from sylvan import store
from sylvan.cli import main
from sylvan.ranking import linear
from sylvan.runtime import checkpointed
linear.LEAST_COST = 1
checkpointed.BLOCK_BYTES, at, sent = 3000, int(sys.argv[1]), int(sys.argv[2])
save, count = store.save, iter(range(10**6))
def counting(*arguments):
    if next(count) == at:
        os.kill(os.getpid(), sent)
    save(*arguments)
store.save = counting
sys.exit(main(sys.argv[3:]))
"""
TREE = ("--set", "branching=2", "--set", "max_leaf=1")


def ended(at: int, by: int, *words: str) -> subprocess.CompletedProcess[bytes]:
    return python("-c", CHILD, str(at), str(by), *words, text=False)


@pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")
def test_killed_then_interrupted_then_resumed(files: Any, call: Any, tmp_path: Path) -> None:
    words = ("train", "xr-linear", files("train.jsonl"), *TREE)
    assert call(*words, "--model", str(tmp_path / "whole"), "-q").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]
    model, work = tmp_path / "m", tmp_path / "m.training"
    words = (*words, "--model", str(model))

    killed = ended(2, signal.SIGKILL, *words)
    assert killed.returncode == -signal.SIGKILL and work.is_dir() and not model.exists()
    undecided = call(*words)
    assert undecided.code == 2 and undecided.err == (
        f"Error: An interrupted training lies in {str(work)!r}: --resume goes on with it, --no-resume starts over.\n"
    )
    interrupted = ended(1, signal.SIGINT, *words, "--resume")
    assert interrupted.returncode == 1
    assert interrupted.stderr.decode().strip().splitlines()[-1] == (
        f"Interrupted; what is trained so far lies in {str(work)!r}: the same command with --resume goes on from there."
    )
    other = call(*words, "--resume", "--seed", "3")
    assert other.code == 2 and "is of another training: the parameter 'seed' was 0 and is 3" in other.err
    resumed = call(*words, "--resume", "--threads", "2")
    assert resumed.code == 0 and "nothing to resume" not in resumed.out
    same_models(model, tmp_path / "whole")
    assert not work.exists()
    again = call(*words, "--resume")
    assert again.code == 0 and f"There is nothing to resume in {work}: training from the beginning." in again.out


@pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")
def test_begun_anew(files: Any, call: Any, tmp_path: Path) -> None:
    words = ("train", "xr-linear", files("train.xmc"), *TREE, "--model", str(tmp_path / "m"))
    ended(3, signal.SIGKILL, *words, "--checkpoint", str(tmp_path / "work"))
    assert (tmp_path / "work").is_dir()
    assert call(*words, "--checkpoint", str(tmp_path / "work"), "--seed", "3", "--no-resume", "-q").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_within_a_limit(files: Any, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("train", "xr-linear", files("train.jsonl"), *TREE, "-q")
    assert call(*words, "--model", str(tmp_path / "whole")).code == 0
    assert call(*words, "--model", str(tmp_path / "limited"), "--memory-limit", "40GB").code == 0
    same_models(tmp_path / "limited", tmp_path / "whole")
    too_little = call(*words, "--model", str(tmp_path / "none"), "--memory-limit", "1MB")
    assert too_little.code == 1 and too_little.err.startswith("Error: --memory-limit is 1.0 MB, but ")
    wrong = call(*words, "--model", str(tmp_path / "none"), "--memory-limit", "much")
    assert wrong.code == 2 and "The '--memory-limit' parameter must be a number of bytes" in wrong.err
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    full = call(*words, "--model", str(tmp_path / "none"), "--checkpoint", "/dev/null/work")
    assert full.code != 0 and full.err.startswith("Error: The checkpoint '/dev/null/work' can't be made")


def test_a_mapped_matrix(files: Any, call: Any, tmp_path: Path) -> None:
    data.save_csr(tmp_path / "X", data.load_npz(files("X.train.npz")))
    data.save_csr(tmp_path / "Y", data.load_npz(files("Y.train.npz")))
    for name, X, Y in (("mapped", str(tmp_path / "X"), str(tmp_path / "Y")),
                       ("read", files("X.train.npz"), files("Y.train.npz"))):  # fmt: skip
        outcome = call("train", "xr-linear", X, "--labels", Y, *TREE, "--model", str(tmp_path / name))
        assert outcome.code == 0 and "Read 240 rows" in outcome.err
    same_models(tmp_path / "mapped", tmp_path / "read")
    evaluated = call("evaluate", str(tmp_path / "mapped"), str(tmp_path / "X"), "--labels", str(tmp_path / "Y"))
    assert evaluated.code == 0 and "240 rows" in evaluated.out
    without = call("train", "xr-linear", str(tmp_path / "X"), "--model", str(tmp_path / "none"))
    assert without.code == 2 and "is a CSR matrix in a folder of .npy files and holds no labels" in without.err


def test_an_error_says_what_remains() -> None:
    session = Session()
    assert session.interrupted() == "Interrupted; nothing was written."
    session.remains = lambda: "a part is there"
    assert session.interrupted() == "Interrupted; a part is there."
    session.written = "the model was saved"
    assert session.interrupted() == "Interrupted; the model was saved."


def test_only_an_error_that_the_same_command_may_outlive_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, mentioned in ((DataError("Give other data."), False), (MemoryError(), True), (RuntimeError("oh"), True)):

        def fail(ctx: Any, error: Exception = error) -> None:
            ctx.find_object(Session).remains = lambda: "a part is there"
            raise error

        monkeypatch.setattr(app.cli, "invoke", fail)
        assert app.run(["demo"]) != 0
        assert ("But a part is there." in capsys.readouterr().err) is mentioned


Usage = namedtuple("Usage", "total used free")
SMALL = ("--set", "branching=2", "--set", "max_leaf=1")


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets how much every disk has free."""

    def set_to(n_bytes: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, (1 << 40) - n_bytes, n_bytes))

    return set_to


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.name == "nt":
        pytest.skip("mounts no such disks")
    system = ctypes.CDLL(None)
    if not hasattr(system, "mount") or not hasattr(system, "umount2"):
        pytest.skip("this system mounts in another way")
    if system.mount(b"tmpfs", os.fsencode(place), b"tmpfs", ctypes.c_ulong(0), b"size=1m"):
        pytest.skip("may not mount a disk here")
    try:
        yield place
    finally:
        assert system.umount2(os.fsencode(place), 2) == 0  # MNT_DETACH


def fill(place: Path, left: int) -> None:
    """Leave only so many bytes free."""
    (place / "filling").write_bytes(bytes(shutil.disk_usage(place).free - left))


@pytest.mark.parametrize("input_", [("train.jsonl",), ("X.train.npz", "--labels", "Y.train.npz")], ids=str)
def test_no_room_is_said_before_the_training(
    input_: tuple[str, ...], files: Any, call: Any, free: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [files(word) if "." in word else word for word in input_]
    command = ("train", "xr-linear", *words, "--model", str(tmp_path / "m"))
    free(1000)
    with monkeypatch.context() as without:
        without.setattr(TextModel, "fit", None)
        without.setattr(XRLinear, "fit", None)  # it never comes to this
        # The options of working() look at its signature.
        without.setattr("sylvan.cli.train.working", lambda session, model, given: (None, {}))
        done = call(*command)
    assert done.code == 1 and not (tmp_path / "m").exists()
    assert "Error: The disk has no room for this training: it would write the model in" in done.err
    assert "but only 1 kB is free there" in done.err
    read, sentence = done.err.splitlines()
    assert read.startswith("Read 240 rows") and "--force" in sentence
    assert call(*command, "--force").code == 0
    free(1 << 30)
    assert call(*command).code == 0


def test_where_there_is_plenty_nothing_is_estimated(
    files: Any, call: Any, free: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(1 << 40)
    monkeypatch.setattr(TextModel, "plan", None)
    assert call("train", "xr-linear", files("train.jsonl"), "--model", str(tmp_path / "m")).code == 0
    free(1 << 20)
    assert call("train", "xr-linear", files("train.jsonl"), "--model", str(tmp_path / "m")).code == 1


def test_models_that_cant_be_estimated_are_trained(files: Any, call: Any, free: Any, tmp_path: Path) -> None:
    free(10)
    assert call("train", "neighbors", files("train.jsonl"), "--model", str(tmp_path / "m")).code == 0


def test_a_long_training_needs_room_for_its_checkpoint_too(
    free: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Planned:
        def plan(self, inputs: Any, labels: Any, **options: Any) -> Plan:
            assert set(options) == {"label_texts"}
            return Plan(seconds, 0, 6_000_000, None)

    folder, checkpoint = str(tmp_path / "m"), SimpleNamespace(folder=tmp_path / "m.training")
    options = {"label_texts": {}, "report": print}
    free(10_000_000)
    seconds = 59.0
    cli_models.need_disk(Planned(), ["a"], [["b"]], {**options, "checkpoint": checkpoint}, folder)
    seconds = 61.0
    with raises(DiskSpaceError, folder, checkpoint.folder, "6.0 MB"):
        cli_models.need_disk(Planned(), ["a"], [["b"]], {**options, "checkpoint": checkpoint}, folder)
    cli_models.need_disk(Planned(), ["a"], [["b"]], options, folder)
    monkeypatch.setattr(plan, "disk_of", lambda folder: len(folder))  # on two disks
    cli_models.need_disk(Planned(), ["a"], [["b"]], {**options, "checkpoint": checkpoint}, folder)


def test_a_system_that_doesnt_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Any) -> Any:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(shutil, "disk_usage", refuse)
    assert free_bytes(tmp_path) is None
    need_room([Need("the model", str(tmp_path), 1 << 60)])


@pytest.mark.parametrize("ensemble", [False, True])
def test_a_model_that_finds_its_disk_full_is_saved_on_another(
    ensemble: bool, files: Any, call: Any, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(other))
    fill(small_disk, 4096)
    command = ("train", "ensemble", files("train.jsonl"), "--set", "member0__model=xr-linear") if ensemble else (
        "train", "xr-linear", files("train.jsonl"), "--force")  # fmt: skip
    done = call(*command, "--model", str(small_disk / "m"))
    assert done.code == 1 and "Traceback" not in done.err
    (saved,) = other.glob("sylvan-*/m")
    assert "No space left on device" in done.err
    assert f"It is in {str(saved)!r} instead, whole: move it to where there is room." in done.err
    assert "--resume" not in done.err
    assert sylvan.load(saved).rank(["bread and flour"], k=1).names == [["Baking"]]
    assert sorted(entry.name for entry in small_disk.iterdir()) == ["filling"]


def test_nowhere_to_go(
    files: Any, call: Any, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the checkpoint, if there is one, is what remains."""
    monkeypatch.setattr(linear, "LEAST_COST", 1)
    monkeypatch.setattr(checkpointed, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(cli_models, "disk_of", lambda folder: 1)  # all is one disk
    fill(small_disk, 4096)
    work = tmp_path / "work"
    command = ("train", "xr-linear", files("train.jsonl"), *SMALL, "--checkpoint", str(work), "--force")
    done = call(*command, "--model", str(small_disk / "m"))
    assert done.code == 1 and "No space left on device" in done.err and " instead, whole" not in done.err
    assert f"But what is trained so far lies in {str(work)!r}: the same command with --resume goes on" in done.err
    (small_disk / "filling").unlink()
    again = call(*command, "--model", str(small_disk / "m"), "--resume")
    assert again.code == 0 and not work.exists()
    assert sylvan.load(small_disk / "m").rank(["bread and flour"], k=1).names == [["Baking"]]


def test_another_fault_of_saving_is_said_as_ever(
    files: Any, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise ModelError("It isn't to be.") from OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(store, "save", refuse)
    done = call("train", "xr-linear", files("train.jsonl"), "--model", str(tmp_path / "m"))
    assert done.code == 2 and "It isn't to be." in done.err and "instead, whole" not in done.err
    assert os.listdir(tmp_path) == []


def test_a_training_outlives_a_checkpoint_that_finds_its_disk_full(
    files: Any, call: Any, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("train", "xr-linear", files("train.jsonl"), *SMALL)
    assert call(*command, "--model", str(tmp_path / "whole")).code == 0
    monkeypatch.setattr(linear, "LEAST_COST", 1)
    monkeypatch.setattr(checkpointed, "BLOCK_BYTES", 3000)
    fill(small_disk, 16 << 10)
    done = call(*command, "--model", str(tmp_path / "m"), "--checkpoint", str(small_disk / "work"), "--force")
    assert done.code == 0
    assert done.err.count("Warning: The checkpoint can't be written: ") == 1
    assert "The training goes on, and tries again later." in done.err
    same_models(tmp_path / "whole", tmp_path / "m")
    assert sorted(entry.name for entry in small_disk.iterdir()) == ["filling"]
