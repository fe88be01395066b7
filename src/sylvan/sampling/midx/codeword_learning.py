"""Codewords learned for the queries there are, not for distances alone: two ways for MIDX to go beyond k-means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from sylvan.params.fields import Constraint
from sylvan.sampling.midx.multi_index import THIN, MultiIndex
from sylvan.sampling.tensors import blocks

Learning = Literal["refresh", "joint", "joint-gumbel"]
GUMBEL: Learning = "joint-gumbel"
JOINT: tuple[Learning, ...] = ("joint", GUMBEL)  # ways whose codewords are parameters
START_DEVIATION = 0.01  # of the first codewords that no k-means gives


class Learnable(Constraint):
    """False, True or the name of a way of learning."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool) or (isinstance(value, str) and value in get_args(Learning))

    def describe(self) -> str:
        return "True, False, 'refresh', 'joint' or 'joint-gumbel'"

    def _parse(self, text: str) -> Any:
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(text.lower(), text)


class CodewordLearner(nn.Module):
    """At each refresh fits the codewords to the softmax of recent queries. Which cell a class is in stays what k-means
    made of it. Given that, KL(P‖Q) is convex in the codewords: of the softmax P it needs no more than each codeword's
    share, found once in blocks over the classes, after which a step of L-BFGS costs O(queries · n_codewords ·
    (n_codewords + dim)) at any number of classes."""

    def __init__(self, n_steps: int, sizes: Sequence[int], n_codewords: int) -> None:
        super().__init__()
        self.n_steps = n_steps
        for book, size in enumerate(sizes):
            self.register_buffer(f"means_{book}", torch.zeros(n_codewords, size))
        self.n_codebooks = len(sizes)

    @property
    def means(self) -> list[Tensor]:
        """The codewords of the last k-means, which the next one goes on from."""
        return [getattr(self, f"means_{book}") for book in range(self.n_codebooks)]

    def learn(
        self,
        index: MultiIndex,
        means: Sequence[Tensor],
        masses: Callable[[], list[Tensor]],
        queries: Tensor,
        warm: bool,
    ) -> None:
        """Give the index, rebuilt with the codewords ``means``, codewords nearer to the softmax of queries. ``masses``
        gives the queries' :func:`codeword_masses`; ``queries`` (n, dim) are as the index scores them."""
        start = [mean.clone() for mean in means]
        if warm:  # what was learned so far is how far the codewords lie from their means
            for word, learned, mean in zip(start, index.codewords, self.means, strict=True):
                word += learned - mean
        for stored, mean in zip(self.means, means, strict=True):
            stored.copy_(mean)
        index.set_codewords(start)
        if not len(queries):
            return
        of_codewords, weights = masses(), index.masses()
        words = [word.clone().requires_grad_() for word in start]
        optimizer = torch.optim.LBFGS(words, max_iter=self.n_steps, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = _divergence(index.log_scores(queries, words), of_codewords, weights, index)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with torch.enable_grad():
            optimizer.step(closure)  # type: ignore[no-untyped-call]
        if all(bool(torch.isfinite(word).all()) for word in words):
            index.set_codewords(words)


def codeword_masses(queries: Tensor, table: Tensor, index: MultiIndex) -> list[Tensor]:
    """Of each query's softmax, the share of the classes of each codeword: float64 (batch, n_codewords), one a codebook.
    Looks at every class once, in blocks; what it holds grows with neither the classes nor, but for the result, the
    cells."""
    sums = [queries.new_zeros(index.n_codewords, len(queries), dtype=torch.float64) for _ in range(index.n_codebooks)]
    top = queries.new_full((len(queries),), -torch.inf)
    for rows in blocks(len(table), len(queries)):
        scores = queries @ table[rows].float().t()
        higher = torch.maximum(top, scores.amax(dim=1))
        shrink = (top - higher).exp().double()  # 0 at first
        top = higher
        weights = (scores - top[:, None]).exp_().t().contiguous()  # (classes, batch): index_add_ goes by rows
        codes = index.cell_codes[index.class_cells[rows].long()]
        for book, total in enumerate(sums):
            part = weights.new_zeros(index.n_codewords, len(queries)).index_add_(0, codes[:, book], weights)
            total.mul_(shrink).add_(part)
    return [(total / total.sum(dim=0)).t() for total in sums]


def _divergence(scores: list[Tensor], masses: list[Tensor], weights: Tensor, index: MultiIndex) -> Tensor:
    """Mean over queries of KL(P‖Q) less what doesn't depend on the codewords: log Z - Σ P(codeword) · score."""
    wide = [score.double() for score in scores]
    if index.n_codebooks == 2:
        second = wide[1].exp() @ weights.view(index.n_codewords, index.n_codewords).t()
        partition = (wide[0].exp() * second).sum(dim=1)
        # Queries of which all cells would underflow say nothing: their gradient wouldn't be finite.
        log_partition = partition.clamp_min(THIN).log()
    else:
        scored = index.cell_scores(scores).masked_fill(weights == 0, -torch.inf)
        log_partition = torch.logsumexp(scored + weights.log().clamp_min(-1e3), dim=1)
    expected = torch.zeros_like(log_partition)
    for score, mass in zip(wide, masses, strict=True):
        expected = expected + (mass * score.masked_fill(mass == 0, 0.0)).sum(dim=1)
    return (log_partition - expected).mean()


def _mixtures(
    vectors: Tensor, codewords: Sequence[Tensor], index: MultiIndex, *, noisy: bool = False
) -> tuple[list[Tensor], Tensor]:
    """Each codebook's weights (n, n_codewords), the softmax of inner products, and the mixtures (n, dim), section
    6.2.3. For residual quantisation the second codebook mixes for what the first mixture leaves over, and so on. Where
    ``noisy``, Gumbel noise is added to the inner products, and no gradient goes through the weights."""

    def of(part: Tensor, words: Tensor) -> Tensor:
        if not noisy:
            return torch.softmax(part @ words.t(), dim=1)
        scores = part @ words.detach().t()
        return torch.softmax(scores - torch.empty_like(scores).exponential_().log(), dim=1)

    if index.quantizer == "pq":
        parts = torch.split(vectors, index.sizes, dim=1)
        weights = [of(part, words) for part, words in zip(parts, codewords, strict=True)]
        return weights, torch.cat([w @ words for w, words in zip(weights, codewords, strict=True)], dim=1)
    weights, total = [], torch.zeros_like(vectors)
    for words in codewords:
        left = vectors - (total.detach() if noisy else total)
        weights.append(of(left, words))
        total = total + weights[-1] @ words
    return weights, total


def heaviest_codes(vectors: Tensor, codewords: Sequence[Tensor], index: MultiIndex) -> Tensor:
    """Of each codebook the codeword with the largest weight in the mixture, int64 (n, n_codebooks)."""
    codes = []
    for rows in blocks(len(vectors), index.n_codewords):
        weights, _ = _mixtures(vectors[rows].float(), codewords, index)
        codes.append(torch.stack([weight.argmax(dim=1) for weight in weights], dim=1))
    return torch.cat(codes)


def largest_products(vectors: Tensor, codewords: Sequence[Tensor], index: MultiIndex) -> Tensor:
    """Of each codebook the codeword with the largest inner product, int64 (n, n_codebooks). For residual quantisation
    it is taken off before the next codebook has its turn."""
    codes = []
    for rows in blocks(len(vectors), index.n_codewords):
        left, best = vectors[rows].float(), []
        for words in codewords:
            part = left if index.quantizer == "rq" else left[:, : words.shape[1]]
            best.append((part @ words.t()).argmax(dim=1))
            left = left - words[best[-1]] if index.quantizer == "rq" else left[:, words.shape[1] :]
        codes.append(torch.stack(best, dim=1))
    return torch.cat(codes)


def joint_loss(
    queries: Tensor, table: Tensor, index: MultiIndex, reconstruction_weight: float, *, noisy: bool = False
) -> Tensor:
    """The paper's losses for codewords that learn beside the model; differentiable in the codewords alone. Mean over
    queries of log Σ p²/p', p' being the softmax with mixtures of codewords in the place of embeddings, plus
    ``reconstruction_weight`` times the mean over classes of the squared distance of the mixtures. ``noisy`` is as the
    authors' code has the mixtures: weights with Gumbel noise, through which no gradient goes."""
    queries, table = queries.detach().float().reshape(-1, queries.shape[-1]), table.detach().float()
    with torch.autocast(queries.device.type, enabled=False):
        mixed = _mixtures(table, index.codewords, index, noisy=noisy)[1]
        reconstruction = (mixed - table).square().sum(dim=1).mean()
        log_p = torch.log_softmax(queries @ table.t(), dim=1)
        log_mixed = torch.log_softmax(queries @ mixed.t(), dim=1)
        divergence = torch.logsumexp(2 * log_p - log_mixed, dim=1).mean()
    return divergence + reconstruction_weight * reconstruction
