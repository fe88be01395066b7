"""An LSTM over items or words."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from sylvan.params import Constraint, Flag, Number, Parameterized

__all__ = ["LSTMEncoder"]


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

    constraints: ClassVar[dict[str, Constraint]] = {
        "n_inputs": Number(int, 1),
        "embedding": Number(int, 1),
        "hidden": Number(int, 1),
        "n_layers": Number(int, 1),
        "dropout": Number(float, 0, 1),
        "sparse": Flag(),
    }

    def __init__(
        self,
        n_inputs: int,
        embedding: int = 200,
        hidden: int = 128,
        n_layers: int = 2,
        dropout: float = 0.0,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        self.n_inputs, self.embedding, self.hidden = n_inputs, embedding, hidden
        self.n_layers, self.dropout, self.sparse = n_layers, dropout, sparse
        self.check_params()
        self.dim_out = hidden
        self.inputs = nn.Embedding(n_inputs, embedding, sparse=sparse)
        nn.init.uniform_(self.inputs.weight, -0.1, 0.1)
        self.drop = nn.Dropout(dropout)
        between = dropout if n_layers > 1 else 0.0
        self.layers = nn.LSTM(embedding, hidden, n_layers, batch_first=True, dropout=between)

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
