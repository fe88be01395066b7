"""Saving: whatever happens on the way, the folder holds the old model or the new one, never half of either. The arrays
are written under names that no earlier save used (``layer0.keys.5f3a09c1.npy``) and synced to the disk; then the new
``manifest.json``, written beside the old one, is renamed over it: the one moment at which the new model replaces the
old. Files that the manifest doesn't name are then removed; processes that have the old model memory-mapped keep their
pages. A folder that doesn't exist yet is written beside under a hidden name and renamed as a whole. Checksums are
CRC-32: they are there to find accidents, not adversaries (what a kernel trusts is verified apart). An earlier version
of a model is its manifest under another name, ``earlier.000001.json``, with the files that it names: saving never
writes into a file that is there. Going back is one rename."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sylvan.errors import ModelError
from sylvan.store import manifest
from sylvan.store.npy import DTYPES, header
from sylvan.store.read import build, contents, read_manifest
from sylvan.store.state import JSON, State, folder_path
from sylvan.version import __version__

try:
    import fcntl
except ImportError:  # on Windows, two processes that save to one folder at the same moment are not told apart
    fcntl = None  # type: ignore[assignment]
EARLIER = re.compile(r"earlier\.[0-9]{6}\.json")
LOCK = "updating.lock"


def earlier(path: Path) -> list[Path]:
    """The manifests of a folder's earlier versions, the latest first, that aren't the current one's."""
    current = _bytes(path / manifest.NAME)
    names = sorted((name for name in os.listdir(path) if EARLIER.fullmatch(name)), reverse=True)
    return [path / name for name in names if _bytes(path / name) not in (current, b"")]


def keep_current(path: Path, keep: int) -> None:
    """Give the current manifest a second name, under which it stays when another takes its place. Whoever is
    interrupted here leaves a name more, of what is still current, which counts as no earlier version."""
    current = path / manifest.NAME
    if not keep or not current.exists():
        return
    names = [name for name in os.listdir(path) if EARLIER.fullmatch(name)]
    if all(_bytes(path / name) != _bytes(current) for name in names):
        new = path / f"earlier.{max((int(name[8:14]) for name in names), default=0) + 1:06}.json"
        try:
            os.link(current, new)
        except OSError:  # some file systems have no second names
            waiting = path / f"{manifest.NAME}.{secrets.token_hex(4)}"  # as saving calls what it may remove
            waiting.write_bytes(current.read_bytes())
            os.replace(waiting, new)


def drop_earlier(path: Path, keep: int) -> set[str]:
    """Remove the manifests of all but the ``keep`` latest earlier versions; the files and folders that these name."""
    versions = earlier(path)[:keep]
    for name in os.listdir(path):
        if EARLIER.fullmatch(name) and path / name not in versions:
            with contextlib.suppress(OSError):
                os.unlink(path / name)
    names: set[str] = set()
    for version in versions:
        with contextlib.suppress(ModelError):  # a damaged one keeps nothing
            names |= named_files(manifest.parse(_bytes(version), str(version), __version__))
    return names


def named_files(root: manifest.Node) -> set[str]:
    """The files of a manifest's arrays, and the folders of its other files."""
    return {manifest.folder_of_files(entry.file) for entry in root.entries()}


@contextlib.contextmanager
def updating(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Nobody else updates the model in ``folder`` while this lasts; the lock dies with the process that holds it."""
    name = os.path.join(os.path.realpath(folder), LOCK)
    if fcntl is None:
        yield
        return
    while True:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process = os.read(descriptor, 20).decode("ascii", "replace").strip() or "another"
            os.close(descriptor)
            words = f"is being updated by process {process}: wait until it is done. Nothing was changed."
            raise ModelError(f"{os.fspath(folder)!r} {words}") from None
        except OSError:  # some network file systems have no locks
            break
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(name)):
                break
        os.close(descriptor)  # whoever held it has removed it since it was opened
    try:
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
        os.close(descriptor)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


_CHUNK, _FOREIGN_CHUNK = 16 << 20, 1 << 20  # bytes that are written at once
_OURS = re.compile(r"[A-Za-z0-9_.]+\.[0-9a-f]{8}\.npy|manifest\.json\.[0-9a-f]{8}")
_STALE_SECONDS = 24 * 3600.0
_FRESH_SECONDS = 10.0


def save(folder: str | os.PathLike[str], state: State, *, keep: int = 0) -> None:
    """Write a model to ``folder``, replacing a Sylvan model that is already there."""

    path = Path(os.path.realpath(folder_path(folder)))
    _check_state(state)
    plan = _Plan(state, secrets.token_hex(4))
    try:
        _check_target(path, str(folder))
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(path)
            if _write_new(path, plan):
                return
            _check_target(path, str(folder))
        with locked(path):
            _write_into(path, plan, keep)
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
            try:
                build(node, str(path), mmap=True, checked=True)
            except ModelError as error:
                words = f"The earlier version of the model in {str(folder)!r} can't be brought back"
                raise ModelError(f"{words}, and the model stays as it is: {error}") from error
            os.replace(versions[0], path / manifest.NAME)
            _sync_folder(path)
            _remove_unnamed(path, named_files(node), keep)
            return len(earlier(path))
    except OSError as error:
        reason = error.strerror or error
        raise ModelError(f"The model in {str(folder)!r} could not be brought back: {reason}.") from error


def saved_bytes(state: State) -> int:
    """The size of the folder that :func:`save` would write, to the byte."""
    plan, total = _Plan(state, "0" * 8), 0
    for source, entry in plan.files.values():
        if isinstance(source, np.ndarray):
            size = len(header(source.dtype.newbyteorder("<"), source.shape)) + source.nbytes
        else:
            size = len(source) if isinstance(source, bytes) else os.path.getsize(source)
        entry["bytes"], entry["checksum"] = size, f"crc32:{0:08x}"
        total += size
    return total + len(manifest.dump(plan.model, __version__))


def _unsaved(folder: str, error: OSError | MemoryError) -> str:
    reason = getattr(error, "strerror", None) or str(error) or "out of memory"
    name = getattr(error, "filename", None)
    where = f", at {os.path.basename(name)!r}" if isinstance(name, str) else ""
    return f"The model could not be saved to {folder!r}: {reason}{where}. What was there before is unchanged."


class _Plan:
    """Which array or foreign file goes to which place; sizes and checksums are filled in as the files are written."""

    def __init__(self, state: State, token: str) -> None:
        self.token = token
        self.files: dict[str, tuple[Any, dict[str, JSON]]] = {}  # by place: the source, and its entry in the manifest
        self.model = self._describe(state, "")

    @property
    def folders(self) -> set[str]:
        """The folders of foreign files."""
        return {manifest.folder_of_files(place) for place in self.files if "/" in place}

    def _describe(self, state: State, prefix: str) -> dict[str, JSON]:
        arrays: dict[str, JSON] = {}
        for name, array in state.arrays.items():
            place, dtype = f"{prefix}{name}.{self.token}.npy", array.dtype.newbyteorder("<")
            arrays[name] = {"file": place, "dtype": dtype.str, "shape": list(array.shape)}
            self.files[place] = (array, arrays[name])
        files: dict[str, JSON] = {}
        for name, source in state.files.items():
            files[name] = {"file": manifest.place_of(name, prefix, self.token)}
            self.files[files[name]["file"]] = (source, files[name])
        return {
            "kind": state.kind, "version": state.version, "params": _plain(state.params), "meta": _plain(state.meta),
            "arrays": arrays,
            "parts": {name: self._describe(part, f"{prefix}{name}.") for name, part in state.parts.items()},
            **({"files": files} if files else {}),
        }  # fmt: skip


def _plain(value: JSON) -> JSON:
    """NumPy's numbers and tuples as the Python values that JSON has words for."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value


def _check_state(state: State) -> None:
    """Refuse at saving what would be refused at loading; such a State is a model's bug, not a user's."""
    for name, array in state.arrays.items():
        if not manifest.array_name(name):
            raise ModelError(f"No array of a model may be called {name!r}.")
        dtype = array.dtype if isinstance(array, np.ndarray) else None
        if dtype is None or dtype.newbyteorder("<").str not in DTYPES:
            wanted, got = "ints of 8 to 64 bits or floats of 16 to 64 bits", dtype or type(array).__name__
            raise ModelError(f"Array {name!r} of a model must hold {wanted}. Got {got} instead.")
    for name, source in state.files.items():
        if not manifest.foreign_name(name):
            raise ModelError(
                f"No file of a model may be called {name!r}: it takes one or two folders and a name of letters, "
                "digits, and dots and hyphens between them, like 'encoder/config.json'."
            )
        _check_source(name, source)
    if manifest.clashing(state.files):
        raise ModelError("Two files of a model have the same name, capitals apart, or one the name of a folder.")
    for name, part in state.parts.items():
        if not manifest.part_name(name):
            raise ModelError(f"No part of a model may be called {name!r}.")
        _check_state(part)


def _check_source(name: str, source: object) -> None:
    """Refuse what can't be written as a file."""
    if isinstance(source, bytes):
        return
    if not isinstance(source, (str, os.PathLike)):
        raise ModelError(f"File {name!r} of a model must be bytes or a path. Got {type(source).__name__} instead.")
    path = os.fsdecode(source)
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"File {name!r} of a model was to be copied from {path!r}: {reason}.") from error
    if not regular:
        raise ModelError(f"File {name!r} of a model was to be copied from {path!r}, which is not a file.")


def check_target(folder: str | os.PathLike[str]) -> None:
    """Refuse what :func:`save` would refuse of ``folder``, before the work of making a model is begun."""
    path = Path(os.path.realpath(folder_path(folder)))
    try:
        _check_target(path, str(folder))
        why = unwritable(path)
    except OSError as error:
        raise ModelError(_unsaved(str(folder), error)) from error
    if why:
        raise ModelError(f"No model can be saved to {str(folder)!r}: {why}.")


def unwritable(path: Path) -> str:
    """Why no folder can be made at ``path``, as the end of a sentence; empty where one can."""
    nearest = next(place for place in (path, *path.parents) if place.exists())
    if not nearest.is_dir():
        return f"{str(nearest)!r} is a file, not a folder"
    return "" if os.access(nearest, os.W_OK | os.X_OK) else f"{str(nearest)!r} may not be written"


def _check_target(path: Path, name: str) -> None:
    """Only nothing, an empty folder or a Sylvan model is replaced."""
    if path.is_symlink():  # although all links were followed
        raise ModelError(f"The model was not saved: {name!r} is a link that leads to itself.")
    if not path.exists():
        return
    if not path.is_dir():
        raise ModelError(f"The model was not saved: {name!r} is a file, not a folder.")
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
        f"The model was not saved: {name!r} is not empty and is not a Sylvan model. "
        "Choose another folder, or empty this one."
    )


def _ours(entry: Path) -> bool:
    """Whether saving made this, by its name."""
    if entry.is_dir() and not entry.is_symlink():
        return manifest.is_folder_of_files(entry.name)
    return entry.name == LOCK or any(pattern.fullmatch(entry.name) for pattern in (_OURS, EARLIER))


def _write_into(path: Path, plan: _Plan, keep: int = 0) -> None:
    """Write files and manifest beside what is there; the rename of the manifest is the last step."""
    waiting = path / f"{manifest.NAME}.{plan.token}"
    try:
        for place, (source, entry) in plan.files.items():
            entry["bytes"], entry["checksum"] = _write_file(path / place, _chunks(source))
        for folder in manifest.folders_above(plan.files):
            _sync_folder(path / folder)
        keep_current(path, keep)
        _put_manifest(waiting, plan.model, __version__)
    except BaseException:
        if plan.token.encode() not in _bytes(path / manifest.NAME):  # a Ctrl-C can arrive just after the rename
            for name in [*plan.files, waiting.name]:
                with contextlib.suppress(OSError):
                    os.unlink(path / name)
            for name in plan.folders:
                _remove_folder(path / name)
        raise
    with contextlib.suppress(OSError):  # the new model is in place, and either is whole
        _sync_folder(path)


def _put_manifest(waiting: Path, model: dict[str, JSON], version: str) -> None:
    """Write a manifest under the name ``waiting``, then rename it over the one in its folder."""
    try:
        data = manifest.dump(model, version)
        manifest.parse(data, manifest.NAME, version)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"The model was not saved: its manifest cannot be written ({error}).") from error
    _write_file(waiting, [data])
    with _naming(waiting):
        _sync_folder(waiting.parent)
        os.replace(waiting, waiting.parent / manifest.NAME)


def _write_new(path: Path, plan: _Plan) -> bool:
    """A folder of its own, written under a hidden name and renamed when it is whole. False, and nothing written, when
    another process has made the folder in the meantime."""
    beside = path.with_name(f".{path.name}.{plan.token}.saving")
    beside.mkdir()
    try:
        with locked(beside):
            _write_into(beside, plan)
            os.rename(beside, path)
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST) and path.is_dir():
            return False
        raise
    with contextlib.suppress(OSError):
        _sync_folder(path.parent)
    return True


def _chunks(source: Any) -> Iterator[bytes | memoryview]:
    """The bytes of an array's file, or of a foreign one."""
    if isinstance(source, np.ndarray):
        dtype = source.dtype.newbyteorder("<")
        data = np.ascontiguousarray(source, dtype=dtype).reshape(-1).view(np.uint8).data
        yield header(dtype, source.shape)
        yield from (data[first : first + _CHUNK] for first in range(0, data.nbytes, _CHUNK))
    elif isinstance(source, bytes):
        yield source
    else:
        with open(source, "rb") as stream:
            while chunk := stream.read(_FOREIGN_CHUNK):
                yield chunk


def _write_file(path: Path, chunks: Iterable[bytes | memoryview]) -> tuple[int, str]:
    """Write and sync one file, and the folders that it needs; its size and checksum."""
    size = checksum = 0
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            for chunk in chunks:
                stream.write(chunk)
                size += len(chunk)
                checksum = zlib.crc32(chunk, checksum)
            stream.flush()
            os.fsync(stream.fileno())
    return size, f"crc32:{checksum:08x}"


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
        for name in set(os.listdir(path)) - names:
            if _OURS.fullmatch(name):
                # On Windows a file that is mapped stays until the next save.
                with contextlib.suppress(OSError):
                    os.unlink(path / name)
            elif manifest.is_folder_of_files(name):
                _remove_folder(path / name)


def _remove_folder(path: Path) -> None:
    """Remove a folder of files as far as it goes; what is a link stays."""
    with contextlib.suppress(OSError):
        if not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


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
    if fcntl is None:
        return age > _STALE_SECONDS
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One writer at a time; the lock is the system's and dies with the process that holds it."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def annotate(folder: str | os.PathLike[str], notes: dict[str, JSON]) -> None:
    """Put ``notes`` into the ``meta`` of the model in ``folder``, in one step; its arrays stay as they are. The next
    model that is saved there starts without them."""
    path = Path(os.path.realpath(folder_path(folder)))
    waiting = path / f"{manifest.NAME}.{secrets.token_hex(4)}"
    read_manifest(str(path))  # says that there is no model, where there is none to lock
    try:
        with locked(path):
            result = contents(path)
            result["model"]["meta"] = {**result["model"]["meta"], **notes}
            _put_manifest(waiting, result["model"], str(result["sylvan_version"]))
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(waiting)
        if not isinstance(error, OSError):
            raise
        reason = error.strerror or error
        raise ModelError(f"The model in {str(folder)!r} could not be annotated: {reason}. It is unchanged.") from error
