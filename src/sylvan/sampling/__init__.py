"""Softmax over very many classes (PyTorch): samplers of negatives, and the losses trained with them.

A :class:`Sampler` draws classes for queries and tells the exact log-probability of what it drew; a loss
turns the draws into an estimate of the softmax's cross-entropy, or of another objective that needs no sum
over all classes. Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't
load this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, need_torch, typed_names

need_torch("sylvan.sampling")

if TYPE_CHECKING:
    from sylvan.sampling.beam_tree_head import BeamTreeHead
    from sylvan.sampling.best_classes import BestClasses, topk
    from sylvan.sampling.by_name import make_head, make_loss, make_sampler, make_tail_sampler
    from sylvan.sampling.losses.cane import CANELoss, FrequencySubsets
    from sylvan.sampling.losses.loss import ClassLoss
    from sylvan.sampling.losses.sampled_softmax import (
        BlackOutLoss,
        FullSoftmaxLoss,
        HeadAndTailLoss,
        LossCheck,
        NCELoss,
        NegativeSamplingLoss,
        OneVsEachLoss,
        SampledLossWarning,
        SampledSoftmaxLoss,
    )
    from sylvan.sampling.midx.midx import MIDX
    from sylvan.sampling.midx.multi_index import ExactMIDX
    from sylvan.sampling.rowwise_adagrad import HarmfulOptimizerWarning, RowwiseAdagrad, check_optimizer
    from sylvan.sampling.samplers.base import Draw, Sampler, StaleSamplerWarning
    from sylvan.sampling.samplers.kernel_sampler import RFF, Sphere
    from sylvan.sampling.samplers.static import LSH, InBatch, LogUniform, Softmax, Subset, Uniform, Unigram

__all__ = [
    "LSH", "MIDX", "RFF", "BeamTreeHead", "BestClasses", "BlackOutLoss", "CANELoss", "ClassLoss", "Draw", "ExactMIDX",
    "FrequencySubsets", "FullSoftmaxLoss", "HarmfulOptimizerWarning", "HeadAndTailLoss", "InBatch", "LogUniform",
    "LossCheck", "NCELoss", "NegativeSamplingLoss", "OneVsEachLoss", "RowwiseAdagrad", "SampledLossWarning",
    "SampledSoftmaxLoss", "Sampler", "Softmax", "Sphere", "StaleSamplerWarning", "Subset", "Uniform", "Unigram",
    "check_optimizer", "make_head", "make_loss", "make_sampler", "make_tail_sampler", "topk",
]  # fmt: skip

# A module is loaded when a name of it is first asked for.
__getattr__, __dir__ = lazy_names(__name__, typed_names(__name__))
