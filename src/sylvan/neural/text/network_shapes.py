"""Whether config.json asks for the network whose weights lie beside it: found out before anything is allocated."""

from __future__ import annotations

import json
import math
import os
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from sylvan.errors import ModelError

__all__ = ["check_counts", "check_layers", "check_shapes", "stored_shapes"]

Shapes = dict[str, tuple[str, tuple[int, ...]]]  # of each tensor: the file it is in, and its shape

_FILES = ("model.safetensors", "pytorch_model.bin")
_LAYERS = "num_hidden_layers"
_COUNT = re.compile(r"(layers?|groups)$")
_FEW = 256  # layers that any network may have: ALBERT's kin use the same weights for many
_SPARE = 2**26  # elements of what files don't hold: poolers, masks, tables of sines


def stored_shapes(folder: str) -> Shapes:
    """What the files that transformers would read hold, by their headers alone where they have one."""
    found: Shapes = {}
    for name in _FILES:
        read = _headed if name.endswith(".safetensors") else _pickled
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return {tensor: (path, shape) for tensor, shape in read(path).items()}
        if os.path.isfile(f"{path}.index.json"):
            with open(f"{path}.index.json", "rb") as file:
                shards = sorted(set(json.load(file)["weight_map"].values()))
            for shard in shards:
                part = os.path.join(folder, shard)
                found.update({tensor: (part, shape) for tensor, shape in read(part).items()})
            return found
    return found


def _headed(path: str) -> dict[str, tuple[int, ...]]:
    with open(path, "rb") as file:
        n_bytes = int.from_bytes(file.read(8), "little")
        if n_bytes > os.path.getsize(path) - 8:
            raise ValueError(f"{os.path.basename(path)} is damaged: it ends within its header.")
        header = json.loads(file.read(n_bytes))
    return {name: tuple(map(int, entry["shape"])) for name, entry in header.items() if name != "__metadata__"}


def _pickled(path: str) -> dict[str, tuple[int, ...]]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:  # written before PyTorch 1.6: it has to be read whole
        found = torch.load(path, map_location="cpu", weights_only=True)
    return {str(name): tuple(tensor.shape) for name, tensor in found.items() if isinstance(tensor, Tensor)}


def check_counts(folder: str, stored: Shapes) -> None:
    """Hold that config.json asks for no more layers than there are tensors: even their list could fill the memory.

    Raises
    ------
    ModelError
        When it does, or asks for fewer than none.
    """
    path = os.path.join(folder, "config.json")
    with open(path, "rb") as file:
        config = json.load(file)
    most = max(_FEW, len(stored))
    for name, count in config.items() if isinstance(config, dict) else ():
        if _COUNT.search(name) and isinstance(count, int | float) and (count > most or (name == _LAYERS and count < 0)):
            raise ModelError(
                f"The weights in {folder!r} are not those of its config.json: {name!r} must be in [0, {most}] where "
                f"the files hold {len(stored)} tensors. Got {count} instead."
            )


def check_shapes(make: Callable[[], Any], folder: str, stored: Shapes) -> None:
    """Make the network without memory behind its weights, and compare them with the files'.

    A parameter is compared with the tensor of the same name, or of that name behind the prefix that networks with a
    task's head have. Of those that the files have under another name, or not at all, only the size of all together is
    held against the files'; loading them tells the rest.

    Parameters
    ----------
    make : callable
        Gives the network.

    Raises
    ------
    ModelError
        When a shape differs, or the network is far larger than the files.
    """
    limit = 4 * len(stored) + 1000  # files may have one tensor where the network has the three of an attention
    thread, n_made = threading.get_ident(), 0

    def count(*_: Any) -> None:
        nonlocal n_made
        n_made += threading.get_ident() == thread
        if n_made > limit:
            raise ModelError(
                f"The weights in {folder!r} are not those of its config.json, which asks for a network of more than "
                f"{limit} parameters, where the files hold {len(stored)} tensors."
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"):
            model = make()
    except (RuntimeError, NotImplementedError):
        return  # a network that can't be made so, as some can't by older releases of transformers: loading tells
    finally:
        hook.remove()
    _compare(model, folder, stored)


def _compare(model: Any, folder: str, stored: Shapes) -> None:
    others: list[tuple[int, str, tuple[int, ...]]] = []
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        wanted = tuple(tensor.shape)
        file, shape = stored.get(name) or stored.get(f"{model.base_model_prefix}.{name}") or ("", None)
        if shape is None:
            others.append((math.prod(wanted), name, wanted))
        elif math.prod(shape) != math.prod(wanted):  # one that is only turned may be meant so; loading tells
            raise ModelError(
                f"The weights in {file!r} are not those of its config.json: {name!r} has the shape {shape}, where "
                f"config.json asks for {wanted}."
            )
    n_stored = sum(math.prod(shape) for _, shape in stored.values())
    if sum(size for size, _, _ in others) > n_stored + _SPARE:
        _, name, wanted = max(others)
        raise ModelError(
            f"The weights in {folder!r} are not those of its config.json: it asks for {name!r} of the shape {wanted}, "
            "which the files don't hold."
        )


def check_layers(model: Any, unexpected: Iterable[str], folder: str) -> None:
    """Hold that the network has all layers that its files have; what else they hold may be a task's head.

    Raises
    ------
    ModelError
        When there are layers that config.json leaves out.
    """
    lists = {name: len(found) for name, found in model.named_modules() if isinstance(found, nn.ModuleList)}
    for key in sorted(unexpected):
        parts = key.removeprefix(f"{model.base_model_prefix}.").split(".")
        for i in range(1, len(parts)):
            n_layers = lists.get(".".join(parts[:i]))
            if n_layers is not None and parts[i].isdecimal() and int(parts[i]) >= n_layers:
                raise ModelError(
                    f"The weights in {folder!r} are not those of its config.json, which asks for {n_layers} of the "
                    f"layers {'.'.join(parts[:i])!r}, where the files have more: {key!r}."
                )
