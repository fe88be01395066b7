"""A reranker's folders: parts that don't fit each other are refused, and a training goes on from its checkpoint."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import bits
from kit.watching import stopped
from rows_with_pairs import SETTINGS, X, parity, reranker, y

from sylvan import NeighborRanker, Reranker, XRLinear
from sylvan.errors import ModelError
from sylvan.models.reranker import learning as module
from sylvan.runtime import checkpointed


@pytest.fixture(scope="module")
def fitted() -> Reranker:
    return reranker(columns=parity).fit(
        X, [[label, (label + 2) % 8] for label in y.tolist()], label_columns=np.arange(8)
    )


def changed(array: np.ndarray, at: Any, value: Any) -> np.ndarray:
    other = array.copy()
    other[at] = value
    return other


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("facts.counts", lambda a: a[:-1]), ("facts.counts", lambda a: changed(a, 0, -1)),
        ("facts.counts", lambda a: changed(a, 0, 2**40)), ("facts.n_rows", lambda a: a * 0),
        ("facts.indptr", lambda a: changed(a, 1, 10**6)), ("facts.indptr", lambda a: a[::-1].copy()),
        ("facts.indices", lambda a: changed(a, 0, 8)), ("facts.indices", lambda a: changed(a, 0, -1)),
        ("facts.indices", lambda a: a[::-1].copy()), ("facts.data", lambda a: changed(a, 0, np.nan)),
        ("facts.data", lambda a: a[:-1]), ("label_columns", lambda a: a[:-1]), ("label_columns", lambda a: a.ravel()),
        ("label_columns", lambda a: changed(a, (0, 0), np.inf)), ("label_columns", lambda a: np.hstack([a, a])),
        ("trees.features", lambda a: changed(a, (0, 0), 40)), ("trees.features", lambda a: changed(a, (0, 0), -1)),
        ("trees.features", lambda a: a[:, :-1]), ("trees.thresholds", lambda a: changed(a, (0, 0), np.nan)),
        ("trees.thresholds", lambda a: a[:-1]), ("trees.leaves", lambda a: changed(a, (0, 0), np.inf)),
        ("trees.leaves", lambda a: a.astype(np.float64)), ("trees.covers", lambda a: a[:, :-1]),
        ("trees.covers", lambda a: changed(a, (0, 0), -1)), ("trees.covers", lambda a: changed(a, (0, 0), np.nan)),
        ("weights", lambda a: a * 2), ("weights", lambda a: a[:1]),
        ("n_columns", 5), ("n_columns", None), ("order", "layers"), ("order", "forest"), ("order", 1), ("n_own", -1),
        ("n_own", 1001), ("n_own", "1"), ("n_members", 1), ("n_members", 3), ("n_members", 0),
    ],
)  # fmt: skip
def test_arrays_and_values_that_do_not_fit(fitted: Reranker, name: str, change: Any) -> None:
    state = fitted.to_state()
    if callable(change):
        state.arrays[name] = change(np.asarray(state.arrays[name]))
    else:
        state.meta[name] = change
    with pytest.raises(ModelError) as caught:
        Reranker.from_state(state)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def made() -> Reranker:
    """Two trees that hold rows out, and neighbours, which are asked last."""
    trees = [XRLinear(max_leaf=30, n_jobs=1), XRLinear(branching=2, max_leaf=3, n_jobs=1)]
    return Reranker([*trees, NeighborRanker(n_jobs=1)], columns=parity, **SETTINGS)


def times(folder: Path, member: str) -> dict[str, int]:
    """When each file of what a member has finished was written."""
    found = {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    return {path: time for path, time in found.items() if f"/{member}" in path.removeprefix(str(folder))}


@pytest.mark.parametrize("place", [(NeighborRanker, "fit_holding_out"), (module, "learned")])
def test_members_that_are_finished_are_not_trained_again(
    place: tuple[Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    expected = made().fit(X, y)
    work = tmp_path / "work"
    with stopped(*place, 1):
        made().fit(X, y, checkpoint=work)
    first = times(work, "member0") | times(work, "member1")
    assert first
    with stopped(*place, 1):
        made().fit(X, y, checkpoint=work)
    assert times(work, "member0") | times(work, "member1") == first, "nothing of them was done again"
    model = made().fit(X, y, checkpoint=work)
    assert bits(model.rank(X)) == bits(expected.rank(X))
    assert not list(tmp_path.iterdir())
