"""``sylvan inspect`` and ``explain``: every kind of folder, row and output; what ``--test`` keeps; hostile names."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import bits

import sylvan
from sylvan import LabelTree, TextModel, TfidfVectorizer, XRLinear, data, store
from sylvan.cli import main
from sylvan.cli.evaluate import Measured
from sylvan.hub.card import as_lines, outline

HOSTILE = ["<script>alert(1)</script>", 'a"b\\n];', "| x | `y` ~~~~", "two\nlines\x1b[31m", "# *bold* [a](http://b)"]


def card(call: Any, words: str) -> dict[str, Any]:
    outcome = call(f"inspect {words} --json -")
    assert outcome.err == ""
    found: dict[str, Any] = outcome.json
    return found


def test_the_card_of_a_text_model(call: Any, files: Any) -> None:
    found, model = card(call, "{text-model} --labels 3"), sylvan.load(files.text_model)
    assert (found["kind"], found["class"]) == ("text-model", "TextModel")
    assert found["facts"] == {"labels": 6, "features": model.n_features_, "training rows": 240}
    sizes = [path.stat().st_size for path in Path(files.text_model).iterdir()]
    assert (found["bytes"], found["files"]) == (sum(sizes), len(sizes))
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
    shown = call("inspect {text-model} --labels 2")
    assert shown.err == ""
    for words in (
        "TextModel, from texts to named labels", "6 labels", "240 training rows", "  beam = 10",
        "layer  clusters  nodes  weights", "all labels (6)", "├─ ", "└─ ", "The 2 most frequent labels",
    ):  # fmt: skip
        assert words in shown.out, words


def test_parameters_that_differ_are_marked(call: Any) -> None:
    call("train xr-linear {train.jsonl} --model m --set max_leaf=2 --set n_trees=2 --ngrams 1,2 -q")
    shown = call("inspect m").out
    assert "* max_leaf = 2" in shown and "  beam = 10" in shown and "* ngrams = (1, 2)" in shown
    found = card(call, "m --levels 1")
    assert found["changed"] == {"TextModel": [], "vectorizer": ["ngrams"], "model": ["max_leaf", "n_trees"]}
    assert [tree["path"] for tree in found["trees"]] == ["model.tree0", "model.tree1"]


def test_every_kind_of_folder(call: Any, files: Any) -> None:
    model = sylvan.load(files.text_model)
    X, Y = data.load_npz(files("X.train.npz")), data.load_npz(files("Y.train.npz"))
    saved = {
        "vocabulary": model.vocabulary_,
        "tfidf-vectorizer": model.vectorizer,
        "label-tree": LabelTree.random(40, branching=3, max_leaf=4),
        "neighbor-ranker": sylvan.NeighborRanker().fit(X, Y),
    }
    for kind, one in saved.items():
        one.save(kind)
        found = card(call, f"{kind} --labels 2")
        assert found["kind"] == kind and found["class"] == type(one).__name__ and found["facts"]
        call(f"inspect {kind}")
        call(f"inspect {kind} --card -q")
    assert card(call, "label-tree")["facts"]["depth"] == saved["label-tree"].depth
    assert card(call, "vocabulary --labels 1")["labels"] == [{"name": "Astronomy", "rows": None}]


def test_names_for_a_model_over_matrices(call: Any, refused: Any) -> None:
    Path("names.txt").write_text("\n".join("abcdef"), "utf-8")
    found = card(call, "{matrix-model} --label-names names.txt --labels 6")
    assert {row["name"] for row in found["labels"]} == set("abcdef")
    assert {row["name"] for row in card(call, "{matrix-model} --labels 6")["labels"]} >= {"label 0", "label 5"}
    Path("names.txt").write_text("a\nb", "utf-8")
    said = "There are 2 names of labels, but the model has 6 labels."
    refused(said, "inspect {matrix-model} --label-names names.txt")


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


def test_hostile_names_in_drawings_and_cards(call: Any) -> None:
    texts = [f"word{i} common" for i in range(len(HOSTILE))]
    model = TextModel(TfidfVectorizer(n_jobs=1), XRLinear(max_leaf=2, branching=2, n_jobs=1))
    model.fit(texts, [[name] for name in HOSTILE]).save("a <b> model")
    shown = call("inspect 'a <b> model' --levels 9 --labels 9 --card -q").out
    readme = Path("a <b> model", "README.md").read_text("utf-8")
    assert "\x1b" not in shown + readme and "two lines" in readme
    outside = re.sub(r"~~~~text\n.*?\n~~~~\n", "", readme, flags=re.DOTALL)
    assert "<script" not in outside and r"\| x \| \`y\`" in outside and "[a](" not in outside
    assert len(re.findall(r"^~~~~", readme, re.MULTILINE)) == 2


# ---------------------------------------- figures, and the README.md


def test_figures_of_training_are_kept(call: Any) -> None:
    train, test = "train xr-linear {train.jsonl} --model m", "--test {test.jsonl}"
    said = call(f"{train} {test}").out
    assert "P " in said and "±" in said
    measured = card(call, "m")["measured"]
    call("evaluate m {test.jsonl} --json result.json")
    assert (measured["on"], measured["rows"]) == ("test.jsonl", 60)
    assert measured["measures"] == json.loads(Path("result.json").read_text("utf-8"))["measures"]
    shown = call("inspect m").out
    assert "Measured after training on test.jsonl (60 rows)" in shown and "PSnDCG" in shown
    assert sylvan.load("m", mmap=False).rank(["bread and flour"], k=1).names == [["Baking"]]
    call(f"{train} -q")
    assert card(call, "m")["measured"] is None, "another model has other figures"
    plain = bits(sylvan.load("m", mmap=False))
    assert call(f"{train} {test} -q").out == ""
    assert bits(sylvan.load("m")) == plain


@pytest.mark.parametrize("test", ["{test.xmc}", "{X.test.npz} --test-labels {Y.test.npz}"])
def test_figures_of_matrices(test: str, call: Any) -> None:
    assert call(f"train xr-linear {{train.xmc}} --model m -q --test {test}").out == ""
    assert card(call, "m")["measured"]["measures"]["P"]["1"] > 0.9


def test_the_card_in_the_folder(call: Any, files: Any) -> None:
    model, readme = sylvan.load(files.text_model), Path("m", "README.md")
    model.save("m")
    assert "Wrote" in call("inspect m --card --labels 6").err
    text = readme.read_text("utf-8")
    assert text.startswith(f"<!-- card of {store.contents('m')['checksum']}, written by sylvan inspect -->\n# m\n")
    assert "| Baking | " in text and "| beam | 10 |" in text and "all labels (6)" in text
    assert call("inspect m").err == ""
    assert sylvan.load("m").rank(["bread"], k=1).names == model.rank(["bread"], k=1).names
    model.set_params(model__beam=33).save("m")  # over the folder with its README.md
    assert "README.md is the card of an earlier model" in call("inspect m").err
    assert call("inspect m -q").err == ""
    call("inspect m --card -q")
    assert "| **beam** | 33 |" in readme.read_text("utf-8") and call("inspect m").err == ""
    readme.write_text("# My notes\n", "utf-8")
    assert "was not written by sylvan inspect: move it away" in call("inspect m --card", code=2).err
    assert readme.read_text("utf-8") == "# My notes\n" and call("inspect m").err == ""


def test_damaged_figures_are_a_sentence(refused: Any, files: Any) -> None:
    sylvan.load(files.text_model).save("m")
    for wrong in (
        "x", {}, {"on": "a", "rows": 1}, {"on": "a", "rows": 1, "measures": {"P": 1}},
        {"on": "a", "rows": 1, "measures": {"P": {"x": 1}}}, {"on": 1, "rows": 1, "measures": {}},
    ):  # fmt: skip
        store.annotate("m", {"measured": wrong})
        refused("'measured' holds no figures", "inspect m")
        assert sylvan.load("m").n_labels_ == 6


def test_measures_are_called_in_a_model_as_they_are_read_from_it() -> None:
    """With cut-offs as strings, in whose order a manifest is summed: 10 stands before 3."""
    plain = Measured({"P": {1: 0.5, 3: 0.25, 10: 0.1}}, 4, 4, 0, 0, intervals={"P": {10: (0.0, 0.2)}}).as_json()
    assert plain["measures"] == {"P": {"1": 0.5, "3": 0.25, "10": 0.1}}
    assert plain["intervals"] == {"P": {"10": [0.0, 0.2]}}


# ---------------------------------------- explain

BREAD = "explain {text-model} --text 'bread and flour' --label Baking"


def test_a_text_and_a_label(call: Any, files: Any) -> None:
    expected = sylvan.load(files.text_model).explain("bread and flour", "Baking", top=1).text(100)
    assert call(f"{BREAD} --features 1") == (0, expected + "\n", "")
    assert call(f"{BREAD} --json - --set beam=33").json[0]["trees"][0]["beam"] == 33


def test_the_best_answers_without_a_label(call: Any, files: Any) -> None:
    text = data.read_jsonl(files("test.jsonl")).texts[7]
    found = call("explain {text-model} {test.jsonl} --row 7 -k 2 --json -").json
    assert [one["name"] for one in found] == sylvan.load(files.text_model).rank([text], k=2).names[0]
    assert [one["place"] for one in found] == [1, 2] and found[0]["excerpt"] == text
    assert call("explain {text-model} --json - -k 2", stdin=text.encode()).json == found


def test_a_text_without_answers(call: Any) -> None:
    said = call("predict {text-model} - -k 1", stdin=b"zzz\n").err.partition("\n")[2]
    assert "knows no word of 1 of 1 text" in said
    assert call("explain {text-model} --text zzz") == (0, "", said)
    assert call("explain {text-model} --text zzz --json -") == (0, "[]\n", said)


@pytest.mark.parametrize("name", ["test.xmc", "X.test.npy"])
def test_rows_of_matrices(name: str, call: Any, files: Any) -> None:
    (found,) = call(f"explain {{matrix-model}} {{{name}}} --row 5 --label 3 --json -").json
    X = data.load_npz(files("X.test.npz"))
    expected = sylvan.load(files.matrix_model).explain(X[5], 3, top=5).to_dict()
    assert found["place"] == expected["place"] and found["score"] == pytest.approx(expected["score"], rel=1e-5)


def test_names_for_matrices(call: Any, files: Any) -> None:
    model = sylvan.load(files.text_model)
    Path("terms.txt").write_text("\n".join(model.vectorizer.get_feature_names_out()), "utf-8")
    Path("names.txt").write_text("\n".join(model.vocabulary_) + "\n", "utf-8")
    names = "--feature-names terms.txt --label-names names.txt"
    for label in ("Baking", model.vocabulary_.id("Baking")):
        shown = call(f"explain {{matrix-model}} {{X.test.npz}} --label {label} {names}").out
        assert shown.startswith("Baking: ")
        assert any(f"  {word}  (" in shown for word in ("bread", "flour", "oven", "cakes", "yeast", "the", "and"))


def test_examples_and_a_page(call: Any, files: Any) -> None:
    shown = call(f"{BREAD} --examples {{train.jsonl}} --neighbors 2 --html why.html").out
    train = data.read_jsonl(files("train.jsonl"))
    expected = sylvan.load(files.text_model).explain(
        "bread and flour", "Baking", 5, examples=(train.texts, train.labels), n_examples=2
    )
    assert len(expected.examples) == 2 and shown == expected.text(100) + "\n"
    assert Path("why.html").read_text("utf-8") == expected.html()
    examples = "--examples {X.train.npz} --labels {Y.train.npz} --json why.json"
    assert "Nearest training rows" in call("explain {matrix-model} {X.test.npz} --label 1 " + examples).out
    assert len(json.loads(Path("why.json").read_text("utf-8"))[0]["examples"]) == 3


def test_a_saved_model_of_neighbors_as_examples(call: Any, refused: Any) -> None:
    call("train neighbors {train.jsonl} --model neighbors -q")
    slow, fast = (
        call(f"{BREAD} --json - --examples {rows}").json[0]["examples"] for rows in ("{train.jsonl}", "neighbors")
    )
    assert [one["row"] for one in fast] == [one["row"] for one in slow] and len(fast) == 3
    shown = call("explain neighbors --text 'bread and flour' -k 1").out
    assert "of the 30 nearest training rows have this label" in shown
    refused("examples must be a NeighborRanker or hold one. Got XRLinear", f"{BREAD} --examples {{text-model}}")


def test_a_terminal_without_the_characters(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, "latin-1"))
    assert main(["inspect", files.text_model]) == 0
    assert b"\\u25" in shown.getvalue()
