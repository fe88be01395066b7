"""Draws from an inverted multi-index: close to the softmax, at a cost that doesn't grow with the classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from sylvan.errors import ParameterError, UnsupportedError
from sylvan.indexing.codebooks import Quantizer, reconstruct
from sylvan.params.fields import KW_ONLY, Range, parameterized
from sylvan.sampling.midx import multi_index
from sylvan.sampling.midx.multi_index import GUMBEL, JOINT, THIN, Learnable, Learning, MultiIndex, MultiIndexSampler
from sylvan.sampling.samplers.base import Draw
from sylvan.sampling.tensors import blocks, invert, product

_FROM_A_BATCH = 32  # rows of a batch that codewords learn from, so that several batches stand behind a refresh
_BOUND = 1e8
_SHRINKAGE = 0.02  # of the covariance towards a multiple of the identity: there are few queries beside dimensions
_QUERIES = 32  # to judge by, or fewer where there are very many cells
_AT_ONCE = 1 << 22  # cells times queries
_STEPS = 20  # golden sections: the factor is found to 0.0001
_GOLDEN = (math.sqrt(5) - 1) / 2
_LEAST_GAIN = 0.25  # nats; for less an index is left as it was made, as so few queries tell little of it


def spread(n_rows: int, device: torch.device, most: int = _FROM_A_BATCH) -> Tensor:
    """A few rows of a batch, evenly spread over it: their numbers."""
    n = min(n_rows, _FROM_A_BATCH, most)
    return torch.arange(n, device=device) * n_rows // max(n, 1)


class RecentQueries(nn.Module):
    """A ring of queries; of each batch a few rows, evenly spread over it, take the place of the oldest."""

    queries: Tensor  # shape (n_queries, dim): those stored; the first `n_stored` of them are real

    def __init__(self, n_queries: int, dim: int) -> None:
        super().__init__()
        self.n_seen = 0  # how many rows were ever stored; the oldest are overwritten
        self.register_buffer("queries", torch.zeros(n_queries, dim))

    @property
    def n_stored(self) -> int:
        """How many queries there are to learn from."""
        return min(self.n_seen, len(self.queries))

    def keep(self, queries: Tensor) -> None:
        """Put some of a batch's rows in the place of the oldest."""
        chosen = spread(len(queries), queries.device, len(self.queries))
        places = (torch.arange(len(chosen), device=queries.device) + self.n_seen) % len(self.queries)
        self.queries[places] = queries[chosen].float()
        self.n_seen += len(chosen)

    def sound(self) -> Tensor:
        """The stored queries without a NaN or a number beyond all bounds, whose square would be none, (n, dim)."""
        stored = self.queries[: self.n_stored]
        return stored[(stored.abs() < _BOUND).all(dim=1)]


def mean_softmax(queries: Tensor, table: Tensor) -> Tensor:
    """Mean over queries (b, dim) of the softmax over all classes (n, dim), float32 (n,), in blocks of classes."""
    top = queries.new_full((len(queries),), -torch.inf)
    total = queries.new_zeros(len(queries), dtype=torch.float64)
    for rows in blocks(len(table), len(queries)):
        scores = product(queries, table[rows].float())  # (b, classes)
        higher = torch.maximum(top, scores.amax(dim=1))
        total = total * (top - higher).exp().double() + (scores - higher[:, None]).exp().sum(dim=1, dtype=torch.float64)
        top = higher
    log_partition = (top.double() + total.log()).float()
    means = queries.new_empty(len(table))
    for rows in blocks(len(table), len(queries)):
        means[rows] = (product(queries, table[rows].float()) - log_partition[:, None]).exp_().mean(dim=0)
    return means


class QuerySpace(nn.Module):
    r"""A change of coordinates in which queries have mean zero and, as nearly as their number allows, unit covariance.
    With :math:`\mu` and :math:`\Sigma` the mean and covariance of recent queries, a score is
    :math:`z \cdot q = \mu \cdot q + y \cdot u` with :math:`y = \Sigma^{-1/2} (z - \mu)` and :math:`u = \Sigma^{1/2} q`.
    The first term is the class's own, whatever the query; in the second a distance of :math:`u` is how much scores
    differ from query to query. The symmetric root keeps the coordinates nearly the same from one fit to the next, so
    that codewords remain good ones to start from."""

    center: Tensor  # shape (dim,)
    root: Tensor  # shape (dim, dim)
    inverse_root: Tensor  # shape (dim, dim)

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(dim))
        self.register_buffer("root", torch.eye(dim))
        self.register_buffer("inverse_root", torch.eye(dim))

    def fit(self, queries: Tensor) -> None:
        """Take mean and covariance from queries (n, dim), at least one and all finite."""
        rows = queries.double()
        center = rows.mean(dim=0)
        rows = rows - center
        covariance = rows.t() @ rows / len(rows)
        spread = covariance.diagonal().mean()
        if not bool(spread > 0):
            return  # all queries alike tell nothing of directions
        identity = torch.eye(len(center), dtype=rows.dtype, device=rows.device)
        covariance = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * spread * identity
        values, vectors = torch.linalg.eigh(covariance)
        roots = values.clamp_min(1e-6 * spread).sqrt()
        self.center.copy_(center)
        self.root.copy_((vectors * roots) @ vectors.t())
        self.inverse_root.copy_((vectors / roots) @ vectors.t())

    def queries(self, queries: Tensor) -> Tensor:
        """Queries (batch, dim) in the new coordinates."""
        return product(queries.float() - self.center, self.inverse_root)  # symmetric: its own transpose

    def classes(self, table: Tensor) -> Tensor:
        """Class embeddings (n, dim) in the new coordinates, float32."""
        return product(table.float(), self.root)

    def own_scores(
        self, table: Tensor, moved: Tensor, codewords: Sequence[Tensor], codes: Tensor, quantizer: Quantizer
    ) -> Tensor:
        r"""What each class scores beyond the codewords, (n,): at the mean query, and for what quantisation left over.
        The second is :math:`\tfrac12 |u - \hat u|^2`, the logarithm of the mean of :math:`e^{y \cdot (u - \hat u)}`
        over normally distributed :math:`y`."""
        scores = torch.empty(len(table), device=table.device)
        for rows in blocks(len(table), table.shape[1]):
            left = moved[rows] - reconstruct(codewords, codes[rows], quantizer)
            scores[rows] = product(table[rows].float(), self.center[None])[:, 0] + 0.5 * left.square().sum(dim=1)
        return scores


def flattening(index: MultiIndex, queries: Tensor, moved: Tensor, table: Tensor) -> float:
    """What to multiply the scores of an index by, in [0, 1]: 1 but for one that is sure of the wrong classes. The
    measure is the cross-entropy of the index's distribution under the softmax of queries, which is convex in the
    factor; a factor of 0 makes draws uniform. Where the scores of classes spread wider than codewords can follow, an
    index is sure of the wrong classes, and its cross-entropy above the uniform one. The factor is where the
    cross-entropy is least if that is lower by more than a quarter of a nat."""
    # Shapes: queries, moved (n, dim); table (n_classes, dim)
    n = max(1, min(_QUERIES, _AT_ONCE // index.n_cells, len(queries)))
    chosen = torch.arange(n, device=queries.device) * len(queries) // n
    few = queries[chosen]
    scores = index.log_scores(moved[chosen])
    expected = float(mean_softmax(few, table).double() @ index.own_scores.double())
    for mass, score in zip(multi_index.codeword_masses(few, table, index), scores, strict=True):
        expected += float((mass * score.double().masked_fill(mass == 0, 0.0)).sum(dim=1).mean())
    used = index.counts > 0
    of_cells = index.cell_scores(scores)[:, used]  # (n, cells with classes)

    def cross_entropy(factor: float) -> float:
        parts = (factor * index.own_scores.double()).exp()
        masses = torch.zeros_like(index.cell_masses).index_add_(0, index.class_cells.long(), parts)[used]
        return float(torch.logsumexp(factor * of_cells + masses.log(), dim=1).mean()) - factor * expected

    present = cross_entropy(1.0)
    if cross_entropy(1.01) - present <= 0.01 * _LEAST_GAIN:  # no tangent of a convex function falls by more than that
        return 1.0
    least = _least(cross_entropy)
    return least if cross_entropy(least) < present - _LEAST_GAIN else 1.0


def _least(function: Callable[[float], float]) -> float:
    """Where a convex function of a number in [0, 1] is least, by golden sections."""
    low, high = 0.0, 1.0
    left, right = high - _GOLDEN, low + _GOLDEN
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2


@parameterized
class MIDX(MultiIndexSampler):
    """Draws a class with probability proportional to exp(query · the codewords that stand for its embedding).

    The classes' embeddings are quantised by ``n_codebooks`` codebooks of ``n_codewords`` codewords; classes with the
    same codewords make a cell. A draw picks a cell by the query's scores of the codewords and the number of classes
    in the cell, then one of its classes, all alike. With two codebooks that takes, for each query, a product with
    the codewords, O(n_codewords²) for the partition and O(n_codewords) a draw: nothing of the size of the class set.
    With more than two, every cell that holds a class is looked at (finer, but for small class sets only).

    Parameters
    ----------
    class_weights : sequence, array or Tensor of real numbers, shape (n_classes,), optional
        How much each class counts in the k-means; an extension to the paper. The square root of the class frequency
        serves best. All alike when None.
    learnable : bool or {"refresh", "joint", "joint-gumbel"}
        Whether the codewords are learned for the queries there are. True is ``"refresh"``: some of the queries drawn
        for are stored, and at each refresh the codewords are fitted to the softmax of these by minimising KL(P‖Q), the
        cells staying those of the (weighted) k-means. ``"joint"``: codewords are parameters, trained beside the model
        by :meth:`learning_loss`; a refresh moves them as k-means moves their means, so that they follow the embeddings
        at any learning rate. ``"joint-gumbel"`` is the paper's way, as the authors' code has it: codewords start at
        random, without k-means, and the mixtures' weights have Gumbel noise, and no gradient goes through them.
    query_aware : bool
        Whether the index is made for the queries there are; an extension to the paper. Some of the queries drawn for
        are stored, and at each refresh (but the first, before any draw) classes are quantised in the coordinates in
        which these have unit covariance. What a class scores at the mean query, and on average by what quantisation
        left over, is stored exactly, and the classes of a cell are drawn by it. Without ``class_weights`` each counts
        in the k-means by its mean probability. Where the index is sure of the wrong classes, as with scores that spread
        very wide, all its scores are flattened. Costs O(dim²) a query besides, a step of binary search within the cell
        a draw, and at each refresh a product of ``n_queries`` queries with all class embeddings and a copy of these.
    n_queries : int
        How many queries ``"refresh"`` and ``query_aware`` keep and learn from, in [1, inf); their cost at each
        refresh is a product of them with all class embeddings. Those drawn for in evaluation mode (``eval()``) are
        not saved.
    n_steps : int
        Steps of L-BFGS at each refresh, in [1, inf).
    native : bool, optional
        Whether draws on a CPU go through Sylvan's compiled code; when None, they do. The same draws come out of
        PyTorch's operations, more slowly.

    Notes
    -----
    Scores may be of any size: probabilities are computed relative to the largest, in float64, and once more in log
    space for a query all of whose cells would underflow. ``refresh`` takes random numbers for the first codewords
    (k-means++) and the sample from PyTorch's default generator.

    References
    ----------
    Chen et al., "Adaptive sampled softmax with inverted multi-index" (arXiv 2501.08563): Theorem 2, Eq. (6).

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import MIDX
    >>> _ = torch.manual_seed(0)
    >>> table, queries = torch.randn(1000, 16), torch.randn(4, 16)
    >>> sampler = MIDX(1000, 16, n_codewords=8)
    >>> sampler.refresh(table)
    >>> draw = sampler.sample(queries, 20)
    >>> draw.ids.shape, torch.allclose(draw.log_q, sampler.log_prob(queries, draw.ids))
    (torch.Size([4, 20]), True)
    >>> float(sampler.log_prob(queries, torch.arange(1000)).exp().sum(dim=1).sub(1).abs().max()) < 1e-5
    True
    """

    _: KW_ONLY
    learnable: Annotated[bool | Learning, Learnable()] = False
    query_aware: bool = False
    n_queries: Annotated[int, Range(1)] = 256
    n_steps: Annotated[int, Range(1)] = 20
    native: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        learnable, query_aware = self.learnable, self.query_aware
        joint = learnable in JOINT
        if joint and query_aware:
            raise ParameterError(
                f"The 'query_aware' parameter of MIDX must be False where learnable={learnable!r}, whose codewords "
                "stand for the embeddings as they are. Got True instead."
            )
        if learnable == GUMBEL and self.class_weights is not None:
            raise ParameterError(
                f"The 'class_weights' parameter of MIDX must be None where learnable={GUMBEL!r}, which has no k-means. "
                "Got weights instead."
            )
        self.index = MultiIndex(
            self.n_classes, self.dim, self.n_codewords, self.n_codebooks, self.quantizer, trained=joint,
            weighted=query_aware,
        )  # fmt: skip
        if learnable == GUMBEL:
            for words in self.index.codewords:
                nn.init.normal_(words, std=multi_index.START_DEVIATION)
        self.space = QuerySpace(self.dim) if query_aware else None
        learns, sizes = bool(learnable) and learnable != GUMBEL, self.index.sizes
        self.recent = RecentQueries(self.n_queries, self.dim) if query_aware or (learns and not joint) else None
        self.learner = multi_index.CodewordLearner(self.n_steps, sizes, self.n_codewords) if learns else None

    # The index.

    def _refresh(self, table: Tensor) -> None:
        if self.learnable == GUMBEL:
            self.index.rebuild(multi_index.largest_products(table, self.index.codewords, self.index))
            return
        means = self.index.codewords if self.learner is None else self.learner.means
        queries = table.new_zeros(0, self.dim) if self.recent is None else self.recent.sound()
        moved, weights = table, self.weights
        if self.space is not None and len(queries) > 1:
            self.space.fit(queries)
            moved = self.space.classes(table)
            weights = mean_softmax(queries, table) if weights is None else weights
        books = self._fitted_codebooks(moved, weights, means)
        self.index.rebuild(books.codes)
        if self.space is not None and len(queries) > 1:
            self.index.set_own_scores(self.space.own_scores(table, moved, books.codewords, books.codes, self.quantizer))
        seen = queries if self.space is None else self.space.queries(queries)
        if self.learner is None:
            self.index.set_codewords(books.codewords)
        else:
            self.learner.learn(self.index, books.codewords, table, queries, seen, warm=self._refreshed)
        if self.space is not None and len(queries) > 1:
            self.index.flatten(flattening(self.index, queries, seen, table))

    def _keep(self, queries: Tensor) -> None:
        """Note queries to learn from, but for those of an evaluation."""
        if self.recent is not None and self.training:
            self.recent.keep(queries)

    def _scores(self, queries: Tensor) -> list[Tensor]:
        """Each codebook's log-scores of the queries, in the coordinates that the index was made in."""
        return self.index.log_scores(queries if self.space is None else self.space.queries(queries))

    def learning_loss(self, queries: Tensor, class_embeddings: Tensor, reconstruction_weight: float = 1.0) -> Tensor:
        """What trains codewords beside a model (the paper's section 6.2.3), to be added to its loss.

        ``"joint"`` takes the cross-entropy of the draws under the softmax, of a few of the queries: KL(P‖Q) plus what
        no codeword changes. That costs little beside a full softmax of the batch. ``"joint-gumbel"`` has the paper's
        two losses, of all queries: an embedding is the mixture of each codebook's codewords by the softmax of its inner
        products with them (residual codebooks mix for what those before leave over), and a class goes to the codewords
        of the largest. It costs as much as a full softmax, and the codewords need a learning rate at which they can
        follow the embeddings.

        Parameters
        ----------
        queries : Tensor of float, shape (..., dim)
        class_embeddings : Tensor of float, shape (n_classes, dim)
        reconstruction_weight : float
            Of ``"joint-gumbel"`` alone: of the mean over classes of the squared distance of an embedding from its
            mixture of codewords; the paper adds their sum, which is a weight of ``n_classes``.

        Returns
        -------
        Tensor of float32
            A scalar whose gradient goes to the codewords alone.

        Raises
        ------
        UnsupportedError
            When the codewords aren't parameters, or when ``"joint"`` is given a ``reconstruction_weight``.
        DataError
            When queries or class embeddings have another shape or dtype.
        NotFittedError
            When the sampler was never refreshed.
        """
        if self.learnable not in JOINT:
            raise UnsupportedError(
                f"MIDX.learning_loss needs codewords that are parameters: learnable='joint' or 'joint-gumbel'. This "
                f"one has learnable={self.learnable!r}."
            )
        if self.learnable != GUMBEL and reconstruction_weight != 1:
            raise UnsupportedError(
                f"MIDX.learning_loss has a reconstruction_weight with learnable='joint-gumbel' alone; got "
                f"{reconstruction_weight!r} with learnable={self.learnable!r}, whose loss has "
                f"no such part: leave it out."
            )
        self._check_queries(queries)
        self._check_table(class_embeddings, "learning_loss")
        self._check_refreshed()
        rows, table = queries.detach().reshape(-1, self.dim).float(), class_embeddings.detach().float()
        with torch.autocast(rows.device.type, enabled=False):
            if self.learnable == GUMBEL:
                return multi_index.noisy_loss(rows, table, self.index, reconstruction_weight)
            return multi_index.joint_loss(rows[spread(len(rows), rows.device)], table, self.index)

    def get_extra_state(self) -> dict[str, Any]:
        """The state of the base, and how many queries are stored to learn from."""
        return {**super().get_extra_state(), "queries_seen": self.recent.n_seen if self.recent else 0}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`get_extra_state` gave."""
        super().set_extra_state(state)
        if self.recent is not None:
            self.recent.n_seen = int(state.get("queries_seen", 0))

    # Draws for each query.

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        self._keep(queries)
        coins = torch.rand(len(queries), n, generator=generator, device=queries.device, dtype=torch.float64)
        scores = self._scores(queries)
        if self.n_codebooks != 2:
            return self._draw_from_list(scores, coins)
        counts = self.index.masses().view(self.n_codewords, self.n_codewords)
        stage = multi_index.first_stage(scores, counts)
        if self.native is not False and queries.is_cpu:
            draw = multi_index.native_draw(stage, scores, self.index, coins)
        else:
            cells, remainders = multi_index.draw_in_stages(stage, counts, coins)
            ids = self._classes(cells, remainders)
            of_cells = scores[0].gather(1, cells // self.n_codewords).double()
            of_cells += scores[1].gather(1, cells % self.n_codewords)
            draw = Draw(ids, self._log_q(of_cells - stage.partition.log()[:, None], ids))
        thin = stage.partition < THIN
        if bool(thin.any()):
            again = self._draw_from_list([score[thin] for score in scores], coins[thin])
            draw.ids[thin], draw.log_q[thin] = again.ids, again.log_q
        return draw

    def _draw_from_list(self, scores: list[Tensor], coins: Tensor) -> Draw:
        counts = self.index.masses()
        ids, log_q = [], []
        for rows in blocks(len(coins), self.index.n_cells):
            part = [score[rows] for score in scores]
            cell_scores = self.index.cell_scores(part)
            heights, log_partition = multi_index.heights_of_cells(cell_scores, counts)
            cells, remainders = invert(heights, coins[rows])
            ids.append(self._classes(cells, remainders))
            log_q.append(self._log_q(cell_scores.gather(1, cells) - log_partition[:, None], ids[-1]))
        return Draw(torch.cat(ids), torch.cat(log_q))

    def _classes(self, cells: Tensor, remainders: Tensor) -> Tensor:
        return self.index.order[multi_index.within(remainders, cells, self.index.offsets, self.index.heights)].long()

    def _log_q(self, of_cells: Tensor, ids: Tensor) -> Tensor:
        """Log-probabilities of classes from those of their cells, without what is the classes' own."""
        return (of_cells + self.index.own_scores[ids] if self.index.weighted else of_cells).float()

    # Probabilities.

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        scores = self._scores(queries)
        return (self.index.class_scores(scores, ids) - self._log_partition(scores)[:, None]).float()

    def _log_partition(self, scores: list[Tensor]) -> Tensor:
        """Log of the sum of exp(log-scores) over all classes, float64 (batch,)."""
        counts, thin = self.index.masses(), torch.ones(len(scores[0]), dtype=torch.bool, device=scores[0].device)
        log_partition = torch.empty(len(thin), dtype=torch.float64, device=thin.device)
        if self.n_codebooks == 2:
            partition = multi_index.first_stage(scores, counts.view(self.n_codewords, self.n_codewords)).partition
            log_partition, thin = partition.log(), partition < THIN
        if bool(thin.any()):
            few = [score[thin] for score in scores]
            parts = [[score[rows] for score in few] for rows in blocks(len(few[0]), self.index.n_cells)]
            listed = [multi_index.heights_of_cells(self.index.cell_scores(part), counts)[1] for part in parts]
            log_partition[thin] = torch.cat(listed)
        return log_partition

    # Draws for the whole batch: from the mean over its queries of the probabilities of cells.

    def _draw_shared(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        self._keep(queries)
        coins = torch.rand(n, generator=generator, device=queries.device, dtype=torch.float64)
        mixture = self._mixture(queries)
        cells, remainders = invert((mixture * self.index.masses()).cumsum(dim=0), coins)
        ids = self._classes(cells, remainders)
        return Draw(ids, self._log_q(mixture[cells].log(), ids))

    @torch.no_grad()
    def shared_log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        """Log of the batch's mean probability of each of ``ids``, at a cost that doesn't grow with batch times ids.

        See :meth:`Sampler.shared_log_prob`.
        """
        self._check_queries(queries)
        rows = queries.reshape(-1, queries.shape[-1])
        if not isinstance(ids, Tensor) or ids.dim() != 1:
            return super().shared_log_prob(rows, ids)  # tells why not
        self.log_prob(rows[:1], ids)  # holds the contract: shapes, dtypes, ranges
        with torch.autocast(rows.device.type, enabled=False):
            result = self._log_q(self._mixture(rows)[self.index.class_cells[ids].long()].log(), ids)
        lost = torch.isinf(result)  # underflown: so rare for all of the batch that float64 hasn't a number for it
        if bool(lost.any()):
            result[lost] = super().shared_log_prob(rows, ids[lost])
        return result

    def _mixture(self, queries: Tensor) -> Tensor:
        """Mean over the queries of the probability of a class of each cell whose own score is 0, float64 (n_cells,)."""
        scores = self._scores(queries)
        log_partition = self._log_partition(scores)
        if self.n_codebooks != 2:
            return self._mixture_from_list(scores, log_partition) / len(queries)
        # Of thin queries a factor of this product would overflow.
        finite = log_partition > -200.0
        first = torch.where(finite[:, None], (scores[0].double() - log_partition[:, None]).exp(), 0.0)
        total = (first.t() @ scores[1].double().exp()).flatten()
        if not bool(finite.all()):
            total += self._mixture_from_list([score[~finite] for score in scores], log_partition[~finite])
        return total / len(queries)

    def _mixture_from_list(self, scores: list[Tensor], log_partition: Tensor) -> Tensor:
        empty = self.index.masses() == 0
        total = log_partition.new_zeros(self.index.n_cells)
        for rows in blocks(len(log_partition), self.index.n_cells):
            cell_scores = self.index.cell_scores([score[rows] for score in scores]) - log_partition[rows, None]
            total += cell_scores.masked_fill_(empty, -torch.inf).exp_().sum(dim=0)
        return total
