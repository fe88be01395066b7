"""Vectors and features as people have them: columns of lists, frames, one index for several threads."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan import IRLIIndex, XRLinear
from sylvan.errors import DataError

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

BASE = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
FIXED = pa.FixedSizeListArray.from_arrays(pa.array(BASE.ravel()), 4)


def objects(rows: Any) -> np.ndarray[Any, Any]:
    array = np.empty(len(rows), dtype=object)
    array[:] = list(rows)
    return array


COLUMNS: dict[str, Callable[[], Any]] = {
    "a column of arrays": lambda: pd.Series(list(BASE)),
    "a column of lists": lambda: pd.Series(BASE.tolist()),
    "a frame of a column of arrays": lambda: pd.DataFrame({"vector": list(BASE)}),
    "an Arrow column": lambda: pa.table({"vector": FIXED})["vector"],
    "an Arrow array": lambda: FIXED,
    "an Arrow table of one column": lambda: pa.table({"vector": FIXED}),
    "lists in Arrow": lambda: pa.table({"vector": pa.array(BASE.tolist(), pa.list_(pa.float32()))}),
    "an array of objects": lambda: objects(BASE),
    "an array of lists": lambda: objects(BASE.tolist()),
    "a list of arrays": lambda: list(BASE),
}


@pytest.mark.parametrize("title", COLUMNS)
def test_vectors_in_one_column(title: str) -> None:
    index = IRLIIndex("learned", n_buckets=4, n_repetitions=2, hidden=8, rounds=0, n_jobs=1)
    assert np.array_equal(index.fit(COLUMNS[title]()).base_, BASE)
    y = np.arange(60) % 5
    model = XRLinear(n_jobs=1).fit(COLUMNS[title](), y)
    assert np.array_equal(
        model.rank(COLUMNS[title](), k=3).scores, XRLinear(n_jobs=1).fit(BASE, y).rank(BASE, k=3).scores
    )


UNCLEAR = {
    "beside others": (lambda: pd.DataFrame({"id": range(60), "vector": list(BASE)}), ("X", "vector", "alone")),
    "beside others in Arrow": (lambda: pa.table({"id": range(60), "v": FIXED}), ("X", "'v'")),
    "different lengths": (lambda: pd.Series([[1.0, 2.0]] * 59 + [[1.0]]), (2, "row 0", 1, "row 59")),
    "different lengths of objects": (lambda: objects([[1.0, 2.0]] * 3 + [[1.0]] * 57), (2, "row 0", 1, "row 3")),
    "one missing": (lambda: pd.Series([*BASE[:7], None, *BASE[8:]]), "row 7"),
    "one missing in Arrow": (lambda: pa.array([*BASE[:7].tolist(), None, *BASE[8:].tolist()]), "row 7"),
    "words": (lambda: pd.Series([["a", "b"]] * 60), "text"),
}


@pytest.mark.parametrize("title", UNCLEAR)
def test_columns_that_are_no_vectors_are_refused(title: str) -> None:
    given, said = UNCLEAR[title]
    with raises(DataError, said):
        XRLinear().fit(given(), np.arange(60) % 5)


@pytest.mark.parametrize("k", [50, 100, 300, 500])
def test_more_neighbours_than_the_tuned_candidates(k: int) -> None:
    """A search looks further until it has as many as it is asked for, or as there are."""
    base = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
    index = IRLIIndex("learned", n_buckets=16, n_repetitions=3, hidden=8, rounds=0, n_jobs=1).fit(base)
    assert index.tuning_ is not None and index.tuning_.settings.candidates is not None
    ids, distances = index.search(base[:5], k=k)
    there = min(k, 300)
    assert (ids[:, :there] >= 0).all() and (ids[:, there:] == -1).all()
    assert [len(set(row[:there])) for row in ids.tolist()] == [there] * 5
    assert (np.diff(distances[:, :there], axis=1) >= 0).all()
    assert (index.search(base[:5], k=k, probes=1, candidates=7)[0][:, 7:] == -1).all()


def test_threads_that_change_one_index() -> None:
    """Adding and removing as one after the other: ids name their vectors, nothing is lost, nothing comes back."""
    new = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
    index = IRLIIndex("learned", n_buckets=4, n_repetitions=2, hidden=8, rounds=0, n_jobs=1).fit(BASE)
    ids: dict[int, int] = {}

    def add(first: int) -> None:
        for row in range(first, 60, 3):
            ids[row] = int(index.add(new[row : row + 1])[0])

    def remove() -> None:
        for row in range(40):
            index.remove([row])

    threads = [threading.Thread(target=add, args=(first,)) for first in range(3)] + [threading.Thread(target=remove)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert index.n_vectors_ == 60 + 60 - 40 and sorted(ids.values()) == list(range(60, 120))
    assert np.array_equal(index.base_[[ids[row] for row in range(60)]], new)
    found, distances = index.search(np.concatenate([new, BASE[:40]]), k=1, probes=4, candidates="all")
    assert found[:60, 0].tolist() == [ids[row] for row in range(60)] and not distances[:60].any()
    assert not np.isin(found, np.arange(40)).any()
