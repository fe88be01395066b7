"""Losses over the positive and a few drawn classes: sampled softmax, NCE, BlackOut, one-vs-each, head and tail; and the
full softmax, a chunk of classes at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sylvan.errors import ParameterError
from sylvan.params.fields import KW_ONLY, Instance, Number, Range, attribute, check_value, parameterized
from sylvan.sampling.losses.logits import ABSENT, bag_sums, bags_of_equal, class_logits
from sylvan.sampling.losses.loss import LOWEST_LOG_Q, ClassLoss, Positives, counted_rows, log_sums
from sylvan.sampling.samplers.base import Draw, Sampler
from sylvan.sampling.samplers.static import InBatch, Subset
from sylvan.sampling.tensors import at_least_single, eagerly, slices, without_gradient

# Scores in memory at a time when the chunk size is left to the loss: small enough for the caches of a CPU, and large
# enough for a GPU to be busy.
_SCORES_AT_ONCE = {"cpu": 1 << 20}
_DEVICE_SCORES_AT_ONCE = 1 << 26


@parameterized
class FullSoftmaxLoss(ClassLoss):
    """Cross-entropy over all classes without ever holding the scores of all classes.

    The same value and gradients as ``torch.nn.functional.cross_entropy(queries @ table.T + bias, targets)``. The scores
    of a chunk of classes are made, added to a running sum of exponentials, and dropped; backward makes them again, at
    the cost of one more matrix product. The gradient of the class table is dense.

    With several positives the target mass is spread evenly over the distinct ones, as cross-entropy with probabilities
    for targets has it.

    Parameters
    ----------
    chunk_size : int, optional
        Classes a chunk. None takes as many as make about a million scores (on a GPU, 67 million).
    label_smoothing : float
        Share of the target mass that is spread evenly over all classes, as ``cross_entropy`` has it; a bias of minus
        infinity makes the loss infinite then. Sampled losses have none: the mean over all classes would give every row
        of the table a gradient.

    Notes
    -----
    ``torch.compile`` leaves the loop over chunks as it is. There is no second derivative.

    References
    ----------
    M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import FullSoftmaxLoss
    >>> loss = FullSoftmaxLoss(chunk_size=2)
    >>> queries, table = torch.eye(2), torch.nn.Parameter(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    >>> value = loss(queries, table, torch.tensor([0, 2]))
    >>> expected = torch.nn.functional.cross_entropy(queries @ table.T, torch.tensor([0, 2]))
    >>> torch.allclose(value, expected)
    True
    """

    _: KW_ONLY
    chunk_size: Annotated[int | None, Range(1)] = None
    label_smoothing: Annotated[float, Range(0, 1)] = 0.0

    @eagerly
    def _losses(self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None) -> Tensor:
        limit = _SCORES_AT_ONCE.get(queries.device.type, _DEVICE_SCORES_AT_ONCE)
        chunk = self.chunk_size or max(1, limit // len(queries))
        shares = wanted.shares(at_least_single(queries, table))
        apply: Any = _ChunkedCrossEntropy.apply
        losses = cast(Tensor, apply(queries, table, bias, wanted.ids, shares, chunk))
        if not self.label_smoothing:
            return losses
        # The mean score of all classes is the score of their mean.
        of_positives = (shares * class_logits(queries, table, wanted.ids, bias)).sum(dim=1)
        of_all = (queries.to(shares.dtype) * table.to(shares.dtype).mean(dim=0)).sum(dim=1)
        if bias is not None:
            of_all = of_all + bias.to(shares.dtype).mean()
        return losses + self.label_smoothing * (of_positives - of_all)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Log-sum of exponentials less the positives' mean score; keeps what it was given and one number a query."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, table: Tensor, bias: Tensor | None, ids: Tensor, shares: Tensor, chunk: int
    ) -> Tensor:
        with torch.autocast(queries.device.type, enabled=False):
            wide = queries.to(shares.dtype)
            highest = wide.new_full((len(wide), 1), -torch.inf)
            total = wide.new_zeros(len(wide), 1)
            for _, scores, _ in _chunks(wide, table, bias, chunk):
                high = torch.maximum(highest, scores.amax(dim=1, keepdim=True))
                sums = scores.sub_(high).exp_().sum(dim=1, keepdim=True)
                total = total * (highest - high).exp_() + sums
                highest = high
            log_total = total.log_().add_(highest)  # (batch, 1)
            of_positives = class_logits(wide, table.detach(), ids, None if bias is None else bias.detach())
            ctx.save_for_backward(queries, table, bias, ids, shares, log_total)
            ctx.chunk = chunk
            return log_total.squeeze(1) - (shares * of_positives).sum(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        queries, table, bias, ids, shares, log_total = ctx.saved_tensors
        of_queries = of_table = of_bias = None
        with torch.autocast(queries.device.type, enabled=False):
            wide = queries.to(log_total.dtype)
            if ctx.needs_input_grad[0]:
                of_queries = torch.zeros_like(wide)
            if ctx.needs_input_grad[1]:
                of_table = torch.empty_like(table, memory_format=torch.contiguous_format)
            if ctx.needs_input_grad[2]:
                of_bias = torch.empty_like(bias)
            for part, scores, rows in _chunks(wide, table, bias, ctx.chunk):
                graded = scores.sub_(log_total).exp_().mul_(slope.unsqueeze(1))
                if of_queries is not None:
                    of_queries.addmm_(graded, rows)
                if of_table is not None and of_table.dtype == wide.dtype:
                    torch.mm(graded.t(), wide, out=of_table[part])
                elif of_table is not None:
                    of_table[part] = graded.t() @ wide
                if of_bias is not None:
                    of_bias[part] = graded.sum(dim=0)
            pull = -slope.unsqueeze(1) * shares  # (batch, p), what the positives' scores get besides
            batch, p = ids.shape
            if of_queries is not None:
                distinct, places = torch.unique(ids, return_inverse=True)  # p rows a query are widened, not the table
                starts = torch.arange(0, batch * p, p, device=ids.device)
                rows = table.index_select(0, distinct).to(wide.dtype)
                of_queries += bag_sums(rows, places.reshape(-1), starts, pull.reshape(-1))
            bags = bags_of_equal(ids.reshape(-1))
            if of_table is not None:
                weights = pull.reshape(-1).index_select(0, bags.order)
                rows = bag_sums(wide, bags.order // p, bags.starts, weights)
                of_table.index_add_(0, bags.values, rows.to(of_table.dtype))
            if of_bias is not None:
                sums = bag_sums(pull.reshape(-1, 1), bags.order, bags.starts).squeeze(1)
                of_bias.index_add_(0, bags.values, sums.to(of_bias.dtype))
        return None if of_queries is None else of_queries.to(queries.dtype), of_table, of_bias, None, None, None


def _chunks(wide: Tensor, table: Tensor, bias: Tensor | None, chunk: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """For every chunk of classes its place, the scores (batch, chunk), to be overwritten, and its rows, widened."""
    buffer = wide.new_empty(len(wide) * min(chunk, len(table)))
    for part in slices(len(table), 1, chunk):
        rows = table[part].to(wide.dtype)
        scores = buffer[: len(wide) * len(rows)].view(len(wide), len(rows))
        torch.mm(wide, rows.t(), out=scores)
        if bias is not None:
            scores += bias[part].to(wide.dtype).clamp(min=ABSENT)  # a chunk of masked classes would make NaN
        yield part, scores, rows


@parameterized
class SampledLoss(ClassLoss):
    """Base of losses with a sampler: its parameters, whether it fits the class table, and the draw.
    Parameters
    ----------
    sampler : Sampler
        Where negatives come from.
    n_samples : int
        :math:`k`, draws with repetition for each query, or in all when ``shared``; no more than there are classes.
    shared : bool
        Draw once for the whole batch; with an adaptive sampler :math:`q` is then the mixture over the batch.
    sparse : bool
        Whether the gradient of a class table that is a leaf is sparse. False makes it dense, which
        ``DistributedDataParallel`` needs unless the table is the weight of an ``nn.Embedding(sparse=True)``.
    Raises
    ------
    ParameterError
        When a parameter is out of its range, or ``n_samples`` above the sampler's class count.
    """

    sampler: Annotated[Sampler, Instance(words="a sampler of sylvan.sampling")]
    n_samples: Annotated[int, Range(1)]
    _: KW_ONLY
    shared: bool = False
    sparse: bool = True  # type: ignore[misc]

    def check_params(self, names: Sequence[str] | None = None) -> None:
        """Check every declared constraint, and that there are at least as many classes as samples."""
        super().check_params(names)
        if self.n_samples > self.sampler.n_classes:
            raise ParameterError(
                f"The 'n_samples' parameter of {type(self).__name__} is above the class count: it must be an int in "
                f"[1, {self.sampler.n_classes}] with this {type(self.sampler).__name__}. Got {self.n_samples} instead."
            )

    @without_gradient
    def _draw(self, queries: Tensor, positives: Positives) -> Draw:
        """Negatives for the queries, after the sampler has seen the positives."""
        self.sampler.observe(positives.ids[positives.present])
        return self.sampler.sample(queries.detach().float(), self.n_samples, shared=self.shared)

    def _scored(
        self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None
    ) -> tuple[Draw, Tensor, Tensor]:
        """A draw, and the scores of the positives (batch, p) and of what was drawn (batch, n_samples)."""
        draw, p = self._draw(queries, wanted), wanted.ids.shape[1]
        if self.shared:
            scores = class_logits(queries, table, draw.ids, bias, own=wanted.ids)
        else:
            scores = class_logits(queries, table, torch.cat([wanted.ids, draw.ids], dim=1), bias)
        return draw, scores[:, :p], scores[:, p:]

    @without_gradient
    def _positive_log_q(self, queries: Tensor, wanted: Positives) -> Tensor:
        """Log-probability (batch, p) that a draw is the positive; of the batch's mixture when draws are shared."""
        wide = queries.detach().float()
        if self.shared:
            log_q = self.sampler.shared_log_prob(wide, wanted.ids.reshape(-1)).view(wanted.ids.shape)
        else:
            log_q = self.sampler.log_prob(wide, wanted.ids)
        return log_q.clamp(min=LOWEST_LOG_Q)


def accidental_hits(drawn: Tensor, positives: Positives) -> Tensor:
    """Which drawn classes (batch, m), or (m,) for the whole batch, are positives of their query: bool (batch, m)."""
    ids = positives.ids.contiguous()
    batch, p = ids.shape
    if p == 1:
        return ids == drawn
    ascending = ids.sort(dim=1).values
    wanted = drawn.expand(batch, -1).contiguous()
    places = torch.searchsorted(ascending, wanted).clamp(max=p - 1)
    return ascending.gather(1, places) == wanted


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

        A sampler that misses the classes with the largest scores makes the loss too small, and training goes on
        lowering it. The tasks call this now and then; a training of your own may.

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
            When the loss is below the cross-entropy by more than half of ``ln(n_classes)``: the draws miss the classes
            with the largest scores. Or when it is above by more than one and a half of that: the sampler gives the
            targets less probability than uniform draws would.

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
        check_value("n_rows", n_rows, Number(int, 1), f"{type(self).__name__}.check")
        targets = self._check(queries, class_embeddings, targets, bias)
        rows, wanted, _ = counted_rows(queries, targets, self.ignore_index)
        if len(rows) == 0:
            return LossCheck(math.nan, math.nan, 0)
        chosen = torch.linspace(0, len(rows) - 1, min(n_rows, len(rows)), device=rows.device).round().long()
        few, theirs = rows[chosen], wanted[chosen]
        full_loss = FullSoftmaxLoss(ignore_index=self.ignore_index)
        full = float(full_loss(few, class_embeddings, theirs, bias))
        training = self.sampler.training
        self.sampler.eval()  # samplers that learn from the batches which they see don't count these rows again
        try:
            sampled = float(self._each(few, class_embeddings, theirs, bias).mean())
        finally:
            self.sampler.train(training)
        above, most = sampled - full, math.log(len(class_embeddings))  # what knowing nothing costs
        if not math.isinf(full) and not -0.5 * most <= above <= 1.5 * most:  # infinite: a target is masked
            misses = "misses the classes with the largest scores, and training lowers the one without the other"
            unlikely = "gives the targets less probability than uniform draws would, so that gradients are mostly noise"
            warnings.warn(
                f"This {type(self).__name__} is {sampled:.3g} where the cross-entropy over all "
                f"{self.sampler.n_classes:,} classes is {full:.3g} ({len(few)} rows): its "
                f"{type(self.sampler).__name__} {misses if above < 0 else unlikely}. Refresh the sampler more often, "
                "draw more, lower the table's learning rate, or use HeadAndTailLoss.",
                SampledLossWarning,
                stacklevel=3,
            )
        return LossCheck(sampled, full, len(few))


class Contrast(NamedTuple):
    """Scores of a batch's positives and of its noise, with what the sampler says of both."""

    positive: Tensor  # positive, noise: scores. Places without a positive repeat another one of the row
    noise: Tensor
    # positive_log_q, noise_log_q: log-probabilities of a draw, at least -80; the positives' are zeros unless they were
    # asked for
    positive_log_q: Tensor
    noise_log_q: Tensor
    ignored: Tensor  # bool, shape (batch, n_samples): draws that don't count, being positives of their query


class NoiseLoss(SampledLoss):
    """Base of losses that are a sum over noise for each positive; such a loss writes ``_of_each_positive``. The loss of
    a query with several positives is the mean, over its distinct ones, of what each would have alone with the same
    noise."""

    accidental: ClassVar[str] = "remove"  # a parameter of some
    _needs_positive_log_q = False

    def _losses(self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None) -> Tensor:
        draw, ours, noise = self._scored(queries, table, wanted, bias)
        of_positives = self._positive_log_q(queries, wanted) if self._needs_positive_log_q else torch.zeros_like(ours)
        ignored = torch.zeros_like(noise, dtype=torch.bool)
        if self.accidental == "remove":
            ignored = accidental_hits(draw.ids, wanted)
        contrast = Contrast(ours, noise, of_positives, draw.log_q.clamp(min=LOWEST_LOG_Q), ignored)
        return (self._of_each_positive(contrast) * wanted.shares()).sum(dim=1)

    def _of_each_positive(self, contrast: Contrast) -> Tensor:
        """The loss (batch, p) of every positive with the noise of its query."""
        raise NotImplementedError


@parameterized
class MaskedNoiseLoss(NoiseLoss):
    """Base of those that let the user choose whether draws that hit a positive count.
    Parameters
    ----------
    accidental : {"remove", "keep"}
        What becomes of draws that are positives of their query.
    """

    _: KW_ONLY
    accidental: Literal["remove", "keep"] = "remove"  # type: ignore[misc]


@parameterized
class BlackOutLoss(MaskedNoiseLoss):
    r"""Discriminative loss of a weighted softmax over the positive and :math:`k` drawn classes.

    With scores :math:`s`, draws :math:`j_1 \dots j_k` and the weights :math:`w_j = 1 / q_j`, the positive :math:`y` and
    each draw get the probability

    .. math:: \tilde p_i = \frac{w_i e^{s_i}}{w_y e^{s_y} + \sum_{m=1}^k w_{j_m} e^{s_{j_m}}}, \qquad
              \ell = -\ln \tilde p_y - \sum_{m=1}^k \ln(1 - \tilde p_{j_m}).

    The first term alone is a sampled softmax; the others make it NCE with a noise distribution that depends on the
    query. The model's probabilities are :math:`e^{s_j}` over their sum.

    Parameters
    ----------
    sampler : Sampler
        Where negatives come from: :class:`~sylvan.sampling.Unigram` with a power between 0 and 1 in the paper.
    n_samples : int
        :math:`k`, draws with repetition for each query, or in all when ``shared``; no more than there are classes. A
        class drawn twice stands twice.
    accidental : {"remove", "keep"}
        What becomes of draws that are positives of their query: dropped from both sums (the paper draws from the other
        classes), or used, where each pushes the positive down again.

    Notes
    -----
    The loss of a query with several positives is the mean of what each would have alone with the same draws. A positive
    that the sampler never draws is weighted as if its probability were e^-80.

    References
    ----------
    S. Ji et al., "BlackOut: Speeding up Recurrent Neural Network Language Models With Very Large Vocabularies", ICLR
    2016 (arXiv 1511.06909).

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import BlackOutLoss, Unigram
    >>> table = torch.nn.Parameter(torch.randn(1000, 16))
    >>> loss = BlackOutLoss(Unigram(1000, torch.arange(1, 1001), power=0.4), 20)
    >>> loss(torch.randn(8, 16), table, torch.randint(1000, (8,))).backward()
    >>> table.grad.is_sparse
    True
    """

    _needs_positive_log_q = True

    def _of_each_positive(self, contrast: Contrast) -> Tensor:
        ours = contrast.positive - contrast.positive_log_q  # (batch, p)
        noise = contrast.noise - contrast.noise_log_q  # (batch, n_samples)
        noise = noise.masked_fill(contrast.ignored, ABSENT).unsqueeze(1).expand(-1, ours.shape[1], -1)
        logits = torch.cat([ours.unsqueeze(-1), noise], dim=-1)  # (batch, p, 1 + n_samples)
        total = torch.logsumexp(logits, dim=-1, keepdim=True)
        # ln(1 - softmax) of every logit. Of the largest it is that of the sum of the others.
        is_largest = torch.zeros_like(logits, dtype=torch.bool)
        is_largest.scatter_(-1, logits.argmax(dim=-1, keepdim=True), True)
        of_largest = torch.logsumexp(logits.masked_fill(is_largest, ABSENT), dim=-1, keepdim=True) - total
        # At most one half but for rounding, and where all are masked: their sum rounds to each of them. The largest's
        # own place is filled lest its infinite slope meet a zero.
        probabilities = (logits - total).masked_fill(is_largest, -1.0).exp().clamp(max=0.75)
        log_complements = torch.where(is_largest, of_largest, torch.log1p(-probabilities))
        of_noise = -log_complements[..., 1:].masked_fill(contrast.ignored.unsqueeze(1), 0.0)
        return total.squeeze(-1) - ours + of_noise.sum(dim=-1)


@parameterized
class NCELoss(MaskedNoiseLoss):
    r"""Logistic loss of the positive against :math:`k` noise classes, with scores corrected by the noise's probability.

    With scores :math:`s`, noise classes :math:`j_1 \dots j_k` of probability :math:`q` and the log-normaliser
    :math:`\ln Z`, the loss of a query with the positive :math:`y` is

    .. math:: -\ln \sigma(s_y - \ln Z - \ln k q_y) - \sum_{i=1}^k \ln \sigma(\ln k q_{j_i} + \ln Z - s_{j_i}).

    In expectation its optimum over :math:`s` is :math:`s_j - \ln Z = \ln p(j \mid x)` for any :math:`q` that gives
    every class some probability: scores come out *normalised*.

    Parameters
    ----------
    sampler : Sampler
        Where the noise comes from, commonly :class:`~sylvan.sampling.Unigram` with a power from 0.25 to 1.
    log_normalizer : float or None
        :math:`\ln Z`. None stands for the logarithm of the class count: a table of zeros then means the uniform
        distribution, where with 0 (Mnih and Teh's choice) every class would start with probability one.
    learn_normalizer : bool
        Learn :math:`\ln Z` from ``log_normalizer`` on, as the one parameter ``learned_log_normalizer`` of this loss:
        give ``loss.parameters()`` to the optimizer.
    accidental : {"keep", "remove"}
        What becomes of draws that are positives of their query. The theory wants them used. ``"remove"`` drops them
        from the sum.

    Notes
    -----
    The loss of a query with several positives is the mean of what each would have alone with the same noise. A positive
    that the sampler never draws counts as one of probability e^-80, and teaches nothing.

    References
    ----------
    .. [1] M. Gutmann and A. Hyvärinen, "Noise-Contrastive Estimation of Unnormalized Statistical Models", JMLR 2012.
    .. [2] A. Mnih and Y. W. Teh, "A Fast and Simple Algorithm for Training Neural Probabilistic Language Models",
       ICML 2012.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import NCELoss, Unigram
    >>> table = torch.nn.Parameter(torch.zeros(1000, 16))
    >>> loss = NCELoss(Unigram(1000, torch.arange(1, 1001), power=0.75), 20)
    >>> loss(torch.randn(8, 16), table, torch.randint(1000, (8,))).backward()
    >>> table.grad.is_sparse
    True
    """

    _: KW_ONLY
    log_normalizer: Annotated[float | None, Range()] = None
    learn_normalizer: bool = False
    accidental: Literal["remove", "keep"] = "keep"  # type: ignore[misc]

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
        return of_positive + of_noise.masked_fill(contrast.ignored, 0.0).sum(dim=1, keepdim=True)


@parameterized
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
    shared : bool
        Draw once for the whole batch.
    accidental : {"remove", "keep"}
        What becomes of draws that are positives of their query: dropped, as word2vec does, or used as negatives.

    Notes
    -----
    The loss of a query with several positives is the mean of what each would have alone with the same negatives.

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
        of_noise = F.softplus(contrast.noise).masked_fill(contrast.ignored, 0.0)
        return F.softplus(-contrast.positive) + of_noise.sum(dim=1, keepdim=True)


@parameterized
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

    Notes
    -----
    Draws that are positives of their query add nothing. The loss of a query with several positives is the mean over
    them of the sum over the classes that are none. The sum grows with the class count, and so does its gradient.

    References
    ----------
    M. K. Titsias, "One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities", NIPS 2016.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import OneVsEachLoss, Uniform
    >>> table = torch.nn.Parameter(torch.randn(1000, 16))
    >>> loss = OneVsEachLoss(Uniform(1000), 50)
    >>> loss(torch.randn(8, 16), table, torch.randint(1000, (8,))).backward()
    >>> table.grad.is_sparse
    True
    """

    def _of_each_positive(self, contrast: Contrast) -> Tensor:
        weights = (-contrast.noise_log_q).exp().expand_as(contrast.noise).masked_fill(contrast.ignored, 0.0)
        margins = contrast.noise.unsqueeze(1) - contrast.positive.unsqueeze(-1)  # (batch, p, n_samples)
        return (F.softplus(margins) * weights.unsqueeze(1)).sum(dim=-1) / self.n_samples


@parameterized
class SampledSoftmaxLoss(CrossEntropyEstimate):
    r"""Cross-entropy over the positive and :math:`M` drawn classes, with logits corrected for how they were drawn.

    With scores :math:`o` and draws :math:`s_1 \dots s_M` of probability :math:`q`, the loss of a query with the
    positive :math:`y` is by default

    .. math:: \ell = \ln \sum_{k=0}^M e^{o'_k} - o_y, \qquad o'_k = o_{s_k} - \ln((M + 1) q_{s_k}), \quad s_0 = y.

    All :math:`M + 1` terms are weighted by :math:`p / q`, the positive's with its own :math:`q` (Appendix B.2 of the
    paper and its authors' code; the ranking form of noise contrastive estimation). Which of the classes is the label,
    when it is shuffled among the draws, has just these probabilities; so the optimum is the label's distribution
    :math:`p` for any :math:`M` and any :math:`q` that is nowhere 0.

    Eq. (1) of the paper leaves the positive as it is (``correction="drawn"``):

    .. math:: \ell' = \ln\Bigl(e^{o_y} + \sum_{k=1}^M e^{o'_k}\Bigr) - o_y,
              \qquad o'_k = o_{s_k} - \ln(M q_{s_k}).

    Eq. (1) isn't consistent: with few draws and a :math:`q` far from :math:`p`, classes that are drawn seldom are too
    rare at its optimum. Both losses tend to the full softmax's as :math:`M` grows, and the gradient is the nearer at a
    given :math:`M` the nearer :math:`q` is to the softmax (Theorem 6).

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
        Draw once for the whole batch; with an adaptive sampler :math:`q` is then the mixture over the batch. Many more
        negatives cost the same; they fit each query less.
    correction : {"all", "drawn", "others"}
        Whose logits are corrected. ``"all"``: the positive's and the draws', as above; draws that hit a positive count
        as any other, as the theory wants it. A positive that the sampler never draws keeps its logit. ``"drawn"``:
        Eq. (1). ``"others"``: Eq. (1) with account of that the positive is never sampled: draws that are positives are
        dropped, and the others are taken as draws from :math:`q` without the positives, :math:`q_j / (1 - q_y)`, of
        which there are as many as weren't hits. See the notes.
    accidental : {"remove", "paper", "keep"}, optional
        Under ``correction="drawn"`` alone, what becomes of a draw that is a positive of its query. ``"remove"``, the
        default: dropped from the sum, which then estimates its part of the softmax's denominator without bias.
        ``"paper"``, the second case of Eq. (1): its logit stays uncorrected, so that each hit adds another
        :math:`e^{o_y}` to the sum. ``"keep"``: corrected like any other draw; the positive is counted about twice.

    Notes
    -----
    On ``correction="others"``: the full softmax's gradient is :math:`-(1 - p_y)\bigl[\nabla o_y - \sum_{j \ne y}
    \tfrac{p_j}{1 - p_y} \nabla o_j\bigr]`, a weight and a contrast with the softmax *among the others*. Estimating each
    from draws that aren't the positive is the correction of Khrylchenko et al., whose gradient is that of
    :math:`\ell'` over the positive and those draws. No hit then makes the positive look more probable than it is, nor
    does the number of hits scale the sum: drawn from the exact softmax, the loss equals the full one. Like ``"all"``
    it asks the sampler for the probability of every positive, which costs about as much as one more draw for each.

    For the table's sparse gradient see :class:`~sylvan.sampling.RowwiseAdagrad`; don't train the table with Adam
    (:func:`~sylvan.sampling.check_optimizer` says why). Under ``torch.compile`` the draw and the gathering of rows
    run as they are, and what is between them is compiled. There is no second derivative.

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
    >>> table = torch.nn.Parameter(torch.randn(10_000, 16))
    >>> loss = SampledSoftmaxLoss(Uniform(10_000), 100)
    >>> loss(torch.randn(8, 16), table, torch.randint(10_000, (8,))).backward()
    >>> table.grad.is_sparse
    True
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
        draw, ours, drawn = self._scored(queries, table, wanted, bias)
        if self.correction == "all":  # each positive is one more draw
            share = math.log(self.n_samples + 1)
            of_draws = torch.logsumexp(drawn - draw.log_q - share, dim=1, keepdim=True)
            log_q = self._positive_log_q(queries, wanted)  # (batch, p)
            weight = torch.where(log_q > LOWEST_LOG_Q, log_q + share, 0.0)  # none is right for what is never drawn
            losses = torch.logaddexp(of_draws, ours - weight) - ours
            return (losses * wanted.shares(ours.dtype)).sum(dim=1)
        hits = accidental_hits(draw.ids, wanted)
        if self.correction == "drawn":
            correction = draw.log_q + math.log(self.n_samples)
        else:
            n_others = (~hits).sum(dim=1, keepdim=True).clamp(min=1)  # (batch, 1), draws that aren't positives
            of_positives = torch.where(wanted.present, self._positive_log_q(queries, wanted).exp(), 0.0)
            remaining = 1.0 - of_positives.sum(dim=1, keepdim=True).clamp(max=1.0 - 1e-6)
            correction = draw.log_q + torch.log(n_others / remaining)
        drawn = drawn - (correction if self.accidental == "keep" else correction.masked_fill(hits, 0.0))
        if self.correction == "others" or self.accidental in (None, "remove"):
            drawn = drawn.masked_fill(hits, -math.inf)
        single = ours.shape[1] == 1
        in_sum = ours if single else ours.masked_fill(~wanted.present, -math.inf)
        total = torch.logsumexp(torch.cat([in_sum, drawn], dim=1), dim=1)
        return total - (ours.squeeze(1) if single else (ours * wanted.shares(ours.dtype)).sum(dim=1))


@parameterized
class HeadAndTailLoss(CrossEntropyEstimate):
    r"""Softmax over the head :math:`H`, which is scored whole, and the tail, whose sum draws stand for.

    The head is the classes that the sampler never draws; make it the frequent ones. All queries of a batch share its
    scores, so that a class of the head costs a small part of what a draw costs. With :math:`M` draws :math:`s_1 \dots
    s_M` from the tail with probabilities :math:`q`, the loss of a query with the positive :math:`y` is, by whether the
    head holds it,

    .. math::
       -\ln \frac{e^{o_y}}{\sum_{j \in H} e^{o_j} + \frac{1}{M} \sum_{k=1}^M e^{o_{s_k}} / q_{s_k}}
       \quad (y \in H), \qquad
       -\ln \frac{e^{o_y}}{\sum_{j \in H} e^{o_j} + \frac{1}{M} \bigl[e^{o_y} / q_y + \sum_{k=1}^{M-1} e^{o_{s_k}} /
       q_{s_k}\bigr]} \quad (y \notin H).

    These are CANE's Eqs. (2) and (3) with the head for candidates of every query and all noises in one sum. The optimum
    is the log of the classes' probabilities whatever the head and :math:`q` (if every class of the tail can be drawn).
    A positive that the sampler never draws, such as a class of count 0, stands in its own query's sum as if the head
    held it, and in no other's: add 1 to counts that may be 0.

    Parameters
    ----------
    sampler : Subset
        Draws from the tail. :func:`sylvan.sampling.make_tail_sampler` makes one of any kind from counts.
    n_samples : int
        :math:`M`, draws with repetition for each query, or in all when ``shared``; no more than there are classes.

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
    draws. The sparse gradient of a class table has the head's rows, the draws' and the positives'.

    References
    ----------
    .. [1] L. Han, Y. Huang and T. Zhang, "Candidates vs. Noises Estimation for Large Multi-Class Classification
       Problem", ICML 2018, Eqs. (2) and (3).
    .. [2] J. Chen et al., "Adaptive Sampled Softmax with Inverted Multi-Index", for samplers of the tail.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import HeadAndTailLoss, make_tail_sampler
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
        if alone:
            nothing = wanted.ids.new_empty(0) if self.shared else wanted.ids.new_empty(len(wanted.ids), 0)
            draw = Draw(nothing, nothing.float())
        else:
            draw = self._draw(queries, wanted)
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
            log_q = self._positive_log_q(queries, wanted)
            as_head, as_drawn = log_sums(total, drawn - draw.log_q, ours - log_q, together=True)
            of_tail = torch.where(log_q > LOWEST_LOG_Q, as_drawn, torch.logaddexp(as_head, ours))
            losses = torch.where(in_head, as_head, of_tail) - ours  # (batch, p)
        return (losses * wanted.shares(ours.dtype)).sum(dim=1)
