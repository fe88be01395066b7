"""The sampled softmax: cross-entropy over the positive and a few drawn classes with corrected logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from sylvan.errors import ParameterError
from sylvan.params.fields import KW_ONLY, parameterized
from sylvan.sampling.losses.estimate import CrossEntropyEstimate
from sylvan.sampling.losses.logits import class_logits
from sylvan.sampling.losses.loss import LOWEST_LOG_Q, Positives
from sylvan.sampling.losses.sampled_loss import accidental_hits
from sylvan.sampling.samplers.base import Draw


@parameterized
class SampledSoftmaxLoss(CrossEntropyEstimate):
    r"""Cross-entropy over the positive and :math:`M` drawn classes, with logits corrected for how they were drawn.

    With scores :math:`o` and draws :math:`s_1 \dots s_M` of probability :math:`q`, the loss of a query with the
    positive :math:`y` is by default

    .. math:: \ell = \ln \sum_{k=0}^M e^{o'_k} - o_y, \qquad o'_k = o_{s_k} - \ln((M + 1) q_{s_k}), \quad s_0 = y.

    All :math:`M + 1` terms are weighted by :math:`p / q`, the positive's with its own :math:`q`: up to a number that
    isn't learned, the negative logarithm of the softmax over the values :math:`o - \ln q` (Appendix B.2 of the paper
    and its authors' code; the ranking form of noise contrastive estimation). Which of the classes is the label, when
    it is shuffled among the draws, has just these probabilities; so the optimum is the label's distribution :math:`p`
    for any :math:`M` and any :math:`q` that is nowhere 0.

    Eq. (1) of the paper leaves the positive as it is (``correction="drawn"``):

    .. math:: \ell' = \ln\Bigl(e^{o_y} + \sum_{k=1}^M e^{o'_k}\Bigr) - o_y,
              \qquad o'_k = o_{s_k} - \ln(M q_{s_k}).

    The two disagree, and Eq. (1) is the one that isn't consistent: with few draws and a :math:`q` far from :math:`p`
    its optimum is another distribution, in which classes that are drawn seldom are too rare. Both sums estimate the
    softmax's denominator, so both losses tend to the full softmax's as :math:`M` grows, and the gradient is the nearer
    at a given :math:`M` the nearer :math:`q` is to the softmax (Theorem 6).

    With several positives the loss is the mean of those that each distinct one would have alone with the same draws.
    Under Eq. (1) the target mass is spread evenly over them instead: the last term is the mean of their scores, and
    each stands once in the sum, as in cross-entropy with probabilities for targets.

    Parameters
    ----------
    sampler : Sampler
        Where the negatives come from. One that adapts must be refreshed before the first batch, and now and then.
    n_samples : int
        :math:`M`, draws with repetition for each query, or in all when ``shared``; no more than there are classes.
    shared : bool
        Draw once for the whole batch; with an adaptive sampler :math:`q` is then the mixture over the batch. Scores are
        then one matrix product, so that many more negatives cost the same; they fit each query less.
    correction : {"all", "drawn", "others"}
        Whose logits are corrected. ``"all"``: the positive's and the draws', as above; draws that hit a positive count
        as any other, as the theory wants it. A positive that the sampler never draws keeps its logit. ``"drawn"``:
        Eq. (1). ``"others"``: Eq. (1) with account of that the positive is never sampled: draws that are positives are
        dropped, and the others are taken as draws from :math:`q` without the positives, :math:`q_j / (1 - q_y)`, of
        which there are as many as weren't hits. See the notes.
    accidental : {"remove", "paper", "keep"}, optional
        Under ``correction="drawn"`` alone, what becomes of a draw that is a positive of its query. ``"remove"``, the
        default: dropped from the sum, which then estimates its part of the softmax's denominator without bias.
        ``"paper"``, the second case of Eq. (1): its logit stays uncorrected, :math:`o_y`. The label vector, projected
        onto the places, then has mass on several of them; it is read as summing to one, which alone gives the
        right-hand side that the paper prints, so a hit only adds another :math:`e^{o_y}` to the sum, and the bias grows
        with the number of hits. ``"keep"``: corrected like any other draw, so that the positive is counted about twice.
    sparse : bool
        Whether the gradient of a class table that is a leaf is sparse. False makes it dense, which
        ``DistributedDataParallel`` needs unless the table is the weight of an ``nn.Embedding(sparse=True)``.
    reduction : {"mean", "sum", "none"}
        Over the queries that aren't ignored.
    ignore_index : int
        The target of queries to ignore, and the filling of rows with fewer positives than others.

    Notes
    -----
    On ``correction="others"``: the full softmax's gradient is :math:`-(1 - p_y)\bigl[\nabla o_y - \sum_{j \ne y}
    \tfrac{p_j}{1 - p_y} \nabla o_j\bigr]`: a weight, the probability of being wrong, and a contrast with the softmax
    *among the others*. Estimating each from draws that aren't the positive gives a loss with a constant (ungraded)
    weight, :math:`(1 - \hat p_y)\bigl[\ln \sum_{s_k \ne y} e^{o'_k} - o_y\bigr]`, in which the positive has no part
    in the sum: the correction of Khrylchenko et al. Written out, its gradient equals that of :math:`\ell'` above over
    the positive and those draws when :math:`\hat p_y = e^{o_y} / (e^{o_y} + \sum_{s_k \ne y} e^{o'_k})`. That is what
    ``correction="others"`` computes, and why its value remains an estimate of the cross-entropy. What it changes:
    against Eq. (1) with hits kept, no hit makes the positive look more probable than it is, which matters where a
    positive is drawn often (popular classes with a frequency sampler, negatives from the batch, good adaptive
    samplers); with hits removed, the number of hits, which is chance, no longer scales the sum: drawn from the exact
    softmax, the loss equals the full one whatever was drawn. Like ``"all"`` it asks the sampler for the probability of
    every positive, which costs about as much as one more draw for each.

    Scores, corrections and the sum are float32 (float64 for float64 inputs) under autocast too. The gradient of a
    class table that is a leaf is sparse; see ``class_logits`` in ``sampling/losses/logits.py`` and
    :class:`~sylvan.sampling.RowwiseAdagrad`. Don't train the table with Adam
    (:func:`~sylvan.sampling.check_optimizer` says why). Under ``torch.compile`` the draw and the gathering of rows
    run as they are, and what is between them is compiled. There is no second derivative.

    Raises
    ------
    ParameterError
        When a parameter is out of its range, or ``n_samples`` above the sampler's class count.

    References
    ----------
    .. [1] J. Chen et al., "Adaptive Sampled Softmax with Inverted Multi-Index", section 3.2.
    .. [2] Y. Bengio and J.-S. Senécal, "Adaptive Importance Sampling to Accelerate Training of a Neural Probabilistic
       Language Model", 2008.
    .. [3] K. Khrylchenko et al., "Correcting the LogQ Correction: Revisiting Sampled Softmax for Large-Scale
       Retrieval", arXiv 2507.09331, 2025.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import SampledSoftmaxLoss, Uniform
    >>> _ = torch.manual_seed(0)
    >>> table = torch.nn.Parameter(torch.randn(10_000, 16))
    >>> loss = SampledSoftmaxLoss(Uniform(10_000), 100)
    >>> value = loss(torch.randn(8, 16), table, torch.randint(10_000, (8,)))
    >>> value.backward()
    >>> value.shape, table.grad.is_sparse
    (torch.Size([]), True)
    """

    _: KW_ONLY
    correction: Literal["all", "drawn", "others"] = "all"
    accidental: Literal["paper", "remove", "keep"] | None = None

    def check_params(self, names: Sequence[str] | None = None) -> None:
        """Check every declared constraint, and that hits have a rule only where there is one to choose."""
        super().check_params(names)
        if self.accidental is not None and self.correction != "drawn":
            raise ParameterError(
                "The 'accidental' parameter of SampledSoftmaxLoss is for correction='drawn' alone: with "
                f"correction={self.correction!r} draws that hit a positive are "
                f"{'kept' if self.correction == 'all' else 'dropped'}. Got accidental={self.accidental!r}."
            )

    def _losses(self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None) -> Tensor:
        draw = self._draw(queries, wanted)
        p = wanted.ids.shape[1]
        if self.shared:
            scores = class_logits(queries, table, draw.ids, bias, own=wanted.ids)
        else:
            scores = class_logits(queries, table, torch.cat([wanted.ids, draw.ids], dim=1), bias)
        ours, others = scores[:, :p], scores[:, p:]
        if self.correction == "all":
            return self._all_corrected(queries, ours, others, wanted, draw)
        hits = accidental_hits(draw.ids, wanted)
        others = others - self._correction(queries, wanted, draw, hits)
        if self.correction == "others" or self.accidental in (None, "remove"):
            others = others.masked_fill(hits, -math.inf)
        in_sum = ours if p == 1 else ours.masked_fill(~wanted.present, -math.inf)
        total = torch.logsumexp(torch.cat([in_sum, others], dim=1), dim=1)
        return total - (ours.squeeze(1) if p == 1 else (ours * wanted.mass(ours.dtype)).sum(dim=1))

    def _all_corrected(self, queries: Tensor, ours: Tensor, others: Tensor, wanted: Positives, draw: Draw) -> Tensor:
        """Losses (batch,) with each positive as one more draw."""
        share = math.log(self.n_samples + 1)
        of_draws = torch.logsumexp(others - draw.log_q - share, dim=1, keepdim=True)
        log_q = self._positive_log_q(queries, wanted)  # (batch, p)
        own = torch.where(log_q > LOWEST_LOG_Q, log_q + share, 0.0)  # no weight is right for what is never drawn
        losses = torch.logaddexp(of_draws, ours - own) - ours
        return (losses * wanted.mass(ours.dtype)).sum(dim=1)

    def _correction(self, queries: Tensor, wanted: Positives, draw: Draw, hits: Tensor) -> Tensor:
        """What to take off the drawn classes' scores by Eq. (1), (batch, n_samples)."""
        if self.correction == "drawn":
            correction = draw.log_q + math.log(self.n_samples)
            return correction if self.accidental == "keep" else correction.masked_fill(hits, 0.0)
        others = (~hits).sum(dim=1, keepdim=True).clamp(min=1)  # (batch, 1), draws that aren't positives
        remaining = 1.0 - self._mass_of_positives(queries, wanted)  # (batch, 1)
        return (draw.log_q + torch.log(others / remaining)).masked_fill(hits, 0.0)

    def _mass_of_positives(self, queries: Tensor, wanted: Positives) -> Tensor:
        """Probability (batch, 1) that one draw is a positive of the query, a little below one at most."""
        log_q = self._positive_log_q(queries, wanted)
        return torch.where(wanted.present, log_q.exp(), 0.0).sum(dim=1, keepdim=True).clamp(max=1.0 - 1e-6)
