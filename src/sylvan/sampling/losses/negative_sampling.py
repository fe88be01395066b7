"""Negative sampling: the logistic loss of the positive against drawn classes, without any correction."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from sylvan.sampling.losses.sampled_loss import Contrast, MaskedNoiseLoss

__all__ = ["NegativeSamplingLoss"]


class NegativeSamplingLoss(MaskedNoiseLoss):
    r"""Binary cross-entropy of scores: the positive is one, :math:`k` drawn classes are zero.

    With scores :math:`s` and negatives :math:`j_1 \dots j_k`, the loss of a query with the positive :math:`y` is

    .. math:: -\ln \sigma(s_y) - \sum_{i=1}^k \ln \sigma(-s_{j_i}).

    It doesn't estimate the softmax: in expectation its optimum (with hits used) is :math:`s_j = \ln p(j \mid x) - \ln k
    q_j`, which ranks classes by how much more probable they are than in the noise. Good for embeddings, not for
    probabilities.

    Parameters
    ----------
    sampler : Sampler
        Where negatives come from; :class:`~sylvan.sampling.Unigram` with ``power=0.75`` in word2vec.
    n_samples : int
        :math:`k`, draws with repetition for each query, or in all when ``shared``; no more than there are classes.
    shared : bool
        Draw once for the whole batch.
    accidental : {"remove", "keep"}
        What becomes of draws that are positives of their query: dropped, as word2vec does, or used as negatives.
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
    The loss of a query with several positives is the mean of what each would have alone with the same negatives. Scores
    are float32 (float64 for float64 inputs) under autocast too, and the gradient of a class table that is a leaf is
    sparse.

    References
    ----------
    T. Mikolov et al., "Distributed Representations of Words and Phrases and their Compositionality", NIPS
    2013, Eq. (4).

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import NegativeSamplingLoss, Uniform
    >>> _ = torch.manual_seed(0)
    >>> table = torch.nn.Parameter(torch.zeros(1000, 16))
    >>> loss = NegativeSamplingLoss(Uniform(1000), 5)
    >>> round(loss(torch.randn(8, 16), table, torch.randint(1000, (8,))).item(), 4)  # (1 + 5) ln 2
    4.1589
    """

    def _of_each_positive(self, contrast: Contrast) -> Tensor:
        of_noise = self._counting(F.softplus(contrast.noise), contrast)
        return F.softplus(-contrast.positive) + of_noise.sum(dim=1, keepdim=True)
