"""Files of encoders: checked and read with sentences, written so that a reader never meets half of one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from sylvan.errors import ModelError
from sylvan.neural.text import hugging_face
from sylvan.neural.text.hugging_face import need
from sylvan.remote.client import PATIENCE, need_library, quiet, unreachable

_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "tekken.json", "bpe.codes")
_TOKENIZER_ENDINGS = (".model", ".spm", ".tiktoken")
_WEIGHTS = "model.safetensors"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_PATTERNS = ["*.json", "*.txt", "*.model", "*.spm", "*.tiktoken", "*.codes", "*.safetensors"]
_OTHERS = ["onnx/*", "openvino/*", "coreml/*", "original/*", "consolidated*", "*.fp16.safetensors"]


def network_folder(folder: str) -> str:
    """Where the network's own files lie: the folder, or the one in it that its ``modules.json`` names first."""
    if not os.path.isfile(os.path.join(folder, "modules.json")):
        return folder
    first: Any = next(iter(read_json(os.path.join(folder, "modules.json"), list)), None)
    return inside(folder, first.get("path", "") if isinstance(first, dict) else "")


def inside(folder: str, name: Any) -> str:
    """A path of a folder that stays in it."""
    parts = re.split(r"[\\/]", name) if isinstance(name, str) else [".."]
    if ".." in parts or os.path.isabs(name) or ":" in name:
        raise ModelError(f"{os.path.join(folder, 'modules.json')!r} names the path {name!r}, which leads elsewhere.")
    return os.path.join(folder, name) if name else folder


def check_files(folder: str) -> None:
    """Check that a folder has the files of a network and of its tokenizer."""
    names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if "config.json" not in names:
        more = ""
        if "adapter_config.json" in names:
            more = " It holds only what was added to another network: merge the two, and save the whole."
        raise ModelError(f"{folder!r} is not the folder of an encoder: config.json is missing.{more}")
    if "adapter_config.json" in names:
        raise ModelError(
            f"The encoder in {folder!r} has an adapter beside it (adapter_config.json), as LoRA leaves one: merge it "
            "into the weights first (peft's merge_and_unload), and save the whole to a folder of its own."
        )
    if _WEIGHTS not in names:
        index = f"{_WEIGHTS}.index.json"
        if index not in names:
            raise ModelError(f"The encoder in {folder!r} is incomplete: {_no_weights(names)}")
        places = read_json(os.path.join(folder, index)).get("weight_map")
        shards = set(places.values()) if isinstance(places, dict) else {"weight_map"}
        if missing := sorted(str(shard) for shard in shards if shard not in names):
            raise ModelError(f"The encoder in {folder!r} is incomplete: {', '.join(missing)} of {index} is missing.")
    if not names & set(_TOKENIZERS) and not any(name.endswith(_TOKENIZER_ENDINGS) for name in names):
        raise ModelError(
            f"The encoder in {folder!r} is incomplete: its tokenizer (tokenizer.json, vocab.txt or the like) is "
            "missing."
        )


def _no_weights(names: set[str]) -> str:
    pickled = sorted(name for name in names if name.startswith("pytorch_model") and ".bin" in name)
    if not pickled:
        return f"its weights ({_WEIGHTS}) are missing; Sylvan reads no others."
    return (
        f"its weights are pickled ({pickled[0]}), and Sylvan reads {_WEIGHTS} alone. Where you trust them, "
        "transformers' AutoModel.from_pretrained(folder).save_pretrained(folder) writes that file."
    )


def read_json(path: str, kind: type = dict) -> Any:
    """A JSON file that holds an object, or a list."""
    try:
        with open(path, "rb") as file:
            value = json.load(file)
    except OSError as error:
        raise ModelError(f"{path!r} can't be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path!r} is damaged: it is no JSON.") from error
    if not isinstance(value, kind):
        wanted = "an object" if kind is dict else "a list"
        raise ModelError(f"{path!r} is damaged: it must hold {wanted}, but holds a {type(value).__name__}.")
    return value


def read_tensors(folder: str) -> dict[str, Tensor]:
    """The tensors of a folder's ``model.safetensors``."""
    path = os.path.join(folder, _WEIGHTS)
    try:
        tensors = hugging_face.need("safetensors.torch").load_file(path)
    except (ImportError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise ModelError(f"{path!r} is missing.") from error
    except Exception as error:  # of safetensors
        raise ModelError(f"{path!r} can't be read: {hugging_face.reason_of(error)}") from error
    return {str(name): tensor.float() for name, tensor in tensors.items()}


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file."""
    plain = {name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in tensors.items()}
    data: bytes = hugging_face.need("safetensors.torch").save(plain, metadata={"format": "pt"})
    return data


@contextlib.contextmanager
def written_beside(folder: str | os.PathLike[str]) -> Iterator[str]:
    """An empty folder to write into, whose files are then moved into ``folder``, each at one stroke."""
    path = os.path.realpath(os.path.expanduser(os.fspath(folder)))
    waiting = ""
    try:
        if os.path.exists(path) and not os.path.isdir(path):
            raise NotADirectoryError(0, "it is a file, not a folder")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        waiting = tempfile.mkdtemp(prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path))
        yield waiting
        _move(waiting, path)
    except OSError as error:
        raise ModelError(
            f"The encoder could not be saved to {os.fspath(folder)!r}: {error.strerror or error}."
        ) from error
    finally:
        if waiting:
            shutil.rmtree(waiting, ignore_errors=True)


def _move(source: str, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    for name in sorted(os.listdir(source)):
        here, there = os.path.join(source, name), os.path.join(target, name)
        if os.path.isdir(here):
            _move(here, there)
        else:
            os.replace(here, there)


def find_folder(source: str | os.PathLike[str]) -> str:
    """The local folder that a path or a name on the hub means."""
    path = os.path.expanduser(os.fspath(source))
    if os.path.isdir(path):
        return path
    if os.path.exists(path):
        raise ModelError(f"An encoder is a folder with several files, but {path!r} is a file.")
    if not _HUB_NAME.fullmatch(path) or ".." in path:
        raise ModelError(f"There is no folder {path!r}.")
    return _snapshot(path)


def _is_complete(folder: str) -> bool:
    try:
        check_files(network_folder(folder))
    except ModelError:
        return False
    return True


def _snapshot(name: str) -> str:
    """The local folder of a model of the hub, downloaded unless it is there."""
    need("huggingface_hub")
    library = need_library()
    settings: dict[str, Any] = {"ignore_patterns": _OTHERS, "etag_timeout": PATIENCE}
    with contextlib.suppress(Exception):  # whatever it is, the cache hasn't got it
        folder: str = library.snapshot_download(name, local_files_only=True)
        if _is_complete(folder):
            return folder
    if reason := unreachable(library):
        raise _unreached(name, reason)
    try:
        with quiet(library):
            folder = library.snapshot_download(name, allow_patterns=_PATTERNS, **settings)
    except library.errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"There is no folder {name!r}, and the Hugging Face hub has no public model of that name."
        ) from error
    except Exception as error:  # of whatever HTTP library the hub's client uses
        raise _unreached(name, (str(error).strip().splitlines() or [type(error).__name__])[0]) from error
    return folder


def _unreached(name: str, why: str) -> ModelError:
    return ModelError(
        f"There is no folder {name!r}, and the Hugging Face hub can't be asked for a model of that name "
        f"({why.rstrip('.')}). Give the path of a local folder."
    )
