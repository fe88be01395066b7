"""Saved models at work: loading one, setting what matters when ranking, ranking block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from sylvan.cli.config import Config, config_of
from sylvan.cli.io.inputs import MatrixInput, TextInput, open_input
from sylvan.cli.options import complain, read_settings, settable_parameters
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.models.base import Estimator
from sylvan.models.label_names import NamedTopK
from sylvan.models.text import TextModel
from sylvan.store.registry import load
from sylvan.topk import TopK

__all__ = ["inner_of", "input_for", "load_model", "rank_blocks"]

# What changes an answer without a new training; anything else would be silently without effect.
_RANK_PARAMETERS = ("beam", "combine", "n_neighbors", "power", "tail")


def load_model(folder: str, settings: Sequence[str], threads: int | None, device: str | None = None) -> Any:
    """The model in ``folder``, its parameters changed by ``settings`` (``beam=20``), ``threads`` and ``device``.

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
    inner = inner_of(loaded)
    ctx = click.get_current_context(silent=True)
    config = Config() if ctx is None else config_of(ctx)
    values, problems = read_settings(type(inner), settings, preset=config.parameters)
    known = [name for name, *_ in settable_parameters(type(inner))]
    problems += [
        f"The {name!r} parameter of {type(inner).__name__} matters in training alone. "
        f"Those that can be set here: {', '.join(one for one in known if _counts(one)) or 'none'}."
        for name in values
        if name in known and not _counts(name)
    ]
    if config.problems or problems:
        raise ParameterError(complain([*config.problems, *problems]))
    inner.set_params(**values)
    _set_threads(loaded, threads)
    if device is not None and not _set_device(loaded, device):
        raise ParameterError(f"--device is for models with a text encoder, which {folder!r} holds none of.")
    return loaded


def _counts(name: str) -> bool:
    """Whether a parameter changes an answer without a new training."""
    outer, _, inner = name.rpartition("__")
    return inner in _RANK_PARAMETERS and outer in ("", "ranker")


def inner_of(model: Any) -> Any:
    """The model over matrices inside one over texts, or the model itself."""
    return model.model if isinstance(model, TextModel) else model


def _set_threads(model: Estimator, threads: int | None) -> None:
    """The number of threads of a model and of all that it is made of."""
    if isinstance(model, TextModel):
        model.vectorizer.set_params(n_jobs=threads)
        _set_threads(model.model, threads)
        return
    model.set_params(n_jobs=threads)
    for member in getattr(model, "members", ()):
        _set_threads(member, threads)


def _set_device(model: Estimator, device: str) -> bool:
    """The device of a model's encoder and of all that it is made of; whether there is any."""
    if "device" in type(model).parameter_names():
        model.set_params(device=device)
        model.check_params(["device"])
        return True
    return any([_set_device(member, device) for member in getattr(model, "members", ())])  # noqa: C419  # all of them


def input_for(
    model: Any, folder: str, path: str, given: Mapping[str, Any], part: str = "tst"
) -> TextInput | MatrixInput:
    """As :func:`~sylvan.cli.io.inputs.open_input`, of texts or a matrix as the model in ``folder`` takes them.

    Raises
    ------
    DataError
        Also for a matrix where the model is over text, and for text where it is over matrices.
    """
    source = open_input(path, given, model, part)
    if model.takes_texts != source.is_text:
        taken = "text" if model.takes_texts else "matrices"
        raise DataError(f"The model in {folder!r} takes {taken}, but {source.name} is {source.words}.")
    return source


def rank_blocks(
    model: Any,
    source: TextInput | MatrixInput,
    k: int | None,
    with_labels: bool = False,
    rule: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[tuple[TopK, list[list[str]] | None, Any]]:
    """Answers, their names and the right labels for a block of rows after another.

    There are no more than ``k`` answers a row, and no more than the model has labels. ``options`` go to its ``rank``.
    With a ``rule``, the arguments of ``choose``, they are those that it picks, with probabilities for scores.
    """
    k = None if k is None else min(k, model.n_labels_)

    def answer(rows: Any) -> Any:
        return model.rank(rows, k, **options) if rule is None else model.choose(rows, k=k, **rule, **options)

    if isinstance(source, TextInput):
        for texts, labels in source.blocks(with_labels):
            named = answer(texts)
            yield named, named.names, labels
    else:
        for X, Y in source.blocks(model.n_features_):
            top = answer(X)
            yield top, top.names if isinstance(top, NamedTopK) else None, Y
