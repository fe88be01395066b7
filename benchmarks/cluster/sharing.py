"""Work that several take part in: a network's bytes or the time of cores, divided equally among those who want some."""

from __future__ import annotations

import heapq
import math

import numpy as np

__all__ = ["Sharing"]


class Sharing:
    """Amounts that are worked off at rates that change whenever somebody comes or goes.

    Each of the ``k`` parties of a node has the rate ``min(most, node / k, total / n)``, where ``n`` is the number of
    parties of all nodes: a node's part is divided equally, and so is the whole.

    Parameters
    ----------
    n_nodes : int
    node : float
        What a node has a second.
    most : float
        What one party can use.
    total : float
        What all nodes have together.
    """

    def __init__(self, n_nodes: int, node: float, most: float = math.inf, total: float = math.inf) -> None:
        self._node, self._most, self._total = node, most, total
        # What a party of each node would have been given if it had been there from the beginning: all of a node have
        # the same rate, so that one sum serves them, and the order in which they are done never changes.
        self._given = np.zeros(n_nodes)
        self._ends: list[list[tuple[float, int]]] = [[] for _ in range(n_nodes)]
        self._first = np.full(n_nodes, np.inf)  # the end of each node's first party
        self._n = 0
        self._shares = np.full(n_nodes, float(node))  # of each node's parties, if the whole were no limit
        self._rates = np.ones(n_nodes)

    def add(self, node: int, amount: float, party: int) -> None:
        """A party of a node wants an amount."""
        heapq.heappush(self._ends[node], (float(self._given[node]) + amount, party))
        self._changed(node, 1)

    def remove(self, node: int, party: int) -> None:
        """A party goes before it has all."""
        self._ends[node] = [entry for entry in self._ends[node] if entry[1] != party]
        heapq.heapify(self._ends[node])
        self._changed(node, -1)

    def first(self) -> tuple[float, int]:
        """In how many seconds the first party is done, if nothing changes, and its node; infinity for none."""
        if not self._n:
            return math.inf, -1
        seconds = (self._first - self._given) / self._rates
        node = int(seconds.argmin())
        return max(0.0, float(seconds[node])), node

    def advance(self, seconds: float) -> None:
        """So much time goes by."""
        if self._n:
            self._given += seconds * self._rates

    def pop(self, node: int) -> int:
        """The first party of a node is done."""
        _, party = heapq.heappop(self._ends[node])
        self._changed(node, -1)
        return party

    def _changed(self, node: int, by: int) -> None:
        ends = self._ends[node]
        self._n += by
        self._first[node] = ends[0][0] if ends else math.inf
        self._shares[node] = self._node / max(1, len(ends))
        equal = min(self._most, self._total / self._n) if self._n else self._most
        np.minimum(self._shares, equal, out=self._rates)
