"""``sylvan.load``: from a folder to the object that was saved in it."""

from __future__ import annotations

import os
from typing import Any

from sylvan import store
from sylvan.errors import ModelError, SylvanError
from sylvan.version import __version__

__all__ = ["load", "rebuild"]


def load(folder: str | os.PathLike[str], mmap: bool = True) -> Any:
    """Load a model, vectoriser, tree or vocabulary that ``save(folder)`` wrote.

    Parameters
    ----------
    folder : path
    mmap : bool, default True
        Map the arrays into memory: this takes milliseconds whatever the model's size, and processes share
        the pages. Checksums are then skipped; sizes, shapes and the structure of the model are verified
        all the same. False reads everything into memory and compares the checksums. Do not write into the
        files of a model that is mapped; saving a new model over it with Sylvan is safe.

    Returns
    -------
    object
        Of the class that was saved, as an :class:`~sylvan.XRLinear`.

    Raises
    ------
    ModelError
        When the folder is missing, truncated, altered, foreign or newer than this release; the sentence
        names the file and what is wrong with it.

    Examples
    --------
    >>> import numpy as np, sylvan, tempfile
    >>> X = np.eye(3, dtype=np.float32)
    >>> folder = tempfile.mkdtemp()
    >>> sylvan.XRLinear().fit(X, [[0], [1], [2]]).save(folder)
    >>> sylvan.load(folder).rank(X, k=1).labels.ravel().tolist()
    [0, 1, 2]
    """
    return rebuild(store.load(folder, mmap=mmap))


def rebuild(state: store.State) -> Any:
    """The object that a loaded State describes.

    Raises
    ------
    ModelError
        When no module knows the kind, or the State does not describe a model of its kind.
    """
    loader = store.loader_of(state.kind)
    where = state.where or "the model"
    if loader is None:
        known = ", ".join(store.known_kinds()) or "none"
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
