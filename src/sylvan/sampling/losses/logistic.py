"""Logistic losses of the positive against drawn classes: noise-contrastive, negative sampling, one-vs-each."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.params.fields import KW_ONLY, Range, parameterized
from sylvan.sampling.losses.sampled_loss import Contrast, MaskedNoiseLoss, NoiseLoss


@parameterized
class NCELoss(MaskedNoiseLoss):
    r"""Logistic loss of the positive against :math:`k` noise classes, with scores corrected by the noise's probability.

    With scores :math:`s`, noise classes :math:`j_1 \dots j_k` of probability :math:`q` and the log-normaliser
    :math:`\ln Z`, the loss of a query with the positive :math:`y` is

    .. math:: -\ln \sigma(s_y - \ln Z - \ln k q_y) - \sum_{i=1}^k \ln \sigma(\ln k q_{j_i} + \ln Z - s_{j_i}).

    In expectation its optimum over :math:`s` is :math:`s_j - \ln Z = \ln p(j \mid x)` for any :math:`q` that gives
    every class some probability: scores come out *normalised*, no sum over classes is needed for the probability of
    one. The nearer :math:`q` is to :math:`p` and the larger :math:`k`, the less noise in the estimate.

    Parameters
    ----------
    sampler : Sampler
        Where the noise comes from, commonly :class:`~sylvan.sampling.Unigram` with a power from 0.25 to 1.
    n_samples : int
        :math:`k`, draws with repetition for each query, or in all when ``shared``; no more than there are classes.
    shared : bool
        Draw once for the whole batch; with an adaptive sampler :math:`q` is then the mixture over the batch.
    log_normalizer : float or None
        :math:`\ln Z`. None stands for the logarithm of the class count: a table of zeros, or a fresh one without bias,
        then means the uniform distribution, where with 0 (Mnih and Teh's choice, for a model with a bias that starts
        low) every class would start with probability one.
    learn_normalizer : bool
        Learn :math:`\ln Z` from ``log_normalizer`` on, as the one parameter ``learned_log_normalizer`` of this loss:
        give ``loss.parameters()`` to the optimizer. One number for all queries, as a bias common to all classes is.
    accidental : {"keep", "remove"}
        What becomes of draws that are positives of their query. The theory wants them used: noise is noise because it
        was drawn, whatever it hits. ``"remove"`` drops them from the sum.
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
    The loss of a query with several positives is the mean of what each would have alone with the same noise. A positive
    that the sampler never draws counts as one of probability e^-80: it is surely no noise, and teaches
    nothing. Scores and probabilities are float32 (float64 for float64 inputs) under autocast too, and the gradient of a
    class table that is a leaf is sparse.

    References
    ----------
    .. [1] M. Gutmann and A. Hyvärinen, "Noise-Contrastive Estimation of Unnormalized Statistical Models", JMLR 2012.
    .. [2] A. Mnih and Y. W. Teh, "A Fast and Simple Algorithm for Training Neural Probabilistic Language Models",
       ICML 2012.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import NCELoss, Unigram
    >>> _ = torch.manual_seed(0)
    >>> table = torch.nn.Parameter(torch.zeros(1000, 16))
    >>> loss = NCELoss(Unigram(1000, torch.arange(1, 1001), power=0.75), 20)
    >>> value = loss(torch.randn(8, 16), table, torch.randint(1000, (8,)))
    >>> value.backward()
    >>> value.shape, table.grad.is_sparse
    (torch.Size([]), True)
    """

    _: KW_ONLY
    log_normalizer: Annotated[float | None, Range()] = None
    learn_normalizer: bool = False
    accidental: Literal["remove", "keep"] = "keep"

    _needs_positive_log_q = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learn_normalizer:
            self.learned_log_normalizer = nn.Parameter(torch.tensor(self._constant()))

    def _constant(self) -> float:
        return math.log(self.sampler.n_classes) if self.log_normalizer is None else float(self.log_normalizer)

    def _of_each_positive(self, contrast: Contrast) -> Tensor:
        log_normalizer = self.learned_log_normalizer if self.learn_normalizer else self._constant()
        offset = log_normalizer + math.log(self.n_samples)
        of_positive = F.softplus(offset + contrast.positive_log_q - contrast.positive)  # (batch, p)
        of_noise = F.softplus(contrast.noise - offset - contrast.noise_log_q)  # (batch, n_samples)
        of_noise = self._counting(of_noise, contrast)
        return of_positive + of_noise.sum(dim=1, keepdim=True)


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
