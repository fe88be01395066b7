"""Earlier versions of a model in its folder, and one update at a time. An earlier version is its manifest under another
name, ``earlier.000001.json``, with the files that it names: saving never writes into a file that is there. Going back
is one rename."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from sylvan.errors import ModelError
from sylvan.store import manifest
from sylvan.version import __version__

try:
    import fcntl as fcntl  # write.py locks by it too
except ImportError:  # on Windows, two processes that save to one folder at the same moment are not told apart
    fcntl = None  # type: ignore[assignment]

EARLIER = re.compile(r"earlier\.[0-9]{6}\.json")
LOCK = "updating.lock"


def earlier(path: Path) -> list[Path]:
    """The manifests of a folder's earlier versions, the latest first, that aren't the current one's."""
    now = _bytes(path / manifest.NAME)
    names = sorted((name for name in os.listdir(path) if EARLIER.fullmatch(name)), reverse=True)
    return [path / name for name in names if _bytes(path / name) not in (now, b"")]


def keep_current(path: Path, keep: int) -> None:
    """Give the current manifest a second name, under which it stays when another takes its place. Whoever is
    interrupted here leaves a name more, of what is still current, which counts as no earlier version."""
    current = path / manifest.NAME
    names = [name for name in os.listdir(path) if EARLIER.fullmatch(name)]
    if keep and current.exists() and all(_bytes(path / name) != _bytes(current) for name in names):
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
