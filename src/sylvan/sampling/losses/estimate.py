"""Sampled losses that estimate the full softmax's cross-entropy, and a look at how far they are from it."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from sylvan.errors import ParameterError
from sylvan.sampling.losses.full_softmax import FullSoftmaxLoss
from sylvan.sampling.losses.loss import counted_rows
from sylvan.sampling.losses.sampled_loss import SampledLoss
from sylvan.sampling.tensors import without_gradient


class SampledLossWarning(UserWarning):
    """A sampled loss is far from the cross-entropy that it estimates, so that training follows the wrong slope."""


class LossCheck(NamedTuple):
    """What :meth:`CrossEntropyEstimate.check` found on some rows.

    Attributes
    ----------
    sampled, full : float
        Mean of the sampled loss, and of the cross-entropy over all classes, in nats.
    n_rows : int
        How many rows both were computed for.
    """

    sampled: float
    full: float
    n_rows: int


class CrossEntropyEstimate(SampledLoss):
    """Base of sampled losses whose value estimates the cross-entropy over all classes."""

    @without_gradient
    def check(
        self, queries: Tensor, class_embeddings: Tensor, targets: Tensor, bias: Tensor | None = None, *,
        n_rows: int = 64,
    ) -> LossCheck:  # fmt: skip
        """Compute this loss and the full softmax's on a few rows, and warn where the two part.

        A sampler that misses the classes with the largest scores makes the loss too small, and training doesn't notice:
        it goes on lowering it. The tasks call this now and then; a training of your own may.

        Parameters
        ----------
        queries, class_embeddings, targets, bias
            As the loss takes them.
        n_rows : int
            Rows to look at, spread evenly over those that aren't ignored, in [1, inf). Each costs its scores of all
            classes, once.

        Returns
        -------
        LossCheck

        Raises
        ------
        ParameterError
            When ``n_rows`` is out of its range.
        DataError
            As the loss itself.

        Warns
        -----
        SampledLossWarning
            When the loss is below the cross-entropy by more than half of ``ln(n_classes)``, which is what knowing
            nothing costs: the draws miss the classes with the largest scores. Or when it is above by more than one and
            a half of that: losses that correct the target's logit may be above by ``ln(n_classes)`` with uniform
            draws, and further with a sampler that gives the targets less probability than these would.

        Examples
        --------
        >>> import torch
        >>> from sylvan.sampling import SampledSoftmaxLoss, Uniform
        >>> _ = torch.manual_seed(0)
        >>> loss = SampledSoftmaxLoss(Uniform(1000), 100)
        >>> found = loss.check(torch.zeros(4, 8), torch.randn(1000, 8), torch.arange(4))
        >>> round(found.full, 3), abs(found.sampled - found.full) < 1e-4
        (6.908, True)
        """
        if isinstance(n_rows, bool) or not isinstance(n_rows, int) or n_rows < 1:
            raise ParameterError(
                f"The 'n_rows' of {type(self).__name__}.check must be an int in [1, inf). Got {n_rows!r} instead."
            )
        targets = self._check(queries, class_embeddings, targets, bias)
        rows, wanted, _ = counted_rows(queries, targets, self.ignore_index)
        if len(rows) == 0:
            return LossCheck(math.nan, math.nan, 0)
        chosen = torch.linspace(0, len(rows) - 1, min(n_rows, len(rows)), device=rows.device).round().long()
        few, theirs = rows[chosen], wanted[chosen]
        whole = FullSoftmaxLoss(ignore_index=self.ignore_index)
        full = float(whole(few, class_embeddings, theirs, bias))
        sampled = float(self._each(few, class_embeddings, theirs, bias).mean())
        self._warn(sampled - full, math.log(len(class_embeddings)), LossCheck(sampled, full, len(few)))
        return LossCheck(sampled, full, len(few))

    def _warn(self, above: float, most: float, found: LossCheck) -> None:
        """Tell where the loss is far below the cross-entropy or above it; ``most`` is what knowing nothing costs."""
        if math.isinf(found.full) or -0.5 * most <= above <= 1.5 * most:  # infinite: a target is masked
            return
        misses = "misses the classes with the largest scores, and training lowers the one without the other"
        unlikely = "gives the targets less probability than uniform draws would, so that gradients are mostly noise"
        warnings.warn(
            f"This {type(self).__name__} is {found.sampled:.3g} where the cross-entropy over all "
            f"{self.sampler.n_classes:,} classes is {found.full:.3g} ({found.n_rows} rows): its "
            f"{type(self.sampler).__name__} {misses if above < 0 else unlikely}. Refresh the sampler more often, draw "
            "more, lower the table's learning rate, or use HeadAndTailLoss.",
            SampledLossWarning,
            stacklevel=4,
        )
