"""``sylvan ensemble``: joining saved models."""

from __future__ import annotations

from pathlib import Path

import pytest

from sylvan import load
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--weights", "1,x"], "--weights takes numbers"),
        (["--weights", "1"], "names 1 weights for 2 members"),
        (["--weights", "1,1", "--fit-weights", "dev.jsonl"], "exclude each other"),
    ],
)
def test_errors_are_sentences(
    files: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    model = files.text_model  # type: ignore[attr-defined]
    assert main(["ensemble", model, model, "--model", str(tmp_path / "both"), *options]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "both").exists()
