"""The verbs on every format: what goes in, what comes out, and that all roads lead to the same answers."""

import gzip
import json
import lzma
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from child_processes import python

import sylvan
from sylvan import XRLinear, data, metrics

MATRICES = ["test.xmc", "test.txt", "test.xmc.gz", "test-headless.txt", "test.svm", "test-from-1.svm", "X.test.npz",
            "X.test.npy"]  # fmt: skip
TEXTS = ["test.jsonl", "test.jsonl.gz", "test.jsonl.xz", "test.lines"]


@pytest.fixture
def X(files: Any) -> Any:
    return data.load_npz(files("X.test.npz"))


@pytest.mark.parametrize("name", MATRICES)
def test_predict_on_matrices(name: str, call: Any, files: Any, X: Any) -> None:
    found = call(f"predict {{matrix-model}} {{{name}}} -k 2")
    model = sylvan.load(files.matrix_model)
    top = model.rank(X, k=2)
    assert found.labels == [[i for i in row if i >= 0] for row in top.labels.tolist()]
    assert found.rows[0]["probabilities"] == pytest.approx(model.probabilities(top).scores[0].tolist(), rel=1e-5)
    raw = call(f"predict {{matrix-model}} {{{name}}} -k 2 --scores").rows
    assert raw[0]["scores"] == pytest.approx(top.scores[0].tolist(), rel=1e-5)


@pytest.mark.parametrize("name", TEXTS)
def test_predict_on_text(name: str, call: Any, files: Any) -> None:
    texts = data.read_jsonl(files("test.jsonl")).texts
    found = call(f"predict {{text-model}} {{{name}}} -k 2").labels
    assert found == sylvan.load(files.text_model).rank(texts, k=2).names


@pytest.mark.parametrize("name", [name.replace("test", "train") for name in MATRICES])
def test_training_on_any_matrix_gives_the_same_model(name: str, call: Any, files: Any, X: Any) -> None:
    labels = "--labels {Y.train.npz}" if name.startswith("X") else ""
    outcome = call(f"train xr-linear {{{name}}} --model m {labels}")
    assert outcome.err.startswith(f"Read 240 rows from {files(name)}: a ") and outcome.err.count("\n") == 1
    assert "6 labels" in outcome.out and "Saved it in" in outcome.out
    mine, other = (sylvan.load(folder).rank(X, k=3) for folder in ("m", files.matrix_model))
    assert np.array_equal(mine.labels, other.labels) and np.array_equal(mine.scores, other.scores)


@pytest.mark.parametrize("name", ["train.jsonl", "train.jsonl.gz", "train.jsonl.xz"])
def test_training_on_text(name: str, call: Any) -> None:
    options = "--ngrams 1,2 --threads 2 --set-text sublinear_tf=yes --set beam=7 --seed 3 --quiet"
    assert call(f"train xr-linear {{{name}}} --model m {options}") == (0, "", "")
    model = sylvan.load("m")
    assert model.vectorizer.ngrams == (1, 2) and model.vectorizer.sublinear_tf
    assert (model.model.beam, model.model.seed) == (7, 3)
    assert model.rank(["bread and flour"], k=1).names == [["Baking"]]


def test_fields_of_other_names(call: Any) -> None:
    lines = [{"title": "flour", "author": "baker", "subjects": ["Baking"]}] * 3
    lines += [{"title": "stars", "author": "observer", "subjects": ["Astronomy"]}] * 3
    data.write_records("a.jsonl", lines)
    fields = "--text-field title --text-field author --labels-field subjects"
    call(f"train xr-linear a.jsonl --model m {fields}")
    for again in (fields, ""):  # the model knows them
        assert "100.00" in call(f"evaluate m a.jsonl {again} -k 1").out
    found = call("predict m a.jsonl --text-field author").labels
    assert [row[0] for row in found] == ["Baking"] * 3 + ["Astronomy"] * 3


def test_weighted_and_numeric_labels(call: Any) -> None:
    lines = ['{"text": "flour yeast", "labels": [[7, 2.5]]}', '{"text": "stars", "labels": {"12": 1}}'] * 3
    Path("a.jsonl").write_text("\n".join(lines[::2]) + "\n")
    call("train xr-linear a.jsonl --model m")
    assert list(sylvan.load("m").vocabulary_) == ["7"]


def test_stdin_and_stdout(call: Any, files: Any) -> None:
    content = Path(files("train.jsonl")).read_bytes()
    for packed in (content, gzip.compress(content), lzma.compress(content)):
        call("train xr-linear - --model m", stdin=packed)
    found = call("predict m", stdin=b"bread flour\nstars and planets\n").labels
    assert [row[0] for row in found] == ["Baking", "Astronomy"]
    matrix = Path(files("test.xmc")).read_bytes()
    assert len(call("predict {matrix-model} - -o -", stdin=matrix).rows) == 60
    assert call("evaluate {matrix-model} -", stdin=matrix).out == call("evaluate {matrix-model} {test.xmc}").out
    turkish = call("predict {text-model} - -k 1", stdin="şiir ve söz".encode())
    assert turkish.out.startswith('{"labels": ["Türkçe"]')


@pytest.mark.parametrize("words", ["{text-model} {test.jsonl}", "{matrix-model} {test.xmc}"])
def test_predictions_as_a_matrix(words: str, call: Any, files: Any, X: Any) -> None:
    loaded = sylvan.load(files.matrix_model)
    top = loaded.rank(X, k=3)
    for options, expected in (("", loaded.probabilities(top)), ("--scores", top)):
        call(f"predict {words} -k 3 -o top.npz {options}")
        values = sp.load_npz("top.npz")
        assert values.shape == (60, 6) and values.dtype == np.float32 and np.diff(values.indptr).max() <= 3
        assert abs(values - expected.to_csr(6)).max() < 1e-6


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "jsonl.xz"])
def test_predictions_in_a_file_replace_it(suffix: str, call: Any, in_folder: Path) -> None:
    path = Path(f"top.{suffix}")
    path.write_text("old")
    call(f"predict {{text-model}} {{test.jsonl}} -o {path}")
    found = [record["labels"] for record in data.read_records(path)]
    assert found == call("predict {text-model} {test.jsonl}").labels
    assert [entry.name for entry in in_folder.iterdir()] == [path.name]


@pytest.mark.parametrize("words", ["{text-model} {test.jsonl}", "{matrix-model} {test.xmc}"])
def test_blocks_change_nothing(words: str, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = call(f"predict {words}").out
    monkeypatch.setattr("sylvan.cli.io.inputs._ROWS", 7)
    monkeypatch.setattr("sylvan.cli.io.matrices._ROWS", 7)
    assert call(f"predict {words}").out == whole != ""


@pytest.mark.parametrize(("header", "n_rows"), [("6 {width} 6\n", 6), ("", 4)])
def test_rows_without_anything_are_ranked_too(
    header: str, n_rows: int, call: Any, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty lines are rows, but at the end only where a header promises them; also when a block ends in them."""
    width = Path(files("train.xmc")).read_text().split()[1]
    Path("a.xmc").write_text(header.format(width=width) + "0 1:1\n\n\n1 2:1\n\n\n")
    assert len(call("predict {matrix-model} a.xmc").rows) == n_rows
    from sylvan.data.streams import InputStream

    original = InputStream.blocks
    monkeypatch.setattr(InputStream, "blocks", lambda stream, size=8: original(stream, 8))
    assert len(call("predict {matrix-model} a.xmc").rows) == n_rows


@pytest.mark.parametrize(("name", "value"), [("tail", "psp:0.6,2.6"), ("beam", 1)])
def test_parameters_when_ranking(name: str, value: Any, call: Any, files: Any) -> None:
    texts = data.read_jsonl(files("test.jsonl")).texts
    found = call(f"predict {{text-model}} {{test.jsonl}} -k 2 --set {name}={value}").labels
    assert found == sylvan.load(files.text_model).rank(texts, k=2, **{name: value}).names


def test_evaluate_prints_the_metrics(call: Any, files: Any, X: Any) -> None:
    outcome = call("evaluate {matrix-model} {X.test.npz} --labels {Y.test.npz} -k 1,2 --json result.json")
    Y, Y_train = data.load_npz(files("Y.test.npz")), data.load_npz(files("Y.train.npz"))
    top = sylvan.load(files.matrix_model).rank(X, k=2)
    found = json.loads(Path("result.json").read_text())["measures"]
    likely = metrics.propensities(Y_train)
    for name, values in {
        "P": metrics.precision(Y, top, at=(1, 2)),
        "R": metrics.recall(Y, top, at=(1, 2)),
        "nDCG": metrics.ndcg(Y, top, at=(1, 2)),
        "F1": metrics.f1(Y, top, at=(1, 2)),
        "PSP": metrics.psp(Y, top, likely, at=(1, 2)),
        "PSnDCG": metrics.psndcg(Y, top, likely, at=(1, 2)),
    }.items():
        assert found[name] == pytest.approx({str(k): v for k, v in values.items()})
        assert f"{100 * values[2]:.2f}" in outcome.out


def test_evaluate_prints_calibration_and_slices(call: Any, files: Any, X: Any) -> None:
    rows, labels = data.load_npz(files("X.train.npz")), data.load_npz(files("Y.train.npz"))
    model = XRLinear(max_leaf=4, branching=2, calibration="platt", n_jobs=1).fit(rows, labels)
    assert model.calibrator_ is not None
    model.save("m")
    truth, top = data.load_npz(files("Y.test.npz")), model.rank(X, k=3)
    line = "evaluate m {X.test.npz} --labels {Y.test.npz} -k 1,3"
    outcome, found = call(line), call(f"{line} --json -").json
    for name, answers in {"ECE raw": model.bounded(top), "ECE cal.": model.probabilities(top)}.items():
        expected = metrics.calibration_error(truth, answers, (1, 3))
        assert found["measures"][name] == pytest.approx({str(k): value for k, value in expected.items()})
        assert re.search(rf"^{name} +{100 * expected[1]:.2f} +{100 * expected[3]:.2f}$", outcome.out, re.M)
    for name, values in metrics.slices(truth, top, model.label_counts_, (1, 3)).items():
        assert found["slices"][name]["R"] == {"1": values["R@1"], "3": values["R@3"]}
        cells = " +".join(f"{100 * values[f'R@{k}']:.2f}" for k in (1, 3))
        assert re.search(rf"^{name} +{cells} +{values['labels']} +{values['rows']}$", outcome.out, re.M)
    tailed = call(f"{line} --set tail=psp --json -").json
    assert "P" in tailed["measures"] and "ECE raw" not in tailed["measures"], "worths are no probabilities"
    assert "threshold" not in tailed
    for threshold in (0.5, 0.2, 0.001):  # the last takes more labels than the cut-offs
        measured = metrics.set_f1(truth, model.choose(X, threshold=threshold))
        given = line if threshold == 0.5 else f"{line} --threshold {threshold}"
        assert call(f"{given} --json -").json["threshold"] == pytest.approx({"threshold": threshold, **measured})
        said = f"Labels with a probability of {threshold} or more, {measured['labels']:.2f} a row: F1 by rows "
        assert f"{said}{100 * measured['F1']:.2f}, micro {100 * measured['micro-F1']:.2f}" in call(given).out


def test_the_same_measures_for_text_and_matrices(call: Any) -> None:
    text, matrix = call("evaluate {text-model} {test.jsonl}").out, call("evaluate {matrix-model} {test.xmc}").out
    assert text.split("Percentages")[0] == matrix.split("Percentages")[0] != ""


def test_unknown_labels_are_counted(call: Any, files: Any) -> None:
    labels = [["Baking", "Opera"], ["Astronomy"], ["Opera", "Jazz"], []]
    data.write_jsonl("a.jsonl", ["bread", "stars", "music", "silence"], labels)
    said = call("evaluate {text-model} a.jsonl -k 1").out
    assert "over 3 rows and all their labels. Left out: 1 row without any label." in said
    assert "3 labels (2 different) that the model doesn't know count as missed" in said
    width = Path(files("train.xmc")).read_text().split()[1]
    Path("a.xmc").write_text(f"2 {width} 99\n0,98 1:1\n97 2:1\n")
    found = call("evaluate {matrix-model} a.xmc -k 1 --json -").json
    assert (found["labels_unknown"], found["rows_measured"]) == (2, 2)


def test_more_labels_asked_for_than_there_are(call: Any) -> None:
    assert len(call("predict {text-model} - -k 1000000000", stdin=b"bread\n").labels[0]) <= 6
    measures = call("evaluate {text-model} {test.jsonl} -k 6,10 --json -").json["measures"]
    assert measures["P"]["10"] == pytest.approx(measures["P"]["6"] * 6 / 10)
    assert measures["R"]["10"] == measures["R"]["6"]


def test_a_folder_as_pecos_lays_it_out(call: Any, files: Any) -> None:
    for part, split in (("train", "trn"), ("test", "tst")):
        data.save_npz_pair("set", data.load_npz(files(f"X.{part}.npz")), data.load_npz(files(f"Y.{part}.npz")), split)
    call("train xr-linear set --model m")
    assert call("evaluate m set").out == call("evaluate {matrix-model} {test.xmc}").out
    assert len(call("predict m set").rows) == 60


def test_a_tree_and_features_of_labels(call: Any, files: Any) -> None:
    sylvan.LabelTree.random(6, branching=2, max_leaf=2, seed=3).save("tree")
    call("train xr-linear {train.xmc} --model m --tree tree")
    assert repr(sylvan.load("m").tree_) == repr(sylvan.load("tree"))
    width = sylvan.load(files.matrix_model).n_features_
    data.save_npz("Z.npz", sp.eye(6, width, format="csr"))
    call("train xr-linear {train.xmc} --model m --label-features Z.npz --set max_leaf=2")
    assert sylvan.load("m").embedding == "pifa_lf"


def test_neighbors(call: Any) -> None:
    call("train neighbors {train.jsonl} --model m --set n_neighbors=5")
    assert sylvan.load("m").model.n_neighbors == 5
    assert len(call("predict m {test.jsonl} -k 1").labels[0]) == 1
    assert "n_neighbors=50" in call("train neighbors --help").out


def test_irli(call: Any, refused: Any) -> None:
    pytest.importorskip("torch")
    settings = ("n_buckets=16", "n_repetitions=4", "hidden=32", "rounds=1", "learning_rate=0.01")
    train = "train irli {train.jsonl} --model m --seed 1 --threads 1"
    assert "Trained TextModel" in call(f"{train} --set {' --set '.join(settings)}").out
    assert sylvan.load("m").model.n_repetitions == 4
    assert len(call("predict m {test.jsonl} -k 3").labels[0]) == 3
    assert "@5" in call("evaluate m {test.jsonl}").out
    assert "IRLIClassifier" in call("inspect m").out
    assert "n_repetitions=16" in call("train irli --help").out
    refused("IRLIClassifier has no plan: only trainings of XRLinear", "plan irli {train.xmc}")
    refused("'auto'", f"{train} --set rounds=often")


def test_help_has_examples_and_stands_where_a_model_is_missing(call: Any) -> None:
    verbs = ("train", "train xr-linear", "predict", "evaluate", "inspect", "explain", "demo", "index", "search", "")
    for verb in verbs:
        shown = call(f"{verb} --help").out
        assert "Example" in shown and f"sylvan {verb}" in shown
    assert "beam=10" in call("train xr-linear --help").out and "n_buckets=auto" in call("index --help").out
    assert call("--version").out == f"sylvan {sylvan.__version__}\n"
    call(code=2)
    bare = call("train", code=2).err
    assert "xr-linear" in bare and "Error" not in bare


def test_help_is_quick() -> None:
    """It loads no verb, and of Sylvan only what ``import sylvan`` loads."""
    code = (
        "import sys; from sylvan.cli import main; assert main(['--help']) == 0; "
        "loaded = {m for m in sys.modules if m.startswith('sylvan.cli.')}; "
        "assert loaded == {'sylvan.cli.app', 'sylvan.cli.session'}, loaded"
    )
    python("-c", code, check=True)


def test_weighted_labels_of_text_matrices(call: Any, refused: Any, files: Any) -> None:
    X, Y = data.load_npz(files("X.train.npz")), data.load_npz(files("Y.train.npz"))
    Y.data[::2] = 3.0
    data.save_xmc("weighted.xmc", X, Y)
    refused("--weighted-labels", "train xr-linear weighted.xmc --model m")
    call("train xr-linear weighted.xmc --model m --weighted-labels")
    scores = sylvan.load("m").rank(X, k=3).scores
    assert np.array_equal(scores, sylvan.XRLinear().fit(X, Y).rank(X, k=3).scores)
    assert not np.array_equal(scores, sylvan.load(files.matrix_model).rank(X, k=3).scores)
    call("evaluate m weighted.xmc --weighted-labels")


@pytest.mark.parametrize("rule", [{"threshold": 0.4}, {"expected": "f1"}, {"precision": 0.7}, {}], ids=str)
def test_predict_writes_the_probabilities_that_a_rule_picks(call: Any, files: Any, X: Any, rule: Any) -> None:
    words = " ".join(f"--{name} {value}" for name, value in rule.items()) or "--proba -k 2"
    model = sylvan.load(files.matrix_model)
    top = model.choose(X, **(rule or {"k": 2}))
    outcome = call(f"predict {{matrix-model}} {{X.test.npz}} {words}")
    assert ("The model is not calibrated" in outcome.err) == (model.calibrator_ is None)
    assert outcome.labels == [[i for i in labels if i >= 0] for labels in top.labels.tolist()]
    assert [len(row["probabilities"]) for row in outcome.rows] == [len(row["labels"]) for row in outcome.rows]
    assert call(f"predict {{matrix-model}} {{X.test.npz}} {words} -q -o top.npz").err == ""
    assert (data.load_npz("top.npz") != top.to_csr(model.n_labels_)).nnz == 0


def test_predict_names_what_a_rule_picks(call: Any, files: Any) -> None:
    texts = data.read_jsonl(files("test.jsonl")).texts
    expected = sylvan.load(files.text_model).choose(texts, expected="f1", k=3).names
    assert call("predict {text-model} {test.jsonl} --expected f1 -k 3 -q").labels == expected


def test_a_file_of_labels_far_apart_costs_what_any_other_does(call: Any) -> None:
    rows = {"7": "1:1", "2000000000": "2:1", "50": "3:1"}
    Path("train.svm").write_text("".join(f"{label} {row}\n" * 3 for label, row in rows.items()))
    assert "with 3 labels" in call("train xr-linear train.svm --model m").out
    assert [row[0] for row in call("predict m train.svm").labels[::3]] == list(rows)
    assert re.search(r"^P +100\.00", call("evaluate m train.svm").out, re.MULTILINE)


@pytest.mark.parametrize("name", ["fast", "balanced", "accurate"])
def test_presets_are_parameters_behind_those_that_are_set(name: str, call: Any) -> None:
    call(f"train xr-linear {{train.jsonl}} --model m --preset {name} --set n_trees=2")
    assert sylvan.load("m").model.get_params() == XRLinear.preset(name, n_trees=2).get_params()


@pytest.mark.parametrize("option", ["stem", "lemmatize"])
def test_a_model_of_stems_or_lemmas(option: str, call: Any) -> None:
    pytest.importorskip("snowballstemmer")
    pytest.importorskip("simplemma")
    call(f"train xr-linear {{train.jsonl}} --model m --{option} en")
    assert getattr(sylvan.load("m").vectorizer, option) == "en"
    call("predict m {test.jsonl} -k 1")
    call(f"plan xr-linear {{train.jsonl}} --{option} en")


def test_labels_that_are_allowed_or_denied(call: Any, files: Any) -> None:
    few = "Whaling\r\n\nTürkçe\n".encode()
    Path("few.txt").write_bytes(few)
    Path("few.txt.gz").write_bytes(gzip.compress(few))
    model, texts = sylvan.load(files.text_model), data.read_jsonl(files("test.jsonl")).texts
    only = model.rank(texts, k=6, allowed=["Whaling", "Türkçe"]).names
    assert all(set(row) == {"Whaling", "Türkçe"} for row in only)
    for path in ("few.txt", "few.txt.gz"):
        assert call(f"predict {{text-model}} {{test.jsonl}} --allowed {path}").labels == only
    rest = call("predict {text-model} {test.jsonl} --denied -", stdin=few).labels
    assert rest == model.rank(texts, k=6, denied=["Whaling", "Türkçe"]).names
    Path("yes").write_text(" 1\n4\n4\n")
    Path("no").write_text("4\n")
    assert call("predict {matrix-model} {test.xmc} --allowed yes --denied no").labels == [[1]] * 60


@pytest.mark.parametrize(
    ("words", "content", "sentence"),
    [
        ("{text-model} {test.jsonl}", b"Baking\nWailing\n",
         "line 2: the list holds 'Wailing', but none of the model's 6 labels has"),
        ("{text-model} {test.jsonl}", b"\xff\n", "line 1: the label is not UTF-8."),
        ("{matrix-model} {test.xmc}", b"0\n6\n", "line 2: a label of this model is an id in [0, 5]. Got '6' instead."),
        ("{matrix-model} {test.xmc}", b"Baking\n",
         "line 1: a label of this model is an id in [0, 5]. Got 'Baking' instead."),
    ],
)  # fmt: skip
def test_labels_that_are_not_known(words: str, content: bytes, sentence: str, refused: Any) -> None:
    Path("list.txt").write_bytes(content)
    refused(f"list.txt, {sentence}", f"predict {words} --allowed list.txt")


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="names of files are text there")
def test_files_whose_names_are_no_text(files: Any, call: Any, in_folder: Path) -> None:
    """Their names stand in the model's notes as far as they are text."""
    for part in ("train", "test"):
        shutil.copy(files(f"{part}.jsonl"), os.fsdecode(b"\xfc.") + f"{part}.jsonl")
    call(os.fsdecode(b"train xr-linear \xfc.train.jsonl --model m --test \xfc.test.jsonl -q"))
    assert call("inspect m").out.count("\ufffd.te") == 1
    call(os.fsdecode(b"thresholds m \xfc.test.jsonl --save -q"))
