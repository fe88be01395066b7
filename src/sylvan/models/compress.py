"""Compressing a trained model: fewer weights, of fewer bits, until it has a given size on disk."""

from __future__ import annotations

from typing import Any, TypeGuard, TypeVar

from sylvan import store
from sylvan.errors import ParameterError
from sylvan.models.base import Estimator
from sylvan.params.fields import Choice, Range, check_value
from sylvan.params.wording import rounded_up_bytes
from sylvan.runtime.memory import parse_bytes
from sylvan.weights.layer import WEIGHT_DTYPES, WeightDtype

BY_BITS: tuple[WeightDtype, ...] = ("float32", "float16", "uint8", "uint4")
LITTLE = 0.85  # a share of the weights that is better than fewer bits: measured on several sets
ROUNDS, STRAIGHT = 8, 3  # of the search for a size, and those of them that interpolate
NEAR = 0.01  # where it ends: this near below the size

_Model = TypeVar("_Model", bound=Estimator)


def pruned_model(self: _Model, share: float = 1.0, weight_dtype: WeightDtype | None = None) -> _Model:
    """A copy with a share of each cluster's weights, the largest, and nothing else changed.

    Parameters
    ----------
    share : float in [0, 1]
    weight_dtype : {"uint8", "uint4", "float16", "float32"}, optional
        How they are stored; by default as they are now.

    Raises
    ------
    NotFittedError, ParameterError
    """
    self._need_fit("pruned")
    _need_weights(self)
    check_value("share", share, Range(0, 1), f"{type(self).__name__}.pruned")
    if weight_dtype is not None:
        check_value("weight_dtype", weight_dtype, Choice(WEIGHT_DTYPES), f"{type(self).__name__}.pruned")
    model: Any = self
    result: _Model = model._with_weights(share, weight_dtype)
    return result


def compressed_model(
    self: _Model, max_size: int | str | None = None, weight_dtype: WeightDtype | None = None, *, room: int = 0
) -> _Model:
    """A smaller copy of the model: with fewer weights, of fewer bits.

    Parameters
    ----------
    max_size : int or str, optional
        Bytes that the model may take on disk, or text such as ``"5MB"``. The largest weights of each cluster stay,
        as many as there is room for.
    weight_dtype : {"uint4", "uint8", "float16", "float32"}, optional
        How weights are stored. By default as they are, where at least 85% of them then have room, or else in fewer
        bits, which costs less than dropping more of them; ``"uint4"`` without ``max_size``.
    room : int, default 0
        Bytes of ``max_size`` that stay free, for notes that are written into the manifest later.

    Raises
    ------
    NotFittedError
        Before ``fit``.
    ParameterError
        When the model can't be so small: without any weight it is larger.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import XRLinear
    >>> X = np.eye(64, dtype=np.float32).repeat(5, axis=0)
    >>> model = XRLinear(max_leaf=8).fit(X, np.arange(64).repeat(5))
    >>> small = model.compress(weight_dtype="uint4")
    >>> small.weight_dtype, int((small.predict(X) != model.predict(X)).sum())
    ('uint4', 0)
    """
    model: Any = self
    self._need_fit("compress")
    _need_weights(self)
    if max_size is None:
        return pruned_model(self, 1.0, weight_dtype or "uint4")
    limit = parse_bytes(max_size, "max_size") - room
    types: list[WeightDtype | None] = [weight_dtype]
    if weight_dtype is None:  # as they are, or of fewer bits
        widest = min(map(BY_BITS.index, model.weight_dtypes()))
        types += [name for name in ("uint8", "uint4") if BY_BITS.index(name) > widest]
    empty = pruned_model(self, 0.0, types[-1])
    least = _size(empty)
    if least > limit:
        raise ParameterError(
            f"The 'max_size' parameter must be at least {rounded_up_bytes(least + room)} for this "
            f"{type(self).__name__}, which is as large without any weight. Got {max_size!r} instead."
        )
    for each in types:
        unpruned = pruned_model(self, 1.0, each)
        size = _size(unpruned)
        if size <= limit:
            return unpruned
        if each == types[-1] or (limit - least) / (size - least) >= LITTLE:
            break
    return _searched(self, each, limit, (0.0, least, empty), (1.0, size))


def _searched(
    model: _Model, weight_dtype: WeightDtype | None, limit: int, below: tuple[float, int, _Model],
    above: tuple[float, int],
) -> _Model:  # fmt: skip
    """The largest share of the weights that has room, between two whose sizes lie below and above the limit."""
    for number in range(ROUNDS):
        share, size, _ = below
        middle = (share + above[0]) / 2
        if number < STRAIGHT:  # a size grows nearly as the number of weights, but for steps of the layout
            wanted = limit * (1 - NEAR / 2) - size
            middle = share + (above[0] - share) * max(wanted, 0) / (above[1] - size)
        smaller = pruned_model(model, middle, weight_dtype)
        if (size := _size(smaller)) > limit:
            above = middle, size
        else:
            below = middle, size, smaller
            if size >= limit * (1 - NEAR):
                break
    return below[2]


def _need_weights(model: Estimator) -> None:
    if not has_weights(model):
        raise ParameterError(
            f"This {type(model).__name__} has no weights to prune: only those of XRLinear can be, alone or in a "
            "TextModel or an Ensemble."
        )


def has_weights(model: Estimator) -> TypeGuard[Any]:
    """Whether a model has weights that can be pruned."""
    return hasattr(model, "weight_dtypes") and bool(model.weight_dtypes())


def _size(model: Estimator) -> int:
    return store.saved_bytes(model.to_state())
