"""PyTorch's tensors as features and labels: read where NumPy can, and a sentence where it can't."""

from __future__ import annotations

import numpy as np
import pytest

from sylvan import XRLinear
from sylvan.arrays import validate
from sylvan.errors import DataError

torch = pytest.importorskip("torch")


def test_plain_tensors_are_read() -> None:
    X, Y = np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0])
    model = XRLinear(seed=0).fit(torch.from_numpy(X), torch.from_numpy(Y))
    top, other = model.rank(torch.from_numpy(X), k=2), XRLinear(seed=0).fit(X, Y).rank(X, k=2)
    assert (top.labels == other.labels).all() and (top.scores == other.scores).all()


def test_a_tensor_with_a_gradient_is_a_sentence() -> None:
    X, Y = torch.eye(4, requires_grad=True), torch.ones(4, requires_grad=True)
    words = r"is a tensor that requires grad, which is no plain array: give {0}\.detach\(\)\."
    with pytest.raises(DataError, match=rf"^X {words.format('X')}$"):
        XRLinear().fit(X, [[0], [1], [2], [3]])
    with pytest.raises(DataError, match=rf"^X {words.format('X')}$"):
        XRLinear().fit(np.eye(4), np.arange(4)).rank(X)
    with pytest.raises(DataError, match=rf"^Y {words.format('Y')}$"):
        XRLinear().fit(np.eye(4), Y)
    with pytest.raises(DataError, match=rf"^Y {words.format('Y')}$"):
        validate.labels(torch.eye(4, requires_grad=True))


def test_another_object_that_gives_no_array() -> None:
    class Broken:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise RuntimeError("It is somewhere else.")

    with pytest.raises(DataError, match=r"^X is no array of numbers: It is somewhere else\.$"):
        validate.features(Broken())
