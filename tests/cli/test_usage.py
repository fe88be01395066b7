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
    "an option for the model": (
        "predict --model {text-model} {test.jsonl}", r"'sylvan predict MODEL .INPUT....' takes MODEL without"),
    "an option for models": ("serve --model {text-model}", r"'sylvan serve .NAME=.MODEL...' takes MODEL without"),
    "a file as model, for evaluate": ("evaluate {train.lines} {test.jsonl}", r"not JSON, .* A model is a folder"),
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
    "a tree that is none": ("train xr-linear {train.xmc} --model {out} --tree {text-model}", "must hold LabelTree"),
    "no tree": ("train xr-linear {train.xmc} --model {out} --tree {nowhere}", "no such folder"),
    "two vocabularies": (
        "train {train.jsonl} --model {out} --vocabulary a.ttl --vocabulary b.ttl",
        "'--vocabulary': must be one file. Got a.ttl, b.ttl instead: put them into one"),
    "two vocabularies to rank with": (
        "predict {text-model} {test.jsonl} --vocabulary a.ttl --vocabulary b.ttl", "must be one file. Got a.ttl"),
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


# The same of the verbs and their options, piece by piece.
REFUSED = [
    ("compress {text-model} -o {out} --max-size 2kB", "--max-size must be at least"),
    ("compress {text-model} -o {out} --max-size little", "--max-size must be a number of bytes"),
    ("compress {text-model} -o {out} --rows -", "--rows is read twice, before and after: stdin can't be."),
    ("compress {text-model} -o {out} --rows nowhere.jsonl", "nowhere.jsonl"),
    ("compress {text-model} -o {out} --weight-dtype uint2", "'uint2' is not one of"),
    ("tune {train.jsonl} --model {out} -q --metric accuracy", "--metric must be one of P@k"),
    ("tune {train.jsonl} --model {out} -q --budget soon", "--budget must be a number of seconds above 0"),
    ("tune {train.jsonl} --model {out} -q --budget 1us",
     "The budget of 0.001 ms is too short: training the default model once"),
    ("tune {train.jsonl} --model {out} -q --max-trials 0", "Invalid value for '--max-trials'"),
    ("tune {train.jsonl} --model {out} -q --max-size 20 --max-trials 1", "the names of the 6 labels alone take"),
    ("tune {train.jsonl} --model {out} -q --max-latency 1us --max-trials 1",
     "No setting that was tried holds to the limits"),
    ("tune {train.jsonl} --model {out} -q --groups none --max-trials 1", "has no field 'none'"),
    ("tune {train.jsonl} --model {out} -q --report {train.jsonl}", "The report is a folder, but"),
    ("tune {train.jsonl} --model {out} -q --holdout first", "Invalid value for '--holdout'"),
    ("train ensemble {train.jsonl} --model {out}",
     "An ensemble takes --preset, or members numbered from 0, such as member0__model=xr-linear"),
    ("train ensemble {train.jsonl} --model {out} --set member1__model=neighbors", "Got member1 instead"),
    ("train ensemble {train.jsonl} --model {out} --set member0__model=svm",
     "The model of member0 must be one of 'xr-linear', 'neighbors', 'lexical'"),
    ("train ensemble {train.jsonl} --model {out} --set member0__beam=5",
     "'xr-transformer', 'x-transformer'. Got None instead."),
    ("train ensemble {train.jsonl} --model {out} --set member0__model=xr-linear --set member0__beam=0",
     "member0: The 'beam' parameter of XRLinear must be"),
    ("train ensemble {train.jsonl} --model {out} --set member0__model=xr-linear --set member0__text__ngrams=0",
     "member0: The 'ngrams' parameter"),
    ("train ensemble {train.jsonl} --model {out} --set member0__model=xr-linear --set how=often",
     "The 'how' parameter of Ensemble must be"),
    ("train ensemble {train.jsonl} --model {out} --set member0__model=xr-linear --set weights=a",
     "The 'weights' parameter of Ensemble must be"),
    ("train ensemble {train.xmc} --model {out} --set member0__model=neighbors --set member0__text__min_df=2",
     "The members have parameters of vectorisers"),
    ("train ensemble {train.xmc} --model {out} --preset accurate", "but the training file is a matrix"),
    ("train ensemble {train.jsonl} --model {out} --preset best", "'accurate'"),
    ("ensemble {text-model} {text-model} --model {out} --weights 1,x", "--weights takes numbers"),
    ("ensemble {text-model} {text-model} --model {out} --weights 1", "names 1 weight for 2 members"),
    ("ensemble {text-model} {text-model} --model {out} --weights 1,1 --fit-weights dev.jsonl", "exclude each other"),
    ("ensemble {text-model} {text-model} --model {out} --calibrate a --fit-weights b --labels c",
     "--labels is for one file"),
    ("explain {text-model} --text a --label baking", "no label 'baking' among the 6 of this model. Did you mean"),
    ("explain {text-model} {test.jsonl} --text a", "Give INPUT or --text, not both."),
    ("explain {text-model} {test.jsonl} --row 60",
     "test.jsonl has 60 rows: there is no row 60, as the first is row 0."),
    ("explain {matrix-model} {X.test.npz} --row 99",
     "X.test.npz has 60 rows: there is no row 99, as the first is row 0."),
    ("explain {matrix-model} --text a", "--text is for models over text"),
    ("explain {matrix-model} {X.test.npz} --label x",
     "--label takes an id, as this model knows no names (--label-names)."),
    ("explain {matrix-model} {X.test.npz} --label 6", "label must be an id in [0, 6). Got 6 instead."),
    ("explain {text-model} --text a --label-names {test.lines}", "--label-names is for matrices"),
    ("explain {matrix-model} {X.test.npz} --feature-names {test.lines}",
     "--feature-names has 60 names, but the model has"),
    ("explain {text-model} {X.test.npz}", "takes text, but"),
    ("explain {text-model} --text a --examples {X.train.npz}", "takes text, but"),
    ("explain {text-model} --text a --examples {missing.jsonl}", "There is no file"),
    ("explain {text-model} --text a --set cost=2", "matters in training alone"),
    ("explain {text-model} --text a --row -1", "-1 is not in the range"),
    ("train xr-linear {train.jsonl} --test {missing.jsonl} --model {out}", "There is no file"),
    ("train xr-linear {train.jsonl} --test {test.xmc} --model {out}", "takes text, but"),
    ("train xr-linear {train.xmc} --test {test.jsonl} --model {out}", "takes matrices, but"),
    ("train xr-linear {train.jsonl} --test {test.lines} --model {out}", "holds no labels"),
    ("train xr-linear {train.xmc} --test {X.test.npz} --model {out}", "holds no labels: give them with --labels Y.npz"),
    ("train xr-linear {train.xmc} --test-labels {Y.test.npz} --model {out}", "--test-labels goes with --test"),
    ("train xr-linear - --test - --model {out}", "stdin can't be both the training file and the --test file."),
    ("inspect {missing}", "there is no such folder"),
    ("predict {matrix-model} {X.test.npz} --threshold 0.5 --precision 0.9",
     "predict takes one rule for when to stop. Got threshold and precision"),
    ("predict {matrix-model} {X.test.npz} --expected f1 --threshold 0", "Got threshold and expected"),
    ("predict {matrix-model} {X.test.npz} --threshold 70", "'--threshold': must be a number in [0, 1], 0.7 for 70%."),
    ("predict {matrix-model} {X.test.npz} --precision 0", "'--precision': must be a number in (0, 1], such as 0.9."),
    ("thresholds {matrix-model} {test.xmc} --precision abc", "in (0, 1], such as 0.9. Got 'abc' instead."),
    ("thresholds {matrix-model} {test.xmc} --precision nan", "in (0, 1], such as 0.9. Got 'nan' instead."),
    ("evaluate {matrix-model} {test.xmc} --threshold 50", "'--threshold': must be a number in [0, 1], 0.5 for 50%."),
    ("promote {matrix-model} {matrix-model} {test.xmc} --significance 5", "in (0, 1], 0.05 for 5%."),
    ("predict {matrix-model} {X.test.npz} --expected f2", "--expected must be 'f1' or None"),
    ("train xr-linear {train.xmc} --plan --memory-limit 1GB",
     "A plan is of a training in one piece, without --memory-limit"),
    ("train xr-linear {train.xmc} --plan --checkpoint work",
     "A plan is of a training in one piece, without --checkpoint"),
    ("train xr-linear {train.xmc} --plan --resume", "A plan is of a training in one piece, without --resume"),
    ("train xr-linear {train.jsonl} --model {out} --preset best",
     "The presets of XRLinear are fast, balanced, accurate, paper. Got 'best' instead."),
    ("train neighbors {train.jsonl} --model {out} --preset fast",
     "--preset is not for NeighborRanker, which has none."),
    ("train xr-transformer {train.jsonl} --model {out} --preset small",
     "'preset' parameter of XRTransformer must be one of"),
    ("train xr-linear {train.jsonl} --model {out} --stem english",
     "The 'stem' parameter of TfidfVectorizer must be one of 'ar', 'ca'"),
    ("train xr-linear {train.jsonl} --model {out} --stem en --lemmatize en", "as its stem or as its lemma"),
    ("train beam-tree {train.jsonl} --model {out} --set loss=hinge", "must be one of 'cane', 'softmax'"),
    ("train beam-tree {train.jsonl} --model {out} --set tree=oak", "one of 'kmeans', 'random', 'frequency'"),
    ("train beam-tree {train.jsonl} --model {out} --set class_weight=heavy", "must be None, 'balanced'"),
    ("train beam-tree {train.jsonl} --model {out} --memory-limit 1GB", "--memory-limit is not for BeamTreeClassifier"),
    ("train beam-tree {train.jsonl} --model {out}", "must name one class in each row"),
    ("train lexical --model {out}", "Missing argument 'TRAIN'"),
    ("train lexical --model {out} --label-texts names", "Missing argument 'TRAIN'"),
    ("train lexical {train.jsonl} --model {out} --set-text min_df=2", "--set-text is not for LexicalMatcher"),
    ("train lexical {train.jsonl} --model {out} --set stem=xx",
     "The 'stem' parameter of LexicalMatcher must be one of"),
    ("train lexical {train.jsonl} --model {out} --set stem=en --set lemmatize=en", "exclude each other"),
    ("train lexical {train.jsonl} --model {out} --memory-limit 1GB", "--memory-limit is not for LexicalMatcher"),
    ("train lexical {train.jsonl} --plan", "LexicalMatcher has no plan"),
    ("train lexical --label-texts {nothing.ttl} --model {out}", "nothing.ttl"),
    ("train xr-linear {train.jsonl} --model {out} --label-texts nowhere.tsv", "nowhere.tsv"),
    ("train xr-linear {train.jsonl} --model {out} --label-texts names --memory-limit 4GB",
     "--label-texts and --memory-limit don't go together"),
    ("train xr-linear {train.jsonl} --model {out} --label-encoder anything",
     "--label-encoder encodes texts of labels: give them by --label-texts."),
    ("train xr-linear {train.jsonl} --model {out} --label-texts names --label-encoder nowhere",
     "finds labels that have a text and no rows: it needs --set unlearned=answer"),
    ("train xr-linear {train.jsonl} --model {out} --label-texts names --set unlearned=answer --label-encoder nowhere",
     "nowhere"),
    ("convert {test.jsonl} {out}.npz",
     "is JSON lines of text, and a CSR matrix in an .npz holds features: those are made"),
    ("convert {test.xmc} {out}.csv", "holds texts, which can't be had back from features"),
    ("convert {test.jsonl} {out}", "doesn't tell a format that is written: say it with --to, one of jsonl, lines, csv"),
    ("convert {test.xmc} {out}.npz", "doesn't: say with --output-labels Y.npz"),
    ("convert {test.xmc} {out}.svm --output-labels y.npz", "--output-labels is for .npz, .npy and csr"),
    ("convert {test.jsonl} {out}.txt --to lines", "has labels, and plain text holds none"),
    ("convert {test.jsonl} {out}.csv --items x", "--items is for PECOS's files, but"),
    ("convert {test.jsonl} {out}.csv --header", "--header is for tables, but"),
    ("convert {test.xmc} {out}.svm --label-separator ,", "--label-separator is for text, but"),
    ("convert {test.jsonl} {out}.csv --from csv --format tsv", "--from and --format say the same thing"),
    ("train neighbors {train.xmc} --model {out} --memory-limit 1GB",
     "Error: --memory-limit is not for NeighborRanker, which is trained in one piece."),
    ("predict {text-model} {test.jsonl} --delimiter ;", "--delimiter is for tables, but"),
    ("predict {text-model} {test.lines} --output-fields id", "--output-fields is for fields with names, but"),
    ("predict {matrix-model} {test.xmc} --output-fields id", "--output-fields is for texts whose ranking"),
    ("predict {text-model} - --denied -", "Only one of INPUT, --allowed and --denied can be read from stdin."),
]  # fmt: skip


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


@pytest.mark.parametrize(("line", "piece"), REFUSED, ids=[line for line, _ in REFUSED])
def test_refused(line: str, piece: str, call: Any, fill: Any, tmp_path: Path) -> None:
    sentence = sentence_of(call(*fill(line), stdin=b'{"text": "bread", "labels": ["Baking"]}\n'))
    assert piece in sentence
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


@pytest.mark.parametrize("verb", ["train xr-linear", "train neighbors", "train beam-tree", "predict"])
def test_the_help_names_the_formats_of_texts(verb: str, call: Any) -> None:
    introduction = call(*verb.split(), "--help").out.split("Examples:")[0]
    for name in ("JSONL", "CSV", "TSV", "fastText", "PECOS", "Annif", "Parquet"):
        assert name in introduction, f"{name} is missing"


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "FILE", "FILE"], ["check", "FILE", "--json", "FILE"], ["predict", "MODEL", "FILE", "-o", "FILE"],
        ["evaluate", "MODEL", "FILE", "--json", "LINK"], ["evaluate", "MODEL", "FILE", "--per-row", "FILE"],
        ["thresholds", "MODEL", "FILE", "--json", "FILE"], ["promote", "MODEL", "MODEL", "FILE", "--json", "FILE"],
        ["explain", "MODEL", "FILE", "--html", "FILE"], ["search", "MODEL", "FILE", "-o", "FILE"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_command_writes_over_what_it_reads(words: list[str], call: Any, files: Any, tmp_path: Path) -> None:
    file, link = tmp_path / "rows.jsonl", tmp_path / "link.jsonl"
    before = Path(files("test.jsonl")).read_bytes()
    file.write_bytes(before)
    link.symlink_to(file)
    paths = {"FILE": str(file), "LINK": str(link), "MODEL": files.text_model}
    outcome = call(*(paths.get(word, word) for word in words))
    assert outcome.code == 2 and "is read by this command, which would write over it" in outcome.err, outcome
    assert file.read_bytes() == before
