"""What a saved XRTransformer or XTransformer says of itself beside its parts, verified."""

from __future__ import annotations

from typing import Any

import numpy as np

from sylvan import store
from sylvan.errors import ModelError

__all__ = ["need_dense_scale", "need_history", "need_term_scale"]


def need_dense_scale(state: store.State) -> float:
    """The length of the encoder's vectors that the rankers have learned, which the parameter may say otherwise."""
    if "dense_scale" not in state.meta:
        raise ModelError(f"{state.where!r} is damaged: it doesn't say how long its encoder's vectors are.")
    return store.need_float(state, "dense_scale", np.finfo(np.float32).tiny, np.finfo(np.float32).max)


def need_term_scale(state: store.State) -> float:
    """The length of TF-IDF's part of a row; 1 in a model that was saved before it could be anything else."""
    if "term_scale" not in state.meta:
        return 1.0
    return store.need_float(state, "term_scale", np.finfo(np.float32).tiny, 1.0)


def need_history(state: store.State) -> list[dict[str, Any]]:
    """What the training of each layer went like."""
    history = state.meta.get("history")
    if not isinstance(history, list) or not all(isinstance(layer, dict) for layer in history):
        raise ModelError(
            f"{state.where!r} is damaged: 'history' must be a list of layers. Got {history!r:.60} instead."
        )
    return history
