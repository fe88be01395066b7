"""GRU4Rec: a recurrent net over the items so far."""

from __future__ import annotations

import math
from typing import Annotated

from torch import Tensor, nn

from sylvan.neural.sequence.sequence_encoder import SequenceEncoder
from sylvan.params.fields import KW_ONLY, Range, parameterized


@parameterized
class GRU4Rec(SequenceEncoder):
    """A GRU over item embeddings; a linear map takes its state to the dimensions of the items.

    The state is wider than an item (128 against 64), so the map is what lets queries meet the item table, and the table
    be the same for input and answers. The queries are normalised to a length near ``sqrt(dim)`` as SASRec's are, so
    that one learning rate serves both.

    Parameters
    ----------
    n_items : int
    dim : int
        Dimensions of items and queries.
    hidden : int
        Dimensions of the recurrent state.
    layers : int
    max_length : int
        The most items that a row may hold.
    dropout : float in [0, 1]
        Of embeddings, of the state between layers, and of the state before the map.
    tied : bool
        Whether items as answers are the same vectors as items as input.

    References
    ----------
    Hidasi, Karatzoglou, Baltrunas, Tikk: Session-based recommendations with recurrent neural networks. ICLR 2016.
    Jannach, Ludewig: When recurrent neural networks meet the neighborhood for session-based recommendation. RecSys
    2017. The sizes are those of the MIDX paper's Section 6.3.

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural import GRU4Rec
    >>> encoder = GRU4Rec(n_items=100)
    >>> encoder.last(torch.tensor([[3, 5, -1], [7, -1, -1]])).shape
    torch.Size([2, 64])
    """

    _: KW_ONLY
    layers: Annotated[int, Range(1)] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._drop = nn.Dropout(self.dropout)
        between = self.dropout if self.layers > 1 else 0.0
        self._gru = nn.GRU(self.dim, self.hidden, self.layers, batch_first=True, dropout=between)
        self._to_items = nn.Linear(self.hidden, self.dim)
        self._norm = nn.LayerNorm(self.dim)

    def _encode(self, embedded: Tensor) -> Tensor:
        states, _ = self._gru(self._drop(embedded * math.sqrt(self.dim)))
        queries: Tensor = self._norm(self._to_items(self._drop(states)))
        return queries
