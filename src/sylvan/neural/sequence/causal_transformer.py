"""A causal Transformer over items or words."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from sylvan.errors import DataError, ParameterError
from sylvan.params import Constraint, Flag, Number, Parameterized

__all__ = ["CausalTransformer"]


class CausalTransformer(Parameterized, nn.Module):
    """Embeddings and learned positions, then layers of attention to what came before: a query vector at every place.

    Layers are normalised before attention and feed-forward, which trains without a warm-up.

    Parameters
    ----------
    n_inputs : int
        How many different ids there are.
    dim : int
        Dimensions of embeddings, layers and queries; a multiple of ``n_heads``.
    n_heads, n_layers, feed_forward : int
    max_length : int
        The longest sequence.
    dropout : float
    sparse : bool
        Whether the embeddings' gradient is sparse, for an optimiser that takes it.

    Attributes
    ----------
    dim_out : int

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural import CausalTransformer
    >>> encoder = CausalTransformer(100, dim=16, n_heads=2, feed_forward=32, max_length=5)
    >>> encoder(torch.zeros(3, 5, dtype=torch.int64)).shape
    torch.Size([3, 5, 16])
    """

    constraints: ClassVar[dict[str, Constraint]] = {
        "n_inputs": Number(int, 1),
        "dim": Number(int, 1),
        "n_heads": Number(int, 1),
        "n_layers": Number(int, 1),
        "feed_forward": Number(int, 1),
        "max_length": Number(int, 1),
        "dropout": Number(float, 0, 1),
        "sparse": Flag(),
    }

    def __init__(
        self,
        n_inputs: int,
        dim: int = 200,
        n_heads: int = 4,
        n_layers: int = 2,
        feed_forward: int = 1024,
        max_length: int = 35,
        dropout: float = 0.0,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        self.n_inputs, self.dim, self.n_heads, self.n_layers = n_inputs, dim, n_heads, n_layers
        self.feed_forward, self.max_length, self.dropout, self.sparse = feed_forward, max_length, dropout, sparse
        self.check_params()
        if dim % n_heads:
            raise ParameterError(
                f"The 'dim' parameter of CausalTransformer must be a multiple of 'n_heads', {n_heads}. "
                f"Got {dim} instead."
            )
        self.dim_out = dim
        self.inputs = nn.Embedding(n_inputs, dim, sparse=sparse)
        nn.init.normal_(self.inputs.weight, std=1 / math.sqrt(dim))
        self.positions = nn.Parameter(torch.randn(max_length, dim) / math.sqrt(dim))
        self.drop = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(dim, n_heads, feed_forward, dropout, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, n_layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        future = torch.ones(max_length, max_length, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)
        for parameter in self.layers.parameters():
            if parameter.dim() > 1:  # copies of one layer would otherwise begin alike
                nn.init.xavier_uniform_(parameter)

    def forward(self, ids: Tensor) -> Tensor:
        """Queries (batch, length, dim_out) for ids (batch, length); each looks at its own place and those before.

        Raises
        ------
        DataError
            When the sequences are longer than ``max_length``.
        """
        length = ids.shape[1]
        if length > self.max_length:
            raise DataError(
                f"CausalTransformer takes sequences of up to {self.max_length} ids (max_length). Got {length} instead."
            )
        embedded = self.drop(self.inputs(ids) * math.sqrt(self.dim) + self.positions[:length])
        future = self.get_buffer("future")[:length, :length]
        outputs: Tensor = self.layers(embedded, mask=future, is_causal=True)
        return outputs
