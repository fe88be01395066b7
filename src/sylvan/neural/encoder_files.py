"""Files of encoders: read with sentences, written so that a reader never meets half of one."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sylvan.errors import ModelError

__all__ = ["read_json", "read_tensors", "tensor_bytes", "write_files"]


def read_json(path: str) -> dict[str, Any]:
    """A JSON file that holds an object.

    Raises
    ------
    ModelError
        When it can't be read or holds something else.
    """
    try:
        with open(path, "rb") as file:
            found = json.load(file)
    except OSError as error:
        raise ModelError(f"{path!r} can't be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path!r} is damaged: it is no JSON.") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path!r} is damaged: it must hold a JSON object, but holds a {type(found).__name__}.")
    return found


def read_tensors(path: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file.

    Raises
    ------
    ModelError
        When it is missing or damaged.
    """
    from sylvan.neural.hugging_face import need

    safetensors = need("safetensors")
    torch_door = need("safetensors.torch")
    try:
        found: dict[str, Tensor] = torch_door.load_file(path)
    except OSError as error:
        raise ModelError(f"{path!r} can't be read: {error.strerror or error}.") from error
    except safetensors.SafetensorError as error:
        raise ModelError(f"{path!r} is damaged: {' '.join(str(error).split())}.") from error
    return found


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file."""
    from sylvan.neural.hugging_face import need

    plain = {name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in tensors.items()}
    found: bytes = need("safetensors.torch").save(plain, metadata={"format": "pt"})
    return found


def write_files(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> None:
    """Write files into a folder, each at one stroke; names may lead into folders of it.

    Raises
    ------
    ModelError
        When the folder can't be written.
    """
    path = os.fspath(folder)
    waiting = ""
    try:
        for name, data in files.items():
            target = os.path.join(path, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            waiting = f"{target}.{secrets.token_hex(4)}"
            with open(waiting, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(waiting, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(waiting)
        raise ModelError(f"The encoder could not be saved to {path!r}: {error.strerror or error}.") from error
