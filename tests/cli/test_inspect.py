"""``sylvan inspect`` and ``explain``: every kind of folder, row and output; what ``--test`` keeps; hostile names."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sylvan
from sylvan import LabelTree, TextModel, TfidfVectorizer, XRLinear, data, store
from sylvan.hub.card import as_lines, outline

HOSTILE = ["<script>alert(1)</script>", 'a"b\\n];', "| x | `y` ~~~~", "two\nlines\x1b[31m", "# *bold* [a](http://b)"]


def card(call: Any, *words: str) -> dict[str, Any]:
    outcome = call("inspect", *words, "--json", "-")
    assert outcome.code == 0 and outcome.err == "", outcome.err
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def test_the_card_of_a_text_model(call: Any, files: Any) -> None:
    found, model = card(call, files.text_model, "--labels", "3"), sylvan.load(files.text_model)
    assert (found["kind"], found["class"]) == ("text-model", "TextModel")
    assert found["facts"] == {"labels": 6, "features": model.n_features_, "training rows": 240}
    manifest = [os.path.join(files.text_model, name) for name in os.listdir(files.text_model)]
    assert found["bytes"] == sum(os.path.getsize(path) for path in manifest) and found["files"] == len(manifest)
    assert found["parameters"]["model"]["beam"] == 10 and found["changed"]["model"] == []
    assert found["parameters"]["vectorizer"]["ngrams"] == [1, 1]
    (tree,) = found["trees"]
    (layer,) = tree["layers"]
    weights = model.model.layers_[0]
    assert (layer["n_clusters"], layer["n_nodes"], layer["n_weights"]) == (1, 6, weights.n_entries)
    arrays = store.load(files.text_model).parts["model"].parts["tree0"].arrays
    assert layer["n_bytes"] == sum(array.nbytes for array in arrays.values())
    counts = model.model.label_counts_
    order = np.argsort(-counts, kind="stable")[:3]
    assert found["labels"] == [{"name": model.vocabulary_[i], "rows": int(counts[i])} for i in order]
    assert {part["path"] for part in found["parts"]} == {
        "", "vectorizer", "model", "model.tree0", "model.tree0.tree", "model.calibrator", "vocabulary",
    }  # fmt: skip
    assert found["measured"] is None


def test_the_card_in_words(call: Any, files: Any) -> None:
    outcome = call("inspect", files.text_model, "--labels", "2")
    assert outcome.code == 0 and outcome.err == ""
    for words in (
        "TextModel, from texts to named labels", "6 labels", "240 training rows", "  beam = 10",
        "layer  clusters  nodes  weights", "all labels (6)", "├─ ", "└─ ", "The 2 most frequent labels",
    ):  # fmt: skip
        assert words in outcome.out, words


def test_parameters_that_differ_are_marked(call: Any, files: Any, tmp_path: Path) -> None:
    words = ("--model", str(tmp_path / "m"), "--set", "max_leaf=2", "--set", "n_trees=2", "--ngrams", "1,2", "-q")
    assert call("train", "xr-linear", files("train.jsonl"), *words).code == 0
    outcome = call("inspect", str(tmp_path / "m"))
    assert "* max_leaf = 2" in outcome.out and "  beam = 10" in outcome.out and "* ngrams = (1, 2)" in outcome.out
    found = card(call, str(tmp_path / "m"), "--levels", "1")
    assert found["changed"] == {"TextModel": [], "vectorizer": ["ngrams"], "model": ["max_leaf", "n_trees"]}
    assert [tree["path"] for tree in found["trees"]] == ["model.tree0", "model.tree1"]


def test_every_kind_of_folder(call: Any, files: Any, tmp_path: Path) -> None:
    model = sylvan.load(files.text_model)
    X, Y = data.load_npz(files("X.train.npz")), data.load_npz(files("Y.train.npz"))
    saved = {
        "vocabulary": model.vocabulary_,
        "tfidf-vectorizer": model.vectorizer,
        "label-tree": LabelTree.random(40, branching=3, max_leaf=4),
        "neighbor-ranker": sylvan.NeighborRanker().fit(X, Y),
    }
    for kind, one in saved.items():
        one.save(tmp_path / kind)
        found = card(call, str(tmp_path / kind), "--labels", "2")
        assert found["kind"] == kind and found["class"] == type(one).__name__ and found["facts"]
        assert call("inspect", str(tmp_path / kind)).code == 0
        assert call("inspect", str(tmp_path / kind), "--card", "-q").code == 0
    assert card(call, str(tmp_path / "label-tree"))["facts"]["depth"] == saved["label-tree"].depth
    assert card(call, str(tmp_path / "vocabulary"), "--labels", "1")["labels"] == [{"name": "Astronomy", "rows": None}]


def test_names_for_a_model_over_matrices(call: Any, files: Any, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("\n".join("abcdef"), "utf-8")
    found = card(call, files.matrix_model, "--label-names", str(names), "--labels", "6")
    assert {row["name"] for row in found["labels"]} == set("abcdef")
    assert {row["name"] for row in card(call, files.matrix_model, "--labels", "6")["labels"]} >= {"label 0", "label 5"}
    names.write_text("a\nb", "utf-8")
    outcome = call("inspect", files.matrix_model, "--label-names", str(names))
    assert outcome.code == 2 and "There are 2 names of labels, but the model has 6 labels." in outcome.err


# ---------------------------------------- drawings


def brute_outline(tree: LabelTree, layer: int, node: int, counts: np.ndarray) -> list[int]:
    """The children of a node, those of the most training rows first."""
    first, last = tree.child_offsets[layer][node : node + 2]
    rows = {child: sum(counts[tree.leaf_labels[leaf]] for leaf in tree.leaves(layer, child)) for child in
            range(first, last)}  # fmt: skip
    return sorted(rows, key=lambda child: (-rows[child], child))


def test_the_outline_shows_the_most_frequent_first() -> None:
    tree = LabelTree.random(60, branching=4, max_leaf=5, seed=3)
    counts = np.random.default_rng(0).integers(0, 50, 60)
    top = outline(tree, levels=2, branches=3, name=str, counts=counts)
    first = brute_outline(tree, 0, 0, counts)
    children = top["children"]
    assert len(children) == min(3, len(first)) and top.get("more", 0) == len(first) - len(children)
    for child, node in zip(children, first, strict=False):
        below = tree.leaves(0, node)
        labels = sorted(tree.leaf_labels[below.start : below.stop].tolist(), key=lambda i: (-counts[i], i))
        assert child["title"] == f"{', '.join(map(str, labels[:3]))}, … ({len(labels)} labels)"
        inner = brute_outline(tree, 1, node, counts)
        assert child.get("more", 0) == len(inner) - len(child["children"])
        assert not any("children" in one for one in child["children"])
    assert "children" not in outline(tree, levels=0, branches=3, name=str)
    everything = outline(tree, levels=9, branches=100, name=str)
    words = "\n".join(as_lines(everything))
    assert all(re.search(rf"─ {label}$", words, re.MULTILINE) for label in range(60))


def test_lines_by_hand() -> None:
    tree = LabelTree((np.array([0, 2]), np.array([0, 3, 5])), np.array([2, 0, 1, 3, 4]), 5)
    lines = list(as_lines(outline(tree, 2, 2, "abcde".__getitem__, np.array([5, 1, 2, 9, 9]))))
    assert lines == [
        "all labels (5)",
        "├─ d, e (2 labels)",
        "│  ├─ d",
        "│  └─ e",
        "└─ a, c, b (3 labels)",
        "   ├─ a",
        "   ├─ c",
        "   └─ … 1 more",
    ]


def test_hostile_names_in_drawings_and_cards(call: Any, tmp_path: Path) -> None:
    texts = [f"word{i} common" for i in range(len(HOSTILE))]
    model = TextModel(TfidfVectorizer(n_jobs=1), XRLinear(max_leaf=2, branching=2, n_jobs=1))
    folder = tmp_path / "a <b> model"
    model.fit(texts, [[name] for name in HOSTILE]).save(folder)
    outcome = call("inspect", str(folder), "--levels", "9", "--labels", "9", "--card", "-q")
    assert outcome.code == 0 and "\x1b" not in outcome.out, outcome.err
    readme = (folder / "README.md").read_text("utf-8")
    assert "\x1b" not in readme and "two lines" in readme
    outside = re.sub(r"~~~~text\n.*?\n~~~~\n", "", readme, flags=re.DOTALL)
    assert "<script" not in outside and r"\| x \| \`y\`" in outside and "[a](" not in outside
    assert len(re.findall(r"^~~~~", readme, re.MULTILINE)) == 2


# ---------------------------------------- figures, and the README.md


def test_figures_of_training_are_kept(call: Any, files: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    words = ("train", "xr-linear", files("train.jsonl"), "--model", folder, "--test", files("test.jsonl"))
    outcome = call(*words)
    assert outcome.code == 0 and "P " in outcome.out and "±" in outcome.out, outcome.err
    measured = card(call, folder)["measured"]
    result = tmp_path / "result.json"
    assert call("evaluate", folder, files("test.jsonl"), "--json", str(result)).code == 0
    assert (measured["on"], measured["rows"]) == ("test.jsonl", 60)
    assert measured["measures"] == json.loads(result.read_text("utf-8"))["measures"]
    shown = call("inspect", folder).out
    assert "Measured after training on test.jsonl (60 rows)" in shown and "PSnDCG" in shown
    assert sylvan.load(folder, mmap=False).rank(["bread and flour"], k=1).names == [["Baking"]]
    assert call(*words[:5], "-q").code == 0
    assert card(call, folder)["measured"] is None, "another model has other figures"
    plain = {name: (Path(folder) / name).read_bytes() for name in os.listdir(folder) if name.endswith(".npy")}
    assert call(*words, "-q").out == ""
    again = {re.sub(r"\.[0-9a-f]{8}\.", ".", name): data for name, data in plain.items()}
    for name in os.listdir(folder):
        if name.endswith(".npy"):
            assert (Path(folder) / name).read_bytes() == again[re.sub(r"\.[0-9a-f]{8}\.", ".", name)]


def test_figures_of_matrices(call: Any, files: Any, tmp_path: Path) -> None:
    for test in ((files("test.xmc"),), (files("X.test.npz"), "--test-labels", files("Y.test.npz"))):
        folder = str(tmp_path / "m")
        words = ("train", "xr-linear", files("train.xmc"), "--model", folder, "-q", "--test", *test)
        outcome = call(*words)
        assert outcome.code == 0 and outcome.out == "", outcome.err
        assert card(call, folder)["measured"]["measures"]["P"]["1"] > 0.9


def test_the_card_in_the_folder(call: Any, files: Any, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    model = sylvan.load(files.text_model)
    model.save(folder)
    outcome = call("inspect", str(folder), "--card", "--labels", "6")
    readme = folder / "README.md"
    assert outcome.code == 0 and "Wrote" in outcome.err
    text = readme.read_text("utf-8")
    assert text.startswith(f"<!-- card of {store.contents(folder)['checksum']}, written by sylvan inspect -->\n# m\n")
    assert "| Baking | " in text and "| beam | 10 |" in text and "all labels (6)" in text
    assert call("inspect", str(folder)).err == ""
    assert sylvan.load(folder).rank(["bread"], k=1).names == model.rank(["bread"], k=1).names
    model.set_params(model__beam=33).save(folder)  # over the folder with its README.md
    assert "README.md is the card of an earlier model" in call("inspect", str(folder)).err
    assert call("inspect", str(folder), "-q").err == ""
    assert call("inspect", str(folder), "--card", "-q").code == 0
    assert "| **beam** | 33 |" in readme.read_text("utf-8") and call("inspect", str(folder)).err == ""
    readme.write_text("# My notes\n", "utf-8")
    outcome = call("inspect", str(folder), "--card")
    assert outcome.code == 2 and "was not written by sylvan inspect: move it away" in outcome.err
    assert readme.read_text("utf-8") == "# My notes\n" and call("inspect", str(folder)).err == ""


def test_damaged_figures_are_a_sentence(call: Any, files: Any, tmp_path: Path) -> None:
    sylvan.load(files.text_model).save(tmp_path / "m")
    for wrong in (
        "x", {}, {"on": "a", "rows": 1}, {"on": "a", "rows": 1, "measures": {"P": 1}},
        {"on": "a", "rows": 1, "measures": {"P": {"x": 1}}}, {"on": 1, "rows": 1, "measures": {}},
    ):  # fmt: skip
        store.annotate(tmp_path / "m", {"measured": wrong})
        outcome = call("inspect", str(tmp_path / "m"))
        assert outcome.code == 2 and "'measured' holds no figures" in outcome.err
    assert sylvan.load(tmp_path / "m").n_labels_ == 6


def test_measures_are_called_in_a_model_as_they_are_read_from_it() -> None:
    """With cut-offs as strings, in whose order a manifest is summed: 10 stands before 3."""
    from sylvan.cli.evaluate import Measured

    plain = Measured({"P": {1: 0.5, 3: 0.25, 10: 0.1}}, 4, 4, 0, 0, intervals={"P": {10: (0.0, 0.2)}}).as_json()
    assert plain["measures"] == {"P": {"1": 0.5, "3": 0.25, "10": 0.1}}
    assert plain["intervals"] == {"P": {"10": [0.0, 0.2]}}


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
