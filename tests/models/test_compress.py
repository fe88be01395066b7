"""Compressing trained models: to a size, by the largest weights of each cluster, with what is left exact."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits, same_bits

import sylvan
from sylvan import Ensemble, NeighborRanker, TextModel, TfidfVectorizer, XRLinear, data, metrics, store
from sylvan.errors import NotFittedError, ParameterError


@pytest.fixture(scope="module")
def texts() -> Any:
    return data.load_sample()


@pytest.fixture(scope="module")
def known(texts: Any) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    X = TfidfVectorizer().fit_transform(texts.train.texts[:3000])
    return X, data.Vocabulary.from_labels(texts.train.labels[:3000]).encode(texts.train.labels[:3000])


@pytest.fixture(scope="module")
def model(known: Any) -> XRLinear:
    return XRLinear(max_leaf=20, n_trees=2, n_jobs=1).fit(*known)


def on_disk(model: Any, folder: Path) -> int:
    model.save(folder)
    return sum(file.stat().st_size for file in os.scandir(folder))


def dense_weights(layer: Any) -> np.ndarray:
    W = np.zeros((layer.n_features, len(layer.intercepts)), np.float32)
    for c, first in enumerate(layer.child_offsets[:-1]):
        rows = layer.cluster(c)
        W[np.repeat(rows.features, rows.lengths), first + rows.children] = rows.weights
    return W


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99, 1.0])
def test_the_largest_weights_of_each_cluster_stay(model: XRLinear, share: float) -> None:
    pruned = model.pruned(share, "float32")
    for layer, small in zip(model.layers_, pruned.layers_, strict=True):
        before, after = dense_weights(layer), dense_weights(small)
        np.testing.assert_array_equal(layer.intercepts, small.intercepts)
        for first, last in zip(layer.child_offsets[:-1], layer.child_offsets[1:], strict=True):
            mine, left = before[:, first:last], after[:, first:last]
            assert (left != 0).sum() == np.ceil(share * (mine != 0).sum())
            np.testing.assert_array_equal(left[left != 0], mine[left != 0])
            dropped = np.abs(mine[(left == 0) & (mine != 0)])
            assert dropped.max(initial=0) <= np.abs(left[left != 0]).min(initial=np.inf)


def test_nothing_pruned_is_the_same(model: XRLinear) -> None:
    same_bits(model, model.pruned())
    assert model.pruned(1.0, "uint8").get_params() == model.get_params()


def test_threads_change_no_bit(model: XRLinear, known: Any) -> None:
    one = model.pruned(0.6, "uint4")
    three = model.pruned(1.0).set_params(n_jobs=3).pruned(0.6, "uint4").set_params(n_jobs=1)
    same_bits(one, three)
    assert bits(one.rank(known[0][:200], k=5)) == bits(three.rank(known[0][:200], k=5))


@pytest.mark.parametrize("part", [0.95, 0.7, 0.5, 0.35])
@pytest.mark.parametrize("weight_dtype", [None, "uint8", "uint4", "float32"])
def test_a_model_has_the_size_that_was_asked_for(
    model: XRLinear, tmp_path: Path, part: float, weight_dtype: str | None
) -> None:
    limit = int(part * on_disk(model, tmp_path / "m"))
    if weight_dtype == "float32" and part == 0.35:
        pytest.skip("float32 would be left without most weights")
    small = model.compress(limit, weight_dtype)
    size = on_disk(small, tmp_path / "small")
    assert size <= limit
    if weight_dtype is not None:
        assert small.weight_dtypes() == {weight_dtype} and small.weight_dtype == weight_dtype
    whole = small.weight_dtypes() == {"uint4"} and part > 0.6
    assert whole or size > 0.93 * limit  # the size of blocks of features goes in steps
    same_bits(small, sylvan.load(tmp_path / "small"))


def test_types_are_chosen_by_size(model: XRLinear, tmp_path: Path) -> None:
    """As they are while most weights have room, then four bits."""
    size = on_disk(model, tmp_path / "m")
    assert model.compress(2 * size).weight_dtypes() == {"uint8"}
    assert model.compress(int(0.93 * size)).weight_dtypes() == {"uint8"}
    assert model.compress(int(0.7 * size)).weight_dtypes() == {"uint4"}
    assert model.compress().weight_dtypes() == {"uint4"}
    wide = model.pruned(1.0, "float32")
    assert wide.compress(int(1.01 * size)).weight_dtypes() == {"uint8"}


def test_little_is_lost(known: Any, model: XRLinear, tmp_path: Path) -> None:
    """Of rows seen in training, at half of the size."""
    X, Y = known
    small = model.compress(on_disk(model, tmp_path / "m") // 2)
    before, after = (metrics.precision(Y, each.rank(X, k=5), at=(1, 5)) for each in (model, small))
    assert after[1] > before[1] - 0.02 and after[5] > before[5] - 0.02


def test_the_least_size_is_said_and_works(model: XRLinear) -> None:
    with pytest.raises(ParameterError, match=r"'max_size' parameter must be at least [0-9.]+ [kM]B for this XRLinear"):
        model.compress(1000)
    with pytest.raises(ParameterError) as caught:
        model.compress("1kB")
    least = str(caught.value).split("at least ")[1].split(" for")[0]
    assert sum(layer.n_entries for layer in model.compress(least).layers_) < 100
    with pytest.raises(ParameterError, match="'max_size' parameter must be a number of bytes"):
        model.compress("small")
    with pytest.raises(ParameterError, match=r"'weight_dtype' parameter of XRLinear.pruned must be one of"):
        model.compress(weight_dtype="uint2")
    with pytest.raises(ParameterError, match=r"'share' parameter of XRLinear.pruned must be a float in \[0, 1\]"):
        model.pruned(1.5)


def test_a_text_model_and_an_ensemble(texts: Any, known: Any, model: XRLinear, tmp_path: Path) -> None:
    tagger = TextModel(TfidfVectorizer(), XRLinear(n_jobs=1)).fit(texts.train.texts[:500], texts.train.labels[:500])
    small = tagger.compress(weight_dtype="uint4")
    assert small.vectorizer is tagger.vectorizer and small.model.weight_dtype == "uint4"
    assert tagger.model.weight_dtype == "uint8"
    small.save(tmp_path / "text")
    question = texts.train.texts[:1]
    assert sylvan.load(tmp_path / "text").rank(question, k=1).names == small.rank(question, k=1).names

    neighbors = NeighborRanker(n_jobs=1).fit(*known)
    both = Ensemble.of_fitted([model, neighbors])
    pruned = both.compress(weight_dtype="uint4")
    assert pruned.members[1] is neighbors and pruned.members[0].weight_dtypes() == {"uint4"}
    assert both.members[0] is model
    limit = int(0.9 * on_disk(both, tmp_path / "both"))
    assert on_disk(both.compress(limit), tmp_path / "small") <= limit


def test_models_without_weights(texts: Any, known: Any) -> None:
    tagger = TextModel(TfidfVectorizer(), NeighborRanker(n_jobs=1))
    with pytest.raises(NotFittedError):
        tagger.compress()
    tagger.fit(texts.train.texts[:50], texts.train.labels[:50])
    for other in (tagger, Ensemble.of_fitted([NeighborRanker(n_jobs=1).fit(*known)])):
        with pytest.raises(ParameterError, match=f"This {type(other).__name__} has no weights to prune: only those of"):
            other.compress("1MB")


def test_saved_bytes_are_those_of_the_folder(model: XRLinear, tmp_path: Path) -> None:
    assert store.saved_bytes(model.to_state()) == on_disk(model, tmp_path / "m")
