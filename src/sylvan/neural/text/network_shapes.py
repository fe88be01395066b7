"""Whether config.json asks for the network whose weights lie beside it: checked before anything is allocated."""

from __future__ import annotations

import json
import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from sylvan.errors import ModelError

Shapes = dict[str, tuple[str, tuple[int, ...]]]  # of each tensor: the file it is in, and its shape

_WEIGHTS = "model.safetensors"
_LAYERS = "num_hidden_layers"
_COUNT = re.compile(r"(layers?|groups)$")
_FEW = 256  # layers that any network may have: ALBERT's kin use the same weights for many
_SPARE = 2**26  # elements of what files don't hold: poolers, masks, tables of sines


def stored_shapes(folder: str) -> Shapes:
    """What the files that transformers would read hold, by their headers alone."""
    path = os.path.join(folder, _WEIGHTS)
    paths = [path]
    if not os.path.isfile(path):
        with open(f"{path}.index.json", "rb") as file:
            paths = [os.path.join(folder, shard) for shard in sorted(set(json.load(file)["weight_map"].values()))]
    return {tensor: (path, shape) for path in paths for tensor, shape in shapes_in(path).items()}


def shapes_in(path: str) -> dict[str, tuple[int, ...]]:
    """The shapes of a safetensors file's tensors by their names, of its header alone."""
    with open(path, "rb") as file:
        n_bytes = int.from_bytes(file.read(8), "little")
        if n_bytes > os.path.getsize(path) - 8:
            raise ValueError(f"{os.path.basename(path)} is damaged: it ends within its header.")
        header = json.loads(file.read(n_bytes))
    return {name: tuple(map(int, entry["shape"])) for name, entry in header.items() if name != "__metadata__"}


def check_counts(folder: str, stored: Shapes) -> None:
    """Check that config.json asks for no more layers than there are tensors: even their list could fill the memory."""
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


def check_network(load: Callable[[], tuple[Any, dict[str, Any]]], folder: str, stored: Shapes) -> list[str]:
    """Have the network loaded without memory behind its weights, and check what it reports."""
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
        with torch.device("meta"):  # whatever the network computes of its settings takes no memory either
            model, report = load()
    finally:
        hook.remove()
    differing = {name: (tuple(shape), tuple(wanted)) for name, shape, wanted in report["mismatched_keys"]}
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    shapes = {name: tuple(tensor.shape) for name, tensor in named}
    for name in sorted(differing, key=list(shapes).index):
        shape, wanted = differing[name]
        file = next((file for key, (file, _) in stored.items() if key.endswith(name)), folder)
        raise ModelError(
            f"The weights in {file!r} are not those of its config.json: {name!r} has the shape {shape}, where "
            f"config.json asks for {wanted}."
        )
    missing = sorted(report["missing_keys"])
    if others := [name for name in missing if name.split(".")[0] != "pooler"]:
        raise incomplete(folder, others, shapes)
    _check_sizes({name: shapes[name] for name in [*missing, *dict(model.named_buffers())]}, folder, stored)
    _check_layers(model, report["unexpected_keys"], folder)
    return missing


def incomplete(folder: str, names: Sequence[str], shapes: Mapping[str, tuple[int, ...]] | None = None) -> ModelError:
    """The error that says which weights the files lack."""
    shape = "" if shapes is None else f" of the shape {shapes[names[0]]}"
    return ModelError(
        f"The encoder in {folder!r} is incomplete: its files hold no weights for {len(names)} of the network's "
        f"parameters, {names[0]!r}{shape} among them."
    )


def _check_sizes(others: Mapping[str, tuple[int, ...]], folder: str, stored: Shapes) -> None:
    """Check that what the files don't have isn't far larger than what they have."""
    n_stored = sum(math.prod(shape) for _, shape in stored.values())
    if sum(map(math.prod, others.values())) > n_stored + _SPARE:
        name, wanted = max(others.items(), key=lambda item: math.prod(item[1]))
        raise ModelError(
            f"The weights in {folder!r} are not those of its config.json: it asks for {name!r} of the shape {wanted}, "
            "which the files don't hold."
        )


def _check_layers(model: Any, unexpected: Iterable[str], folder: str) -> None:
    """Check that the network has all layers that its files have; what else they hold may be a task's head."""
    lists = {name: len(module) for name, module in model.named_modules() if isinstance(module, nn.ModuleList)}
    for key in sorted(unexpected):
        parts = key.removeprefix(f"{model.base_model_prefix}.").split(".")
        for i in range(1, len(parts)):
            n_layers = lists.get(".".join(parts[:i]))
            if n_layers is not None and parts[i].isdecimal() and int(parts[i]) >= n_layers:
                raise ModelError(
                    f"The weights in {folder!r} are not those of its config.json, which asks for {n_layers} of the "
                    f"layers {'.'.join(parts[:i])!r}, where the files have more: {key!r}."
                )
