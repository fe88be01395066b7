"""XRLinear's own parameters: what reaches the index, and the paper's choices by one word."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import same_bits
from kit.books import books
from kit.errors import raises
from sklearn.base import clone

import sylvan
from sylvan import LabelTree, XRLinear, indexing
from sylvan.errors import DataError, ParameterError
from sylvan.models.xr.params import layer_words


def shares(n_labels: int) -> np.ndarray:
    return np.random.default_rng(0).random(n_labels)


def by_hand(X: Any, Y: Any, own: Any, embedding: str = "pifa", **params: Any) -> Any:
    if embedding == "spectral":
        return indexing.spectral(Y, params.get("spectral_dimensions", 64))
    return indexing.pifa_lf(X, Y, own, **params) if embedding == "pifa_lf" else indexing.pifa(X, Y, **params)


EMBEDDINGS: dict[str, dict[str, Any]] = {
    "4 features": {"max_features_per_label": 4}, "all features": {"max_features_per_label": None},
    "spectral": {"embedding": "spectral"}, "5 dimensions": {"embedding": "spectral", "spectral_dimensions": 5},
    "one share": {"embedding": "pifa_lf", "alpha": 0.0}, "a share a label": {"embedding": "pifa_lf", "alpha": shares},
    "3 of labels' own": {"embedding": "pifa_lf", "max_features_per_label": 3},
}  # fmt: skip


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_what_the_embeddings_take(name: str) -> None:
    X, Y, *_ = books(400)
    own = X[np.random.default_rng(0).integers(0, X.shape[0], Y.shape[1])]
    given = {name: value(Y.shape[1]) if callable(value) else value for name, value in EMBEDDINGS[name].items()}
    embedding = {"embedding": given.get("embedding", "pifa")}
    about = {"label_features": own} if embedding["embedding"] == "pifa_lf" else {}
    trees = XRLinear(**given, max_leaf=20).index(X, Y, **about)
    assert trees == [LabelTree.build(by_hand(X, Y, own, **given), 16, 20, seed=0)]
    usual = XRLinear(**(embedding if about else {}), max_leaf=20).index(X, Y, **about)
    assert trees != usual or name == "all features"


def test_a_share_for_each_label_is_cloned_and_saved(tmp_path: Path) -> None:
    X, Y, X_test, _ = books(200)
    own, alpha = X[np.arange(Y.shape[1]) % X.shape[0]], shares(Y.shape[1])
    model = clone(XRLinear(embedding="pifa_lf", alpha=alpha, max_leaf=20)).fit(X, Y, label_features=own)
    assert model.index(X, Y, label_features=own) == [model.tree_]
    listed = XRLinear(embedding="pifa_lf", alpha=alpha.tolist(), max_leaf=20).index(X, Y, label_features=own)
    mean = XRLinear(embedding="pifa_lf", alpha=float(alpha.mean()), max_leaf=20).index(X, Y, label_features=own)
    assert listed == [model.tree_] != mean
    model.save(tmp_path / "model")
    loaded = sylvan.load(tmp_path / "model")
    assert np.array_equal(loaded.get_params()["alpha"], alpha)
    assert np.array_equal(loaded.rank(X_test).scores, model.rank(X_test).scores)
    assert loaded.fit(X, Y, label_features=own).tree_ == model.tree_


@pytest.mark.parametrize(
    ("alpha", "words"),
    [
        ([0.5, 1.5], ("[0, 1]", "1.5", "label 1")), ([0.5, np.nan, 2.0], ("nan", "label 1")),
        ([[0.5]], ("[0.5]", "label 0")), ([], "[]"), (["a"], ("'a'", "label 0")), ([0.5, 0.5], (2, "Y", "(4, 3)")),
    ],
)  # fmt: skip
def test_shares_that_are_none(alpha: list, words: object) -> None:
    for given in (alpha, np.array(alpha)):
        with raises(ParameterError, "alpha", "XRLinear", words):
            XRLinear(alpha=given).fit(np.eye(4), [[0], [1], [2], [2]])


def test_a_model_that_was_saved_without_them_has_the_defaults() -> None:
    state = XRLinear().fit(np.eye(3).repeat(2, axis=0), np.arange(3).repeat(2)).to_state()
    older = {k: v for k, v in state.params.items() if k not in ("max_features_per_label", "spectral_dimensions")}
    params = XRLinear.from_state(dataclasses.replace(state, params=older)).get_params()
    assert (params["max_features_per_label"], params["spectral_dimensions"]) == (1024, 64)


@pytest.mark.parametrize("name", ["negatives", "combine"])
def test_a_list_must_name_every_layer(name: str) -> None:
    X, Y, *_ = books(100)
    words = {"negatives": ["tfn"] * 7, "combine": ["ranker"] * 7}[name]
    with raises(ParameterError, name, "XRLinear", 7):
        XRLinear(**{name: words}).fit(X, Y)


def test_rows_of_any_length_rank_alike_when_normalized() -> None:
    X, Y = np.eye(4, dtype=np.float32).repeat(3, axis=0) + 0.1, np.arange(4).repeat(3)
    X[0] = 0
    scale = np.linspace(0.5, 20, 12, dtype=np.float32)[:, None]
    first, second = (XRLinear(normalize=True).fit(x, Y) for x in (X, X * scale))
    unit = XRLinear().fit(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9), Y)
    for model in (second, unit):
        rows = X * scale if model is second else X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
        np.testing.assert_allclose(first.rank(X, 4).scores, model.rank(rows, 4).scores, atol=1e-5)
    explanation = first.explain(X[5:6] * 7, 1)
    score = first.rank(X[5:6], 1).scores[0, 0]
    assert explanation.place == 1 and explanation.trees[0].paths[0].steps[-1].so_far == pytest.approx(score)


def test_hinges_have_one_power() -> None:
    with raises(ParameterError, "l2_hinge", "l3_hinge"):
        XRLinear(max_leaf=2, combine=["l3_hinge", "l2_hinge"]).fit(np.eye(3), np.eye(3))


def test_a_tree_of_other_labels_is_refused() -> None:
    X, Y, *_ = books(100)
    with raises(DataError, 3, "Y", "(100, 220)"):
        XRLinear(tree=LabelTree.flat(3)).fit(X, Y)


@pytest.mark.parametrize("integer", [np.int64, np.int32, np.uint8])
def test_a_seed_may_be_numpys(integer: type) -> None:
    X, Y = np.random.default_rng(0).random((40, 6)), np.arange(40) % 20
    plain = XRLinear(seed=3, max_leaf=4, n_trees=2).fit(X, Y).rank(X, 5)
    same_bits(XRLinear(seed=integer(3), max_leaf=4, n_trees=2).fit(X, Y).rank(X, 5), plain)


def test_damped_is_a_small_weight_of_the_score_above_in_the_last_layer() -> None:
    X, Y, X_test, _ = books(400)
    model = XRLinear(negatives="paper", combine="damped", branching=4, max_leaf=20, n_jobs=1).fit(X, Y)
    top = model.rank(X_test)
    model.combine = ["l3_hinge"] * (model.tree_.depth - 1) + ["l3_hinge:0.35"]
    assert np.array_equal(top.labels, model.rank(X_test).labels) and 0 <= top.scores.min() <= top.scores.max() <= 1
    model.combine = "l3_hinge"
    assert not np.array_equal(top.labels, model.rank(X_test).labels)


NO_WEIGHTS = ["l3_hinge:1.5", "l3_hinge:-0.1", "l3_hinge:nan", "l3_hinge:", "ranker:0.5", "damped:0.5"]


@pytest.mark.parametrize("combine", [*NO_WEIGHTS, ["l3_hinge", "sigmoid:x"], [], 0.35])
def test_a_weight_of_the_score_above_is_in_0_to_1(combine: object) -> None:
    with raises(ParameterError, "combine", "XRLinear", "l3_hinge:0.25"):
        XRLinear(combine=combine).fit(np.eye(4), np.arange(4))  # type: ignore[arg-type]


def test_damped_counts_less_above_rankers_that_a_search_trained() -> None:
    words = {scheme: layer_words(XRLinear(negatives=scheme), "combine", 3) for scheme in ("tfn", "man", "paper")}
    assert words["man"] == words["paper"] == ["l3_hinge", "l3_hinge", "l3_hinge:0.35"]
    assert words["tfn"] == ["l3_hinge", "l3_hinge", "l3_hinge:0.65"]
    assert layer_words(XRLinear(negatives="tfn"), "combine", 1) == ["l3_hinge:0.65"]


@pytest.mark.parametrize(("length", "cost"), [(3, 0.3), (9, 0.3), (15, 0.5), (30, 1.0), (200, 1.0)])
def test_negatives_of_short_rows_cost_less(length: int, cost: float) -> None:
    X = np.ones((40, length), np.float32)
    X[:10] = 0  # empty rows have no length
    Y = np.arange(40) % 20
    model = XRLinear(max_leaf=3, branching=3, n_jobs=1).fit(X, Y)
    assert model.chosen_["negative_cost"] == pytest.approx(cost)
    given = XRLinear(max_leaf=3, branching=3, negative_cost=cost, n_jobs=1).fit(X, Y)
    assert "negative_cost" not in given.chosen_
    for own, other in zip(model.layers_, given.layers_, strict=True):
        assert own.values.tobytes() == other.values.tobytes()
    by_labels = XRLinear(max_leaf=3, branching=3, negatives="tfn", n_jobs=1).fit(X, Y)
    assert by_labels.chosen_["negative_cost"] == 1


def test_equal_rows_of_equal_classes_get_equal_scores(tmp_path: Path) -> None:
    X, y = np.ones((50, 4), np.float32), np.arange(50) % 5
    model = XRLinear(n_jobs=1).fit(X, y)
    scores = model.rank(X[:1], k=5).scores
    assert scores.max() - scores.min() < 1e-3
    assert model.chosen_ == {"negative_cost": 0.3, "tolerance": 1e-4, "max_iterations": 300}
    model.save(tmp_path / "model")
    assert sylvan.load(tmp_path / "model").chosen_ == model.chosen_
    many = np.tile(X, (2000, 1))  # too many to be solved more precisely than is worth it
    large = XRLinear(n_jobs=1).fit(many, np.arange(len(many)) % 5)
    assert (large.chosen_["tolerance"], large.chosen_["max_iterations"]) == (0.1, 10)


def test_presets() -> None:
    assert XRLinear.preset("balanced").get_params() == XRLinear().get_params()
    assert XRLinear.preset("accurate", n_trees=5, seed=1).get_params() == XRLinear(n_trees=5, seed=1).get_params()
    with raises(ParameterError, "name", "XRLinear.preset", "fast", "balanced", "accurate", "paper"):
        XRLinear.preset("best")


def test_teacher_forcing_learns_nothing_from_rows_without_labels() -> None:
    """M of Algorithm 2 has no entry for them, not even at the root; a search leads them to the root and on."""
    rng = np.random.default_rng(0)
    X = sp.random(60, 20, 0.3, "csr", np.float32, random_state=rng)
    Y = sp.csr_matrix((np.ones(40, np.float32), (np.arange(40), rng.integers(12, size=40))), shape=(60, 12))
    tree = LabelTree.random(12, max_leaf=3, branching=2, seed=0)
    plain = {"calibration": None, "scaling": "none", "negative_cost": 1.0, "tree": tree}

    def answers(negatives: str, rows: int) -> list[np.ndarray]:
        model = XRLinear(negatives=negatives, **plain).fit(X[:rows], Y[:rows])
        return [model.rank(X, 12).scores, model.rank(X, 12).labels]

    for mine, without in zip(answers("tfn", 60), answers("tfn", 40), strict=True):
        np.testing.assert_array_equal(mine, without)
    assert not np.array_equal(answers("man", 60)[0], answers("man", 40)[0])
