"""BlackOut: a softmax over the positive and drawn classes, weighted, in which the drawn ones are pushed down too."""

from __future__ import annotations

import torch
from torch import Tensor

from sylvan.sampling.losses.logits import ABSENT
from sylvan.sampling.losses.sampled_loss import Contrast, MaskedNoiseLoss


class BlackOutLoss(MaskedNoiseLoss):
    r"""Discriminative loss of a weighted softmax over the positive and :math:`k` drawn classes.

    With scores :math:`s`, draws :math:`j_1 \dots j_k` and the weights :math:`w_j = 1 / q_j`, the positive :math:`y` and
    each draw get the probability

    .. math:: \tilde p_i = \frac{w_i e^{s_i}}{w_y e^{s_y} + \sum_{m=1}^k w_{j_m} e^{s_{j_m}}}, \qquad
              \ell = -\ln \tilde p_y - \sum_{m=1}^k \ln(1 - \tilde p_{j_m}).

    The first term alone is a sampled softmax in which the positive is weighted like the draws; the others make it NCE
    with a noise distribution that depends on the query. The model's probabilities are :math:`e^{s_j}` over their sum.

    Parameters
    ----------
    sampler : Sampler
        Where negatives come from: :class:`~sylvan.sampling.Unigram` with a power between 0 and 1 in the paper.
    n_samples : int
        :math:`k`, draws with repetition for each query, or in all when ``shared``; no more than there are classes. A
        class drawn twice stands twice.
    shared : bool
        Draw once for the whole batch; with an adaptive sampler :math:`q` is then the mixture over the batch.
    accidental : {"remove", "keep"}
        What becomes of draws that are positives of their query: dropped from both sums (the paper draws from the other
        classes), or used, where each pushes the positive down again.
    sparse : bool
        Whether the gradient of a class table that is a leaf is sparse. False makes it dense, which
        ``DistributedDataParallel`` needs unless the table is the weight of an ``nn.Embedding(sparse=True)``.
    reduction : {"mean", "sum", "none"}
        Over the queries that aren't ignored.
    ignore_index : int
        The target of queries to ignore, and the filling of rows with fewer positives than others.

    Raises
    ------
    ParameterError
        When a parameter is out of its range, or ``n_samples`` above the sampler's class count.

    Notes
    -----
    The loss of a query with several positives is the mean of what each would have alone with the same draws. A positive
    that the sampler never draws is weighted as if its probability were e^-80. Scores, weights and sums are float32
    (float64 for float64 inputs) under autocast too; :math:`1 - \tilde p` of the largest term is the sum of the others,
    so that nothing is lost where a draw's probability rounds to one. The gradient of a class table that is a leaf is
    sparse.

    References
    ----------
    S. Ji et al., "BlackOut: Speeding up Recurrent Neural Network Language Models With Very Large Vocabularies", ICLR
    2016 (arXiv 1511.06909).

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import BlackOutLoss, Unigram
    >>> _ = torch.manual_seed(0)
    >>> table = torch.nn.Parameter(torch.randn(1000, 16))
    >>> loss = BlackOutLoss(Unigram(1000, torch.arange(1, 1001), power=0.4), 20)
    >>> value = loss(torch.randn(8, 16), table, torch.randint(1000, (8,)))
    >>> value.backward()
    >>> value.shape, table.grad.is_sparse
    (torch.Size([]), True)
    """

    _needs_positive_log_q = True

    def _of_each_positive(self, contrast: Contrast) -> Tensor:
        ours = contrast.positive - contrast.positive_log_q  # (batch, p)
        noise = contrast.noise - contrast.noise_log_q  # (batch, n_samples)
        absent = contrast.hits if self.accidental == "remove" else torch.zeros_like(contrast.hits)
        noise = noise.masked_fill(absent, ABSENT).unsqueeze(1).expand(-1, ours.shape[1], -1)
        logits = torch.cat([ours.unsqueeze(-1), noise], dim=-1)  # (batch, p, 1 + n_samples)
        total = torch.logsumexp(logits, dim=-1, keepdim=True)
        of_noise = -_log_complements(logits, total)[..., 1:].masked_fill(absent.unsqueeze(1), 0.0)
        return total.squeeze(-1) - ours + of_noise.sum(dim=-1)


def _log_complements(logits: Tensor, total: Tensor) -> Tensor:
    """ln(1 - softmax) of every logit, given their logsumexp."""
    is_largest = torch.zeros_like(logits, dtype=torch.bool)
    is_largest.scatter_(-1, logits.argmax(dim=-1, keepdim=True), True)
    of_largest = torch.logsumexp(logits.masked_fill(is_largest, ABSENT), dim=-1, keepdim=True) - total
    # At most one half but for rounding, and where all are masked: their sum rounds to each of them. The largest's own
    # place is filled lest its infinite slope meet a zero.
    probabilities = (logits - total).masked_fill(is_largest, -1.0).exp().clamp(max=0.75)
    return torch.where(is_largest, of_largest, torch.log1p(-probabilities))
