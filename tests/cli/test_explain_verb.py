"""``sylvan explain``: rows, texts and labels as they are typed, its three outputs, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import data


def test_a_text_and_a_label(call: Any, files: Any) -> None:
    outcome = call("explain", files.text_model, "--text", "bread and flour", "--label", "Baking", "--features", "1")
    assert outcome.code == 0 and outcome.err == "", outcome.err
    model = sylvan.load(files.text_model)
    assert outcome.out == model.explain("bread and flour", "Baking", top=1).text(100) + "\n"


def test_the_best_answers_without_a_label(call: Any, files: Any) -> None:
    texts = data.read_jsonl(files("test.jsonl")).texts
    outcome = call("explain", files.text_model, files("test.jsonl"), "--row", "7", "-k", "2", "--json", "-")
    found = json.loads(outcome.out)
    model = sylvan.load(files.text_model)
    assert [one["name"] for one in found] == model.rank([texts[7]], k=2).names[0]
    assert [one["place"] for one in found] == [1, 2] and found[0]["excerpt"] == texts[7]
    piped = call("explain", files.text_model, "--json", "-", "-k", "2", stdin=texts[7].encode())
    assert json.loads(piped.out) == found


@pytest.mark.parametrize("name", ["test.xmc", "X.test.npy"])
def test_rows_of_matrices(name: str, call: Any, files: Any) -> None:
    outcome = call("explain", files.matrix_model, files(name), "--row", "5", "--label", "3", "--json", "-")
    assert outcome.code == 0, outcome.err
    X = data.load_npz(files("X.test.npz"))
    expected = sylvan.load(files.matrix_model).explain(X[5], 3, top=5).to_dict()
    (found,) = json.loads(outcome.out)
    assert found["place"] == expected["place"] and found["score"] == pytest.approx(expected["score"], rel=1e-5)


def test_names_for_matrices(call: Any, files: Any, tmp_path: Path) -> None:
    model = sylvan.load(files.text_model)
    terms, names = tmp_path / "terms.txt", tmp_path / "names.txt"
    terms.write_text("\n".join(model.vectorizer.get_feature_names_out()), "utf-8")
    names.write_text("\n".join(model.vocabulary_) + "\n", "utf-8")
    words = ("--feature-names", str(terms), "--label-names", str(names))
    for label in ("Baking", str(model.vocabulary_.id("Baking"))):
        outcome = call("explain", files.matrix_model, files("X.test.npz"), "--label", label, *words)
        assert outcome.code == 0 and outcome.out.startswith("Baking: "), outcome.err
        assert any(f"  {word}  (" in outcome.out for word in ("bread", "flour", "oven", "cakes", "yeast", "the", "and"))


def test_examples_and_a_page(call: Any, files: Any, tmp_path: Path) -> None:
    page = tmp_path / "why.html"
    words = ("--examples", files("train.jsonl"), "--neighbors", "2", "--html", str(page))
    outcome = call("explain", files.text_model, "--text", "bread and flour", "--label", "Baking", *words)
    train = data.read_jsonl(files("train.jsonl"))
    expected = sylvan.load(files.text_model).explain(
        "bread and flour", "Baking", 5, examples=(train.texts, train.labels), n_examples=2
    )
    assert len(expected.examples) == 2 and outcome.out == expected.text(100) + "\n"
    assert page.read_text("utf-8") == expected.html()
    outcome = call(
        "explain", files.matrix_model, files("X.test.npz"), "--label", "1", "--examples", files("X.train.npz"),
        "--labels", files("Y.train.npz"), "--json", str(tmp_path / "why.json"),
    )  # fmt: skip
    assert outcome.code == 0 and "Nearest training rows" in outcome.out, outcome.err
    assert len(json.loads((tmp_path / "why.json").read_text("utf-8"))[0]["examples"]) == 3


def test_a_saved_model_of_neighbors_as_examples(call: Any, files: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "neighbors")
    assert call("train", "neighbors", files("train.jsonl"), "--model", folder, "-q").code == 0
    words = ("explain", files.text_model, "--text", "bread and flour", "--label", "Baking", "--json", "-", "--examples")
    slow, fast = (json.loads(call(*words, path).out)[0]["examples"] for path in (files("train.jsonl"), folder))
    assert [one["row"] for one in fast] == [one["row"] for one in slow] and len(fast) == 3
    outcome = call("explain", folder, "--text", "bread and flour", "-k", "1")
    assert "of the 30 nearest training rows have this label" in outcome.out, outcome.err
    outcome = call(*words, files.text_model)
    assert outcome.code == 2 and "examples must be a NeighborRanker or hold one. Got XRLinear" in outcome.err


def test_a_wider_beam(call: Any, files: Any) -> None:
    words = ("explain", files.text_model, "--text", "bread", "--label", "Baking", "--json", "-")
    assert json.loads(call(*words, "--set", "beam=33").out)[0]["trees"][0]["beam"] == 33
