"""Softmax over enormous label sets (PyTorch): samplers of negatives, and the losses trained with them.

A :class:`Sampler` draws classes for queries and tells the exact log-probability of what it drew; a loss
turns the draws into an estimate of the softmax's cross-entropy, or of another objective that needs no sum
over all classes. Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't
load this package.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError('sylvan.sampling needs PyTorch. Install it with: pip install "sylvan[neural]"') from error

# Where each public name lives; a module is loaded when a name of it is first asked for.
_PLACES = {
    "Draw": "base",
    "Sampler": "base",
    "StaleSamplerWarning": "base",
    "Uniform": "uniform",
    "LogUniform": "log_uniform",
    "Unigram": "unigram",
    "InBatch": "in_batch",
    "Softmax": "softmax",
    "LSH": "lsh",
    "Sphere": "sphere",
    "RFF": "rff",
    "ExactMIDX": "exact_midx",
    "MIDX": "midx",
    "ClassLoss": "loss",
    "SampledSoftmaxLoss": "sampled_softmax",
    "FullSoftmaxLoss": "full_softmax",
    "NCELoss": "nce",
    "NegativeSamplingLoss": "negative_sampling",
    "BlackOutLoss": "black_out",
    "OneVsEachLoss": "one_vs_each",
    "CANELoss": "cane",
    "FrequencySubsets": "frequency_subsets",
    "RowwiseAdagrad": "rowwise_adagrad",
    "HarmfulOptimizerWarning": "optimizer_check",
    "check_optimizer": "optimizer_check",
    "make_loss": "by_name",
    "make_sampler": "by_name",
}

__all__ = sorted(name for name, place in _PLACES.items() if importlib.util.find_spec(f"sylvan.sampling.{place}"))


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'sylvan.sampling' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"sylvan.sampling.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
