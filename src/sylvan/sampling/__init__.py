"""Softmax over enormous label sets (PyTorch): samplers of negatives, and the losses trained with them.

A :class:`Sampler` draws classes for queries and tells the exact log-probability of what it drew; a loss
turns the draws into an estimate of the softmax's cross-entropy, or of another objective that needs no sum
over all classes. Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't
load this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, need_torch

need_torch("sylvan.sampling")

if TYPE_CHECKING:
    from sylvan.sampling.base import Draw as Draw
    from sylvan.sampling.base import Sampler as Sampler
    from sylvan.sampling.base import StaleSamplerWarning as StaleSamplerWarning
    from sylvan.sampling.beam_tree_head import BeamTreeHead as BeamTreeHead
    from sylvan.sampling.beam_tree_head import BestClasses as BestClasses
    from sylvan.sampling.black_out import BlackOutLoss as BlackOutLoss
    from sylvan.sampling.by_name import make_head as make_head
    from sylvan.sampling.by_name import make_loss as make_loss
    from sylvan.sampling.by_name import make_sampler as make_sampler
    from sylvan.sampling.cane import CANELoss as CANELoss
    from sylvan.sampling.exact_midx import ExactMIDX as ExactMIDX
    from sylvan.sampling.frequency_subsets import FrequencySubsets as FrequencySubsets
    from sylvan.sampling.full_softmax import FullSoftmaxLoss as FullSoftmaxLoss
    from sylvan.sampling.in_batch import InBatch as InBatch
    from sylvan.sampling.log_uniform import LogUniform as LogUniform
    from sylvan.sampling.loss import ClassLoss as ClassLoss
    from sylvan.sampling.lsh import LSH as LSH
    from sylvan.sampling.midx import MIDX as MIDX
    from sylvan.sampling.nce import NCELoss as NCELoss
    from sylvan.sampling.negative_sampling import NegativeSamplingLoss as NegativeSamplingLoss
    from sylvan.sampling.one_vs_each import OneVsEachLoss as OneVsEachLoss
    from sylvan.sampling.optimizer_check import HarmfulOptimizerWarning as HarmfulOptimizerWarning
    from sylvan.sampling.optimizer_check import check_optimizer as check_optimizer
    from sylvan.sampling.rff import RFF as RFF
    from sylvan.sampling.rowwise_adagrad import RowwiseAdagrad as RowwiseAdagrad
    from sylvan.sampling.sampled_softmax import SampledSoftmaxLoss as SampledSoftmaxLoss
    from sylvan.sampling.softmax import Softmax as Softmax
    from sylvan.sampling.sphere import Sphere as Sphere
    from sylvan.sampling.uniform import Uniform as Uniform
    from sylvan.sampling.unigram import Unigram as Unigram

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
    "BeamTreeHead": "beam_tree_head",
    "BestClasses": "beam_tree_head",
    "FrequencySubsets": "frequency_subsets",
    "RowwiseAdagrad": "rowwise_adagrad",
    "HarmfulOptimizerWarning": "optimizer_check",
    "check_optimizer": "optimizer_check",
    "make_head": "by_name",
    "make_loss": "by_name",
    "make_sampler": "by_name",
}

__all__ = sorted(_PLACES)

__getattr__, __dir__ = lazy_names("sylvan.sampling", _PLACES)
