"""PyTorch's tensors as features and labels: read where NumPy can, and a sentence where it can't."""

import numpy as np
import pytest
from kit.errors import raises

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
    with raises(DataError, "X.detach()"):
        XRLinear().fit(X, [[0], [1], [2], [3]])
    with raises(DataError, "X.detach()"):
        XRLinear().fit(np.eye(4), np.arange(4)).rank(X)
    with raises(DataError, "Y.detach()"):
        XRLinear().fit(np.eye(4), Y)
    with raises(DataError, "Y.detach()"):
        validate.labels(torch.eye(4, requires_grad=True))


def test_another_object_that_gives_no_array() -> None:
    class Broken:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise RuntimeError("It is somewhere else.")

    with raises(DataError, "X", "else"):
        validate.features(Broken())


@pytest.mark.parametrize(("number", "where"), [(2, "CUDA"), (4, "OpenCL"), (7, "Vulkan"), (8, "Metal"), (10, "ROCm"),
                                               (14, "oneAPI"), (15, "WebGPU"), (99, "DLPack's number 99")])  # fmt: skip
def test_an_array_on_another_device_is_a_sentence(number: int, where: str) -> None:
    class Elsewhere:
        def __dlpack__(self, **_: object) -> None: ...

        def __dlpack_device__(self) -> tuple[int, int]:
            return number, 0

    with raises(DataError, "X", where):
        validate.features(Elsewhere())
