"""Adding to what the manifest of a saved model says, without writing its arrays again."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from sylvan.errors import ModelError
from sylvan.store import manifest
from sylvan.store.read import read_manifest
from sylvan.store.state import JSON, folder_path
from sylvan.store.write import locked, put_manifest
from sylvan.version import __version__


def contents(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a model, verified, as plain values: ``checksum``, ``sylvan_version``, ``model``."""

    path = folder_path(folder)
    data = read_manifest(path)
    manifest.parse(data, os.path.join(path, manifest.NAME), __version__)
    result: dict[str, Any] = json.loads(data)
    return result


def annotate(folder: str | os.PathLike[str], notes: dict[str, JSON]) -> None:
    """Put ``notes`` into the ``meta`` of the model in ``folder``, in one step; its arrays stay as they are. The next
    model that is saved there starts without them."""
    path = Path(os.path.realpath(folder_path(folder)))
    token = secrets.token_hex(4)
    waiting = path / f"{manifest.NAME}.{token}"
    read_manifest(str(path))  # says that there is no model, where there is none to lock
    try:
        with locked(path):
            result = contents(path)
            model = result["model"]
            model["meta"] = {**model["meta"], **notes}
            put_manifest(waiting, model, str(result["sylvan_version"]))
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(waiting)
        reason = error.strerror or error
        raise ModelError(f"The model in {str(folder)!r} could not be annotated: {reason}. It is unchanged.") from error
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(waiting)
        raise
