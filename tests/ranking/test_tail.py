"""Rankings weighed for rare labels."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises
from kit.known import known
from reference import linear_reference as reference

import sylvan
from sylvan import NeighborRanker, TextModel, TopK, XRLinear, metrics
from sylvan.errors import DataError, ParameterError
from sylvan.models.base import Estimator
from sylvan.ranking.tail import label_gains, reweigh

DATA = known(n_labels=9, rows_per_label=7)
RARE = DATA.Y * (np.arange(len(DATA.X))[:, None] % (1 + np.arange(9)) == 0)  # label l in every (l + 1)th of its rows
MODELS: dict[str, Estimator] = {
    "tree": XRLinear(branching=2, max_leaf=3),
    "margins": XRLinear(branching=2, max_leaf=3, combine="ranker"),
    "trees": XRLinear(branching=2, max_leaf=3, n_trees=2),
    "neighbors": NeighborRanker(n_neighbors=8),
}
GAIN = {
    "psp": 1 / metrics.propensities(RARE),
    "psp:0.6,2.6": 1 / metrics.propensities(RARE, A=0.6, B=2.6),
    "macro_recall": 1 / np.maximum(RARE.sum(axis=0), 1),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param].fit(DATA.X, RARE)  # type: ignore[attr-defined]


@pytest.mark.parametrize("tail", GAIN)
@pytest.mark.parametrize("k", [4, 20])
def test_a_tail_is_the_plain_ranking_weighed(model: Any, tail: str, k: int) -> None:
    plain = model.rank(DATA.X, k=9)
    scores = np.full(DATA.Y.shape, np.nan)
    for row, (labels, found) in enumerate(zip(plain.labels, model._probabilities(plain), strict=True)):
        scores[row, labels[labels >= 0]] = found[labels >= 0]
    expected = reference.weighed(scores * GAIN[tail] / GAIN[tail].max(), k)
    top = model.rank(DATA.X, k=k, tail=tail)
    assert top.labels.shape == top.scores.shape == (len(DATA.X), k)
    for labels, found, best in zip(top.labels, top.scores, expected, strict=True):
        named = labels[labels >= 0]
        assert len(set(named)) == len(named) == len(best)
        np.testing.assert_allclose(found[: len(best)], [score for _, score in best], rtol=1e-5)
        by_label = dict(best)
        assert all(by_label.get(label, score) == pytest.approx(score, rel=1e-5)
                   for label, score in zip(named.tolist(), found.tolist(), strict=False))  # fmt: skip
    assert np.isneginf(top.scores[top.labels < 0]).all()
    assert ((top.scores[top.labels >= 0] >= 0) & (top.scores[top.labels >= 0] <= 1)).all()


@pytest.mark.parametrize("tail", GAIN)
def test_a_model_may_keep_a_tail(model: Any, tail: str, tmp_path: Path) -> None:
    own = copy.deepcopy(model).set_params(tail=tail)
    expected = model.rank(DATA.X, k=3, tail=tail)
    assert (own.rank(DATA.X, k=3).labels == expected.labels).all()
    assert (own.rank(DATA.X, k=3, tail="none").scores == model.rank(DATA.X, k=3).scores).all()
    assert (own.predict_proba(DATA.X) != model.predict_proba(DATA.X)).nnz == 0, "probabilities stay what they are"
    own.save(tmp_path / "m")
    assert (sylvan.load(tmp_path / "m").rank(DATA.X, k=3).scores == expected.scores).all()


def test_probabilities_have_no_tail() -> None:
    model = NeighborRanker().fit(DATA.X, RARE)
    for ask in (model.predict_proba, model.predict, model.choose):
        with raises(ParameterError, "tail", "psp"):
            ask(DATA.X, tail="psp")


def test_a_tail_weighs_calibrated_probabilities_of_allowed_labels() -> None:
    model = XRLinear(branching=2, max_leaf=3, calibration="platt", tail="psp").fit(DATA.X, RARE)
    top = model.rank(DATA.X, k=2, allowed=[1, 4, 6])
    assert set(np.unique(top.labels)) <= {-1, 1, 4, 6}
    chances = model.predict_proba(DATA.X, allowed=[1, 4, 6]).toarray()
    row, label = 0, int(top.labels[0, 0])
    gain = GAIN["psp"][label] / GAIN["psp"].max()
    assert top.scores[row, 0] == pytest.approx(chances[row, label] * gain, rel=1e-5)


def test_a_fit_forgets_the_gains_of_labels() -> None:
    model = NeighborRanker(tail="macro_recall").fit(DATA.X, RARE)
    before = model.rank(DATA.X, k=3)
    model.fit(DATA.X, DATA.Y).rank(DATA.X, k=3)
    assert (model.fit(DATA.X, RARE).rank(DATA.X, k=3).scores == before.scores).all()


def test_texts_are_ranked_with_a_tail() -> None:
    texts, labels = ["a whale", "a whale and bread", "bread"] * 4, [["Sea"], ["Sea", "Food"], ["Food"]] * 4
    tagger = TextModel(model=XRLinear(tail="psp")).fit(texts, labels)
    assert (tagger.rank(texts, k=2).scores == tagger.rank(texts, k=2, tail="psp").scores).all()
    assert tagger.predict_proba(texts).shape == (12, 2)


NO_TAILS = ["pps", "psp:", "psp:1", "psp:a,b", "psp:-1,1", "psp:1,0", "psp:1,2,3", "psp:inf,1", 3]


@pytest.mark.parametrize("tail", NO_TAILS)
def test_tails_that_are_none_are_refused(tail: Any) -> None:
    model = NeighborRanker().fit(DATA.X, RARE)
    with raises(ParameterError, "tail", "'psp'", "psp:A,B"):
        model.rank(DATA.X, tail=tail)
    with raises(ParameterError, "tail", "XRLinear"):
        XRLinear(tail=tail).fit(DATA.X, RARE)


def test_counts_that_cannot_be_are_refused_where_they_matter() -> None:
    model = XRLinear().fit(DATA.X, RARE)
    model.n_rows_ = 0
    with raises(DataError, "counts"):
        model.rank(DATA.X, tail="psp")


def test_labels_never_seen_are_worth_as_much_as_those_seen_once() -> None:
    gains = label_gains("macro_recall", np.array([0, 1, 50]), 60)
    assert gains.tolist() == pytest.approx([1, 1, 1 / 50])
    assert label_gains("psp", np.array([0, 1, 50]), 60)[0] == 1


def test_reweighing_pads_and_breaks_ties() -> None:
    top = TopK(np.array([[5, 2, -1]], np.int32), np.array([[0.5, 0.25, -np.inf]], np.float32))
    found = reweigh(top, np.array([1, 1, 1, 1, 1, 0.5], np.float32), 4)
    assert found.labels.tolist() == [[2, 5, -1, -1]]
    assert found.scores.tolist() == [[0.25, 0.25, -np.inf, -np.inf]]
