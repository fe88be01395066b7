"""Saved models at work: loading one as the command line sets it, and the input that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sylvan.cli.config import Config, config_of
from sylvan.cli.io.inputs import MatrixInput, TextInput, open_input
from sylvan.cli.options import OF_TEXTS, complain, read_model_settings, settable_parameters
from sylvan.errors import DataError, ParameterError
from sylvan.models.at_work import inner_of, load_ranking, set_device, set_ranking, set_threads

# What changes an answer without a new training; anything else would be silently without effect.
_RANK_PARAMETERS = ("beam", "combine", "n_neighbors", "power", "tail", OF_TEXTS)


def load_model(folder: str, settings: Sequence[str], threads: int | None, device: str | None = None) -> Any:
    """The model in ``folder``, its parameters changed by ``settings`` (``beam=20``), ``threads`` and ``device``."""
    loaded = load_ranking(folder)
    set_ranking(loaded, ranking_parameters(loaded, settings))
    set_threads(loaded, threads)
    if device is not None and not set_device(loaded, device):
        raise ParameterError(f"--device is for models with a text encoder, which {folder!r} holds none of.")
    return loaded


def codes_of(model: Any) -> Sequence[str]:
    """What a model calls its labels: their names, or their ids where they have none."""
    return model.vocabulary_ if model.vocabulary_ is not None else [str(label) for label in range(model.n_labels_)]


def ranking_parameters(model: Any, settings: Sequence[str]) -> dict[str, Any]:
    """The parameters that ``settings``, or else the configuration file of the running command, give a model."""
    inner = inner_of(model)
    ctx = click.get_current_context(silent=True)
    config = Config() if ctx is None else config_of(ctx)
    values, of_texts, problems = read_model_settings(type(inner), settings, config.parameters)
    if of_texts and inner is model:
        problems.append(f"The {OF_TEXTS!r} parameter is for texts, and the model is over matrices.")
    known = [name for name, *_ in settable_parameters(type(inner))]
    problems += [
        f"The {name!r} parameter of {type(inner).__name__} matters in training alone. "
        f"Those that can be set here: {', '.join(one for one in known if _counts(one)) or 'none'}."
        for name in values
        if name in known and not _counts(name)
    ]
    if config.problems or problems:
        raise ParameterError(complain([*config.problems, *problems]))
    return values | of_texts


def _counts(name: str) -> bool:
    """Whether a parameter changes an answer without a new training."""
    outer, _, inner = name.rpartition("__")
    return inner in _RANK_PARAMETERS and outer in ("", "ranker")


def input_for(
    model: Any, folder: str, path: str, given: Mapping[str, Any], part: str = "tst"
) -> TextInput | MatrixInput:
    """As :func:`~sylvan.cli.io.inputs.open_input`, of texts or a matrix as the model in ``folder`` takes them."""
    source = open_input(path, given, model, part)
    if model.takes_texts != source.is_text:
        taken = "text" if model.takes_texts else "matrices"
        raise DataError(f"The model in {folder!r} takes {taken}, but {source.name} is {source.words}.")
    return source
