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
    from sylvan.tasks.base import run_task
    from sylvan.tasks.extreme_classification import ExtremeClassification
    from sylvan.tasks.language_model import LanguageModel, build_corpus, read_corpus
    from sylvan.tasks.sequential_recommendation import SequentialRecommendation, split_sequences

__all__ = [
    "ExtremeClassification", "LanguageModel", "SequentialRecommendation", "build_corpus", "read_corpus", "run_task",
    "split_sequences",
]  # fmt: skip

# A module is loaded when a name of it is first asked for.
__getattr__, __dir__ = lazy_names(__name__, typed_names(__name__))
