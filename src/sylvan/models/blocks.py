"""Saved models that rank block by block: loaded with the parameters that count when ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sylvan.arrays.topk import TopK, names_by_row
from sylvan.errors import ModelError
from sylvan.labels.vocabulary import NamedTopK
from sylvan.models.base import Estimator
from sylvan.models.text import TextModel
from sylvan.params.fields import Parameterized
from sylvan.remote.client import SCHEME, from_pretrained
from sylvan.store.registry import load


class Source(Protocol):
    """Rows that are read block by block."""

    @property
    def is_text(self) -> bool:
        """Whether they are texts; else features."""

    @property
    def path(self) -> str:
        """Of the file, "-" for stdin."""

    @property
    def name(self) -> str:
        """How messages call it."""

    @property
    def blocks(self) -> Any:
        """A method that gives each block and its labels: of texts, by whether labels are wanted; of features, by the
        number of features."""


def load_ranking(folder: str) -> Estimator:
    """The model in ``folder``, or of a repository of the Hugging Face Hub after ``hf://``, mapped into memory."""
    loaded = from_pretrained(folder) if folder.startswith(SCHEME) else load(folder)
    if not isinstance(loaded, Estimator):
        raise ModelError(f"{folder!r} holds a {type(loaded).__name__}, which is no model that ranks labels.")
    return loaded


def inner_of(model: Any) -> Any:
    """The model over matrices inside one over texts, or the model itself."""
    return model.model if isinstance(model, TextModel) else model


def training_counts(model: Any) -> tuple[npt.NDArray[np.int64] | None, int | None]:
    """How many training rows each label had, and how many there were, without rows that are texts of labels, which say
    nothing of how often labels are given; None where the model doesn't know."""
    inner, texts = inner_of(model), getattr(model, "label_texts_", None)
    counts, n_rows = getattr(inner, "label_counts_", None), getattr(inner, "n_rows_", None)
    if texts is not None and counts is not None and n_rows is not None:
        counts = np.maximum(counts - np.bincount(texts.labels, minlength=len(counts)), 0)
        n_rows -= len(texts.labels)
    return counts, n_rows


def set_ranking(model: Any, parameters: Mapping[str, Any]) -> None:
    """Set what counts when a model ranks: parameters of the model over matrices, and ``unknown`` of that over texts."""
    of_model = {name: value for name, value in parameters.items() if name in type(model).parameter_names()}
    model.set_params(**of_model)
    inner_of(model).set_params(**{name: value for name, value in parameters.items() if name not in of_model})


def has_probabilities(model: Any) -> bool:
    """Whether a model's probabilities mean something: they are calibrated, or what it has learned."""
    inner = inner_of(model)
    return bool(inner.calibrator_ is not None or inner.gives_probabilities)


def set_threads(model: Parameterized, threads: int | None) -> None:
    """The number of threads of a model and of all that it is made of."""
    params = model.get_params()
    # A part that is None is the usual one, which takes the model's threads.
    names = [name for name in params if name == "n_jobs" or name.endswith("__n_jobs")]
    names = [name for name in names if params.get(name.removesuffix("n_jobs").removesuffix("__"), model) is not None]
    model.set_params(**dict.fromkeys(names, threads))


def set_device(model: Estimator, device: str) -> bool:
    """The device of a model's encoder and of all that it is made of; whether there is any."""
    if "device" in type(model).parameter_names():
        model.set_params(device=device)
        model.check_params(["device"])
        return True
    return any([set_device(member, device) for member in getattr(model, "members", ())])  # noqa: C419  # all of them


def rank_blocks(
    model: Any, source: Source, k: int | None, with_labels: bool = False, rule: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[tuple[TopK, list[list[str]] | None, Any, int]]:  # fmt: skip
    """Answers, their names, the right labels and the number of unknown texts for a block of rows after another.
    Arguments as of :func:`answer`."""
    for rows, labels in source.blocks(with_labels if source.is_text else model.n_features_):
        top, names = answer(model, rows, k, rule, **options)
        yield top, names, labels, int(unknown_texts(model, rows, top).sum())


def unknown_texts(model: Any, rows: Any, top: TopK) -> npt.NDArray[np.bool_]:
    """Which rows have no answer as they are texts of which the model knows no word."""
    unknown: npt.NDArray[np.bool_] = np.all(top.labels < 0, axis=1)
    if not model.takes_texts:
        return np.zeros(len(unknown), bool)
    empty = np.flatnonzero(unknown).tolist()
    if empty:
        unknown[empty] = ~model.known_texts([rows[row] for row in empty])
    return unknown


def answer(
    model: Any, rows: Any, k: int | None, rule: Mapping[str, Any] | None = None, **options: Any
) -> tuple[TopK, list[list[str]] | None]:
    """Answers for a block of rows, and their names where labels have any. There are no more than ``k`` answers a row,
    and no more than the model has labels. ``options`` go to its ``rank``. With a ``rule``, the arguments of ``choose``,
    they are those that it picks, with probabilities for scores."""
    k = None if k is None else min(k, model.n_labels_)
    top = model.rank(rows, k, **options) if rule is None else model.choose(rows, k=k, **rule, **options)
    return top, names_by_row(top.labels, top.vocabulary.__getitem__) if isinstance(top, NamedTopK) else None
