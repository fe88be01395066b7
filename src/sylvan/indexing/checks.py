"""Parameters of functions, held to their ranges in the sentence that every parameter has."""

from __future__ import annotations

from sylvan.errors import ParameterError
from sylvan.params import Constraint

__all__ = ["check_number"]


def check_number(name: str, value: object, constraint: Constraint) -> None:
    """Raise ``ParameterError`` unless ``value`` is one that ``constraint`` allows."""
    if value is None and constraint.optional:
        return
    if value is None or not constraint.accepts(value):
        raise ParameterError(f"The {name!r} parameter must be {constraint.describe()}. Got {value!r} instead.")
