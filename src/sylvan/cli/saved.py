"""Saved models at work: loading one, setting what matters when ranking, ranking block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sylvan.cli.inputs import MatrixInput, TextInput
from sylvan.cli.options import parse_settings
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.models.base import Estimator
from sylvan.models.text import TextModel
from sylvan.registry import load
from sylvan.topk import TopK

__all__ = ["check_kind", "load_model", "rank_blocks"]

# What changes an answer without a new training; anything else would be silently without effect.
_RANK_PARAMETERS = ("beam", "combine")


def load_model(folder: str, settings: Sequence[str], threads: int | None) -> Any:
    """The model in ``folder``, its parameters changed by ``settings`` (``beam=20``) and ``threads``.

    Raises
    ------
    ModelError
        When there is no model, or what is there cannot rank.
    ParameterError
        For a setting that is unknown, out of its range, or without effect on ranking.
    """
    loaded = load(folder)
    if not isinstance(loaded, Estimator):
        raise ModelError(f"{folder!r} holds a {type(loaded).__name__}, which is no model that ranks labels.")
    inner = loaded.model if isinstance(loaded, TextModel) else loaded
    values = parse_settings(type(inner), settings)
    for name in values:
        if name not in _RANK_PARAMETERS:
            raise ParameterError(
                f"The {name!r} parameter of {type(inner).__name__} matters in training alone. "
                f"Those that can be set here: {', '.join(_RANK_PARAMETERS)}."
            )
    inner.set_params(**values, n_jobs=threads)
    if isinstance(loaded, TextModel):
        loaded.vectorizer.set_params(n_jobs=threads)
    return loaded


def check_kind(model: Any, folder: str, source: TextInput | MatrixInput) -> None:
    """Refuse a matrix for a model over text, and text for a model over matrices."""
    if isinstance(model, TextModel) and not source.is_text:
        raise DataError(f"The model in {folder!r} takes text, but {source.name} is {source.words}.")
    if not isinstance(model, TextModel) and source.is_text:
        raise DataError(f"The model in {folder!r} takes matrices, but {source.name} is {source.words}.")


def rank_blocks(
    model: Any, source: TextInput | MatrixInput, k: int, with_labels: bool = False
) -> Iterator[tuple[TopK, list[list[str]] | None, Any]]:
    """Answers, their names and the right labels for a block of rows after another.

    There are no more than ``k`` answers a row, and no more than the model has labels.
    """
    k = min(k, model.n_labels_)
    if isinstance(source, TextInput):
        for texts, labels in source.blocks(with_labels):
            named = model.rank(texts, k)
            yield named, named.names, labels
    else:
        for X, Y in source.blocks(model.n_features_):
            yield model.rank(X, k), None, Y
