"""Whole tasks with a softmax over many classes, ready to run: language models, recommenders, extreme classifiers.

A task is a :class:`~sylvan.neural.Job` for :func:`sylvan.neural.train`: data, network, any sampler and loss, and the
measures of its field. Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't load
this package.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

# Where each public name lives; a module is loaded when a name of it is first asked for.
_PLACES = {
    "ExtremeClassification": "extreme_classification",
    "LanguageModel": "language_model",
    "SequentialRecommendation": "sequential_recommendation",
    "build_corpus": "corpus",
    "read_corpus": "corpus",
    "run_task": "running",
    "split_sequences": "sequence_split",
}

__all__ = sorted(name for name, place in _PLACES.items() if importlib.util.find_spec(f"sylvan.tasks.{place}"))


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'sylvan.tasks' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"sylvan.tasks.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
