"""IRLIIndex: what it finds, how it is set, what it does with odd and bad input."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import bits
from kit.errors import raises
from kit.watching import stopped
from word_topics import share_found

import sylvan
from sylvan import IRLIIndex
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError
from sylvan.models.irli import search
from sylvan.models.irli.vectors import exact_neighbors
from sylvan.runtime import Checkpoint, checkpointed

SMALL: dict[str, Any] = {
    "partition": "learned", "n_buckets": 32, "n_repetitions": 4, "hidden": 32, "choices": 3, "probes": 4,
    "n_neighbors": 10, "n_jobs": 1, "rounds": 1, "epochs_per_round": 3, "final_epochs": 1, "batch_size": 32,
}  # fmt: skip


def clustered(n: int, seed: int = 0, width: int = 6) -> np.ndarray:
    """Vectors around thirty centres, so that there is something to learn."""
    centres = np.random.default_rng(99).normal(size=(30, width))
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(0, 30, n)] + 0.25 * rng.normal(size=(n, width))).astype(np.float32)


BASE, QUERIES = clustered(800), clustered(60, seed=1)


@pytest.fixture(scope="module")
def index() -> IRLIIndex:
    return IRLIIndex(**SMALL).fit(BASE)


def recall(found: np.ndarray, metric: str = "euclidean", base: np.ndarray = BASE, k: int = 10) -> float:
    queries, base = (unit(QUERIES), unit(base)) if metric == "angular" else (QUERIES, base)
    return share_found(found[:, :k], exact_neighbors(queries, base, k, metric)[0])


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)).astype(np.float32)


# ---------------------------------------- right answers


def nearest(mask: np.ndarray, k: int) -> np.ndarray:
    """The k nearest for which a mask of shape (1 or n, ids) is true."""
    distances = ((QUERIES.astype(float)[:, None] - BASE[None]) ** 2).sum(axis=2)
    return np.argsort(np.where(mask, distances, np.inf), axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("compared", [4096, -1])  # all that are allowed, or those of the buckets
def test_allowed_and_denied(compared: int, index: IRLIIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sylvan.models.irli.index._COMPARED", compared)
    rng = np.random.default_rng(3)
    shared, rows = rng.random(800) < 0.3, rng.random((60, 800)) < 0.3
    exhaustive = {"probes": 32, "candidates": "all"}
    for options, mask in (
        ({"allowed": shared}, shared[None]), ({"allowed": ~shared}, ~shared[None]),
        ({"denied": np.flatnonzero(shared)}, ~shared[None]),
        ({"allowed": rows}, rows), ({"denied": rows}, ~rows), ({"allowed": shared, "denied": rows}, shared & ~rows),
    ):  # fmt: skip
        ids, distances, counts = index.search(QUERIES, 5, return_counts=True, **options, **exhaustive)
        np.testing.assert_array_equal(ids, nearest(mask, 5))
        np.testing.assert_allclose(distances, np.linalg.norm(QUERIES[:, None] - BASE[ids], axis=2), rtol=1e-5)
        assert (counts == np.broadcast_to(mask, rows.shape).sum(axis=1)).all()
        some, _, compared_with = index.search(QUERIES, 5, candidates=40, return_counts=True, **options)
        assert np.take_along_axis(np.broadcast_to(mask, rows.shape), some, axis=1).all(), "of 40 that may be answered"
        if "allowed" not in options or compared < 0:
            assert (compared_with <= 40).all() and compared_with.mean() > 30
        elif "denied" not in options:
            np.testing.assert_array_equal(some, nearest(mask, 5))  # all that are allowed were compared


def test_few_or_none_are_allowed(index: IRLIIndex) -> None:
    other = IRLIIndex(seed=0, n_jobs=1).fit(BASE)
    other.remove([5])
    for options, right in (
        ({"allowed": []}, [-1, -1]), ({"allowed": [7]}, [7, -1]), ({"allowed": [5, 7]}, [7, -1]),
        ({"denied": sorted({*range(800)} - {7})}, [7, -1]), ({"allowed": [[5, 7]] * 60}, [7, -1]),
    ):  # fmt: skip
        assert other.search(QUERIES, 2, **options)[0].tolist() == [right] * 60
    # Each query is denied all but two, near or far, for which some have to look into more buckets.
    left = np.random.default_rng(0).integers(800, size=(60, 2))
    mask = np.ones((60, 800), bool)
    np.put_along_axis(mask, left, False, axis=1)
    mask[:, 5] = True
    for row, ids in enumerate(other.search(QUERIES, 2, denied=mask)[0]):
        assert {*ids.tolist()} - {-1} == {*left[row].tolist()} - {5}
    with raises(DataError, "allowed", 800, 799):
        index.search(QUERIES, allowed=[800])
    with raises(DataError, "denied", "(60, 800)"):
        index.search(QUERIES, denied=np.ones((2, 800), bool))


def test_learned_buckets_are_better_than_hashed_ones(index: IRLIIndex) -> None:
    hashed = IRLIIndex(**{**SMALL, "rounds": 0}).fit(BASE)
    ways = {"k": 10, "probes": 4, "candidates": 60}
    assert recall(index.search(QUERIES, **ways)[0]) > recall(hashed.search(QUERIES, **ways)[0]) + 0.2


def test_queries_and_neighbours_of_ones_own() -> None:
    learn = clustered(400, seed=2)
    nearest = exact_neighbors(learn, BASE, 20, "euclidean")[0].astype(np.int64)
    nearest[:5, 3:] = -1
    given = IRLIIndex(**SMALL).fit(BASE, learn, nearest)
    assert recall(given.search(QUERIES, 10, candidates=100)[0]) > 0.8
    computed = IRLIIndex(**SMALL).fit(BASE, learn)
    nearest = exact_neighbors(learn, BASE, 20, "euclidean")[0]
    same(computed, IRLIIndex(**SMALL).fit(BASE, learn.astype(np.float64), nearest))


def same(first: IRLIIndex, second: IRLIIndex) -> None:
    for a, b in zip(first.search(QUERIES, 7), second.search(QUERIES, 7), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first.buckets_.assignment, second.buckets_.assignment)


def test_threads_and_runs_do_not_change_a_bit(index: IRLIIndex) -> None:
    same(index, IRLIIndex(**{**SMALL, "n_jobs": 3}).fit(BASE))


# ---------------------------------------- adding and removing


def test_added_vectors_are_found_and_balanced(index: IRLIIndex) -> None:
    grown, new = copy.deepcopy(index), clustered(200, seed=5)
    before = grown.buckets_.loads()
    ids = grown.add(new)
    assert ids.tolist() == list(range(800, 1000)) and grown.n_vectors_ == 1000
    assert (grown.buckets_.loads() >= before).all(), "nobody moves"
    near, _ = grown.search(new, 1)
    assert np.mean(near[:, 0] == ids) > 0.98
    assert recall(grown.search(QUERIES, 10, candidates=150)[0], base=np.concatenate([BASE, new])) > 0.8
    assert index.n_vectors_ == 800, "the other one is as it was"
    assert len(grown.add(np.empty((0, 6)))) == 0


def test_additions_are_placed_in_the_same_random_order_every_time(index: IRLIIndex) -> None:
    alike = np.repeat(BASE[:1], 60, axis=0)
    first, second = copy.deepcopy(index), copy.deepcopy(index)
    np.testing.assert_array_equal(first.add(alike), second.add(alike))
    same(first, second)
    dealt = first.buckets_.assignment[:, 800:]
    together = (dealt[:, :, None] == dealt[:, None, :]).all(axis=0)
    assert together.mean() < 0.15, "in a given order, one in three (choices) would share all its buckets"


def test_removed_vectors_are_found_no_more(index: IRLIIndex) -> None:
    smaller = copy.deepcopy(index)
    gone = smaller.search(BASE[:50], 1)[0].ravel()
    smaller.remove(np.unique(gone))
    assert smaller.n_vectors_ == 800 - len(np.unique(gone))
    ids = smaller.search(BASE, 10, probes=32)[0]
    assert not np.isin(ids, gone).any()
    assert not smaller.base_[gone].any() and index.base_[gone].any()
    there = np.setdiff1d(np.arange(800), gone)
    true = there[exact_neighbors(QUERIES, BASE[there], 10, "euclidean")[0]]
    np.testing.assert_array_equal(smaller.search(QUERIES, 10, probes=32)[0], true)
    assert smaller.tune(QUERIES, 0.9).recall >= 0.9
    assert smaller.add(BASE[:1]).tolist() == [800], "ids aren't used again"
    for ids, words in (([800, 800], "once"), (gone[:1], "removed"), ([801], "[0, 800]")):
        with raises(DataError, words):
            smaller.remove(ids)
    smaller.remove([])


def test_all_may_be_removed(index: IRLIIndex, tmp_path: Path) -> None:
    empty = copy.deepcopy(index)
    empty.remove(np.arange(800))
    ids, distances, counts = empty.search(QUERIES, 3, return_counts=True)
    assert (ids == -1).all() and np.isposinf(distances).all() and not counts.any()
    with raises(DataError, "find"):
        empty.tune()
    empty.report()
    empty.save(tmp_path / "empty")
    again = sylvan.load(tmp_path / "empty")
    assert again.add(BASE[:3]).tolist() == [800, 801, 802]
    assert again.search(BASE[:3], 1, probes=32)[0].ravel().tolist() == [800, 801, 802]


# ---------------------------------------- settings and report


def test_tuning_without_queries_takes_the_base(index: IRLIIndex) -> None:
    tuned = copy.deepcopy(index)
    assert tuned.tune(recall=0.8).recall >= 0.8
    assert recall(tuned.search(QUERIES)[0]) > 0.7


def test_a_search_takes_the_indexs_own_settings(index: IRLIIndex) -> None:
    other = copy.deepcopy(index).set_params(probes=2, candidates=30)
    for a, b in zip(other.search(QUERIES), index.search(QUERIES, probes=2, candidates=30), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (other.search(QUERIES, candidates="all", return_counts=True)[2] > 30).any()
    many = other.search(QUERIES, probes=10_000, candidates="all", return_counts=True)[2]
    assert (many == 800).all(), "more probes than buckets are all buckets"


@pytest.mark.parametrize("order", ["probability", "votes"])
def test_fit_tunes_on_queries_that_it_holds_out(order: str, tmp_path: Path) -> None:
    options = {name: value for name, value in SMALL.items() if name != "probes"} | {"order": order}
    found = {}
    for wanted in (0.6, 0.95):
        index = IRLIIndex(**options, recall=wanted).fit(BASE)
        assert index.tuning_ is not None and wanted <= index.tuning_.recall <= 1
        ids, _, counts = index.search(QUERIES, 10, return_counts=True)
        assert recall(ids) > wanted - 0.1, "these are other queries"
        found[wanted] = counts.mean()
        index.save(tmp_path / "index")
        again = sylvan.load(tmp_path / "index")
        assert again.tuning_ == index.tuning_ and (again.probes, again.candidates) == ("auto", "auto")
        same(index, again)
    assert found[0.6] < found[0.95] < 800


def test_what_is_given_rules_instead_of_what_was_measured() -> None:
    options = {name: value for name, value in SMALL.items() if name != "probes"} | {"rounds": 0}
    index = IRLIIndex(**options, candidates=20).fit(BASE)
    assert (index.search(QUERIES, return_counts=True)[2] <= 20).all()
    index.set_params(candidates="auto")
    settings = index.tuning_.settings  # type: ignore[union-attr]
    for a, b in zip(index.search(QUERIES), index.search(QUERIES, **vars(settings)), strict=True):
        np.testing.assert_array_equal(a, b)
    everything = index.search(QUERIES, probes=32, return_counts=True)[2]
    assert (everything == 800).all(), "a limit that was measured for other probes doesn't count"
    given = IRLIIndex(**options, probes=3).fit(BASE)
    assert given.tuning_ is None
    np.testing.assert_array_equal(given.search(QUERIES)[0], index.search(QUERIES, probes=3)[0])


def test_wide_vectors_are_projected(tmp_path: Path) -> None:
    spread = np.random.default_rng(7).normal(size=(6, 300))
    base, queries = ((rows @ spread).astype(np.float32) for rows in (BASE, QUERIES))
    options = {**SMALL, "n_neighbors": 5, "rounds": 2, "metric": "angular"}
    index = IRLIIndex(**options).fit(base)
    network = index.network_
    assert network.projection is not None and network.projection.shape == (300, 32) and network.n_features == 32
    true = exact_neighbors(unit(queries), unit(base), 10, "angular")[0]
    ids = index.search(queries, 10, candidates=200)[0]
    assert share_found(ids, true) > 0.8
    index.save(tmp_path / "wide")
    np.testing.assert_array_equal(sylvan.load(tmp_path / "wide").search(queries, 10)[0], index.search(queries, 10)[0])
    assert IRLIIndex(**{**options, "n_components": 300, "rounds": 0}).fit(base).network_.projection is None


def test_the_plan_is_of_what_is_built(tmp_path: Path) -> None:
    index = IRLIIndex(**SMALL)
    plan = index.plan(BASE)
    assert [phase.name for phase in plan.phases] == ["neighbours", "training", "moving", "judging"]
    assert all(phase.seconds > 0 for phase in plan.phases) and plan.fits
    index.fit(BASE).save(tmp_path / "index")
    size = sum(file.stat().st_size for file in (tmp_path / "index").glob("**/*.npy"))
    assert 0.8 < plan.model_bytes / size < 1.2
    with raises(DataError, "queries", "without"):
        index.plan(BASE, neighbors=[[0]])


def test_the_report(index: IRLIIndex, tmp_path: Path) -> None:
    report = index.report(QUERIES)
    assert report.n_labels == 800 and report.mean_load == 25
    np.testing.assert_array_equal(report.load_deviation, index.buckets_.loads().std(axis=1))
    np.testing.assert_array_equal(report.candidates, index.search(QUERIES, return_counts=True)[2])
    assert (report.counted >= report.candidates).all()
    assert report.rounds[0].number == 0 and len(report.rounds[0].moved) == 4
    assert report.rounds[1].affinity_after > report.rounds[0].affinity_after, "Theorem 1"
    assert json.loads(json.dumps(report.to_dict()))["best_round"] == report.best_round
    assert "best" in report.text() and "standard deviation" in report.text()
    index.save(tmp_path / "index")
    assert sylvan.load(tmp_path / "index").report(QUERIES).to_dict() == report.to_dict()
    for name in ("report.svg", "again.svg"):
        report.save(tmp_path / name)
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "report.svg").read_bytes()
    with raises(DataError, "drawn"):
        report.save(tmp_path / "report.txt")
    with raises(DataError, "written"):
        report.save(tmp_path / "nowhere" / "report.png")


# ---------------------------------------- odd input


def test_a_base_of_one_vector() -> None:
    index = IRLIIndex(**{**SMALL, "n_buckets": "auto"}).fit(BASE[:1])
    ids, distances = index.search(BASE[:2], k=3)
    assert ids.tolist() == [[0, -1, -1]] * 2
    assert distances[0, 0] == 0 and np.isposinf(distances[:, 1:]).all()


def test_fewer_vectors_than_buckets_and_more_choices_than_buckets() -> None:
    index = IRLIIndex(**{**SMALL, "choices": 99}).fit(BASE[:5])
    assert index.search(BASE[:5], 1, probes=32)[0].ravel().tolist() == [0, 1, 2, 3, 4]
    inner = IRLIIndex(**SMALL).fit(BASE[:5], metric="inner_product").search(BASE[:2], k=9, probes=32)
    assert (inner[0][:, 5:] == -1).all() and np.isneginf(inner[1][:, 5:]).all()


def test_vectors_that_are_all_alike() -> None:
    index = IRLIIndex(**SMALL).fit(np.ones((50, 4)))
    ids, distances = index.search(np.ones((2, 4)), 50, probes=32)
    assert ids.tolist() == [list(range(50))] * 2 and not distances.any()


def test_other_forms_of_vectors(index: IRLIIndex) -> None:
    expected = index.search(QUERIES.astype(np.float16), 4)
    for form in (QUERIES.astype(np.float16).tolist(), np.asfortranarray(QUERIES.astype(np.float16), np.float64)):
        np.testing.assert_array_equal(index.search(form, 4)[0], expected[0])
    assert index.search(np.empty((0, 6)), 4)[0].shape == (0, 4)
    huge = IRLIIndex(**SMALL).fit(BASE * 1e12)
    np.testing.assert_array_equal(huge.search(BASE[:9] * 1e12, 1)[0].ravel(), np.arange(9))


def test_the_users_arrays_are_neither_changed_nor_shared() -> None:
    base = BASE.copy()
    index = IRLIIndex(**SMALL).fit(base)
    np.testing.assert_array_equal(base, BASE)
    before = index.search(QUERIES, 3)
    base[:] = 0
    np.testing.assert_array_equal(index.search(QUERIES, 3)[1], before[1])


def tensor(base: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(base)


def for_reading(base: np.ndarray) -> np.ndarray:
    view = base[:]
    view.flags.writeable = False
    return view


@pytest.mark.parametrize("given", [tensor, memoryview, for_reading])
def test_a_base_that_shares_the_users_memory_is_copied(given: Any) -> None:
    base = BASE.copy()
    index = IRLIIndex(n_jobs=1).fit(given(base))
    before = index.search(QUERIES, 3)
    base[:] = 0
    np.testing.assert_array_equal(index.search(QUERIES, 3)[1], before[1])


def test_a_mapped_base_stays_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "base.npy", BASE)
    mapped = np.load(tmp_path / "base.npy", mmap_mode="r")
    index = IRLIIndex(**SMALL).fit(mapped)
    assert np.shares_memory(index.base_, mapped)


# ---------------------------------------- bad input


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (np.zeros((0, 3)), (1, "(0, 3)")), (np.zeros((3, 0)), ("dimension", 1)), (np.zeros(3), "dimensions"),
        ([["a", "b"]], "text"), ([[1.0, np.nan], [np.inf, 0.0]], "row 0"), ([[1.0, 2.0], [1e30, 0.0]], "row 1"),
        (np.ones((3, 2), complex), "complex128"), (None, "base"),
    ],
)  # fmt: skip
def test_a_base_that_is_none(base: Any, words: object) -> None:
    with raises(DataError, words):
        IRLIIndex(**SMALL).fit(base)


@pytest.mark.parametrize(
    ("queries", "neighbors", "words"),
    [
        (np.ones((4, 5)), None, ("base", 5, 6)), (np.full((4, 6), np.nan), None, ("queries", "NaN", "row 0")),
        (5, None, "queries"), (None, [[1]], "queries"), (QUERIES, np.zeros((3, 5)), ("queries", 60)),
        (QUERIES, np.full((60, 2), 800), (800, "row 0", "[-1, 799]")), (QUERIES, np.full((60, 2), -2), (-2, "row 0")),
        (QUERIES, np.full((60, 2), 0.5), "0.5"), (QUERIES, np.full((60, 2), -1), ("row", "names")),
        (QUERIES, np.zeros((60, 0), int), "(60, 0)"),
    ],
)  # fmt: skip
def test_queries_that_do_not_fit(queries: Any, neighbors: Any, words: object) -> None:
    for index in (IRLIIndex(**SMALL), IRLIIndex(n_jobs=1)):
        for refuses in (index.fit, index.plan):
            with raises(DataError, words):
                refuses(BASE, queries, neighbors)


def test_neighbors_of_which_none_is_used_teach_nothing() -> None:
    neighbors = np.where(np.arange(12) < 10, -1, np.arange(12))[None].repeat(60, 0)
    with raises(DataError, "names no row"):
        IRLIIndex(**{**SMALL, "n_neighbors": 10}).fit(BASE, QUERIES, neighbors)


def test_zero_vectors_have_no_angle(index: IRLIIndex) -> None:
    base = BASE[:50].copy()
    angular = IRLIIndex(**SMALL, metric="angular").fit(base)
    base[7] = 0
    with raises(DataError, "row 7"):
        IRLIIndex(**SMALL, metric="angular").fit(base)
    for call in (angular.search, angular.add):
        with raises(DataError, "row 7"):
            call(base[:8])
    assert IRLIIndex(**SMALL).fit(base).search(base[7:8], 1)[0].item() == 7
    tiny = base[:3] * 1e-30
    np.testing.assert_array_equal(angular.search(tiny, 1)[0].ravel(), [0, 1, 2])


def test_searches_that_make_no_sense(index: IRLIIndex, tmp_path: Path) -> None:
    with raises(DataError, "queries", 5, 6):
        index.search(np.ones((2, 5)))
    for setting, value in (
        ("k", 0), ("k", 2**31), ("probes", 0), ("probes", 1.5), ("min_votes", 5), ("min_votes", 0),
        ("order", "best"), ("order", 3), ("candidates", 0), ("candidates", "some"), ("candidates", True),
    ):  # fmt: skip
        with raises(ParameterError, setting, "'all'" if setting == "candidates" else ()):
            index.search(QUERIES, **{setting: value})
    for value in (0, 1.1, "much", True, float("nan")):
        with raises(ParameterError, "recall"):
            index.tune(QUERIES, value)
    with raises(DataError, "numbered"):
        index.remove([0.5])
    with raises(ParameterError, "min_votes", "save", 5):  # as it couldn't be loaded
        copy.copy(index).set_params(min_votes=5).save(tmp_path / "index")
    for action in ("search", "add", "tune", "report", "remove"):
        with pytest.raises(NotFittedError):
            getattr(IRLIIndex(), action)(QUERIES)
    with pytest.raises(NotFittedError):
        IRLIIndex().save(tmp_path / "index")


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_buckets", 0), ("n_buckets", "many"), ("rounds", -1), ("metric", "cosine"), ("choices", 0), ("min_votes", 17)],
)
def test_parameters_out_of_their_range(name: str, value: Any) -> None:
    with raises(ParameterError, name, "IRLIIndex"):
        IRLIIndex(**{name: value}).fit(BASE)
    with raises(ParameterError, "metric", "cosine"):
        IRLIIndex().fit(BASE, metric="cosine")


def test_a_failed_fit_leaves_the_index_as_it_was(index: IRLIIndex) -> None:
    other = copy.deepcopy(index)
    with pytest.raises(DataError):
        other.fit(np.zeros((3, 2)), metric="angular")
    assert other.metric == "euclidean"
    same(index, other)


# ---------------------------------------- saving


@pytest.mark.parametrize("mmap", [True, False])
def test_save_and_load(index: IRLIIndex, tmp_path: Path, mmap: bool) -> None:
    index.save(tmp_path / "index")
    again = sylvan.load(tmp_path / "index", mmap=mmap)
    assert repr(again) == repr(index)
    same(index, again)
    assert again.add(BASE[:2]).tolist() == [800, 801]
    again.remove([0])
    again.save(tmp_path / "index")
    for a, b in zip(sylvan.load(tmp_path / "index").search(QUERIES), again.search(QUERIES), strict=True):
        np.testing.assert_array_equal(a, b)
    same(index, pickle.loads(pickle.dumps(index)))


def test_an_interrupted_fit_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {**SMALL, "rounds": 2, "epochs_per_round": 1, "final_epochs": 1}
    once = bits(IRLIIndex(**short).fit(BASE))
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)  # each result is stored as soon as it is there
    folder = tmp_path / "work"
    with stopped(Checkpoint, "write", 3):
        IRLIIndex(**short).fit(BASE, checkpoint=folder)
    for other, queries in (({"hidden": 8}, None), ({"metric": "inner_product"}, None), ({}, QUERIES)):
        with raises(ModelError, "training"):
            IRLIIndex(**{**short, **other}).fit(BASE, queries, checkpoint=folder)
    assert bits(IRLIIndex(**{**short, "n_jobs": 2}).fit(BASE, checkpoint=folder)) == once
    assert not folder.exists()


@pytest.mark.parametrize("order", ["probability", "votes"])
def test_the_settings_are_the_cheapest_of_all_that_were_tried(index: IRLIIndex, order: Any) -> None:
    vectors, nearest = index._vectors, exact_neighbors(QUERIES, BASE, 10, "euclidean")[0]
    costs = {}
    for probes in search._ladder(32):
        counted, tuning = search._measured(vectors, QUERIES, nearest, probes, 0.8, order, 1)
        if tuning is not None:
            costs[tuning.settings] = search.cost_of_counting(counted, 800, order) + 6 * tuning.n_candidates
    assert len(costs) > 1 and search.choose_settings(vectors, QUERIES, nearest, 0.8, order, 1).settings == min(
        costs, key=lambda settings: costs[settings]
    )
