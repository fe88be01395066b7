"""What goes with a basket: the baskets that are reported choose no settings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.linear import baskets as benchmark

N_BASKETS = 100


@pytest.fixture
def rows() -> benchmark.Parts:
    """The numbers of the baskets in each part."""
    numbers = sp.csr_matrix(np.arange(1, N_BASKETS + 1)[:, None])
    return benchmark.Parts(*(part.data - 1 for part in benchmark.divide(numbers, np.random.default_rng(0))))


def drawn(seed: int) -> sp.csr_matrix:
    """Baskets of five items out of twenty."""
    random = np.random.default_rng(seed)
    items = np.concatenate([random.choice(20, 5, replace=False) for _ in range(N_BASKETS)])
    ones = np.ones(len(items), np.float32)
    return sp.csr_matrix((ones, (np.repeat(np.arange(N_BASKETS), 5), items)), shape=(N_BASKETS, 20))


def test_every_basket_is_in_one_part(rows: benchmark.Parts) -> None:
    assert [len(part) for part in rows] == [60, 20, 20]
    assert sorted(np.concatenate(rows).tolist()) == list(range(N_BASKETS))


def test_reported_baskets_choose_nothing(rows: benchmark.Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {
        name: contender._replace(grid={setting: values[:2] for setting, values in contender.grid.items()})
        for name, contender in benchmark.CONTENDERS.items()
    }
    monkeypatch.setattr(benchmark, "CONTENDERS", few)
    first, other = drawn(1).tolil(), drawn(2).tolil()

    def measured(replaced: np.ndarray) -> list[dict[str, Any]]:
        changed = first.copy()
        changed[replaced] = other[replaced]
        monkeypatch.setattr(benchmark, "read_baskets", lambda _: sp.csr_matrix(changed))
        return benchmark.measure_set(Path("made"), 1)["runs"]

    before, reported, choosing = measured(rows.reported[:0]), measured(rows.reported), measured(rows.choosing)
    choices = [[(run["settings"], run["tried"]) for run in runs] for runs in (before, reported, choosing)]
    assert choices[0] == choices[1] != choices[2]
    assert [run["nDCG@10"] for run in before] != [run["nDCG@10"] for run in reported]
    for run in before:
        best = max((trial["nDCG@10"] for trial in run["tried"]), default=None)
        assert best is None or {"settings": run["settings"], "nDCG@10": best} in run["tried"]
