"""Ensemble: weights, members of several kinds, names, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

import sylvan
from sylvan import BeamTreeClassifier, Ensemble, LabelTree, NeighborRanker, TextModel, TfidfVectorizer, XRLinear
from sylvan.arrays import validate
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError
from sylvan.metrics.tallies import hits
from sylvan.models.ensembles.members import known_labels
from sylvan.models.text_estimator import UNKNOWN_TEXT
from sylvan.ranking.calibrate import Calibrator
from sylvan.ranking.ensemble import WAYS

TEXTS = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"] * 5
LABELS = [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]] * 5


def matrices(n: int = 80, seed: int = 0, noise: float = 0.3, wrong: float = 0) -> tuple[np.ndarray, list[list[int]]]:
    """Feature l says label l, and there is noise; so many rows have another label, which nothing says."""
    random = np.random.default_rng(seed)
    labels = [sorted({i % 8, int(random.integers(8))}) for i in range(n)]
    X = random.random((n, 12)).astype(np.float32) * noise
    for row, ids in enumerate(labels):
        X[row, ids] += 1
    return X, [[int(random.integers(8))] if random.random() < wrong else ids for ids in labels]


X, Y = matrices()


def by_hand(members: list[Any], weights: list[float], X: np.ndarray) -> np.ndarray:
    """The weighed means of the members' probabilities, dense."""
    return sum(w * m.predict_proba(X).toarray() for m, w in zip(members, weights, strict=True))


def test_the_score_is_the_weighed_mean_of_probabilities() -> None:
    members = [XRLinear(combine="ranker").fit(X, Y), NeighborRanker().fit(X, Y)]
    joined = Ensemble.of_fitted(members, weights=[3, 1])
    np.testing.assert_allclose(joined.predict_proba(X).toarray(), by_hand(members, [0.75, 0.25], X), atol=1e-6)
    assert joined.weights_.tolist() == [0.75, 0.25]
    assert joined.members[0] is members[0]


def test_a_member_of_no_weight_is_not_asked() -> None:
    members = [XRLinear().fit(X, Y), NeighborRanker().fit(X, Y)]
    alone = Ensemble.of_fitted(members, weights=[1, 0])
    members[1].rank = None  # type: ignore[method-assign]
    assert alone.rank(X, 3).labels.tolist() == members[0].rank(X, 3).labels.tolist()


@pytest.mark.parametrize("how", WAYS)
def test_every_way_finds_the_labels(how: str, tmp_path: Path) -> None:
    joined = Ensemble([XRLinear(), NeighborRanker(), XRLinear(seed=1)], how=how, votes=2).fit(X, Y)
    top = joined.rank(X, 5)
    assert sylvan.metrics.precision(Y, top, at=1)[1] > 0.9
    assert np.nanmax(np.where(top.labels >= 0, top.scores, np.nan)) <= 1
    joined.save(tmp_path / "m")
    assert sylvan.load(tmp_path / "m").rank(X, 5).scores.tobytes() == top.scores.tobytes()


def test_fit_leaves_the_models_it_was_given_alone() -> None:
    member = XRLinear()
    joined = Ensemble([member, XRLinear(seed=1)]).fit(X, Y)
    with pytest.raises(NotFittedError):
        member.rank(X)
    assert joined.members[0].rank(X).labels.shape == (80, 10)


def test_fitted_weights_hold_out_rows_and_prefer_the_better_member() -> None:
    X, Y = matrices(400, noise=2)
    worse = NeighborRanker(n_neighbors=1)
    joined = Ensemble([worse, XRLinear()], weights="fit").fit(X, Y)
    assert joined.weights_[1] > joined.weights_[0]
    few = Ensemble([XRLinear(), NeighborRanker()], weights="fit").fit(X[:8], Y[:8])
    assert few.weights_.tolist() == [0.5, 0.5]


def test_weights_for_members_that_are_fitted() -> None:
    X, Y = matrices(200)
    new_X, new_Y = matrices(100, seed=1)
    joined = Ensemble.of_fitted([XRLinear().fit(X, Y), NeighborRanker().fit(X[:3], np.eye(3, 8))])
    before = sylvan.metrics.precision(new_Y, joined.rank(new_X), at=1)[1]
    assert joined.fit_weights(new_X, new_Y) is joined
    assert sylvan.metrics.precision(new_Y, joined.rank(new_X), at=1)[1] >= before
    with raises(DataError, "label"):
        joined.fit_weights(new_X, np.zeros((100, 8)))
    with raises(DataError, 100):
        joined.fit_weights(new_X, new_Y[:7])


def test_texts_are_joined_by_name() -> None:
    words = TextModel().fit(TEXTS, LABELS)
    parts = TextModel(TfidfVectorizer(analyzer="char_wb", ngrams=(2, 4))).fit(TEXTS[1:4], [["Sea"], ["Baking"], []])
    joined = Ensemble.of_fitted([words, parts])
    assert sorted(joined.vocabulary_) == ["Baking", "Sea", "Voyages", "Whaling"]
    assert joined.classes_.tolist() == list(joined.vocabulary_)
    top = joined.rank(["a bread", "south seas"], k=4)
    assert top.names[0][0] == "Baking" and set(top.names[1]) == {"Whaling", "Voyages", "Baking", "Sea"}
    proba = joined.predict_proba(["a bread"]).toarray()[0]
    both = [model.predict_proba(["a bread"]).toarray()[0][model.vocabulary_.id("Baking")] for model in (words, parts)]
    assert proba[joined.vocabulary_.id("Baking")] == pytest.approx(sum(both) / 2)
    assert joined.choose(["a bread"], k=1).names == [["Baking"]]
    assert joined.choose(["a bread"], threshold={"Baking": 0.01, "Sea": 1}).names[0][0] == "Baking"
    assert joined.fit_weights(TEXTS, [*LABELS[:-1], ["Never seen"]]).weights_.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"allowed": ["Sea", "Voyages"]}, {"Sea", "Voyages"}),
        ({"denied": ["Whaling"]}, {"Sea", "Voyages", "Baking"}),
        ({"allowed": [["Sea"], ["Baking"]]}, {"Sea"}),
        ({"denied": [["Sea"], ["Baking"]]}, {"Whaling", "Voyages", "Baking"}),
        ({"allowed": ["Sea", "Baking"], "denied": [["Sea"], []]}, {"Baking"}),
    ],
)
def test_labels_of_several_vocabularies_are_allowed_by_name(given: dict[str, Any], left: set[str]) -> None:
    words = TextModel().fit(TEXTS, LABELS)
    parts = TextModel().fit(TEXTS[1:4], [["Sea"], ["Baking"], ["Sea"]])
    joined = Ensemble.of_fitted([words, parts])
    assert set(joined.rank(["seas and bread", "bread"], k=4, **given).names[0]) == left


def test_labels_of_matrices_may_have_names(tmp_path: Path) -> None:
    names = [[f"label {label}" for label in row] for row in Y]
    joined = Ensemble([XRLinear(), NeighborRanker()], weights="fit").fit(X, names)
    assert joined.rank(X[:1], 2, denied=["label 1"]).names[0][0] in names[0]
    assert joined.fit_weights(X, names).score(X, names) > 0.9
    joined.save(tmp_path / "m")
    assert sylvan.load(tmp_path / "m").rank(X, 3).names == joined.rank(X, 3).names
    assert joined.choose(X[:1], threshold={"label 7": 0.9}).names[0][0] in names[0]


def test_weights_of_texts_are_fitted_in_fit() -> None:
    members = [TextModel(), TextModel(TfidfVectorizer(ngrams=(1, 2)))]
    joined = Ensemble(members, weights="fit").fit(TEXTS * 10, LABELS * 10)
    assert joined.weights_.sum() == pytest.approx(1)
    Y = sylvan.data.Vocabulary.from_labels(LABELS).encode(LABELS)
    assert Ensemble(members, weights="fit").fit(TEXTS * 2, Y.toarray()[np.arange(40) % 20]).n_labels_ == 3


def test_explanations_of_members() -> None:
    joined = Ensemble([TextModel(), TextModel(TfidfVectorizer(ngrams=(1, 2)), XRLinear(n_trees=2))]).fit(TEXTS, LABELS)
    found = joined.explain("bread", "Baking", examples=(TEXTS, LABELS))
    assert [vote.number for vote in found.trees] == [0, 1, 2] and found.examples and found.place == 1
    with raises(ParameterError, "tail", "Reranker"):
        joined.rank(["bread"], tail="psp")
    other = Ensemble.of_fitted([TextModel().fit(TEXTS, LABELS), TextModel().fit(TEXTS, [["Sea"]] * 20)], weights=[1, 0])
    with raises(DataError, "Sea"):
        other.explain("bread", "Sea")


@pytest.mark.parametrize(
    ("text", "unknown", "said"), [("breads", "none", False), ("zzz", "none", True), ("zzz", "prior", False)]
)
def test_a_text_is_called_unknown_where_no_member_knows_it(text: str, unknown: str, said: bool) -> None:
    characters = TextModel(TfidfVectorizer(analyzer="char_wb", ngrams=(3, 4)))
    found = Ensemble([TextModel(), characters], unknown=unknown).fit(TEXTS, LABELS).explain(text, "Baking")
    assert (UNKNOWN_TEXT in found.notes) == (found.place is None) == said
    assert len(found.trees) == {"breads": 1, "zzz": 0 if said else 2}[text]


def test_options_go_to_the_members_that_take_them() -> None:
    joined = Ensemble([XRLinear(max_leaf=2, branching=2), NeighborRanker()]).fit(X, Y)
    assert joined.rank(X, 3, beam=1).scores.tobytes() != joined.rank(X, 3).scores.tobytes()
    with raises(ParameterError, "beem"):
        joined.rank(X, 3, beem=1)
    joined.set_params(member0__beam=1)
    assert joined.get_params()["member0__beam"] == 1
    nested = TextModel(model=Ensemble([XRLinear(), Ensemble([XRLinear(seed=1)])])).fit(TEXTS, LABELS)
    assert nested.rank(["bread"], 1, beam=2).names == [["Baking"]]


@pytest.mark.parametrize("kind", [Ensemble, sylvan.Reranker])
def test_what_does_not_fit_together_is_refused(kind: Any) -> None:
    one, text = XRLinear().fit(X, Y), TextModel().fit(TEXTS, LABELS)
    named, other = XRLinear().fit(X, [["a"]] * len(X)), TextModel().fit(TEXTS, LABELS)
    other.text_fields_ = ("title", "author")
    for members, words in (
        ([one, text], "matrices"), ([one, XRLinear().fit(X[:, 1:], Y)], ("features", 12, 11)),
        ([one, NeighborRanker().fit(X, [[8], *Y[1:]])], ("numbers", 8, 9)), ([one, named], "names"),
        ([text, other], "author"),
    ):  # fmt: skip
        with raises(DataError, words):
            kind.of_fitted(members)
    with pytest.raises(NotFittedError):
        kind.of_fitted([one, XRLinear()])
    with raises(DataError, "TextModel"):
        TextModel.from_parts(text.vectorizer, kind.of_fitted([text]), text.vocabulary_)
    for given, words in (([], (0, "members")), ([XRLinear(), "XRLinear"], "str"), (XRLinear(), "estimators")):
        with raises(ParameterError, words):
            kind(given, n_jobs=1).fit(X, Y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2, 3], ("weights", 3, 2)), ([0, 0], (0, "weights")), ([1, -1], "[0, inf)"),
        ([1, float("nan")], "[0, inf)"), (["1", "2"], "[0, inf)"), ("best", ("None", "fit")), (1.0, ("None", "fit")),
    ],
)  # fmt: skip
def test_weights_that_are_none_are_refused(weights: Any, message: object) -> None:
    joined = Ensemble([XRLinear(), XRLinear()], weights=weights)
    with raises(ParameterError, message):
        joined.fit(X, Y)
    with raises(ParameterError, message):  # before any member is trained
        joined.check_params()


def test_weights_may_be_an_array() -> None:
    given = Ensemble([XRLinear(), XRLinear()], weights=np.array([3, 1], np.float32)).fit(X, Y)
    assert given.weights_.tolist() == [0.75, 0.25]
    assert given.to_state().params["weights"] == [3.0, 1.0]
    with raises(ParameterError, "fit_weights", "fit"):
        Ensemble.of_fitted([XRLinear().fit(X, Y)], weights="fit")  # type: ignore[arg-type]


def test_a_folder_that_is_not_whole_is_refused() -> None:
    state = Ensemble([XRLinear(), XRLinear()]).fit(X, Y).to_state()
    state.arrays["weights"] = np.array([0.5, 0.25])
    with raises(ModelError, 1, "0.75"):
        Ensemble.from_state(state)
    state.arrays["weights"] = np.array([0.5, 0.5])
    state.parts["member1"] = LabelTree.random(8).to_state()
    with raises(ModelError, "LabelTree", "ranks"):
        Ensemble.from_state(state)
    del state.parts["member1"]
    with raises(ModelError, "member1"):
        Ensemble.from_state(state)
    assert "ensemble" in sylvan.store.loaders


def test_an_ensemble_is_calibrated_on_what_all_members_hold_out(tmp_path: Path) -> None:
    X, Y = matrices(1000, noise=0.6, wrong=0.25)
    X_test, Y_test = matrices(800, seed=1, noise=0.6, wrong=0.25)
    joined = Ensemble([XRLinear(max_leaf=4), NeighborRanker()], weights=[2, 1]).fit(X, Y)
    assert joined.calibrator_ is not None
    assert all(member.calibrator_ is not None for member in joined.members)
    top = joined.rank(X_test, 5)
    expected = by_hand(list(joined.members), [2 / 3, 1 / 3], X_test)
    np.testing.assert_allclose(top.to_csr(8).toarray().max(axis=1), expected.max(axis=1), atol=1e-6)
    after = sylvan.metrics.calibration_error(Y_test, joined.probabilities(top), at=(1, 2))
    assert max(after.values()) < 0.06, after
    seen = joined.rank(X, 5)
    optimistic = Calibrator.fit("isotonic", joined.bounded(seen), hits(seen, validate.labels(Y)))
    assert optimistic is not None
    learned = sylvan.metrics.calibration_error(Y_test, optimistic(joined.bounded(top)), at=1)[1]
    assert after[1] < learned, "the rows were held out of the neighbours"
    joined.save(tmp_path / "m")
    loaded = sylvan.load(tmp_path / "m")
    assert (loaded.predict_proba(X_test) != joined.predict_proba(X_test)).nnz == 0
    assert Ensemble([XRLinear()]).fit(X[:60], Y[:60]).calibrator_ is None


def test_without_calibration_or_with_a_member_that_holds_nothing_out() -> None:
    X, Y = matrices(400, noise=0.6, wrong=0.25)
    assert Ensemble([XRLinear()], calibration=None).fit(X, Y).calibrator_ is None
    one_each = [ids[0] for ids in Y]
    assert Ensemble([XRLinear(), BeamTreeClassifier()]).fit(X, one_each).calibrator_ is None


def test_weights_that_change_change_the_curves() -> None:
    X, Y = matrices(600, noise=0.6, wrong=0.25)
    X_new, Y_new = matrices(300, seed=2, noise=0.6, wrong=0.25)
    joined = Ensemble([XRLinear(max_leaf=4), NeighborRanker()]).fit(X, Y)
    before = joined.calibrator_
    assert joined.fit_weights(X_new, Y_new).calibrator_ not in (None, before)
    assert joined.fit_weights(X_new[:8], Y_new[:8]).calibrator_ is None  # too few answers


def test_fitted_members_are_calibrated_on_other_rows_and_keep_their_weights(tmp_path: Path) -> None:
    X, Y = matrices(400, noise=0.6, wrong=0.25)
    X_new, Y_new = matrices(400, seed=1, noise=0.6, wrong=0.25)
    X_test, Y_test = matrices(400, seed=2, noise=0.6, wrong=0.25)
    joined = Ensemble.of_fitted([XRLinear().fit(X, Y), NeighborRanker().fit(X, Y)], weights=[0.9, 0.1])
    assert joined.calibrator_ is None
    top = joined.rank(X_test, 2)
    raw = sylvan.metrics.calibration_error(Y_test, joined.probabilities(top), at=1)[1]
    assert joined.calibrate(X_new, Y_new) is joined and joined.weights_.tolist() == pytest.approx([0.9, 0.1])
    assert joined.rank(X_test, 2).scores.tobytes() == top.scores.tobytes()
    assert sylvan.metrics.calibration_error(Y_test, joined.probabilities(top), at=1)[1] < raw
    joined.save(tmp_path / "m")
    again = sylvan.load(tmp_path / "m")
    assert again.predict_proba(X_test).data.tobytes() == joined.predict_proba(X_test).data.tobytes()
    assert joined.calibrate(X_new[:8], Y_new[:8]).calibrator_ is None  # too few answers
    with raises(ParameterError, "curves", "None"):
        Ensemble.of_fitted(joined.members, calibration=None).calibrate(X_new, Y_new)
    with raises(DataError, "calibrate"):
        joined.calibrate(X_new[:2], [[], [99]])
    with pytest.raises(NotFittedError):
        Ensemble([XRLinear()]).calibrate(X_new, Y_new)


def test_label_counts_are_those_of_the_members_that_know_a_label(tmp_path: Path) -> None:
    members = [XRLinear().fit(X, Y), NeighborRanker().fit(X[:60], Y[:60])]
    joined = Ensemble.of_fitted(members)
    assert joined.label_counts_.tolist() == members[0].label_counts_.tolist() and joined.n_rows_ == len(X)
    first = TextModel().fit(TEXTS, LABELS)
    second = TextModel(model=NeighborRanker()).fit(["stars", "bread", "bread"], [["Astronomy"], ["Baking"], ["Baking"]])
    both = Ensemble.of_fitted([second, first])
    both.save(tmp_path / "both")
    for one in (both, sylvan.load(tmp_path / "both")):
        found = dict(zip(one.vocabulary_, one.label_counts_.tolist(), strict=True))
        assert found == {"Astronomy": 1, "Baking": 10, "Whaling": 10, "Voyages": 5} and one.n_rows_ == len(TEXTS)
    without = both.without_labels(["Baking"])
    assert sorted(without.label_counts_.tolist()) == [0, 1, 5, 10]
    assert not hasattr(Ensemble([XRLinear()]), "label_counts_")


def test_a_text_model_of_an_ensemble_learns_new_texts_with_new_words() -> None:
    texts = ["whales at sea", "the white whale", "bread and cakes", "the baking of bread"]
    labels = [["Whaling"], ["Whaling"], ["Baking"], ["Baking"]]
    tagger = TextModel(model=Ensemble([XRLinear(keep_rows=True), NeighborRanker()])).fit(texts, labels)
    before = tagger.rank(texts, k=1).names
    tagger.update(["a steam engine", "engines of steam"], [["Railways"], ["Railways"]])
    assert [member.n_rows_ for member in tagger.model.members] == [6, 6]
    assert tagger.n_features_ == tagger.vectorizer.n_terms_ > 10
    assert tagger.rank(["an old engine"], k=1).names == [["Railways"]]
    assert tagger.rank(texts, k=1).names == before


@pytest.mark.parametrize("made", [Ensemble, lambda members: sylvan.Reranker(members, scorer="trees", n_trees=2)])
@pytest.mark.parametrize("names", [(-1, 1), (-5, 3, 9783161484100)])
def test_classes_that_are_no_ids(made: Any, names: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    at = np.arange(1000) % len(names)
    X, y = (np.eye(3)[at] + rng.normal(0, 0.4, (1000, 3))).astype(np.float32), np.array(names)[at]
    model = made([XRLinear(n_jobs=1), NeighborRanker(n_jobs=1)]).fit(X, y)
    assert model.calibrator_ is not None or model.scorer_ is not None
    assert (model.predict(np.eye(3, dtype=np.float32)[: len(names)]) == names).all()
    known = known_labels(y[:4], 4, model.vocabulary_, model.n_labels_)
    assert [model.vocabulary_[label] for label in known.indices] == [str(name) for name in y[:4]]
