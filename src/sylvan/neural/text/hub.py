"""The local folder that a path or a name on the Hugging Face hub means."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

from sylvan.errors import ModelError
from sylvan.neural.text.encoder_files import check_files, network_folder
from sylvan.neural.text.hugging_face import need
from sylvan.remote.client import PATIENCE, need_library, quiet, unreachable

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_PATTERNS = ["*.json", "*.txt", "*.model", "*.spm", "*.tiktoken", "*.codes", "*.safetensors"]
_OTHERS = ["onnx/*", "openvino/*", "coreml/*", "original/*", "consolidated*", "*.fp16.safetensors"]


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
