"""Labels placed below their broader terms, as a given hierarchy of names has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from sylvan.errors import DataError
from sylvan.indexing.shape import MAX_DEPTH, Placement
from sylvan.params import Number, check_value

__all__ = ["Parents", "place_in_taxonomy"]

Parents: TypeAlias = "Mapping[str, str | Sequence[str] | None]"


def place_in_taxonomy(names: Sequence[str], parents: Parents, max_depth: int | None) -> Placement:
    """Labels below their broader terms; see :meth:`sylvan.LabelTree.from_taxonomy`."""
    check_value("max_depth", max_depth, Number(int, 1, MAX_DEPTH, optional=True))
    broader = {name: _terms(name, above) for name, above in parents.items()}
    ids = {name: label for label, name in enumerate(names)}
    if len(ids) != len(names):
        twice = next(name for label, name in enumerate(names) if ids[name] != label)
        raise DataError(f"Label names must differ, but {twice!r} occurs twice.")
    inner = {term for terms in broader.values() for term in terms}
    paths = _Paths(broader)
    limit = MAX_DEPTH - 1 if max_depth is None else max_depth - 1
    placed: set[tuple[tuple[int, ...], int]] = set()
    for name, label in ids.items():
        above = (name,) if name in inner else broader.get(name) or (None,)
        placed.update((paths.of(term)[:limit], label) for term in above)
    depth = max((len(path) for path, _ in placed), default=0)
    # A branch that ends early repeats its last term; one without any term gets a node of its own.
    full = sorted({((*path, *[path[-1] if path else -1] * (depth - len(path))), label) for path, label in placed})
    table = np.array([path for path, _ in full], np.int64).reshape(len(full), depth)
    offsets = []
    starts_above = np.array([0], np.int64)
    for t in range(depth + 1):
        changes = np.arange(1, len(full)) if t == depth else _changes(table[:, : t + 1])
        starts = np.concatenate(([0], changes)).astype(np.int64)
        offsets.append(np.concatenate((np.searchsorted(starts, starts_above), [starts.size])))
        starts_above = starts
    return tuple(offsets), np.array([label for _, label in full], np.int32)


def _changes(table: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The rows that differ from the row before them."""
    return np.flatnonzero((table[1:] != table[:-1]).any(axis=1)) + 1


def _terms(name: str, above: str | Sequence[str] | None) -> tuple[str, ...]:
    """The broader terms of a name, checked."""
    terms = () if above is None else (above,) if isinstance(above, str) else tuple(above)
    for term in (name, *terms):
        if not isinstance(term, str):
            raise DataError(f"A taxonomy is made of names, but {term!r} is a {type(term).__name__}.")
    return terms


class _Paths:
    """The way from the top to each term, through first parents, as numbers of terms."""

    def __init__(self, broader: Mapping[str, tuple[str, ...]]) -> None:
        self._broader = broader
        self._numbers: dict[str, int] = {}
        self._known: dict[str | None, tuple[int, ...]] = {None: ()}

    def of(self, term: str | None) -> tuple[int, ...]:
        """The path that ends in ``term``."""
        chain: list[str] = []
        at = term
        while at is not None and at not in self._known:
            if at in chain:
                raise DataError(f"The taxonomy has a circle: {' > '.join([*chain[chain.index(at) :], at])}.")
            chain.append(at)
            above = self._broader.get(at, ())
            at = above[0] if above else None
        for name in reversed(chain):
            self._known[name] = (*self._known[at], self._numbers.setdefault(name, len(self._numbers)))
            at = name
        return self._known[term]
