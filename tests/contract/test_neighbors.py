"""NeighborRanker keeps the contract."""

from typing import Any

from contract.matrices import MatrixContract
from sylvan import NeighborRanker


class TestNeighborRanker(MatrixContract):
    """Ten neighbours."""

    has_beam = False
    has_seed = False

    def make(self, **params: Any) -> NeighborRanker:
        return NeighborRanker(**{"n_neighbors": 10, **params})
