"""BeamTreeClassifier: what y may be, weights, learning on, learning rates, trees, and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

import sylvan
from sylvan import BeamTreeClassifier, LabelTree, kernels
from sylvan.errors import DataError, MemoryLimitError, NotFittedError, ParameterError
from sylvan.matching.class_beam import all_scores
from sylvan.models.beam_tree import training as beam_tree_training
from sylvan.models.beam_tree.examples import Classes, classes_of

WOODS = ["elm", "fir", "ash", "oak", "yew", "box"]
y = np.arange(120) % 6
X = np.eye(6, dtype=np.float32)[y] + np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32) / 20
Q = np.eye(6, dtype=np.float32)


def make(**params: Any) -> BeamTreeClassifier:
    return BeamTreeClassifier(**{"branching": 2, "n_candidates": 2, "learning_rate": 0.5, "n_jobs": 1, **params})


def same(a: BeamTreeClassifier, b: BeamTreeClassifier) -> bool:
    return a.weights_.weights.tobytes() == b.weights_.weights.tobytes()


# ---------------------------------------- what y may be


@pytest.mark.parametrize("numbers", [[-7, -1, 0, 4, 5, 1000], [0, 3, 4, 5, 2_000_000_000, 9_783_161_484_100]])
def test_ids_strings_and_numbers_are_one_training(numbers: Any) -> None:
    by_id, by_name = make().fit(X, y), make().fit(X, [sorted(WOODS)[i] for i in y])
    numbers = np.array(numbers)
    by_number = make().fit(X, numbers[y])
    assert same(by_id, by_name) and same(by_id, by_number)
    assert by_id.predict(Q).tolist() == by_id.classes_.tolist() == list(range(6))
    assert by_name.predict(Q).tolist() == by_name.classes_.tolist() == sorted(WOODS)
    assert by_number.predict(Q).tolist() == by_number.classes_.tolist() == numbers.tolist()
    assert by_name.rank(Q, k=1).names == [[wood] for wood in sorted(WOODS)]  # type: ignore[comparison-overlap]
    for model in (by_id, by_name, by_number):
        assert model.score(X, model.classes_[y]) == 1
        assert model.score(X, model.classes_[(y + 1) % 6]) == 0


@pytest.mark.parametrize(
    "form",
    [list, lambda y: y.astype(float), lambda y: y[:, None], lambda y: [[i] for i in y.tolist()], lambda y: np.eye(6)[y],
     lambda y: sp.csc_array(np.eye(6)[y] * 3), lambda y: y.astype(np.uint8)],
)  # fmt: skip
def test_every_form_of_ids_is_one(form: Any) -> None:
    model = make(epochs=2).fit(X, form(y))
    assert same(model, make(epochs=2).fit(X, y))
    assert model.score(X, form(y)) == make(epochs=2).fit(X, y).score(X, y)


@pytest.mark.parametrize("form", [list, np.array, lambda y: np.array(y, object), lambda y: [[word] for word in y]])
def test_every_form_of_names_is_one(form: Any) -> None:
    names = [WOODS[i] for i in y]
    assert make().fit(X, form(names)).predict(Q).tolist() == WOODS


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ([[0], [1, 2], *[[0]] * 118], ("row 1", 2)), ([["a"], ["b", "c"], *[["a"]] * 118], ("'b'", "'c'", "row 1")),
        (["a", 3, *["a"] * 118], (3, "row 1")), ([3, "a", *[3] * 118], (3, "row 0", "'a'", "row 1")),
        ([[3], ["a"], *[[3]] * 118], (3, "row 0", "'a'", "row 1")),
        (np.array([3, "a", *[3] * 118], object), (3, "row 0", "'a'", "row 1")), (np.full(120, 0.5), ("0.5", "row 0")),
        (np.full(120, np.nan), ("nan", "row 0")), (np.r_[y[:-1], [np.nan]], ("nan", "row 119")), (None, "None"),
        (y[:-1], ("X", "(120, 6)", "(119,)")), ([], "(0,)"), ({"a": 1}, "class"),
    ],
)  # fmt: skip
def test_a_y_that_is_none_is_refused(bad: Any, sentence: object) -> None:
    with raises(DataError, sentence):
        make().fit(X, bad)


def test_classes_by_their_ids() -> None:
    for given, asked in (([3, 3, 0], [0, 5, 3]), (["b", "a"], ["a", "z", "b"]), ([-4, 9], [9, 0, -4])):
        classes, ids = classes_of(given)
        assert classes.array[ids].tolist() == given
        found = classes.find(asked)
        assert found[1] == -1 and classes.array[found[[0, 2]]].tolist() == [asked[0], asked[2]]
        assert classes.id_of(asked[0]) == found[0] and classes.id_of(asked[1]) is None
    assert Classes(2).id_of("a") is None and Classes(2).id_of(True) is None
    assert classes_of(["a"])[0].find([0, 1]).tolist() == [-1, -1]


# ---------------------------------------- asking


@pytest.mark.parametrize("names", [list("abcdef"), [0, 2, 4, 6, 8, 9]])
def test_predict_among_the_classes_that_are_open(names: list[Any]) -> None:
    X, y = np.eye(6).repeat(5, axis=0), np.array(names).repeat(5)
    model = BeamTreeClassifier(seed=0).fit(X, y)
    for options in ({"allowed": names[1:3]}, {"denied": names[:2]}):
        classes = model.predict(X, **options)
        best = model.rank(X, 1, **options).labels[:, 0]
        assert classes.dtype == model.classes_.dtype and (classes == model.classes_[best]).all()
    with raises(DataError, "Row 0", "allow more classes"):
        model.predict(X, denied=names)


def test_one_class_only_is_an_answer() -> None:
    for only in (np.zeros(120, int), ["elm"] * 120):
        model = BeamTreeClassifier(n_jobs=1).fit(X, only)
        assert model.predict(Q).tolist() == list(only[:6])
        top = model.rank(Q, k=3)
        assert top.labels[:, 0].tolist() == [0] * 6 and (top.labels[:, 1:] == -1).all()
        assert model.predict_proba(Q).tolist() == model.predict_proba(Q, exact=True).tolist()
        assert model.predict_proba(Q).ravel().tolist() == [1] * 6


def test_a_class_that_training_has_not_seen() -> None:
    model = make().fit(X, y)
    with raises(DataError, 6):
        model.explain(Q[:1], 6)
    assert model.score(X, np.full(120, 17)) == 0


def test_probabilities_by_beam_and_exactly() -> None:
    model = make(beam=1).fit(X, y)
    exact = model.predict_proba(X, exact=True)
    scores = all_scores(model.weights_, X).astype(float)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(exact, shares, rtol=1e-4)
    assert np.diff(model.predict_proba(X, 2, exact=True).indptr).tolist() == [2] * 120
    beam = model.predict_proba(X)
    assert (beam.max(axis=1) >= exact.max(axis=1) - 1e-6).all()
    with raises(ParameterError, "exact", 1):
        model.predict_proba(X, exact=1)  # type: ignore[arg-type]
    with raises(ParameterError, "beam"):
        model.predict_proba(X, exact=True, beam=3)


def test_explanations_follow_the_path() -> None:
    for loss in ("cane", "hsm", "softmax"):
        model = make(loss=loss, bias=0.5).fit(X, y)
        scores = all_scores(model.weights_, X[:1], 0.5, log_probabilities=loss == "hsm")[0]
        for label in range(6):
            found = model.explain(X[:1], label, top=2, beam=6)
            path = found.trees[0].paths[0]
            assert path.score == pytest.approx(float(scores[label]), rel=1e-4) and path.reached
            assert [step.node for step in path.steps] == model.tree_.path(path.leaf)
            for step in path.steps:
                parts = [feature.contribution for feature in (*step.positive, *step.negative)]
                assert sum(parts) + step.rest + step.intercept == pytest.approx(step.score, abs=1e-5)
        assert found.text() and found.html()


def test_explanations_say_where_the_beam_lost_a_class() -> None:
    model = make(beam=1).fit(X, y)
    lost = [label for label in range(6) if not (model.rank(X[:1], k=6).labels == label).any()]
    assert lost
    for label in lost:
        vote = model.explain(X[:1], label).trees[0]
        assert not vote.reached and vote.enough is not None and vote.enough > 1
        assert label in model.rank(X[:1], k=6, beam=vote.enough).labels
        assert label not in model.rank(X[:1], k=6, beam=vote.enough - 1).labels


# ---------------------------------------- weights of classes


def test_class_weights() -> None:
    ids = np.where(np.arange(120) < 100, 0, 1)
    noise = np.random.default_rng(0).normal(size=(120, 3))
    rare = [
        float((make(class_weight=weight).fit(noise, ids).predict(noise) == 1).mean())
        for weight in (None, "balanced", {1: 100.0})
    ]
    assert rare[0] < 0.1 < rare[1] < rare[2]
    assert same(make(class_weight={1: 2.0}).fit(noise, ids), make().fit(noise, ids, sample_weight=1 + ids))
    names = np.array(["no", "yes"])[ids]
    assert same(make(class_weight={"yes": 2}).fit(noise, names), make(class_weight={1: 2}).fit(noise, ids))
    assert same(make(class_weight={1: np.float32(2)}).fit(noise, ids), make(class_weight={1: 2}).fit(noise, ids))
    nothing = make(class_weight={0: 0.0}).fit(noise, ids)
    assert (nothing.predict(noise) == 1).mean() > 0.9


NO_WEIGHTS: list[Any] = ["balance", {1: -1.0}, {1: np.nan}, {None: 1.0}, [1, 2], {1.5: 1}, {0: 10**400}]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        *((bad, ("class_weight", "BeamTreeClassifier", "None", "balanced")) for bad in NO_WEIGHTS),
        ({"elm": 1.0}, ("class_weight", 6)),
        ({6: 1.0}, ("class_weight", 6)),
        ({0: 1e39}, ("float32", "larger")),
        (dict.fromkeys(range(6), 0), (0, "class_weight", "weight")),
        (dict.fromkeys(range(6), 1e-50), "class_weight"),
    ],
)
def test_class_weights_that_are_none_are_refused(bad: Any, sentence: object) -> None:
    with raises(ParameterError, sentence):
        make(class_weight=bad).fit(X, y)


# ---------------------------------------- learning on


def test_a_matrix_says_what_the_classes_are() -> None:
    Y = sp.csr_matrix(np.eye(8)[y])
    model = make().partial_fit(X[:60], Y[:60]).partial_fit(X[60:], Y[60:])
    assert model.n_labels_ == 8 and model.score(X, Y) == 1


def test_classes_that_grow_are_refused() -> None:
    with raises(DataError, "partial_fit", "call"):
        make().partial_fit(X, y)
    for classes, grown, word in ((range(6), y + 1, "6"), (WOODS, [*WOODS * 19, *["elder"] * 6], "'elder'")):
        model = make()
        first = y if word == "6" else [WOODS[i] for i in y]
        model.partial_fit(X, first, classes=list(classes))
        before = model.weights_.weights.copy()
        with raises(DataError, word, 6):
            model.partial_fit(X, grown)
        assert model.weights_.weights.tobytes() == before.tobytes()
        with raises(DataError, "call", 7, 6):
            model.partial_fit(X, first, classes=[*classes, "zelkova"] if word != "6" else range(7))


def test_partial_fit_refuses_what_it_cannot_do() -> None:
    with raises(ParameterError, "class_weight='balanced'", "partial_fit"):
        make(class_weight="balanced").partial_fit(X, y, classes=range(6))
    model = make().fit(X, y).set_params(loss="softmax")
    with raises(ParameterError, "loss='softmax'"):
        model.partial_fit(X, y)
    with raises(DataError, 6, "(120, 4)"):
        make().fit(X, y).partial_fit(X[:, :4], y)


def test_parameters_set_after_training_do_not_change_what_was_learned() -> None:
    model = make(loss="hsm").fit(X, y)
    top = model.rank(X, k=3)
    model.set_params(loss="cane", bias=0.0)
    assert model.rank(X, k=3).scores.tobytes() == top.scores.tobytes()


# ---------------------------------------- how it is trained


@pytest.mark.parametrize(
    ("loss", "optimizer"),
    [
        ("cane", "averaged_sgd"), ("cane", "adagrad"), ("cane", "sgd"), ("softmax", "adagrad"), ("nce", "sgd"),
        ("blackout", "averaged_sgd"), ("negative_sampling", "adagrad"), ("hsm", "sgd"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sparse", [False, True])
def test_every_loss_learns(loss: str, optimizer: str, sparse: bool) -> None:
    rows, asked = (sp.hstack([each, sp.csr_matrix((len(each), 90))]).tocsr() if sparse else each for each in (X, Q))
    model = make(loss=loss, optimizer=optimizer, learning_rate="auto", epochs=30, n_noises=3).fit(rows, y)
    assert model.predict(asked).tolist() == list(range(6))
    assert model.learning_rate_ > 0 and np.isfinite(model.history_[:, 0]).all()
    assert model.history_[-1, 0] < model.history_[0, 0]
    assert np.isnan(model.history_[:, 1]).all() == (loss != "cane")


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_rate_chosen_suits_the_size_of_the_features(scale: float) -> None:
    for optimizer in ("averaged_sgd", "adagrad", "sgd"):
        model = make(learning_rate="auto", optimizer=optimizer, bias=scale).fit(X * np.float32(scale), y)
        assert model.predict(Q * np.float32(scale)).tolist() == list(range(6))


def test_the_rate_chosen_stays_and_says_so() -> None:
    chosen = BeamTreeClassifier(n_jobs=1).fit(X, y)
    assert chosen.learning_rate == "auto"
    given = {"optimizer": chosen.optimizer_, "learning_rate": chosen.learning_rate_}
    assert same(chosen, BeamTreeClassifier(n_jobs=1, **given).fit(X, y))


def test_a_rate_far_too_high_is_refused() -> None:
    with raises(DataError, "learning_rate=1e+30"):
        make(learning_rate=1e30, optimizer="sgd", l2=0.1).fit(X, y)


def test_trees() -> None:
    for word in ("kmeans", "random", "frequency"):
        model = make(tree=word).fit(X, y)
        assert model.tree_.n_labels == 6 and model.tree_.depth == 3
        assert model.predict(Q).tolist() == list(range(6))
    given = LabelTree.random(6, branching=3, max_leaf=2)
    model = make(tree=given).fit(X, y)
    assert model.tree_ is given
    assert make(loss="nce", tree="random").fit(X, y).tree_ == LabelTree.flat(6)
    ids = np.repeat(np.arange(4), [5, 50, 25, 40])
    assert make(tree="frequency").fit(X, ids).tree_.leaf_labels.tolist() == [1, 3, 2, 0]


def test_the_kmeans_tree_holds_near_classes_together() -> None:
    """16 classes in four places: each branch of the root holds those of one place, which no random tree does."""
    rng = np.random.default_rng(4)
    places = 10 * rng.normal(size=(4, 6))
    ids = np.arange(16).repeat(8)
    rows = places[ids % 4] + rng.normal(size=(16, 6))[ids] + 0.1 * rng.normal(size=(128, 6))

    def together(tree: str) -> bool:
        found = make(branching=4, tree=tree, epochs=1).fit(rows, ids).tree_
        return all(len(set(part % 4)) == 1 for part in np.split(found.leaf_labels, 4))

    assert together("kmeans") and not together("random")


def test_the_rate_chosen_is_about_as_good_as_the_best() -> None:
    """Where labels are mostly noise low rates are best, and where features differ in size high ones."""
    rng = np.random.default_rng(5)
    words = rng.integers(0, 50, 2000)
    noisy = np.where(rng.random(2000) < 0.3, words % 10, rng.integers(0, 10, 2000))
    sizes = np.geomspace(1, 0.02, 20)
    uneven = rng.normal(size=(2000, 20)) * sizes
    clean = (uneven @ (rng.normal(size=(20, 10)) / sizes[:, None])).argmax(axis=1)
    lost = {}
    for name, (rows, ids) in {"noisy": (np.eye(50)[words], noisy), "clean": (uneven, clean)}.items():

        def score(rate: float | str, rows: Any = rows, ids: Any = ids) -> float:
            model = make(optimizer="adagrad", loss="softmax", epochs=3, learning_rate=rate).fit(rows[:1500], ids[:1500])
            return float(model.score(rows[1500:], ids[1500:]))

        scores = {rate: score(rate) for rate in (0.03, 0.3, 3.0, 30.0)}
        lost[name] = {rate: max(scores.values()) - found for rate, found in scores.items()}
        assert score("auto") > max(scores.values()) - 0.06
    assert all(max(lost[name][rate] for name in lost) > 0.08 for rate in lost["noisy"]), "no rate is good for both"


def test_noises_are_drawn_by_the_power_of_the_counts() -> None:
    """What training is given, and that it is used: unigram to the power of 0 is uniform, and 1 and 3 differ."""
    ids = np.repeat(np.arange(6), [1, 2, 4, 8, 16, 32])
    rows = np.random.default_rng(6).normal(size=(len(ids), 4))
    counts = np.bincount(ids, minlength=9)  # three classes without rows count as if they had one
    for power in (0.0, 0.5, 1.0, 3.0):
        model = make(noise="unigram", noise_power=power)
        examples, _ = model._examples(rows, ids, None)
        noise = beam_tree_training.Learning.of(model, examples, counts).noise
        expected = np.array([1, 2, 4, 8, 16, 32, 1, 1, 1]) ** power
        assert noise is not None
        np.testing.assert_allclose(noise.probabilities, expected / expected.sum())
    assert beam_tree_training.Learning.of(make(noise="uniform"), examples, counts).noise is None
    for loss in ("cane", "nce"):
        fitted = [make(loss=loss, noise="unigram", noise_power=power).fit(rows, ids) for power in (0.0, 1.0, 3.0)]
        assert not same(fitted[0], fitted[1]) and not same(fitted[1], fitted[2])


def test_a_given_tree_is_saved_with_the_model(tmp_path: Path) -> None:
    model = make(tree=LabelTree.random(6, branching=3, max_leaf=2), class_weight={0: 2.0, 5: 1}).fit(X, y)
    model.save(tmp_path / "model")
    loaded = sylvan.load(tmp_path / "model")
    assert loaded.tree == model.tree and loaded.class_weight == {0: 2.0, 5: 1.0}
    assert same(loaded.fit(X, y), model)


def test_trees_that_do_not_fit_are_refused() -> None:
    with raises(DataError, "leaf", 6):
        make(tree=LabelTree.flat(7)).fit(X, y)
    overlapping = LabelTree((np.array([0, 2]), np.array([0, 4, 7])), np.array([0, 1, 2, 3, 3, 4, 5]), 6)
    with raises(DataError, "leaf", "class"):
        make(tree=overlapping).fit(X, y)


def test_more_candidates_than_classes_are_all_of_them() -> None:
    """Which leaves no noise to draw."""
    models = [make(n_candidates=n, n_noises=4).fit(X, y) for n in (6, 7, 10_000)]
    assert same(models[0], models[1]) and same(models[0], models[2])
    assert models[0].history_[:, 1].tolist() == [1.0] * 10


def test_too_little_memory_is_said_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam_tree_training, "available_bytes", lambda: 100)
    sentence = (6, "force=True")
    with raises(MemoryLimitError, sentence):
        make().fit(X, y)
    assert make().fit(X, y, force=True).score(X, y) == 1


def test_a_plan() -> None:
    model = BeamTreeClassifier(n_jobs=1)
    plan = model.plan(X, y)
    assert plan.fits and [phase.name for phase in plan.phases] == ["tree", "learning rate", "training"]
    assert 0 < plan.seconds < 60 and plan.model_bytes >= 2 * 4 * 6 * 7
    assert not hasattr(model, "weights_")
    assert BeamTreeClassifier(learning_rate=1.0).plan(X, np.zeros(120, int)).seconds < 1


# ---------------------------------------- beside the others


def test_trees_are_no_deeper_than_what_a_folder_holds() -> None:
    for depth, good in ((64, True), (65, False), (500, False)):
        chain = LabelTree((np.array([0, 1]),) * (depth - 1) + (np.array([0, 4]),), np.arange(4), 4)
        model, given = make(tree=chain, epochs=1), (X[:40], np.arange(40) // 10)
        if good:
            model.fit(*given)
            continue
        with raises(DataError, 64, depth):
            model.fit(*given)
        starts = np.concatenate([np.arange(depth), [depth - 1 + 4]]).astype(np.int64)
        with raises(ValueError, "deep"):
            kernels.ClassTree(starts, np.arange(4, dtype=np.int32))


def test_a_model_that_went_out_of_bounds_is_no_model_any_more() -> None:
    model = make(optimizer="sgd", epochs=1).fit(X, y)
    with raises(DataError, "learning_rate=0.5"):
        model.set_params(l2=1e12).partial_fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("sparse", [False, True])
def test_partial_fit_refuses_what_fit_refuses(sparse: bool) -> None:
    given, large = (sp.csr_matrix(X), sp.csr_matrix(X * np.float32(1e30))) if sparse else (X, X * np.float32(1e30))
    model = make(epochs=1).fit(given, y)
    for call in (model.partial_fit, BeamTreeClassifier(n_jobs=1).fit):
        with raises(DataError, "learned"):
            call(large, y)
