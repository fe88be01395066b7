"""Rankings that give rare labels more weight: scores times a gain for each label."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sylvan.arrays.topk import TopK, ranking_order, resized
from sylvan.arrays.types import Float32, Int64
from sylvan.errors import DataError, ParameterError
from sylvan.metrics import propensities_of_counts
from sylvan.params.fields import Constraint


@dataclass(frozen=True)
class Tail(Constraint):
    """How labels are weighted: ``"psp"``, ``"psp:A,B"``, ``"macro_recall"``, or ``"none"``."""

    optional: bool = True

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and (value in ("psp", "macro_recall", "none") or _numbers(value) is not None)

    def describe(self) -> str:
        return "one of 'psp', 'psp:A,B' with A from 0 and B above 0, 'macro_recall', 'none' or None"

    def _parse(self, text: str) -> Any:
        return text


def _numbers(tail: str) -> tuple[float, float] | None:
    """A and B of ``"psp:A,B"``, or None where they are no such numbers."""
    word, _, text = tail.partition(":")
    try:
        a, b = map(float, text.split(","))
    except ValueError:
        return None
    return (a, b) if word == "psp" and math.isfinite(a) and math.isfinite(b) and a >= 0 and b > 0 else None


def tail_of(of_model: str | None, of_call: Any) -> str | None:
    """What a model's own ``tail`` and the one that ``rank`` is asked for come to; None for no weighing."""
    if of_call is not None and not Tail().accepts(of_call):
        raise ParameterError(f"The 'tail' parameter of rank must be {Tail().describe()}. Got {of_call!r} instead.")
    tail = of_model if of_call is None else str(of_call)
    return None if tail == "none" else tail


def label_gains(tail: str, counts: Int64, n_rows: int) -> Float32:
    """The gain of each label when it is answered correctly, in (0, 1]; that of the rarest labels is 1. The k labels
    with the highest products of gain and probability maximise the expected PSP@k (before it is normalised), or
    macro-averaged recall at k (Schultheis et al. 2024, arXiv 2401.16594)."""
    # Shape: counts (L,)
    if not n_rows:
        raise DataError(f"tail={tail!r} goes by the counts of labels in training rows, and this model knows of none.")
    if tail == "macro_recall":
        chance = np.maximum(counts, 1).astype(np.float64)
    else:
        chance = propensities_of_counts(counts, n_rows, *(_numbers(tail) or ()))
    return np.asarray((chance.min() / chance).astype(np.float32))


def reweigh(top: TopK, gains: Float32, k: int) -> TopK:
    """The ``k`` answers of highest score times gain, best first; among equal scores the lower label comes first."""
    present = top.labels >= 0
    scores = np.where(present, top.scores * gains[np.maximum(top.labels, 0)], -np.inf).astype(np.float32)
    order = ranking_order(top.labels, scores)[:, :k]
    return resized(TopK(np.take_along_axis(top.labels, order, axis=1), np.take_along_axis(scores, order, axis=1)), k)
