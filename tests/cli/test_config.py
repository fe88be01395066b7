"""Configuration files: the same model as by options, the command line first, all errors reported together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kit.bits import same_bits

import sylvan

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


def write(path: Path, tables: dict[str, dict[str, Any]]) -> str:
    lines = []
    for table, values in tables.items():  # of words, numbers and truth values, which TOML writes as JSON does
        lines += [f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    path.write_text("\n".join(lines))
    return str(path)


def test_a_file_trains_what_options_train(call: Any, files: Any, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(TOML)
    config = str(tmp_path / "run.toml")
    train = ["train", "xr-linear", files("train.jsonl"), "-q"]
    assert call(*train, "--model", str(tmp_path / "a"), "--config", config).code == 0
    assert call(*train, "--model", str(tmp_path / "b"), *AS_OPTIONS.split()).code == 0
    first, second = sylvan.load(tmp_path / "a"), sylvan.load(tmp_path / "b")
    same_bits(first, second)
    assert first.model.beam == 7 and tuple(first.vectorizer.ngrams) == (1, 2)


def test_what_the_embeddings_take(call: Any, files: Any, tmp_path: Path) -> None:
    shares = [0.25, 0.5, 0.75, 0.0, 1.0, 0.5]
    tables = {"parameters": {"alpha": shares, "max_features_per_label": 9, "spectral_dimensions": 3}}
    train = ["train", "xr-linear", files("train.jsonl"), "-q", "--model", str(tmp_path / "m")]
    assert call(*train, "--config", write(tmp_path / "run.toml", tables)).code == 0
    model = sylvan.load(tmp_path / "m").model
    assert model.alpha.tolist() == shares
    assert (model.max_features_per_label, model.spectral_dimensions) == (9, 3)
    words = ["--set", "alpha=0.5,0.5", "--set", "max_features_per_label=none", "--set", "spectral_dimensions=2"]
    outcome = call(*train, *words)
    assert outcome.code == 2 and "has 2 numbers, but Y has shape" in outcome.err


def test_everything_may_stand_in_the_file(call: Any, files: Any, tmp_path: Path) -> None:
    tables = {"options": {"train": files("train.jsonl"), "model": str(tmp_path / "m"), "quiet": True}}
    assert call("train", "xr-linear", "--config", write(tmp_path / "run.toml", tables)).code == 0
    assert sylvan.load(tmp_path / "m").n_labels_ == 6
    tables = {"options": {"k": 2, "output": str(tmp_path / "top.jsonl")}, "parameters": {"beam": 3}}
    outcome = call(
        "predict", str(tmp_path / "m"), files("test.jsonl"), "-q", "--config", write(tmp_path / "p.toml", tables)
    )
    assert outcome.code == 0, outcome
    lines = (tmp_path / "top.jsonl").read_text("utf-8").splitlines()
    assert all(len(json.loads(line)["labels"]) == 2 for line in lines)


def test_the_command_line_goes_before_the_file(call: Any, files: Any, tmp_path: Path) -> None:
    config = write(tmp_path / "run.toml", {"parameters": {"beam": 7, "cost": 2.0}, "text": {"min_df": 2}})
    words = ["train", "xr-linear", files("train.jsonl"), "--model", str(tmp_path / "m"), "-q", "--config", config]
    assert call(*words, "--set", "beam=5", "--min-df", "3", "--seed", "4").code == 0
    model = sylvan.load(tmp_path / "m")
    assert (model.model.beam, model.model.cost, model.vectorizer.min_df, model.model.seed) == (5, 2.0, 3, 4)


def test_all_faults_at_once_with_suggestions(call: Any, files: Any, tmp_path: Path) -> None:
    tables = {
        "options": {"thread": 2, "format": "csvv"},
        "parameters": {"beam": 0, "negativs": "tfn"},
        "text": {"min_dff": 2},
        "txt": {},
    }
    config = write(tmp_path / "run.toml", tables)
    outcome = call(
        "train", "xr-linear", files("train.jsonl"), "--model", str(tmp_path / "m"),
        "--config", config, "--set", "cost=-1", "--set", "sead=1",
    )  # fmt: skip
    assert outcome.code == 2 and outcome.out == ""
    lines = outcome.err.strip().split("\n")
    assert lines[0] == "Error: 8 settings are wrong:"
    pieces = [
        "has no use for 'txt'. Did you mean 'text'?",
        "has no option 'thread', which .* names. Did you mean 'threads'?",
        "'format': 'csvv' is not one of",
        "The 'beam' parameter of XRLinear must be an int in",
        "has no parameter 'negativs'. Did you mean 'negatives'?",
        "The 'cost' parameter of XRLinear must be a float",
        "has no parameter 'sead'. Did you mean 'seed'?",
        "has no parameter 'min_dff'. Did you mean 'min_df'?",
    ]
    for piece in pieces:
        assert any(re.search(piece, line) for line in lines[1:]), piece
    assert not (tmp_path / "m").exists()


WRONG_FILES = {
    "no file": ("nowhere.toml", None, "can't be read: No such file or directory."),
    "another format": ("run.ini", "beam=3", "takes a .toml file"),
    "no TOML": ("run.toml", "beam = = 3", "is not TOML: "),
    "JSON": ("run.json", "{}", "takes a .toml file"),
    "YAML": ("run.yaml", "a: 1", "takes a .toml file"),
    "no UTF-8": ("run.toml", b"a = '\xff'", "is not TOML: "),
    "a value for a table": ("run.toml", "parameters = 3", "'parameters' must be a table"),
    "a list for a number": ("run.toml", "[options]\nthreads = [1, 2]", "'threads'"),
    "a training parameter when ranking": ("run.toml", "[parameters]\ncost = 2", "matters in training alone"),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_wrong_files(call: Any, files: Any, tmp_path: Path, case: str) -> None:
    name, content, piece = WRONG_FILES[case]
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    outcome = call("predict", files.text_model, files("test.jsonl"), "--config", str(tmp_path / name))
    assert outcome.code == 2 and outcome.out == ""
    assert piece in outcome.err and outcome.err.count("\n") == 1, outcome.err


def test_an_empty_file_changes_nothing(call: Any, files: Any, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("")
    plain = call("predict", files.text_model, files("test.jsonl"))
    assert call("predict", files.text_model, files("test.jsonl"), "--config", str(tmp_path / "run.toml")) == plain
