"""Saving: whatever happens on the way, the folder holds the old model or the new one, never half of either. The arrays
are written under names that no earlier save used (``layer0.keys.5f3a09c1.npy``) and synced to the disk; then the new
``manifest.json``, written beside the old one, is renamed over it: the one moment at which the new model replaces the
old. Files that the manifest doesn't name are then removed; processes that have the old model memory-mapped keep their
pages. A folder that doesn't exist yet is written beside under a hidden name and renamed as a whole. Checksums are
CRC-32: they are there to find accidents, not adversaries (what a kernel trusts is verified apart)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import ModelError
from sylvan.store import manifest
from sylvan.store.foreign import (
    check_source,
    clashing,
    folder_of_files,
    folders_above,
    foreign_name,
    is_folder_of_files,
    place_of,
    remove_folder,
    write_file,
)
from sylvan.store.npy import DTYPES, header
from sylvan.store.read import read_manifest
from sylvan.store.state import JSON, State, folder_path
from sylvan.store.versions import EARLIER, LOCK, drop_earlier, earlier, keep_current, named_files
from sylvan.version import __version__

_CHUNK = 16 << 20
_OURS = re.compile(r"[A-Za-z0-9_.]+\.[0-9a-f]{8}\.npy|manifest\.json\.[0-9a-f]{8}")
_STALE_SECONDS = 24 * 3600.0
_FRESH_SECONDS = 10.0


def save(folder: str | os.PathLike[str], state: State, *, keep: int = 0) -> None:
    """Write a model to ``folder``, replacing a Sylvan model that is already there."""

    path = Path(os.path.realpath(folder_path(folder)))
    token = secrets.token_hex(4)
    _check_state(state, path)
    plan = _Plan(token)
    model = plan.describe(state, "")
    try:
        _check_target(path, str(folder))
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(path)
            if _write_new(path, plan, model, token, __version__):
                return
            _check_target(path, str(folder))
        with locked(path):
            _write_into(path, plan, model, token, __version__, keep)
            _remove_unnamed(path, {*plan.files, *plan.folders}, keep)
    except (OSError, MemoryError) as error:
        raise ModelError(_unsaved(str(folder), error)) from error


def undo(folder: str | os.PathLike[str], keep: int = 0) -> int:
    """Go back to the model that was in ``folder`` before the last save that kept it, in one step."""
    path = Path(os.path.realpath(folder_path(folder)))
    read_manifest(str(path))  # says that there is no model, where there is none to lock
    try:
        with locked(path):
            versions = earlier(path)
            if not versions:
                raise ModelError(f"There is no earlier version of the model in {str(folder)!r}: none was kept.")
            node = manifest.parse(versions[0].read_bytes(), str(versions[0]), __version__)
            os.replace(versions[0], path / manifest.NAME)
            _sync_folder(path)
            _remove_unnamed(path, named_files(node), keep)
            return len(earlier(path))
    except OSError as error:
        reason = error.strerror or error
        raise ModelError(f"The model in {str(folder)!r} could not be brought back: {reason}.") from error


def saved_bytes(state: State) -> int:
    """The size of the folder that :func:`save` would write, to the byte."""
    plan = _Plan("0" * 8)
    model = plan.describe(state, "")
    for array, entry in plan.files.values():
        entry["bytes"] = len(header(array.dtype.newbyteorder("<"), array.shape)) + array.nbytes
        entry["checksum"] = f"crc32:{0:08x}"
    for source, entry in plan.foreign.values():
        entry["bytes"] = len(source) if isinstance(source, bytes) else os.path.getsize(source)
        entry["checksum"] = f"crc32:{0:08x}"
    entries = [entry for _, entry in (*plan.files.values(), *plan.foreign.values())]
    return sum(int(entry["bytes"]) for entry in entries) + len(manifest.dump(model, __version__))


def _unsaved(folder: str, error: OSError | MemoryError) -> str:
    reason = getattr(error, "strerror", None) or str(error) or "out of memory"
    name = getattr(error, "filename", None)
    at = f", at {os.path.basename(name)!r}" if isinstance(name, str) else ""
    return f"The model could not be saved to {folder!r}: {reason}{at}. What was there before is unchanged."


class _Plan:
    """Which array goes to which file; the sizes and checksums are filled in as the files are written."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.files: dict[str, tuple[npt.NDArray[np.generic], dict[str, JSON]]] = {}
        self.foreign: dict[str, tuple[bytes | str | os.PathLike[str], dict[str, JSON]]] = {}

    @property
    def folders(self) -> set[str]:
        """The folders of foreign files."""
        return {folder_of_files(place) for place in self.foreign}

    def describe(self, state: State, prefix: str) -> dict[str, JSON]:
        arrays: dict[str, JSON] = {}
        for name, array in state.arrays.items():
            file = f"{prefix}{name}.{self.token}.npy"
            dtype = array.dtype.newbyteorder("<")
            entry: dict[str, JSON] = {"file": file, "dtype": dtype.str, "shape": list(array.shape)}
            arrays[name] = entry
            self.files[file] = (array, entry)
        files: dict[str, JSON] = {}
        for name, source in state.files.items():
            place = place_of(name, prefix, self.token)
            files[name] = {"file": place}
            self.foreign[place] = (source, files[name])
        return {
            "kind": state.kind,
            "version": state.version,
            "params": _plain(state.params),
            "meta": _plain(state.meta),
            "arrays": arrays,
            "parts": {name: self.describe(part, f"{prefix}{name}.") for name, part in state.parts.items()},
            **({"files": files} if files else {}),
        }


def _plain(value: JSON) -> JSON:
    """NumPy's numbers and tuples as the Python values that JSON has words for."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _check_state(state: State, path: Path) -> None:
    """Refuse at saving what would be refused at loading; such a State is a model's bug, not a user's."""
    for name, array in state.arrays.items():
        if not manifest.array_name(name):
            raise ModelError(f"No array of a model may be called {name!r}.")
        if not isinstance(array, np.ndarray) or array.dtype.newbyteorder("<").str not in DTYPES:
            got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise ModelError(
                f"Array {name!r} of a model must hold ints of 8 to 64 bits or floats of 16 to 64 bits. "
                f"Got {got} instead."
            )
    for name, source in state.files.items():
        if not foreign_name(name):
            raise ModelError(
                f"No file of a model may be called {name!r}: it takes one or two folders and a name of letters, "
                "digits, and dots and hyphens between them, like 'encoder/config.json'."
            )
        check_source(name, source)
    if clashing(state.files):
        raise ModelError("Two files of a model have the same name, capitals apart, or one the name of a folder.")
    for name, part in state.parts.items():
        if not manifest.part_name(name):
            raise ModelError(f"No part of a model may be called {name!r}.")
        _check_state(part, path)


def check_target(folder: str | os.PathLike[str]) -> None:
    """Refuse what :func:`save` would refuse of ``folder``, before the work of making a model is begun."""
    path = Path(os.path.realpath(folder_path(folder)))
    try:
        _check_target(path, str(folder))
        nearest = next(place for place in (path, *path.parents) if place.exists())
        writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except OSError as error:
        raise ModelError(_unsaved(str(folder), error)) from error
    if not writable:
        why = "may not be written" if nearest.is_dir() else "is a file, not a folder"
        raise ModelError(f"No model can be saved to {str(folder)!r}: {str(nearest)!r} {why}.")


def _check_target(path: Path, shown: str) -> None:
    """Only nothing, an empty folder or a Sylvan model is replaced."""
    if not path.exists():
        return
    if not path.is_dir():
        raise ModelError(f"The model was not saved: {shown!r} is a file, not a folder.")
    result = path / manifest.NAME
    if result.is_file():
        with result.open("rb") as file:
            start = file.read(4096)
        # A damaged or newer Sylvan model may be replaced too, so the manifest is recognised but not parsed.
        if re.search(rb'"format"\s*:\s*"' + manifest.FORMAT.encode() + rb'"', start):
            return
    elif all(_ours(entry) for entry in path.iterdir()):
        return
    raise ModelError(
        f"The model was not saved: {shown!r} is not empty and is not a Sylvan model. "
        "Choose another folder, or empty this one."
    )


def _ours(entry: Path) -> bool:
    """Whether saving made this, by its name."""
    if entry.is_dir() and not entry.is_symlink():
        return is_folder_of_files(entry.name)
    return entry.name == LOCK or any(pattern.fullmatch(entry.name) for pattern in (_OURS, EARLIER))


def _write_into(
    path: Path, plan: _Plan, model: dict[str, JSON], token: str, version: str, keep: int = 0
) -> None:  # fmt: skip
    """Write files and manifest beside what is there; the rename of the manifest is the last step."""
    waiting = path / f"{manifest.NAME}.{token}"
    try:
        for file, (array, entry) in plan.files.items():
            entry["bytes"], entry["checksum"] = _write_array(path / file, array)
        for place, (source, entry) in plan.foreign.items():
            with _naming(path / place):
                entry["bytes"], entry["checksum"] = write_file(path / place, source)
        for place in folders_above(plan.foreign):
            _sync_folder(path / place)
        keep_current(path, keep)
        put_manifest(waiting, model, version)
    except BaseException:
        if not _committed(path, token):  # a Ctrl-C can arrive just after the rename
            for name in [*plan.files, waiting.name]:
                with contextlib.suppress(OSError):
                    os.unlink(path / name)
            for name in plan.folders:
                remove_folder(path / name)
        raise
    with contextlib.suppress(OSError):  # the new model is in place, and either is whole
        _sync_folder(path)


def put_manifest(waiting: Path, model: dict[str, JSON], version: str) -> None:
    """Write a manifest under the name ``waiting``, then rename it over the one in its folder."""
    with _naming(waiting):
        data = _dump(model, version)
        with waiting.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        _sync_folder(waiting.parent)
        os.replace(waiting, waiting.parent / manifest.NAME)


def _committed(path: Path, token: str) -> bool:
    """Whether the manifest in place is the one of this save."""
    try:
        return token.encode() in (path / manifest.NAME).read_bytes()
    except OSError:
        return False


def _dump(model: dict[str, JSON], version: str) -> bytes:
    try:
        data = manifest.dump(model, version)
        manifest.parse(data, manifest.NAME, version)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"The model was not saved: its manifest cannot be written ({error}).") from error
    return data


def _write_new(path: Path, plan: _Plan, model: dict[str, JSON], token: str, version: str) -> bool:
    """A folder of its own, written under a hidden name and renamed when it is whole. False, and nothing written, when
    another process has made the folder in the meantime."""
    beside = path.with_name(f".{path.name}.{token}.saving")
    beside.mkdir()
    try:
        with locked(beside):
            _write_into(beside, plan, model, token, version)
            os.rename(beside, path)
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST) and path.is_dir():
            return False
        raise
    with contextlib.suppress(OSError):
        _sync_folder(path.parent)
    return True


def _write_array(path: Path, array: npt.NDArray[np.generic]) -> tuple[int, str]:
    """Write and sync one file; its size and checksum."""
    dtype = array.dtype.newbyteorder("<")
    data = np.ascontiguousarray(array, dtype=dtype).reshape(-1).view(np.uint8).data
    start = header(dtype, array.shape)
    checksum = zlib.crc32(start)
    with _naming(path), path.open("xb") as stream:
        stream.write(start)
        for first in range(0, data.nbytes, _CHUNK):
            chunk = data[first : first + _CHUNK]
            stream.write(chunk)
            checksum = zlib.crc32(chunk, checksum)
        stream.flush()
        os.fsync(stream.fileno())
    return len(start) + data.nbytes, f"crc32:{checksum:08x}"


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Give an OSError the name of the file it is about; a failed write doesn't know it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _sync_folder(path: Path) -> None:
    """Make the names in a folder as durable as the files; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_unnamed(path: Path, current: set[str], keep: int) -> None:
    """Remove the replaced model's files and those of killed saves; the caller holds the folder's lock."""
    with contextlib.suppress(OSError):
        names = current | drop_earlier(path, keep)
        for name in os.listdir(path):
            if _OURS.fullmatch(name) and name not in names:
                # On Windows a file that is mapped stays until the next save.
                with contextlib.suppress(OSError):
                    os.unlink(path / name)
            elif is_folder_of_files(name) and name not in names:
                remove_folder(path / name)


def _remove_abandoned(path: Path) -> None:
    """Remove hidden folders that killed first saves of this model left beside it."""
    pattern = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{8}\.saving")
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            result = path.parent / name
            if pattern.fullmatch(name) and stat.S_ISDIR(os.lstat(result).st_mode) and _abandoned(result):
                shutil.rmtree(result, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    """Whether nobody writes the folder: its writer's lock is gone or, without locks, it is a day old."""
    age = time.time() - os.stat(folder).st_mtime
    if age < _FRESH_SECONDS:  # its writer may be just about to lock it
        return False
    try:
        import fcntl
    except ImportError:
        return age > _STALE_SECONDS
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One writer at a time; the lock is the system's and dies with the process that holds it."""
    try:
        import fcntl
    except ImportError:
        # Windows: two processes that save to one folder at the same moment are not told apart.
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
