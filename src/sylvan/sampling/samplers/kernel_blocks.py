"""Classes in blocks of equal size: every block's mass for a query, and draws within chosen blocks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sylvan.sampling.tensors import product, products, slices

# Draws of the same block that share one copy of its rows.
_SHARING = 8

_Mass = Callable[[Tensor], Tensor]


def draw_by_mass(masses: Tensor, n: int, last: int, generator: torch.Generator | None) -> Tensor:
    """Columns drawn ``n`` times a row in proportion to ``masses``, shape (batch, n); none lies beyond ``last``. Sums
    and random numbers are float64: float32 would never draw columns with less than 2**-24 of a row's mass."""
    ends = masses.double().cumsum(dim=1)  # (batch, columns)
    uniform = torch.rand((len(masses), n), generator=generator, device=masses.device, dtype=torch.float64)
    return torch.searchsorted(ends, uniform * ends[:, -1:], right=True).clamp_(max=last)


def row_sums(masses: Tensor) -> Tensor:
    """Sums of rows (n, m), (n, 1), with the same bits for any number of threads: ``sum`` of one long row is not."""
    return masses.double().cumsum(dim=1)[:, -1:].float()


class ClassBlocks(nn.Module):
    """One row a class, in ``n_blocks`` blocks of ``size`` rows; the places after the last class are zeros. The mass of
    a class is a function of the inner product of its row with the query's (``mass`` below)."""

    rows: Tensor

    def __init__(self, n_classes: int, n_blocks: int, row_dim: int) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.n_blocks = n_blocks
        self.size = -(-n_classes // n_blocks)
        self.register_buffer("rows", torch.zeros(n_blocks, self.size, row_dim))

    @property
    def last(self) -> int:
        """The last block that holds a class."""
        return (self.n_classes - 1) // self.size

    def fill(self, table: Tensor, rows_of: _Mass) -> None:
        """Take over the classes' rows: ``rows_of`` a part of the class table, part after part."""
        flat = self.rows.flatten(0, 1)
        for part in slices(self.n_classes, table.shape[1] + flat.shape[1]):
            flat[part] = rows_of(table[part].float())

    def totals(self, queries: Tensor, mass: _Mass) -> Tensor:
        """Mass of every block for every query, float32 (batch, n_blocks): looks at every class."""
        totals = queries.new_empty(self.n_blocks, len(queries))
        for part in slices(self.n_blocks, len(queries) * self.size):
            masses = mass(products(self.rows[part], queries))  # (blocks, size, batch)
            if part.stop * self.size > self.n_classes:
                places = torch.arange(part.start * self.size, part.stop * self.size, device=masses.device)
                masses = masses.masked_fill((places >= self.n_classes).view(-1, self.size, 1), 0)
            totals[part] = masses.sum(dim=1)
        return totals.t().contiguous()

    def dots(self, queries: Tensor, ids: Tensor) -> Tensor:
        """Inner products of queries (batch, row_dim) with the rows of classes (batch, m), shape (batch, m)."""
        flat = self.rows.flatten(0, 1)
        if ids.stride(0) == 0 and len(ids) > 1:  # the batch shares the classes
            return product(queries, flat.index_select(0, ids[0]))
        out = queries.new_empty(ids.shape)
        for part in slices(len(ids), ids.shape[1] * flat.shape[1]):
            chosen = flat.index_select(0, ids[part].flatten()).view(*ids[part].shape, -1)
            out[part] = chosen.mul_(queries[part].unsqueeze(1)).sum(dim=2)
        return out

    def draw(
        self, queries: Tensor, blocks: Tensor, mass: _Mass, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """One class within each of ``blocks`` (batch, n), and the log-probability of it within the block."""
        uniform = torch.rand(blocks.shape, generator=generator, device=blocks.device)
        ids, log_within = torch.empty_like(blocks), torch.empty_like(uniform)
        for part in slices(len(blocks), blocks.shape[1] * self.size):
            masses = self._masses(queries[part], blocks[part], mass)  # (draws, size)
            ends = masses.cumsum(dim=1)
            place = torch.searchsorted(ends, uniform[part].reshape(-1, 1) * ends[:, -1:], right=True)
            # Rounding may leave a draw at the very end: it goes to the last class there is.
            flat = blocks[part].flatten()
            last = (self.n_classes - 1 - flat * self.size).clamp(max=self.size - 1)
            place = torch.minimum(place, last.unsqueeze(1))
            ids[part] = (flat * self.size + place.squeeze(1)).view_as(ids[part])
            within = masses.gather(1, place).log() - row_sums(masses).log()
            log_within[part] = within.view_as(log_within[part])
        return ids, log_within

    def block_totals(self, queries: Tensor, blocks: Tensor, mass: _Mass) -> Tensor:
        """Mass of chosen blocks (batch, m), as :meth:`draw` sees it, float32 (batch, m)."""
        if blocks.shape[1] * _SHARING >= self.n_blocks:
            return self.totals(queries, mass).gather(1, blocks)
        out = queries.new_empty(blocks.shape)
        for part in slices(len(blocks), blocks.shape[1] * self.size):
            out[part] = row_sums(self._masses(queries[part], blocks[part], mass)).view_as(out[part])
        return out

    def _masses(self, queries: Tensor, blocks: Tensor, mass: _Mass) -> Tensor:
        """Masses of the classes of each (query, block) pair of ``blocks`` (batch, n), shape (batch * n, size). A
        block's rows are far more than the query's, so pairs are sorted by block and up to ``_SHARING`` of them share
        one copy of the rows."""
        n_pairs = blocks.numel()
        sorted_blocks, order = blocks.flatten().sort(stable=True)
        places = torch.arange(n_pairs, device=blocks.device)
        new = torch.ones_like(places, dtype=torch.bool)
        new[1:] = sorted_blocks[1:] != sorted_blocks[:-1]
        rank = places - torch.where(new, places, 0).cummax(dim=0).values
        slot = rank % _SHARING
        group = (slot == 0).cumsum(dim=0) - 1
        block_of_group = sorted_blocks[slot == 0]
        shared = queries.new_zeros(len(block_of_group), _SHARING, queries.shape[1])
        shared[group, slot] = queries[order // blocks.shape[1]]
        dots = queries.new_empty(len(block_of_group), _SHARING, self.size)
        for part in slices(len(block_of_group), self.size * queries.shape[1]):
            rows = self.rows.index_select(0, block_of_group[part])
            dots[part] = products(shared[part], rows)
        masses = queries.new_empty(n_pairs, self.size)
        masses[order] = mass(dots[group, slot])
        left = self.n_classes - blocks.flatten() * self.size  # classes from the block's first on
        if self.n_classes < self.n_blocks * self.size:
            masses.masked_fill_(torch.arange(self.size, device=blocks.device) >= left.unsqueeze(1), 0)
        return masses
