"""Every wrong usage gets one sentence that says what is wrong, exit code 2, and never a traceback."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Words after "sylvan", with {name} for a file of the corpus, and a piece of the sentence.
WRONG = {
    "no verb of that name": ("tarin", r"No such command 'tarin'\. Did you mean 'train'\?"),
    "no model of that name": (
        "train xr-liner {train.jsonl} --model {out}", r"No such command 'xr-liner'\. Did you mean 'xr-linear'\?"),
    "a command like no other": ("zzz", "No such command 'zzz'. Known names: train, tune"),
    "no model folder": ("train xr-linear {train.jsonl}", "Missing option '--model'"),
    "label texts without rows": ("train xr-linear --label-texts {train.jsonl} --model m", "Missing argument 'TRAIN'"),
    "no input": ("train xr-linear --model {out}", "Missing argument 'TRAIN'"),
    "unknown option": ("predict {text-model} {test.jsonl} --beam 3", "No such option"),
    "missing input": ("train xr-linear {nowhere.jsonl} --model {out}", "There is no file '.*nowhere.jsonl'"),
    "folder as input": ("train xr-linear {text-model} --model {out}", "is a folder, not a file"),
    "missing model": ("predict {nowhere} {test.jsonl}", "there is no such folder"),
    "a file as model": ("predict {test.jsonl} {test.jsonl}", "it is a file, not a folder"),
    "folder that is no model": ("predict {.} {test.jsonl}", "holds no manifest.json"),
    "wrong format": ("train xr-linear {train.xmc} --model {out} --format jsonl", "train.xmc, line 1: "),
    "no such format": ("train xr-linear {train.xmc} --model {out} --format table", "'table' is not one of"),
    "no labels": ("train xr-linear {X.train.npz} --model {out}", "holds no labels: give them with --labels"),
    "lines have no labels": ("train xr-linear {train.lines} --model {out}", "holds no labels"),
    "no such field of labels": (
        "train xr-linear {train.jsonl} --model {out} --labels-field tags", "has no field 'tags'"),
    "no such field of text": (
        "train xr-linear {train.jsonl} --model {out} --text-field title", "has no field 'title'"),
    "labels of text apart": (
        "train xr-linear {train.jsonl} --labels {Y.train.npz} --model {out}", "--labels is for matrices"),
    "labels of other rows": (
        "train xr-linear {X.train.npz} --labels {Y.test.npz} --model {out}", "has 240 rows, but .* has 60"),
    "missing labels": ("train xr-linear {X.train.npz} --labels {nowhere.npz} --model {out}", "There is no file"),
    "features of labels for a model that has no use for them": (
        "train neighbors {train.xmc} --model {out} --label-features {Y.test.npz}", "not for NeighborRanker"),
    "a seed for a model that draws nothing": (
        "train neighbors {train.xmc} --model {out} --seed 3", "has no parameter 'seed'"),
    "unknown parameter": (
        "train xr-linear {train.jsonl} --model {out} --set beem=3", "no parameter 'beem'. Did you mean 'beam'"),
    "unknown text parameter": (
        "train xr-linear {train.jsonl} --model {out} --set-text ngram=1", "Did you mean 'ngrams'"),
    "a tree has an option": ("train xr-linear {train.jsonl} --model {out} --set tree=t", "is set by --tree"),
    "features of labels for another index": (
        "train xr-linear {train.xmc} --model {out} --label-features {Y.test.npz} --set embedding=pii",
        "--label-features is for embedding=pifa_lf"),
    "features of other labels": (
        "train xr-linear {train.xmc} --model {out} --label-features {Y.test.npz} --set max_leaf=2", "6"),
    "no value": ("train xr-linear {train.jsonl} --model {out} --set beam", "takes name=value"),
    "bad value": ("train xr-linear {train.jsonl} --model {out} --set beam=many", "'beam' parameter .* Got 'many'"),
    "value out of range": ("train xr-linear {train.jsonl} --model {out} --set beam=0", "must be an int in .1, "),
    "infinite value": ("train xr-linear {train.jsonl} --model {out} --set cost=nan", "'cost' parameter"),
    "value given twice": (
        "train xr-linear {train.jsonl} --model {out} --set beam=1 --set beam=2", "gives 'beam' twice"),
    "seed given twice": (
        "train xr-linear {train.jsonl} --model {out} --set seed=1 --seed 2", "say the same thing"),
    "seed below 0": ("train xr-linear {train.jsonl} --model {out} --seed -1", "'--seed'"),
    "bad n-grams": ("train xr-linear {train.jsonl} --model {out} --ngrams 2,1", "'ngrams' parameter"),
    "bad min_df": ("train xr-linear {train.jsonl} --model {out} --min-df some", "'min_df' parameter"),
    "no word left": ("train xr-linear {train.jsonl} --model {out} --min-df 100000", "--min-df 100000 demands"),
    "n-grams of a matrix": ("train xr-linear {train.xmc} --model {out} --ngrams 1,2", "--ngrams is for text"),
    "text field of a matrix": ("train xr-linear {train.xmc} --model {out} --text-field t", "--text-field is for"),
    "a tree that is none": ("train xr-linear {train.xmc} --model {out} --tree {text-model}", "takes a saved LabelTree"),
    "no tree": ("train xr-linear {train.xmc} --model {out} --tree {nowhere}", "no such folder"),
    "k of 0": ("predict {text-model} {test.jsonl} -k 0", "'-k'"),
    "k that is no number": ("predict {text-model} {test.jsonl} -k five", "'five' is not a valid int"),
    "threads of 0": ("predict {text-model} {test.jsonl} --threads 0", "'--threads'"),
    "cut-off of 0": ("evaluate {text-model} {test.jsonl} -k 1,0", "ints in .1, 10000"),
    "cut-off beyond reason": ("evaluate {text-model} {test.jsonl} -k 1000000000", "ints in .1, 10000"),
    "beam of 0": ("predict {text-model} {test.jsonl} --set beam=0", "'beam' parameter"),
    "training parameter": ("predict {text-model} {test.jsonl} --set cost=2", "matters in training alone"),
    "output in no folder": ("predict {text-model} {test.jsonl} -o {nowhere/top.jsonl}", "can't be written"),
    "output is a folder": ("predict {text-model} {test.jsonl} -o {.}", "is a folder, not a file"),
    "a matrix for a text model": ("predict {text-model} {X.test.npz}", "takes text, but .*npz is a CSR matrix"),
    "a matrix in text for a text model": ("predict {text-model} {test.txt}", "takes text, but"),
    "text for a matrix model": ("predict {matrix-model} {test.jsonl}", "takes matrices, but .* JSON lines"),
    "lines for a matrix model": ("predict {matrix-model} {test.lines}", "takes matrices, but .* one text a line"),
    "labels to evaluate": ("evaluate {matrix-model} {X.test.npz}", "holds no labels"),
    "lines to evaluate": ("evaluate {text-model} {test.lines}", "holds no labels"),
    "the model's folder is a file": ("train xr-linear {train.jsonl} --model {test.jsonl}", "is a file, not a folder"),
    "the model's folder is somebody's": ("train xr-linear {train.jsonl} --model {.}", "is not a Sylvan model"),
    "a matrix that is none": ("predict {matrix-model} {test.jsonl} --format npz", "no .npz file"),
    "an array from stdin": ("predict {matrix-model} - --format npy", "stdin carries text formats only"),
}  # fmt: skip


@pytest.fixture
def fill(files: Any, tmp_path: Path) -> Callable[[str], list[str]]:
    """The words of a command line, with {name} replaced by the path of a file of the corpus."""

    def words(line: str) -> list[str]:
        def place(found: re.Match[str]) -> str:
            return str(tmp_path / "out") if found[1] == "out" else files(found[1])

        return [re.sub(r"\{([^}]*)\}", place, word) for word in line.split()]  # in which no path with blanks is cut

    return words


def sentence_of(outcome: Any) -> str:
    """The last line on stderr, with nothing before it but what was read."""
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    assert outcome.out == "" or outcome.out.startswith("Read ")
    lines = outcome.err.strip().split("\n")
    assert lines[-1].startswith("Error: ") and all(line.startswith("Read ") for line in lines[:-1]), outcome.err
    assert lines[-1].endswith((".", "?")), lines[-1]
    return str(lines[-1])


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage(case: str, call: Any, fill: Any, tmp_path: Path) -> None:
    line, piece = WRONG[case]
    sentence = sentence_of(call(*fill(line), stdin=b"1 0:1\n"))
    assert re.search(piece, sentence), sentence
    assert list(tmp_path.iterdir()) == []


CONTENTS = {
    "empty": (b"", "is empty"),
    "only blanks": (b" \n\n", "is empty"),
    "no JSON": (b"{whales}\n", "line 1: not JSON"),
    "no object": (b'{"text": "a", "labels": ["b"]}\n[1]\n', "line 2: must be a JSON object"),
    "not UTF-8": (b'{"text": "caf\xe9", "labels": ["a"]}\n', "line 1: the text is not UTF-8"),
    "number as text": (b'{"text": 3, "labels": ["a"]}\n', "'text' must be a string"),
    "only empty lists": (b'{"text": "a", "labels": []}\n', "no row has a label"),
    "damaged gzip": (gzip.compress(b'{"text": "a", "labels": ["b"]}\n' * 99)[:-20], "gzip data are damaged"),
    "feature out of range": (b"2 3 2\n0 1:1\n1 7:1\n", r"line 3: feature ids must be in \[0, 2\]"),
    "fewer rows than promised": (b"5 3 2\n0 1:1\n", "promises 5 rows"),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_wrong_content(case: str, call: Any, tmp_path: Path) -> None:
    content, piece = CONTENTS[case]
    path = tmp_path / "input"
    path.write_bytes(content)
    sentence = sentence_of(call("train", "xr-linear", str(path), "--model", str(tmp_path / "out"), "-q"))
    assert re.search(piece, sentence), sentence
    assert [entry.name for entry in tmp_path.iterdir()] == ["input"]


RANKED = {
    "more features in a header": (b"1 999 2\n0 1:1\n", "has 999 features, but the model was trained on"),
    "a feature too many": (b"0 1:1\n0 9999:1\n", r"line 2: feature ids must be in \[0, "),
    "fewer rows than promised": (b"5 {d} 2\n0 1:1\n", "promises 5 rows"),
    "more rows than promised": (b"1 {d} 2\n0 1:1\n0 1:1\n", "promises 1 row"),
}


@pytest.mark.parametrize("case", RANKED)
def test_wrong_matrix_to_rank(case: str, call: Any, files: Any, tmp_path: Path) -> None:
    content, piece = RANKED[case]
    width = Path(files("train.xmc")).read_text().split()[1]
    path = tmp_path / "input"
    path.write_bytes(content.replace(b"{d}", width.encode()))
    outcome = call("predict", files.matrix_model, str(path), "-o", str(tmp_path / "top.jsonl"))
    assert re.search(piece, sentence_of(outcome))
    assert [entry.name for entry in tmp_path.iterdir()] == ["input"]


def test_other_width_of_a_dense_matrix(call: Any, files: Any, tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "X.npy", np.ones((2, 3), np.float32))
    assert "has 3 features" in sentence_of(call("predict", files.matrix_model, str(tmp_path / "X.npy")))


def test_svmlight_that_does_not_show_its_first_feature(call: Any, files: Any, tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("0 3:1\n")
    assert "--first-feature" in sentence_of(call("predict", files.matrix_model, str(tmp_path / "a.svm")))
    assert call("predict", files.matrix_model, str(tmp_path / "a.svm"), "--first-feature", "1").code == 0


def test_a_damaged_model(call: Any, files: Any, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(files.text_model, tmp_path / "m")
    (tmp_path / "m" / "manifest.json").write_text("{}")
    assert "manifest.json" in sentence_of(call("predict", str(tmp_path / "m"), files("test.jsonl")))


def test_a_vectorizer_is_no_model_that_ranks(call: Any, files: Any, tmp_path: Path) -> None:
    from sylvan.text import TfidfVectorizer

    TfidfVectorizer().fit(["one two"]).save(tmp_path / "v")
    sentence = sentence_of(call("predict", str(tmp_path / "v"), files("test.jsonl")))
    assert "holds a TfidfVectorizer" in sentence


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_file_that_may_not_be_read(call: Any, files: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text("{}")
    (tmp_path / "secret.jsonl").chmod(0)
    sentence_of(call("predict", files.text_model, str(tmp_path / "secret.jsonl")))


def test_a_fault_of_ours_is_one_sentence_and_exit_1(call: Any, files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr("sylvan.data.formats.rankings._Lines.write", broken)
    outcome = call("predict", files.text_model, files("test.jsonl"))
    assert outcome.code == 1
    assert "something went wrong inside Sylvan (KeyError: 'gone')" in outcome.err and "Traceback" not in outcome.err
    outcome = call("predict", files.text_model, files("test.jsonl"), "--debug")
    assert outcome.code == 1 and "Traceback" in outcome.err


def test_too_little_memory_is_one_sentence_and_exit_1(call: Any, files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sylvan.data.formats.rankings._Lines.write", greedy)
    outcome = call("predict", files.text_model, files("test.jsonl"))
    assert (outcome.code, outcome.err) == (1, "Error: there is not enough memory for this.\n")
