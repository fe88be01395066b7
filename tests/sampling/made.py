"""What PyTorch makes while a block runs: the size of the largest new tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestMade(TorchDispatchMode):
    """Watches every operation, those of backward too; views and changes in place make nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.by = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {storage for tensor in tensors((args, kwargs)) for storage in storages(tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in tensors(result):
            for storage, size in storages(tensor).items():
                if storage not in given and size > self.largest:
                    self.largest, self.by = size, str(func)
        return result


def tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def storages(tensor: Tensor) -> dict[int, int]:
    """Address and bytes of what a tensor is stored in; of a sparse one its indices and values."""
    if tensor.layout == torch.sparse_coo:
        return {**storages(tensor._indices()), **storages(tensor._values())}
    storage = tensor.untyped_storage()
    return {storage.data_ptr(): storage.nbytes()} if storage.nbytes() else {}
