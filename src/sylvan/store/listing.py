"""Which files a model's folder consists of, by its manifest alone."""

from __future__ import annotations

import os

from sylvan.store import manifest
from sylvan.store.read import read_manifest
from sylvan.store.state import folder_path
from sylvan.version import __version__


def files_of(folder: str | os.PathLike[str]) -> dict[str, int]:
    """The files that the manifest in ``folder`` names, and their sizes as it states them. The files themselves needn't
    be there. No name leads out of the folder; folders are separated by ``/``."""
    path = folder_path(folder)
    root = manifest.parse(read_manifest(path), os.path.join(path, manifest.NAME), __version__)
    sizes: dict[str, int] = {}
    for node in root.nodes():
        sizes |= {entry.file: entry.size for entry in node.arrays.values()}
        sizes |= {entry.file: entry.size for entry in node.files.values()}
    return sizes
