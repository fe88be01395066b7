"""What teaches a reranker's order: rows that no member has seen, and rows that come later."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from kit.bits import bits
from kit.errors import raises
from rows_with_pairs import SETTINGS, X, hits, joined, members, pairs, parity, reranker, y

import sylvan
from sylvan import Ensemble, NeighborRanker, Reranker, TopK, XRLinear
from sylvan.errors import DataError, NotFittedError
from sylvan.models.reranker import learning as module
from sylvan.models.reranker.learning import Candidates, learned
from sylvan.ranking.boosted_trees import Growing


def test_no_member_has_seen_the_rows_that_teach_the_order() -> None:
    """Labels are drawn: who has seen a row knows its label, and nobody else does."""
    X = np.random.default_rng(0).normal(0, 1, (1200, 30)).astype(np.float32)
    y = np.random.default_rng(1).integers(0, 8, 1200)
    label_of = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
    found: list[bool] = []
    asked: list[bytes] = []

    def watched(rows: Any, candidates: TopK) -> np.ndarray:
        nonlocal found, asked
        truth = np.array([label_of[row.tobytes()] for row in rows.toarray()])
        found += (candidates.labels[:, 0] == truth).tolist()
        asked += [row.tobytes() for row in rows.toarray()]
        return candidates.labels[..., None]

    model = Reranker(
        [NeighborRanker(n_neighbors=1), XRLinear(max_leaf=30)], scorer="trees", n_trees=2, columns=watched, n_jobs=1
    ).fit(X, y)
    assert len(asked) == len(set(asked)) == 300 and np.mean(found) < 0.25
    assert (model.members[0].rank(X, k=1).labels[:, 0] == y).all(), "afterwards they know all rows"


class Forgetful(NeighborRanker):
    """A member that can't hold rows out, and notes what it was fitted on."""

    noted: list[tuple[np.ndarray, dict[str, Any]]] = []  # noqa: RUF012  # shared, as members are copied

    def fit(self, X: Any, Y: Any, sample_weight: Any = None, **options: Any) -> Any:
        self.noted.append((X.to_scipy().toarray(), options))
        return super().fit(X, Y, sample_weight, **options)

    def fit_holding_out(self, X: Any, Y: Any, rows: Any, sample_weight: Any = None, **options: Any) -> None:
        self.fit(X, Y, sample_weight, **options)


def test_a_member_that_can_not_hold_rows_out_is_trained_without_them_too() -> None:
    Forgetful.noted.clear()
    model = Reranker([Forgetful(n_neighbors=5)], columns=parity, **SETTINGS).fit(X, y)
    every, part = (rows for rows, _ in Forgetful.noted)
    assert every.tobytes() == X.tobytes() and part.shape == (900, X.shape[1])
    assert {row.tobytes() for row in part} < {row.tobytes() for row in X}
    alone = NeighborRanker(n_neighbors=5).fit(X, y)
    assert hits(model) > 0.95 and bits(model.members[0].rank(X)) == bits(alone.rank(X))


def test_its_neighbours_are_called_as_among_all_rows() -> None:
    with mock.patch.object(module, "learned", wraps=module.learned) as spy:
        model = Reranker([Forgetful(n_neighbors=5)], columns=parity, **SETTINGS).fit(X, y)
    given = spy.call_args.args[0]
    column = model.feature_names_.index("member0 nearest: similarity")
    held = np.sort(np.random.default_rng(0).permutation(len(X))[:300])
    rest = np.setdiff1d(np.arange(len(X)), held)
    rows, cosines = NeighborRanker(n_neighbors=5).fit(X[rest], y[rest]).neighbors(X[held], 5)
    listed = zip(given.top.labels, given.columns[..., column], y[rest][rows], cosines, strict=True)
    for labels, found, near_labels, near in listed:
        for label, similarity in zip(labels.tolist(), found.tolist(), strict=True):
            assert similarity == max(near[near_labels == label], default=0)


@pytest.mark.parametrize("name", ["IRLIClassifier", "BeamTreeClassifier"])
def test_members_of_pytorch(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    few = {"IRLIClassifier": {"n_buckets": 4, "n_repetitions": 2, "hidden": 8, "rounds": 1, "epochs_per_round": 1,
                              "final_epochs": 1}, "BeamTreeClassifier": {"epochs": 1}}[name]  # fmt: skip
    model = Reranker([getattr(sylvan, name)(**few), NeighborRanker()], columns=parity, **SETTINGS).fit(X, y)
    assert hits(model) > 0.9
    model.save(tmp_path / "m")
    assert bits(sylvan.load(tmp_path / "m").set_params(columns=parity).rank(X)) == bits(model.rank(X))


def test_an_order_that_is_worse_than_the_mean_is_dropped() -> None:
    """The rows that teach say the contrary of those that check, which are drawn by the seed."""
    n = 1000
    labels = np.tile(np.arange(2, dtype=np.int32), (n, 1))
    top = TopK(labels, np.tile(np.array([0.6, 0.4], np.float32), (n, 1)))
    growing = Growing("right", 5, 2, 0.3, seed=0, n_jobs=1)
    columns = np.tile(np.array([[[1.0], [0.0]]], np.float32), (n, 1, 1))
    check = np.random.default_rng(0).permutation(n) % 5 == 0
    right = np.zeros((n, 2), bool)
    right[check, 0] = right[~check, 1] = True
    weight = np.ones(n, np.float32)
    assert learned(Candidates(top, columns, right, weight), "trees", growing, None)[0] is None
    right[check] = right[check][:, ::-1]
    assert learned(Candidates(top, columns, right, weight), "trees", growing, None)[0] is not None


def test_fit_order_of_fitted_members() -> None:
    fitted = [member.fit(X, y) for member in members()]
    model = joined(fitted, columns=parity)
    assert model.scorer_ is None and bits(model.rank(X)) == bits(Ensemble.of_fitted(fitted).rank(X))
    assert model.members[0] is fitted[0] and model.label_counts_.tolist() == np.bincount(y).tolist()
    assert model.candidate_columns(X[:3])[1].shape[2] == len(model.feature_names_)
    assert model.fit_order(*pairs(400, seed=1)) is model
    assert hits(model) > 0.95 and model.members[0] is fitted[0]
    model.set_params(columns=lambda rows, top: np.repeat(parity(rows, top), 2, axis=2))
    assert hits(model.fit_order(*pairs(400, seed=1))) > 0.95 and model.feature_names_[-1] == "columns 1"


def test_fit_order_again_is_the_same_and_weights_count() -> None:
    new_X, new_y = pairs(600, seed=1)
    model = joined([m.fit(X, y) for m in members()], columns=parity)
    first = bits(model.fit_order(new_X, new_y).rank(X))
    assert bits(model.fit_order(new_X, new_y).rank(X)) == first
    weight = np.ones(600)
    weight[300:] = 0
    wrong = new_y.copy()
    wrong[300:] ^= 1
    some = bits(model.fit_order(new_X, new_y, sample_weight=weight).rank(X))
    assert bits(model.fit_order(new_X, wrong, sample_weight=weight).rank(X)) == some != first
    weight[150:] = 0
    with raises(DataError, "zero"):
        model.fit_order(new_X, new_y, sample_weight=0 * weight)


def test_members_are_weighed_by_the_rows_that_teach() -> None:
    """One that is always wrong counts little in the mean, but its candidates are still seen."""
    good, bad = (NeighborRanker(n_neighbors=30, n_jobs=1).fit(X, labels) for labels in (y, (y + 4) % 8))
    model = joined([bad, good])
    assert model.weights_.tolist() == [0.5, 0.5]
    model.fit_order(*pairs(600, seed=1))
    least = 0.25 / 2
    assert model.weights_.sum() == pytest.approx(1) and model.weights_[1] > 0.6
    assert model.weights_[0] >= least / (1 + least)
    top = model.candidate_columns(X[:20])[0]
    both = [set(one.rank(X[:20], k=8).labels[row].tolist()) for one in (bad, good) for row in range(20)]
    assert all(both[row] | both[20 + row] == set(labels) for row, labels in enumerate(top.labels.tolist()))


def test_fit_order_refuses(fitted: Reranker) -> None:
    X, y = pairs(300)
    with pytest.raises(NotFittedError):
        reranker().fit_order(X, y)
    for bad_X, bad_Y, sentence in (
        (X[:199], y[:199], ("fit_order", 200, 199)),
        (X, np.zeros((300, 8)), (0, "fit_order")),
        (X, [[8]] * 300, (0, "fit_order")),
        (X[:, :3], y, "(300, 3)"),
        (X, y[:250], "(250, 8)"),
        (X * np.nan, y, "NaN"),
    ):
        with raises(DataError, sentence):
            fitted.fit_order(bad_X, bad_Y)
    with raises(DataError, "sample_weight"):
        fitted.fit_order(X, y, sample_weight=np.ones(3))


def test_no_rows_of_any_weight_are_too_few() -> None:
    weight = np.zeros(1200)
    weight[:799] = 1
    assert reranker(columns=parity).fit(X, y, sample_weight=weight).scorer_ is None
