"""SASRec: self-attention over the items so far."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from sylvan.errors import ParameterError
from sylvan.neural.sequence.sequence_encoder import SequenceEncoder
from sylvan.params import Constraint, Number

__all__ = ["SASRec"]


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

    constraints: ClassVar[dict[str, Constraint]] = {
        **SequenceEncoder.constraints,
        "layers": Number(int, 1),
        "heads": Number(int, 1),
    }

    def __init__(
        self,
        n_items: int,
        dim: int = 64,
        *,
        hidden: int = 128,
        layers: int = 2,
        heads: int = 2,
        max_length: int = 20,
        dropout: float = 0.2,
        tied: bool = True,
    ) -> None:
        super().__init__()
        self.n_items, self.dim, self.hidden = n_items, dim, hidden
        self.layers, self.heads, self.max_length = layers, heads, max_length
        self.dropout, self.tied = dropout, tied
        self.check_params()
        if dim % heads:
            raise ParameterError(f"The 'heads' parameter of SASRec must divide dim, {dim}. Got {heads} instead.")
        self._make_tables()
        self.positions = nn.Parameter(torch.randn(max_length, dim) * 0.4)
        self._drop = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            dim, heads, dim_feedforward=hidden, dropout=dropout, batch_first=True, norm_first=True
        )
        self._blocks = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)

    def _encode(self, embedded: Tensor) -> Tensor:
        length = embedded.shape[1]
        hidden = self._drop(embedded * math.sqrt(self.dim) + self.positions[:length])
        # Padding is on the right, where no item looks.
        mask = torch.ones(length, length, dtype=torch.bool, device=embedded.device).triu(1)
        encoded: Tensor = self._blocks(hidden, mask=mask, is_causal=True)
        return encoded
