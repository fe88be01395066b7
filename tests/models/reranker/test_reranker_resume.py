"""A reranker's training that was interrupted goes on from its checkpoint, to the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rows_with_pairs import SETTINGS, bits, pairs, parity

from sylvan import NeighborRanker, Reranker, XRLinear
from sylvan.models.reranker import learning as module
from sylvan.runtime import checkpointed


class Stopped(BaseException):
    """What stands for Ctrl-C."""


def stops(*args: Any, **options: Any) -> Any:
    raise Stopped


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
    X, y = pairs()
    expected = made().fit(X, y)
    work = tmp_path / "work"
    with monkeypatch.context() as patch:
        patch.setattr(*place, stops)
        with pytest.raises(Stopped):
            made().fit(X, y, checkpoint=work)
        first = times(work, "member0") | times(work, "member1")
        assert first
        with pytest.raises(Stopped):
            made().fit(X, y, checkpoint=work)
        assert times(work, "member0") | times(work, "member1") == first, "nothing of them was done again"
    model = made().fit(X, y, checkpoint=work)
    assert bits(model.rank(X)) == bits(expected.rank(X))
    assert not list(tmp_path.iterdir())
