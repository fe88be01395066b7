"""Figures of an evaluation: both formats, the same bytes each time, refused before any work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")


def test_png_and_svg(call: Any, files: Any, tmp_path: Path) -> None:
    png, svg = tmp_path / "result.png", tmp_path / "result.svg"
    words = ("evaluate", files.text_model, files("test.jsonl"), "-k", "1,2")
    drawn = call(*words, "--figure", str(png), "--figure", str(svg))
    assert drawn == call(*words), "a deeper ranking for the curves changes no figure"
    assert png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 10_000
    content = svg.read_text("utf-8")
    again = tmp_path / "again.svg"
    call(*words, "--figure", str(png), "--figure", str(again), "-q")
    assert again.read_text("utf-8") == content
    for words in ("Precision and recall", "recall", "Reliability", "Frequent and rare", "text-model on test.jsonl"):
        assert words in content, words


def test_labels_that_the_model_does_not_know_are_drawn_as_missed(call: Any, files: Any, tmp_path: Path) -> None:
    """Of a model over matrices, as a PDF."""
    first, row, *rows = Path(files("test.xmc")).read_text().splitlines()
    n, d, labels = first.split()
    (tmp_path / "more.xmc").write_text("\n".join([f"{n} {d} {int(labels) + 1}", f"{labels},{row}", *rows]) + "\n")
    path = tmp_path / "m.pdf"
    outcome = call("evaluate", files.matrix_model, str(tmp_path / "more.xmc"), "-q", "--figure", str(path))
    assert outcome.code == 0 and path.read_bytes().startswith(b"%PDF"), outcome


WRONG = {
    "another format": ("{tmp}/result.bmp", "--figure takes a .png, .svg or .pdf file"),
    "no format": ("{tmp}/result", "--figure takes"),
    "no such folder": ("{tmp}/nowhere/result.png", "There is no folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_figures(call: Any, files: Any, tmp_path: Path, case: str) -> None:
    path, piece = WRONG[case]
    outcome = call("evaluate", files.text_model, files("test.jsonl"), "--figure", path.format(tmp=tmp_path))
    assert outcome.code == 2 and outcome.out == "" and piece in outcome.err, outcome


def test_without_matplotlib(call: Any, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = call("evaluate", files.text_model, files("test.jsonl"), "--figure", str(tmp_path / "r.png"))
    assert outcome.code == 2 and 'pip install "sylvan[plot]"' in outcome.err
    assert list(tmp_path.iterdir()) == []
