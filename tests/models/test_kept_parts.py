"""What a training of several processes keeps: all of them take it, or none does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sylvan
from sylvan import LabelTree, store
from sylvan.models.transformer.kept_parts import KeptParts, kept_parts

HERE = Path(__file__).parent


def test_processes_beside_the_first_write_nothing(tmp_path: Path) -> None:
    with kept_parts(tmp_path / "work", dict, writes=False) as kept:
        tree = kept.tree(lambda: LabelTree.flat(3))
        assert kept.array("embeddings", lambda: np.ones((2, 2), np.float32)).shape == (2, 2) and tree.n_labels == 3
        assert kept.folder("encoder") == str(tmp_path / "work" / "encoder") and kept.inner("ranker") is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("others", "made"), [(True, []), (False, [1])])
def test_what_is_kept_is_taken_by_all_or_none(tmp_path: Path, others: bool, made: list[int]) -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    store.save(tmp_path / "work" / "embeddings", store.State("training-array", 1, arrays={"values": values}))
    asked: list[bool] = []

    def everyone(value: Any) -> list[Any]:
        asked.append(value)
        return [others, value]

    calls: list[int] = []
    kept = KeptParts(None, tmp_path / "work", everyone)
    found = kept.array("embeddings", lambda: calls.append(1) or values)
    np.testing.assert_array_equal(found, values)
    assert asked == [True] and calls == made
    kept.array("others", lambda: calls.append(2) or values)
    assert asked == [True, False] and calls == [*made, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes that find each other by gloo")
def test_two_processes_go_on_together(tmp_path: Path) -> None:
    """Before, the first took what is kept and the others waited for its part of the embeddings."""
    for name in ("torch", "accelerate"):
        pytest.importorskip(name)
    places = [str(HERE.parent / "neural"), str(Path(sylvan.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "resuming_worker.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout) == [0, 0], done.stderr[-3000:]
    for process in range(2):
        found = json.loads((tmp_path / f"{process}.json").read_text())
        assert found["kept"] == {"made": 0, "scores": found["whole"]}
        assert found["spoiled"] == {"made": 1, "scores": found["whole"]}, "one can't read them: all make them anew"
