"""Evaluation over all rows and labels of a file: values worked out by hand."""

import csv
import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import sylvan
from sylvan import TextModel, XRLinear, data

WORDS = {"baking": "bread oven", "stars": "telescope orbit", "chess": "rook gambit"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that answers the label of a text's words first, with any label behind it; and one that is calibrated."""
    folder = tmp_path_factory.mktemp("evaluation")
    for model, times in (("m", 10), ("calibrated", 60)):
        names = sorted(WORDS) * times
        texts, labels = [WORDS[name] for name in names], [[name] for name in names]
        TextModel(model=XRLinear(seed=0)).fit(texts, labels).save(folder / model)
    return folder


@pytest.fixture
def place(folder: Path) -> Callable[[str], str]:
    return lambda name: str(folder / name)


def evaluate(call: Any, texts: Sequence[str], labels: Sequence[Sequence[str]], options: str) -> tuple[Any, str]:
    """What is measured, and what is said."""
    data.write_jsonl("test.jsonl", texts, labels)
    said = call(f"evaluate {{m}} test.jsonl -q --json out.json {options}").out
    return json.loads(Path("out.json").read_text()), said


BREAD, STARS = WORDS["baking"], WORDS["stars"]
RIGHT, HALF = {"P": 1.0, "R": 1.0, "F1": 1.0}, {"P": 0.5, "R": 0.5, "F1": 0.5}
BESIDE, KNOWN = {"P": 1.0, "R": 0.75, "F1": (2 / 3 + 1) / 2}, "--known-labels"
CASES: list[tuple[list[list[str]], str, dict[str, float], str]] = [
    # Known labels alone: the same both ways.
    ([["baking"], ["stars"]], "", RIGHT, "over 2 rows and all their labels.\n"),
    ([["baking"], ["stars"]], KNOWN, RIGHT, "over 2 rows and the labels that the model knows.\n"),
    # A row of an unknown label alone is a miss.
    ([["baking"], ["opera"]], "", HALF, "1 label (1 different) that the model doesn't know counts as missed"),
    ([["baking"], ["opera"]], KNOWN, RIGHT, "over 1 row and"),
    # An unknown label beside a known one halves recall; named twice it is one label.
    ([["baking", "opera"], ["stars"]], "", BESIDE, "1 label (1 different)"),
    ([["baking", "opera", "opera"], ["stars"]], "", BESIDE, "1 different"),
    ([["baking", "opera"], ["stars"]], KNOWN, RIGHT, "Left out: 1 label (1 different) that the model doesn't know."),
    # A row without labels has no right answer: left out, and said.
    ([["baking"], []], "", RIGHT, "Left out: 1 row without any label."),
]


@pytest.mark.parametrize(("labels", "options", "figures", "words"), CASES)
def test_every_row_and_label_counts(
    labels: list[list[str]], options: str, figures: dict[str, float], words: str, call: Any
) -> None:
    found, said = evaluate(call, [BREAD, STARS], labels, f"-k 1 {options}")
    assert {name: found["measures"][name]["1"] for name in figures} == pytest.approx(figures)
    assert said.startswith("Measured over") and words in said, "what is left out stands before the figures"


def test_f1_at_5_is_that_of_all_rows(folder: Path, call: Any) -> None:
    """Annif's F1@5: the mean over rows of the F1 of the five best, with every label of the file."""
    rng, names = np.random.default_rng(0), [*WORDS, "opera", "jazz", "ska"]
    labels = [sorted({names[i] for i in rng.integers(0, len(names), 3)}) for _ in range(40)]
    texts = [" ".join(WORDS.get(name, "bread") for name in row) for row in labels]
    answers = [set(row) for row in sylvan.load(folder / "m").rank(texts, k=5).names]
    by_hand = [2 * len(found & set(row)) / (len(found) + len(row)) for found, row in zip(answers, labels, strict=True)]
    found, _ = evaluate(call, texts, labels, "-k 5")
    assert found["measures"]["F1"]["5"] == pytest.approx(np.mean(by_hand))
    assert found["labels_unknown"] == sum(name not in WORDS for row in labels for name in row)
    assert found["threshold"]["F1"] <= np.mean([len(set(row) & set(WORDS)) > 0 for row in labels])


def test_labels_of_a_matrix_count_alike(call: Any) -> None:
    X, Y = np.eye(3)[np.arange(30) % 3], np.eye(3)[np.arange(30) % 3]
    XRLinear(seed=0).fit(X, csr_matrix(Y)).save("m")
    data.save_npz("X.npz", csr_matrix(np.eye(3)))
    data.save_npz("Y.npz", csr_matrix(([1.0] * 4, ([0, 1, 1, 2], [0, 1, 7, 5])), shape=(3, 9)))
    for options, precision, recall in (("", 2 / 3, 0.5), (KNOWN, 1.0, 1.0)):
        measures = call(f"evaluate m X.npz --labels Y.npz -k 1 --json - {options}").json["measures"]
        assert (measures["P"]["1"], measures["R"]["1"]) == pytest.approx((precision, recall))


@pytest.mark.parametrize("options", ["", KNOWN])
def test_a_file_of_other_labels_is_refused(options: str, refused: Any) -> None:
    data.write_jsonl("other.jsonl", [BREAD], [["http://example.org/p1"]])
    said = ("no row has a label that the model knows", "'http://example.org/p1'", "'baking'")
    refused(said, f"evaluate {{m}} other.jsonl {options}")


@pytest.mark.parametrize(("suffix", "key"), [("jsonl", "probabilities"), ("csv", "probability")])
def test_files_have_the_probability_that_other_commands_show(
    suffix: str, key: str, folder: Path, call: Any, refused: Any
) -> None:
    data.write_jsonl("one.jsonl", [BREAD])
    model = sylvan.load(folder / "calibrated")
    top = model.rank([BREAD], k=1)
    probability = model.probabilities(top).scores[0, 0]
    out = Path(f"top.{suffix}")
    for options, name, value in (
        ("", key, probability), ("--proba", key, probability),
        ("--scores", {"probability": "score"}.get(key, "scores"), top.scores[0, 0]),
    ):  # fmt: skip
        call(f"predict {{calibrated}} one.jsonl -k 1 -o {out} {options}")
        row = next(csv.DictReader(out.open())) if suffix == "csv" else json.loads(out.read_text())
        assert float(row[name] if suffix == "csv" else row[name][0]) == pytest.approx(float(value), rel=1e-5)
    refused("leave --scores out", "predict {m} one.jsonl --scores --threshold 0.5")


@pytest.mark.parametrize("last", ["jsonl", "svm"])
def test_measuring_on_rows_that_are_kept_is_noticed(last: str, call: Any) -> None:
    """From another file, in another order, or a part of them."""
    names = sorted(WORDS) * 10
    if last == "jsonl":
        lines = [json.dumps({"text": f"{WORDS[name]} n{i}", "labels": [name]}) for i, name in enumerate(names)]
    else:
        lines = [f"{i % 3} {i % 7}:{1 + i / 8} 9:1" for i in range(len(names))]
    half = len(lines) // 2
    files = {"train": lines[:half], "turned": lines[half - 1 :: -1], "part": lines[3:9], "some": lines[half - 9 :],
             "new": lines[half:], "few": lines[half - 1 :]}  # fmt: skip
    for name, rows in files.items():
        Path(f"{name}.{last}").write_text("\n".join(rows) + "\n")
    said = {}
    for kept in ("true", "false"):
        call(f"train xr-linear train.{last} --model {kept} -q --set keep_rows={kept}")
        for name in files:
            said[name, kept] = call(f"evaluate {kept} {name}.{last} -q").out.split(":")[0]
    words = "The model has learned from {} of the first {} rows, which it keeps"
    assert said["turned", "true"] == words.format(half, half)
    assert said["part", "true"] == words.format(6, 6) and said["some", "true"] == words.format(9, 9 + len(lines) - half)
    assert all(said["train", kept].startswith("The model has learned from these rows (") for kept in ("true", "false"))
    others = [said["new", "true"], said["few", "true"], *(said[name, "false"] for name in files if name != "train")]
    assert all(one.startswith("Measured over") for one in others)


def test_measuring_on_the_training_file_is_noticed(call: Any) -> None:
    names = sorted(WORDS) * 4
    rows = [json.dumps({"text": f"{WORDS[name]} {i}", "labels": [name]}) for i, name in enumerate(names)]
    for name, lines in (("train", rows[:8]), ("new", rows[8:10]), ("test", rows[10:])):
        Path(f"{name}.jsonl").write_text("\n".join(lines))
    Path("copy.jsonl.gz").write_bytes(gzip.compress(Path("train.jsonl").read_bytes()))

    def noticed(folder: str, *names: str) -> list[bool]:
        beginning = "The model has learned from these rows ("
        return [call(f"evaluate {folder} {name} -q").out.startswith(beginning) for name in names]

    call("train neighbors train.jsonl --model m -q")
    there = noticed("m", "train.jsonl", "copy.jsonl.gz", "new.jsonl", "test.jsonl")
    assert there == [True, True, False, False]
    call("update m new.jsonl -q")
    assert noticed("m", "train.jsonl", "new.jsonl", "test.jsonl") == [True, True, False]
    call("ensemble m m --model joined -q")
    assert noticed("joined", "new.jsonl", "test.jsonl") == [True, False]
    said = call("train xr-linear train.jsonl --model m --test train.jsonl").out
    assert "The model has learned from these rows (train.jsonl)" in said
    for rows, learned in (("copy.jsonl.gz", True), ("test.jsonl", False)):
        small = call(f"compress m -o small --rows {rows}").out
        assert ("The model has learned from these rows (train.jsonl)" in small) is learned
        for option in ("--fit-weights", "--calibrate"):
            said = call(f"ensemble m joined --model both {option} {rows}").err
            assert (f"Warning: m, joined learned from {rows}: " in said) is learned


def test_a_broken_promise_of_the_probabilities_is_said(call: Any) -> None:
    """Where most rows have labels that the model doesn't know, few answers are right that probabilities promise."""
    names = sorted(WORDS) * 60
    others = ["opera" if i % 5 else name for i, name in enumerate(names)]
    for labels, broken in ((names, False), (others, True)):
        data.write_jsonl("rows.jsonl", [WORDS[name] for name in names], [[name] for name in labels])
        said = call("evaluate {calibrated} rows.jsonl -q").out
        assert ("Warning: the probabilities promise too much for these rows." in said) is broken, said
