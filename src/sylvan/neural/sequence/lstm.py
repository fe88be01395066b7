"""An LSTM over items or words."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from sylvan.params.fields import Parameterized, Range, parameterized


@parameterized
class LSTMEncoder(Parameterized, nn.Module):
    """Embeddings, dropout, layers of LSTM, dropout: a query vector at every place of every sequence.

    Parameters
    ----------
    n_inputs : int
        How many different ids there are.
    embedding : int
        Dimensions of their embeddings.
    hidden : int
        Dimensions of each layer, and of the queries.
    n_layers : int
    dropout : float
        Share that is dropped from the embeddings, between layers and from the queries.
    sparse : bool
        Whether the embeddings' gradient is sparse, for an optimiser that takes it.

    Attributes
    ----------
    dim_out : int

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural import LSTMEncoder
    >>> encoder = LSTMEncoder(100, embedding=8, hidden=16)
    >>> queries, state = encoder(torch.zeros(3, 5, dtype=torch.int64))
    >>> queries.shape
    torch.Size([3, 5, 16])
    """

    n_inputs: Annotated[int, Range(1)]
    embedding: Annotated[int, Range(1)] = 200
    hidden: Annotated[int, Range(1)] = 128
    n_layers: Annotated[int, Range(1)] = 2
    dropout: Annotated[float, Range(0, 1)] = 0.0
    sparse: bool = False

    def __post_init__(self) -> None:
        self.check_params()
        self.dim_out = self.hidden
        self.inputs = nn.Embedding(self.n_inputs, self.embedding, sparse=self.sparse)
        nn.init.uniform_(self.inputs.weight, -0.1, 0.1)
        self.drop = nn.Dropout(self.dropout)
        between = self.dropout if self.n_layers > 1 else 0.0
        self.layers = nn.LSTM(self.embedding, self.hidden, self.n_layers, batch_first=True, dropout=between)

    def forward(self, ids: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Queries (batch, length, dim_out) for ids (batch, length), and the state to go on from.

        Parameters
        ----------
        ids : Tensor of int64, shape (batch, length)
        state : tuple of two Tensors, shape (n_layers, batch, hidden), optional
            What an earlier call gave, detached by the caller where gradients are to end; zeros by default.
        """
        outputs, state = self.layers(self.drop(self.inputs(ids)), state)
        return self.drop(outputs), state

    def zero_state(self, batch: int) -> tuple[Tensor, Tensor]:
        """The state of sequences that begin."""
        zeros = torch.zeros(self.n_layers, batch, self.hidden, device=self.inputs.weight.device)
        return zeros, zeros.clone()
