"""The encoder of sparse features against a dense product."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from kit.errors import raises

from sylvan.errors import DataError, ParameterError
from sylvan.neural import BagEncoder


@pytest.mark.parametrize("hidden", [None, 7])
def test_bag_encoder_against_a_dense_product(hidden: int | None) -> None:
    torch.manual_seed(2)
    encoder = BagEncoder(30, 5, hidden=hidden)
    X = sp.random(6, 30, 0.2, format="csr", random_state=3, dtype=np.float32)
    X = sp.vstack([X[:2], sp.csr_matrix((1, 30), dtype=np.float32), X[2:]], format="csr")  # with an empty row
    parts = (torch.from_numpy(X.indices.astype(np.int64)), torch.from_numpy(X.indptr.astype(np.int64)))
    found = encoder(*parts, torch.from_numpy(X.data))
    summed = torch.from_numpy(X.toarray()) @ encoder.features + encoder.constant
    expected = summed if hidden is None else encoder._map(torch.relu(summed))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    found.sum().backward()
    assert encoder.features.grad is not None and encoder.features.grad.is_sparse
    touched = encoder.features.grad.coalesce().indices().flatten().tolist()
    assert touched == sorted(set(X.indices.tolist()))


def test_bag_encoder_refuses_what_does_not_fit_together() -> None:
    encoder = BagEncoder(30, 5)
    ids = torch.tensor([1, 2])
    with raises(DataError, "nnz"):
        encoder(ids, torch.tensor([0, 2]), torch.ones(3))
    with raises(ParameterError, "n_features", "BagEncoder"):
        BagEncoder(0)
