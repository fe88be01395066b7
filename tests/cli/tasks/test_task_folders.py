"""What ``sylvan task`` leaves in its folder: everything or nothing, and nothing of another training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan.neural import RefreshSchedule

SMALL = ("--sampler", "uniform", "--set", "dim=8", "--set", "batch_size=16", "-q")
WORDS = ("red", "green", "blue", "black", "white", "pink")


def write_texts(path: Path, first: str, n: int = 60) -> Path:
    """Rows of two words, each a label too; ``first`` marks the labels of this file."""
    rows = [(WORDS[i % 6], WORDS[(i // 6 + 1 + i) % 6]) for i in range(n)]
    lines = [json.dumps({"text": " ".join(row), "labels": [first + word for word in row]}) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def classify(call: Any, data: Path, out: Path, *more: str) -> Any:
    return call("task", "extreme-classification", str(data), *SMALL, "--epochs", "1", "--out", str(out), *more)


@pytest.mark.parametrize("more", [("--samples", "100"), ("--samples", "3", "--epochs", "0")], ids=" ".join)
def test_what_is_refused_leaves_no_folder(more: tuple[str, ...], call: Any, tmp_path: Path) -> None:
    outcome = classify(call, write_texts(tmp_path / "a.jsonl", "A"), tmp_path / "out", *more)
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seeds", [(), ("--seed", "3", "--seed", "4")], ids=["one", "several"])
def test_a_refused_resume_leaves_the_runs_labels_and_promises_nothing(
    seeds: tuple[str, ...], call: Any, tmp_path: Path
) -> None:
    out, more = tmp_path / "out", ("--samples", "3", *seeds)
    first, other = write_texts(tmp_path / "a.jsonl", "A"), write_texts(tmp_path / "b.jsonl", "B", 66)
    assert classify(call, first, out, *more).code == 0
    labels = list(sylvan.load(out / "labels"))
    for data, wrong in ((other, ()), (other, ("--set", "learning_rate=0.5")), (first, ("--set", "learning_rate=0.5"))):
        outcome = classify(call, data, out, *more, "--resume", *wrong)
        assert outcome.code == 2 and "of another training" in outcome.err
        assert "choose another folder, or remove it." in outcome.err and "with --resume goes on" not in outcome.err
        assert list(sylvan.load(out / "labels")) == labels
    assert classify(call, first, out, *more, "--resume", "--epochs", "2").code == 0
    assert classify(call, other, out, *more, "--no-resume").code == 0
    assert next(iter(sylvan.load(out / "labels"))).startswith("B")


def test_no_seed_is_trained_when_another_cannot_go_on(call: Any, tmp_path: Path) -> None:
    data, out = write_texts(tmp_path / "a.jsonl", "A"), tmp_path / "out"
    assert classify(call, data, out / "seed-2", "--samples", "4", "--seed", "2").code == 0
    outcome = classify(call, data, out, "--samples", "3", "--seed", "1", "--seed", "2", "--resume")
    assert outcome.code == 2 and "the setting 'n_samples' was 4 and is 3" in outcome.err
    assert not (out / "seed-1").exists() and not (out / "labels").exists()


def test_other_texts_of_the_same_size_are_no_training_to_go_on_with(call: Any, tmp_path: Path) -> None:
    data, out = write_texts(tmp_path / "a.jsonl", "A"), tmp_path / "out"
    assert classify(call, data, out, "--samples", "3").code == 0
    lines = data.read_text().splitlines()
    data.write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    outcome = classify(call, data, out, "--samples", "3", "--resume", "--epochs", "2")
    assert outcome.code == 2 and "the setting 'data_checksum' was another" in outcome.err


def test_a_wrong_sampler_beside_the_full_softmax(call: Any, tmp_path: Path) -> None:
    data = write_texts(tmp_path / "a.jsonl", "A")
    outcome = classify(call, data, tmp_path / "out", "--loss", "full", "--sampler", "nope")
    assert outcome.code == 2 and outcome.err.startswith("Error: There is no sampler 'nope'. The known ones are: ")
    assert not (tmp_path / "out").exists()


def test_a_small_set_needs_no_option(call: Any, tmp_path: Path) -> None:
    outcome = call(
        "task", "extreme-classification", str(write_texts(tmp_path / "a.jsonl", "A")), "--epochs", "1",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    settings = json.loads((tmp_path / "out" / "results.json").read_text())["settings"]
    assert settings["n_samples"] == 3 and settings["sampler"] == "midx-aware-rq"
    assert settings["loss"] == "head-and-tail"


def test_the_warning_of_adam_is_a_sentence(call: Any, tmp_path: Path) -> None:
    data = write_texts(tmp_path / "a.jsonl", "A")
    outcome = classify(call, data, tmp_path / "out", "--set", "optimizer=adam")
    assert outcome.code == 0
    assert outcome.err.startswith("Warning: SparseAdam trains the class table of a sampled loss.")
    assert outcome.err.count("\n") == 1 and ".py" not in outcome.err


def test_the_help_has_the_default_of_the_schedule(call: Any) -> None:
    text = " ".join(call("task", "language-model", "--help").out.split())
    for n in (10_000, 1_000_000):
        assert f"{RefreshSchedule.for_classes(n).every} with {n:,} classes" in text
