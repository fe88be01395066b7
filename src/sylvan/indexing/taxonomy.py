"""A given hierarchy of names as a label tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from sylvan.errors import DataError
from sylvan.indexing.checks import check_number
from sylvan.indexing.tree import MAX_DEPTH, LabelTree
from sylvan.params import Number

__all__ = ["Parents", "taxonomy_tree"]

Parents: TypeAlias = "Mapping[str, str | Sequence[str] | None]"


def taxonomy_tree(names: Sequence[str], parents: Parents, *, max_depth: int | None = None) -> LabelTree:
    """The tree of a given hierarchy, such as a thesaurus or a classification.

    Parameters
    ----------
    names : sequence of str
        Name of each label, in the order of the label ids.
    parents : mapping of str to str, sequence of str or None
        The broader term of each name; the terms above need not be labels. A label with several broader terms
        stands under each (overlapping clusters); a term that is only passed through goes by its first. A name
        that is not in the mapping, or whose entry is None or empty, stands at the top.
    max_depth : int, optional
        Most layers; whatever lies deeper is gathered in the deepest cluster above it.

    Returns
    -------
    LabelTree
        A label that has narrower terms stands in one cluster with those of them that are labels. Short branches
        are continued by nodes of one child, so that all leaves lie in the last layer.

    Raises
    ------
    DataError
        When a name occurs twice, is no string, or is broader than itself.
    ParameterError
        When ``max_depth`` is out of its range.

    Examples
    --------
    >>> from sylvan import indexing
    >>> parents = {"cat": "animal", "dog": "animal", "oak": "plant", "animal": "being", "plant": "being"}
    >>> indexing.taxonomy_tree(["oak", "cat", "dog"], parents)
    LabelTree(3 labels, depth 3: 1 > 2 > 3, clusters of 1 to 2 labels)
    """
    check_number("max_depth", max_depth, Number(int, 1, MAX_DEPTH, optional=True))
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
    return LabelTree(tuple(offsets), np.array([label for _, label in full], np.int32), len(names))


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
