"""``sylvan predict --allowed`` and ``--denied``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import data


def answers(outcome: Any) -> list[list[Any]]:
    assert outcome.code == 0, outcome.err
    return [json.loads(line)["labels"] for line in outcome.out.splitlines()]


def test_names_for_a_model_of_text(call: Any, files: Any, tmp_path: Path) -> None:
    few, packed = tmp_path / "few.txt", tmp_path / "few.txt.gz"
    few.write_text("Whaling\r\n\nTürkçe\n", "utf-8")
    packed.write_bytes(gzip.compress(few.read_bytes()))
    model, texts = sylvan.load(files.text_model), data.read_jsonl(files("test.jsonl")).texts
    only = model.rank(texts, k=6, allowed=["Whaling", "Türkçe"]).names
    assert all(set(row) == {"Whaling", "Türkçe"} for row in only)
    for path in (few, packed):
        assert answers(call("predict", files.text_model, files("test.jsonl"), "--allowed", str(path))) == only
    rest = answers(call("predict", files.text_model, files("test.jsonl"), "--denied", "-", stdin=few.read_bytes()))
    assert rest == model.rank(texts, k=6, denied=["Whaling", "Türkçe"]).names


def test_ids_for_a_model_of_matrices(call: Any, files: Any, tmp_path: Path) -> None:
    (tmp_path / "yes").write_text(" 1\n4\n4\n")
    (tmp_path / "no").write_text("4\n")
    words = ("--allowed", str(tmp_path / "yes"), "--denied", str(tmp_path / "no"))
    assert answers(call("predict", files.matrix_model, files("test.xmc"), *words)) == [[1]] * 60


@pytest.mark.parametrize(
    ("text", "content", "sentence"),
    [
        (True, b"Baking\nWailing\n", "line 2: the list holds 'Wailing', but none of the model's 6 labels has"),
        (True, b"\xff\n", "line 1: the label is not UTF-8."),
        (False, b"0\n6\n", "line 2: a label of this model is an id in [0, 5]. Got '6' instead."),
        (False, b"Baking\n", "line 1: a label of this model is an id in [0, 5]. Got 'Baking' instead."),
    ],
)
def test_labels_that_are_not_known(
    text: bool, content: bytes, sentence: str, call: Any, files: Any, tmp_path: Path
) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(content)
    model, name = (files.text_model, "test.jsonl") if text else (files.matrix_model, "test.xmc")
    outcome = call("predict", model, files(name), "--allowed", str(path))
    assert outcome.code != 0 and f"{path}, {sentence}" in outcome.err and outcome.out == ""
