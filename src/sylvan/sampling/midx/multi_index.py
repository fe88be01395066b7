"""The inverted multi-index, classes grouped by their codewords, and the base of the samplers that draw through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from sylvan import kernels
from sylvan.errors import ParameterError
from sylvan.indexing.codebooks import Codebooks, Quantizer, codeword_sizes, fit_codebooks, reconstruct
from sylvan.params.fields import KW_ONLY, Constraint, Range, attribute, parameterized
from sylvan.sampling.samplers.base import AdaptiveSampler, Draw, class_counts
from sylvan.sampling.tensors import blocks, invert, product

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
    """At each refresh moves learned codewords as k-means moved their means, and fits them to the softmax of recent
    queries if there are any. Which cell a class is in stays what k-means made of it. Given that, KL(P‖Q) is convex in
    the codewords: of the softmax P it needs no more than each codeword's share, found once in blocks over the classes,
    after which a step of L-BFGS costs O(queries · n_codewords · (n_codewords + dim)) at any number of classes."""

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
        self, index: MultiIndex, means: Sequence[Tensor], table: Tensor, queries: Tensor, moved: Tensor, *, warm: bool
    ) -> None:
        """Give the index, rebuilt with the codewords ``means``, codewords nearer to the softmax of queries (n, dim);
        ``moved`` are these as the index scores them."""
        start = [mean.clone() for mean in means]
        if warm:  # what was learned so far is how far the codewords lie from their means
            for word, learned, mean in zip(start, index.codewords, self.means, strict=True):
                word += learned - mean
        for stored, mean in zip(self.means, means, strict=True):
            stored.copy_(mean)
        index.set_codewords(start)
        if not len(queries):
            return
        of_codewords, weights = codeword_masses(queries, table, index), index.masses()
        words = [word.clone().requires_grad_() for word in start]
        optimizer = torch.optim.LBFGS(words, max_iter=self.n_steps, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = _divergence(index.log_scores(moved, words), of_codewords, weights, index)
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


def _mixtures(vectors: Tensor, codewords: Sequence[Tensor], index: MultiIndex) -> Tensor:
    """Each vector (n, dim) as the authors' code mixes the codewords of each codebook: by the softmax of inner products
    with Gumbel noise, through which no gradient goes. For residual quantisation the second codebook mixes for what the
    first mixture leaves over, and so on."""

    def mixed(part: Tensor, words: Tensor) -> Tensor:
        scores = part @ words.detach().t()
        return torch.softmax(scores - torch.empty_like(scores).exponential_().log(), dim=1) @ words

    if index.quantizer == "pq":
        parts = torch.split(vectors, index.sizes, dim=1)
        return torch.cat([mixed(part, words) for part, words in zip(parts, codewords, strict=True)], dim=1)
    total = torch.zeros_like(vectors)
    for words in codewords:
        total = total + mixed(vectors - total.detach(), words)
    return total


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


def joint_loss(queries: Tensor, table: Tensor, index: MultiIndex) -> Tensor:
    """Mean over queries (n, dim) of the cross-entropy of what an index draws under the softmax: KL(P‖Q) and what
    doesn't depend on the codewords, in which alone it is differentiable."""
    masses = codeword_masses(queries, table, index)
    return _divergence(index.log_scores(queries), masses, index.masses(), index).float()


def noisy_loss(queries: Tensor, table: Tensor, index: MultiIndex, reconstruction_weight: float) -> Tensor:
    """The paper's losses for codewords that learn beside the model; differentiable in the codewords alone. Mean over
    queries of log Σ p²/p', p' being the softmax with mixtures of codewords in the place of embeddings, plus
    ``reconstruction_weight`` times the mean over classes of the squared distance of the mixtures."""
    mixed = _mixtures(table, index.codewords, index)
    reconstruction = (mixed - table).square().sum(dim=1).mean()
    log_p = torch.log_softmax(queries @ table.t(), dim=1)
    log_mixed = torch.log_softmax(queries @ mixed.t(), dim=1)
    return torch.logsumexp(2 * log_p - log_mixed, dim=1).mean() + reconstruction_weight * reconstruction


_MOST_CELLS = 1 << 28  # some GiB of offsets and codes
THIN = 1e-200  # below this partition a product of two scores may have underflown beside ones that count


class MultiIndex(nn.Module):
    """Classes sorted by cell, a cell being one codeword of each codebook; all in buffers of fixed shapes. With one or
    two codebooks every combination of codewords is a cell, classes or not; with more only those with classes are, in a
    list as long as there can be, the places left over being empty cells."""

    order: Tensor  # shape (n_classes,): classes sorted by cell
    offsets: Tensor  # shape (n_cells + 1,): where each cell's classes begin in `order`
    class_cells: Tensor  # shape (n_classes,): the cell of each class
    cell_codes: Tensor  # shape (n_cells, n_codebooks): the codewords of each cell
    unused: Tensor  # shape (n_codebooks, n_codewords): codewords that stand for no class at all
    # shape (n_classes,), or (0,) where ``weighted`` is False: what is added to each class's scores, the largest of them
    # 0
    own_scores: Tensor
    # shape (n_classes,), or (0,): running sums, along `order`, of the classes' parts of their cells: each cell with
    # classes is 1 high
    heights: Tensor
    cell_masses: Tensor  # shape (n_cells,), or (0,): sum over each cell's classes of exp(own score)
    factor: Tensor  # shape (): what all scores are multiplied by; own scores are stored so

    def __init__(
        self,
        n_classes: int,
        dim: int,
        n_codewords: int,
        n_codebooks: int,
        quantizer: Quantizer,
        *,
        trained: bool = False,
        weighted: bool = False,
    ) -> None:
        super().__init__()
        self.weighted, self.quantizer = weighted, quantizer
        self.n_codewords, self.n_codebooks = n_codewords, n_codebooks
        self.sizes = codeword_sizes(dim, n_codebooks, quantizer)
        self.complete = n_codebooks <= 2
        n_cells = n_codewords**n_codebooks
        self.n_cells = n_cells = n_cells if self.complete else min(n_classes, n_cells)
        for book, size in enumerate(self.sizes):
            words = torch.zeros(n_codewords, size)
            if trained:  # by whoever optimises the module's parameters
                self.register_parameter(f"codewords_{book}", nn.Parameter(words))
            else:
                self.register_buffer(f"codewords_{book}", words)
        int_dtype = torch.int32 if max(n_classes, n_cells) < 2**31 else torch.int64
        self.register_buffer("order", torch.arange(n_classes, dtype=int_dtype))
        self.register_buffer("offsets", torch.zeros(n_cells + 1, dtype=torch.int64))
        self.register_buffer("class_cells", torch.zeros(n_classes, dtype=int_dtype))
        self.register_buffer("unused", torch.zeros(n_codebooks, n_codewords, dtype=torch.bool))
        self.register_buffer("own_scores", torch.zeros(n_classes if weighted else 0))
        self.register_buffer("heights", torch.zeros(n_classes if weighted else 0, dtype=torch.float64))
        self.register_buffer("cell_masses", torch.zeros(n_cells if weighted else 0, dtype=torch.float64))
        self.register_buffer("factor", torch.ones(()))
        codes = torch.zeros(n_cells, n_codebooks, dtype=torch.int64)
        self.register_buffer("cell_codes", self._unpack(torch.arange(n_cells)) if self.complete else codes)

    @property
    def codewords(self) -> list[Tensor]:
        """The codewords that scores are made of, one (n_codewords, size) tensor a codebook."""
        return [getattr(self, f"codewords_{book}") for book in range(self.n_codebooks)]

    @property
    def counts(self) -> Tensor:
        """How many classes each cell holds, int64 (n_cells,)."""
        return self.offsets.diff()

    def masses(self) -> Tensor:
        """What each cell weighs beside its codewords' scores, float64 (n_cells,): its classes, or their weights."""
        return self.cell_masses if self.weighted else self.counts.double()

    def set_codewords(self, codewords: Sequence[Tensor]) -> None:
        """Score with other codewords; which classes a cell holds stays as it is."""
        for old, new in zip(self.codewords, codewords, strict=True):
            old.copy_(new.detach())

    def rebuild(self, codes: Tensor) -> None:
        """Sort the classes by their codes, (n_classes, n_codebooks)."""
        packed = codes[:, 0].clone()
        for book in range(1, self.n_codebooks):
            packed = packed * self.n_codewords + codes[:, book]
        if self.complete:
            cells, counts = packed, torch.bincount(packed, minlength=self.n_cells)
        else:
            result, cells, counts = torch.unique(packed, return_inverse=True, return_counts=True)
            self.cell_codes.zero_()
            self.cell_codes[: len(result)] = self._unpack(result)
            counts = torch.cat([counts, counts.new_zeros(self.n_cells - len(result))])
        self.class_cells.copy_(cells)
        self.order.copy_(torch.argsort(cells, stable=True))
        self.offsets[0] = 0
        self.offsets[1:] = torch.cumsum(counts, 0)
        self.unused.fill_(True)
        self.unused.scatter_(1, codes.t(), False)
        self.factor.fill_(1.0)
        if self.weighted:
            self.set_own_scores(torch.zeros_like(self.own_scores))

    def set_own_scores(self, scores: Tensor) -> None:
        """Add ``scores`` (n_classes,) to what the codewords give: classes of a cell are then not all alike. Those more
        than 300 below the largest are taken as just that, so that nothing underflows."""
        self.own_scores.copy_((scores - scores.amax()).clamp_min(-300.0))
        cells, order = self.class_cells.long(), self.order.long()
        tops = torch.full_like(self.cell_masses, -torch.inf)
        tops.scatter_reduce_(0, cells, self.own_scores.double(), "amax")
        # Relative to the heaviest class of its own cell a weight can't be lost beside those of other cells.
        parts = (self.own_scores.double() - tops[cells]).exp()[order]
        runs = torch.cat([parts.new_zeros(1), parts.cumsum(0)])
        totals = runs[self.offsets[1:]] - runs[self.offsets[:-1]]
        self.heights.copy_((parts / totals[cells[order]]).cumsum(0))
        self.cell_masses.copy_(torch.where(totals > 0, totals * tops.exp(), 0.0))

    def flatten(self, factor: float) -> None:
        """Multiply all scores by a factor, until the next rebuild."""
        self.set_own_scores(factor * self.own_scores)
        self.factor.mul_(factor)

    def log_scores(self, queries: Tensor, codewords: Sequence[Tensor] | None = None) -> list[Tensor]:
        """Inner products of the queries with each codebook's codewords, less the largest of each row."""
        # Shape: queries (batch, dim); returns (batch, n_codewords)
        rows = queries.float()
        parts = list(torch.split(rows, self.sizes, dim=1)) if self.quantizer == "pq" else [rows] * self.n_codebooks
        scores = []
        for book, words in enumerate(self.codewords if codewords is None else codewords):
            score = (self.factor * product(parts[book], words)).masked_fill(self.unused[book], -torch.inf)
            scores.append(score - score.amax(dim=1, keepdim=True).detach())
        return scores

    def class_scores(self, log_scores: Sequence[Tensor], ids: Tensor) -> Tensor:
        """Log-scores of the codewords of classes (batch, m), summed with the classes' own scores in float64."""
        codes = self.cell_codes[self.class_cells[ids].long()]  # (batch, m, n_codebooks)
        picked = [scores.gather(1, codes[..., book]).double() for book, scores in enumerate(log_scores)]
        if self.weighted:
            picked.append(self.own_scores[ids].double())
        return torch.stack(picked).sum(dim=0)

    def cell_scores(self, log_scores: Sequence[Tensor]) -> Tensor:
        """Sum over the codebooks of the log-scores of each cell's codewords, float64 (batch, n_cells)."""
        total = log_scores[0].double().index_select(1, self.cell_codes[:, 0])
        for book in range(1, self.n_codebooks):
            total += log_scores[book].double().index_select(1, self.cell_codes[:, book])
        return total

    def _unpack(self, packed: Tensor) -> Tensor:
        codes = []
        for _ in range(self.n_codebooks):
            codes.append(packed % self.n_codewords)
            packed = packed // self.n_codewords
        return torch.stack(codes[::-1], dim=1)


@parameterized
class MultiIndexSampler(AdaptiveSampler):
    """Base of the samplers with codebooks: the parameters of these, and the classes' weights in the k-means.
    Parameters
    ----------
    n_codewords : int
        Codewords of each codebook, K, in [1, inf).
    quantizer : {"rq", "pq"}
        Residual or product quantisation; residual comes closer to the softmax.
    n_codebooks : int
        How many codebooks, B, in [1, 10]; at most ``dim`` for ``"pq"``.
    class_weights : sequence, array or Tensor of real numbers, shape (n_classes,), optional
        How much each class counts in the k-means. All alike when None.
    n_iterations : int
        Lloyd iterations at most of the first refresh, in [1, inf).
    warm_iterations : int
        Lloyd iterations at most of those that start from the last codebooks, in [1, inf).
    sample_size : int, optional
        Fit the codewords on that many classes and assign all, in [1, inf); on all when None.
    Raises
    ------
    DataError
        When the class weights are negative, not finite, all zero or not ``n_classes`` in number.
    """

    _: KW_ONLY
    n_codewords: Annotated[int, Range(1)] = 64
    quantizer: Quantizer = "rq"
    n_codebooks: Annotated[int, Range(1, 10)] = 2
    class_weights: Any = None
    n_iterations: Annotated[int, Range(1)] = 10
    warm_iterations: Annotated[int, Range(1)] = 2
    sample_size: Annotated[int | None, Range(1)] = 65_536

    weights: Tensor | None = attribute()

    def __post_init__(self) -> None:
        super().__post_init__()
        owner, weights, n_words, n_books = type(self).__name__, None, self.n_codewords, self.n_codebooks
        if self.quantizer == "pq" and n_books > self.dim:
            raise ParameterError(
                f"The 'n_codebooks' parameter of {owner} must be an int in [1, {self.dim}], the number of dimensions, "
                f"for the quantizer 'pq'. Got {n_books!r} instead."
            )
        if n_books <= 2 and n_words**n_books > _MOST_CELLS:
            raise ParameterError(
                f"{owner} lists every cell of up to two codebooks, of which there may be {_MOST_CELLS:,} at most: "
                f"n_codewords ** n_codebooks. Got {n_words!r} ** {n_books!r} instead."
            )
        if n_words**n_books >= 2**62:
            raise ParameterError(
                f"{owner} needs n_codewords ** n_codebooks below 2 ** 62. Got {n_words!r} ** {n_books!r} instead."
            )
        if self.class_weights is not None:
            weights = class_counts(self.class_weights, self.n_classes, owner=owner, name="class_weights").float()
        self.register_buffer("weights", weights, persistent=False)

    def _fitted_codebooks(self, table: Tensor, weights: Tensor | None, start: Sequence[Tensor]) -> Codebooks:
        """K-means of the table, from ``start`` on (in few iterations) after the first refresh."""
        return fit_codebooks(
            table, self.n_codewords, quantizer=self.quantizer, n_codebooks=self.n_codebooks, weights=weights,
            start=start if self._refreshed else None, sample_size=self.sample_size,
            n_iterations=self.warm_iterations if self._refreshed else self.n_iterations,
        )  # fmt: skip


class FirstStage(NamedTuple):
    """What the first of two stages draws from."""

    heights: Tensor  # shape (batch, n_codewords): running sums of ψ exp(score) over the first codebook's codewords
    second: Tensor  # shape (batch, n_codewords): exp(score) of the second codebook's codewords
    partition: Tensor  # shape (batch,): the last of the heights: Z relative to the largest scores


def first_stage(scores: list[Tensor], counts: Tensor) -> FirstStage:
    """Weights of the first codebook's codewords, in linear space; ``counts`` is float64 (n_codewords, n_codewords)."""
    first, second = scores[0].double().exp(), scores[1].double().exp()
    heights = first.mul_(second @ counts.t()).cumsum(dim=1)
    return FirstStage(heights, second, heights[:, -1])


def within(remainders: Tensor, cells: Tensor, offsets: Tensor, heights: Tensor) -> Tensor:
    """Positions in the classes sorted by cell: of each cell's classes, the one that its remainder falls on. ``heights``
    are running sums of the classes' parts of their cells, each of which is 1 high; empty when the classes of a cell are
    alike."""
    begin = offsets[cells]
    count = offsets[cells + 1] - begin
    remainders = remainders.nan_to_num(0.0)
    if len(heights):
        below = torch.where(begin > 0, heights[(begin - 1).clamp_(min=0)], 0.0)
        above = heights[(begin + count - 1).clamp_(min=0)]
        inside = torch.searchsorted(heights, below + remainders * (above - below), right=True) - begin
    else:
        inside = (remainders * count).long()
    return torch.minimum(begin + torch.minimum(inside.clamp_(min=0), (count - 1).clamp_(min=0)), offsets[-1] - 1)


def draw_in_stages(stage: FirstStage, counts: Tensor, coins: Tensor) -> tuple[Tensor, Tensor]:
    """Cells (first codeword times their number plus second codeword) and how far into each, both (batch, n)."""
    n_codewords = counts.shape[0]
    first, remainders = invert(stage.heights, coins)
    second = torch.empty_like(first)
    for rows in blocks(len(coins), coins.shape[1] * n_codewords):
        chosen = counts.index_select(0, first[rows].flatten()).view(*first[rows].shape, n_codewords)
        heights = chosen.mul_(stage.second[rows, None]).cumsum(dim=2)
        places, left = invert(heights, remainders[rows, :, None])
        second[rows], remainders[rows] = places[..., 0], left[..., 0]
    return first * n_codewords + second, remainders


def heights_of_cells(cell_scores: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Running sums of the cells' weights, and the log of each row's partition, from log-scores of any size."""
    # Shapes: cell_scores (batch, n_cells); counts (n_cells,); returns heights (batch, n_cells), log_partition (batch,)
    scores = cell_scores.masked_fill(counts == 0, -torch.inf)
    top = scores.amax(dim=1, keepdim=True)
    heights = (scores - top).exp_().mul_(counts).cumsum(dim=1)
    return heights, top[:, 0] + heights[:, -1].log()


def native_draw(stage: FirstStage, scores: list[Tensor], index: MultiIndex, coins: Tensor) -> Draw:
    """What :func:`draw_in_stages` draws with the same coins, and its log-probability."""
    # Shapes: scores (batch, n_codewords); coins (batch, n)
    ids = torch.empty(coins.shape, dtype=torch.int64)
    log_q = torch.empty(coins.shape, dtype=torch.float32)
    cells = [index.offsets, index.masses(), index.order, index.heights, index.own_scores]
    tensors = [stage.heights, stage.second, *scores, *cells, coins, ids, log_q]
    kernels.midx_draw(*(tensor.contiguous().numpy() for tensor in tensors))
    return Draw(ids, log_q)


@parameterized
class ExactMIDX(MultiIndexSampler):
    """Draws from the softmax, whatever the codebooks, as a cell and then a class of it by its residual's score.

    The classes of a cell aren't drawn alike, as :class:`MIDX` does, but by exp(query · what the codewords leave over
    of the embedding). It costs O(n_classes · dim) a query, as much as the softmax: a baseline, and the theory's start.

    Parameters
    ----------

    References
    ----------
    Chen et al., "Adaptive sampled softmax with inverted multi-index" (arXiv 2501.08563): Theorem 1, Algorithm 1.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import ExactMIDX
    >>> _ = torch.manual_seed(0)
    >>> table, queries = torch.randn(50, 4), torch.randn(2, 4)
    >>> sampler = ExactMIDX(50, 4, n_codewords=3)
    >>> sampler.refresh(table)
    >>> softmax = torch.log_softmax(queries @ table.t(), dim=1)
    >>> torch.allclose(sampler.log_prob(queries, torch.arange(50)), softmax, atol=1e-5)
    True
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.index = MultiIndex(self.n_classes, self.dim, self.n_codewords, self.n_codebooks, self.quantizer)
        self.register_buffer("residuals", torch.zeros(self.n_classes, self.dim))  # sorted by cell, like the index

    def _refresh(self, table: Tensor) -> None:
        books = self._fitted_codebooks(table, self.weights, self.index.codewords)
        self.index.set_codewords(books.codewords)
        self.index.rebuild(books.codes)
        for rows in blocks(self.n_classes, self.dim):
            ids = self.index.order[rows].long()
            self.residuals[rows] = table[ids].float() - reconstruct(books.codewords, books.codes[ids], self.quantizer)

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        coins = torch.rand(2, len(queries), n, generator=generator, device=queries.device, dtype=torch.float64)
        ids, log_q = [], []
        for rows in blocks(len(queries), self.n_classes):
            scores = self._sorted_scores(queries[rows])
            weights = scores.exp()
            masses = self._masses(weights)
            cells, _ = invert(masses.cumsum(dim=1), coins[0, rows])
            # Within the cell, by the running sums of its own classes.
            heights = weights.cumsum(dim=1)
            begin, end = self.index.offsets[cells], self.index.offsets[cells + 1]
            below = torch.where(begin > 0, heights.gather(1, (begin - 1).clamp_(min=0)), 0.0)
            width = heights.gather(1, (end - 1).clamp_(min=0)) - below
            places = torch.searchsorted(heights, below + coins[1, rows] * width, right=True)
            places = torch.minimum(torch.maximum(places, begin), end - 1).clamp_(min=0)
            ids.append(self.index.order[places].long())
            log_q.append((scores.gather(1, places) - masses.sum(dim=1, keepdim=True).log()).float())
        return Draw(torch.cat(ids), torch.cat(log_q))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        places = torch.empty_like(self.index.order, dtype=torch.int64)
        places[self.index.order.long()] = torch.arange(self.n_classes, device=places.device)
        log_q = []
        for rows in blocks(len(queries), self.n_classes):
            scores = self._sorted_scores(queries[rows])
            total = self._masses(scores.exp()).sum(dim=1, keepdim=True)
            log_q.append((scores.gather(1, places[ids[rows]]) - total.log()).float())
        return torch.cat(log_q)

    def _sorted_scores(self, queries: Tensor) -> Tensor:
        """Codeword scores plus residual scores of all classes sorted by cell, less the largest, float64."""
        cell_scores = self.index.cell_scores(self.index.log_scores(queries))
        scores = cell_scores.repeat_interleave(self.index.counts, dim=1, output_size=self.n_classes)
        scores += product(queries.float(), self.residuals)
        return scores - scores.amax(dim=1, keepdim=True)

    def _masses(self, weights: Tensor) -> Tensor:
        """Sum of the weights of each cell's classes: the paper's ω times its codewords' exp(score)."""
        cells = self.index.class_cells[self.index.order.long()].long()
        return weights.new_zeros(self.index.n_cells, len(weights)).index_add_(0, cells, weights.t()).t()
