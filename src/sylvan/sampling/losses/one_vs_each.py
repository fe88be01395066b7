"""One-vs-each: a product of pairwise comparisons that bounds the softmax from below, sampled."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from sylvan.sampling.losses.sampled_loss import Contrast, NoiseLoss

__all__ = ["OneVsEachLoss"]


class OneVsEachLoss(NoiseLoss):
    r"""Logistic losses of the positive's score against every other class's, their sum estimated from draws.

    With scores :math:`s`, the loss of a query with the positive :math:`y` over all classes is

    .. math:: \ell = -\sum_{j \ne y} \ln \sigma(s_y - s_j) \ge -\ln \frac{e^{s_y}}{\sum_j e^{s_j}},

    and with draws :math:`j_1 \dots j_k` of probability :math:`q` this unbiased estimate of it:

    .. math:: \hat\ell = -\frac{1}{k} \sum_{i=1}^k \frac{[j_i \ne y]}{q_{j_i}} \ln \sigma(s_y - s_{j_i}).

    The bound is the tighter the less probability the other classes have; at the optimum of the bound the ranking of the
    classes is that of the softmax, their probabilities aren't.

    Parameters
    ----------
    sampler : Sampler
        Where the others come from. Every class must have some probability for the estimate to be unbiased;
        :class:`~sylvan.sampling.Uniform` is the paper's choice, :math:`1 / q` being the class count.
    n_samples : int
        :math:`k`, draws with repetition for each query, or in all when ``shared``; no more than there are classes.
    shared : bool
        Draw once for the whole batch; with an adaptive sampler :math:`q` is then the mixture over the batch.
    reduction : {"mean", "sum", "none"}
        Over the queries that aren't ignored.
    ignore_index : int
        The target of queries to leave out, and the filling of rows with fewer positives than others.

    Raises
    ------
    ParameterError
        When a parameter is out of its range, or ``n_samples`` above the sampler's class count.

    Notes
    -----
    Draws that are positives of their query add nothing, as the sum wants: it goes over the other classes. The loss of a
    query with several positives is the mean over them of the sum over the classes that are none. The sum grows with the
    class count, and so does its gradient: choose the learning rate accordingly. Scores are float32 (float64 for
    float64 inputs) under autocast too, and the gradient of a class table that is a leaf is sparse.

    References
    ----------
    M. K. Titsias, "One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities", NIPS 2016.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import OneVsEachLoss, Uniform
    >>> _ = torch.manual_seed(0)
    >>> table = torch.nn.Parameter(torch.randn(1000, 16))
    >>> loss = OneVsEachLoss(Uniform(1000), 50)
    >>> value = loss(torch.randn(8, 16), table, torch.randint(1000, (8,)))
    >>> value.backward()
    >>> value.shape, table.grad.is_sparse
    (torch.Size([]), True)
    """

    def _of_each_positive(self, contrast: Contrast) -> Tensor:
        weights = (-contrast.noise_log_q).exp().expand_as(contrast.hits).masked_fill(contrast.hits, 0.0)
        margins = contrast.noise.unsqueeze(1) - contrast.positive.unsqueeze(-1)  # (batch, p, n_samples)
        return (F.softplus(margins) * weights.unsqueeze(1)).sum(dim=-1) / self.n_samples
