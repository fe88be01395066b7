"""Samplers: uniform, Zipf's law, by counts, from a subset, from the batch, by hash tables; and the exact softmax."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from sylvan.errors import DataError, NotFittedError
from sylvan.params.fields import KW_ONLY, Instance, Range, parameterized
from sylvan.sampling.samplers.base import AdaptiveSampler, Draw, Sampler, class_counts
from sylvan.sampling.tensors import invert, need_integers, outsider, product, slices, without_gradient


def alias_table(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The table of Walker's alias method (1977), built without a loop over classes: a draw picks a cell uniformly, then
    the cell's own class with probability ``threshold``, else its ``alias``. Cells of classes below the mean are topped
    up, in order, from the surplus of those above it, by running sums as in Hübschle-Schneider and Sanders (2019)."""
    # Shape: weights (n,); returns threshold (n,), alias (n,)
    n = len(weights)
    scaled = weights * (n / weights.sum())  # mean 1
    above = scaled >= 1
    above[scaled.argmax()] = True  # of equal weights, each may round to just below 1
    givers, takers = above.nonzero()[:, 0], (~above).nonzero()[:, 0]
    threshold = scaled.clamp(max=1.0)
    alias = torch.arange(n, device=weights.device)
    if len(takers) == 0:
        return torch.ones_like(scaled), alias
    surplus = (scaled[givers] - 1).clamp(min=0).cumsum(0)  # surplus up to and with each giver
    taken = (1 - scaled[takers]).cumsum(0)  # deficit up to and with each taker
    before = torch.cat([taken.new_zeros(1), taken[:-1]])
    alias[takers] = givers[torch.searchsorted(surplus, before, right=True).clamp(max=len(givers) - 1)]
    # What the last taker that began within a giver's surplus takes beyond it, the giver owes to the next giver.
    last = torch.searchsorted(before, surplus)  # how many takers began before each giver's surplus was spent
    reached = torch.where(last > 0, taken[(last - 1).clamp(min=0)], 0.0)
    owed = (reached - surplus).clamp(0, 1)
    owed[-1] = 0.0  # nobody is left to pay; what rounding leaves there is of its own order
    threshold[givers] = 1 - owed
    alias[givers[:-1]] = givers[1:]
    alias[givers[-1]] = givers[-1]
    alias = torch.where(threshold >= 1, torch.arange(n, device=alias.device), alias)
    return threshold, alias


def draw_alias(
    threshold: Tensor, alias: Tensor, shape: Sequence[int], generator: torch.Generator | None = None
) -> Tensor:
    """Independent draws by the table of :func:`alias_table`."""
    # Shape: threshold, alias (n,)
    device = threshold.device
    cells = torch.randint(len(threshold), tuple(shape), generator=generator, device=device)
    coins = torch.rand(tuple(shape), generator=generator, device=device, dtype=torch.float64)
    return torch.where(coins < threshold[cells], cells, alias[cells])


@parameterized
class Uniform(Sampler):
    """Draws every class with probability 1 / n_classes.

    References
    ----------
    The static baseline of Chen et al. 2025 (arXiv 2501.08563), section 6.1.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import Uniform
    >>> draw = Uniform(1000).sample(torch.zeros(2, 8), 5)
    >>> draw.ids.shape, round(draw.log_q[0, 0].item(), 3)
    (torch.Size([2, 5]), -6.908)
    """

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        ids = torch.randint(self.n_classes, (len(queries), n), generator=generator, device=queries.device)
        return Draw(ids, self._log_prob(queries, ids))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        return torch.full(ids.shape, -math.log(self.n_classes), device=queries.device)


@parameterized
class LogUniform(Sampler):
    """Draws class k with probability log((k + 2) / (k + 1)) / log(n_classes + 1): about 1 / k, without any table.

    For classes whose ids are sorted by falling frequency, as vocabularies often are; counts aren't needed.

    Notes
    -----
    The distribution function at k is log(k + 2) / log(n_classes + 1), so a uniform number u gives the class
    floor((n_classes + 1)^u) - 1.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import LogUniform
    >>> sampler = LogUniform(3)
    >>> [round(p, 3) for p in sampler.log_prob(torch.zeros(1, 8), torch.arange(3)).exp()[0].tolist()]
    [0.5, 0.292, 0.208]
    """

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        u = torch.rand(len(queries), n, generator=generator, device=queries.device, dtype=torch.float64)
        # Rounding may carry exp() to n_classes + 1 or just below 1: both ends are clamped.
        ids = (torch.exp(u * math.log(self.n_classes + 1)).long() - 1).clamp(0, self.n_classes - 1)
        return Draw(ids, self._log_prob(queries, ids))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        share = torch.log1p(1 / (ids.double() + 1)) / math.log(self.n_classes + 1)
        return share.log().float()


@parameterized
class Unigram(Sampler):
    """Draws a class with probability proportional to ``counts ** power``, in constant time at any number of classes.

    Parameters
    ----------
    counts : sequence, array or Tensor of real numbers, shape (n_classes,)
        How often each class occurs. A class of count 0 is never drawn; its ``log_prob`` is minus infinity.
    power : float
        In [0, inf); 0.75 is word2vec's choice, 0 draws all classes that occur alike.

    Raises
    ------
    DataError
        When the counts are negative, not finite, all zero or not ``n_classes`` in number.

    References
    ----------
    The static baseline of Chen et al. 2025 (arXiv 2501.08563), section 6.1; drawn by Walker's alias method.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import Unigram
    >>> sampler = Unigram(3, [6, 0, 2])
    >>> sampler.log_prob(torch.zeros(1, 8), torch.arange(3)).exp().tolist()
    [[0.75, 0.0, 0.25]]
    """

    counts: Any
    power: Annotated[float, Range(0)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = class_counts(self.counts, self.n_classes, owner=type(self).__name__)
        # Relative to the largest, so that no power overflows; 0 ** 0 would be 1.
        weights = torch.where(weights > 0, (weights / weights.max()) ** self.power, 0.0)
        for name, buffer in zip(("threshold", "alias"), alias_table(weights), strict=True):
            self.register_buffer(name, buffer)
        self.register_buffer("log_probabilities", (weights / weights.sum()).log().float())

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        ids = draw_alias(self.threshold, self.alias, (len(queries), n), generator)
        return Draw(ids, self._log_prob(queries, ids))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        return self.log_probabilities[ids]


@parameterized
class Softmax(AdaptiveSampler):
    """Draws a class with probability proportional to exp(query · class embedding): the oracle.

    Costs as much as the full softmax, O(n_classes · dim) a query, and keeps a copy of the class embeddings: for
    comparisons and tests. Refresh it at every step to draw from the exact softmax throughout a training.

    Parameters
    ----------
    chunk_size : int
        Most scores in memory at once, in [1, inf); those of a single query always are.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import Softmax
    >>> table, query = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[1.0]])
    >>> sampler = Softmax(3, 1)
    >>> sampler.refresh(table)
    >>> [round(p, 3) for p in sampler.log_prob(query, torch.arange(3)).exp()[0].tolist()]
    [0.09, 0.245, 0.665]
    """

    _: KW_ONLY
    chunk_size: Annotated[int, Range(1)] = 1 << 22

    def __post_init__(self) -> None:
        super().__post_init__()
        self.register_buffer("table", torch.zeros(self.n_classes, self.dim))

    def _refresh(self, table: Tensor) -> None:
        self.table.copy_(table)

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        coins = torch.rand(len(queries), n, generator=generator, device=queries.device, dtype=torch.float64)
        ids, log_q = torch.empty_like(coins, dtype=torch.int64), torch.empty_like(coins, dtype=torch.float32)
        for part, scores, top, heights in self._scored(queries):
            ids[part], _ = invert(heights, coins[part])
            log_q[part] = scores.gather(1, ids[part]).double() - top.double() - heights[:, -1:].log()
        return Draw(ids, log_q)

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        log_q = torch.empty(ids.shape, device=ids.device)
        for part, scores, top, heights in self._scored(queries):
            log_q[part] = scores.gather(1, ids[part]).double() - top.double() - heights[:, -1:].log()
        return log_q

    def _scored(self, queries: Tensor) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
        """Of some queries after the other their place, scores, highest scores, and running sums of exponentials."""
        for part in slices(len(queries), self.n_classes, self.chunk_size):
            scores = queries[part].float() @ self.table.t()
            top = scores.amax(dim=1, keepdim=True)
            yield part, scores, top, (scores - top).double().exp_().cumsum(dim=1)


@parameterized
class Subset(Sampler):
    """Draws from some classes with a sampler that was made for so many, and never from the others.

    Parameters
    ----------
    n_classes : int
        Number of all classes.
    sampler : Sampler
        For as many classes as are drawn from; it numbers them in the order of ``classes`` and, if it is adaptive, sees
        their embeddings alone.
    classes : sequence, array or Tensor of int, shape (n,)
        The classes that are drawn from, each once.

    Raises
    ------
    DataError
        When ``classes`` aren't distinct classes, as many as the sampler has.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import Subset, Uniform
    >>> sampler = Subset(5, Uniform(2), [1, 4])
    >>> sampler.log_prob(torch.zeros(1, 8), torch.arange(5)).exp().tolist()
    [[0.0, 0.5, 0.0, 0.0, 0.5]]
    """

    sampler: Annotated[Sampler, Instance(words="a sampler of sylvan.sampling")]
    classes: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        self.adaptive = self.sampler.adaptive  # type: ignore[misc]
        self.dim = self.sampler.dim
        ids = torch.as_tensor(np.asarray(self.classes.cpu() if isinstance(self.classes, Tensor) else self.classes))
        self._check_classes(ids)
        places = torch.full((self.n_classes,), -1)
        places[ids] = torch.arange(len(ids))
        self.register_buffer("drawn", ids.long())
        self.register_buffer("places", places)

    def _check_classes(self, ids: Tensor) -> None:
        if ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype == torch.bool or ids.dim() != 1:
            raise DataError(
                f"The classes of Subset must be a list of class numbers. Got {ids.dtype} of the shape "
                f"{tuple(ids.shape)} instead."
            )
        if len(ids) != self.sampler.n_classes:
            raise DataError(
                f"The classes of Subset must be as many as its {type(self.sampler).__name__} draws from, "
                f"{self.sampler.n_classes}. Got {len(ids)} instead."
            )
        if (wrong := outsider(ids, self.n_classes)) is not None:
            raise DataError(f"The classes of Subset must lie in [0, {self.n_classes}). Got {wrong} instead.")
        if len(torch.unique(ids)) < len(ids):
            raise DataError("The classes of Subset must be distinct; at least one is there twice.")

    @property
    def learnable(self) -> Any:
        """As the inner sampler's: whether its codewords are learned, and how."""
        return getattr(self.sampler, "learnable", False)

    def learning_loss(self, queries: Tensor, class_embeddings: Tensor) -> Tensor:
        """The inner sampler's loss for its codewords, on the embeddings of the classes that it draws from."""
        result: Tensor = self.sampler.learning_loss(queries, class_embeddings[self.drawn])  # type: ignore[operator]
        return result

    def observe(self, targets: Tensor) -> None:
        """Let the inner sampler see those targets that it draws from."""
        places = self.places[need_integers(targets, "The targets given to Subset")]
        self.sampler.observe(places[places >= 0])

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None, shared: bool = False) -> Draw:
        draw = self.sampler.sample(queries, n, shared=shared, generator=generator)
        return Draw(self.drawn[draw.ids], draw.log_q)

    def _draw_shared(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        return self._draw(queries, n, generator, shared=True)

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        places = self.places[ids]
        log_q = self.sampler.log_prob(queries, places.clamp(min=0))
        return log_q.masked_fill(places < 0, -torch.inf)

    def _refresh(self, table: Tensor) -> None:
        self.sampler.refresh(table[self.drawn])


@parameterized
class InBatch(Sampler):
    """Draws among the targets of the batch at hand, as :meth:`observe` tells them.

    ``log_q`` isn't the probability within this batch but over the batches, by which a loss must correct, or it takes
    frequent classes for wrong ones. It comes from the counts, or, when none are given, from a streaming estimate: for
    each class a moving average of how many targets pass from one of its occurrences to the next.

    Parameters
    ----------
    counts : sequence, array or Tensor of real numbers, shape (n_classes,), optional
        How often each class occurs in the data. None estimates it from the targets as they pass.
    step_size : float
        Weight of a new interval in the estimate, in (0, 1]; of a class that occurred fewer than 1 / step_size times
        the plain mean is taken. Larger values follow drifting data faster, with more noise. Not used with counts.

    Raises
    ------
    DataError
        When counts or targets don't fit ``n_classes``, or a target has the count 0.
    NotFittedError
        When it is to draw before a batch was observed.

    Notes
    -----
    The batch isn't part of ``state_dict``; the estimate is. In evaluation mode (``eval()``) the estimate stays as it
    is, but for classes never seen before. Classes never seen have minus infinity as ``log_prob``.

    References
    ----------
    X. Yi et al., "Sampling-bias-corrected neural modeling for large corpus item recommendations", 2019, algorithm 2,
    whose intervals are numbers of batches instead of targets.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import InBatch
    >>> sampler = InBatch(5)
    >>> sampler.observe(torch.tensor([3, 3, 3, 0]))
    >>> sampler.log_prob(torch.zeros(1, 8), torch.arange(5)).exp().tolist()
    [[0.25, 0.0, 0.0, 0.75, 0.0]]
    >>> bool(torch.isin(sampler.sample(torch.zeros(4, 8), 10).ids, torch.tensor([0, 3])).all())
    True
    """

    counts: Any = None
    _: KW_ONLY
    step_size: Annotated[float, Range(0, 1, open_low=True)] = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        counts, n_classes = self.counts, self.n_classes
        self.register_buffer("batch", torch.zeros(0, dtype=torch.int64), persistent=False)
        if counts is not None:
            weights = class_counts(counts, n_classes, owner=type(self).__name__)
            self.register_buffer("log_probabilities", (weights / weights.sum()).log().float())
            return
        self.register_buffer("interval", torch.full((n_classes,), math.inf, dtype=torch.float64))
        for name in ("seen_at", "occurrences"):
            self.register_buffer(name, torch.zeros(n_classes, dtype=torch.int64))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))  # targets that have passed
        self.register_buffer("total_rate", torch.zeros((), dtype=torch.float64))  # sum of 1 / interval

    @without_gradient
    def observe(self, targets: Tensor) -> None:
        """Take the batch's targets as what is drawn from next, and count them for the estimate.

        Parameters
        ----------
        targets : Tensor of int, any shape

        Raises
        ------
        DataError
            When they aren't a tensor of integers, there is none, one isn't in [0, n_classes), or one has the count 0.
        """
        batch = need_integers(targets, "The targets given to InBatch").detach().reshape(-1)
        if len(batch) == 0:
            raise DataError("InBatch was given a batch without targets; it needs at least one to draw from.")
        if (wrong := outsider(batch, self.n_classes)) is not None:
            raise DataError(f"The targets given to InBatch must be in [0, {self.n_classes}). Got {wrong}.")
        if self.counts is None:
            self._count(batch)
        elif bool(torch.isinf(self.log_probabilities[batch]).any()):
            absent = int(batch[torch.isinf(self.log_probabilities[batch])][0])
            raise DataError(f"Class {absent} is a target, but the counts given to InBatch say that it never occurs.")
        self.batch = batch

    def _count(self, batch: Tensor) -> None:
        classes, times = torch.unique(batch, return_counts=True)
        if self.training:
            self.position += len(batch)
        else:
            fresh = self.occurrences[classes] == 0
            classes, times = classes[fresh], times[fresh]
        old = self.interval[classes]
        seen = self.occurrences[classes] + times
        span = (self.position - self.seen_at[classes]).clamp(min=1)
        # Several occurrences in a batch are as many steps towards their mean distance.
        weight = torch.maximum(1 - (1 - self.step_size) ** times.double(), times.double() / seen)
        new = torch.where(seen == times, span / times, old + weight * (span / times - old))
        self.total_rate += (1 / new - 1 / old).sum()
        self.interval[classes] = new
        self.occurrences[classes] = seen
        self.seen_at[classes] = self.position

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        if len(self.batch) == 0:
            raise NotFittedError(
                "This InBatch has observed no batch yet. The losses tell it their targets; when calling sample() "
                "yourself, call observe(targets) first."
            )
        places = torch.randint(len(self.batch), (len(queries), n), generator=generator, device=self.batch.device)
        ids = self.batch[places]
        return Draw(ids, self._log_prob(queries, ids))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        if self.counts is not None:
            return self.log_probabilities[ids]
        return -(self.interval[ids].log() + self.total_rate.log()).float()


@parameterized
class LSH(AdaptiveSampler):
    """Draws a class from the query's bucket of one of several hash tables: classes at a small angle collide often.

    A table hashes a vector to the signs of its inner products with ``n_bits`` random vectors, so that two vectors
    collide in it with probability ``(1 - angle / pi)**n_bits``. A draw picks a table uniformly, then a class of the
    query's bucket uniformly; if the bucket is empty, any class uniformly. A share ``uniform_share`` of the draws
    doesn't ask the tables and takes any class. With T tables, the buckets b_t(z), and u for that share,
    ``q(i | z) = (1 - u) / T * sum_t [i in b_t(z)] / |b_t(z)| + u / n_classes``, where an empty bucket counts as one of
    all classes. log_q and ``log_prob`` are that: exact for the tables as they are, not the mean over random tables.

    Parameters
    ----------
    n_tables : int, default 16
    n_bits : int in [1, 16], default 4
        Signs that make the hash of a table, which has ``2**n_bits`` buckets.
    uniform_share : float in [0, 1], default 0.3
        Share of draws that take any class. With 0 a class that shares no bucket with the query is never drawn (with
        16 tables of 4 signs about a third of the classes at a right angle to it), and an estimate of the softmax's
        denominator misses its part. A small share leaves such classes huge weights instead.
    augment : bool, default False
        Hash classes so that inner products decide instead of angles: embeddings are divided by the largest length
        and get one more dimension that brings all to length 1; queries have 0 there.
    seed : int, optional
        Decides the random vectors; PyTorch's default generator does when None. They are part of ``state_dict``.

    Notes
    -----
    The index takes 8 bytes a table and class. Drawing costs O(n_tables * n_bits * dim) a query and O(n_tables) a draw.

    References
    ----------
    Spring & Shrivastava 2017, "A New Unbiased and Efficient Class of LSH-Based Samplers and Estimators for Partition
    Function Computation in Log-Linear Models" (arXiv 1703.05160); MIDX paper (arXiv 2501.08563), Section 6.1 ("LSH").
    The added dimension is Neyshabur & Srebro's (2015, "On Symmetric and Asymmetric LSHs for Inner Product Search").

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import LSH
    >>> sampler = LSH(4, 2, seed=0)
    >>> sampler.refresh(torch.tensor([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]]))
    >>> q = sampler.log_prob(torch.tensor([[3.0, 0.0]]), torch.arange(4)).exp()[0]
    >>> bool(q[:2].sum() > 0.8), bool(torch.isclose(q.sum(), torch.tensor(1.0)))
    (True, True)
    """

    _: KW_ONLY
    n_tables: Annotated[int, Range(1)] = 16
    n_bits: Annotated[int, Range(1, 16)] = 4
    uniform_share: Annotated[float, Range(0, 1)] = 0.3
    augment: bool = False
    seed: Annotated[int | None, Range(0)] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        n_classes, n_tables, n_bits = self.n_classes, self.n_tables, self.n_bits
        generator = None if self.seed is None else torch.Generator().manual_seed(self.seed)
        planes = torch.randn(n_tables * n_bits, self.dim + self.augment, generator=generator)
        self.register_buffer("planes", planes)
        # Of each table: every class's bucket; the classes by bucket; where each bucket starts among those.
        for name in ("codes", "members"):
            self.register_buffer(name, torch.zeros(n_tables, n_classes, dtype=torch.int32))
        self.register_buffer("starts", torch.zeros(n_tables, (1 << n_bits) + 1, dtype=torch.int64))

    def _codes(self, vectors: Tensor) -> Tensor:
        """Bucket of each vector (n, dim or dim + 1) in each table, int64 (n, n_tables)."""
        planes = self.planes[:, : vectors.shape[1]]  # a query's added dimension is 0
        signs = (product(vectors, planes) > 0).view(len(vectors), self.n_tables, self.n_bits)
        return (signs << torch.arange(self.n_bits, device=vectors.device)).sum(dim=2)

    def _refresh(self, table: Tensor) -> None:
        longest = table.float().norm(dim=1).max() if self.augment else table.new_ones(())
        for part in slices(self.n_classes, self.planes.shape[1] + 8 * len(self.planes)):
            vectors = table[part].float()
            if self.augment:
                vectors = vectors / longest.clamp_min(torch.finfo(torch.float32).tiny)
                complement = (1 - vectors.square().sum(dim=1, keepdim=True)).clamp_min(0).sqrt()
                vectors = torch.cat([vectors, complement], dim=1)
            self.codes[:, part] = self._codes(vectors).t().int()
        for code, members, starts in zip(self.codes, self.members, self.starts, strict=True):
            members.copy_(code.sort(stable=True).indices)
            starts[1:] = torch.bincount(code, minlength=1 << self.n_bits).cumsum(dim=0)

    def _buckets(self, queries: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Each query's bucket in each table, where it starts among the members, and its size, (batch, n_tables)."""
        codes = self._codes(queries.float())
        tables = torch.arange(self.n_tables, device=queries.device)
        first = self.starts[tables, codes]
        return codes, first, self.starts[tables, codes + 1] - first

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        shape, device = (len(queries), n), queries.device
        codes, first, size = self._buckets(queries)
        tables = torch.randint(self.n_tables, shape, generator=generator, device=device)
        anywhere = torch.randint(self.n_classes, shape, generator=generator, device=device)
        coin, place = torch.rand((2, *shape), generator=generator, device=device, dtype=torch.float64)
        chosen_size = size.gather(1, tables)
        within = torch.minimum((place * chosen_size).long(), (chosen_size - 1).clamp_min(0))
        position = (tables * self.n_classes + first.gather(1, tables) + within).clamp_max(self.members.numel() - 1)
        in_bucket = self.members.flatten().index_select(0, position.flatten()).view(shape).long()
        ids = torch.where((chosen_size == 0) | (coin < self.uniform_share), anywhere, in_bucket)
        return Draw(ids, self._log_of(codes, size, ids))

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        codes, _, size = self._buckets(queries)
        return self._log_of(codes, size, ids)

    def _log_of(self, codes: Tensor, size: Tensor, ids: Tensor) -> Tensor:
        """Log-probabilities of ids (batch, m) for queries in these buckets of these sizes, (batch, n_tables)."""
        tables_share = (1 - self.uniform_share) / self.n_tables
        empty = (size == 0).sum(dim=1, keepdim=True)
        # One table after the other: the loop needs a few numbers for each id at a time.
        share = torch.where(size == 0, 0.0, tables_share / size.clamp_min(1).double()).float()
        q = ((empty * tables_share + self.uniform_share) / self.n_classes).float().repeat(1, ids.shape[1])
        shared = ids.stride(0) == 0 and len(ids) > 1
        wanted = ids[:1] if shared else ids
        for table in range(self.n_tables):
            bucket = self.codes[table].index_select(0, wanted.flatten()).view(wanted.shape)
            q += torch.where(bucket == codes[:, table : table + 1], share[:, table : table + 1], 0.0)
        return q.log()
