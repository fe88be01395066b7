"""The other targets of the batch as negatives, with the correction for how often each turns up."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from sylvan.errors import DataError, NotFittedError
from sylvan.params.fields import KW_ONLY, Range, attribute, parameterized
from sylvan.sampling.samplers.base import Draw, Sampler, class_counts
from sylvan.sampling.tensors import need_integers, without_gradient


@parameterized
class InBatch(Sampler):
    """Draws among the targets of the batch at hand, as :meth:`observe` tells them.

    ``log_q`` isn't the probability within this batch but over the batches: a draw among the targets of a batch that
    is itself drawn from the data gives each class as often as it occurs there. That is the probability by which a
    loss must correct, or it takes frequent classes for wrong ones. It comes from the counts, or, when none are given,
    from a streaming estimate: for each class a moving average of how many targets pass from one of its occurrences to
    the next, whose reciprocal is the class's frequency.

    Parameters
    ----------
    n_classes : int
        Number of classes, in [1, inf).
    counts : sequence, array or Tensor of real numbers, shape (n_classes,), optional
        How often each class occurs in the data. None estimates it from the targets as they pass.
    step_size : float
        Weight of a new interval in the estimate, in (0, 1]; of a class that occurred fewer than 1 / step_size times
        the plain mean is taken. Larger values follow drifting data faster, with more noise. Not used with counts.

    Raises
    ------
    ParameterError
        When a parameter is out of its range.
    DataError
        When counts or targets don't fit ``n_classes``, or a target has the count 0.
    NotFittedError
        When it is to draw before a batch was observed.

    Notes
    -----
    The batch isn't part of ``state_dict``; the estimate is. In evaluation mode (``eval()``) the estimate stays as it
    is, but for classes never seen before. Classes never seen have minus infinity as ``log_prob``.

    References
    ----------
    X. Yi et al., "Sampling-bias-corrected neural modeling for large corpus item recommendations", 2019, algorithm 2.
    There an interval is a number of batches; here one of targets, so that a class which occurs several times in
    every batch is distinguished from one that occurs once.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import InBatch
    >>> sampler = InBatch(5)
    >>> sampler.observe(torch.tensor([3, 3, 3, 0]))
    >>> sampler.log_prob(torch.zeros(1, 8), torch.arange(5)).exp().tolist()
    [[0.25, 0.0, 0.0, 0.75, 0.0]]
    >>> bool(torch.isin(sampler.sample(torch.zeros(4, 8), 10).ids, torch.tensor([0, 3])).all())
    True
    """

    counts: Any = None
    _: KW_ONLY
    step_size: Annotated[float, Range(0, 1, open_low=True)] = 0.01
    batch: Tensor = attribute()
    log_probabilities: Tensor = attribute()
    interval: Tensor = attribute()
    seen_at: Tensor = attribute()
    occurrences: Tensor = attribute()
    position: Tensor = attribute()
    total_rate: Tensor = attribute()

    def __post_init__(self) -> None:
        super().__post_init__()
        counts, n_classes = self.counts, self.n_classes
        self.register_buffer("batch", torch.zeros(0, dtype=torch.int64), persistent=False)
        if counts is not None:
            weights = class_counts(counts, n_classes, owner=type(self).__name__)
            self.register_buffer("log_probabilities", (weights / weights.sum()).log().float())
            return
        self.register_buffer("interval", torch.full((n_classes,), float("inf"), dtype=torch.float64))
        self.register_buffer("seen_at", torch.zeros(n_classes, dtype=torch.int64))
        self.register_buffer("occurrences", torch.zeros(n_classes, dtype=torch.int64))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))  # targets that have passed
        self.register_buffer("total_rate", torch.zeros((), dtype=torch.float64))  # sum of 1 / interval

    @without_gradient
    def observe(self, targets: Tensor) -> None:
        """Take the batch's targets as what is drawn from next, and count them for the estimate.

        Parameters
        ----------
        targets : Tensor of int, any shape

        Raises
        ------
        DataError
            When they aren't a tensor of integers, there is none, one isn't in [0, n_classes), or one has the count 0.
        """
        batch = need_integers(targets, "The targets given to InBatch").detach().reshape(-1)
        if len(batch) == 0:
            raise DataError("InBatch was given a batch without targets; it needs at least one to draw from.")
        low, high = (int(end) for end in torch.aminmax(batch))
        if low < 0 or high >= self.n_classes:
            raise DataError(
                f"The targets given to InBatch must be in [0, {self.n_classes}). Got {low if low < 0 else high}."
            )
        if self.counts is None:
            self._count(batch)
        elif bool(torch.isinf(self.log_probabilities[batch]).any()):
            absent = int(batch[torch.isinf(self.log_probabilities[batch])][0])
            raise DataError(f"Class {absent} is a target, but the counts given to InBatch say that it never occurs.")
        self.batch = batch

    def _count(self, batch: Tensor) -> None:
        classes, times = torch.unique(batch, return_counts=True)
        if self.training:
            self.position += len(batch)
        else:
            fresh = self.occurrences[classes] == 0
            classes, times = classes[fresh], times[fresh]
        old = self.interval[classes]
        seen = self.occurrences[classes] + times
        span = (self.position - self.seen_at[classes]).clamp(min=1)
        # Several occurrences in a batch are as many steps towards their mean distance.
        weight = torch.maximum(1 - (1 - self.step_size) ** times.double(), times.double() / seen)
        new = torch.where(seen == times, span / times, old + weight * (span / times - old))
        self.total_rate += (1 / new - 1 / old).sum()
        self.interval[classes] = new
        self.occurrences[classes] = seen
        self.seen_at[classes] = self.position

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        if len(self.batch) == 0:
            raise NotFittedError(
                "This InBatch has observed no batch yet. The losses tell it their targets; when calling sample() "
                "yourself, call observe(targets) first."
            )
        places = torch.randint(len(self.batch), (len(queries), n), generator=generator, device=self.batch.device)
        ids = self.batch[places]
        return Draw(ids, self._log_prob(queries, ids))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        if self.counts is not None:
            return self.log_probabilities[ids]
        return -(self.interval[ids].log() + self.total_rate.log()).float()
