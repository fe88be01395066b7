"""The demo, and the commands that it says to try next, on a part of the sample."""

import contextlib
import io
import os
import re
import shutil
from importlib import resources
from pathlib import Path
from typing import Any

import child_processes
import pytest
from kit.books import load_sample

import sylvan
from sylvan import TextModel, data
from sylvan.cli import main

TRAIN, TEST = load_sample()
ROWS = 2000
KNOWN = {label for labels in TRAIN.labels[:ROWS] for label in labels}
TEST_ROWS = [row for row, labels in enumerate(TEST.labels) if KNOWN.issuperset(labels)][:200]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that the demo ran in, where the sample is shorter, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    whole, part = resources.files("sylvan.data"), folder / "part"
    (part / "sample").mkdir(parents=True)
    for name, rows in (("train", range(ROWS)), ("test", TEST_ROWS)):
        records = list(data.read_records(whole / "sample" / f"{name}.jsonl.xz"))
        data.write_records(part / "sample" / f"{name}.jsonl.xz", [records[row] for row in rows])
    said, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        patch.chdir(folder)
        patch.setattr(resources, "files", lambda package: part)
        data.Vocabulary.from_labels([["a model", "of before"]]).save("sylvan-demo")
        assert main(["demo", "--threads", "2"]) == 0
        assert (folder / "sylvan-demo" / "earlier.000001.json").is_file()
    assert errors.getvalue() == ""
    return folder, said.getvalue()


def test_it_says_what_it_does(demo: tuple[Path, str]) -> None:
    folder, out = demo
    for phase in ("Reading", "features", "Indexing", "Matching and ranking", "Saving", "Ranking"):
        assert re.search(rf"^.*{phase}.*\n  .*\d\.\d s$", out, re.MULTILINE), phase
    assert "P " in out and "PSP " in out and "found:" in out and "true:" in out and "in sylvan-demo (" in out
    assert (folder / "sylvan-demo" / "manifest.json").is_file()
    assert "The model stays in the folder sylvan-demo. The model that was there stays: sylvan update" in out
    assert "sylvan-demo --undo goes back to it. To remove it:" in out


def test_its_phases_are_those_of_fit(demo: tuple[Path, str]) -> None:
    """So it is as good as any model of these rows, and says how good."""
    model = TextModel().fit(TRAIN.texts[:ROWS], TRAIN.labels[:ROWS], label_texts=None)
    texts = [TEST.texts[row] for row in TEST_ROWS]
    mine, other = (one.rank(texts, k=3) for one in (model, sylvan.load(demo[0] / "sylvan-demo")))
    assert mine.names == other.names
    right = [names[0] in TEST.labels[row] for names, row in zip(mine.names, TEST_ROWS, strict=True)]
    line = next(line for line in demo[1].split("\n") if line.startswith("P "))
    assert float(line.split()[1]) == pytest.approx(100 * sum(right) / len(right), abs=0.01)


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_the_next_commands_work(demo: tuple[Path, str], call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell gives its words, and what it pipes, to a program that writes them down."""
    folder, out = demo
    commands = [line.strip() for line in out.split("What to try next:")[1].strip().split("\n\n")[0].split("\n")]
    assert len(commands) == 3
    monkeypatch.chdir(folder)
    taken = 'sylvan() { for word in "$@"; do printf "%s\\0" "$word"; done; [ "$1" != predict ] || cat; }\n'
    for command in commands:
        *words, piped = child_processes.run(["sh", "-c", taken + command], text=False).stdout.split(b"\0")
        done = call(*map(os.fsdecode, words), stdin=piped)
        assert [line for line in done.err.splitlines() if not line.startswith("Read ")] == [], command
        assert done.out


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_what_it_leaves_can_be_removed(demo: tuple[Path, str], tmp_path: Path) -> None:
    folder, out = demo
    shutil.copytree(folder / "sylvan-demo", tmp_path / "sylvan-demo")
    command = out.split("To remove it:")[1].strip()
    assert child_processes.run(["sh", "-c", command], cwd=tmp_path).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_another_folder(refused: Any) -> None:
    refused("is a file, not a folder", "demo --model {test.jsonl}")
