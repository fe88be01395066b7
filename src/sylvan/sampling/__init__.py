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
    from sylvan.sampling.beam_tree_head import BeamTreeHead as BeamTreeHead
    from sylvan.sampling.beam_tree_head import BestClasses as BestClasses
    from sylvan.sampling.by_name import make_head as make_head
    from sylvan.sampling.by_name import make_loss as make_loss
    from sylvan.sampling.by_name import make_sampler as make_sampler
    from sylvan.sampling.by_name import make_tail_sampler as make_tail_sampler
    from sylvan.sampling.losses.cane import CANELoss as CANELoss
    from sylvan.sampling.losses.cane import FrequencySubsets as FrequencySubsets
    from sylvan.sampling.losses.full_softmax import FullSoftmaxLoss as FullSoftmaxLoss
    from sylvan.sampling.losses.loss import ClassLoss as ClassLoss
    from sylvan.sampling.losses.sampled_softmax import BlackOutLoss as BlackOutLoss
    from sylvan.sampling.losses.sampled_softmax import HeadAndTailLoss as HeadAndTailLoss
    from sylvan.sampling.losses.sampled_softmax import LossCheck as LossCheck
    from sylvan.sampling.losses.sampled_softmax import NCELoss as NCELoss
    from sylvan.sampling.losses.sampled_softmax import NegativeSamplingLoss as NegativeSamplingLoss
    from sylvan.sampling.losses.sampled_softmax import OneVsEachLoss as OneVsEachLoss
    from sylvan.sampling.losses.sampled_softmax import SampledLossWarning as SampledLossWarning
    from sylvan.sampling.losses.sampled_softmax import SampledSoftmaxLoss as SampledSoftmaxLoss
    from sylvan.sampling.midx.exact_midx import ExactMIDX as ExactMIDX
    from sylvan.sampling.midx.midx import MIDX as MIDX
    from sylvan.sampling.rowwise_adagrad import HarmfulOptimizerWarning as HarmfulOptimizerWarning
    from sylvan.sampling.rowwise_adagrad import RowwiseAdagrad as RowwiseAdagrad
    from sylvan.sampling.rowwise_adagrad import check_optimizer as check_optimizer
    from sylvan.sampling.samplers.base import Draw as Draw
    from sylvan.sampling.samplers.base import Sampler as Sampler
    from sylvan.sampling.samplers.base import StaleSamplerWarning as StaleSamplerWarning
    from sylvan.sampling.samplers.kernel_sampler import RFF as RFF
    from sylvan.sampling.samplers.kernel_sampler import Sphere as Sphere
    from sylvan.sampling.samplers.lsh import LSH as LSH
    from sylvan.sampling.samplers.static import InBatch as InBatch
    from sylvan.sampling.samplers.static import LogUniform as LogUniform
    from sylvan.sampling.samplers.static import Softmax as Softmax
    from sylvan.sampling.samplers.static import Subset as Subset
    from sylvan.sampling.samplers.static import Uniform as Uniform
    from sylvan.sampling.samplers.static import Unigram as Unigram

_PLACES = typed_names(__name__)  # a module is loaded when a name of it is first asked for

__all__ = sorted(_PLACES)

__getattr__, __dir__ = lazy_names(__name__, _PLACES)
