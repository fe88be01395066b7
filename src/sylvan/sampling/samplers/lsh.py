"""Draws from the buckets of hash tables into which the query falls."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from sylvan.params.fields import KW_ONLY, Range, attribute, parameterized
from sylvan.sampling.samplers.base import AdaptiveSampler, Draw
from sylvan.sampling.tensors import product, slices


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
        Share of draws that take any class. With 0 a class that shares no bucket with the query is never drawn, with
        16 tables of 4 signs about a third of the classes at a right angle to it ((15/16)**16): its log-probability is
        minus infinity, and an estimate of the softmax's denominator misses its part. A small share leaves such classes
        huge weights instead. The default was chosen on one small language model, between a mean weight (d2 of
        Theorem 6 in the MIDX paper) that falls as the share grows and a KL divergence that then rises.
    augment : bool, default False
        Hash classes so that inner products decide instead of angles: embeddings are divided by the largest length
        and get one more dimension that brings all to length 1; queries have 0 there.
    seed : int, optional
        Decides the random vectors; PyTorch's default generator does when None. They are part of ``state_dict``.

    Raises
    ------
    ParameterError
        When a parameter is outside its range.

    Notes
    -----
    The index takes 8 bytes a table and class. Drawing costs O(n_tables * n_bits * dim) a query and O(n_tables) a draw,
    whatever the number of classes; ``log_prob`` O(n_tables) a class.

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
    planes: Tensor = attribute()
    codes: Tensor = attribute()
    members: Tensor = attribute()
    starts: Tensor = attribute()

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
                rest = (1 - vectors.square().sum(dim=1, keepdim=True)).clamp_min(0).sqrt()
                vectors = torch.cat([vectors, rest], dim=1)
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
