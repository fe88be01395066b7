"""A model on disk: a folder of ``manifest.json`` and ``.npy`` files; atomic, checksummed, memory-mappable. Nothing in
it is pickled and no file names a class: the manifest names a *kind* ("xr-linear", "vocabulary", ...) and the modules
that know a kind register how to rebuild it. See :mod:`sylvan.store.write` for what makes saving atomic and
:mod:`sylvan.store.read` for what is verified before an array reaches a kernel."""

from __future__ import annotations

from sylvan.store.read import (
    ScratchFiles,
    contents,
    files_of,
    load,
    need_array,
    need_bool,
    need_choice,
    need_csr,
    need_files,
    need_finite,
    need_float,
    need_int,
    need_kind,
    need_offsets,
    need_params,
    need_part,
    need_range,
    need_rising,
)
from sylvan.store.state import JSON, State, folder_path, loaders, register
from sylvan.store.write import annotate, check_target, save, saved_bytes, undo, unwritable, updating

__all__ = [
    "JSON", "ScratchFiles", "State", "annotate", "check_target", "contents", "files_of", "folder_path", "load",
    "loaders", "need_array", "need_bool", "need_choice", "need_csr", "need_files", "need_finite", "need_float",
    "need_int", "need_kind", "need_offsets", "need_params", "need_part", "need_range", "need_rising", "register",
    "save", "saved_bytes", "undo", "unwritable", "updating",
]  # fmt: skip
