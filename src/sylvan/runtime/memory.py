"""What training holds in memory: how much each part takes, how much there may be, and who waits for room.

The parts are counted by the functions below, from sizes alone, so that they can be asked before anything is made;
all numbers are bytes. What they leave out is what the interpreter and the libraries take.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sylvan.errors import MemoryLimitError, ParameterError

__all__ = [
    "LANES",
    "Gate",
    "beam_bytes",
    "csr_bytes",
    "embedding_bytes",
    "laid_out_bytes",
    "need_room",
    "pairing_bytes",
    "parse_bytes",
    "return_freed_memory",
    "rows_bytes",
    "shown_bytes",
    "solved_bytes",
    "solver_bytes",
]

LANES = 16  # labels solved side by side; one 64-byte line of weights a feature
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_bytes(value: Any, name: str = "memory_limit") -> int:
    """An amount of memory as a number of bytes.

    Parameters
    ----------
    value : int or str
        Bytes, or a number with a unit: kB, MB, GB and TB are powers of 1000, KiB, MiB and GiB of 1024.
    name : str
        What the error calls it.

    Raises
    ------
    ParameterError
        For anything else, and for less than one byte.

    Examples
    --------
    >>> from sylvan.runtime.memory import parse_bytes
    >>> parse_bytes("1.5GB"), parse_bytes("2 MiB"), parse_bytes(1000)
    (1500000000, 2097152, 1000)
    """
    amount: float = -1
    if isinstance(value, str):
        found = _AMOUNT.fullmatch(value)
        if found is not None and found[2].lower() in _UNITS:
            amount = float(found[1]) * _UNITS[found[2].lower()]
    elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        amount = int(value)
    if not 1 <= amount < 2**62:
        raise ParameterError(
            f"The {name!r} parameter must be a number of bytes in [1, 2^62), or text such as '500MB' or '4GB'. "
            f"Got {value!r} instead."
        )
    return int(amount)


def shown_bytes(n_bytes: float) -> str:
    """Bytes as sentences show them: ``"1.2 GB"``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes / 1e3:.0f} kB"


def return_freed_memory() -> None:
    """Give the system what was freed, which the C library would keep for later; where it has no such call, nothing."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def csr_bytes(n_rows: int, n_entries: int) -> int:
    """A sparse matrix in memory: the features, the labels, or the positives of one layer."""
    return 8 * (n_rows + 1) + 8 * n_entries


def embedding_bytes(n_labels: int, n_entries: int, n_label_entries: int, most: int = 1024) -> int:
    """PIFA at its peak: each label's values, and the labels' rows beside them.

    ``n_entries`` is how many feature values the rows of all labels hold together, ``n_label_entries`` the number of
    entries of Y. A label keeps ``most`` values; labels that share columns need less than is counted.
    """
    return 8 * min(n_entries, n_labels * most) + 16 * n_label_entries + 40 * n_labels


def pairing_bytes(n_pairs: int) -> int:
    """A layer's (row, cluster) pairs while they are sorted: for a moment, above what :func:`rows_bytes` counts."""
    return 40 * n_pairs


def rows_bytes(n_pairs: int, n_clusters: int) -> int:
    """A layer's training rows, cluster by cluster."""
    return 4 * n_pairs + 8 * (n_clusters + 1)


def beam_bytes(n_rows: int, width: int) -> int:
    """Two beams, the one above and the one below, of all training rows; matcher-aware negatives only."""
    return 16 * n_rows * width


def solver_bytes(
    n_rows: int, n_entries: int, n_used: int, n_columns: int, n_children: int, weighted: bool, n_sets: int = 1
) -> int:
    """What a thread holds while it solves one cluster.

    Parameters
    ----------
    n_rows, n_entries : int
        The cluster's training rows and their feature values.
    n_used, n_columns : int
        Different features among these; features of the whole matrix.
    n_children : int
        Models of the cluster.
    weighted : bool
        Whether rows or positives have weights, which doubles the numbers a row.
    n_sets : int
        How many sets of weights are made: one, and one more for each fold of held-out rows.
    """
    rows = (20 + 64 * (2 if weighted else 1)) * n_rows
    features = (64 + 20) * n_used + 4 * n_columns
    # Weights that are kept, in the solver's room, on their way and as they stay: at most two of three where everything
    # is dense, and not more than a third of the entries that they are learned from.
    kept = min(2 * n_used * n_children, n_entries) // 3
    sets = n_sets * (28 * kept + solved_bytes(kept, min(n_used, kept)))
    return (rows + features) * (2 if n_sets > 2 else 1) + 4 * n_entries + sets


def solved_bytes(n_weights: int, n_rows: int) -> int:
    """A solved cluster, or several, until they are laid out; ``n_rows`` are the features with a weight."""
    return 8 * n_weights + 8 * n_rows


def laid_out_bytes(
    n_weights: int, n_rows: int, n_clusters: int, n_nodes: int, n_features: int, block_bits: int, weight_bytes: int = 1
) -> int:
    """A layer as it is searched and saved: entries, rows, block starts, offsets and intercepts."""
    blocks = -(-n_features // (1 << block_bits)) + 1
    keys = 1 if block_bits <= 8 else 2
    return (1 + weight_bytes) * n_weights + (1 + keys) * n_rows + (8 * blocks + 16) * n_clusters + 4 * n_nodes + 1024


class Gate:
    """Lets pieces of work begin while there is memory for them; one alone always may.

    Parameters
    ----------
    capacity : int
        Bytes that all pieces in work may take together.
    limit, taken : int
        The limit that this is a share of, and what was taken of it before, for the error.
    """

    def __init__(self, capacity: int, limit: int = 0, taken: int = 0) -> None:
        self.capacity, self._limit, self._taken = capacity, limit, taken
        self._held = 0
        self._room = threading.Condition()

    def need(self, n_bytes: int) -> None:
        """Refuse a limit under which the largest piece has no room beside everything else.

        Raises
        ------
        MemoryLimitError
        """
        if n_bytes > self.capacity:
            share = self.capacity / max(1, self._limit - self._taken)
            need = int(n_bytes / share) if share > 0 else n_bytes
            need_room(need, self._limit, self._taken, "solving the largest cluster")

    @contextmanager
    def hold(self, n_bytes: int) -> Iterator[None]:
        """Wait until there is room, and keep it while the block runs."""
        with self._room:
            self._room.wait_for(lambda: not self._held or self._held + n_bytes <= self.capacity)
            self._held += n_bytes
        try:
            yield
        finally:
            with self._room:
                self._held -= n_bytes
                self._room.notify_all()


def need_room(need: int, limit: int, taken: int, what: str) -> None:
    """Refuse a limit that the work can't keep.

    Raises
    ------
    MemoryLimitError
        With the numbers.
    """
    if taken + need > limit:
        raise MemoryLimitError(
            f"memory_limit is {shown_bytes(limit)}, but {shown_bytes(taken)} are taken already and {what} needs about "
            f"{shown_bytes(need)} more: allow at least {shown_bytes(taken + need)}."
        )
