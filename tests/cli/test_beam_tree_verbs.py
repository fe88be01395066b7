"""``sylvan train beam-tree``, and the other verbs on what it saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.topics import WORDS, write_topics

import sylvan
from sylvan import LabelTree, data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of one label each, and the same as matrices."""
    place = tmp_path_factory.mktemp("classes")
    names = sorted(WORDS)
    for part, (texts, labels) in write_topics(place, names, train=120, test=30).items():
        X = np.array([[words.count(word) for word in " ".join(WORDS.values()).split()] for words in texts])
        data.save_npz(place / f"X.{part}.npz", X)
        data.save_npz(place / f"Y.{part}.npz", data.Vocabulary(names).encode(labels))
    return place


@pytest.fixture(scope="module")
def saved(folder: Path) -> str:
    from sylvan.cli import main

    words = ["train", "beam-tree", str(folder / "train.jsonl"), "--model", str(folder / "m"), "--seed", "3", "-q"]
    assert main([*words, "--threads", "1", "--set", "branching=3", "--test", str(folder / "test.jsonl")]) == 0
    return str(folder / "m")


def test_training_and_asking(call: Any, folder: Path, saved: str) -> None:
    model = sylvan.load(saved).model
    assert (model.branching, model.seed, model.tree_.depth) == (3, 3, 2)
    for more in ((), ("--set", "beam=1"), ("--proba",)):
        outcome = call("predict", saved, str(folder / "test.jsonl"), "-k", "2", *more)
        assert outcome.code == 0 and "not calibrated" not in outcome.err, outcome.err
        first = json.loads(outcome.out.splitlines()[0])
        assert len(first["labels"]) == 2
    assert 0 < first["probabilities"][0] <= 1
    sure = call("predict", saved, str(folder / "test.jsonl"), "--threshold", "0.5")
    assert [len(json.loads(line)["labels"]) for line in sure.out.splitlines()].count(1) > 25
    evaluated = call("evaluate", saved, str(folder / "test.jsonl"))
    assert evaluated.code == 0 and "100.00" in evaluated.out, evaluated.err


def test_looking_at_it(call: Any, folder: Path, saved: str) -> None:
    shown = call("inspect", saved)
    assert shown.code == 0, shown.err
    for words in ("BeamTreeClassifier", "depth 2: 2 > 6", "branching", "test.jsonl"):
        assert words in shown.out
    card = json.loads(call("inspect", saved, "--json", "-").out)
    layers = card["trees"][0]["layers"]
    assert [layer["n_nodes"] for layer in layers] == [2, 6] and layers[1]["n_weights"] > 6 * 30
    explained = call("explain", saved, "-", "--label", "Whaling", stdin=b"whales and a harpoon")
    assert explained.code == 0 and "Whaling" in explained.out, explained.err


def test_matrices_and_trees(call: Any, folder: Path, tmp_path: Path) -> None:
    LabelTree.random(6, branching=2, max_leaf=2).save(tmp_path / "tree")
    words = ("train", "beam-tree", str(folder / "X.train.npz"), "--labels", str(folder / "Y.train.npz"), "--model")
    outcome = call(*words, str(tmp_path / "m"), "--tree", str(tmp_path / "tree"), "--set", "class_weight=balanced")
    assert outcome.code == 0, outcome.err
    model = sylvan.load(tmp_path / "m")
    assert model.tree_ == sylvan.load(tmp_path / "tree") and model.class_weight == "balanced"
    top = call("predict", str(tmp_path / "m"), str(folder / "X.test.npz"), "-k", "1")
    Y = data.load_npz(folder / "Y.test.npz")
    assert [json.loads(line)["labels"][0] for line in top.out.splitlines()] == Y.indices.tolist()
    assert call(*words, str(tmp_path / "n"), "--set", "tree=random").code == 0
    assert sylvan.load(tmp_path / "n").tree == "random"


def test_a_plan(call: Any, folder: Path, tmp_path: Path) -> None:
    outcome = call("plan", "beam-tree", str(folder / "train.jsonl"))
    assert outcome.code == 0 and "learning rate" in outcome.out and "saved model" in outcome.out, outcome.err
    (tmp_path / "run.toml").write_text('[parameters]\nlearning_rate = "auto"\ntree = "kmeans"\n')
    words = ("train", "beam-tree", str(folder / "train.jsonl"), "--model", str(tmp_path / "m"))
    assert call(*words, "--config", str(tmp_path / "run.toml"), "--force").code == 0
