"""``sylvan.load``: from a folder to the object that was saved in it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, TypeVar, overload

from sylvan import store
from sylvan.errors import ModelError, SylvanError
from sylvan.version import __version__

_T = TypeVar("_T")

# The modules that register kinds. Nothing else of the package needs to be loaded to open a model.
MODULES = {
    "beam-tree": "models.beam_tree.beam_tree",
    "calibrator": "ranking.calibrate",
    "ensemble": "models.ensembles.ensemble",
    "irli": "models.irli.classifier",
    "irli-index": "models.irli.index",
    "irli-shards": "models.irli.shards",
    "label-tree": "indexing.tree",
    "lexical-matcher": "models.lexical.lexical_matcher",
    "neighbor-ranker": "models.neighbors",
    "reranker": "models.reranker.reranker",
    "text-model": "models.text",
    "tfidf-vectorizer": "text.tfidf",
    "vocabulary": "labels.vocabulary",
    "x-transformer": "models.transformer.x_transformer",
    "xr-linear": "models.xr.xr_linear",
    "xr-transformer": "models.transformer.x_transformer",
}


@overload
def load(folder: str | os.PathLike[str], mmap: bool = True) -> Any: ...
@overload
def load(folder: str | os.PathLike[str], mmap: bool = True, *, expected: type[_T]) -> _T: ...
def load(folder: str | os.PathLike[str], mmap: bool = True, *, expected: type[Any] = object) -> Any:
    """Load a model, vectoriser, tree or vocabulary that ``save(folder)`` wrote.

    Parameters
    ----------
    folder : path
    mmap : bool, default True
        Map the arrays into memory: this takes milliseconds whatever the model's size, and processes share
        the pages. Checksums are then skipped; sizes, shapes and the structure of the model are verified
        all the same. False reads everything into memory and compares the checksums. Do not write into the
        files of a model that is mapped; saving a new model over it with Sylvan is safe.
    expected : class, optional
        The class that was saved, as :class:`~sylvan.TextModel`; type checkers know the result by it.

    Returns
    -------
    object
        Of the class that was saved, as an :class:`~sylvan.XRLinear`.

    Raises
    ------
    ModelError
        When the folder is missing, truncated, altered, foreign or newer than this release, or holds another class
        than the expected one; the sentence names the file and what is wrong with it.

    Examples
    --------
    >>> import numpy as np, sylvan, tempfile
    >>> X = np.eye(3, dtype=np.float32)
    >>> folder = tempfile.mkdtemp()
    >>> sylvan.XRLinear().fit(X, [[0], [1], [2]]).save(folder)
    >>> sylvan.load(folder).rank(X, k=1).labels.ravel().tolist()
    [0, 1, 2]
    """
    loaded = rebuild(store.load(folder, mmap=mmap))
    if not isinstance(loaded, expected):
        raise ModelError(f"{os.fspath(folder)!r} must hold {expected.__name__}. Got {type(loaded).__name__} instead.")
    return loaded


def rebuild(state: store.State) -> Any:
    """The object that a loaded State describes."""
    loader = _loader_of(state.kind)
    where = state.where or "the model"
    if loader is None:
        known = ", ".join(sorted({*MODULES, *store.known_kinds()}))
        raise ModelError(
            f"{where!r} holds a model of kind {state.kind!r}, which Sylvan {__version__} does not know. "
            f"The kinds it knows: {known}."
        )
    try:
        return loader(state)
    except ModelError:
        raise
    except SylvanError as error:  # a parameter out of its range, say: here the folder is at fault, not the caller
        raise ModelError(f"{where!r} is damaged: {error}") from error


def _loader_of(kind: str) -> Callable[[store.State], object] | None:
    if store.loader_of(kind) is None and kind in MODULES:
        importlib.import_module(f"sylvan.{MODULES[kind]}")
    return store.loader_of(kind)
