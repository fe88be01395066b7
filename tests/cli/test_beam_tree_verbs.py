"""``sylvan train beam-tree`` and ``lexical``, ``compress``, and the other verbs on what they saved."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.topics import WORDS, write_topics

import sylvan
from sylvan import LabelTree, data, store
from sylvan.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of one label each, the same as matrices, and a model."""
    place = tmp_path_factory.mktemp("classes")
    names = sorted(WORDS)
    for part, (texts, labels) in write_topics(place, names, train=120, test=30).items():
        X = np.array([[words.count(word) for word in " ".join(WORDS.values()).split()] for words in texts])
        data.save_npz(place / f"X.{part}.npz", X)
        data.save_npz(place / f"Y.{part}.npz", data.Vocabulary(names).encode(labels))
    train = f"train beam-tree {place}/train.jsonl --model {place}/model --seed 3 -q --threads 1 --set branching=3"
    assert main(f"{train} --test {place}/test.jsonl".split()) == 0
    return place


@pytest.fixture
def place(files: Any, folder: Path) -> Callable[[str], str]:
    """Files of this corpus, and models of the other."""
    return lambda name: str(folder / name) if (folder / name).exists() else files(name)


def test_training_and_asking(call: Any, folder: Path) -> None:
    model = sylvan.load(folder / "model").model
    assert (model.branching, model.seed, model.tree_.depth) == (3, 3, 2)
    for more in ("", "--set beam=1", "--proba"):
        outcome = call(f"predict {{model}} {{test.jsonl}} -k 2 {more}")
        assert "not calibrated" not in outcome.err and len(outcome.labels[0]) == 2
    assert 0 < outcome.rows[0]["probabilities"][0] <= 1
    sure = call("predict {model} {test.jsonl} --threshold 0.5").labels
    assert [len(row) for row in sure].count(1) > 25
    assert "100.00" in call("evaluate {model} {test.jsonl}").out


def test_looking_at_it(call: Any) -> None:
    shown = call("inspect {model}").out
    for words in ("BeamTreeClassifier", "depth 2: 2 > 6", "branching", "test.jsonl"):
        assert words in shown
    layers = call("inspect {model} --json -").json["trees"][0]["layers"]
    assert [layer["n_nodes"] for layer in layers] == [2, 6] and layers[1]["n_weights"] > 6 * 30
    assert "Whaling" in call("explain {model} - --label Whaling", stdin=b"whales and a harpoon").out


def test_matrices_and_trees(call: Any, folder: Path) -> None:
    LabelTree.random(6, branching=2, max_leaf=2).save("tree")
    train = "train beam-tree {X.train.npz} --labels {Y.train.npz} --model"
    call(f"{train} m --tree tree --set class_weight=balanced")
    model = sylvan.load("m")
    assert model.tree_ == sylvan.load("tree") and model.class_weight == "balanced"
    top = call("predict m {X.test.npz} -k 1").labels
    assert [row[0] for row in top] == data.load_npz(folder / "Y.test.npz").indices.tolist()
    call(f"{train} n --set tree=random")
    assert sylvan.load("n").tree == "random"


def test_a_plan(call: Any) -> None:
    planned = call("plan beam-tree {train.jsonl}").out
    assert "learning rate" in planned and "saved model" in planned
    Path("run.toml").write_text('[parameters]\nlearning_rate = "auto"\ntree = "kmeans"\n')
    call("train beam-tree {train.jsonl} --model m --config run.toml --force")


TEXTS = ["Whale hunting in the south seas", "On the baking of bread", "Verses of the sea"]
NAMES = "n1\twhaling\twhale hunting\nn2\tbread baking\nn3\tverse\nn4\tsteam engines\n"


def test_rows_and_words(call: Any, refused: Any) -> None:
    data.write_jsonl("rows.jsonl", TEXTS, [["n1"], ["n2"], ["n3"]])
    Path("names.tsv").write_text(NAMES)
    trained = call("train lexical rows.jsonl --model m --label-texts names.tsv --set stem=en --threads 1").out
    assert "Trained LexicalMatcher with 4 labels" in trained
    assert call("predict m - -k 1", stdin=b"A steam engine\n").labels == [["n4"]]
    explained = call("explain m --text 'Steam engines' --label n4").out
    assert "The preferred form 'steam engines' stands there once" in explained.replace("\n", " ")
    call("inspect m")
    Path("more.csv").write_text("uri,label\nn5,airships\n")
    assert call("update m --label-texts more.csv").err == "Updated m: 1 label added, 1 described.\n"
    Path("ids.txt").write_text("0\n")
    refused("it stores no rows for 'forget'", "update m --forget ids.txt")


SUBJECTS = {
    "ttl": """
        @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
        <urn:x:1> a skos:Concept ; skos:prefLabel "whaling"@en ; skos:altLabel "whale hunting"@en .
        <urn:x:2> a skos:Concept ; skos:prefLabel "bread"@en .
        """,
    "csv": "uri,label,alternative\nurn:x:1,whaling,whale hunting\nurn:x:2,bread,\n",
    "jsonl": '{"uri": "urn:x:1", "label": ["whaling", "whale hunting"]}\n{"uri": "urn:x:2", "label": "bread"}\n',
    "tsv": "urn:x:1\twhaling\twhale hunting\nurn:x:2\tbread\n",
}


@pytest.mark.parametrize("form", SUBJECTS)
def test_words_alone(call: Any, form: str) -> None:
    if form == "ttl":
        pytest.importorskip("rdflib")
    Path(f"subjects.{form}").write_text(SUBJECTS[form])
    outcome = call(f"train lexical --label-texts subjects.{form} --model m")
    assert outcome.err == ""
    assert outcome.out.startswith("LexicalMatcher knows 2 labels by their texts alone. Saved it in")
    assert sylvan.load("m").rank(["Whale hunting"], k=1).names == [["urn:x:1"]]


def test_a_member_of_an_ensemble(call: Any) -> None:
    data.write_jsonl("more.jsonl", TEXTS * 8, [["whale"], ["bread"], ["verses"]] * 8)
    members = "--set member0__model=xr-linear --set member1__model=lexical --set member1__n_trees=3"
    assert call(f"train ensemble more.jsonl --model m {members} -q").err == ""
    model = sylvan.load("m")
    assert [type(member).__name__ for member in model.members] == ["TextModel", "LexicalMatcher"]
    assert model.rank(["bread and wine"], k=1).names == [["bread"]]


def test_a_smaller_model_and_its_loss(call: Any, files: Any) -> None:
    before = store.saved_bytes(sylvan.load(files.text_model).to_state())  # without what training noted of its file
    test = files("test.jsonl")
    outcome = call(f"compress {{text-model}} -o small --max-size {before + 4000} --weight-dtype uint4 --rows {test}")
    assert sum(file.stat().st_size for file in os.scandir("small")) <= before + 4000
    head, first, second, change, note = outcome.out.splitlines()
    assert head.split() == ["P@1", "P@3", "P@5"]
    assert first.split()[0] == "before" and second.split()[0] == "after"
    numbers = [[float(word) for word in line.split()[1:]] for line in (first, second, change)]
    assert [b - a for a, b in zip(*numbers[:2], strict=True)] == pytest.approx(numbers[2], abs=0.011)
    assert note == "Measured over 60 rows and all their labels."
    assert "Compressed" in outcome.err and "weights are" in outcome.err
    meta = store.load("small").meta
    assert meta["compressed"]["bytes_before"] == before and meta["compressed"]["max_size"] == before + 4000
    assert 100 * meta["measured"]["measures"]["P"]["1"] == pytest.approx(numbers[1][0], abs=0.01)
    assert 100 * meta["compressed"]["measures_before"]["P"]["1"] == pytest.approx(numbers[0][0], abs=0.01)
    shown = call("inspect small").out
    assert "\nCompressed from " in shown and "Measured after training on test.jsonl" in shown
    assert call("inspect small --json -").json["compressed"] == meta["compressed"]


def test_a_matrix_model_in_fewer_bits_and_one_without_weights(call: Any, refused: Any) -> None:
    for options, dtype in (("", "uint4"), ("--weight-dtype float16", "float16")):
        assert call(f"compress {{matrix-model}} --output small {options} -q") == (0, "", "")
        assert sylvan.load("small").weight_dtypes() == {dtype}
    call("train neighbors {train.xmc} --model n -q")
    refused("holds a NeighborRanker, which has no weights to prune.", "compress n -o other")
