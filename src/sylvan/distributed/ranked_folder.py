"""A folder of rankings that says what made them, so that the next call ranks what is missing and nothing else."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sylvan.data.streams import open_write
from sylvan.errors import DataError

RECORD = "_ranking.log"  # JSON lines: what made the rankings, then a line for each file that is whole
_FORMAT = "sylvan-ranking"
_ELSE = "give another folder, or delete what is in this one"
_PIECE = 1 << 20


def checksum_of(path: str | os.PathLike[str]) -> str:
    """Of the bytes of a file."""
    result = 0
    with open(path, "rb") as stream:
        while piece := stream.read(_PIECE):
            result = zlib.crc32(piece, result)
    return f"crc32:{result:08x}"


class RankedFolder:
    """A folder of rankings."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)  # made when it is missing
        self._made_by: dict[str, Any] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._planned: set[str] = set()  # names that are this folder's to write
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"The folder {folder!r} can't be made ({error.strerror or error}).") from error
        if not os.access(folder, os.W_OK):
            raise DataError(f"Nothing may be written to {folder!r}.")

    @property
    def record(self) -> Path:
        """The file that says what made the rankings."""
        return self.folder / RECORD

    def open(self, made_by: Mapping[str, Any]) -> None:
        """Read what the folder says of itself; nobody else may write there from now on."""
        self._made_by = json.loads(json.dumps(made_by))
        try:
            lines = self.record.read_bytes().decode().split("\n") if self.record.exists() else []
            if not lines:
                return
            head, *entries = [json.loads(line) for line in lines[:-1]]  # the last is empty, or was cut off
            if head["format"] != _FORMAT:
                raise ValueError
            before, self._planned = dict(head["made_by"]), set(head["files"])
            self._entries = {one["name"]: one for one in entries if one["made_of"]["path"] and one["rows"] >= 0}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{str(self.record)!r} is damaged: {_ELSE}.") from error
        for what in {**self._made_by, **before}:
            old, new = before.get(what), self._made_by.get(what)
            if old != new:
                raise DataError(f"{str(self.folder)!r} holds rankings {_differs(what, old, new)}: {_ELSE}.")

    def finished(self, name: str, made_of: Mapping[str, Any]) -> bool:
        """Whether a ranking is there, whole, and made of this."""
        path, entry = self.folder / name, self._entries.get(name)
        if not path.exists():
            self._entries.pop(name, None)
            return False
        if entry is None:
            if name not in self._planned:
                raise DataError(f"{str(path)!r} was not written by this ranking: {_ELSE}.")
            return False
        before, now = entry["made_of"], json.loads(json.dumps(made_of))
        if before != now:
            if before["path"] != now["path"]:
                raise DataError(f"{str(path)!r} is the ranking of {before['path']}, not of {now['path']}: {_ELSE}.")
            if {**before, "fields": now.get("fields")} == {"fields": None, **now}:
                raise DataError(
                    f"{now['path']} was ranked into {str(path)!r} with other fields (--output-fields): {_ELSE}."
                )
            how = "changed since" if before.get("stamp") != now["stamp"] else "read in another way when"
            raise DataError(f"{now['path']} was {how} it was ranked into {str(path)!r}: {_ELSE}.")
        try:
            whole = bool(path.stat().st_size == entry["bytes"]) and checksum_of(path) == entry["checksum"]
        except OSError:
            whole = False
        if not whole:
            del self._entries[name]
        return whole

    def begin(self, names: Iterable[str]) -> None:
        """Say what will be written; what is there already stays said."""
        self._planned.update(names)
        head = {"format": _FORMAT, "version": 1, "made_by": self._made_by, "files": sorted(self._planned)}
        with open_write(self.record) as stream:
            for line in (head, *self._entries.values()):
                stream.write((json.dumps(line) + "\n").encode())

    def add(self, name: str, entry: Mapping[str, Any]) -> None:
        """Say that a file is whole."""
        self._entries[name] = {"name": name, **entry}
        with open(self.record, "ab") as stream:
            stream.write((json.dumps(self._entries[name]) + "\n").encode())

    def total(self, what: str, names: Iterable[str]) -> int:
        """The sum of a count, of "rows" say, of files that are whole."""
        return sum(int(self._entries[name].get(what, 0)) for name in names)


def _differs(what: str, before: Any, now: Any) -> str:
    if what == "model":
        return "by another model"
    if what in ("allowed", "denied"):
        return f"with another list of {what} labels"
    if what == "subjects":
        return "with other labels for URIs"
    old, new = (f"{what} as saved" if value is None else f"{what}={value}" for value in (before, now))
    return f"made with {old}, not with {new}"
