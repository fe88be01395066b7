"""IRLIClassifier brought up to date: where new labels go, what the networks learn, and what is refused."""

import copy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.errors import raises, warns
from kit.watching import calls_of, stopped
from word_topics import N_LABELS, SMALL, all_logits, topics

pytest.importorskip("torch")

import sylvan
from sylvan import IRLIClassifier, TextModel, metrics
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError, RowsUnknownWarning, UnsupportedError
from sylvan.models.irli import fitted as irli_fitted
from sylvan.models.irli import rounds, training
from sylvan.models.irli.fitted import WIDER

N, FIRST = N_LABELS, 34
PLACING = {**SMALL, "choices": 2}


X, Y = topics()
LATER = np.flatnonzero(np.diff(Y[:, FIRST:].tocsr().indptr))
KNOWN = np.setdiff1d(np.arange(X.shape[0]), LATER)
BEFORE = X[KNOWN], Y[KNOWN, :FIRST]
NEW = X[LATER], Y[LATER]


def train(**params: Any) -> IRLIClassifier:
    return IRLIClassifier(**{**PLACING, "batch_size": 64, **params}).fit(*BEFORE)


@pytest.fixture(scope="module")
def first() -> IRLIClassifier:
    return train()


@pytest.fixture
def model(first: IRLIClassifier) -> Iterator[IRLIClassifier]:
    before = bits(first)
    yield copy.copy(first)
    assert bits(first) == before, "a copy is updated"


@pytest.fixture(scope="module")
def updated(first: IRLIClassifier) -> IRLIClassifier:
    return copy.copy(first).update(*NEW, rows=BEFORE)


# ---------------------------------------- where new labels go


def placed_by_hand(model: IRLIClassifier, X: sp.csr_matrix, Y: sp.csr_matrix) -> np.ndarray:
    """The rule as it is written: one label after the other, one repetition after the other."""
    network, known = model.network_, model.n_labels_
    placed = np.zeros((network.n_repetitions, Y.shape[1] - known), int)
    inputs, truths = X.toarray(), Y.toarray()
    for r in range(network.n_repetitions):
        loads = [int((model.buckets_.assignment[r] == b).sum()) for b in range(network.n_buckets)]
        part = slice(r * network.hidden, (r + 1) * network.hidden)
        hidden = np.maximum(inputs @ network.first[:, part] + network.first_bias[part], 0)
        probability = 1 / (1 + np.exp(-(hidden @ network.second[r] + network.second_bias[r])))
        for label in np.random.default_rng((model.seed, 7, known, r)).permutation(placed.shape[1]):
            sums = probability[truths[:, known + label] > 0].sum(axis=0)
            best = np.argsort(-sums, kind="stable")[: WIDER * model.choices]
            placed[r, label] = min(best, key=lambda bucket: (loads[bucket], list(best).index(bucket)))
            loads[placed[r, label]] += 1
    return placed


def test_new_labels_go_to_the_least_loaded_of_the_buckets_that_their_rows_prefer(
    first: IRLIClassifier, updated: IRLIClassifier
) -> None:
    np.testing.assert_array_equal(updated.buckets_.assignment[:, FIRST:], placed_by_hand(first, *NEW))
    np.testing.assert_array_equal(updated.buckets_.assignment[:, :FIRST], first.buckets_.assignment)


def test_labels_without_a_row_are_spread_by_hashing(model: IRLIClassifier) -> None:
    few = sp.csr_matrix(([1.0], ([0], [599])), shape=(1, 600))  # 565 labels that no row has
    model.update(NEW[0][:1], few, rows=BEFORE)
    assert model.n_labels_ == 600
    assert (model.buckets_.loads().min(axis=1) > 20).all(), "and not put into the few that are least loaded now"


# ---------------------------------------- what is learned


def precision(model: IRLIClassifier, labels: slice) -> float:
    """P@1 of unseen rows that have one of these labels."""
    X_test, Y_test = topics(400, seed=1)
    rows = np.flatnonzero(np.diff(Y_test[:, labels].tocsr().indptr))
    top = model.rank(X_test[rows], 1, allowed=np.arange(N)[labels])
    return metrics.precision(Y_test[rows][:, : model.n_labels_], top, at=(1,))[1]


def test_new_labels_are_answered_and_known_ones_still_are(first: IRLIClassifier, updated: IRLIClassifier) -> None:
    X_test, Y_test = topics(400, seed=1)
    assert metrics.precision(Y_test, updated.rank(X_test, k=2), at=(2,))[2] > 0.85
    assert precision(updated, slice(FIRST, N)) > 0.85
    assert precision(updated, slice(0, FIRST)) > precision(first, slice(0, FIRST)) - 0.03
    assert (updated.n_labels_, updated.n_rows_) == (N, X.shape[0])
    np.testing.assert_array_equal(updated.label_counts_, np.bincount(Y.indices, minlength=N))


def test_places_alone_are_not_enough(model: IRLIClassifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(irli_fitted, "learned_on", lambda _, placed, __: placed)
    model.update(*NEW, rows=BEFORE)
    top = model.rank(NEW[0], k=1).labels
    assert (top >= FIRST).mean() < 0.2, "or the networks need not learn on"


def test_features_that_no_row_has_keep_their_weights(first: IRLIClassifier, model: IRLIClassifier) -> None:
    row, label = NEW[0][:1] * 3.3, np.array([FIRST])
    with pytest.warns(RowsUnknownWarning) as caught:
        model.update(row, label)
    assert caught[0].filename == __file__
    others = np.setdiff1d(np.arange(X.shape[1]), row.indices)
    np.testing.assert_array_equal(model.network_.first[others], first.network_.first[others])
    assert (model.network_.first[row.indices] != first.network_.first[row.indices]).any(axis=1).all()
    assert model.network_.scales is not None
    grown = model.fitted_.row_sums > first.fitted_.row_sums
    assert grown[row.indices].any(axis=1).all() and not grown[others].any()


def test_what_training_goes_on_from_is_what_it_came_to(first: IRLIClassifier) -> None:
    dense = IRLIClassifier(**{**PLACING, "rounds": 0}).fit(BEFORE[0].toarray() + 3, BEFORE[1])
    for fitted, inputs in ((first, X), (dense, X.toarray().astype(np.float32) + 3)):
        scale = rounds.InputScale.of(inputs)
        groups = [range(2), range(2, 6)]
        states = rounds.states_of(fitted.network_, groups, scale, fitted.fitted_.row_sums)
        again = rounds.network_of(states, scale)
        np.testing.assert_allclose(all_logits(again, inputs[:50]), all_logits(fitted.network_, inputs[:50]), atol=1e-3)
        if fitted is first:
            np.testing.assert_array_equal(rounds.row_sums_of(states), first.fitted_.row_sums)
            assert first.fitted_.row_sums.max() > 0


def test_each_epoch_has_its_own_rows() -> None:
    settings = rounds.LearningSettings(4, n_repetitions=1, hidden=8, batch_size=2)
    seen: list[list[int]] = []

    class Watched(training.GroupTrainer):
        def _step(self, rows: Any, *others: Any, **options: Any) -> float:
            seen.append(sorted(rows.tolist()))
            return 0.0

    scale = rounds.InputScale(None, 1.0)
    lesson = rounds.Lesson(np.eye(6, dtype=np.float32), sp.csr_matrix(np.eye(6)), settings, scale)
    trainer = Watched(lesson, range(1))
    trainer.train(np.zeros((1, 6), np.int32), 2, rows=np.array([[0, 1], [4, 5]]))
    assert seen == [[0, 1], [4, 5]]


def test_known_rows_are_drawn_anew_for_each_epoch_and_update(
    model: IRLIClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(monkeypatch, training.GroupTrainer, "train")
    model.update(*NEW, rows=BEFORE).update(*NEW, rows=BEFORE)
    assert all(call.options["fade"] and call.args[0].X.shape[0] == len(LATER) + len(KNOWN) for call in calls)
    seen = [call.options["rows"] for call in calls]
    n, beside = len(LATER), max(2 * len(LATER), 500)
    for rows in seen:
        assert rows.shape == (8, n + beside)
        for epoch in rows:
            np.testing.assert_array_equal(epoch[:n], np.arange(n))
            assert len(set(epoch[n:])) == beside and epoch[n:].min() >= n and epoch[n:].max() < n + len(KNOWN)
        assert len({tuple(epoch) for epoch in rows.tolist()}) == 8
    assert (seen[0] != seen[-1]).any(), "an update draws others than the one before"


def test_rows_of_known_labels_are_learned_too(model: IRLIClassifier) -> None:
    wrong = np.full(60, 3)  # these rows have another label from now on
    inputs = sp.csr_matrix((np.ones(60), np.full(60, 20 * 3), np.arange(61)), shape=(60, 150))
    assert model.rank(inputs[:1], k=1).labels[0, 0] == 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no new label comes
        model.update(inputs, wrong, epochs=40)
    assert model.rank(inputs[:1], k=1).labels[0, 0] == 3 and model.n_labels_ == FIRST


def test_rows_of_no_weight_teach_nothing(model: IRLIClassifier, first: IRLIClassifier, updated: IRLIClassifier) -> None:
    given = sp.vstack([NEW[0], NEW[0][:5]]).tocsr(), sp.vstack([NEW[1], NEW[1][5:10]]).tocsr()
    weight = np.ones(given[0].shape[0], np.float32)
    weight[-5:] = 0
    model.update(*given, weight, rows=BEFORE)
    assert model.n_rows_ == updated.n_rows_ + 5
    np.testing.assert_array_equal(model.buckets_.assignment, updated.buckets_.assignment)
    heavy = copy.copy(first).update(NEW[0], NEW[1], np.full(len(LATER), 1e6), rows=BEFORE)
    light = copy.copy(first).update(NEW[0], NEW[1], np.full(len(LATER), 1e-6), rows=BEFORE)
    assert precision(heavy, slice(FIRST, N)) > precision(light, slice(FIRST, N)) + 0.2


def test_without_known_rows_a_warning_says_what_is_lost(model: IRLIClassifier, first: IRLIClassifier) -> None:
    with warns(RowsUnknownWarning, "answered", 6):
        model.update(*NEW, epochs=20)
    assert precision(model, slice(FIRST, N)) > 0.85
    mixed = sp.vstack([NEW[0], BEFORE[0]]).tocsr(), sp.vstack([NEW[1], Y[KNOWN]]).tocsr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the caller's own mixture
        made = copy.copy(first).update(*mixed)
    assert precision(made, slice(0, FIRST)) > 0.9


# ---------------------------------------- the same bits


def test_saved_and_updated_is_updated_and_saved(first: IRLIClassifier, updated: IRLIClassifier, tmp_path: Path) -> None:
    first.save(tmp_path / "first")
    for mmap in (False, True):
        again = sylvan.load(tmp_path / "first", mmap=mmap).update(*NEW, rows=BEFORE)
        assert bits(again) == bits(updated)
    updated.save(tmp_path / "updated")
    assert bits(sylvan.load(tmp_path / "updated")) == bits(updated)


def test_a_folder_without_sums_is_updated_as_well(first: IRLIClassifier) -> None:
    state = first.to_state()
    del state.arrays["row_sums"]
    made = IRLIClassifier.from_state(state).update(*NEW, rows=BEFORE)
    assert precision(made, slice(FIRST, N)) > 0.8 and precision(made, slice(0, FIRST)) > 0.9


# ---------------------------------------- names, removed labels, new features


def test_names_and_removed_labels() -> None:
    words = np.array([f"topic {label:02}" for label in range(N)])

    def names(labels: sp.csr_matrix) -> list[list[str]]:
        return [words[row.indices].tolist() for row in labels]

    model = IRLIClassifier(**PLACING).fit(BEFORE[0], names(BEFORE[1]))
    smaller = model.without_labels("topic 03")
    smaller.update(NEW[0], [[name for name in row if name != "topic 03"] for row in names(NEW[1])],
                   rows=(BEFORE[0], names(BEFORE[1])))  # fmt: skip
    assert smaller.classes_[FIRST:].tolist() == words[FIRST:].tolist()
    assert smaller.removed_labels_.tolist() == [3] and (smaller.buckets_.assignment[:, 3] == -1).all()
    assert "topic 39" in smaller.rank(NEW[0][NEW[1][:, 39].nonzero()[0]], k=3).names[0]
    assert (smaller.rank(X, k=N).labels != 3).all()
    smaller.update(NEW[0][:1], [["topic 03"]], rows=(BEFORE[0], names(BEFORE[1])))
    assert smaller.n_labels_ == N + 1 and smaller.classes_[N] == "topic 03", "a label of its own: no id is used again"
    ids = train(rounds=0).without_labels([3])
    before = bits(ids)
    with raises(DataError, "Y", "label 3"):
        ids.update(NEW[0][:1], [[3, FIRST]], rows=BEFORE)
    assert bits(ids) == before
    given = BEFORE[1].astype(np.float32)
    left = given.copy()
    left.data[left.indices == 3] = 0
    other = copy.copy(ids).update(NEW[0][:1], [[FIRST]], rows=(BEFORE[0], left))
    assert bits(ids.update(NEW[0][:1], [[FIRST]], rows=(BEFORE[0], given))) == bits(other)
    assert (given != BEFORE[1]).nnz == 0 and ids.n_labels_ == FIRST + 1, "what is given isn't written to"


@pytest.mark.parametrize("dense", [False, True])
def test_new_features(dense: bool, tmp_path: Path) -> None:
    given: list[Any] = [BEFORE[0], X]
    if dense:
        given = [matrix.toarray() for matrix in given]
    model = IRLIClassifier(**PLACING).fit(given[0], BEFORE[1])
    known = model.rank(given[0][:50], k=5).scores
    marks = np.zeros((X.shape[0], 2), np.float32)
    marks[LATER, 0] = 2
    wide = np.hstack([given[1], marks]) if dense else sp.hstack([X, marks]).tocsr()
    model.update(wide[LATER], NEW[1], rows=(given[0], BEFORE[1]), n_features=152)
    assert model.n_features_ == 152 and model.network_.first.shape[0] == 152
    assert not model.network_.first[151].any() or dense
    model.save(tmp_path / "m")
    assert bits(sylvan.load(tmp_path / "m")) == bits(model)
    mark = np.zeros((1, 152), np.float32)
    mark[0, 150] = 2
    assert model.rank(mark, k=1).labels[0, 0] >= FIRST
    assert known.shape == (50, 5)


# ---------------------------------------- plans


def test_a_plan_says_what_an_update_would_do_and_changes_nothing(model: IRLIClassifier) -> None:
    before = bits(model)
    for options, expected in (({"rows": BEFORE}, (8, len(LATER), 500)), ({"epochs": 3}, (3, len(LATER), 0))):
        plan = model.plan_update(*NEW, **options)
        assert (plan.epochs, plan.new_rows, plan.known_rows) == expected
        assert plan.seconds > 0 and plan.peak_bytes > model.network_.first.nbytes
        assert f"{expected[0]} times: {len(LATER)} new ones and {expected[2]} known ones" in plan.text()
    assert bits(model) == before
    with raises(UnsupportedError, "forget"):
        model.plan_update(forget=[1])
    with raises(NotFittedError, "plan_update"):
        IRLIClassifier().plan_update(*NEW)


# ---------------------------------------- errors

GIVEN: dict[str, Any] = {"X": NEW[0], "Y": NEW[1]}
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "nothing": ({}, DataError, ("X", "Y", "together")),
    "no labels": ({"X": NEW[0]}, DataError, ("X", "Y", "together")),
    "forget": ({"forget": [1]}, UnsupportedError, "forget"),
    "merge": ({"merge": {1: [2]}}, UnsupportedError, "without_labels"),
    "precise": ({**GIVEN, "precise": True}, UnsupportedError, ("precise", "n_features")),
    "epochs": ({**GIVEN, "epochs": 0}, ParameterError, ("epochs", 0)),
    "fewer columns": ({**GIVEN, "n_features": 3}, ParameterError, ("n_features", 3)),
    "other features": ({"X": NEW[0][:, :5], "Y": NEW[1]}, DataError, ("features", 5)),
    "other lengths": ({"X": NEW[0][:5], "Y": NEW[1]}, DataError, "(5, 150)"),
    "names": ({"X": NEW[0][:1], "Y": [["elm"]]}, DataError, "ids"),
    "no label at all": ({"X": NEW[0][:2], "Y": [[], []]}, DataError, ("learn", "nothing")),
    "weights": ({**GIVEN, "sample_weight": np.zeros(len(LATER))}, DataError, "zero"),
    "rows alone": ({**GIVEN, "rows": NEW[0]}, DataError, ("X", "Y", "csr_matrix")),
    "rows of new labels": ({**GIVEN, "rows": NEW}, DataError, f"rows have {N} labels, but the model has {FIRST}"),
    "rows without labels": ({**GIVEN, "rows": (X[:2], [[], []])}, DataError, "(2, 0)"),
    "rows of other width": ({**GIVEN, "rows": (X[:2, :5], [[1], [2]])}, DataError, ("features", 5)),
}  # fmt: skip


@pytest.mark.parametrize(("given", "kind", "words"), WRONG.values(), ids=WRONG)
def test_errors_change_nothing(model: IRLIClassifier, given: dict[str, Any], kind: Any, words: object) -> None:
    before = bits(model)
    with raises(kind, words):
        model.update(**given)
    assert bits(model) == before


def test_an_interruption_changes_nothing(model: IRLIClassifier) -> None:
    before = bits(model)
    with stopped(rounds, "network_of", 1):  # all networks are trained by then
        model.update(*NEW, rows=BEFORE)
    assert bits(model) == before


def test_weights_that_leave_the_numbers_change_nothing(model: IRLIClassifier) -> None:
    before = bits(model)
    model.set_params(learning_rate=1e38)
    with raises(DataError, "rates"):
        model.update(*NEW, rows=BEFORE)
    model.set_params(learning_rate=PLACING["learning_rate"])
    assert bits(model) == before
    with pytest.raises(NotFittedError):
        IRLIClassifier().update(*NEW)


def test_labels_that_come_with_a_text_alone_are_warned_of() -> None:
    """Their texts are rows that the networks learn on from, without known ones beside."""
    texts = [f"w{label} v{label} u{row % 5}" for row in range(120) for label in [row % 6]]
    labels = [[f"L{row % 6}"] for row in range(120)]
    tagger = TextModel(model=IRLIClassifier(**PLACING, batch_size=64)).fit(texts, labels)
    with warns(RowsUnknownWarning, "answered"):
        tagger.update(label_texts={"New": "w1 v2"})


@pytest.mark.filterwarnings("ignore::sylvan.errors.RowsUnknownWarning")
def test_new_labels_of_a_single_bucket() -> None:
    model = train(n_buckets=1, choices=1).update(*NEW)
    assert (model.fitted_.buckets.assignment == 0).all() and model.n_labels_ == N


@pytest.mark.parametrize("name", ["n_buckets_used", "n_repetitions_used"])
def test_a_folder_of_no_buckets_is_refused(first: IRLIClassifier, name: str) -> None:
    state = first.to_state()
    state.meta[name] = 0
    with raises(ModelError, name, 0):
        IRLIClassifier.from_state(state)
