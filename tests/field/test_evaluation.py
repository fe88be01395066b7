"""Evaluation over all rows and labels of a file: values worked out by hand."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import sylvan
from sylvan import TextModel, XRLinear, data
from sylvan.cli import main

WORDS = {"baking": "bread oven", "stars": "telescope orbit", "chess": "rook gambit"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that answers the label of a text's words first, with any label behind it."""
    place = tmp_path_factory.mktemp("evaluation")
    names = sorted(WORDS) * 10
    TextModel(model=XRLinear(seed=0)).fit([WORDS[name] for name in names], [[name] for name in names]).save(place / "m")
    return place


def evaluate(folder: Path, capsys: Any, texts: Sequence[str], labels: Sequence[Sequence[str]], *options: str) -> Any:
    rows = [json.dumps({"text": text, "labels": row}) for text, row in zip(texts, labels, strict=True)]
    (folder / "test.jsonl").write_text("\n".join(rows))
    words = ["evaluate", str(folder / "m"), str(folder / "test.jsonl"), "-q", "--json", str(folder / "out.json")]
    assert main([*words, *options]) == 0, capsys.readouterr().err
    found = json.loads((folder / "out.json").read_text())
    return {name: found["measures"][name] for name in ("P", "R", "F1")}, capsys.readouterr().out, found


BREAD, STARS = WORDS["baking"], WORDS["stars"]
RIGHT, HALF = {"P": 1.0, "R": 1.0, "F1": 1.0}, {"P": 0.5, "R": 0.5, "F1": 0.5}
BESIDE, KNOWN = {"P": 1.0, "R": 0.75, "F1": (2 / 3 + 1) / 2}, ("--known-labels",)
CASES: list[tuple[list[list[str]], Sequence[str], dict[str, float], str]] = [
    # Known labels alone: the same both ways.
    ([["baking"], ["stars"]], (), RIGHT, "over 2 rows and all their labels.\n"),
    ([["baking"], ["stars"]], KNOWN, RIGHT, "over 2 rows and the labels that the model knows.\n"),
    # A row of an unknown label alone is a miss.
    ([["baking"], ["opera"]], (), HALF, "1 label (1 different) that the model doesn't know counts as missed"),
    ([["baking"], ["opera"]], KNOWN, RIGHT, "over 1 row and"),
    # An unknown label beside a known one halves recall; named twice it is one label.
    ([["baking", "opera"], ["stars"]], (), BESIDE, "1 label (1 different)"),
    ([["baking", "opera", "opera"], ["stars"]], (), BESIDE, "1 different"),
    ([["baking", "opera"], ["stars"]], KNOWN, RIGHT, "Left out: 1 label (1 different) that the model doesn't know."),
    # A row without labels has no right answer: left out, and said.
    ([["baking"], []], (), RIGHT, "Left out: 1 row without any label."),
]


@pytest.mark.parametrize(("labels", "options", "figures", "words"), CASES)
def test_every_row_and_label_counts(
    labels: list[list[str]], options: Sequence[str], figures: dict[str, float], words: str, folder: Path, capsys: Any
) -> None:  # fmt: skip
    measures, out, _ = evaluate(folder, capsys, [BREAD, STARS], labels, "-k", "1", *options)
    assert {name: values["1"] for name, values in measures.items()} == pytest.approx(figures)
    assert out.startswith("Measured over") and words in out, "what is left out stands before the figures"


def test_f1_at_5_is_that_of_all_rows(folder: Path, capsys: Any) -> None:
    """Annif's F1@5: the mean over rows of the F1 of the five best, with every label of the file."""
    rng, names = np.random.default_rng(0), [*WORDS, "opera", "jazz", "ska"]
    labels = [sorted({names[i] for i in rng.integers(0, len(names), 3)}) for _ in range(40)]
    texts = [" ".join(WORDS.get(name, "bread") for name in row) for row in labels]
    model = sylvan.load(folder / "m")
    answers = [set(row) for row in model.rank(texts, k=5).names]
    by_hand = [2 * len(found & set(row)) / (len(found) + len(row)) for found, row in zip(answers, labels, strict=True)]
    measures, _, found = evaluate(folder, capsys, texts, labels, "-k", "5")
    assert measures["F1"]["5"] == pytest.approx(np.mean(by_hand))
    assert found["labels_unknown"] == sum(name not in WORDS for row in labels for name in row)
    assert found["threshold"]["F1"] <= np.mean([len(set(row) & set(WORDS)) > 0 for row in labels])


def test_labels_of_a_matrix_count_alike(tmp_path: Path, capsys: Any) -> None:
    X, Y = np.eye(3)[np.arange(30) % 3], np.eye(3)[np.arange(30) % 3]
    XRLinear(seed=0).fit(X, csr_matrix(Y)).save(tmp_path / "m")
    data.save_npz(tmp_path / "X.npz", csr_matrix(np.eye(3)))
    data.save_npz(tmp_path / "Y.npz", csr_matrix(([1.0] * 4, ([0, 1, 1, 2], [0, 1, 7, 5])), shape=(3, 9)))
    words = ["evaluate", str(tmp_path / "m"), str(tmp_path / "X.npz"), "--labels", str(tmp_path / "Y.npz"), "-k", "1"]
    for options, precision, recall in (((), 2 / 3, 0.5), (("--known-labels",), 1.0, 1.0)):
        assert main([*words, "--json", "-", *options]) == 0
        measures = json.loads(capsys.readouterr().out)["measures"]
        assert (measures["P"]["1"], measures["R"]["1"]) == pytest.approx((precision, recall))


@pytest.mark.parametrize("options", [(), ("--known-labels",)])
def test_a_file_of_other_labels_is_refused(options: Sequence[str], folder: Path, capsys: Any) -> None:
    data.write_jsonl(folder / "other.jsonl", [BREAD], [["http://example.org/p1"]])
    assert main(["evaluate", str(folder / "m"), str(folder / "other.jsonl"), *options]) == 2
    error = capsys.readouterr().err
    for words in ("no row has a label that the model knows", "'http://example.org/p1'", "'baking'"):
        assert words in error


@pytest.mark.parametrize(("suffix", "key"), [("jsonl", "probabilities"), ("csv", "probability")])
def test_files_have_the_probability_that_other_commands_show(suffix: str, key: str, folder: Path) -> None:
    names = sorted(WORDS) * 60  # enough rows to calibrate
    texts = [WORDS[name] for name in names]
    model = TextModel(model=XRLinear(seed=0)).fit(texts, [[name] for name in names])
    model.save(folder / "calibrated")
    data.write_jsonl(folder / "one.jsonl", [BREAD])
    top = model.rank([BREAD], k=1)
    for options, name, value in (
        ((), key, model.probabilities(top).scores[0, 0]),
        (("--proba",), key, model.probabilities(top).scores[0, 0]),
        (("--scores",), {"probability": "score"}.get(key, "scores"), top.scores[0, 0]),
    ):
        out = folder / f"top.{suffix}"
        assert (
            main(
                ["predict", str(folder / "calibrated"), str(folder / "one.jsonl"), "-k", "1", "-o", str(out), *options]
            )
            == 0
        )
        row = next(csv.DictReader(out.open())) if suffix == "csv" else json.loads(out.read_text())
        assert float(row[name] if suffix == "csv" else row[name][0]) == pytest.approx(float(value), rel=1e-5)


def test_raw_scores_and_a_rule_contradict_each_other(folder: Path, capsys: Any) -> None:
    data.write_jsonl(folder / "one.jsonl", [BREAD])
    assert main(["predict", str(folder / "m"), str(folder / "one.jsonl"), "--scores", "--threshold", "0.5"]) == 2
    assert "leave --scores out" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["texts", "features"])
def test_measuring_on_rows_that_are_kept_is_noticed(kind: str, tmp_path: Path, capsys: Any) -> None:
    """From another file, in another order, or a part of them."""
    names = sorted(WORDS) * 10
    if kind == "texts":
        lines = [json.dumps({"text": f"{WORDS[name]} n{i}", "labels": [name]}) for i, name in enumerate(names)]
        last = ".jsonl"
    else:
        lines = [f"{i % 3} {i % 7}:{1 + i / 8} 9:1" for i in range(len(names))]
        last = ".svm"
    half = len(lines) // 2
    files = {"train": lines[:half], "turned": lines[half - 1 :: -1], "part": lines[3:9], "some": lines[half - 9 :],
             "new": lines[half:], "few": lines[half - 1 :]}  # fmt: skip
    for name, rows in files.items():
        (tmp_path / (name + last)).write_text("\n".join(rows) + "\n")
    said = {}
    for kept in ("true", "false"):
        model = str(tmp_path / kept)
        train = ["train", "xr-linear", str(tmp_path / f"train{last}"), "--model", model, "-q"]
        assert main([*train, "--set", f"keep_rows={kept}"]) == 0
        for name in files:
            capsys.readouterr()
            assert main(["evaluate", model, str(tmp_path / (name + last)), "-q"]) == 0
            said[name, kept] = capsys.readouterr().out.split(":")[0]
    words = "The model has learned from {} of the first {} rows, which it keeps"
    assert said["turned", "true"] == words.format(half, half)
    assert said["part", "true"] == words.format(6, 6) and said["some", "true"] == words.format(9, 9 + len(lines) - half)
    assert all(said["train", kept].startswith("The model has learned from these rows (") for kept in ("true", "false"))
    others = [said["new", "true"], said["few", "true"], *(said[name, "false"] for name in files if name != "train")]
    assert all(one.startswith("Measured over") for one in others)


def test_measuring_on_the_training_file_is_noticed(tmp_path: Path, capsys: Any) -> None:
    names = sorted(WORDS) * 4
    rows = [json.dumps({"text": f"{WORDS[name]} {i}", "labels": [name]}) for i, name in enumerate(names)]
    for name, lines in (("train", rows[:8]), ("new", rows[8:10]), ("test", rows[10:])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    (tmp_path / "copy.jsonl.gz").write_bytes(gzip.compress((tmp_path / "train.jsonl").read_bytes()))
    file, model, joined = (lambda name: str(tmp_path / name)), str(tmp_path / "m"), str(tmp_path / "joined")

    def noticed(folder: str, name: str) -> bool:
        capsys.readouterr()
        assert main(["evaluate", folder, file(name), "-q"]) == 0
        return capsys.readouterr().out.startswith("The model has learned from these rows (")

    assert main(["train", "neighbors", file("train.jsonl"), "--model", model, "-q"]) == 0
    assert [noticed(model, name) for name in ("train.jsonl", "copy.jsonl.gz", "new.jsonl", "test.jsonl")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert main(["update", model, file("new.jsonl"), "-q"]) == 0
    assert [noticed(model, name) for name in ("train.jsonl", "new.jsonl", "test.jsonl")] == [True, True, False]
    assert main(["ensemble", model, model, "--model", joined, "-q"]) == 0
    assert [noticed(joined, name) for name in ("new.jsonl", "test.jsonl")] == [True, False]
    assert main(["train", "xr-linear", file("train.jsonl"), "--model", model, "--test", file("train.jsonl")]) == 0
    assert "The model has learned from these rows (train.jsonl)" in capsys.readouterr().out


def test_a_broken_promise_of_the_probabilities_is_said(folder: Path, capsys: Any) -> None:
    """Where most rows have labels that the model doesn't know, few answers are right that probabilities promise."""
    names = sorted(WORDS) * 60
    texts = [WORDS[name] for name in names]
    TextModel(model=XRLinear(seed=0)).fit(texts, [[name] for name in names]).save(folder / "sure")
    others = ["opera" if i % 5 else name for i, name in enumerate(names)]
    for labels, broken in ((names, False), (others, True)):
        data.write_jsonl(folder / "rows.jsonl", texts, [[name] for name in labels])
        assert main(["evaluate", str(folder / "sure"), str(folder / "rows.jsonl"), "-q"]) == 0
        out = capsys.readouterr().out
        assert ("Warning: the probabilities promise too much for these rows." in out) is broken, out
