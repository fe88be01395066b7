"""Further columns of a reranker: by a function, and of labels by themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.errors import raises
from rows_with_pairs import X, joined, pairs, parity, reranker, y

import sylvan
from sylvan import Reranker, TopK
from sylvan.errors import DataError, NotFittedError, ParameterError


def test_a_function_is_not_stored(fitted: Reranker, tmp_path: Path) -> None:
    X, _ = pairs(30, seed=3)
    fitted.save(tmp_path / "m")
    loaded = sylvan.load(tmp_path / "m")
    assert loaded.columns is None
    for call in (
        lambda: loaded.rank(X), lambda: loaded.predict(X), lambda: loaded.candidate_columns(X),
        lambda: loaded.fit_order(*pairs(300)), lambda: loaded.explain(X[:1], 0),
    ):  # fmt: skip
        with raises(ParameterError, 1, "columns"):
            call()
    assert bits(loaded.set_params(columns=parity).rank(X)) == bits(fitted.rank(X))
    loaded.set_params(columns=lambda rows, top: np.zeros((*top.labels.shape, 2)))
    with raises(DataError, "(30, 8, 1)", "(30, 8, 2)"):
        loaded.rank(X)


def test_a_function_sees_all_rows_once_in_order(fitted: Reranker) -> None:
    X, _ = pairs(700, seed=4)
    seen: list[np.ndarray] = []

    def watched(rows: Any, candidates: TopK) -> np.ndarray:
        assert sp.issparse(rows) and rows.shape[0] == len(candidates.labels)
        seen.append(rows.toarray())
        return parity(rows, candidates)

    model = joined(fitted.members, columns=watched)
    model.fit_order(*pairs(300, seed=5))
    seen.clear()
    model.rank(X)
    assert np.concatenate(seen).tobytes() == X.tobytes() and len(seen) > 1


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda rows, top: np.zeros((len(top.labels), 8)), (8, "(256, 8)")),
        (lambda rows, top: np.zeros((len(top.labels), 7, 1)), (8, "(256, 7, 1)")),
        (lambda rows, top: np.zeros((*top.labels.shape, 0)), (1, "1,000", 0)),
        (lambda rows, top: np.zeros((*top.labels.shape, 1001), np.int8), (1, "1,000", "1,001")),
        (lambda rows, top: np.full((*top.labels.shape, 1), np.nan), "NaN"),
        (lambda rows, top: np.full((*top.labels.shape, 1), 1e39), "infinite"),
        (lambda rows, top: "columns", ("array", "columns")),
        (lambda rows, top: None, ("columns", "Reranker")),
        (lambda rows, top: [[1, 2], [3]], ("array", "columns")),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_a_function_that_gives_something_else(function: Any, sentence: object) -> None:
    with raises(DataError, sentence):
        reranker(columns=function).fit(X, y)
    with raises(ParameterError, "columns", "parity"):
        reranker(columns="parity").fit(X, y)


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    model = reranker(columns=parity).fit(X, y)
    before, asked = bits(model.rank(X)), model.members
    calls = []

    def bad(rows: Any, candidates: TopK) -> np.ndarray:
        calls.append(rows.shape)
        return np.zeros(3)

    with raises(DataError, "columns", "(3,)"):
        model.set_params(columns=bad).fit(X[::-1], y[::-1])
    model.set_params(columns=parity)
    assert calls and model.members is asked and bits(model.rank(X)) == before
    with raises(DataError, "label_columns", "(2, 1)"):
        model.fit(X[::-1], y[::-1], label_columns=[1, 2])
    assert model.members is asked and bits(model.rank(X)) == before
    fresh = reranker(columns=bad)
    with pytest.raises(DataError):
        fresh.fit(X, y)
    with pytest.raises(NotFittedError):
        fresh.rank(X)


def test_columns_of_labels() -> None:
    """As an array and by names; what is the price of a label, say."""
    right = y // 2 * 2  # the even label of each pair; the members can't tell, and take the one or the other
    noisy = np.where(np.random.default_rng(0).random(len(y)) < 0.5, right, right + 1)
    values = np.stack([np.arange(8) % 2, np.arange(8) / 8], axis=1)
    model = reranker().fit(X, noisy, label_columns=values)
    candidates, columns = model.candidate_columns(X[:9])
    assert model.feature_names_[-2:] == ("label_columns 0", "label_columns 1")
    assert (columns[..., -2:] == values[candidates.labels].astype(np.float32)).all()
    names = [[f"label {label}"] for label in noisy]
    by_name = {f"label {label}": row.tolist() for label, row in enumerate(values) if label != 3}
    named = reranker().fit(X, names, label_columns={**by_name, "never heard of": [5, 5]})
    candidates, columns = named.candidate_columns(X[:9])
    expected = [by_name.get(name, [0, 0]) for name in named.vocabulary_]
    assert (columns[..., -2:] == np.array(expected, np.float32)[candidates.labels]).all()
    single = reranker().fit(X[:99], noisy[:99], label_columns=values[:, 0])
    assert single.feature_names_[-1] == "label_columns 0"
    flat = reranker().fit(X[:99], names[:99], label_columns={"label 1": 1.0, "label 5": 1})
    assert flat.feature_names_[-1] == "label_columns 0"


@pytest.mark.parametrize(
    ("given", "named", "sentence"),
    [
        (np.zeros((7, 1)), False, (8, "(7, 1)")), (np.zeros((8, 0)), False, (1, "1,000", "(8, 0)")),
        (np.zeros((8, 1001)), False, (1, "1,000", "(8, 1001)")), (np.zeros((8, 1, 1)), False, "(8, 1, 1)"),
        (np.full((8, 1), np.inf), False, ("label_columns", "infinite")), (["a"] * 8, False, ("label_columns", "'a'")),
        (3, False, ("label_columns", "array")), ({"label 1": 1}, False, ("label_columns", "mapping")),
        ({}, True, ("label_columns", "no label")), ({"label 1": 1, "label 2": [1, 2]}, True, "label 2"),
        ({"label 1": [[1]]}, True, ("label_columns", "label 1")), ({"label 1": []}, True, (1, "1,000")),
        ({"label 1": np.nan}, True, ("label_columns", "NaN")), ({"label 1": "cheap"}, True, "label 1"),
        ({"label 1": [1, [2, 3]]}, True, "label 1"),
    ],
)  # fmt: skip
def test_columns_of_labels_that_are_none(given: Any, named: bool, sentence: object) -> None:
    X, y = pairs(60)
    with raises(DataError, sentence):
        reranker().fit(X, [[f"label {label}"] for label in y] if named else y, label_columns=given)
