"""What encoders of item sequences have in common: the item tables, and padding on whatever side."""

from __future__ import annotations

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.errors import DataError
from sylvan.params.fields import KW_ONLY, Parameterized, Range, parameterized

PADDING = -1


@parameterized
class SequenceEncoder(Parameterized, nn.Module):
    """Turns the items that a user had so far into a query for the next one; an encoder writes ``_encode``.

    ``encoder(items)`` takes int64 ids of shape (batch, length) in which -1 is padding, and gives queries of shape
    (batch, length, dim): the one at a place knows the items up to there, and no later one. Before anything else every
    row is moved together to the left, so that padding on the left, on the right or in between makes no difference; at
    padding the result is zero.

    Attributes
    ----------
    items : Parameter of shape (n_items, dim)
        What an item is as input. Its gradient is sparse.
    """

    n_items: Annotated[int, Range(1)]
    dim: Annotated[int, Range(1)] = 64
    _: KW_ONLY
    hidden: Annotated[int, Range(1)] = 128
    max_length: Annotated[int, Range(1)] = 20
    dropout: Annotated[float, Range(0, 1)] = 0.2
    tied: bool = True

    def __post_init__(self) -> None:
        self.check_params()
        self.items = nn.Parameter(self._new_table())
        self._classes = None if self.tied else nn.Parameter(self._new_table())

    def _new_table(self) -> Tensor:
        # Inner products with queries of length sqrt(dim) then have a standard deviation of 0.4: close to uniform
        # probabilities, and far enough from zero for gradients to flow.
        return torch.randn(self.n_items, self.dim) * (0.4 / math.sqrt(self.dim))

    @property
    def class_embeddings(self) -> nn.Parameter:
        """What an item is as the answer, shape (n_items, dim): :attr:`items` itself when the tables are tied."""
        return self.items if self._classes is None else self._classes

    def tables(self) -> list[nn.Parameter]:
        """The item tables, which want an optimiser for sparse gradients."""
        return [self.items] if self._classes is None else [self.items, self._classes]

    def inner_parameters(self) -> list[nn.Parameter]:
        """All parameters but the item tables."""
        tables = {id(table) for table in self.tables()}
        return [parameter for parameter in self.parameters() if id(parameter) not in tables]

    def forward(self, items: Tensor) -> Tensor:
        """Queries for the item that follows each place.

        Parameters
        ----------
        items : Tensor of int64, shape (batch, length), length at most ``max_length``
            Item ids, -1 for padding.

        Returns
        -------
        Tensor of float, shape (batch, length, dim)

        Raises
        ------
        DataError
            When the shape doesn't fit.
        """
        aligned, places = self._aligned(items)
        encoded = self._encode_aligned(aligned)
        index = places.unsqueeze(-1).expand_as(encoded)
        return torch.zeros_like(encoded).scatter(1, index, encoded)

    def last(self, items: Tensor) -> Tensor:
        """The query that follows all items of each row, shape (batch, dim); zero for a row of padding alone."""
        aligned, _ = self._aligned(items)
        encoded = self._encode_aligned(aligned)
        at = ((aligned != PADDING).sum(dim=1) - 1).clamp(min=0)
        return encoded[torch.arange(len(at), device=at.device), at]

    def _aligned(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Rows with their padding moved to the right, and where each entry was."""
        if items.dim() != 2 or items.shape[1] > self.max_length or items.shape[1] == 0:
            raise DataError(
                f"The items given to {type(self).__name__} must have the shape (batch, length) with a length in "
                f"[1, {self.max_length}]. Got {tuple(items.shape)} instead."
            )
        places = (items == PADDING).to(torch.uint8).argsort(dim=1, stable=True)
        return items.gather(1, places), places

    def _encode_aligned(self, aligned: Tensor) -> Tensor:
        present = (aligned != PADDING).unsqueeze(-1)  # (batch, length, 1)
        embedded = F.embedding(aligned.clamp(min=0), self.items, sparse=True) * present
        return self._encode(embedded) * present

    def _encode(self, embedded: Tensor) -> Tensor:
        """Queries (batch, length, dim) of embedded items of that shape; rows are padded on the right with zeros."""
        raise NotImplementedError
