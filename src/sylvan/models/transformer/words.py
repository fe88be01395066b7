"""Sentences about parameters of XRTransformer and XTransformer: who typed those names is told of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sylvan.errors import ParameterError
from sylvan.models.transformer.presets import DEEP_NAMES

__all__ = ["spoken_of"]

_PARAMETER = re.compile(r"The '(\w+)' parameter of (\w+)")
_HANDED_ALL = ("DeepSettings", "Engine")  # made of the model's own parameters, whatever it was given
_ENCODERS = ("BagTextEncoder", "SentenceEncoder", "TransformerEncoder")


@contextmanager
def spoken_of(model: Any) -> Iterator[None]:
    """An error about a parameter that the model hands on names the model, and the parameter as the model has it.

    What belongs to an object that the model was given (its ranker, its encoder) keeps that object's name.
    """
    try:
        yield
    except ParameterError as error:
        words = _PARAMETER.sub(lambda found: _retold(model, found), str(error))
        if words == str(error):
            raise
        raise ParameterError(words) from error


def _retold(model: Any, found: re.Match[str]) -> str:
    name, owner = found.groups()
    ours = DEEP_NAMES.get(name, name) if owner == "DeepSettings" else name
    if ours in model.parameter_names() and _hands_on(model, ours, owner):
        return f"The '{ours}' parameter of {type(model).__name__}"
    return found.group()


def _hands_on(model: Any, name: str, owner: str) -> bool:
    """Whether that parameter of ``owner`` is the model's own."""
    if owner == "XRLinear":
        return model.ranker is None or getattr(model, name) is not None
    return owner in _HANDED_ALL or (owner in _ENCODERS and isinstance(model.encoder, (str, os.PathLike, type(None))))
