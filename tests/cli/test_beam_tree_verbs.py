"""``sylvan train beam-tree`` and ``lexical``, ``compress``, and the other verbs on what they saved."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.topics import WORDS, write_topics

import sylvan
from sylvan import LabelTree, data, store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of one label each, and the same as matrices."""
    place = tmp_path_factory.mktemp("classes")
    names = sorted(WORDS)
    for part, (texts, labels) in write_topics(place, names, train=120, test=30).items():
        X = np.array([[words.count(word) for word in " ".join(WORDS.values()).split()] for words in texts])
        data.save_npz(place / f"X.{part}.npz", X)
        data.save_npz(place / f"Y.{part}.npz", data.Vocabulary(names).encode(labels))
    return place


@pytest.fixture(scope="module")
def saved(folder: Path) -> str:
    from sylvan.cli import main

    words = ["train", "beam-tree", str(folder / "train.jsonl"), "--model", str(folder / "m"), "--seed", "3", "-q"]
    assert main([*words, "--threads", "1", "--set", "branching=3", "--test", str(folder / "test.jsonl")]) == 0
    return str(folder / "m")


def test_training_and_asking(call: Any, folder: Path, saved: str) -> None:
    model = sylvan.load(saved).model
    assert (model.branching, model.seed, model.tree_.depth) == (3, 3, 2)
    for more in ((), ("--set", "beam=1"), ("--proba",)):
        outcome = call("predict", saved, str(folder / "test.jsonl"), "-k", "2", *more)
        assert outcome.code == 0 and "not calibrated" not in outcome.err, outcome.err
        first = json.loads(outcome.out.splitlines()[0])
        assert len(first["labels"]) == 2
    assert 0 < first["probabilities"][0] <= 1
    sure = call("predict", saved, str(folder / "test.jsonl"), "--threshold", "0.5")
    assert [len(json.loads(line)["labels"]) for line in sure.out.splitlines()].count(1) > 25
    evaluated = call("evaluate", saved, str(folder / "test.jsonl"))
    assert evaluated.code == 0 and "100.00" in evaluated.out, evaluated.err


def test_looking_at_it(call: Any, folder: Path, saved: str) -> None:
    shown = call("inspect", saved)
    assert shown.code == 0, shown.err
    for words in ("BeamTreeClassifier", "depth 2: 2 > 6", "branching", "test.jsonl"):
        assert words in shown.out
    card = json.loads(call("inspect", saved, "--json", "-").out)
    layers = card["trees"][0]["layers"]
    assert [layer["n_nodes"] for layer in layers] == [2, 6] and layers[1]["n_weights"] > 6 * 30
    explained = call("explain", saved, "-", "--label", "Whaling", stdin=b"whales and a harpoon")
    assert explained.code == 0 and "Whaling" in explained.out, explained.err


def test_matrices_and_trees(call: Any, folder: Path, tmp_path: Path) -> None:
    LabelTree.random(6, branching=2, max_leaf=2).save(tmp_path / "tree")
    words = ("train", "beam-tree", str(folder / "X.train.npz"), "--labels", str(folder / "Y.train.npz"), "--model")
    outcome = call(*words, str(tmp_path / "m"), "--tree", str(tmp_path / "tree"), "--set", "class_weight=balanced")
    assert outcome.code == 0, outcome.err
    model = sylvan.load(tmp_path / "m")
    assert model.tree_ == sylvan.load(tmp_path / "tree") and model.class_weight == "balanced"
    top = call("predict", str(tmp_path / "m"), str(folder / "X.test.npz"), "-k", "1")
    Y = data.load_npz(folder / "Y.test.npz")
    assert [json.loads(line)["labels"][0] for line in top.out.splitlines()] == Y.indices.tolist()
    assert call(*words, str(tmp_path / "n"), "--set", "tree=random").code == 0
    assert sylvan.load(tmp_path / "n").tree == "random"


def test_a_plan(call: Any, folder: Path, tmp_path: Path) -> None:
    outcome = call("plan", "beam-tree", str(folder / "train.jsonl"))
    assert outcome.code == 0 and "learning rate" in outcome.out and "saved model" in outcome.out, outcome.err
    (tmp_path / "run.toml").write_text('[parameters]\nlearning_rate = "auto"\ntree = "kmeans"\n')
    words = ("train", "beam-tree", str(folder / "train.jsonl"), "--model", str(tmp_path / "m"))
    assert call(*words, "--config", str(tmp_path / "run.toml"), "--force").code == 0


TEXTS = ["Whale hunting in the south seas", "On the baking of bread", "Verses of the sea"]
LABELS = [["n1"], ["n2"], ["n3"]]
SUBJECTS = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<urn:x:1> a skos:Concept ; skos:prefLabel "whaling"@en ; skos:altLabel "whale hunting"@en .
<urn:x:2> a skos:Concept ; skos:prefLabel "bread"@en .
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    data.write_jsonl(tmp_path / "rows.jsonl", TEXTS, LABELS)
    (tmp_path / "names.tsv").write_text("n1\twhaling\twhale hunting\nn2\tbread baking\nn3\tverse\nn4\tsteam engines\n")
    return tmp_path


def test_rows_and_words(call: Any, place: Path) -> None:
    model = str(place / "m")
    options = ("--label-texts", str(place / "names.tsv"), "--set", "stem=en", "--threads", "1")
    outcome = call("train", "lexical", str(place / "rows.jsonl"), "--model", model, *options)
    assert outcome.code == 0 and "Trained LexicalMatcher with 4 labels" in outcome.out, outcome.err
    (place / "new.jsonl").write_text(json.dumps({"text": "A steam engine"}) + "\n")
    outcome = call("predict", model, str(place / "new.jsonl"), "-k", "1")
    assert outcome.code == 0 and "n4" in outcome.out
    explained = call("explain", model, "--text", "Steam engines", "--label", "n4")
    assert "The preferred form 'steam engines' stands there once" in explained.out.replace("\n", " ")
    assert call("inspect", model).code == 0
    (place / "more.csv").write_text("uri,label\nn5,airships\n")
    outcome = call("update", model, "--label-texts", str(place / "more.csv"))
    assert (outcome.code, outcome.err) == (0, f"Updated {model}: 1 label added, 1 described.\n")
    (place / "ids.txt").write_text("0\n")
    outcome = call("update", model, "--forget", str(place / "ids.txt"))
    assert outcome.code != 0 and "it stores no rows for 'forget'" in outcome.err


@pytest.mark.parametrize("form", ["ttl", "csv", "jsonl", "tsv"])
def test_words_alone(call: Any, tmp_path: Path, form: str) -> None:
    contents = {
        "ttl": SUBJECTS, "csv": "uri,label,alternative\nurn:x:1,whaling,whale hunting\nurn:x:2,bread,\n",
        "jsonl": '{"uri": "urn:x:1", "label": ["whaling", "whale hunting"]}\n{"uri": "urn:x:2", "label": "bread"}\n',
        "tsv": "urn:x:1\twhaling\twhale hunting\nurn:x:2\tbread\n",
    }  # fmt: skip
    if form == "ttl":
        pytest.importorskip("rdflib")
    path = tmp_path / f"subjects.{form}"
    path.write_text(contents[form])
    outcome = call("train", "lexical", "--label-texts", str(path), "--model", str(tmp_path / "m"))
    assert (outcome.code, outcome.err) == (0, ""), outcome.err
    assert outcome.out.startswith("LexicalMatcher knows 2 labels by their texts alone. Saved it in")
    assert sylvan.load(tmp_path / "m").rank(["Whale hunting"], k=1).names == [["urn:x:1"]]


def test_a_vocabulary_is_texts_to_other_models_too(call: Any, place: Path) -> None:
    (place / "subjects.csv").write_text("uri,label,alternative\nn1,whaling,whale hunting|whales\nn9,steam engines,\n")
    arguments = ("--label-texts", str(place / "subjects.csv"), "--model", str(place / "m"), "--set", "unlearned=answer")
    outcome = call("train", "xr-linear", str(place / "rows.jsonl"), *arguments, "-q")
    assert (outcome.code, outcome.err) == (0, "")
    assert "n9" in sylvan.load(place / "m").vocabulary_


def test_a_member_of_an_ensemble(call: Any, place: Path) -> None:
    data.write_jsonl(place / "more.jsonl", TEXTS * 8, [["whale"], ["bread"], ["verses"]] * 8)
    members = ("--set", "member0__model=xr-linear", "--set", "member1__model=lexical", "--set", "member1__n_trees=3")
    outcome = call("train", "ensemble", str(place / "more.jsonl"), "--model", str(place / "m"), *members, "-q")
    assert (outcome.code, outcome.err) == (0, "")
    model = sylvan.load(place / "m")
    assert [type(member).__name__ for member in model.members] == ["TextModel", "LexicalMatcher"]
    assert model.rank(["bread and wine"], k=1).names == [["bread"]]


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
