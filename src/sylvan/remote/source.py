"""Where a model's folder came from: the repository and the commit, by its manifest or its place in the Hub's cache."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sylvan.errors import ModelError

SOURCE = "pulled"  # what a manifest calls it
_CACHED = re.compile(r"models--([A-Za-z0-9_.-]+?)--([A-Za-z0-9_.-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Source:
    """A repository on the Hub and a commit of it."""

    repository: str
    revision: str

    def as_json(self) -> dict[str, str]:
        """As a manifest holds it."""
        return {"repository": self.repository, "revision": self.revision}


def source_of(folder: str | os.PathLike[str], meta: Mapping[str, Any]) -> Source | None:
    """Where the model in ``folder`` came from; None for one that wasn't pulled."""
    path = os.path.realpath(folder)
    cached = _CACHED.fullmatch(os.path.basename(cache_of(path) or ""))
    if cached is not None:
        return Source(f"{cached[1]}/{cached[2]}", os.path.basename(path))
    note = meta.get(SOURCE)
    if note is None:
        return None
    values = [note.get(key) for key in ("repository", "revision")] if isinstance(note, dict) else [None]
    if not all(isinstance(value, str) and value.isprintable() for value in values):
        raise ModelError(f"{os.fspath(folder)!r} is damaged: in manifest.json, {SOURCE!r} isn't what pull writes.")
    return Source(*values)


def cache_of(path: str) -> str | None:
    """The folder of a repository in the Hub's cache to which a snapshot belongs; None for any other folder. A snapshot
    is called ``models--owner--name/snapshots/COMMIT``, and its files are links to ``models--owner--name/blobs``."""
    above, name = os.path.split(path)
    root, middle = os.path.split(above)
    is_snapshot = _COMMIT.fullmatch(name) and middle == "snapshots" and _CACHED.fullmatch(os.path.basename(root))
    return root if is_snapshot else None
