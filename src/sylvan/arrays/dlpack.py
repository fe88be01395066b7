"""Arrays of other libraries (PyTorch, JAX, CuPy) as NumPy's, by DLPack: nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from sylvan.errors import DataError

_CPU, _PINNED = 1, (3, 11, 13)  # the numbers that DLPack has for memory that a CPU reads
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI", 15: "WebGPU"}


def numpy_of(value: Any, name: str) -> Any:
    """An object with ``__dlpack__`` as a NumPy array of the same memory; anything else as it is."""
    if isinstance(value, np.ndarray) or not (hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")):
        return value
    if getattr(value, "requires_grad", False) is True:
        raise DataError(f"{name} is a tensor that requires grad, which is no plain array: give {name}.detach().")
    try:
        kind = int(value.__dlpack_device__()[0])
        if kind != _CPU and kind not in _PINNED:
            where = getattr(value, "device", None) or _DEVICES.get(kind, f"DLPack's number {kind}")
            raise DataError(f"{name} is on the device {where}, but must be on the CPU: copy it there first.")
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        kind_name = getattr(value, "dtype", type(value).__name__)
        raise DataError(
            f"{name} is a {type(value).__name__} of {kind_name} that NumPy can't read: convert it to a dense one of "
            f"float32 first. ({error})"
        ) from error
