"""Whole tasks with a softmax over many classes, ready to run: language models, recommenders, extreme classifiers.

A task is a :class:`~sylvan.neural.Job` for :func:`sylvan.neural.train`: data, network, any sampler and loss, and the
measures of its field. Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't load
this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, need_torch

need_torch("sylvan.tasks")

if TYPE_CHECKING:
    from sylvan.tasks.corpus import build_corpus as build_corpus
    from sylvan.tasks.corpus import read_corpus as read_corpus
    from sylvan.tasks.extreme_classification import ExtremeClassification as ExtremeClassification
    from sylvan.tasks.language_model import LanguageModel as LanguageModel
    from sylvan.tasks.running import run_task as run_task
    from sylvan.tasks.sequence_split import split_sequences as split_sequences
    from sylvan.tasks.sequential_recommendation import SequentialRecommendation as SequentialRecommendation

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

__all__ = sorted(_PLACES)

__getattr__, __dir__ = lazy_names("sylvan.tasks", _PLACES)
