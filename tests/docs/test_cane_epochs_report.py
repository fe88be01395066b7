"""The table and the picture of perplexity against epochs: the longest training of each seed counts, once."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="no benchmarks beside these tests")


@pytest.fixture(autouse=True)
def beside_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def run(contender: str, seed: int, *values: float, coverage: float | None = None) -> dict[str, Any]:
    return {
        "task": "language-model", "set": "ptb", "model": "lstm", "hidden": 64, "embedding": 64, "n_layers": 1,
        "batch_size": 40, "contender": contender, "seed": seed, "table_learning_rate": 0.4, "tuned": 100,
        "epochs": len(values), "curve": [{"epoch": at + 1, "perplexity": value} for at, value in enumerate(values)],
        "test": values[-1] - 5, "coverage": coverage,
    }  # fmt: skip


def test_a_longer_training_takes_the_place_of_a_shorter_one(tmp_path: Path) -> None:
    report = importlib.import_module("report_cane_epochs")
    runs = [
        run("nce-40", 0, 160.0, 150.0), run("nce-40", 0, 160.0, 150.0, 140.0), run("nce-40", 1, 162.0, 152.0, 142.0),
        run("full", 0, 150.0, 130.0), run("cane-tree-40", 0, 180.0, coverage=0.6),
    ]  # fmt: skip
    lines = report.table(runs)
    assert lines[3] == "| full softmax, chunked | 0.4 | 1 | 150.0 | 130.0 | – | 125.0 | – |"
    assert lines[4] == "| NCE, 40 unigram | 0.4 | 2 | 161.0 ± 1.4 | 151.0 ± 1.4 | 141.0 ± 1.4 | 136.0 ± 1.4 | – |"
    assert lines[5].endswith("| 0.4 | 1 | 180.0 | – | – | 175.0 | 0.60 |") and len(lines) == 6
    assert report.cane_epochs_section(tmp_path) == []
    about = {"date": "2020-02-02", "machine": {"cpu": "a processor", "cores": 2}}
    (tmp_path / "cane_epochs.json").write_text(json.dumps({**about, "runs": runs}))
    section = report.cane_epochs_section(tmp_path)
    assert lines[4] in section and "after 100 steps" in " ".join(section) and section[-1].startswith("a processor")
    runs.append(run("blackout-40", 0, 160.0, 144.0))
    (tmp_path / "cane_epochs.json").write_text(json.dumps({**about, "runs": runs}))
    assert "one uniform noise, it isn't: +28.7% beside the better rival's perplexity, +40.0%" in " ".join(
        report.cane_epochs_section(tmp_path)
    )
    pytest.importorskip("matplotlib")
    assert [path.suffix for path in report.draw(runs, tmp_path)] == [".png", ".svg"]


def test_rows_are_there_with_as_many_epochs(tmp_path: Path) -> None:
    epochs, records = importlib.import_module("cane_epochs"), importlib.import_module("records")
    rows = epochs.planned(argparse.Namespace(seeds=[0, 1], contenders=["nce-40", "full"]))
    assert [(row["contender"], row["seed"]) for row in rows] == [("nce-40", 0), ("full", 0), ("nce-40", 1), ("full", 1)]
    (tmp_path / "book.json").write_text(json.dumps({"runs": [run("nce-40", 0, 3.0, 2.0), run("nce-40", 0, 3.0)]}))
    book = records.Book(tmp_path / "book.json")
    assert [epochs.longest(row, book) for row in rows] == [2, 0, 0, 0]
    with pytest.raises(SystemExit):
        epochs.command_line(["--part", "language-model", "--contenders", "nce-4"])
