"""The verbs on every format: what goes in, what comes out, and that all roads lead to the same answers."""

from __future__ import annotations

import gzip
import json
import lzma
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from child_processes import python
from processes import start
from waiting import PATIENCE

import sylvan
from sylvan import XRLinear, data

MATRICES = ["test.xmc", "test.txt", "test.xmc.gz", "test-headless.txt", "test.svm", "test-from-1.svm", "X.test.npz",
            "X.test.npy"]  # fmt: skip
TEXTS = ["test.jsonl", "test.jsonl.gz", "test.jsonl.xz", "test.lines"]


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", MATRICES)
def test_predict_on_matrices(name: str, call: Any, files: Any) -> None:
    outcome = call("predict", files.matrix_model, files(name), "-k", "2")
    assert outcome.code == 0, outcome.err
    model = sylvan.load(files.matrix_model)
    top = model.rank(data.load_npz(files("X.test.npz")), k=2)
    found = rows(outcome.out)
    assert [row["labels"] for row in found] == [[i for i in row if i >= 0] for row in top.labels.tolist()]
    assert found[0]["probabilities"] == pytest.approx(model.probabilities(top).scores[0].tolist(), rel=1e-5)
    raw = rows(call("predict", files.matrix_model, files(name), "-k", "2", "--scores").out)
    assert raw[0]["scores"] == pytest.approx(top.scores[0].tolist(), rel=1e-5)


@pytest.mark.parametrize("name", TEXTS)
def test_predict_on_text(name: str, call: Any, files: Any) -> None:
    outcome = call("predict", files.text_model, files(name), "-k", "2")
    assert outcome.code == 0, outcome.err
    texts = data.read_jsonl(files("test.jsonl")).texts
    assert [row["labels"] for row in rows(outcome.out)] == sylvan.load(files.text_model).rank(texts, k=2).names


@pytest.mark.parametrize("name", ["train.xmc", "train.txt", "train.xmc.gz", "train-headless.txt", "train.svm",
                                  "train-from-1.svm", "X.train.npz", "X.train.npy"])  # fmt: skip
def test_training_on_any_matrix_gives_the_same_model(name: str, call: Any, files: Any, tmp_path: Path) -> None:
    labels = ("--labels", files("Y.train.npz")) if name.startswith("X") else ()
    outcome = call("train", "xr-linear", files(name), "--model", str(tmp_path / "m"), *labels)
    assert outcome.code == 0 and outcome.err.startswith(f"Read 240 rows from {files(name)}: a "), outcome.err
    assert outcome.err.count("\n") == 1 and "6 labels" in outcome.out and "Saved it in" in outcome.out
    X = data.load_npz(files("X.test.npz"))
    mine, other = (sylvan.load(folder).rank(X, k=3) for folder in (tmp_path / "m", files.matrix_model))
    assert np.array_equal(mine.labels, other.labels) and np.array_equal(mine.scores, other.scores)


@pytest.mark.parametrize("name", ["train.jsonl", "train.jsonl.gz", "train.jsonl.xz"])
def test_training_on_text(name: str, call: Any, files: Any, tmp_path: Path) -> None:
    words = ["train", "xr-linear", files(name), "--model", str(tmp_path / "m"), "--ngrams", "1,2", "--threads", "2",
             "--set-text", "sublinear_tf=yes", "--set", "beam=7", "--seed", "3", "--quiet"]  # fmt: skip
    outcome = call(*words)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    model = sylvan.load(tmp_path / "m")
    assert model.vectorizer.ngrams == (1, 2) and model.vectorizer.sublinear_tf
    assert (model.model.beam, model.model.seed) == (7, 3)
    assert model.rank(["bread and flour"], k=1).names == [["Baking"]]


def test_fields_of_other_names(call: Any, files: Any, tmp_path: Path) -> None:
    lines = [{"title": "flour", "author": "baker", "subjects": ["Baking"]}] * 3
    lines += [{"title": "stars", "author": "observer", "subjects": ["Astronomy"]}] * 3
    data.write_records(tmp_path / "a.jsonl", lines)
    fields = ("--text-field", "title", "--text-field", "author", "--labels-field", "subjects")
    assert call("train", "xr-linear", str(tmp_path / "a.jsonl"), "--model", str(tmp_path / "m"), *fields).code == 0
    for again in (fields, ()):  # the model knows them
        outcome = call("evaluate", str(tmp_path / "m"), str(tmp_path / "a.jsonl"), *again, "-k", "1")
        assert outcome.code == 0 and "100.00" in outcome.out, outcome.err
    outcome = call("predict", str(tmp_path / "m"), str(tmp_path / "a.jsonl"), "--text-field", "author")
    assert [row["labels"][0] for row in rows(outcome.out)] == ["Baking"] * 3 + ["Astronomy"] * 3


def test_weighted_and_numeric_labels(call: Any, tmp_path: Path) -> None:
    lines = ['{"text": "flour yeast", "labels": [[7, 2.5]]}', '{"text": "stars", "labels": {"12": 1}}'] * 3
    (tmp_path / "a.jsonl").write_text("\n".join(lines[::2]) + "\n")
    assert call("train", "xr-linear", str(tmp_path / "a.jsonl"), "--model", str(tmp_path / "m")).code == 0
    assert list(sylvan.load(tmp_path / "m").vocabulary_) == ["7"]


def test_stdin_and_stdout(call: Any, files: Any, tmp_path: Path) -> None:
    content = Path(files("train.jsonl")).read_bytes()
    for packed in (content, gzip.compress(content), lzma.compress(content)):
        assert call("train", "xr-linear", "-", "--model", str(tmp_path / "m"), stdin=packed).code == 0
    outcome = call("predict", str(tmp_path / "m"), stdin=b"bread flour\nstars and planets\n")
    assert [row["labels"][0] for row in rows(outcome.out)] == ["Baking", "Astronomy"]
    matrix = Path(files("test.xmc")).read_bytes()
    outcome = call("predict", files.matrix_model, "-", "-o", "-", stdin=matrix)
    assert len(rows(outcome.out)) == 60
    outcome = call("evaluate", files.matrix_model, "-", stdin=matrix)
    assert outcome.code == 0 and outcome.out == call("evaluate", files.matrix_model, files("test.xmc")).out


def test_names_beyond_ascii_arrive(call: Any, files: Any) -> None:
    outcome = call("predict", files.text_model, "-", "-k", "1", stdin="şiir ve söz".encode())
    assert outcome.out.startswith('{"labels": ["Türkçe"]')


@pytest.mark.parametrize("model", ["text", "matrix"])
def test_predictions_as_a_matrix(model: str, call: Any, files: Any, tmp_path: Path) -> None:
    folder, name = (files.text_model, "test.jsonl") if model == "text" else (files.matrix_model, "test.xmc")
    loaded = sylvan.load(files.matrix_model)
    top = loaded.rank(data.load_npz(files("X.test.npz")), k=3)
    for options, expected in (((), loaded.probabilities(top)), (("--scores",), top)):
        assert call("predict", folder, files(name), "-k", "3", "-o", str(tmp_path / "top.npz"), *options).code == 0
        values = sp.load_npz(tmp_path / "top.npz")
        assert values.shape == (60, 6) and values.dtype == np.float32 and np.diff(values.indptr).max() <= 3
        assert abs(values - expected.to_csr(6)).max() < 1e-6


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "jsonl.xz"])
def test_predictions_in_a_file_replace_it(suffix: str, call: Any, files: Any, tmp_path: Path) -> None:
    path = tmp_path / f"top.{suffix}"
    path.write_text("old")
    assert call("predict", files.text_model, files("test.jsonl"), "-o", str(path)).code == 0
    assert [record["labels"][0] for record in data.read_records(path)] == [
        row["labels"][0] for row in rows(call("predict", files.text_model, files("test.jsonl")).out)
    ]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("text", [True, False])
def test_blocks_change_nothing(text: bool, call: Any, files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("predict", files.text_model if text else files.matrix_model, files("test.jsonl" if text else "test.xmc"))
    whole = call(*words).out
    monkeypatch.setattr("sylvan.cli.io.inputs._ROWS", 7)
    monkeypatch.setattr("sylvan.cli.io.matrices._ROWS", 7)
    assert call(*words).out == whole != ""


@pytest.mark.parametrize("header", [True, False])
def test_rows_without_anything_are_ranked_too(
    header: bool, call: Any, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty lines are rows, but at the end only where a header promises them; also when a block ends in them."""
    width = Path(files("train.xmc")).read_text().split()[1]
    lines = ["0 1:1", "", "", "1 2:1", "", ""]
    content = (f"6 {width} 6\n" if header else "") + "\n".join(lines) + "\n"
    (tmp_path / "a.xmc").write_text(content)
    expected = 6 if header else 4
    assert len(rows(call("predict", files.matrix_model, str(tmp_path / "a.xmc")).out)) == expected
    from sylvan.data.streams import InputStream

    original = InputStream.blocks
    monkeypatch.setattr(InputStream, "blocks", lambda stream, size=8: original(stream, 8))
    assert len(rows(call("predict", files.matrix_model, str(tmp_path / "a.xmc")).out)) == expected


@pytest.mark.parametrize(("name", "value"), [("tail", "psp:0.6,2.6"), ("beam", 1)])
def test_parameters_when_ranking(name: str, value: Any, call: Any, files: Any) -> None:
    texts = data.read_jsonl(files("test.jsonl")).texts
    found = rows(call("predict", files.text_model, files("test.jsonl"), "-k", "2", "--set", f"{name}={value}").out)
    expected = sylvan.load(files.text_model).rank(texts, k=2, **{name: value}).names
    assert [row["labels"] for row in found] == expected


def test_evaluate_prints_the_metrics(call: Any, files: Any, tmp_path: Path) -> None:
    from sylvan import metrics

    path = tmp_path / "result.json"
    outcome = call("evaluate", files.matrix_model, files("X.test.npz"), "--labels", files("Y.test.npz"),
                   "-k", "1,2", "--json", str(path))  # fmt: skip
    assert outcome.code == 0, outcome.err
    Y, Y_train = data.load_npz(files("Y.test.npz")), data.load_npz(files("Y.train.npz"))
    top = sylvan.load(files.matrix_model).rank(data.load_npz(files("X.test.npz")), k=2)
    found = json.loads(path.read_text())["measures"]
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


def test_evaluate_prints_calibration_and_slices(call: Any, files: Any, tmp_path: Path) -> None:
    from sylvan import XRLinear, metrics

    X, Y = data.load_npz(files("X.train.npz")), data.load_npz(files("Y.train.npz"))
    model = XRLinear(max_leaf=4, branching=2, calibration="platt", n_jobs=1).fit(X, Y)
    assert model.calibrator_ is not None
    model.save(tmp_path / "m")
    truth, top = data.load_npz(files("Y.test.npz")), model.rank(data.load_npz(files("X.test.npz")), k=3)
    words = ["evaluate", str(tmp_path / "m"), files("X.test.npz"), "--labels", files("Y.test.npz"), "-k", "1,3"]
    outcome, found = call(*words), json.loads(call(*words, "--json", "-").out)
    for name, answers in {"ECE raw": model.bounded(top), "ECE cal.": model.probabilities(top)}.items():
        expected = metrics.calibration_error(truth, answers, (1, 3))
        assert found["measures"][name] == pytest.approx({str(k): value for k, value in expected.items()})
        assert re.search(rf"^{name} +{100 * expected[1]:.2f} +{100 * expected[3]:.2f}$", outcome.out, re.M)
    for name, values in metrics.slices(truth, top, model.label_counts_, (1, 3)).items():
        assert found["slices"][name]["R"] == {"1": values["R@1"], "3": values["R@3"]}
        cells = " +".join(f"{100 * values[f'R@{k}']:.2f}" for k in (1, 3))
        assert re.search(rf"^{name} +{cells} +{values['labels']} +{values['rows']}$", outcome.out, re.M)
    tailed = json.loads(call(*words, "--set", "tail=psp", "--json", "-").out)
    assert "P" in tailed["measures"] and "ECE raw" not in tailed["measures"], "worths are no probabilities"
    assert "threshold" not in tailed
    for threshold in (0.5, 0.2, 0.001):  # the last takes more labels than the cut-offs
        chosen = model.choose(data.load_npz(files("X.test.npz")), threshold=threshold)
        measured, given = metrics.set_f1(truth, chosen), () if threshold == 0.5 else ("--threshold", str(threshold))
        found = json.loads(call(*words, "--json", "-", *given).out)["threshold"]
        assert found == pytest.approx({"threshold": threshold, **measured})
        line = f"Labels with a probability of {threshold} or more, {measured['labels']:.2f} a row: F1 by rows "
        assert f"{line}{100 * measured['F1']:.2f}, micro {100 * measured['micro-F1']:.2f}" in call(*words, *given).out


def test_the_same_measures_for_text_and_matrices(call: Any, files: Any) -> None:
    text = call("evaluate", files.text_model, files("test.jsonl"))
    matrix = call("evaluate", files.matrix_model, files("test.xmc"))
    assert text.out.split("Percentages")[0] == matrix.out.split("Percentages")[0] != ""


def test_unknown_labels_are_counted(call: Any, files: Any, tmp_path: Path) -> None:
    data.write_jsonl(
        tmp_path / "a.jsonl", ["bread", "stars", "music", "silence"],
        [["Baking", "Opera"], ["Astronomy"], ["Opera", "Jazz"], []],
    )  # fmt: skip
    outcome = call("evaluate", files.text_model, str(tmp_path / "a.jsonl"), "-k", "1")
    assert "over 3 rows and all their labels. Left out: 1 row without any label." in outcome.out
    assert "3 labels (2 different) that the model doesn't know count as missed" in outcome.out
    width = Path(files("train.xmc")).read_text().split()[1]
    (tmp_path / "a.xmc").write_text(f"2 {width} 99\n0,98 1:1\n97 2:1\n")
    outcome = call("evaluate", files.matrix_model, str(tmp_path / "a.xmc"), "-k", "1", "--json", "-")
    assert json.loads(outcome.out)["labels_unknown"] == 2 and json.loads(outcome.out)["rows_measured"] == 2
    data.write_jsonl(tmp_path / "b.jsonl", ["music"], [["Opera"]])
    outcome = call("evaluate", files.text_model, str(tmp_path / "b.jsonl"))
    assert outcome.code == 2 and "no row has a label that the model knows" in outcome.err


def test_more_labels_asked_for_than_there_are(call: Any, files: Any, tmp_path: Path) -> None:
    outcome = call("predict", files.text_model, "-", "-k", "1000000000", stdin=b"bread\n")
    assert len(rows(outcome.out)[0]["labels"]) <= 6
    outcome = call("evaluate", files.text_model, files("test.jsonl"), "-k", "6,10", "--json", "-")
    measures = json.loads(outcome.out)["measures"]
    assert measures["P"]["10"] == pytest.approx(measures["P"]["6"] * 6 / 10)
    assert measures["R"]["10"] == measures["R"]["6"]


def test_a_folder_as_pecos_lays_it_out(call: Any, files: Any, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    for part, split in (("train", "trn"), ("test", "tst")):
        data.save_npz_pair(folder, data.load_npz(files(f"X.{part}.npz")), data.load_npz(files(f"Y.{part}.npz")), split)
    assert call("train", "xr-linear", str(folder), "--model", str(tmp_path / "m")).code == 0
    expected = call("evaluate", files.matrix_model, files("test.xmc")).out
    assert call("evaluate", str(tmp_path / "m"), str(folder)).out == expected
    assert len(rows(call("predict", str(tmp_path / "m"), str(folder)).out)) == 60


def test_a_tree_and_features_of_labels(call: Any, files: Any, tmp_path: Path) -> None:
    sylvan.LabelTree.random(6, branching=2, max_leaf=2, seed=3).save(tmp_path / "tree")
    words = ("train", "xr-linear", files("train.xmc"), "--model", str(tmp_path / "m"))
    assert call(*words, "--tree", str(tmp_path / "tree")).code == 0
    assert repr(sylvan.load(tmp_path / "m").tree_) == repr(sylvan.load(tmp_path / "tree"))
    width = sylvan.load(files.matrix_model).n_features_
    data.save_npz(tmp_path / "Z.npz", sp.eye(6, width, format="csr"))
    outcome = call(*words, "--label-features", str(tmp_path / "Z.npz"), "--set", "max_leaf=2")
    assert outcome.code == 0, outcome.err
    assert sylvan.load(tmp_path / "m").embedding == "pifa_lf"


def test_neighbors(call: Any, files: Any, tmp_path: Path) -> None:
    words = ("train", "neighbors", files("train.jsonl"), "--model", str(tmp_path / "m"), "--set", "n_neighbors=5")
    assert call(*words).code == 0
    assert sylvan.load(tmp_path / "m").model.n_neighbors == 5
    first = json.loads(call("predict", str(tmp_path / "m"), files("test.jsonl"), "-k", "1").out.splitlines()[0])
    assert len(first["labels"]) == 1
    assert "n_neighbors=50" in call("train", "neighbors", "--help").out


def test_irli(call: Any, files: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    settings = ("n_buckets=16", "n_repetitions=4", "hidden=32", "rounds=1", "learning_rate=0.01")
    words = ("train", "irli", files("train.jsonl"), "--model", str(tmp_path / "m"), "--seed", "1", "--threads", "1")
    outcome = call(*words, *(word for setting in settings for word in ("--set", setting)))
    assert outcome.code == 0 and "Trained TextModel" in outcome.out, outcome.err
    assert sylvan.load(tmp_path / "m").model.n_repetitions == 4
    first = json.loads(call("predict", str(tmp_path / "m"), files("test.jsonl"), "-k", "3").out.splitlines()[0])
    assert len(first["labels"]) == 3
    evaluated = call("evaluate", str(tmp_path / "m"), files("test.jsonl"))
    assert evaluated.code == 0 and "@5" in evaluated.out
    shown = call("inspect", str(tmp_path / "m"))
    assert shown.code == 0 and "IRLIClassifier" in shown.out
    assert "n_repetitions=16" in call("train", "irli", "--help").out
    plan = call("plan", "irli", files("train.xmc"))
    assert plan.code == 2 and "IRLIClassifier has no plan: only trainings of XRLinear" in plan.err
    wrong = call(*words, "--set", "rounds=often")
    assert wrong.code == 2 and "'auto'" in wrong.err


def test_a_verb_without_a_model_shows_its_help(call: Any) -> None:
    outcome = call("train")
    assert outcome.code == 2 and "xr-linear" in outcome.err and "Error" not in outcome.err


def test_no_option_forgets_its_example(call: Any) -> None:
    for verb in (["train"], ["train", "xr-linear"], ["predict"], ["evaluate"], ["inspect"], ["explain"], ["demo"], []):
        outcome = call(*verb, "--help")
        assert outcome.code == 0 and "Example" in outcome.out and "sylvan " in outcome.out
    assert "beam=10" in call("train", "xr-linear", "--help").out
    assert call("--version").out == f"sylvan {sylvan.__version__}\n"
    assert call().code == 2


def test_the_command_as_a_process(files: Any, tmp_path: Path) -> None:
    process = start("predict", files.text_model, "-", "-k", "1")
    out, err = process.communicate(b"bread and flour\n", timeout=PATIENCE)
    assert (process.returncode, err.strip()) == (0, b"Read 1 row from stdin: one text a line.")
    assert json.loads(out)["labels"] == ["Baking"]
    process = start("predict", files.text_model, str(tmp_path / "nowhere"))
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, b"") and err.startswith(b"Error: There is no file")


def test_help_is_quick() -> None:
    """It loads no verb, and of Sylvan only what ``import sylvan`` loads."""
    code = (
        "import sys; from sylvan.cli import main; assert main(['--help']) == 0; "
        "loaded = {m for m in sys.modules if m.startswith('sylvan.cli.')}; "
        "assert loaded == {'sylvan.cli.app', 'sylvan.cli.session', 'sylvan.cli.session'}, loaded"
    )
    python("-c", code, check=True)


def test_weighted_labels_of_text_matrices(call: Any, files: Any, tmp_path: Path) -> None:
    X, Y = data.load_npz(files("X.train.npz")), data.load_npz(files("Y.train.npz"))
    Y.data[::2] = 3.0
    data.save_xmc(tmp_path / "weighted.xmc", X, Y)
    words = ("train", "xr-linear", str(tmp_path / "weighted.xmc"), "--model", str(tmp_path / "m"))
    refused = call(*words)
    assert refused.code == 2 and "--weighted-labels" in refused.err
    assert call(*words, "--weighted-labels").code == 0
    scores = sylvan.load(tmp_path / "m").rank(X, k=3).scores
    assert np.array_equal(scores, sylvan.XRLinear().fit(X, Y).rank(X, k=3).scores)
    assert not np.array_equal(scores, sylvan.load(files.matrix_model).rank(X, k=3).scores)
    seen = call("evaluate", str(tmp_path / "m"), str(tmp_path / "weighted.xmc"), "--weighted-labels")
    assert seen.code == 0, seen.err


@pytest.mark.parametrize("rule", [{"threshold": 0.4}, {"expected": "f1"}, {"precision": 0.7}, {}], ids=str)
def test_predict_writes_the_probabilities_that_a_rule_picks(call: Any, files: Any, rule: Any, tmp_path: Path) -> None:
    words = [word for name, value in rule.items() for word in (f"--{name}", str(value))] or ["--proba", "-k", "2"]
    model, X = sylvan.load(files.matrix_model), data.load_npz(files("X.test.npz"))
    top = model.choose(X, **(rule or {"k": 2}))
    outcome = call("predict", files.matrix_model, files("X.test.npz"), *words)
    assert outcome.code == 0 and ("The model is not calibrated" in outcome.err) == (model.calibrator_ is None)
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert [row["labels"] for row in rows] == [[i for i in labels if i >= 0] for labels in top.labels.tolist()]
    assert [len(row["probabilities"]) for row in rows] == [len(row["labels"]) for row in rows]
    path = str(tmp_path / "top.npz")
    assert call("predict", files.matrix_model, files("X.test.npz"), *words, "-q", "-o", path).err == ""
    assert (data.load_npz(path) != top.to_csr(model.n_labels_)).nnz == 0


def test_predict_names_what_a_rule_picks(call: Any, files: Any) -> None:
    found = call("predict", files.text_model, files("test.jsonl"), "--expected", "f1", "-k", "3", "-q").out
    texts = [json.loads(line)["text"] for line in Path(files("test.jsonl")).read_text("utf-8").splitlines()]
    expected = sylvan.load(files.text_model).choose(texts, expected="f1", k=3).names
    assert [json.loads(line)["labels"] for line in found.splitlines()] == expected


def test_a_file_of_labels_far_apart_costs_what_any_other_does(call: Any, tmp_path: Path) -> None:
    rows = {"7": "1:1", "2000000000": "2:1", "50": "3:1"}
    (tmp_path / "train.svm").write_text("".join(f"{label} {row}\n" * 3 for label, row in rows.items()))
    words = [str(tmp_path / "model"), str(tmp_path / "train.svm")]
    assert "with 3 labels" in call("train", "xr-linear", words[1], "--model", words[0]).out
    answers = [json.loads(line)["labels"][0] for line in call("predict", *words).out.splitlines()]
    assert answers[::3] == list(rows)
    assert re.search(r"^P +100\.00", call("evaluate", *words).out, re.MULTILINE)


@pytest.mark.parametrize("name", ["fast", "balanced", "accurate"])
def test_presets_are_parameters_behind_those_that_are_set(name: str, call: Any, files: Any, tmp_path: Path) -> None:
    model = str(tmp_path / "model")
    call("train", "xr-linear", files("train.jsonl"), "--model", model, "--preset", name, "--set", "n_trees=2")
    assert sylvan.load(model).model.get_params() == XRLinear.preset(name, n_trees=2).get_params()


@pytest.mark.parametrize("option", ["stem", "lemmatize"])
def test_a_model_of_stems_or_lemmas(option: str, files: Any, call: Any, tmp_path: Path) -> None:
    pytest.importorskip("snowballstemmer")
    pytest.importorskip("simplemma")
    words = ("train", "xr-linear", files("train.jsonl"), "--model", str(tmp_path / "m"))
    assert call(*words, f"--{option}", "en").code == 0
    assert getattr(sylvan.load(tmp_path / "m").vectorizer, option) == "en"
    assert call("predict", str(tmp_path / "m"), files("test.jsonl"), "-k", "1").code == 0
    assert call("plan", "xr-linear", files("train.jsonl"), f"--{option}", "en").code == 0


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
