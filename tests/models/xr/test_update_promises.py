"""What update promises beside a training anew: errors that change nothing, rows that are gone, copies, files, names."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.errors import raises
from kit.weights import dense_weights
from label_scores import assert_split, label_scores

from sylvan import LabelTree, NeighborRanker, XRLinear
from sylvan.errors import DataError, NotFittedError, SylvanError, UnsupportedError

EXACT: dict[str, Any] = {
    "branching": 2, "max_leaf": 3, "negatives": "tfn", "scaling": "none", "threshold": 0.0, "weight_dtype": "float32",
    "negative_cost": 1.0, "calibration": None, "tolerance": 1e-4, "max_iterations": 20_000, "n_jobs": 1,
}  # fmt: skip
N_FEATURES, N_LABELS = 16, 9


def made(seed: int, n: int, n_labels: int = N_LABELS) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Rows of length 1, each with one to three labels."""
    random = np.random.default_rng(seed)
    X = random.random((n, N_FEATURES)) * (random.random((n, N_FEATURES)) < 0.3)
    X[X.sum(1) == 0, 0] = 1
    Y = np.zeros((n, n_labels))
    for row in Y:
        row[random.choice(n_labels, random.integers(1, 4), replace=False)] = 1
    return sp.csr_matrix(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float32), sp.csr_matrix(Y)


def trained(**params: Any) -> XRLinear:
    return XRLinear(**{**EXACT, "keep_rows": True, **params}).fit(*made(0, 40))


def assert_as_trained_anew(model: XRLinear, X: Any, Y: Any, asked: Any = None) -> None:
    """A training on these rows alone, with the model's tree, gives every label the same score for every row."""
    given = {**model.get_params(), "keep_rows": False, "tree": model.tree_, "tolerance": 1e-5}
    asked = X if asked is None else asked
    anew = XRLinear(**given).fit(X, Y)
    np.testing.assert_allclose(label_scores(model, asked), label_scores(anew, asked), atol=1e-3)


# ---------------------------------------- errors

NEW_X, NEW_Y = made(1, 3)
WIDE, NAN = sp.hstack([NEW_X, NEW_X]).tocsr(), sp.csr_matrix(np.full((3, N_FEATURES), np.nan))
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ("X", "Y", "forget")),
    "weights of no rows": ({"sample_weight": [1.0]}, "sample_weight"),
    "weights without rows": ({"forget": [1], "sample_weight": [1.0]}, "sample_weight"),
    "no labels": ({"X": NEW_X}, ("X", "Y", "together")),
    "no features": ({"Y": NEW_Y}, ("X", "Y", "together")),
    "no rows": ({"X": NEW_X[:0], "Y": NEW_Y[:0]}, "(0, 16)"),
    "other features": ({"X": WIDE, "Y": NEW_Y}, (32, 16)),
    "other lengths": ({"X": NEW_X, "Y": NEW_Y[:2]}, ("(3, 16)", "number")),
    "no numbers": ({"X": NAN, "Y": NEW_Y}, "NaN"),
    "a weight below zero": ({"X": NEW_X, "Y": NEW_Y, "sample_weight": [1, -1, 1]}, ("[0, inf)", -1)),
    "too few weights": ({"X": NEW_X, "Y": NEW_Y, "sample_weight": [1, 1]}, "sample_weight"),
    "a label below zero": ({"X": NEW_X, "Y": [[0], [-1], [2]]}, "-1"),
    "names without names": ({"X": NEW_X, "Y": [["a"], ["b"], ["c"]]}, "names"),
    "a removed label": ({"X": NEW_X, "Y": [[0], [8], [2]]}, "label 8"),
    "a row that never was": ({"forget": [40]}, "40"),
    "a row below zero": ({"forget": [-1]}, "-1"),
    "a row forgotten before": ({"forget": [3, 7]}, "row 7"),
    "half a row": ({"forget": [1.5]}, "1.5"),
    "a mask of rows": ({"forget": np.arange(40) == 3}, "bool"),
    "named rows": ({"forget": ["first"]}, "forget"),
    "all rows": ({"forget": [row for row in range(40) if row != 7]}, "left"),
    "good rows beside a bad one": ({"X": NEW_X, "Y": NEW_Y, "forget": [0, 99]}, "99"),
    "a label with itself": ({"merge": {1: [1]}}, ("merged", 1)),
    "a label into two": ({"merge": {1: [3], 2: [3]}}, ("become", 3)),
    "a label that is merged away": ({"merge": {1: [2], 2: [3]}}, ("become", "two")),
    "a label that isn't known": ({"merge": {1: [20]}}, ("[0, 8]", 20)),
    "into a label that isn't known": ({"merge": {20: [1]}}, ("[0, 8]", 20)),
    "names that aren't known": ({"merge": {"a": ["b"]}}, "'a'"),
    "a label removed before": ({"merge": {1: [8]}}, ("removed", 8)),
    "into a label removed before": ({"merge": {8: [1]}}, ("removed", 8)),
    "merging pairs": ({"merge": [(1, 2)]}, "mapping"),
    "merging a number": ({"merge": {1: 2.5}}, "2.5"),
    "neither precise nor quick": ({"X": NEW_X, "Y": NEW_Y, "precise": "no"}, ("precise", "None", "no")),
    "rows beside those kept": ({"X": NEW_X, "Y": NEW_Y, "rows": made(0, 40)}, ("rows", "keeps")),
}  # fmt: skip


@pytest.fixture(scope="module", params=[trained, lambda: NeighborRanker().fit(*made(0, 40))], ids=["tree", "rows"])
def lived(request: Any) -> Any:
    """A model that has forgotten row 7 and lost label 8."""
    return request.param().update(forget=[7]).without_labels([8]).update(forget=[])


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_changes_nothing(lived: Any, name: str) -> None:
    arguments, words = WRONG[name]
    if "precise" in arguments and isinstance(lived, NeighborRanker):
        pytest.skip("it is always precise")
    before, known = bits(lived), vars(lived).copy()
    with raises((DataError, SylvanError), words) as caught:
        lived.update(**arguments)
    assert str(caught.value).endswith(".")
    assert bits(lived) == before
    assert vars(lived).keys() == known.keys()
    assert all(vars(lived)[name] is value for name, value in known.items())


def test_a_model_without_rows() -> None:
    model = trained(keep_rows=False)
    before = bits(model)
    with raises(UnsupportedError, "keep_rows=True"):
        _ = model.row_ids_
    X, Y = made(0, 40)
    for rows, words in (((X[:5], Y[:5]), (5, 40)), (X, "pair"), ((WIDE, NEW_Y), (32, "(3, 32)"))):
        with raises(DataError, words):
            model.update(NEW_X, NEW_Y, rows=rows)
    assert bits(model) == before
    with pytest.raises(NotFittedError):
        XRLinear(keep_rows=True).update(NEW_X, NEW_Y)


def test_rows_that_are_given_again() -> None:
    X, Y = made(0, 40)
    model = trained(keep_rows=False).update(NEW_X, NEW_Y, forget=[0, 39], merge={1: [2]}, rows=(X, Y))
    kept = trained().update(NEW_X, NEW_Y, forget=[0, 39], merge={1: [2]})
    assert model.n_rows_ == 41
    assert model.tree_ == kept.tree_
    np.testing.assert_allclose(label_scores(model, X), label_scores(kept, X), atol=1e-3)


# ---------------------------------------- rows


def test_answers_that_calibrate_come_and_go_with_their_rows() -> None:
    model = XRLinear(keep_rows=True, **{**EXACT, "calibration": "isotonic", "tolerance": 0.1}).fit(*made(0, 150))
    held_out = model.training_rows_.held_out.ids.tolist()
    model.update(NEW_X, NEW_Y, forget=held_out[:2])
    assert model.training_rows_.held_out.ids.tolist() == [*held_out[2:], 150, 151, 152]
    model.update(forget=[151])
    assert model.training_rows_.held_out.ids.tolist() == [*held_out[2:], 150, 152]


ODD = 0.71828  # in no other row


def with_an_odd_row(X: sp.csr_matrix, Y: sp.csr_matrix, feature: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    row = X[[0]].toarray()
    row[0, feature] = ODD
    return sp.vstack([X, sp.csr_matrix(row)]).tocsr(), sp.vstack([Y, Y[[0]]]).tocsr()


def weighted_features(model: XRLinear) -> set[int]:
    """Features on which any node of any tree has a weight."""
    layers = [layer for ranker in model.rankers_ for layer in ranker.layers]
    return {f for layer in layers for f in np.flatnonzero(dense_weights(layer).any(axis=1)).tolist()}


@pytest.mark.parametrize(
    ("learned", "params"),
    [("later", {}), ("at first", {}), ("later", {"negatives": "paper", "beam": 1}), ("at first", {"loss": "logistic"}),
     ("at first", {"n_trees": 2, "weight_dtype": "uint8"}), ("at first", {"precise": False}),
     ("later", {"max_iterations": 1, "tolerance": 0.1})],
    ids=["exact", "exact, at first", "searched", "logistic", "two trees", "waiting", "unfinished"],
)  # fmt: skip
def test_nothing_depends_on_a_forgotten_row(learned: str, params: dict[str, Any], tmp_path: Path) -> None:
    """A row that alone has a feature: afterwards no weight is on it, and its number isn't on the disk."""
    how = {name: value for name, value in params.items() if name == "precise"}
    params = {name: value for name, value in params.items() if name != "precise"}
    X, Y = made(3, 60)
    X = sp.csr_matrix(X.toarray() * (np.arange(N_FEATURES) != 5))
    odd_X, odd_Y = with_an_odd_row(X, Y, 5)
    model = XRLinear(**{**EXACT, "keep_rows": True, **params})
    if learned == "at first":
        model.fit(odd_X, odd_Y)
    else:
        model.fit(X, Y).update(odd_X[[60]], odd_Y[[60]], precise=True)
    assert 5 in weighted_features(model)
    model.save(tmp_path / "before")
    assert any(np.float32(ODD).tobytes() in file.read_bytes() for file in (tmp_path / "before").iterdir())
    model.update(forget=[60], **how)
    assert 5 not in weighted_features(model)
    model.save(tmp_path / "after")
    assert not any(np.float32(ODD).tobytes() in file.read_bytes() for file in (tmp_path / "after").iterdir())
    assert bits(model.rank(odd_X[[60]], k=5)) == bits(model.rank(X[[0]], k=5))
    if not how and (not params or "loss" in params):
        assert_as_trained_anew(model, X, Y, odd_X)


# ---------------------------------------- copies, threads, files


def test_a_row_that_a_merge_takes_from_a_node_leaves_it_though_it_is_answered_well_without() -> None:
    """As a negative the row has a loss of 0 at once, but the node was pulled towards it as towards a positive."""
    X, Y = np.zeros((84, 4), np.float32), np.zeros((84, 4))
    X[:40, 0] = X[40:80, 1] = X[81:, 2] = X[80, :2] = 1
    Y[:80, 2] = Y[80, 0] = Y[81:, 1] = 1  # label 0 is that of the one row of both features
    tree = LabelTree((np.array([0, 2]), np.array([0, 2, 4])), np.arange(4, dtype=np.int32), 4)
    model = XRLinear(**{**EXACT, "keep_rows": True, "tree": tree, "bias": 0.0}).fit(X, Y)
    model.update(merge={2: [0]})
    Y[80] = [0, 0, 1, 0]
    assert_as_trained_anew(model, X, Y)


def test_a_cluster_that_a_merge_empties_takes_no_rows_from_others() -> None:
    """What is trained on the rows that a search sends it doesn't depend on a node that the same update removes."""
    for seed in (3, 13, 21):
        X, Y = made(seed, 40, 7)
        params = {**EXACT, "max_leaf": 2, "negatives": "paper", "beam": 3, "man_threshold": 0.0}
        model = XRLinear(keep_rows=True, **params).fit(X, Y)
        offsets, leaves = model.tree_.child_offsets[-1], model.tree_.leaf_labels
        c = int(np.diff(offsets).argmin())
        sources = leaves[offsets[c] : offsets[c + 1]].tolist()
        target = int(leaves[offsets[c + 1]] if c + 2 < len(offsets) else leaves[0])
        model.update(merge={target: sources})
        dense = Y.toarray()
        dense[:, target] = dense[:, [target, *sources]].max(axis=1)
        dense[:, sources] = 0
        assert_as_trained_anew(model, X, dense)


@pytest.mark.parametrize("params", [{"negatives": "paper", "n_trees": 2}, {"tolerance": 0.1, "max_iterations": 10}])
def test_the_same_bits_with_any_number_of_threads(params: dict[str, Any]) -> None:
    one, two = (trained(n_jobs=n_jobs, **params) for n_jobs in (1, 2))
    for model in (one, two):
        model.update(*made(5, 30, 14)).update(forget=range(0, 30, 4)).update(*made(6, 2, 14), merge={0: [3, 9]})
    assert bits(one) == bits(two)
    assert one.tree_.n_labels == 14


# ---------------------------------------- trees


def test_clusters_of_labels_without_rows_are_split_too() -> None:
    model = trained(max_leaf=4).update(NEW_X, sp.csr_matrix(([1.0], ([0], [0])), shape=(3, 60)))
    assert model.n_labels_ == 60 and 0 < model.drift_ < 1
    assert_split(model, model.tree_)
    assert sorted(model.tree_.leaf_labels.tolist()) == list(range(60))


# ---------------------------------------- names


def named() -> XRLinear:
    names = [["moon", "sun"], ["earth"], ["sun"], ["moon"]] * 10
    return XRLinear(keep_rows=True, **EXACT).fit(made(0, 40)[0], names)


def test_new_names_come_behind_in_alphabetical_order() -> None:
    model = named()
    model.update(NEW_X, [["venus", "earth"], ["mars"], ["io", "sun"]])
    assert model.classes_.tolist() == ["earth", "moon", "sun", "io", "mars", "venus"]
    assert model.label_counts_.tolist() == [11, 20, 21, 1, 1, 1]
    assert set(model.rank(NEW_X, k=6).labels.ravel().tolist()) == set(range(6))
    model.update(merge={"sun": ["io", "moon"]})
    assert model.classes_[[0, 2, 4, 5]].tolist() == ["earth", "sun", "mars", "venus"]
    assert model.label_counts_.tolist() == [11, 0, 31, 0, 1, 1]
    assert set(model.rank(NEW_X, k=6).labels.ravel().tolist()) == {0, 2, 4, 5, -1}
    for merge, word in (({"sun": ["pluto"]}, "pluto"), ({"pluto": ["sun"]}, "pluto"), ({"sun": ["moon"]}, "moon")):
        before = bits(model)
        with raises(DataError, word):
            model.update(merge=merge)
        assert bits(model) == before


def test_a_name_that_was_removed_is_a_new_label_when_it_comes_again() -> None:
    model = named().without_labels(["sun"]).update(NEW_X, [["sun"], ["sun"], ["earth"]])
    assert model.classes_[[0, 1, 3]].tolist() == ["earth", "moon", "sun"]
    assert model.label_counts_[[0, 1, 3]].tolist() == [11, 20, 2]


@pytest.mark.parametrize("Y", [sp.csr_matrix(([1.0], ([0], [3])), shape=(3, 5)), np.array([0, 1, 4])])
def test_a_label_of_a_named_model_needs_a_name(Y: Any) -> None:
    model = named()
    before = bits(model)
    with raises(DataError, "Y"):
        model.update(NEW_X, Y)
    assert bits(model) == before


def test_one_class_a_row() -> None:
    model = XRLinear(keep_rows=True, **EXACT).fit(made(0, 40)[0], np.array(["b", "d"] * 20))
    model.update(NEW_X, np.array(["c", "a", "d"]))
    assert model.classes_.tolist() == ["b", "d", "a", "c"]
    assert model.label_counts_.tolist() == [20, 21, 1, 1]


# ---------------------------------------- with the defaults


def test_defaults_answer_as_well_as_a_training_anew() -> None:
    """Twenty topics of their own words: eight updates of rows, topics that come later among them."""
    random = np.random.default_rng(0)
    topics = random.integers(0, 20, 500)
    words = np.array([random.choice(np.arange(10 * t, 10 * t + 10), 4, replace=False) for t in topics])
    noise = random.integers(0, 200, (500, 2))
    X = np.zeros((500, 200), np.float32)
    for columns in (*words.T, *noise.T):
        X[np.arange(500), columns] = 0.4
    first = np.flatnonzero(topics[:250] < 17)
    later = np.setdiff1d(np.arange(350), first)
    test = np.arange(350, 500)
    params: dict[str, Any] = {"max_leaf": 8, "branching": 4, "n_jobs": 1}
    model = XRLinear(keep_rows=True, **params).fit(X[first], topics[first])
    for part in np.array_split(later, 8):
        model.update(X[part], topics[part])
    model.update(forget=model.row_ids_[:30])
    rest = np.r_[first, later][30:]
    anew = XRLinear(**params).fit(X[rest], topics[rest])
    found = [each.score(X[test], topics[test]) for each in (model, anew)]
    assert found[0] >= found[1] - 0.01 and found[1] > 0.9
    chances = model.predict_proba(X[test])
    assert 0 <= chances.min() <= chances.max() <= 1


# ---------------------------------------- quick updates


def test_a_new_label_is_solved_to_the_end_in_a_quick_update_too() -> None:
    """Only children that start near their minimum get few rounds; what is new starts from nothing."""
    X, Y = made(0, 120)
    more, _ = made(1, 30)
    params = {**EXACT, "max_leaf": 100, "negatives": "tfn", "combine": "ranker"}
    model = XRLinear(keep_rows=True, **params).fit(X, Y)
    model.update(more, np.full(30, N_LABELS), precise=False)
    anew = XRLinear(**params).fit(sp.vstack([X, more]).tocsr(), sp.vstack([
        sp.hstack([Y, sp.csr_matrix((120, 1))]), sp.csr_matrix((np.ones(30), (range(30), [N_LABELS] * 30))),
    ]).tocsr())  # fmt: skip
    np.testing.assert_allclose(label_scores(model, X)[:, N_LABELS], label_scores(anew, X)[:, N_LABELS], atol=1e-3)
