"""Trainings from the command line that are killed, resumed, begun anew, and limited in memory."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from child_processes import python
from processes import same_models

from sylvan import data
from sylvan.cli import app
from sylvan.cli.session import Session
from sylvan.errors import DataError
from sylvan.runtime import checkpointed

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
