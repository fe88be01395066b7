"""The table of all kinds of objects that can be saved; and ``sylvan.load``, from a folder to the object in it."""

from __future__ import annotations

import importlib
import os
from typing import Any, NamedTuple, TypeVar, overload

from sylvan import store
from sylvan.errors import ModelError, SylvanError
from sylvan.version import __version__

_T = TypeVar("_T")


class Kind(NamedTuple):
    """What every part of the package has to know of a kind of object that can be saved; a model that ``sylvan train``
    trains has the name of its command besides."""

    module: str  # which registers it; nothing else of the package needs to be loaded to open such a folder
    name: str  # of its class
    summary: str = ""  # on a card
    command: str = ""
    help: str = ""
    setting: str = ""  # which the examples of the command set
    texts_alone: bool = False  # whether it makes features of texts itself


KINDS = {
    "xr-linear": Kind(
        "models.xr.xr_linear", "XRLinear", "a tree of linear models over the labels", "xr-linear",
        "A tree of linear models over any number of labels (PECOS's XR-Linear).", "beam=20",
    ),
    "neighbor-ranker": Kind(
        "models.neighbors", "NeighborRanker", "the labels of the most similar training rows", "neighbors",
        "The labels of the most similar training rows; needs no training.", "n_neighbors=50",
    ),
    "lexical-matcher": Kind(
        "models.lexical.lexical_matcher", "LexicalMatcher", "the labels whose own words stand in a text", "lexical",
        "The labels whose own words stand in a text, rows or no rows (as Maui and MLLM do).", "stem=en", True,
    ),
    "irli": Kind(
        "models.irli.classifier", "IRLIClassifier", "labels in learned buckets, found by networks", "irli",
        "Labels in buckets that networks find, learned in turns (IRLI); training needs PyTorch.", "n_repetitions=16",
    ),
    "beam-tree": Kind(
        "models.beam_tree.beam_tree", "BeamTreeClassifier", "one class a row, over a tree of classes", "beam-tree",
        "One class per row out of very many, at a cost that hardly grows with them (CANE).", "epochs=20",
    ),
    "xr-transformer": Kind(
        "models.transformer.x_transformer", "XRTransformer",
        "a text encoder and linear models over a tree of the labels", "xr-transformer",
        "A text encoder fine-tuned down the label tree, with linear rankers (XR-Transformer); PyTorch.",
        "encoder=models/minilm", True,
    ),
    "x-transformer": Kind(
        "models.transformer.x_transformer", "XTransformer",
        "a text encoder that finds clusters of labels, and linear models within them", "x-transformer",
        "A text encoder fine-tuned to find clusters of labels, with linear rankers (X-Transformer).",
        "encoder=models/minilm", True,
    ),
    "ensemble": Kind(
        "models.ensembles.ensemble", "Ensemble", "several models in one", "ensemble",
        "Several models that rank together, each with its own vectoriser.", "weights=0.7,0.3",
    ),
    "reranker": Kind(
        "models.reranker.reranker", "Reranker", "", "reranker",
        "Several models that propose labels, in an order that is learned.", "scorer=trees",
    ),
    "text-model": Kind("models.text", "TextModel", "from texts to named labels"),
    "irli-index": Kind("models.irli.index", "IRLIIndex", "vectors in learned buckets"),
    "irli-shards": Kind("models.irli.shards", "ShardedIRLIIndex", "vectors in learned buckets, in disjoint parts"),
    "label-tree": Kind("indexing.tree", "LabelTree", "a tree over the labels"),
    "tfidf-vectorizer": Kind("text.tfidf", "TfidfVectorizer", "from texts to features"),
    "vocabulary": Kind("labels.vocabulary", "Vocabulary", "the names of labels"),
    "calibrator": Kind("ranking.calibrate", "Calibrator"),
}  # fmt: skip
COMMANDS = {kind.command: kind for kind in KINDS.values() if kind.command}
JOINED = ("ensemble", "reranker")  # the commands of models that are made of several


def class_of(command: str) -> Any:
    """The class of the model that ``sylvan train COMMAND`` trains, loaded."""
    kind = COMMANDS[command]
    return getattr(importlib.import_module(f"sylvan.{kind.module}"), kind.name)


@overload
def load(folder: str | os.PathLike[str], mmap: bool = True) -> Any: ...
@overload
def load(folder: str | os.PathLike[str], mmap: bool = True, *, expected: type[_T] | tuple[type[_T], ...]) -> _T: ...
def load(folder: str | os.PathLike[str], mmap: bool = True, *, expected: Any = object) -> Any:
    """Load a model, vectoriser, tree or vocabulary that ``save(folder)`` wrote.

    Parameters
    ----------
    folder : path
    mmap : bool, default True
        Map the arrays into memory: this takes milliseconds whatever the model's size, and processes share
        the pages. Checksums are then skipped; sizes, shapes and the structure of the model are verified
        all the same. False reads everything into memory and compares the checksums. Do not write into the
        files of a model that is mapped; saving a new model over it with Sylvan is safe.
    expected : class or tuple of classes, optional
        The class that was saved, as :class:`~sylvan.TextModel`, by which type checkers know the result; or several, of
        which it is one.

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
        names = " or ".join(each.__name__ for each in (expected if isinstance(expected, tuple) else (expected,)))
        raise ModelError(f"{os.fspath(folder)!r} must hold {names}. Got {type(loaded).__name__} instead.")
    return loaded


def rebuild(state: store.State) -> Any:
    """The object that a loaded State describes."""
    if state.kind not in store.loaders and state.kind in KINDS:
        importlib.import_module(f"sylvan.{KINDS[state.kind].module}")
    loader = store.loaders.get(state.kind)
    where = state.where or "the model"
    if loader is None:
        raise ModelError(
            f"{where!r} holds a model of kind {state.kind!r}, which Sylvan {__version__} does not know. "
            f"The kinds it knows: {', '.join(sorted({*KINDS, *store.loaders}))}."
        )
    try:
        return loader(state)
    except ModelError:
        raise
    except SylvanError as error:  # a parameter out of its range, say: here the folder is at fault, not the caller
        raise ModelError(f"{where!r} is damaged: {error}") from error
