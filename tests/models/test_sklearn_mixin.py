"""Names of labels and columns in models of matrices, the score, and what isn't there."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from kit.errors import raises

import sylvan
from sylvan import NeighborRanker, TextModel, XRLinear, store
from sylvan.errors import DataError, ModelError, UnsupportedError
from sylvan.labels.targets import Targets

X = np.eye(4, dtype=np.float32).repeat(3, axis=0)
NAMES = [row for row in (["Sea"], ["Ships", "Sea"], ["Baking"], ["Şiir"]) for _ in range(3)]
MODELS = [XRLinear(n_jobs=1), XRLinear(n_jobs=1, n_trees=2, max_leaf=2, branching=2), NeighborRanker(n_jobs=1)]
ids = pytest.mark.parametrize("model", MODELS, ids=["XRLinear", "two trees", "NeighborRanker"])


class Frame:
    """As much of a data frame as anybody looks at."""

    def __init__(self, values: np.ndarray, columns: list[Any]) -> None:
        self.values, self.columns = values, columns

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.values, dtype)


@ids
def test_labels_by_name(model: Any, tmp_path: Path) -> None:
    model.fit(X, NAMES).save(tmp_path / "model")
    for each in (model, sylvan.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert each.classes_.tolist() == ["Baking", "Sea", "Ships", "Şiir"]
        assert each.classes_[each.rank(X[:3], k=1).labels].tolist() == [["Sea"]] * 3  # as scikit-learn's arrays
        assert [row[0] for row in each.rank(X[::3][[0, 2, 3]], k=2).names] == ["Sea", "Baking", "Şiir"]
        assert each.rank(X[:1], k=4, allowed=["Sea", "Baking"], denied=["Baking"]).names == [["Sea"]]
        assert each.predict(X).shape == (12, 4)
        assert each.score(X, NAMES) == 1
        assert each.score(X, [["Sea", "never seen"]] * 12) == pytest.approx(0.5, abs=0.25)
    with raises(DataError, "Ship", "Ships"):
        model.rank(X, allowed=["Ship"])


@pytest.mark.parametrize(
    "form",
    [
        NAMES, tuple(map(tuple, NAMES)), list(map(set, NAMES)), np.array(NAMES, object),
        [dict.fromkeys(row, 1.0) for row in NAMES],
    ],
)  # fmt: skip
def test_every_form_of_names_is_one(form: Any) -> None:
    expected = XRLinear(n_jobs=1).fit(X, NAMES).rank(X, k=3)
    assert XRLinear(n_jobs=1).fit(X, form).rank(X, k=3).scores.tobytes() == expected.scores.tobytes()


@ids
def test_labels_by_id_have_no_names(model: Any) -> None:
    model.fit(X, NAMES).fit(X, np.arange(4).repeat(3))
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert callable(model.rank(X, k=1).names)
    with raises(DataError, "Sea"):
        model.rank(X, allowed=["Sea"])


def test_names_and_ids_together_are_refused() -> None:
    with raises(DataError, "ints"):
        XRLinear().fit(X, [["Sea"]] * 11 + [[3]])


@ids
def test_columns_by_name(model: Any, tmp_path: Path) -> None:
    model.fit(Frame(X, list("abcd")), NAMES).save(tmp_path / "model")
    for each in (model, sylvan.load(tmp_path / "model")):
        assert each.feature_names_in_.tolist() == ["a", "b", "c", "d"]
        expected = each.rank(X, k=2)
        for same in (Frame(X, list("abcd")), Frame(X, [1, 2, 3, 4])):
            assert each.rank(same, k=2).scores.tobytes() == expected.scores.tobytes()
        with raises(DataError, "order"):
            each.rank(Frame(X, list("abdc")))
        with raises(DataError, "'x'", "'d'"):
            each.predict(Frame(X, list("abcx")))
    with raises(DataError, "'a'"):
        model.fit(Frame(X, list("aabc")), NAMES)
    for unnamed in (X, Frame(X, [0, 1, 2, 3])):
        assert not hasattr(model.fit(unnamed, NAMES), "feature_names_in_")


def test_a_failed_fit_leaves_the_names() -> None:
    model = XRLinear(n_jobs=1).fit(Frame(X, list("abcd")), NAMES)
    with pytest.raises(DataError):
        model.fit(Frame(X, list("efgh")), [["other"]] * 3)
    assert next(iter(model.classes_)) == "Baking" and model.feature_names_in_[0] == "a"


@pytest.mark.parametrize("part", ["classes", "columns"])
def test_a_folder_with_names_too_few_is_refused(part: str) -> None:
    state = XRLinear(n_jobs=1).fit(Frame(X, list("abcd")), NAMES).to_state()
    state.parts[part] = store.State(**{**vars(state.parts[part]), "arrays": {
        "names": np.frombuffer(b"ab", np.uint8), "offsets": np.array([0, 1, 2])}})  # fmt: skip
    with raises(ModelError, part, 4, 2):
        XRLinear.from_state(state)


def test_the_score_is_precision_at_one() -> None:
    model = XRLinear(n_jobs=1).fit(X, np.arange(4).repeat(3))
    truth = np.arange(4).repeat(3)
    truth[:3] = 3
    assert model.score(X, truth) == 0.75
    assert model.score(X, sp.csr_matrix(np.eye(5)[truth])) == 0.75
    assert model.score(X, truth, sample_weight=[2, 2, 2] + [1] * 9) == pytest.approx(0.6)
    assert model.score(X, [[]] * 12) == 0
    with raises(DataError, "X", 12, "(11, 4)"):
        model.score(X, truth[:-1])


def test_the_score_of_a_model_of_text() -> None:
    texts = ["whales", "bread", "whales", "bread"]
    tagger = TextModel().fit(texts, [["Sea"], ["Baking"], ["Sea"], ["Baking"]])
    assert tagger.score(texts, [["Sea"], ["Sea"], ["other"], "Baking"]) == 0.5
    assert TextModel().fit(texts, [[7], [9], [7], [9]]).score(texts, [[7], [9], [9], 9]) == 0.75


@ids
def test_no_partial_fit(model: Any) -> None:
    assert not hasattr(model, "partial_fit")
    said = "partial_fit"
    with raises(UnsupportedError, said):
        model.partial_fit(X, NAMES)


FAR = [3, 50_000_000, 2_000_000_000, 9_783_161_484_100]  # the last is an ISBN, beyond 32 bits


def test_columns_far_apart_are_names() -> None:
    Y = sp.csr_matrix((np.ones(12), (range(12), np.repeat([0, 7, 10**6, 2 * 10**9], 3))), (12, 2 * 10**9 + 1))
    model = XRLinear(n_jobs=1).fit(X, Y)
    assert model.n_labels_ == 4 and model.score(X, Y) == 1.0


def test_names_that_are_numbers_leave_ints_to_places(tmp_path: Path) -> None:
    XRLinear(n_jobs=1).fit(X, [str(number) for number in FAR for _ in range(3)]).save(tmp_path / "model")
    model = sylvan.load(tmp_path / "model")
    assert model.rank(X[:1], k=1, allowed=[0]).names == [[model.classes_[0]]]


def test_ids_in_lists_are_names_of_classes() -> None:
    assert Targets.read([0, 2, 1]).names is None, "the ids 0 to n - 1 are places too"
    assert list(Targets.read([0, 1, 999_999]).names or ()) == ["0", "1", "999999"]
    assert list(Targets.read([-1, 2_000_000_000]).names or ()) == ["-1", "2000000000"]
    assert Targets.read([[], []]).names is None
    model = XRLinear(n_jobs=1).fit(X[:2], [[0], [5]])
    assert model.n_labels_ == 2 and model.classes_.tolist() == [0, 5]
    with raises(DataError, "'4'", 2):
        model.rank(X[:1], allowed=[4])


@given(st.lists(st.lists(st.sampled_from([0, 5, *FAR]), max_size=4), min_size=1, max_size=9))
def test_numbers_are_encoded_as_by_hand(rows: list[list[int]]) -> None:
    rows = [*rows, [FAR[-1]]]
    targets = Targets.read(rows)
    different = sorted({number for row in rows for number in row})
    assert list(targets.vocabulary()) == [str(number) for number in different]
    matrix = targets.matrix.to_scipy().toarray()
    assert matrix.tolist() == [[float(number in row) for number in different] for row in rows]
