"""Reranker: every scorer, what it answers and explains, and what it refuses."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.errors import raises
from rows_with_pairs import X, hits, joined, members, pairs, parity, reranker, y

import sylvan
from sylvan import Ensemble, LexicalMatcher, NeighborRanker, Reranker, TextModel, XRLinear
from sylvan.errors import DataError, ParameterError
from sylvan.ranking.calibrate import Calibrator

SCORERS = [("lightgbm", "right"), ("lightgbm", "rank"), ("trees", "right")]


@pytest.mark.parametrize(("scorer", "objective"), SCORERS)
def test_every_scorer_learns_what_the_mean_can_not(
    scorer: str, objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy" if scorer == "trees" else scorer)
    model = reranker(scorer=scorer, objective=objective, columns=parity).fit(X, y)
    assert hits(Ensemble.of_fitted(model.members)) < 0.7
    assert hits(model) > 0.95
    top = model.rank(X, k=5)
    assert top.scores[top.labels >= 0].min() >= 0 and top.scores.max() <= 1
    proba = model.predict_proba(X)
    assert proba.shape == (1200, 8) and proba.min() >= 0 and proba.max() <= 1
    again = reranker(scorer=scorer, objective=objective, columns=parity, n_jobs=2).fit(X, y)
    assert bits(again.rank(X, k=5)) == bits(top), "whatever the number of threads"
    model.save(tmp_path / "m")
    for name in ["lightgbm", *(name for name in sys.modules if name.startswith("lightgbm."))]:
        monkeypatch.setitem(sys.modules, name, None)  # what grew the trees isn't needed to rank
    assert bits(sylvan.load(tmp_path / "m").set_params(columns=parity).rank(X, k=5)) == bits(top)


def test_few_rows_leave_the_order_of_the_mean(fitted: Reranker) -> None:
    for model in (reranker(columns=parity).fit(X[:799], y[:799]), reranker(held_out=199).fit(X, y)):
        mean = Ensemble.of_fitted(model.members)
        assert model.scorer_ is None and model.calibrator_ is None
        assert bits(model.rank(X, k=8)) == bits(mean.rank(X, k=8))
    assert fitted.scorer_ is not None


def test_only_candidates_are_ranked() -> None:
    X, y = pairs(400)
    model = Reranker.of_fitted([member.fit(X, y) for member in members()], candidates=3)
    top = model.rank(X, k=5)
    assert (top.labels[:, :3] >= 0).all() and (top.labels[:, 3:] == -1).all()
    candidates, columns = model.candidate_columns(X[:7])
    assert candidates.labels.shape == (7, 3) and columns.shape == (7, 3, len(model.feature_names_))


def test_columns_have_names_and_are_what_members_say(fitted: Reranker) -> None:
    X, _ = pairs(20, seed=2)
    candidates, columns = fitted.candidate_columns(X)
    names = fitted.feature_names_
    assert len(set(names)) == len(names) == columns.shape[2] and names[-1] == "columns 0"
    proba = fitted.members[1].predict_proba(X).toarray()
    for row, label in np.argwhere(candidates.labels >= 0)[:50]:
        expected = proba[row, candidates.labels[row, label]]
        assert columns[row, label, names.index("member1 score")] == pytest.approx(expected, abs=1e-6)
    assert_counted(fitted, X, fitted.label_counts_)
    assert (columns[..., -1] == np.where(candidates.labels >= 0, parity(sp.csr_matrix(X), candidates)[..., 0], 0)).all()


def test_tails_lift_rare_labels() -> None:
    X, y = pairs(2000)
    rare = (y == 7) & (np.arange(2000) % 10 > 0)
    X, y = X[~rare], y[~rare]
    model = reranker().fit(X, y)
    plain, proba = model.rank(X, k=8), model.predict_proba(X)
    for name in ("psp", "psp:0.5,0.4", "macro_recall"):
        lifted = model.rank(X, k=8, tail=name)
        assert np.argwhere(lifted.labels == 7)[:, 1].sum() < np.argwhere(plain.labels == 7)[:, 1].sum(), name
        assert bits(model.set_params(tail=name).rank(X, k=8)) == bits(lifted)
        assert bits(model.rank(X, k=8, tail="none")) == bits(plain)
    assert model.predict_proba(X).tobytes() == proba.tobytes(), "of the plain scores"
    with raises(ParameterError, "tail", "fat"):
        model.rank(X, tail="fat")


def test_probabilities_are_near_the_shares_of_right_answers() -> None:
    fitted = [m.fit(X, y) for m in members()]
    new_X, new_y = pairs(5200, seed=1)
    new_y = np.where(np.random.default_rng(0).random(5200) < 0.3, new_y ^ 1, new_y)
    test_X, test_y = pairs(2000, seed=2)
    test_y = np.where(np.random.default_rng(1).random(2000) < 0.3, test_y ^ 1, test_y)
    made = {}
    for calibration in ("isotonic", "platt", None):
        model = joined(fitted, columns=parity, calibration=calibration)
        model.fit_order(new_X, new_y)
        assert (model.calibrator_ is None) == (calibration is None)
        made[calibration] = float(model.predict_proba(test_X)[np.arange(2000), test_y ^ 1].mean())
        top = model.rank(test_X, k=1)
        share = float((top.labels[:, 0] == test_y).mean())
        assert abs(float(model.probabilities(top).scores.mean()) - share) < 0.05, calibration
        assert share == pytest.approx(0.7, abs=0.04)
    assert len(set(made.values())) == 3


def test_explanations_say_what_moved_a_label(fitted: Reranker) -> None:
    X, y = pairs(5, seed=7)
    row, label = X[:1], int(y[0])
    found = fitted.explain(row, label, top=3)
    score = float(found.score)
    assert found.place == 1 and found.label == label
    assert "number" in found.notes[0] and "mean probability" in found.notes[0]
    told = found.notes[1]
    assert f"Its log odds are {np.log(score / (1 - score)):.2f}" in told and "columns 0 = 1 (+" in told
    assert told.count("=") <= 3
    assert "columns 0 = 0 (-" in fitted.explain(row, label ^ 1).notes[1]


def test_explanations_are_of_the_ranking_that_is_asked_for() -> None:
    model = joined([XRLinear(max_leaf=1, branching=2, n_jobs=1).fit(X, y)], columns=parity)
    model.fit_order(*pairs(1200, seed=1))
    new_X, new_y = pairs(20, seed=3)
    changed = 0
    for row, label in zip(new_X[:, None], new_y.tolist(), strict=True):
        found, wide = model.explain(row, label, beam=1), model.explain(row, label)
        if found.score is not None:
            odds = float(np.log(found.score / (1 - found.score)))
            assert f"Its log odds are {odds:.2f}" in found.notes[1]
            changed += found.notes[1] != wide.notes[1]
    assert changed


def test_explanations_with_a_tail() -> None:
    """Place and score are with it, the probability isn't."""
    texts, labels = [f"pair{label // 2}" for label in y], [[f"m{label}"] for label in y]
    model = Reranker.of_fitted([TextModel().fit(texts, labels)])
    top = model.rank(texts, k=8)
    model.calibrator_ = Calibrator.fit("platt", top, top.labels == y[:, None])
    plain, tailed = model.explain(texts[0], labels[0][0]), model.explain(texts[0], labels[0][0], tail="psp")
    assert tailed.probability == plain.probability == model.predict_proba(texts[:1])[0, y[0]]
    assert tailed.score != plain.score
    by_parameter = model.set_params(tail="psp").explain(texts[0], labels[0][0])
    assert by_parameter == tailed and [note for note in tailed.notes if note not in plain.notes] == [
        "With tail='psp' place and score are by probability times the label's gain; paths are without it."
    ]


def test_explanations_without_contributions() -> None:
    X, y = pairs(900)
    mean = Reranker.of_fitted([m.fit(X, y) for m in members()], candidates=2)
    assert "nothing better could be learned" in mean.explain(X[:1], int(y[0])).notes[0]
    outside = next(label for label in range(8) if label not in mean.rank(X[:1], k=2).labels)
    assert "none of the 2 candidates" in mean.explain(X[:1], outside).notes[0]
    with raises(DataError, "label"):
        mean.explain(X[:1], 99)


def assert_counted(model: Reranker, rows: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """That the columns of rows' candidates have how many rows each label has; the candidates and their last column."""
    candidates, columns = model.candidate_columns(rows)
    there = candidates.labels >= 0
    found = columns[..., model.feature_names_.index("label_rows")][there]
    np.testing.assert_allclose(found, np.log1p(counts)[candidates.labels[there]], rtol=1e-6)
    return candidates.labels[there], columns[..., -1][there]


@pytest.mark.filterwarnings("ignore::sylvan.errors.RowsUnknownWarning")
def test_labels_that_come_later_have_columns_too() -> None:
    model = reranker(columns=None).fit(X, [[f"m{label}"] for label in y], label_columns={"m0": 3.0})
    new_X, new_y = pairs(40, seed=5)
    names = [["a new one", f"m{label}"] for label in new_y]
    model.update(new_X, names)
    place = {name: number for number, name in enumerate(model.vocabulary_)}
    counts, values = np.zeros(len(place)), np.zeros(len(place))
    counts[[place[f"m{label}"] for label in range(8)]] = np.bincount([*y, *new_y], minlength=8)
    counts[place["a new one"]], values[place["m0"]] = 40, 3
    labels, last = assert_counted(model, new_X, counts)
    assert (last == values[labels]).all()
    candidates, columns = model.without_labels("m0").candidate_columns(new_X)
    assert place["m0"] not in candidates.labels and not (columns[..., -1] == 3).any()


@pytest.mark.filterwarnings("ignore:The labels are codes")
def test_labels_are_removed_beside_one_that_came_by_its_text() -> None:
    """Which no row has: what is known of labels that occur together is of fewer labels."""
    words = {"A": "whale sea", "B": "bread cake", "C": "tea cup", "D": "ship sail"}
    labels = [name for name in words for _ in range(15)]
    texts = [f"{words[name]} {words[name].split()[number % 2]}" for number, name in enumerate(labels)]
    members = [TextModel(model=XRLinear(max_leaf=10)), LexicalMatcher(n_trees=5)]
    model = Reranker(members, scorer="trees", n_trees=2).fit(texts, [[name] for name in labels])
    model.update(None, None, label_texts={"Extra": "cake"})
    left = model.without_labels(["A"]).rank(["whale sea cake"], k=5).names[0]
    assert "A" not in left and set(left) <= {"B", "C", "D", "Extra"} and left


def test_rows_that_are_forgotten_are_not_counted() -> None:
    X, y = pairs(300)
    model = Reranker([XRLinear(keep_rows=True), NeighborRanker()], scorer="trees", n_trees=2).fit(X, y)
    gone = np.flatnonzero(y == 1)[:20]
    model.update(forget=gone)
    assert_counted(model, X[:40], np.bincount(np.delete(y, gone), minlength=8))


def test_a_plan_names_what_will_be_done() -> None:
    X, y = pairs(1200)
    model = reranker(columns=parity)
    plan = model.plan(X, y, label_columns=np.zeros((8, 1)))
    names = [phase.name for phase in plan.phases]
    assert names[-1] == "order" and names[0].startswith("member0 ") and any(n.startswith("member1 ") for n in names)
    assert plan.seconds > 0 and plan.peak_bytes > 0 and plan.model_bytes > 0
    assert not hasattr(model, "scorer_") and "order" not in [p.name for p in model.plan(X[:700], y[:700]).phases]
    with pytest.raises(DataError):
        model.plan(X, y[:5])


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"objective": "rank"}, ("objective", "right", "scorer='trees'")),
        ({"scorer": "catboost"}, ("scorer", "lightgbm")), ({"scorer": "xgboost"}, ("scorer", "xgboost")),
        ({"depth": 11}, ("depth", 11)), ({"learning_rate": 0}, ("learning_rate", 0)),
    ],
)  # fmt: skip
def test_parameters_out_of_their_range(params: dict[str, Any], sentence: object) -> None:
    X, y = pairs(20)
    with raises(ParameterError, sentence):
        reranker(**params).fit(X, y)
    with raises(ParameterError, sentence):
        Reranker.of_fitted([m.fit(X, y) for m in members()], **{"scorer": "trees", **params})


def test_a_missing_library_is_an_error_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.setattr(NeighborRanker, "fit", lambda *args, **options: pytest.fail("a member is trained"))
    with raises(ImportError, "scorer='lightgbm'"):
        Reranker([NeighborRanker()]).fit(*pairs(20))


def test_what_members_have_no_use_for() -> None:
    X, y = pairs(40)
    with raises(ParameterError, "LexicalMatcher"):
        reranker().fit(X, y, label_texts={"a": "b"})
    with raises(ParameterError, "probes"):
        Reranker.of_fitted([XRLinear().fit(X, y)]).rank(X, probes=3)
