"""A causal Transformer over items or words."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor, nn

from sylvan.errors import DataError, ParameterError
from sylvan.params.fields import Parameterized, Range, parameterized


@parameterized
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

    n_inputs: Annotated[int, Range(1)]
    dim: Annotated[int, Range(1)] = 200
    n_heads: Annotated[int, Range(1)] = 4
    n_layers: Annotated[int, Range(1)] = 2
    feed_forward: Annotated[int, Range(1)] = 1024
    max_length: Annotated[int, Range(1)] = 35
    dropout: Annotated[float, Range(0, 1)] = 0.0
    sparse: bool = False

    def __post_init__(self) -> None:
        self.check_params()
        if self.dim % self.n_heads:
            raise ParameterError(
                f"The 'dim' parameter of CausalTransformer must be a multiple of 'n_heads', {self.n_heads}. "
                f"Got {self.dim} instead."
            )
        self.dim_out = self.dim
        self.inputs = nn.Embedding(self.n_inputs, self.dim, sparse=self.sparse)
        nn.init.normal_(self.inputs.weight, std=1 / math.sqrt(self.dim))
        self.positions = nn.Parameter(torch.randn(self.max_length, self.dim) / math.sqrt(self.dim))
        self.drop = nn.Dropout(self.dropout)
        layer = nn.TransformerEncoderLayer(
            self.dim, self.n_heads, self.feed_forward, self.dropout, batch_first=True, norm_first=True
        )
        last = nn.LayerNorm(self.dim)
        self.layers = nn.TransformerEncoder(layer, self.n_layers, norm=last, enable_nested_tensor=False)
        future = torch.ones(self.max_length, self.max_length, dtype=torch.bool).triu(1)
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
