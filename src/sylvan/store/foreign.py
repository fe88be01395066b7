"""Foreign files of a model: what other libraries wrote and will open again by its name, like an encoder's weights. A
file is called by folders and its own name, ``encoder/config.json`` or ``encoder/1_Pooling/config.json``, and lies in a
folder that no earlier save used, ``encoder.5f3a09c1.files/config.json``: whoever is given that folder finds the names
that it knows in it, and what :mod:`sylvan.store.write` says of arrays holds for files too."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from sylvan.errors import ModelError

_CHUNK = 1 << 20
_TOP = re.compile(r"[A-Za-z0-9_]+")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.+-]*[A-Za-z0-9_])?")
_FOLDER = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*\.[0-9a-f]{8}\.files")
_MOST_LEVELS = 3


@dataclass(frozen=True)
class FileEntry:
    """One foreign file, as the manifest describes it."""

    file: str
    size: int
    checksum: str


def foreign_name(name: object) -> bool:
    """Whether a foreign file may be called this: one or two folders and a name, none of which leads out."""
    if not isinstance(name, str):
        return False
    top, *rest = name.split("/")
    return (
        _TOP.fullmatch(top) is not None
        and 1 <= len(rest) < _MOST_LEVELS
        and all(len(step) <= 100 for step in (top, *rest))
        and all(_NAME.fullmatch(step) is not None for step in rest)
    )


def place_of(name: str, prefix: str, token: str) -> str:
    """Where a save writes the file, seen from the model's folder."""
    top, _, rest = name.partition("/")
    return f"{prefix}{top}.{token}.files/{rest}"


def file_place(place: str, name: str) -> bool:
    """Whether a file of this name may lie there: in a folder of files, under its own name."""
    return is_folder_of_files(folder_of_files(place)) and place.partition("/")[2] == name.partition("/")[2]


def folder_of_files(place: str) -> str:
    """The folder within the model's in which a file lies, its own sub-folders apart."""
    return place.partition("/")[0]


def is_folder_of_files(name: str) -> bool:
    """Whether a folder is called as those that saving makes."""
    return len(name) <= 240 and _FOLDER.fullmatch(name) is not None


def clashing(places: Iterable[str]) -> bool:
    """Whether two files have one place, or one lies where another's folder is, capitals apart."""
    lowered = [place.lower() for place in places]
    return len(set(lowered)) != len(lowered) or bool(set(lowered) & set(folders_above(lowered)))


def folders_above(places: Iterable[str]) -> list[str]:
    """Every folder between the model's and its files, sorted."""
    inner = (PurePosixPath(place) for place in places if "/" in place)
    return sorted({str(parent) for place in inner for parent in place.parents} - {"."})


def check_source(name: str, source: object) -> None:
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


def write_file(path: Path, source: bytes | str | os.PathLike[str]) -> tuple[int, str]:
    """Write and sync one file, and the names of the folders that it needs; its size and checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    size = checksum = 0
    with path.open("xb") as stream:
        for chunk in _chunks(source):
            stream.write(chunk)
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
        stream.flush()
        os.fsync(stream.fileno())
    return size, f"crc32:{checksum:08x}"


def _chunks(source: bytes | str | os.PathLike[str]) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with open(source, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def check_file(stream: BinaryIO, path: str, entry: FileEntry, checked: bool) -> None:
    """Compare an open file with the manifest: its size, and its checksum when ``checked``."""
    size = os.fstat(stream.fileno()).st_size
    if size != entry.size:
        state = "truncated" if size < entry.size else "altered"
        raise ModelError(f"{path!r} is {state}: it has {size:,} bytes, where the manifest says {entry.size:,}.")
    if not checked:
        return
    checksum = 0
    while chunk := stream.read(_CHUNK):
        checksum = zlib.crc32(chunk, checksum)
    if f"crc32:{checksum:08x}" != entry.checksum:
        raise ModelError(f"{path!r} was altered or damaged: its checksum is not the one in the manifest.")


def remove_folder(path: Path) -> None:
    """Remove a folder of files as far as it goes; what is a link stays."""
    with contextlib.suppress(OSError):
        if not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def strangers(folder: str, known: Mapping[str, object]) -> list[str]:
    """Files below ``folder`` that aren't among ``known``, names seen from it; hidden ones don't count."""
    results = []
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inner = os.path.relpath(above, folder)
        for name in files:
            relative = name if inner == "." else f"{inner}/{name}".replace(os.sep, "/")
            if relative not in known and not name.startswith("."):
                results.append(relative)
    return sorted(results)
