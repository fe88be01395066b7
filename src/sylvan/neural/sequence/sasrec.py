"""SASRec: self-attention over the items so far."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor, nn

from sylvan.errors import ParameterError
from sylvan.neural.sequence.sequence_encoder import SequenceEncoder
from sylvan.params.fields import KW_ONLY, Range, parameterized


@parameterized
class SASRec(SequenceEncoder):
    """A causal Transformer over item embeddings with learned positions.

    A place attends to itself and to those before it. Layer normalisation stands before attention and feed-forward
    net, and once more at the end, so that queries have a length near ``sqrt(dim)``. Positions are counted from a row's
    first item.

    Parameters
    ----------
    n_items : int
    dim : int
        Dimensions of items and queries.
    hidden : int
        Width of the feed-forward nets.
    layers, heads : int
        ``heads`` must divide ``dim``.
    max_length : int
        The most items that a row may hold.
    dropout : float in [0, 1]
        Of embeddings, attention, and the outputs of sublayers.
    tied : bool
        Whether items as answers are the same vectors as items as input.

    References
    ----------
    Kang, McAuley: Self-attentive sequential recommendation. ICDM 2018. The sizes are those of the MIDX paper's
    Section 6.3.

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural import SASRec
    >>> encoder = SASRec(n_items=100)
    >>> encoder(torch.tensor([[3, 5, -1], [7, -1, -1]])).shape
    torch.Size([2, 3, 64])
    """

    _: KW_ONLY
    layers: Annotated[int, Range(1)] = 2
    heads: Annotated[int, Range(1)] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.heads:
            raise ParameterError(
                f"The 'heads' parameter of SASRec must divide dim, {self.dim}. Got {self.heads} instead."
            )
        self.positions = nn.Parameter(torch.randn(self.max_length, self.dim) * 0.4)
        self._drop = nn.Dropout(self.dropout)
        layer = nn.TransformerEncoderLayer(
            self.dim, self.heads, dim_feedforward=self.hidden, dropout=self.dropout, batch_first=True, norm_first=True
        )
        last = nn.LayerNorm(self.dim)
        self._blocks = nn.TransformerEncoder(layer, self.layers, norm=last, enable_nested_tensor=False)

    def _encode(self, embedded: Tensor) -> Tensor:
        length = embedded.shape[1]
        hidden = self._drop(embedded * math.sqrt(self.dim) + self.positions[:length])
        # Padding is on the right, where no item looks.
        mask = torch.ones(length, length, dtype=torch.bool, device=embedded.device).triu(1)
        encoded: Tensor = self._blocks(hidden, mask=mask, is_causal=True)
        return encoded
