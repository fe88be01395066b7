"""``sylvan ensemble``: joining saved models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sylvan import data, load
from sylvan.cli import main


@pytest.mark.parametrize("dev", ["test.jsonl", "test.xmc"])
def test_weights_are_given_or_fitted(files: object, tmp_path: Path, dev: str) -> None:
    model = files.text_model if dev.endswith("jsonl") else files.matrix_model  # type: ignore[attr-defined]
    out = str(tmp_path / "both")
    assert main(["ensemble", model, model, "--model", out, "--weights", "3,1", "-q"]) == 0
    assert load(out).weights_.tolist() == [0.75, 0.25]
    assert main(["ensemble", model, model, "--model", out, "--fit-weights", files(dev), "-q"]) == 0  # type: ignore[operator]
    assert load(out).weights_.sum() == pytest.approx(1)
    answers = str(tmp_path / "answers.jsonl")
    assert main(["predict", out, files(dev), "-o", answers, "-q"]) == 0  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["text", "matrix", "npz"])
def test_probabilities_and_slices_of_a_joined_model(files: Any, call: Any, tmp_path: Path, kind: str) -> None:
    model = files.text_model if kind == "text" else files.matrix_model
    dev = {"text": "test.jsonl", "matrix": "test.xmc", "npz": "X.test.npz"}[kind]
    labels = ("--labels", files("Y.test.npz")) if kind == "npz" else ()
    out = str(tmp_path / "both")
    plain = call("ensemble", model, model, "--model", out, "--weights", "3,1")
    assert plain.code == 0 and "are not calibrated: --calibrate FILE does it" in plain.err
    before = json.loads(call("evaluate", out, files(dev), *labels, "--json", "-").out)
    alone = json.loads(call("evaluate", model, files(dev), *labels, "--json", "-").out)
    assert before["slices"] == alone["slices"] and before["slices"]["tail"]["labels"] > 0
    assert before["measures"]["PSP"] == pytest.approx(alone["measures"]["PSP"])
    assert "ECE cal." not in before["measures"]
    done = call("ensemble", model, model, "--model", out, "--weights", "3,1", "--calibrate", files(dev), *labels)
    assert done.code == 0 and f"calibrated on {files(dev)}." in done.err, done.err
    assert load(out).weights_.tolist() == [0.75, 0.25] and load(out).calibrator_ is not None
    after = json.loads(call("evaluate", out, files(dev), *labels, "--json", "-").out)
    assert after["measures"]["P"] == before["measures"]["P"]
    assert after["measures"]["ECE cal."]["1"] < before["measures"]["ECE"]["1"]
    chosen = call("predict", out, files(dev), "--threshold", "0.5")
    assert chosen.code == 0 and chosen.err.startswith("Read ") and '"probabilities"' in chosen.out


def test_platt_and_too_few_rows(files: Any, call: Any, tmp_path: Path) -> None:
    words = ["ensemble", files.text_model, "--model", str(tmp_path / "one"), "--calibrate"]
    assert call(*words, files("test.jsonl"), "--calibration", "platt", "-q").code == 0
    assert load(tmp_path / "one").calibrator_.method == "platt"
    data.write_jsonl(tmp_path / "few.jsonl", ["bread flour"], [["Baking"]])
    few = call(*words, str(tmp_path / "few.jsonl"))
    assert few.code == 0 and "few.jsonl gives too few right or wrong answers (30 of each)" in few.err
    assert load(tmp_path / "one").calibrator_ is None
    bare = call("ensemble", files.matrix_model, "--model", str(tmp_path / "m"), "--calibrate", files("X.test.npz"))
    assert bare.code == 2 and "holds no labels: give them with --labels Y.npz" in bare.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--weights", "1,x"], "--weights takes numbers"),
        (["--weights", "1"], "names 1 weight for 2 members"),
        (["--weights", "1,1", "--fit-weights", "dev.jsonl"], "exclude each other"),
        (["--calibrate", "a", "--fit-weights", "b", "--labels", "c"], "--labels is for one file"),
    ],
)
def test_errors_are_sentences(
    files: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    model = files.text_model  # type: ignore[attr-defined]
    assert main(["ensemble", model, model, "--model", str(tmp_path / "both"), *options]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "both").exists()
