"""Whole tasks with a softmax over many classes, ready to run: language models, recommenders, extreme classifiers.

A task is a :class:`~sylvan.neural.Job` for :func:`sylvan.neural.train`: data, network, any sampler and loss, and the
measures of its field. Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't load
this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, need_torch, typed_names

need_torch("sylvan.tasks")

if TYPE_CHECKING:
    from sylvan.tasks.base import run_task as run_task
    from sylvan.tasks.extreme_classification import ExtremeClassification as ExtremeClassification
    from sylvan.tasks.language_model import LanguageModel as LanguageModel
    from sylvan.tasks.language_model import build_corpus as build_corpus
    from sylvan.tasks.language_model import read_corpus as read_corpus
    from sylvan.tasks.sequential_recommendation import SequentialRecommendation as SequentialRecommendation
    from sylvan.tasks.sequential_recommendation import split_sequences as split_sequences

_PLACES = typed_names(__name__)  # a module is loaded when a name of it is first asked for

__all__ = sorted(_PLACES)

__getattr__, __dir__ = lazy_names(__name__, _PLACES)
