"""Compressing trained models: to a size, by the largest weights of each cluster, with what is left exact."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits, same_bits
from kit.books import books, load_sample
from kit.errors import raises
from kit.weights import dense_weights

import sylvan
from sylvan import Ensemble, NeighborRanker, TextModel, TfidfVectorizer, XRLinear, metrics, store
from sylvan.errors import NotFittedError, ParameterError


def rows() -> tuple[sp.csr_matrix, sp.csr_matrix]:
    return books(300, min_df=1)[:2]


def texts(n: int) -> tuple[list[str], list[list[str]]]:
    train, _ = load_sample()
    return train.texts[:n], train.labels[:n]


@pytest.fixture(scope="module")
def model() -> XRLinear:
    return XRLinear(max_leaf=20, n_trees=2, n_jobs=1).fit(*rows())


def on_disk(model: Any, folder: Path) -> int:
    model.save(folder)
    return sum(file.stat().st_size for file in os.scandir(folder))


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


def test_threads_change_no_bit(model: XRLinear) -> None:
    one = model.pruned(0.6, "uint4")
    three = model.pruned(1.0).set_params(n_jobs=3).pruned(0.6, "uint4").set_params(n_jobs=1)
    same_bits(one, three)
    assert bits(one.rank(rows()[0], k=5)) == bits(three.rank(rows()[0], k=5))


@pytest.mark.parametrize(
    ("part", "weight_dtype"), [(0.95, None), (0.35, None), (0.5, "uint8"), (0.7, "uint4"), (0.7, "float32")]
)
def test_a_model_has_the_size_that_was_asked_for(
    model: XRLinear, tmp_path: Path, part: float, weight_dtype: str | None
) -> None:
    limit = int(part * on_disk(model, tmp_path / "m"))
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


def test_little_is_lost(model: XRLinear, tmp_path: Path) -> None:
    """Of rows seen in training, at half of the size."""
    X, Y = rows()
    small = model.compress(on_disk(model, tmp_path / "m") // 2)
    before, after = (metrics.precision(Y, each.rank(X, k=5), at=(1, 5)) for each in (model, small))
    assert after[1] > before[1] - 0.02 and after[5] > before[5] - 0.02


def test_the_least_size_is_said_and_works(model: XRLinear) -> None:
    with raises(ParameterError, "max_size", "XRLinear"):
        model.compress(1000)
    with pytest.raises(ParameterError) as caught:
        model.compress("1kB")
    least = str(caught.value).split("at least ")[1].split(" for")[0]
    assert sum(layer.n_entries for layer in model.compress(least).layers_) < 100
    with raises(ParameterError, "max_size", "small"):
        model.compress("small")
    with raises(ParameterError, "weight_dtype", "XRLinear.pruned"):
        model.compress(weight_dtype="uint2")
    with raises(ParameterError, "share", "XRLinear.pruned", "[0, 1]"):
        model.pruned(1.5)


def test_a_text_model_and_an_ensemble(model: XRLinear, tmp_path: Path) -> None:
    tagger = TextModel(TfidfVectorizer(), XRLinear(n_jobs=1)).fit(*texts(300))
    small = tagger.compress(weight_dtype="uint4")
    assert small.vectorizer is tagger.vectorizer and small.model.weight_dtype == "uint4"
    assert tagger.model.weight_dtype == "uint8"
    small.save(tmp_path / "text")
    question = texts(1)[0]
    assert sylvan.load(tmp_path / "text").rank(question, k=1).names == small.rank(question, k=1).names

    neighbors = NeighborRanker(n_jobs=1).fit(*rows())
    both = Ensemble.of_fitted([model, neighbors])
    pruned = both.compress(weight_dtype="uint4")
    assert pruned.members[1] is neighbors and pruned.members[0].weight_dtypes() == {"uint4"}
    assert both.members[0] is model
    limit = int(0.9 * on_disk(both, tmp_path / "both"))
    assert on_disk(both.compress(limit), tmp_path / "small") <= limit


def test_models_without_weights() -> None:
    tagger = TextModel(TfidfVectorizer(), NeighborRanker(n_jobs=1))
    with pytest.raises(NotFittedError):
        tagger.compress()
    tagger.fit(*texts(50))
    for other in (tagger, Ensemble.of_fitted([NeighborRanker(n_jobs=1).fit(*rows())])):
        with raises(ParameterError, type(other).__name__, "prune"):
            other.compress("1MB")


def test_saved_bytes_are_those_of_the_folder(model: XRLinear, tmp_path: Path) -> None:
    assert store.saved_bytes(model.to_state()) == on_disk(model, tmp_path / "m")
