"""The local folder that a path or a name on the Hugging Face hub means; the only importer of huggingface_hub."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import urllib.parse
import urllib.request
from typing import Any

from sylvan.errors import ModelError
from sylvan.neural.text.encoder_files import check_files, network_folder
from sylvan.neural.text.hugging_face import need

__all__ = ["find_folder"]

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_PATTERNS = ["*.json", "*.txt", "*.model", "*.spm", "*.tiktoken", "*.codes", "*.safetensors"]
_OTHERS = ["onnx/*", "openvino/*", "coreml/*", "original/*", "consolidated*", "*.fp16.safetensors"]
_PATIENCE = 3.0  # seconds to wait for the hub's first answer


def find_folder(source: str | os.PathLike[str]) -> str:
    """The local folder that a path or a name on the hub means.

    Parameters
    ----------
    source : path or str

    Returns
    -------
    str

    Raises
    ------
    ModelError
        When there is none, and the hub can't be reached or has no such model.
    """
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
    hub = need("huggingface_hub")
    settings: dict[str, Any] = {"ignore_patterns": _OTHERS, "etag_timeout": _PATIENCE}
    with contextlib.suppress(Exception):  # whatever it is, the cache hasn't got it
        folder: str = hub.snapshot_download(name, local_files_only=True)
        if _is_complete(folder):
            return folder
    if hub.constants.HF_HUB_OFFLINE:
        raise _unreached(name, "HF_HUB_OFFLINE is set")
    _need_connection(name, hub.constants.ENDPOINT)
    bars = hub.utils.are_progress_bars_disabled()
    try:
        if not bars and not sys.stderr.isatty():
            hub.utils.disable_progress_bars()
        folder = hub.snapshot_download(name, allow_patterns=_PATTERNS, **settings)
    except hub.errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"There is no folder {name!r}, and the Hugging Face hub has no public model of that name."
        ) from error
    except Exception as error:  # of whatever HTTP library the hub's client uses
        raise _unreached(name, (str(error).strip().splitlines() or [type(error).__name__])[0]) from error
    finally:
        if not bars:
            hub.utils.enable_progress_bars()
    return folder


def _need_connection(name: str, endpoint: str) -> None:
    """Try for a moment whether anybody answers: the hub's client would try for much longer."""
    if urllib.request.getproxies():
        return  # then the hub may answer though nobody can be reached directly
    place = urllib.parse.urlsplit(endpoint)
    try:
        port = place.port or (80 if place.scheme == "http" else 443)
        socket.create_connection((place.hostname or "", port), timeout=_PATIENCE).close()
    except OSError as error:
        raise _unreached(name, str(error.strerror or error)) from error


def _unreached(name: str, why: str) -> ModelError:
    return ModelError(
        f"There is no folder {name!r}, and the Hugging Face hub can't be asked for a model of that name "
        f"({why.rstrip('.')}). Give the path of a local folder."
    )
