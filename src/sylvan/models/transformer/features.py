"""The features of texts with an encoder: TF-IDF and the encoder's vectors side by side, each of a length of its own."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr, beside
from sylvan.errors import ParameterError
from sylvan.models.transformer.transformer_matcher import TransformerMatcher


def unit_terms(vectorizer: Any, terms: Csr) -> Csr:
    """TF-IDF rows of length 1, whatever the vectoriser's own norm."""
    return terms if vectorizer.norm == "l2" else terms.unit_rows()


class Lengths(NamedTuple):
    """How long TF-IDF's part of a row is, and the encoder's. They are the same for all rows, those without a word among
    them: what the encoder has learned of clusters holds for its part of a row whatever stands beside it."""

    terms: float
    dense: float

    @classmethod
    def of(cls, scale: float, unit: bool) -> Lengths:
        """Vectors of the length ``scale`` beside TF-IDF's 1; with ``unit`` both together have the length 1."""
        factor = 1 / math.hypot(1, scale) if unit else 1.0
        return cls(factor, scale * factor)


def joined(terms: Csr, dense: npt.NDArray[np.float32], lengths: Lengths) -> Csr:
    """TF-IDF and vectors side by side, each times its length: they are of length 1, or vectors as they are."""
    if lengths.terms != 1:
        terms = terms._replace(data=terms.data * np.float32(lengths.terms))
    return beside(terms, dense if lengths.dense == 1 else dense * np.float32(lengths.dense))


def engine_of(device: str, matcher: TransformerMatcher | None) -> Any:
    """Where an encoder is trained; None for this process alone, on processors and without rounding. ``matcher`` is None
    where it isn't trained at all."""
    import torch

    if matcher is None:
        return None
    if device.partition(":")[0] in ("mps", "xpu"):
        raise ParameterError(
            f"The 'device' parameter must be 'auto', 'cpu' or 'cuda' where the encoder is trained: on {device!r} texts "
            f"are only encoded, by frozen=True and in ranking. Got {device!r} instead."
        )
    on_cpu = device == "cpu" or (device == "auto" and not torch.cuda.is_available())
    if on_cpu and matcher.precision == "fp16":
        raise ParameterError(
            "The 'precision' parameter of TransformerMatcher is 'fp16', which needs a CUDA device; this one is 'cpu'. "
            "Take 'bf16' or 'no'."
        )
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1 and matcher.accumulate == 1
    if on_cpu and alone and matcher.precision in ("auto", "no"):
        return None
    from sylvan.neural.loop.engine import Engine

    return Engine(device, matcher.precision, matcher.accumulate)
