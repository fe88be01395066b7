"""Trainings that are killed, resumed, begun anew and limited in memory, and disks without room: no model is lost."""

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
from kit.bits import same_models
from kit.errors import raises
from kit.watching import stopped

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
TREE = "--set branching=2 --set max_leaf=1"
TRAIN = f"train xr-linear {{train.jsonl}} {TREE}"
WORK = Path("m.training")


def ended(number: int, by: int, files: Any, words: str) -> subprocess.CompletedProcess[bytes]:
    """A training that ends so, before it writes that part."""
    return python("-c", CHILD, str(number), str(by), *words.replace("{", f"{files.folder}/").replace("}", "").split(),
                  text=False)  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")
def test_killed_then_interrupted_then_resumed(files: Any, call: Any, refused: Any, in_folder: Path) -> None:
    call(f"{TRAIN} --model whole -q")
    assert [path.name for path in in_folder.iterdir()] == ["whole"]
    train = f"{TRAIN} --model m"
    killed = ended(2, signal.SIGKILL, files, train)
    assert killed.returncode == -signal.SIGKILL and WORK.is_dir() and not Path("m").exists()
    undecided = "An interrupted training lies in 'm.training': --resume goes on with it, --no-resume starts over."
    assert refused(undecided, train) == f"Error: {undecided}\n"
    interrupted = ended(1, signal.SIGINT, files, f"{train} --resume")
    assert interrupted.returncode == 1
    assert interrupted.stderr.decode().strip().splitlines()[-1] == (
        "Interrupted; what is trained so far lies in 'm.training': the same command with --resume goes on from there."
    )
    refused("is of another training: the parameter 'seed' was 0 and is 3", f"{train} --resume --seed 3")
    assert "nothing to resume" not in call(f"{train} --resume --threads 2").out
    same_models("m", "whole")
    assert not WORK.exists()
    again = "There is nothing to resume in m.training: training from the beginning."
    assert again in call(f"{train} --resume").out


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small trainings write checkpoints of several parts."""
    monkeypatch.setattr(linear, "LEAST_COST", 1)
    monkeypatch.setattr(checkpointed, "BLOCK_BYTES", 3000)


def test_begun_anew(call: Any, parts: None, in_folder: Path) -> None:
    train = f"train xr-linear {{train.xmc}} {TREE} --model m --checkpoint work"
    with stopped(store, "save", 4):
        call(train)
    assert Path("work").is_dir()
    call(f"{train} --seed 3 --no-resume -q")
    assert [path.name for path in in_folder.iterdir()] == ["m"]


@pytest.mark.parametrize(("model", "work"), [("work/m", "work"), ("m", "m/work"), ("m", "m"), ("m", "./m/../m/")])
def test_a_checkpoint_and_a_model_in_each_other_are_refused(model: str, work: str, refused: Any) -> None:
    """The checkpoint is removed once the model is saved, and no model is saved to a folder that holds other things."""
    refused("must not lie in each other", f"{TRAIN} --model {model} --checkpoint {work}")


def test_the_current_folder_as_the_model(call: Any, in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    (in_folder / "m").mkdir()
    monkeypatch.chdir("m")
    call(f"{TRAIN} --model . -q")
    assert isinstance(sylvan.load("."), TextModel) and [path.name for path in in_folder.iterdir()] == ["m"]


def test_within_a_limit(call: Any, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    call(f"{TRAIN} --model whole -q")
    call(f"{TRAIN} --model limited -q --memory-limit 40GB")
    same_models("limited", "whole")
    refused("--memory-limit is 1.0 MB, but ", f"{TRAIN} --model none -q --memory-limit 1MB", code=1)
    refused("The '--memory-limit' parameter must be a number of bytes", f"{TRAIN} --model none --memory-limit much")
    refused("The checkpoint '/dev/null/work' can't be made", f"{TRAIN} --model none -q --checkpoint /dev/null/work")


def test_a_mapped_matrix(files: Any, call: Any, refused: Any) -> None:
    for name in ("X", "Y"):
        data.save_csr(name, data.load_npz(files(f"{name}.train.npz")))
    for name, given in (("mapped", "X --labels Y"), ("read", "{X.train.npz} --labels {Y.train.npz}")):
        assert "Read 240 rows" in call(f"train xr-linear {given} {TREE} --model {name}").err
    same_models("mapped", "read")
    assert "240 rows" in call("evaluate mapped X --labels Y").out
    refused("is a CSR matrix in a folder of .npy files and holds no labels", "train xr-linear X --model none")


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


@pytest.mark.parametrize("rows", ["{train.jsonl}", "{X.train.npz} --labels {Y.train.npz}"])
def test_no_room_is_said_before_the_training(rows: str, call: Any, free: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    train = f"train xr-linear {rows} --model m"
    free(1000)
    with monkeypatch.context() as without:
        without.setattr(TextModel, "fit", None)
        without.setattr(XRLinear, "fit", None)  # it never comes to this
        # The options of working() look at its signature.
        without.setattr("sylvan.cli.train.working", lambda session, model, given: (None, {}))
        done = call(train, code=1)
    assert not Path("m").exists()
    assert "Error: The disk has no room for this training: it would write the model in" in done.err
    assert "but only 1 kB is free there" in done.err
    read, sentence = done.err.splitlines()
    assert read.startswith("Read 240 rows") and "--force" in sentence
    call(f"{train} --force")
    free(1 << 30)
    call(train)


def test_what_is_not_estimated_is_trained(call: Any, free: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is plenty of room, and models that can't be estimated."""
    free(10)
    call("train neighbors {train.jsonl} --model m")
    free(1 << 40)
    monkeypatch.setattr(TextModel, "plan", None)
    call("train xr-linear {train.jsonl} --model m")
    free(1 << 20)
    call("train xr-linear {train.jsonl} --model m", code=1)


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


SEA = "train xr-linear {train.jsonl} --force --model disk/m"


@pytest.mark.parametrize(
    "train", [SEA, "train ensemble {train.jsonl} --set member0__model=xr-linear --model disk/m"], ids=["one", "several"]
)
def test_a_model_that_finds_its_disk_full_is_saved_on_another(
    train: str, call: Any, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path("other").absolute()
    other.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(other))
    fill(small_disk, 4096)
    said = call(train, code=1).err
    (saved,) = other.glob("sylvan-*/m")
    assert "No space left on device" in said and "--resume" not in said
    assert f"It is in {str(saved)!r} instead, whole: move it to where there is room." in said
    assert sylvan.load(saved).rank(["bread and flour"], k=1).names == [["Baking"]]
    assert [entry.name for entry in small_disk.iterdir()] == ["filling"]


def test_nowhere_to_go(call: Any, small_disk: Path, parts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the checkpoint, if there is one, is what remains."""
    monkeypatch.setattr(cli_models, "disk_of", lambda folder: 1)  # all is one disk
    fill(small_disk, 4096)
    train = f"{SEA} {TREE} --checkpoint work"
    said = call(train, code=1).err
    assert "No space left on device" in said and " instead, whole" not in said
    assert "But what is trained so far lies in 'work': the same command with --resume goes on" in said
    (small_disk / "filling").unlink()
    call(f"{train} --resume")
    assert not Path("work").exists()
    assert sylvan.load(small_disk / "m").rank(["bread and flour"], k=1).names == [["Baking"]]


def test_another_fault_of_saving_is_said_as_ever(call: Any, in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise ModelError("It isn't to be.") from OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(store, "save", refuse)
    said = call("train xr-linear {train.jsonl} --model m", code=2).err
    assert "It isn't to be." in said and "instead, whole" not in said and list(in_folder.iterdir()) == []


def test_a_training_outlives_a_checkpoint_that_finds_its_disk_full(
    call: Any, small_disk: Path, request: pytest.FixtureRequest
) -> None:
    call(f"{TRAIN} --model whole")
    request.getfixturevalue("parts")
    fill(small_disk, 16 << 10)
    said = call(f"{TRAIN} --model m --checkpoint disk/work --force").err
    assert said.count("Warning: The checkpoint can't be written: ") == 1
    assert "The training goes on, and tries again later." in said
    same_models("whole", "m")
    assert [entry.name for entry in small_disk.iterdir()] == ["filling"]
