"""Configuration files: the same model as by options, the command line first, all errors reported together."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kit.bits import same_bits

import sylvan
from sylvan import data

TOML = """
[options]
threads = 1
labels-field = "labels"
text-field = ["text"]
[parameters]
beam = 7
negatives = "tfn"
max_weights_per_label = "none"
[text]
ngrams = [1, 2]
"""
AS_OPTIONS = "--threads 1 --text-field text --set beam=7 --set negatives=tfn --set-text ngrams=1,2"


def write(name: str, tables: dict[str, dict[str, Any]]) -> None:
    lines = []
    for table, values in tables.items():  # of words, numbers and truth values, which TOML writes as JSON does
        lines += [f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    Path(name).write_text("\n".join(lines))


TRAIN = "train xr-linear {train.jsonl} --model m -q"


def test_a_file_trains_what_options_train(call: Any) -> None:
    Path("run.toml").write_text(TOML)
    call(f"{TRAIN} --config run.toml")
    call(f"train xr-linear {{train.jsonl}} --model n -q {AS_OPTIONS}")
    first = sylvan.load("m")
    same_bits(first, sylvan.load("n"))
    assert first.model.beam == 7 and tuple(first.vectorizer.ngrams) == (1, 2)


def test_what_the_embeddings_take(call: Any, refused: Any) -> None:
    shares = [0.25, 0.5, 0.75, 0.0, 1.0, 0.5]
    write("run.toml", {"parameters": {"alpha": shares, "max_features_per_label": 9, "spectral_dimensions": 3}})
    call(f"{TRAIN} --config run.toml")
    model = sylvan.load("m").model
    assert model.alpha.tolist() == shares
    assert (model.max_features_per_label, model.spectral_dimensions) == (9, 3)
    more = "--set alpha=0.5,0.5 --set max_features_per_label=none --set spectral_dimensions=2"
    refused("has 2 numbers, but Y has shape", f"{TRAIN} {more}")


def test_everything_may_stand_in_the_file(call: Any, files: Any) -> None:
    write("run.toml", {"options": {"train": files("train.jsonl"), "model": "m", "quiet": True}})
    call("train xr-linear --config run.toml")
    assert sylvan.load("m").n_labels_ == 6
    write("p.toml", {"options": {"k": 2, "output": "top.jsonl"}, "parameters": {"beam": 3}})
    call("predict m {test.jsonl} -q --config p.toml")
    assert all(len(row["labels"]) == 2 for row in data.read_records("top.jsonl"))


def test_the_command_line_goes_before_the_file(call: Any) -> None:
    write("run.toml", {"parameters": {"beam": 7, "cost": 2.0}, "text": {"min_df": 2}})
    call(f"{TRAIN} --config run.toml --set beam=5 --min-df 3 --seed 4")
    model = sylvan.load("m")
    assert (model.model.beam, model.model.cost, model.vectorizer.min_df, model.model.seed) == (5, 2.0, 3, 4)


def test_all_faults_at_once_with_suggestions(call: Any) -> None:
    write("run.toml", {
        "options": {"thread": 2, "format": "csvv"}, "parameters": {"beam": 0, "negativs": "tfn"},
        "text": {"min_dff": 2}, "txt": {},
    })  # fmt: skip
    outcome = call(f"{TRAIN} --config run.toml --set cost=-1 --set sead=1", code=2)
    first, *lines = outcome.err.strip().split("\n")
    assert (outcome.out, first) == ("", "Error: 8 settings are wrong:")
    for piece in (
        "has no use for 'txt'. Did you mean 'text'?",
        "has no option 'thread', which .* names. Did you mean 'threads'?",
        "'format': 'csvv' is not one of",
        "The 'beam' parameter of XRLinear must be an int in",
        "has no parameter 'negativs'. Did you mean 'negatives'?",
        "The 'cost' parameter of XRLinear must be a float",
        "has no parameter 'sead'. Did you mean 'seed'?",
        "has no parameter 'min_dff'. Did you mean 'min_df'?",
    ):
        assert any(re.search(piece, line) for line in lines), piece
    assert not Path("m").exists()


WRONG_FILES = {
    "no file": ("nowhere.toml", None, "can't be read: No such file or directory."),
    "another format": ("run.ini", b"beam=3", "takes a .toml file"),
    "no TOML": ("run.toml", b"beam = = 3", "is not TOML: "),
    "JSON": ("run.json", b"{}", "takes a .toml file"),
    "YAML": ("run.yaml", b"a: 1", "takes a .toml file"),
    "no UTF-8": ("run.toml", b"a = '\xff'", "is not TOML: "),
    "a value for a table": ("run.toml", b"parameters = 3", "'parameters' must be a table"),
    "a list for a number": ("run.toml", b"[options]\nthreads = [1, 2]", "'threads'"),
    "a training parameter when ranking": ("run.toml", b"[parameters]\ncost = 2", "matters in training alone"),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_wrong_files(refused: Any, case: str) -> None:
    name, content, said = WRONG_FILES[case]
    if content is not None:
        Path(name).write_bytes(content)
    assert refused(said, f"predict {{text-model}} {{test.jsonl}} --config {name}").count("\n") == 1


def test_an_empty_file_changes_nothing(call: Any) -> None:
    Path("run.toml").touch()
    predict = "predict {text-model} {test.jsonl}"
    assert call(f"{predict} --config run.toml") == call(predict)
