"""Codebooks: few codewords whose combinations approximate many vectors, fitted by k-means in PyTorch. Not imported with
:mod:`sylvan.indexing`, because it needs PyTorch (``pip install "sylvan[neural]"``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from sylvan.errors import DataError

BLOCK_ROWS = 4096  # scores of a block against 64 codewords take 1 MiB: they stay in the cache
_START_ROWS = 16_384  # k-means++ looks at no more rows than these
Quantizer = Literal["rq", "pq"]


def kmeans(
    rows: Tensor, n_codewords: int, *, weights: Tensor | None = None, start: Tensor | None = None,
    n_iterations: int = 10, generator: torch.Generator | None = None,
) -> Tensor:  # fmt: skip
    """Codewords that make the (weighted) mean squared distance of rows to their nearest codeword small (Lloyd 1982),
    from k-means++ (Arthur and Vassilvitskii 2007) where no ``start`` is given. A codeword that stands for no row moves
    to the row that is farthest from its own."""
    # Shapes: rows (n, dim); weights (n,); start (n_codewords, dim); returns (n_codewords, dim)
    codewords = _plus_plus(rows, n_codewords, weights, generator) if start is None else start.clone()
    codes = torch.full((len(rows),), -1, dtype=torch.int64, device=rows.device)
    for _ in range(n_iterations):
        previous, codes = codes, torch.empty_like(codes)
        best = rows.new_empty(len(rows))
        sums = torch.zeros_like(codewords)
        masses = codewords.new_zeros(n_codewords)
        for begin in range(0, len(rows), BLOCK_ROWS):
            part = slice(begin, begin + BLOCK_ROWS)
            codes[part], best[part] = nearest_codewords(rows[part], codewords)
            of_part = None if weights is None else weights[part]
            block_sums, block_masses = _sums(rows[part], codes[part], of_part, n_codewords)
            sums += block_sums
            masses += block_masses
        if torch.equal(codes, previous):
            break
        codewords = torch.where(masses[:, None] > 0, sums / masses.clamp_min(1e-30)[:, None], codewords)
        _reseed(codewords, masses, rows, weights, best)
    return codewords


def nearest_codewords(rows: Tensor, codewords: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest codeword of each row, and x·c - |c|²/2 of it, the score that it is largest of."""
    half = codewords.square().sum(dim=1).div_(-2)
    with torch.autocast(rows.device.type, enabled=False):
        best, codes = torch.addmm(half, rows, codewords.t()).max(dim=1)
    return codes, best


def _sums(rows: Tensor, codes: Tensor, weights: Tensor | None, n_codewords: int) -> tuple[Tensor, Tensor]:
    """Weighted sum of each codeword's rows, and the sum of their weights; in the same order for any threads."""
    if weights is None:
        weights = rows.new_ones(len(rows))
    else:
        rows = rows * weights[:, None]
    if rows.is_cpu:  # measured: less than half the time of a product with one-hot codes
        sums = rows.new_zeros(n_codewords, rows.shape[1]).index_add_(0, codes, rows)
        return sums, rows.new_zeros(n_codewords).index_add_(0, codes, weights)
    # Elsewhere index_add_ is made of atomic additions, whose order changes from run to run.
    marks = rows.new_zeros(len(rows), n_codewords).scatter_(1, codes[:, None], 1.0)
    return marks.t() @ rows, marks.t() @ weights


def _reseed(codewords: Tensor, masses: Tensor, rows: Tensor, weights: Tensor | None, best: Tensor) -> None:
    """Put codewords that stand for nothing on the rows that are farthest from theirs, in place."""
    empty = torch.nonzero(masses <= 0).flatten()
    if len(empty) == 0:
        return
    distances = rows.square().sum(dim=1) - 2 * best
    floor = 1e-6 * float(rows.square().sum(dim=1).mean())  # beneath this a distance is rounding
    if weights is not None:
        distances = torch.where(weights > 0, distances, torch.zeros_like(distances))
    far, where = torch.topk(distances, min(len(empty), len(rows)))
    where = where[far > floor]
    codewords[empty[: len(where)]] = rows[where]


def _plus_plus(rows: Tensor, n_codewords: int, weights: Tensor | None, generator: torch.Generator | None) -> Tensor:
    """First codewords: rows drawn with chances like their weighted squared distances from the codewords before."""
    if len(rows) > _START_ROWS:
        chosen = torch.randperm(len(rows), generator=generator, device=rows.device)[:_START_ROWS]
        if weights is not None:  # the heavy ones are always among them
            heavy = torch.topk(weights, n_codewords if n_codewords < _START_ROWS else _START_ROWS).indices
            chosen = torch.unique(torch.cat([chosen, heavy]))
            weights = weights[chosen]
        rows = rows[chosen]
    weight = (rows.new_ones(len(rows)) if weights is None else weights).double()
    uniforms = torch.rand(n_codewords, dtype=torch.float64, generator=generator, device=rows.device)
    codewords = rows.new_empty(n_codewords, rows.shape[1])
    distances = torch.ones_like(weight)
    for word in range(n_codewords):
        chances = torch.cumsum(distances * weight, 0)
        # Where every row is a codeword already all chances are 0, and the search ends at the last row.
        drawn = torch.searchsorted(chances, (uniforms[word] * chances[-1])[None], right=True).clamp_max(len(rows) - 1)
        codewords[word] = rows[drawn[0]]
        result = (rows - codewords[word]).square().sum(dim=1).double()
        distances = result if word == 0 else torch.minimum(distances, result)
    return codewords


class Codebooks(NamedTuple):
    """Codewords, and which of them approximate each vector."""

    # shape (n_codewords, size): one tensor per codebook; `size` is the codebook's part of the dimensions for `"pq"` and
    # all for `"rq"`
    codewords: tuple[Tensor, ...]
    codes: Tensor  # shape (n, n_codebooks): for each vector, the row of each codebook that approximates it


def codeword_sizes(dim: int, n_codebooks: int, quantizer: Quantizer) -> list[int]:
    """Number of dimensions of each codebook's codewords; ``"pq"`` shares ``dim`` out, the first ones take the rest."""
    if quantizer == "rq":
        return [dim] * n_codebooks
    return [dim // n_codebooks + (book < dim % n_codebooks) for book in range(n_codebooks)]


def fit_codebooks(
    vectors: Tensor, n_codewords: int, *, quantizer: Quantizer = "rq", n_codebooks: int = 2,
    weights: Tensor | None = None, start: Sequence[Tensor] | None = None, n_iterations: int = 10,
    sample_size: int | None = None, generator: torch.Generator | None = None,
) -> Codebooks:  # fmt: skip
    """Learn codebooks by k-means, and the codes of every vector. Product quantisation (``"pq"``; Jegou, Douze and
    Schmid 2010) clusters parts of the dimensions, each for itself; residual quantisation (``"rq"``) clusters the
    vectors, then what the first codewords leave over, and so on (section 4.1 of the MIDX paper). The same bits come out
    for any number of threads."""
    # Shapes: vectors (n, dim); weights (n,)
    sizes = codeword_sizes(vectors.shape[1], n_codebooks, quantizer)
    if weights is not None:
        weights = weights.detach().to(device=vectors.device, dtype=torch.float32)
        if not bool(torch.isfinite(weights).all() & (weights >= 0).all() & (weights > 0).any()):
            raise DataError("The weights must be finite numbers from 0, and not all 0.")
    rows, counted = _sample(vectors, weights, sample_size, generator)
    residual = rows.float()  # of the codebooks so far, for "rq"
    if quantizer == "rq" and n_codebooks > 1 and residual.data_ptr() == vectors.data_ptr():
        residual = residual.clone()
    codewords: list[Tensor] = []
    for book in range(n_codebooks):
        begin = sum(sizes[:book])
        part = residual if quantizer == "rq" else residual[:, begin : begin + sizes[book]].contiguous()
        first = None if start is None else start[book].detach().to(device=vectors.device, dtype=torch.float32)
        words = kmeans(part, n_codewords, weights=counted, start=first, n_iterations=n_iterations, generator=generator)
        codewords.append(words)
        if quantizer == "rq" and book + 1 < n_codebooks:
            for begin in range(0, len(residual), BLOCK_ROWS):
                block = residual[begin : begin + BLOCK_ROWS]
                block -= words[nearest_codewords(block, words)[0]]
    return Codebooks(tuple(codewords), assign_codes(vectors, codewords, quantizer))


def assign_codes(vectors: Tensor, codewords: Sequence[Tensor], quantizer: Quantizer) -> Tensor:
    """The nearest codeword of each codebook for each vector (greedily, book after book, for ``"rq"``), int64 (n, B)."""
    codes = torch.empty(len(vectors), len(codewords), dtype=torch.int64, device=vectors.device)
    for begin in range(0, len(vectors), BLOCK_ROWS):
        left = vectors[begin : begin + BLOCK_ROWS].float()
        first = 0
        for book, words in enumerate(codewords):
            part = left if quantizer == "rq" else left[:, first : first + words.shape[1]]
            nearest = nearest_codewords(part, words)[0]
            codes[begin : begin + BLOCK_ROWS, book] = nearest
            first += words.shape[1]
            if quantizer == "rq" and book + 1 < len(codewords):
                left = left - words[nearest]
    return codes


def reconstruct(codewords: Sequence[Tensor], codes: Tensor, quantizer: Quantizer) -> Tensor:
    """The vectors that codes represent, (n, dim): codewords concatenated for ``"pq"``, added for ``"rq"``."""
    parts = [words[codes[:, book]] for book, words in enumerate(codewords)]
    if quantizer == "pq":
        return torch.cat(parts, dim=1)
    return torch.stack(parts).sum(dim=0)


def _sample(
    vectors: Tensor, weights: Tensor | None, size: int | None, generator: torch.Generator | None
) -> tuple[Tensor, Tensor | None]:
    """Rows to fit on and the weight of each: systematic sampling with chances in proportion to the weights."""
    n = len(vectors)
    if size is None or size >= n:
        return vectors, weights
    if weights is None:
        return vectors[torch.randperm(n, generator=generator, device=vectors.device)[:size]], None
    chances = weights.double() * (size / weights.double().sum())
    for _ in range(8):  # those that would come more than once are certain; the others share what is left
        certain = chances >= 1
        open_weight = (weights * ~certain).sum(dtype=torch.float64).clamp_min(1e-300)
        n_left = size - certain.sum()
        chances = torch.where(certain, 1.0, weights.double() * (n_left / open_weight))
    chances = chances.clamp(0, 1)
    ends = torch.cumsum(chances, 0) + torch.rand(1, dtype=torch.float64, generator=generator, device=vectors.device)
    floors = ends.floor()
    before = torch.cat([(ends[:1] - chances[:1]).floor(), floors[:-1]])
    chosen = torch.nonzero(floors > before).flatten()
    if len(chosen) == 0:
        return vectors, weights
    return vectors[chosen], (weights[chosen].double() / chances[chosen]).float()
