"""Figures of an evaluation: both formats, the same bytes each time, refused before any work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")


def test_png_and_svg(call: Any, files: Any, tmp_path: Path) -> None:
    png, svg = tmp_path / "result.png", tmp_path / "result.svg"
    plain = call("evaluate", files.text_model, files("test.jsonl"), "-k", "1,2")
    drawn = call(
        "evaluate", files.text_model, files("test.jsonl"), "-k", "1,2", "--figure", str(png), "--figure", str(svg)
    )
    assert drawn == plain, "a deeper ranking for the curves changes no figure"
    assert png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 10_000
    content = svg.read_text("utf-8")
    again = tmp_path / "again.svg"
    words = ["--figure", str(png), "--figure", str(again), "-q"]
    call("evaluate", files.text_model, files("test.jsonl"), "-k", "1,2", *words)
    assert again.read_text("utf-8") == content
    for words in ("Precision and recall", "recall", "Reliability", "Frequent and rare", "text-model on test.jsonl"):
        assert words in content, words


def test_labels_that_the_model_does_not_know_are_drawn_as_missed(call: Any, files: Any, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in Path(files("test.jsonl")).read_text("utf-8").splitlines()]
    rows[0]["labels"].append("Nobody knows this one")
    (tmp_path / "more.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    path = tmp_path / "more.svg"
    outcome = call("evaluate", files.text_model, str(tmp_path / "more.jsonl"), "-q", "--figure", str(path))
    assert outcome.code == 0 and "Reliability" in path.read_text("utf-8"), outcome


def test_an_evaluation_of_a_matrix_model_is_drawn_too(call: Any, files: Any, tmp_path: Path) -> None:
    outcome = call("evaluate", files.matrix_model, files("test.xmc"), "-q", "--figure", str(tmp_path / "m.pdf"))
    assert outcome.code == 0 and (tmp_path / "m.pdf").read_bytes().startswith(b"%PDF")


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
