"""``sylvan compress``: a smaller model, its loss on rows, and what its card says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import store


def test_a_smaller_model_and_its_loss(call: Any, files: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "small")
    before = store.saved_bytes(sylvan.load(files.text_model).to_state())  # without what training noted of its file
    words = ["--max-size", str(before + 4000), "--weight-dtype", "uint4", "--rows", files("test.jsonl")]
    outcome = call("compress", files.text_model, "-o", out, *words)
    assert outcome.code == 0
    assert sum(file.stat().st_size for file in os.scandir(out)) <= before + 4000
    head, first, second, change, note = outcome.out.splitlines()
    assert head.split() == ["P@1", "P@3", "P@5"]
    assert first.split()[0] == "before" and second.split()[0] == "after"
    numbers = [[float(word) for word in line.split()[1:]] for line in (first, second, change)]
    assert [b - a for a, b in zip(*numbers[:2], strict=True)] == pytest.approx(numbers[2], abs=0.011)
    assert note == "Measured over 60 rows and all their labels."
    assert "Compressed" in outcome.err and "weights are" in outcome.err
    meta = store.load(out).meta
    assert meta["compressed"]["bytes_before"] == before and meta["compressed"]["max_size"] == before + 4000
    assert 100 * meta["measured"]["measures"]["P"]["1"] == pytest.approx(numbers[1][0], abs=0.01)
    assert 100 * meta["compressed"]["measures_before"]["P"]["1"] == pytest.approx(numbers[0][0], abs=0.01)
    shown = call("inspect", out)
    assert "\nCompressed from " in shown.out and "Measured after training on test.jsonl" in shown.out
    assert json.loads(call("inspect", out, "--json", "-").out)["compressed"] == meta["compressed"]


def test_a_matrix_model_in_four_bits(call: Any, files: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "small")
    outcome = call("compress", files.matrix_model, "--output", out, "-q")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert sylvan.load(out).weight_dtypes() == {"uint4"}
    outcome = call("compress", files.matrix_model, "--output", out, "--weight-dtype", "float16", "-q")
    assert outcome.code == 0 and sylvan.load(out).weight_dtypes() == {"float16"}


def test_a_model_without_weights(call: Any, files: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "n")
    assert call("train", "neighbors", files("train.xmc"), "--model", folder, "-q").code == 0
    outcome = call("compress", folder, "-o", str(tmp_path / "small"))
    assert outcome.code == 2 and "holds a NeighborRanker, which has no weights to prune." in outcome.err
    outcome = call("compress", files.text_model, "-o", str(files.folder))
    assert outcome.code == 2 and "is not empty and is not a Sylvan model" in outcome.err
