"""``sylvan convert`` and training, predicting and evaluating on every format of text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from processes import start
from waiting import PATIENCE

from sylvan import data
from sylvan.cli.io.formats import detect

TEXTS = ["whales harpoon ship", 'bread, "flour"\toven', "stars & planets"]
LABELS = [["whaling", "sea"], ["baking"], []]
URIS = [[f"http://example.org/{label}" for label in row] for row in LABELS]
WAYS = [
    ("a.csv", None, []),
    ("a.tsv.gz", None, []),
    ("a.txt", "fasttext", []),
    ("a.parquet", None, []),
    ("a.jsonl.xz", "annif-jsonl", []),
    ("corpus", "annif-folder", []),
]


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = str(tmp_path / "source.jsonl")
    data.write_jsonl(path, TEXTS, LABELS)
    return path


@pytest.mark.parametrize(("name", "format_", "options"), WAYS)
def test_there_and_back(name: str, format_: str | None, options: list[str], source: str, tmp_path: Path, call: Any):
    if name == "a.parquet":
        pytest.importorskip("pyarrow")
    there, back = str(tmp_path / name), str(tmp_path / "back.jsonl")
    to = ["--to", format_] if format_ else []
    outcome = call("convert", source, there, *to, *options)
    assert (outcome.code, outcome.out) == (0, ""), outcome.err
    assert call("convert", there, back).code == 0
    assert data.read_jsonl(back) == (TEXTS, LABELS, None)


def test_pecos_with_its_items(source: str, tmp_path: Path, call: Any):
    there, items = str(tmp_path / "a.txt"), str(tmp_path / "items.txt")
    words = ["convert", source, there, "--to", "pecos", "--output-items", items]
    refused = call(*words)
    assert refused.code == 2
    assert "holds a line break or tab" in refused.err
    assert not Path(there).exists()
    assert not Path(items).exists()
    assert call(*words, "--one-line").code == 0
    assert detect(there, None) == "pecos"
    back = call("convert", there, "-", "--to", "jsonl", "--items", items)
    assert [json.loads(line)["labels"] for line in back.out.splitlines()] == LABELS


def test_labels_become_uris_through_a_vocabulary(source: str, tmp_path: Path, call: Any):
    vocabulary = tmp_path / "subjects.tsv"
    vocabulary.write_text("".join(f"<{uri}>\t{uri[19:]}\n" for row in URIS for uri in row))
    for name, format_ in (("a.tsv", "annif-tsv"), ("a.csv", "annif-csv")):
        there = str(tmp_path / name)
        words = ["convert", source, there, "--to", format_, "--vocabulary", str(vocabulary), "--one-line"]
        assert call(*words).code == 0
        assert detect(there, None) == format_
        found = call("convert", there, "-", "--to", "jsonl")
        assert [json.loads(line)["labels"] for line in found.out.splitlines()] == URIS
    vocabulary.write_text("<http://example.org/sea>\tsea\n")
    words = ["convert", source, str(tmp_path / "b.tsv"), "--to", "annif-tsv", "--vocabulary", str(vocabulary)]
    assert "not in the vocabulary and left out, such as 'whaling'" in call(*words, "--one-line").err


def test_a_pipe_and_stdin(call: Any):
    found = call("convert", "-", "-", "--from", "csv", "--to", "fasttext", stdin=b"text,labels\na b,x;y\n")
    assert (found.code, found.out) == (0, "__label__x __label__y a b\n")


def test_a_pipe_that_ends_early(tmp_path: Path):
    data.write_jsonl(tmp_path / "a.jsonl", ["some words"] * 50_000, [["x"]] * 50_000)
    process = start("convert", str(tmp_path / "a.jsonl"), "-", "--to", "csv")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"text,labels\n"
    process.stdout.close()
    assert (process.wait(PATIENCE), process.stderr.read()) == (0, b"")


def test_matrices(files: Any, tmp_path: Path, call: Any):
    pair = str(tmp_path / "pair") + "/"
    assert call("convert", files("test.xmc"), pair).code == 0
    X, Y = data.load_npz_pair(pair)
    assert call("convert", pair, str(tmp_path / "b.svm")).code == 0
    assert call("convert", str(tmp_path / "b.svm"), str(tmp_path / "c.xmc")).code == 0
    X2, Y2 = data.load_xmc(tmp_path / "c.xmc")
    np.testing.assert_array_equal(X2.toarray(), X.toarray()[:, : X2.shape[1]])
    np.testing.assert_array_equal(Y2.toarray(), Y.toarray())
    alone = str(tmp_path / "x.npy"), "--output-labels", str(tmp_path / "y.npz")
    assert call("convert", files("test.xmc"), *alone).code == 0
    np.testing.assert_array_equal(data.load_npy(alone[0]), X.toarray())
    np.testing.assert_array_equal(data.load_npz(alone[2]).toarray(), Y.toarray())
    mapped = str(tmp_path / "mapped")
    assert call("convert", alone[0], mapped, "--to", "csr").code == 0
    assert call("convert", mapped, str(tmp_path / "back.npz"), "--to", "npz").code == 0
    np.testing.assert_array_equal(data.load_npz(tmp_path / "back.npz").toarray(), X.toarray())


def test_weights_are_dropped_when_asked(tmp_path: Path, call: Any):
    data.write_jsonl(tmp_path / "a.jsonl", ["a"], [["x"]], [[2.0]])
    refused = call("convert", str(tmp_path / "a.jsonl"), "-", "--to", "csv")
    assert "Row 0 weighs its labels, and a table holds no weights" in refused.err
    assert call("convert", str(tmp_path / "a.jsonl"), "-", "--to", "csv", "--drop-weights").out.endswith("a,x\n")
    assert call("convert", str(tmp_path / "a.jsonl"), "-", "--to", "lines", "--texts-only").out == "a\n"


def test_train_predict_and_evaluate_on_a_table(files: Any, tmp_path: Path, call: Any):
    table, model = str(tmp_path / "train.csv"), str(tmp_path / "m")
    assert call("convert", files("train.jsonl"), table).code == 0
    assert call("train", "xr-linear", table, "--model", model, "--ngrams", "1,1", "-q").code == 0
    columns = ["--text-field", "1", "--labels-field", "2", "--header"]
    expected = call("evaluate", files.text_model, files("test.jsonl"), "--json", "-")
    got = call("evaluate", model, files("test.jsonl"), "--json", "-")
    assert (got.code, got.out) == (0, expected.out)
    subjects = tmp_path / "subjects.tsv"
    subjects.write_text("<Whaling>\tthe catching of whales\n")
    found = call("predict", model, table, "-k", "1", "--vocabulary", str(subjects), *columns, "-q")
    assert found.code == 0
    answers = [json.loads(line) for line in found.out.splitlines()]
    assert {"Whaling": "the catching of whales"}.items() <= {a["uris"][0]: a["labels"][0] for a in answers}.items()
    assert "--language is for" in call("predict", model, table, "--language", "en").err


def test_evaluate_leaves_pairs_out(files: Any, tmp_path: Path, call: Any):
    X, Y = data.load_xmc(files("test.xmc"))
    pairs = tmp_path / "filter_labels_test.txt"
    data.save_filter_labels(pairs, Y)
    words = ["evaluate", files.matrix_model, files("test.xmc"), "--json", "-"]
    found = json.loads(call(*words, "--filter-labels", str(pairs)).out)
    assert set(found["measures"]["P"].values()) == {0.0}  # every true label was filtered from the answers
    pairs.write_text("")
    assert call(*words, "--filter-labels", str(pairs)).out == call(*words).out
    pairs.write_text(f"{X.shape[0]} 0\n")
    assert "names row 60, but there are 60 rows" in call(*words, "--filter-labels", str(pairs)).err


def test_folders_that_hold_nothing_known(tmp_path: Path, call: Any):
    assert "is a folder, not a file, and holds neither" in call("convert", str(tmp_path), "a.csv").err
    (tmp_path / "dataset_dict.json").write_text("{}")
    (tmp_path / "train").mkdir()
    assert "holds several datasets: give the path of one of train" in call("convert", str(tmp_path), "a.csv").err


def test_parts_are_trained_on_as_the_matrix_is(call: Any, tmp_path: Path) -> None:
    X = sp.random(60, 20, 0.3, "csr", np.float32, np.random.default_rng(0))
    Y = sp.csr_matrix(np.arange(60)[:, None] % 5 <= np.arange(5)).astype(np.float32)

    def at(name: str) -> str:
        return str(tmp_path / name)

    data.save_xmc(at("train.txt"), X, Y)
    assert call("convert", at("train.txt"), at("parts"), "--to", "parts").code == 0
    for name, source in (("one", at("train.txt")), ("two", at("parts"))):
        assert call("train", "xr-linear", source, "--model", at(name), "--quiet").code == 0
        assert call("predict", at(name), source, "-o", at(f"{name}.jsonl"), "--quiet").code == 0
        assert call("evaluate", at(name), source, "--json", at(f"{name}.json"), "--quiet").code == 0
    assert Path(at("one.jsonl")).read_bytes() == Path(at("two.jsonl")).read_bytes()
    one, two = (json.loads(Path(at(name)).read_text()) for name in ("one.json", "two.json"))
    assert one["measures"] == two["measures"]
    assert call("convert", at("parts"), at("again.txt"), "--to", "xmc").code == 0
    assert Path(at("again.txt")).read_bytes() == Path(at("train.txt")).read_bytes()
    apart = call("convert", at("train.txt"), at("p"), "--to", "parts", "--output-labels", at("Y.npz"))
    assert "holds the labels itself" in apart.err
    data.save_parts(at("bare"), X)
    bare = call("train", "xr-linear", at("bare"), "--model", at("m"))
    assert "holds no labels: give them with --labels" in bare.err
