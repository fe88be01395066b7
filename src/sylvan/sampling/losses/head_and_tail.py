"""Softmax with the frequent classes scored exactly, together for the batch, and a few draws for all the others."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from sylvan.errors import ParameterError
from sylvan.params.fields import KW_ONLY, Instance, attribute, parameterized
from sylvan.sampling.losses.logits import class_logits
from sylvan.sampling.losses.loss import Positives, log_sums
from sylvan.sampling.losses.sampled_softmax import CrossEntropyEstimate
from sylvan.sampling.samplers.base import Draw
from sylvan.sampling.samplers.in_batch import InBatch
from sylvan.sampling.samplers.subset import Subset


@parameterized
class HeadAndTailLoss(CrossEntropyEstimate):
    r"""Softmax over the head :math:`H`, which is scored whole, and the tail, whose sum draws stand for.

    The head is the classes that the sampler never draws; make it the frequent ones. All queries of a batch share its
    scores, which are one matrix product, so that a class of the head costs a small part of what a draw costs. With
    :math:`M` draws :math:`s_1 \dots s_M` from the tail with probabilities :math:`q`, the loss of a query with the
    positive :math:`y` is, by whether the head holds it,

    .. math::
       -\ln \frac{e^{o_y}}{\sum_{j \in H} e^{o_j} + \frac{1}{M} \sum_{k=1}^M e^{o_{s_k}} / q_{s_k}}
       \quad (y \in H), \qquad
       -\ln \frac{e^{o_y}}{\sum_{j \in H} e^{o_j} + \frac{1}{M} \bigl[e^{o_y} / q_y + \sum_{k=1}^{M-1} e^{o_{s_k}} /
       q_{s_k}\bigr]} \quad (y \notin H).

    These are CANE's Eqs. (2) and (3) with the head for candidates of every query and all noises in one sum. The optimum
    is the log of the classes' probabilities whatever the head and :math:`q` (if every class of the tail can be drawn):
    labels of the tail stand among draws as one of them, so that which of them is the label has the probabilities above.

    Parameters
    ----------
    sampler : Subset
        Draws from the tail. :func:`sylvan.sampling.make_tail_sampler` makes one of any kind from counts.
    n_samples : int
        :math:`M`, draws with repetition for each query, or in all when ``shared``; no more than there are classes.
    shared : bool
        Draw once for the whole batch; with an adaptive sampler :math:`q` is then the mixture over the batch.
    sparse : bool
        Whether the gradient of a class table that is a leaf is sparse. False makes it dense, which
        ``DistributedDataParallel`` needs unless the table is the weight of an ``nn.Embedding(sparse=True)``.
    reduction : {"mean", "sum", "none"}
        Over the queries that aren't ignored.
    ignore_index : int
        The target of queries to ignore, and the filling of rows with fewer positives than others.

    Attributes
    ----------
    head : Tensor of int64
        The classes that are scored exactly, ascending.
    coverage : Tensor of float32, scalar
        Share of the last batch's positives that the head held.

    Raises
    ------
    ParameterError
        When a parameter is out of its range, ``n_samples`` above the sampler's class count, or the sampler draws from
        all classes, so that the head is empty.

    Notes
    -----
    A query with several positives has the mean of the losses that each distinct one would have alone, with the same
    draws. Scores and sums are float32 (float64 for float64 inputs) under autocast too, and the gradient of a class
    table that is a leaf is sparse: the head's rows, the draws' and the positives'.

    References
    ----------
    .. [1] L. Han, Y. Huang and T. Zhang, "Candidates vs. Noises Estimation for Large Multi-Class Classification
       Problem", ICML 2018, Eqs. (2) and (3).
    .. [2] J. Chen et al., "Adaptive Sampled Softmax with Inverted Multi-Index", for samplers of the tail.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import HeadAndTailLoss, make_tail_sampler
    >>> _ = torch.manual_seed(0)
    >>> counts = 1000 / torch.arange(1, 1001)
    >>> loss = HeadAndTailLoss(make_tail_sampler("unigram", 1000, counts=counts, n_head=100), n_samples=20)
    >>> table = torch.nn.Parameter(torch.randn(1000, 16))
    >>> loss(torch.randn(4, 16), table, torch.randint(1000, (4,))).backward()
    >>> loss.head.tolist() == list(range(100)), table.grad.is_sparse
    (True, True)
    """

    sampler: Annotated[Subset, Instance(words="a Subset, which draws from the tail")]
    _: KW_ONLY
    head: Tensor = attribute()

    def __post_init__(self) -> None:
        super().__post_init__()
        head = (self.sampler.places < 0).nonzero().squeeze(1)
        if len(head) == 0:
            raise ParameterError(
                f"The 'sampler' parameter of {type(self).__name__} must leave out the classes of the head. Got a "
                f"Subset that draws from all {self.sampler.n_classes} classes."
            )
        self.register_buffer("head", head, persistent=False)
        self.coverage = torch.tensor(float("nan"))

    def _losses(self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None) -> Tensor:
        in_head = self.sampler.places[wanted.ids] < 0
        # A batch whose targets the head holds has no negatives of the tail to draw from: the head stands alone.
        alone = isinstance(self.sampler.sampler, InBatch) and bool(in_head.all())
        draw = self._no_draw(wanted) if alone else self._draw(queries, wanted)
        p, h, m = wanted.ids.shape[1], len(self.head), draw.ids.shape[-1]
        if self.shared:
            scores = class_logits(queries, table, torch.cat([self.head, draw.ids]), bias, own=wanted.ids)
            ours, of_head, drawn = torch.split(scores, [p, h, m], dim=1)
        else:
            scores = class_logits(queries, table, self.head, bias, own=torch.cat([wanted.ids, draw.ids], dim=1))
            ours, drawn, of_head = torch.split(scores, [p, m, h], dim=1)
        self.coverage = in_head[wanted.present].float().mean()
        total = torch.logsumexp(of_head, dim=1, keepdim=True)
        if alone:
            losses = total - ours
        else:
            as_drawn = ours - self._positive_log_q(queries, wanted)
            sums = log_sums(total, drawn - draw.log_q, as_drawn, together=True)
            losses = torch.where(in_head, *sums) - ours  # (batch, p)
        return (losses * wanted.mass(ours.dtype)).sum(dim=1)

    def _no_draw(self, wanted: Positives) -> Draw:
        ids = wanted.ids.new_empty(0) if self.shared else wanted.ids.new_empty(len(wanted.ids), 0)
        return Draw(ids, ids.float())
