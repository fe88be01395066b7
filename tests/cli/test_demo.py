"""The demo, and the commands that it says to try next."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import child_processes
import pytest
from processes import start
from waiting import PATIENCE

import sylvan
from sylvan import TextModel, data


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, float]:
    """The folder that the demo ran in, what it printed and how many seconds of a processor it took."""
    folder = tmp_path_factory.mktemp("demo")
    before = os.times()
    done = child_processes.python("-m", "sylvan", "demo", "--threads", "2", cwd=folder)
    after = os.times()
    assert (done.returncode, done.stderr) == (0, "")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return folder, done.stdout, used


def test_it_says_what_it_does(demo: tuple[Path, str, float]) -> None:
    folder, out, took = demo
    for phase in ("Reading", "features", "Indexing", "Matching and ranking", "Saving", "Ranking"):
        assert re.search(rf"^.*{phase}.*\n  .*\d\.\d s$", out, re.MULTILINE), phase
    assert "P " in out and "PSP " in out and "found:" in out and "true:" in out and "in sylvan-demo (" in out
    assert (folder / "sylvan-demo" / "manifest.json").is_file()
    assert "The model stays in the folder sylvan-demo. To remove it:" in out
    assert took < 100  # some 30, of two threads


def test_it_is_good(demo: tuple[Path, str, float]) -> None:
    line = next(line for line in demo[1].split("\n") if line.startswith("P "))
    assert float(line.split()[1]) > 40


def test_its_phases_are_those_of_fit(demo: tuple[Path, str, float]) -> None:
    train, test = data.load_sample()
    model = TextModel().fit(train.texts, train.labels)
    mine, other = (one.rank(test.texts, k=3) for one in (model, sylvan.load(demo[0] / "sylvan-demo")))
    assert mine.names == other.names


def test_the_next_commands_work(demo: tuple[Path, str, float]) -> None:
    folder, out, _ = demo
    commands = [line.strip() for line in out.split("What to try next:")[1].strip().split("\n\n")[0].split("\n")]
    assert len(commands) == 3
    python = f"{shlex.quote(sys.executable)} -m sylvan "
    for command in commands:
        shell = re.sub(r"(^|\| )sylvan ", lambda found: found.group(1) + python, command)
        done = child_processes.run(["sh", "-c", shell], cwd=folder)
        said = [line for line in done.stderr.splitlines() if not line.startswith("Read ")]
        assert (done.returncode, said) == (0, []), (command, done.stderr)
        assert done.stdout


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_what_it_leaves_can_be_removed(demo: tuple[Path, str, float], tmp_path: Path) -> None:
    folder, out, _ = demo
    shutil.copytree(folder / "sylvan-demo", tmp_path / "sylvan-demo")
    command = out.split("The model stays in the folder sylvan-demo. To remove it:")[1].strip()
    assert child_processes.run(["sh", "-c", command], cwd=tmp_path).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_another_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    process = start("demo", "--model", str(tmp_path / "file"))
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2 and out == b"" and b"is a file, not a folder" in err
