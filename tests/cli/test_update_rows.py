"""``sylvan update`` with rows: learned, forgotten, merged, planned, noted, undone, and refused without a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kit.bits import bits

import sylvan

WORDS = {"Whaling": "whale sea ship", "Baking": "bread cake oven", "Boats, small": "sail oar ship"}


def write(path: Path, labels: list[str], n: int = 12) -> str:
    """JSON lines of texts that say their label."""
    rows = [{"text": f"{WORDS.get(label, label.lower())} {i}", "labels": [label]} for i in range(n) for label in labels]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def trained(call: Any, tmp_path: Path) -> str:
    rows, folder = write(tmp_path / "train.jsonl", list(WORDS)), str(tmp_path / "m")
    assert call("train", "xr-linear", rows, "--model", folder, "--set", "keep_rows=true", "-q").code == 0
    return folder


def test_rows_are_learned_and_forgotten(call: Any, trained: str, tmp_path: Path) -> None:
    new = write(tmp_path / "new.jsonl", ["Railways", "Baking"], 3)
    before = bits(Path(trained))
    planned = call("update", trained, new, "--plan")
    assert planned.code == 0 and planned.out.startswith(f"Would update {trained}: 6 rows learned. Nodes that would be")
    assert bits(Path(trained)) == before
    outcome = call("update", trained, new)
    assert outcome.code == 0 and outcome.err.startswith(f"Read 6 rows from {new}: JSON lines of text")
    assert outcome.err.endswith(f"\nUpdated {trained}: 6 rows learned, 1 label added.\n")
    assert sylvan.load(trained).rank(["railways"], k=1).names == [["Railways"]]
    shown = call("inspect", trained).out
    assert ": 6 rows learned, 1 label added.\n" in shown and "Keeps its 42 rows for updates" in shown
    (tmp_path / "ids").write_text("0\n5\n5\n")
    outcome = call("update", trained, "--forget", str(tmp_path / "ids"), "--merge", "Boats, small=Whaling", "--precise")
    assert outcome.err == f"Updated {trained}: 2 rows forgotten, 1 label merged.\n"
    model = sylvan.load(trained)
    assert model.model.row_ids_.tolist() == [1, 2, 3, 4, *range(6, 42)]
    assert model.rank(["sail and oar"], k=1).names == [["Whaling"]]
    assert call("update", trained, "--undo").code == 0
    assert len(sylvan.load(trained).model.row_ids_) == 42
    assert json.loads(call("inspect", trained, "--json", "-").out)["living"]["n_rows"] == 42


def test_rows_are_given_again(call: Any, trained: str, tmp_path: Path) -> None:
    new, rows, folder = write(tmp_path / "new.jsonl", ["Railways"], 3), str(tmp_path / "train.jsonl"), tmp_path / "n"
    assert call("train", "xr-linear", rows, "--model", str(folder), "-q").code == 0
    refused = call("update", str(folder), write(tmp_path / "known.jsonl", ["Whaling"], 3))
    assert refused.code == 2 and "keeps no rows" in refused.err
    learned = call("update", str(folder), new)
    assert learned.code == 0 and "\nNote: This XRLinear keeps no rows: known labels (3) learn" in learned.err
    assert call("update", str(folder), "--undo", "-q").code == 0
    assert call("update", str(folder), new, "--rows", rows, "-q").code == 0
    assert sylvan.load(folder).model.n_rows_ == 39


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["{folder}/none.jsonl"], "none.jsonl"),
        (["--forget", "{folder}/bad"], "line 2: 'x' is no id of a row"),
        (["--forget", "{folder}/empty"], "names no row"),
        (["--forget", "{folder}/far"], r"numbered in [0, 35]"),
        (["--merge", "Whaling"], "--merge takes A,B=C"),
        (["--merge", "Nothing=Whaling"], "--merge takes A,B=C"),
        (["--merge", "Whaling=Whaling"], "can't be merged with itself"),
        (["--merge", "Baking=Whaling", "--merge", "Boats, small=Whaling"], "gives 'Whaling' twice"),
        (["{folder}/train.jsonl", "--rows", "{folder}/train.jsonl"], "keeps its rows"),
        (["{folder}/train.jsonl", "--undo"], "--undo goes alone"),
    ],
)
def test_what_can_not_be_done_changes_nothing(
    call: Any, trained: str, tmp_path: Path, words: list[str], why: str
) -> None:
    for name, text in (("bad", "1\nx\n"), ("empty", ""), ("far", "36\n")):
        (tmp_path / name).write_text(text)
    before = bits(Path(trained))
    outcome = call("update", trained, *(word.format(folder=tmp_path) for word in words))
    assert outcome.code == 2 and why in outcome.err and "Traceback" not in outcome.err
    assert bits(Path(trained)) == before


def test_buckets_learn_with_known_rows_beside(call: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    rows, folder = write(tmp_path / "train.jsonl", list(WORDS)), str(tmp_path / "m")
    new = write(tmp_path / "new.jsonl", ["Railways"], 6)
    small = ("n_buckets=4", "n_repetitions=4", "hidden=16", "rounds=0", "batch_size=4", "learning_rate=0.01")
    options = [word for value in small for word in ("--set", value)]
    assert call("train", "irli", rows, "--model", folder, *options, "-q").code == 0
    before = bits(Path(folder))
    refused = call("update", folder, new, "--rows", rows, "--precise")
    assert refused.code == 2 and "takes no 'precise'" in refused.err
    planned = call("update", folder, new, "--rows", rows, "--plan").out
    assert "shown to the networks, 8 times: 6 new ones and 36 known ones; about" in planned
    assert bits(Path(folder)) == before
    learned = call("update", folder, new, "--rows", rows)
    assert learned.code == 0 and learned.err.endswith(f"\nUpdated {folder}: 6 rows learned, 1 label added.\n")
    assert sylvan.load(folder).rank(["railways", "bread"], k=1).names == [["Railways"], ["Baking"]]
    assert ": 6 rows learned, 1 label added.\n" in call("inspect", folder).out
    assert call("update", folder, "--undo", "-q").code == 0
    alone = call("update", folder, new)
    assert alone.code == 0 and "Note: This IRLIClassifier has learned new labels (1) from rows (6)" in alone.err
    (tmp_path / "ids").write_text("0\n")
    assert "can't forget rows" in call("update", folder, "--forget", str(tmp_path / "ids")).err
