"""Networks over sequences: SASRec, GRU4Rec, an LSTM and a causal Transformer; padding on whatever side."""

from __future__ import annotations

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.errors import DataError, ParameterError
from sylvan.params.fields import KW_ONLY, Parameterized, Range, parameterized

PADDING = -1


def _transformer(dim: int, heads: int, width: int, dropout: float, n_layers: int) -> nn.TransformerEncoder:
    """Layers of attention and feed-forward nets, normalised before both and once more at the end."""
    layer = nn.TransformerEncoderLayer(dim, heads, width, dropout, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, n_layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)


@parameterized
class SequenceEncoder(Parameterized, nn.Module):
    """Turns the items that a user had so far into a query for the next one; an encoder writes ``_encode``.

    ``encoder(items)`` takes int64 ids of shape (batch, length) in which -1 is padding, and gives queries of shape
    (batch, length, dim): the one at a place knows the items up to there, and no later one. Where a row's padding is
    makes no difference; at padding the result is zero.

    Parameters
    ----------
    n_items : int
    dim : int
        Dimensions of items and queries.
    hidden : int
        Dimensions of what is between them.
    max_length : int
        The most items that a row may hold.
    dropout : float in [0, 1]
        Of what is encoded, in training.
    tied : bool
        Whether items as answers are the same vectors as items as input.

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
        encoded, places = self._encoded(items)
        index = places.unsqueeze(-1).expand_as(encoded)
        return torch.zeros_like(encoded).scatter(1, index, encoded)

    def last(self, items: Tensor) -> Tensor:
        """The query that follows all items of each row, shape (batch, dim); zero for a row of padding alone."""
        encoded, _ = self._encoded(items)
        last = ((items != PADDING).sum(dim=1) - 1).clamp(min=0)
        return encoded[torch.arange(len(last), device=last.device), last]

    def _encoded(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Queries of rows whose padding is moved to the right, and where each entry was."""
        if items.dim() != 2 or not 0 < items.shape[1] <= self.max_length:
            raise DataError(
                f"The items given to {type(self).__name__} must have the shape (batch, length) with a length in "
                f"[1, {self.max_length}]. Got {tuple(items.shape)} instead."
            )
        places = (items == PADDING).to(torch.uint8).argsort(dim=1, stable=True)
        aligned = items.gather(1, places)
        present = (aligned != PADDING).unsqueeze(-1)  # (batch, length, 1)
        embedded = F.embedding(aligned.clamp(min=0), self.items, sparse=True) * present
        return self._encode(embedded) * present, places

    def _encode(self, embedded: Tensor) -> Tensor:
        """Queries (batch, length, dim) of embedded items of that shape; rows are padded on the right with zeros."""
        raise NotImplementedError


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
        self.layers = _transformer(self.dim, self.n_heads, self.feed_forward, self.dropout, self.n_layers)
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


@parameterized
class GRU4Rec(SequenceEncoder):
    """A GRU over item embeddings; a linear map takes its state to the dimensions of the items.

    The state is wider than an item (128 against 64). The queries are normalised to a length near ``sqrt(dim)`` as
    SASRec's are, so that one learning rate serves both.

    Parameters
    ----------
    hidden : int
        Dimensions of the recurrent state.
    layers : int
    dropout : float in [0, 1]
        Of embeddings, of the state between layers, and of the state before the map.

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


@parameterized
class SASRec(SequenceEncoder):
    """A causal Transformer over item embeddings with learned positions.

    A place attends to itself and to those before it. Layer normalisation stands before attention and feed-forward
    net, and once more at the end, so that queries have a length near ``sqrt(dim)``. Positions are counted from a row's
    first item.

    Parameters
    ----------
    hidden : int
        Width of the feed-forward nets.
    layers, heads : int
        ``heads`` must divide ``dim``.
    dropout : float in [0, 1]
        Of embeddings, attention, and the outputs of sublayers.

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
        self._blocks = _transformer(self.dim, self.heads, self.hidden, self.dropout, self.layers)

    def _encode(self, embedded: Tensor) -> Tensor:
        length = embedded.shape[1]
        hidden = self._drop(embedded * math.sqrt(self.dim) + self.positions[:length])
        # Padding is on the right, where no item looks.
        mask = torch.ones(length, length, dtype=torch.bool, device=embedded.device).triu(1)
        encoded: Tensor = self._blocks(hidden, mask=mask, is_causal=True)
        return encoded
