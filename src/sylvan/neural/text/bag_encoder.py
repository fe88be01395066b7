"""Sparse features to a dense query: the sum of the features' vectors, each times its value."""

from __future__ import annotations

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.errors import DataError
from sylvan.params.fields import KW_ONLY, Parameterized, Range, parameterized


@parameterized
class BagEncoder(Parameterized, nn.Module):
    """A linear map of sparse rows, or with ``hidden`` a net of one hidden layer with ReLU.

    Only vectors of features that a batch holds are touched, forward, backward and by an optimiser for sparse
    gradients. A constant is added to every query, through which classes can be frequent or rare whatever the features.

    Parameters
    ----------
    n_features : int
    dim : int
        Dimensions of queries.
    hidden : int, optional
        Width of the hidden layer: the features' vectors then have this width, and a linear map of the rectified sum
        gives the query. Without it the sum is the query.
    dropout : float in [0, 1]
        Of the sum.

    Attributes
    ----------
    features : Parameter of shape (n_features, dim) or (n_features, hidden)
        Its gradient is sparse.

    References
    ----------
    Rawat, Chen, Yu, Suresh, Kumar: Sampled softmax with random Fourier features. NeurIPS 2019, whose extreme
    classifiers embed sparse features in 128 dimensions; the MIDX paper's Section 6.4 follows it.

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural import BagEncoder
    >>> encoder = BagEncoder(1000, 8)
    >>> ids, offsets, values = torch.tensor([3, 17, 5]), torch.tensor([0, 2, 3]), torch.tensor([0.5, 0.5, 1.0])
    >>> encoder(ids, offsets, values).shape
    torch.Size([2, 8])
    """

    n_features: Annotated[int, Range(1)]
    dim: Annotated[int, Range(1)] = 128
    _: KW_ONLY
    hidden: Annotated[int | None, Range(1)] = None
    dropout: Annotated[float, Range(0, 1)] = 0.0

    def __post_init__(self) -> None:
        self.check_params()
        width = self.dim if self.hidden is None else self.hidden
        self.features = nn.Parameter(torch.randn(self.n_features, width) * 0.1)
        self.constant = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self._drop = nn.Dropout(self.dropout)
        self._map = None if self.hidden is None else nn.Linear(self.hidden, self.dim)

    def tables(self) -> list[nn.Parameter]:
        """The features' vectors, which want an optimiser for sparse gradients."""
        return [self.features]

    def inner_parameters(self) -> list[nn.Parameter]:
        """All other parameters."""
        return [parameter for parameter in self.parameters() if parameter is not self.features]

    def forward(self, ids: Tensor, offsets: Tensor, values: Tensor) -> Tensor:
        """Queries of rows in compressed form.

        Parameters
        ----------
        ids : Tensor of int64, shape (nnz,)
            Features, row after row.
        offsets : Tensor of int64, shape (n + 1,)
            Where each row begins, and where the last ends.
        values : Tensor of float, shape (nnz,)

        Returns
        -------
        Tensor of float, shape (n, dim)

        Raises
        ------
        DataError
            When the shapes don't fit together.
        """
        if ids.dim() != 1 or values.shape != ids.shape or offsets.dim() != 1 or len(offsets) < 1:
            raise DataError(
                "BagEncoder needs ids and values of one shape (nnz,), and offsets of the shape (n + 1,). Got "
                f"{tuple(ids.shape)}, {tuple(values.shape)} and {tuple(offsets.shape)} instead."
            )
        summed: Tensor = F.embedding_bag(
            ids, self.features, offsets, mode="sum", sparse=True, per_sample_weights=values, include_last_offset=True
        )
        queries: Tensor = self._drop(summed + self.constant)
        if self._map is not None:
            queries = self._map(F.relu(queries))
        return queries
