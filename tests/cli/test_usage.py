"""Every wrong usage gets one sentence that says what is wrong, exit code 2, and never a traceback."""

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sylvan.text import TfidfVectorizer

# Words after "sylvan", with {name} for a file of the corpus, and what the sentence has.
WRONG = [
    ("tarin", "No such command 'tarin'. Did you mean 'train'?"),
    ("train xr-liner {train.jsonl} --model out", "No such command 'xr-liner'. Did you mean 'xr-linear'?"),
    ("zzz", "No such command 'zzz'. Known names: train, tune"),
    ("train xr-linear {train.jsonl}", "Missing option '--model'"),
    ("train xr-linear --label-texts {train.jsonl} --model m", "Missing argument 'TRAIN'"),
    ("train xr-linear --model out", "Missing argument 'TRAIN'"),
    ("predict {text-model} {test.jsonl} --beam 3", "No such option"),
    ("train xr-linear {nowhere.jsonl} --model out", ("There is no file", "nowhere.jsonl'")),
    ("train xr-linear {text-model} --model out", "is a folder, not a file"),
    ("predict {nowhere} {test.jsonl}", "there is no such folder"),
    ("predict --model {text-model} {test.jsonl}", "'sylvan predict MODEL [INPUT]...' takes MODEL without"),
    ("serve --model {text-model}", "'sylvan serve [NAME=]MODEL...' takes MODEL without"),
    ("evaluate {train.lines} {test.jsonl}", ("not JSON, ", " A model is a folder")),
    ("predict {test.jsonl} {test.jsonl}", "it is a file, not a folder"),
    ("predict {.} {test.jsonl}", "holds no manifest.json"),
    ("train xr-linear {train.xmc} --model out --format jsonl", "train.xmc, line 1: "),
    ("train xr-linear {train.xmc} --model out --format table", "'table' is not one of"),
    ("train xr-linear {X.train.npz} --model out", "holds no labels: give them with --labels"),
    ("train xr-linear {train.lines} --model out", "holds no labels"),
    ("train xr-linear {train.jsonl} --model out --labels-field tags", "has no field 'tags'"),
    ("train xr-linear {train.jsonl} --model out --text-field title", "has no field 'title'"),
    ("train xr-linear {train.jsonl} --labels {Y.train.npz} --model out", "--labels is for matrices"),
    ("train xr-linear {X.train.npz} --labels {Y.test.npz} --model out", ("has 240 rows, but ", " has 60")),
    ("train xr-linear {X.train.npz} --labels {nowhere.npz} --model out", "There is no file"),
    ("train neighbors {train.xmc} --model out --label-features {Y.test.npz}", "not for NeighborRanker"),
    ("train neighbors {train.xmc} --model out --seed 3", "has no parameter 'seed'"),
    ("train xr-linear {train.jsonl} --model out --set beem=3", "no parameter 'beem'. Did you mean 'beam'"),
    ("train xr-linear {train.jsonl} --model out --set-text ngram=1", "Did you mean 'ngrams'"),
    ("train xr-linear {train.jsonl} --model out --set tree=t", "is set by --tree"),
    ("train xr-linear {train.xmc} --model out --label-features {Y.test.npz} --set embedding=pii",
     "--label-features is for embedding=pifa_lf"),
    ("train xr-linear {train.xmc} --model out --label-features {Y.test.npz} --set max_leaf=2", "6"),
    ("train xr-linear {train.jsonl} --model out --set beam", "takes name=value"),
    ("train xr-linear {train.jsonl} --model out --set beam=many", ("'beam' parameter ", " Got 'many'")),
    ("train xr-linear {train.jsonl} --model out --set beam=0", "must be an int in [1, "),
    ("train xr-linear {train.jsonl} --model out --set cost=nan", "'cost' parameter"),
    ("train xr-linear {train.jsonl} --model out --set beam=1 --set beam=2", "gives 'beam' twice"),
    ("train xr-linear {train.jsonl} --model out --set seed=1 --seed 2", "say the same thing"),
    ("train xr-linear {train.jsonl} --model out --seed -1", "'--seed'"),
    ("train xr-linear {train.jsonl} --model out --ngrams 2,1", "'ngrams' parameter"),
    ("train xr-linear {train.jsonl} --model out --min-df some", "'min_df' parameter"),
    ("train xr-linear {train.jsonl} --model out --min-df 100000", "--min-df 100000 demands"),
    ("train xr-linear {train.xmc} --model out --ngrams 1,2", "--ngrams is for text"),
    ("train xr-linear {train.xmc} --model out --text-field t", "--text-field is for"),
    ("train xr-linear {train.xmc} --model out --tree {text-model}", "must hold LabelTree"),
    ("train xr-linear {train.xmc} --model out --tree {nowhere}", "no such folder"),
    ("train {train.jsonl} --model out --vocabulary a.ttl --vocabulary b.ttl",
     "'--vocabulary': must be one file. Got a.ttl, b.ttl instead: put them into one"),
    ("predict {text-model} {test.jsonl} --vocabulary a.ttl --vocabulary b.ttl", "must be one file. Got a.ttl"),
    ("predict {text-model} {test.jsonl} -k 0", "'-k'"),
    ("predict {text-model} {test.jsonl} -k five", "'five' is not a valid int"),
    ("predict {text-model} {test.jsonl} --threads 0", "'--threads'"),
    ("evaluate {text-model} {test.jsonl} -k 1,0", "ints in [1, 10000"),
    ("evaluate {text-model} {test.jsonl} -k 1000000000", "ints in [1, 10000"),
    ("predict {text-model} {test.jsonl} --set beam=0", "'beam' parameter"),
    ("predict {text-model} {test.jsonl} --set cost=2", "matters in training alone"),
    ("predict {text-model} {test.jsonl} -o {nowhere/top.jsonl}", "can't be written"),
    ("predict {text-model} {test.jsonl} -o {.}", "is a folder, not a file"),
    ("predict {text-model} {X.test.npz}", ("takes text, but ", "npz is a CSR matrix")),
    ("predict {text-model} {test.txt}", "takes text, but"),
    ("predict {matrix-model} {test.jsonl}", ("takes matrices, but ", " JSON lines")),
    ("predict {matrix-model} {test.lines}", ("takes matrices, but ", " one text a line")),
    ("evaluate {matrix-model} {X.test.npz}", "holds no labels"),
    ("evaluate {text-model} {test.lines}", "holds no labels"),
    ("train xr-linear {train.jsonl} --model {test.jsonl}", "is a file, not a folder"),
    ("train xr-linear {train.jsonl} --model {.}", "is not a Sylvan model"),
    ("predict {matrix-model} {test.jsonl} --format npz", "no .npz file"),
    ("predict {matrix-model} - --format npy", "stdin carries text formats only"),
    ("compress {text-model} -o out --max-size 2kB", "--max-size must be at least"),
    ("compress {text-model} -o out --max-size little", "--max-size must be a number of bytes"),
    ("compress {text-model} -o out --rows -", "--rows is read twice, before and after: stdin can't be."),
    ("compress {text-model} -o out --rows nowhere.jsonl", "nowhere.jsonl"),
    ("compress {text-model} -o out --weight-dtype uint2", "'uint2' is not one of"),
    ("tune {train.jsonl} --model out -q --metric accuracy", "--metric must be one of P@k"),
    ("tune {train.jsonl} --model out -q --budget soon", "--budget must be a number of seconds above 0"),
    ("tune {train.jsonl} --model out -q --budget 1us",
     "The budget of 0.001 ms is too short: training the default model once"),
    ("tune {train.jsonl} --model out -q --max-trials 0", "Invalid value for '--max-trials'"),
    ("tune {train.jsonl} --model out -q --max-size 20 --max-trials 1", "the names of the 6 labels alone take"),
    ("tune {train.jsonl} --model out -q --max-latency 1us --max-trials 1",
     "No setting that was tried holds to the limits"),
    ("tune {train.jsonl} --model out -q --groups none --max-trials 1", "has no field 'none'"),
    ("tune {train.jsonl} --model out -q --report {train.jsonl}", "The report is a folder, but"),
    ("tune {train.jsonl} --model out -q --holdout first", "Invalid value for '--holdout'"),
    ("train ensemble {train.jsonl} --model out",
     "An ensemble takes --preset, or members numbered from 0, such as member0__model=xr-linear"),
    ("train ensemble {train.jsonl} --model out --set member1__model=neighbors", "Got member1 instead"),
    ("train ensemble {train.jsonl} --model out --set member0__model=svm",
     "The model of member0 must be one of 'xr-linear', 'neighbors', 'lexical'"),
    ("train ensemble {train.jsonl} --model out --set member0__beam=5",
     "'xr-transformer', 'x-transformer'. Got None instead."),
    ("train ensemble {train.jsonl} --model out --set member0__model=xr-linear --set member0__beam=0",
     "member0: The 'beam' parameter of XRLinear must be"),
    ("train ensemble {train.jsonl} --model out --set member0__model=xr-linear --set member0__text__ngrams=0",
     "member0: The 'ngrams' parameter"),
    ("train ensemble {train.jsonl} --model out --set member0__model=xr-linear --set how=often",
     "The 'how' parameter of Ensemble must be"),
    ("train ensemble {train.jsonl} --model out --set member0__model=xr-linear --set weights=a",
     "The 'weights' parameter of Ensemble must be"),
    ("train ensemble {train.xmc} --model out --set member0__model=neighbors --set member0__text__min_df=2",
     "The members have parameters of vectorisers"),
    ("train ensemble {train.xmc} --model out --preset accurate", "but the training file is a matrix"),
    ("train ensemble {train.jsonl} --model out --preset best", "'accurate'"),
    ("ensemble {text-model} {text-model} --model out --weights 1,x", "--weights takes numbers"),
    ("ensemble {text-model} {text-model} --model out --weights 1", "names 1 weight for 2 members"),
    ("ensemble {text-model} {text-model} --model out --weights 1,1 --fit-weights dev.jsonl", "exclude each other"),
    ("ensemble {text-model} {text-model} --model out --calibrate a --fit-weights b --labels c",
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
    ("train xr-linear {train.jsonl} --test {missing.jsonl} --model out", "There is no file"),
    ("train xr-linear {train.jsonl} --test {test.xmc} --model out", "takes text, but"),
    ("train xr-linear {train.xmc} --test {test.jsonl} --model out", "takes matrices, but"),
    ("train xr-linear {train.jsonl} --test {test.lines} --model out", "holds no labels"),
    ("train xr-linear {train.xmc} --test {X.test.npz} --model out", "holds no labels: give them with --labels Y.npz"),
    ("train xr-linear {train.xmc} --test-labels {Y.test.npz} --model out", "--test-labels goes with --test"),
    ("train xr-linear - --test - --model out", "stdin can't be both the training file and the --test file."),
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
    ("train xr-linear {train.jsonl} --model out --preset best",
     "The presets of XRLinear are fast, balanced, accurate, paper. Got 'best' instead."),
    ("train neighbors {train.jsonl} --model out --preset fast", "--preset is not for NeighborRanker, which has none."),
    ("train xr-transformer {train.jsonl} --model out --preset small",
     "'preset' parameter of XRTransformer must be one of"),
    ("train xr-linear {train.jsonl} --model out --stem english",
     "The 'stem' parameter of TfidfVectorizer must be one of 'ar', 'ca'"),
    ("train xr-linear {train.jsonl} --model out --stem en --lemmatize en", "as its stem or as its lemma"),
    ("train beam-tree {train.jsonl} --model out --set loss=hinge", "must be one of 'cane', 'softmax'"),
    ("train beam-tree {train.jsonl} --model out --set tree=oak", "one of 'kmeans', 'random', 'frequency'"),
    ("train beam-tree {train.jsonl} --model out --set class_weight=heavy", "must be None, 'balanced'"),
    ("train beam-tree {train.jsonl} --model out --memory-limit 1GB", "--memory-limit is not for BeamTreeClassifier"),
    ("train beam-tree {train.jsonl} --model out", "must name one class in each row"),
    ("train lexical --model out", "Missing argument 'TRAIN'"),
    ("train lexical --model out --label-texts names", "Missing argument 'TRAIN'"),
    ("train lexical {train.jsonl} --model out --set-text min_df=2", "--set-text is not for LexicalMatcher"),
    ("train lexical {train.jsonl} --model out --set stem=xx", "The 'stem' parameter of LexicalMatcher must be one of"),
    ("train lexical {train.jsonl} --model out --set stem=en --set lemmatize=en", "exclude each other"),
    ("train lexical {train.jsonl} --model out --memory-limit 1GB", "--memory-limit is not for LexicalMatcher"),
    ("train lexical {train.jsonl} --plan", "LexicalMatcher has no plan"),
    ("train lexical --label-texts {nothing.ttl} --model out", "nothing.ttl"),
    ("train xr-linear {train.jsonl} --model out --label-texts nowhere.tsv", "nowhere.tsv"),
    ("train xr-linear {train.jsonl} --model out --label-texts names --memory-limit 4GB",
     "--label-texts and --memory-limit don't go together"),
    ("train xr-linear {train.jsonl} --model out --label-encoder anything",
     "--label-encoder encodes texts of labels: give them by --label-texts."),
    ("train xr-linear {train.jsonl} --model out --label-texts names --label-encoder nowhere",
     "finds labels that have a text and no rows: it needs --set unlearned=answer"),
    ("train xr-linear {train.jsonl} --model out --label-texts names --set unlearned=answer --label-encoder nowhere",
     "nowhere"),
    ("convert {test.jsonl} out.npz",
     "is JSON lines of text, and a CSR matrix in an .npz holds features: those are made"),
    ("convert {test.xmc} out.csv", "holds texts, which can't be had back from features"),
    ("convert {test.jsonl} out", "doesn't tell a format that is written: say it with --to, one of jsonl, lines, csv"),
    ("convert {test.xmc} out.npz", "doesn't: say with --output-labels Y.npz"),
    ("convert {test.xmc} out.svm --output-labels y.npz", "--output-labels is for .npz, .npy and csr"),
    ("convert {test.jsonl} out.txt --to lines", "has labels, and plain text holds none"),
    ("convert {test.jsonl} out.csv --items x", "--items is for PECOS's files, but"),
    ("convert {test.jsonl} out.csv --header", "--header is for tables, but"),
    ("convert {test.xmc} out.svm --label-separator ,", "--label-separator is for text, but"),
    ("convert {test.jsonl} out.csv --from csv --format tsv", "--from and --format say the same thing"),
    ("train neighbors {train.xmc} --model out --memory-limit 1GB",
     "Error: --memory-limit is not for NeighborRanker, which is trained in one piece."),
    ("predict {text-model} {test.jsonl} --delimiter ;", "--delimiter is for tables, but"),
    ("predict {text-model} {test.lines} --output-fields id", "--output-fields is for fields with names, but"),
    ("predict {matrix-model} {test.xmc} --output-fields id", "--output-fields is for texts whose ranking"),
    ("predict {text-model} - --denied -", "Only one of INPUT, --allowed and --denied can be read from stdin."),
    ("ensemble {matrix-model} --model out --calibrate {X.test.npz}", "holds no labels: give them with --labels Y.npz"),
    ("train {train.xmc} --model out --preset accurate", "sylvan train xr-linear --preset accurate is for one"),
    ("search {matrix-model} {X.test.npy}", "which is no index of vectors"),
    ("compress {text-model} -o {.}", "is not empty and is not a Sylvan model"),
    ("completion csh", "'csh' is not one of"),
    ("predict {text-model} {test.jsonl} --language en", "--language is for"),
    ("check -", "stdin"),
    ("check {train.xmc}", "records of text"),
    ("check {train.lines} --format lines", "labels"),
    ("check none.jsonl", "none.jsonl"),
    ("check {train.jsonl} --language fi", "--language is for the labels of a --vocabulary"),
    ("thresholds {text-model} {test.jsonl} --set tail=psp", "tail"),
    ("thresholds {text-model} {test.jsonl} --precision 90", "--precision"),
    ("thresholds {text-model} {test.lines} --format lines", "labels"),
    ("thresholds {text-model} {test.jsonl} --figure a.bmp", "--figure"),
    ("evaluate {text-model} {test.jsonl} --figure result.bmp", "--figure takes a .png, .svg or .pdf file"),
    ("evaluate {text-model} {test.jsonl} --figure result", "--figure takes"),
    ("evaluate {text-model} {test.jsonl} --figure nowhere/result.png", "There is no folder"),
    ("evaluate {text-model} {test.jsonl} --json a --per-row ./a", "named for two outputs"),
    ("evaluate {text-model} {test.jsonl} --figure a.png --figure a.png", "named for two outputs"),
    ("convert {test.jsonl} a.npz --output-labels a.npz", "named for two outputs"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line for line, _ in WRONG])
def test_wrong_usage(line: str, said: str, refused: Any, in_folder: Path) -> None:
    lines = refused(said, line, stdin=b'{"text": "bread", "labels": ["Baking"]}\n').splitlines()
    assert all(each.startswith("Read ") for each in lines[:-1]), lines
    assert list(in_folder.iterdir()) == []


# What stands in a file, the command that reads it, and what the sentence has; {d} is the model's number of features.
TRAIN, RANK = "train xr-linear input --model out -q", "predict {matrix-model} input -o top.jsonl"
CONTENTS = {
    "empty": (b"", TRAIN, "is empty"),
    "only blanks": (b" \n\n", TRAIN, "is empty"),
    "no JSON": (b"{whales}\n", TRAIN, "line 1: not JSON"),
    "no object": (b'{"text": "a", "labels": ["b"]}\n[1]\n', TRAIN, "line 2: must be a JSON object"),
    "not UTF-8": (b'{"text": "caf\xe9", "labels": ["a"]}\n', TRAIN, "line 1: the text is not UTF-8"),
    "number as text": (b'{"text": 3, "labels": ["a"]}\n', TRAIN, "'text' must be a string"),
    "only empty lists": (b'{"text": "a", "labels": []}\n', TRAIN, "no row has a label"),
    "damaged gzip": (gzip.compress(b'{"text": "a", "labels": ["b"]}\n' * 99)[:-20], TRAIN, "gzip data are damaged"),
    "feature out of range": (b"2 3 2\n0 1:1\n1 7:1\n", TRAIN, "line 3: feature ids must be in [0, 2]"),
    "fewer rows than promised": (b"5 3 2\n0 1:1\n", TRAIN, "promises 5 rows"),
    "more features in a header": (b"1 999 2\n0 1:1\n", RANK, "has 999 features, but the model was trained on"),
    "a feature too many": (b"0 1:1\n0 9999:1\n", RANK, "line 2: feature ids must be in [0, "),
    "fewer rows to rank": (b"5 {d} 2\n0 1:1\n", RANK, "promises 5 rows"),
    "more rows to rank": (b"1 {d} 2\n0 1:1\n0 1:1\n", RANK, "promises 1 row"),
    "a first feature that doesn't show": (b"0 3:1\n", f"{RANK} --format svmlight", "--first-feature"),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_wrong_content(case: str, refused: Any, files: Any, in_folder: Path) -> None:
    content, line, said = CONTENTS[case]
    width = Path(files("train.xmc")).read_text().split()[1]
    (in_folder / "input").write_bytes(content.replace(b"{d}", width.encode()))
    refused(said, line)
    assert [entry.name for entry in in_folder.iterdir()] == ["input"]


def test_what_cannot_be_ranked(call: Any, refused: Any) -> None:
    np.save("X.npy", np.ones((2, 3), np.float32))
    refused("has 3 features", "predict {matrix-model} X.npy")
    Path("a.svm").write_text("0 3:1\n")
    call("predict {matrix-model} a.svm --first-feature 1")
    TfidfVectorizer().fit(["one two"]).save("v")
    refused("holds a TfidfVectorizer", "predict v {test.jsonl}")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_file_that_may_not_be_read(refused: Any) -> None:
    Path("secret.jsonl").touch(mode=0)
    refused("secret.jsonl", "predict {text-model} secret.jsonl")


@pytest.mark.parametrize(("error", "said"), [
    (KeyError("gone"), "something went wrong inside Sylvan (KeyError: 'gone')"),
    (MemoryError(), "Error: there is not enough memory for this.\n"),
])  # fmt: skip
def test_a_fault_of_ours_is_one_sentence_and_exit_1(
    error: Exception, said: str, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("sylvan.data.formats.rankings._Lines.write", broken)
    outcome = call("predict {text-model} {test.jsonl} -q", code=1)
    assert said in outcome.err and outcome.err.startswith("Error: ")
    assert "Traceback" in call("predict {text-model} {test.jsonl} --debug", code=1).err


@pytest.mark.parametrize("verb", ["train xr-linear", "train neighbors", "train beam-tree", "predict"])
def test_the_help_names_the_formats_of_texts(verb: str, call: Any) -> None:
    introduction = call(f"{verb} --help").out.split("Examples:")[0]
    for name in ("JSONL", "CSV", "TSV", "fastText", "PECOS", "Annif", "Parquet"):
        assert name in introduction, f"{name} is missing"


@pytest.mark.parametrize("line", [
    "convert rows rows", "convert rows out --to pecos --output-items rows", "check rows --json rows",
    "predict {text-model} rows -o rows", "convert rows out --output-labels rows",
    "evaluate {text-model} rows --json link", "evaluate {text-model} rows --per-row rows",
    "thresholds {text-model} rows --json rows", "promote {text-model} {text-model} rows --json rows",
    "explain {text-model} rows --html rows", "search {text-model} rows -o rows",
])  # fmt: skip
def test_no_command_writes_over_what_it_reads(line: str, refused: Any, files: Any) -> None:
    before = Path(files("test.jsonl")).read_bytes()
    Path("rows.jsonl").write_bytes(before)
    Path("link.jsonl").symlink_to("rows.jsonl")
    named = line.replace(" rows", " rows.jsonl").replace(" link", " link.jsonl")
    refused("is read by this command, which would write over it", named)
    assert Path("rows.jsonl").read_bytes() == before
