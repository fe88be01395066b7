"""`manifest.json`: written in one form, read strictly."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sylvan.errors import ModelError
from sylvan.store.foreign import FileEntry, clashing, file_place, folder_of_files, foreign_name
from sylvan.store.npy import DTYPES
from sylvan.store.state import JSON

FORMAT = "sylvan-model"
FORMAT_VERSION = 2  # the newest that is read; 2 has foreign files, and is written only where there are some
NAME = "manifest.json"
MAX_BYTES = 64 << 20
_MAX_DEPTH = 32
_MAX_DIGITS = 20
_KIND = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_ARRAY = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
_PART = re.compile(r"[A-Za-z0-9_]+")
_FILE = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*\.npy")
_CHECKSUM = re.compile(r"crc32:[0-9a-f]{8}")
_RELEASE = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})[0-9A-Za-z.+-]{0,40}")


@dataclass(frozen=True)
class Entry:
    """One array's file, as the manifest describes it."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    checksum: str


@dataclass(frozen=True)
class Node:
    """One model of the manifest: itself, its arrays and its parts."""

    kind: str
    version: int
    params: dict[str, JSON]
    meta: dict[str, JSON]
    arrays: dict[str, Entry]
    parts: dict[str, Node]
    files: dict[str, FileEntry] = field(default_factory=dict)

    def nodes(self) -> Iterator[Node]:
        """This model and all its parts."""
        yield self
        for part in self.parts.values():
            yield from part.nodes()


def array_name(name: str) -> bool:
    """Whether an array may be called this."""
    return len(name) <= 100 and _ARRAY.fullmatch(name) is not None


def part_name(name: str) -> bool:
    """Whether a part may be called this."""
    return len(name) <= 100 and _PART.fullmatch(name) is not None


def file_name(name: str) -> bool:
    """Whether this is a plain file name in the folder, with no way out of it."""
    return len(name) <= 240 and _FILE.fullmatch(name) is not None


def dump(model: dict[str, JSON], sylvan_version: str) -> bytes:
    """The manifest's bytes, its own checksum included."""
    contents = {
        "format": FORMAT,
        "format_version": 2 if _has_files(model) else 1,
        "sylvan_version": sylvan_version,
        "model": model,
    }
    contents["checksum"] = checksum_of(contents)
    return (json.dumps(contents, indent=1, allow_nan=False, ensure_ascii=True) + "\n").encode("ascii")


def _has_files(model: dict[str, JSON]) -> bool:
    return bool(model.get("files")) or any(_has_files(part) for part in model.get("parts", {}).values())


def checksum_of(contents: dict[str, Any]) -> str:
    """Checksum of everything in the manifest but the checksum, whatever the spaces between."""
    rest = {key: value for key, value in contents.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return f"crc32:{zlib.crc32(text.encode('ascii')):08x}"


def parse(data: bytes, path: str, sylvan_version: str) -> Node:
    """The model that a manifest describes, every field checked."""
    contents = _decode(data, path)
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise ModelError(f"{path!r} is not the manifest of a Sylvan model: its 'format' is not {FORMAT!r}.")
    version = contents.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelError(f"{path!r} is damaged: its 'format_version' is {_short(version)}, not an int from 1.")
    if version > FORMAT_VERSION:
        raise ModelError(_newer(path, version, contents.get("sylvan_version"), sylvan_version))
    if contents.get("checksum") != checksum_of(contents):
        raise ModelError(f"{path!r} was altered after it was written: its 'checksum' does not match its contents.")
    node = _node(contents.get("model"), path, "model", 0)
    _check_places(node, path, version)
    return node


def _check_places(node: Node, path: str, version: int) -> None:
    """No two files in one place, capitals apart; the files of a folder of one model together."""
    nodes = list(node.nodes())
    places = [entry.file for each in nodes for entry in each.arrays.values()]
    places += [entry.file for each in nodes for entry in each.files.values()]
    if clashing(places):
        raise ModelError(f"{path!r} is damaged: two of its arrays or files name the same file.")
    if version < 2 and any(each.files for each in nodes):
        raise ModelError(f"{path!r} is damaged: manifests of format 1 hold no 'files'.")
    owners = [{(name.partition("/")[0], folder_of_files(e.file)) for name, e in each.files.items()} for each in nodes]
    folders = [folder.lower() for each in owners for _, folder in each]
    if len(set(folders)) != len(folders) or any(len({top for top, _ in each}) != len(each) for each in owners):
        raise ModelError(f"{path!r} is damaged: the files of a folder are not together in one of their own.")


def _newer(path: str, version: int, writer: object, sylvan_version: str) -> str:
    release = _RELEASE.fullmatch(writer) if isinstance(writer, str) else None
    by = f" by Sylvan {writer}" if release else ""
    remedy = f"Install Sylvan {release[1]}.{release[2]} or later" if release else "Install a later Sylvan"
    return (
        f"{path!r} was written{by} in format {version}, but this is Sylvan {sylvan_version}, which reads "
        f"format {FORMAT_VERSION}. {remedy} to load it."
    )


def _decode(data: bytes, path: str) -> Any:
    """JSON with no room for interpretation: no repeated keys, NaN, huge numbers or bottomless nesting."""
    if len(data) > MAX_BYTES:
        raise ModelError(f"{path!r} is not a Sylvan manifest: it holds more than {MAX_BYTES >> 20} MiB.")
    try:
        contents = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_int=_small_int,
            parse_float=_finite_float,
        )
        _check_depth(contents)
        _check_escapes(data, contents)
    except RecursionError:
        raise ModelError(f"{path!r} is not a Sylvan manifest: it is nested too deeply.") from None
    except ValueError as error:
        raise ModelError(f"{path!r} is not a Sylvan manifest: {_reason(error)}.") from None
    return contents


def _reason(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 text at byte {error.start}"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON at line {error.lineno} ({error.msg[:60]})"
    return str(error)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key appears twice in it")
    return result


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"it holds {text}")


def _small_int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"it holds an int of {len(text)} digits")
    return int(text)


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("it holds a number beyond the range of floats")
    return value


def _check_depth(contents: Any) -> None:
    level = [contents]
    for _ in range(_MAX_DEPTH + 1):
        containers = [value for value in level if isinstance(value, dict | list)]
        if not containers:
            return
        level = [inner for each in containers for inner in (each.values() if isinstance(each, dict) else each)]
    raise ValueError("it is nested too deeply")


def _check_escapes(data: bytes, contents: Any) -> None:
    """A lone surrogate, which only an escape can write, would fail later, wherever the text is first written out."""
    if b"\\u" in data:
        try:
            json.dumps(contents, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("it holds half of a surrogate pair") from None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _field(fields: dict[str, Any], key: str, wanted: type, path: str, where: str) -> Any:
    value = fields.get(key)
    if key not in fields or not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        got = _short(value) if key in fields else "nothing"
        raise ModelError(f"{path!r} is damaged: {where}.{key} must be {_WORDS[wanted]}. Got {got} instead.")
    return value


_WORDS = {int: "an int", str: "a string", list: "a list", dict: "an object"}


def _node(value: Any, path: str, where: str, depth: int) -> Node:
    if not isinstance(value, dict):
        raise ModelError(f"{path!r} is damaged: {where} must be an object. Got {_short(value)} instead.")
    kind = _field(value, "kind", str, path, where)
    if not _KIND.fullmatch(kind) or len(kind) > 60:
        raise ModelError(f"{path!r} is damaged: {where}.kind is {_short(kind)}, which no kind of model is called.")
    version = _field(value, "version", int, path, where)
    if not 1 <= version < 2**31:
        raise ModelError(f"{path!r} is damaged: {where}.version must be an int from 1. Got {version} instead.")
    arrays, parts = _field(value, "arrays", dict, path, where), _field(value, "parts", dict, path, where)
    for name in arrays:
        if not array_name(name):
            raise ModelError(f"{path!r} is damaged: no array may be called {_short(name)}.")
    for name in parts:
        if not part_name(name):
            raise ModelError(f"{path!r} is damaged: no part may be called {_short(name)}.")
    return Node(
        kind,
        version,
        _field(value, "params", dict, path, where),
        _field(value, "meta", dict, path, where),
        {name: _entry(entry, path, f"{where}.arrays[{name!r}]") for name, entry in arrays.items()},
        {name: _node(part, path, f"{where}.parts[{name!r}]", depth + 1) for name, part in parts.items()},
        _files(value, path, where),
    )


def _files(value: dict[str, Any], path: str, at: str) -> dict[str, FileEntry]:
    """The foreign files of a model; one without any doesn't speak of them."""
    if "files" not in value:
        return {}
    results = {}
    for name, entry in _field(value, "files", dict, path, at).items():
        where = f"{at}.files[{_short(name)}]"
        if not foreign_name(name):
            raise ModelError(f"{path!r} is damaged: no file may be called {_short(name)}.")
        if not isinstance(entry, dict):
            raise ModelError(f"{path!r} is damaged: {where} must be an object. Got {_short(entry)} instead.")
        file, size = _field(entry, "file", str, path, where), _field(entry, "bytes", int, path, where)
        if not file_place(file, name):
            raise ModelError(f"{path!r} is damaged: {where}.file is {_short(file)}, where no such file is written.")
        results[name] = FileEntry(file, size, _sum(entry, path, where))
    return results


def _sum(entry: dict[str, Any], path: str, where: str) -> str:
    checksum: str = _field(entry, "checksum", str, path, where)
    if not _CHECKSUM.fullmatch(checksum):
        raise ModelError(f"{path!r} is damaged: {where}.checksum is {_short(checksum)}, not 'crc32:' and 8 digits.")
    return checksum


def _entry(value: Any, path: str, where: str) -> Entry:
    if not isinstance(value, dict):
        raise ModelError(f"{path!r} is damaged: {where} must be an object. Got {_short(value)} instead.")
    file = _field(value, "file", str, path, where)
    if not file_name(file):
        raise ModelError(f"{path!r} is damaged: {where}.file is {_short(file)}, not a plain name that ends in .npy.")
    dtype = _field(value, "dtype", str, path, where)
    if dtype not in DTYPES:
        raise ModelError(f"{path!r} is damaged: {where}.dtype is {_short(dtype)}, not one of {', '.join(DTYPES)}.")
    shape = _field(value, "shape", list, path, where)
    if len(shape) > 8 or not all(type(size) is int and size >= 0 for size in shape):
        raise ModelError(f"{path!r} is damaged: {where}.shape is {_short(shape)}, not a list of ints from 0.")
    size = _field(value, "bytes", int, path, where)
    return Entry(file, dtype, tuple(shape), size, _sum(value, path, where))
