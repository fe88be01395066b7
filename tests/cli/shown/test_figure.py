"""Figures of an evaluation: both formats, the same bytes each time, refused before any work."""

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")


def test_png_and_svg(call: Any) -> None:
    evaluate = "evaluate {text-model} {test.jsonl} -k 1,2"
    drawn = call(f"{evaluate} --figure result.png --figure result.svg")
    assert drawn == call(evaluate), "a deeper ranking for the curves changes no figure"
    png, svg = Path("result.png").read_bytes(), Path("result.svg").read_text("utf-8")
    assert png.startswith(b"\x89PNG") and len(png) > 10_000
    call(f"{evaluate} --figure again.svg -q")
    assert Path("again.svg").read_text("utf-8") == svg
    for words in ("Precision and recall", "recall", "Reliability", "Frequent and rare", "text-model on test.jsonl"):
        assert words in svg, words


def test_labels_that_the_model_does_not_know_are_drawn_as_missed(call: Any, files: Any) -> None:
    """Of a model over matrices, as a PDF."""
    first, row, *rows = Path(files("test.xmc")).read_text().splitlines()
    n, d, labels = first.split()
    Path("more.xmc").write_text("\n".join([f"{n} {d} {int(labels) + 1}", f"{labels},{row}", *rows]) + "\n")
    call("evaluate {matrix-model} more.xmc -q --figure m.pdf")
    assert Path("m.pdf").read_bytes().startswith(b"%PDF")


def test_without_matplotlib(refused: Any, in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused('pip install "sylvan[plot]"', "evaluate {text-model} {test.jsonl} --figure r.png")
    assert list(in_folder.iterdir()) == []
