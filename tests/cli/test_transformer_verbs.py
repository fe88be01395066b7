"""``sylvan train xr-transformer`` and ``x-transformer``, and the other verbs on what they saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.topics import write_topics

import sylvan
from sylvan import XRTransformer, data

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of one label each, a matrix, and a small encoder."""
    from sylvan.neural import BagTextEncoder

    place = tmp_path_factory.mktemp("encoded")
    write_topics(place, ["Astronomy", "Baking", "Chess", "Whaling"], train=80, test=20)
    data.save_npz(place / "X.npz", np.eye(4))
    data.save_npz(place / "Y.npz", np.eye(4))
    BagTextEncoder(dim=8, n_buckets=256).save_pretrained(place / "bag")
    return place


@pytest.fixture(scope="module")
def saved(folder: Path) -> str:
    from sylvan.cli import main

    words = ["train", "xr-transformer", str(folder / "train.jsonl"), "--model", str(folder / "m"), "--seed", "3", "-q"]
    settings = ["--set", f"encoder={folder / 'bag'}", "--set", "preset=tiny", "--set", "ranker__max_leaf=2"]
    settings += ["--device", "cpu"]
    assert main([*words, *settings, "--threads", "1", "--ngrams", "1,2", "--test", str(folder / "test.jsonl")]) == 0
    return str(folder / "m")


def test_training_and_asking(call: Any, folder: Path, saved: str) -> None:
    model = sylvan.load(saved)
    assert isinstance(model, XRTransformer)
    assert (model.preset, model.seed, model.device, model.ranker.max_leaf) == ("tiny", 3, "auto", 2)
    assert model.vectorizer.ngrams == (1, 2) and model.n_dense_ == 8
    asked = call("predict", saved, str(folder / "test.jsonl"), "-k", "2", "--device", "cpu", "-q")
    rows = [json.loads(line) for line in asked.out.splitlines()]
    texts = data.read_jsonl(folder / "test.jsonl").texts
    assert asked.code == 0 and [row["labels"] for row in rows] == model.rank(texts, k=2).names
    measured = call("evaluate", saved, str(folder / "test.jsonl"), "-q")
    assert measured.code == 0 and "100.00" in measured.out
    assert call("predict", saved, "-", "-k", "1", "-q", stdin=b"flour and yeast\n").out.startswith(
        '{"labels": ["Baking"]'
    )
    explained = call("explain", saved, "--text", "flour and yeast", "--label", "Baking")
    assert explained.code == 0 and "flour" in explained.out


def test_inspect_shows_encoder_and_rankers(call: Any, saved: str) -> None:
    shown = call("inspect", saved)
    assert shown.code == 0
    for words in ("XRTransformer, a text encoder and linear models", "8 dimensions of the encoder", "ranker.tree0"):
        assert words in shown.out
    assert "100.00" in shown.out, "figures of --test"


def test_x_transformer_tells_its_memory_and_size(call: Any, folder: Path) -> None:
    made = call(
        "train", "x-transformer", str(folder / "train.jsonl"), "--model", str(folder / "x"), "--set", "preset=tiny",
        "--set", f"encoder={folder / 'bag'}", "--set", "matcher__epochs=2", "--set", "ranker__max_leaf=2",
        "--threads", "1",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert "The encoder needs about" in made.out and "node vectors" in made.out
    assert "Trained XTransformer with 4 labels" in made.out
    size = sum(path.stat().st_size for path in (folder / "x").rglob("*") if path.is_file())
    assert f"({size / 1000:.1f} kB)" in made.out
    joined = call("ensemble", str(folder / "x"), str(folder / "x"), "--model", str(folder / "both"))
    assert joined.code == 0
    assert call("predict", str(folder / "both"), str(folder / "test.jsonl"), "--device", "cpu", "-q").code == 0


def test_plan(call: Any, folder: Path) -> None:
    planned = call(
        "plan", "xr-transformer", str(folder / "train.jsonl"), "--set", "preset=tiny", "--set",
        f"encoder={folder / 'bag'}", "--threads", "1",
    )  # fmt: skip
    assert planned.code == 0 and planned.err.count("\n") == 1 and planned.err.startswith("Read 80 rows")
    for words in ("its training", "node vectors", "embeddings", "rankers", "peak memory", "saved model"):
        assert words in planned.out


@pytest.mark.parametrize("verb", ["train", "plan"])
def test_help_names_an_encoder(call: Any, verb: str) -> None:
    for model in ("xr-transformer", "x-transformer"):
        outcome = call(verb, model, "--help")
        assert outcome.code == 0 and "encoder=models/minilm" in outcome.out and "dense_scale=None" in outcome.out
        assert "X.trn.npz --labels" not in outcome.out, "it learns from texts alone"


def test_a_configuration_reaches_the_parts(call: Any, folder: Path, tmp_path: Path) -> None:
    own = f"[parameters]\npreset = 'tiny'\nencoder = '{folder / 'bag'}'\nranker__beam = 7\n"
    own += "[parameters.matcher]\nepochs = 0.25\n"
    (tmp_path / "run.toml").write_text(own)
    words = ["train", "xr-transformer", str(folder / "train.jsonl"), "--model", str(tmp_path / "m"), "--threads", "1"]
    trained = call(*words, "--config", str(tmp_path / "run.toml"), "--set", "ranker__cost=3", "--set-text", "min_df=4")
    assert trained.code == 0, trained.err
    model = sylvan.load(tmp_path / "m")
    assert isinstance(model, XRTransformer) and model.vectorizer.min_df == 4
    assert (model.matcher.epochs, model.ranker.beam, model.ranker.cost) == (0.25, 7, 3)
    (tmp_path / "wrong.toml").write_text(own + "width = 3\n[parameters.ranker]\nbeam = 0\n")
    refused = call(*words, "--config", str(tmp_path / "wrong.toml"))
    assert refused.code == 2
    for sentence in ("TransformerMatcher has no parameter 'width'", "'beam' parameter of XRLinear must be an int"):
        assert sentence in refused.err


def test_matrices_and_options_of_others_are_refused(call: Any, folder: Path, saved: str) -> None:
    train, matrix, labels = str(folder / "train.jsonl"), str(folder / "X.npz"), str(folder / "Y.npz")
    own = ("--model", str(folder / "n"), "--set", "preset=tiny")
    for words, sentence in (
        (("train", "xr-transformer", matrix, "--labels", labels, *own), "XRTransformer learns from texts, but"),
        (("train", "x-transformer", train, *own, "--memory-limit", "1GB"), "--memory-limit is not for XTransformer"),
        (("train", "xr-transformer", train, *own, "--label-features", matrix), "--label-features is not for"),
        (
            ("train", "xr-linear", train, "--model", str(folder / "n"), "--device", "cpu"),
            "--device is not for XRLinear",
        ),
        (("train", "xr-transformer", train, *own, "--device", "GPU 1"), "'device' parameter of XRTransformer must be"),
        (("predict", saved, matrix), "takes text, but"),
        (("predict", saved, train, "--set", "matcher__epochs=3"), "matters in training alone. Those that can be set"),
        (("predict", saved, train, "--set", "matcher__beam=3"), "ranker__beam, ranker__combine, ranker__tail"),
        (("predict", saved, train, "--set", "beam=3"), "Did you mean 'matcher__beam' or 'ranker__beam'?"),
        (("train", "xr-transformer", train, *own, "--set", "n_trees=3"), "Did you mean 'ranker__n_trees'?"),
        (("train", "xr-transformer", train, *own, "--set", "ranker__n_tree=3"), "XRLinear has no parameter 'n_tree'."),
        (("train", "xr-transformer", train, *own, "--set", "ranker__beam=0"), "'beam' parameter of XRLinear must be"),
        (("train", "xr-transformer", train, *own, "--set", "ranker__seed=1"), "'seed' parameter of XRTransformer is"),
        (("train", "xr-transformer", train, *own, "--set", "ranker=1"), "as in ranker__branching"),
        (("train", "x-transformer", train, *own, "--set", "ranker__n_trees=2"), "must have --set n_trees=1"),
        (
            ("train", "xr-transformer", train, *own, "--set", "vectorizer__min_df=2", "--min-df", "3"),
            "--set vectorizer__min_df and --set-text min_df say the same thing",
        ),
    ):
        refused = call(*words)
        assert refused.code != 0 and sentence in refused.err, refused.err
    plain = call("train", "xr-linear", matrix, "--labels", labels, "--model", str(folder / "plain"), "-q")
    assert plain.code == 0
    refused = call("predict", str(folder / "plain"), matrix, "--device", "cpu")
    assert refused.code != 0 and "--device is for models with a text encoder" in refused.err


def test_an_encoder_that_is_not_there(call: Any, folder: Path) -> None:
    refused = call(
        "train", "xr-transformer", str(folder / "train.jsonl"), "--model", str(folder / "n"), "--set",
        f"encoder={folder / 'nowhere'}",
    )  # fmt: skip
    assert refused.code != 0 and "nowhere" in refused.err and "Traceback" not in refused.err


def test_notes_and_missing_packages_are_sentences(
    call: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sylvan.models.transformer import presets as transformer_presets

    train = str(tmp_path / "long.jsonl")
    data.write_jsonl(train, ["bread " * 300, "whales and ships", ""] * 3, [["Baking"], ["Whaling"], ["Whaling"]] * 3)
    words = ("train", "xr-transformer", train, "--model", str(tmp_path / "m"), "--set", "preset=tiny")
    words += ("--set", "frozen=true")
    outcome = call(*words, "--threads", "1", "-q")
    assert outcome.code == 0
    assert outcome.err.splitlines() == [
        "Note: 3 of 9 texts with labels are empty: nothing can be learned from them.",
        "Note: 3 of 9 texts are longer than --set max_length=256 tokens: the encoder sees their beginnings only "
        "(TF-IDF sees them whole).",
    ]

    def missing(model: Any) -> Any:
        raise ImportError(
            'Encoders of this kind need transformers. Install it with: pip install "sylvan[transformers]"'
        )

    monkeypatch.setattr(transformer_presets, "encoder_of", missing)
    refused = call(*words)
    assert refused.code == 2 and refused.err.strip().endswith('pip install "sylvan[transformers]".')
    assert "inside Sylvan" not in refused.err
