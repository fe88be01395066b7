"""`manifest.json`: written in one form, read strictly; and what the files of a model may be called. An array lies in
``layer0.keys.5f3a09c1.npy``. Foreign files are those that other libraries wrote and will open again by their names, as
an encoder's weights. Such a file is called by folders and its own name, ``encoder/config.json`` or
``encoder/1_Pooling/config.json``, and lies in a folder of its own, ``encoder.5f3a09c1.files/config.json``: whoever is
given that folder finds the names that it knows in it."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from sylvan.errors import ModelError
from sylvan.store.npy import DTYPES
from sylvan.store.state import JSON, Entry

FORMAT = "sylvan-model"
FORMAT_VERSION = 2  # the newest that is read; 2 has foreign files, and is written only where there are some
NAME = "manifest.json"
MAX_BYTES = 64 << 20
_MAX_DEPTH = 32
_MAX_DIGITS = 20
_KIND = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_ARRAY = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
_WORD = re.compile(r"[A-Za-z0-9_]+")
_FILE = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*\.npy")
_FOREIGN = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.+-]*[A-Za-z0-9_])?")
_FOLDER = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*\.[0-9a-f]{8}\.files")
_MOST_LEVELS = 3  # of a foreign file's name
_CHECKSUM = re.compile(r"crc32:[0-9a-f]{8}")
_RELEASE = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})[0-9A-Za-z.+-]{0,40}")
_MODEL: dict[str, type] = {"kind": str, "version": int, "params": dict, "meta": dict, "arrays": dict, "parts": dict}
_FILE_ENTRY: dict[str, type] = {"file": str, "bytes": int, "checksum": str}
_ARRAY_ENTRY: dict[str, type] = {**_FILE_ENTRY, "dtype": str, "shape": list}
_WORDS = {int: "an int", str: "a string", list: "a list", dict: "an object"}


@dataclass(frozen=True)
class Node:
    """One model of the manifest: itself, its arrays and its parts."""

    kind: str
    version: int
    params: dict[str, JSON]
    meta: dict[str, JSON]
    arrays: dict[str, Entry]
    parts: dict[str, Node]
    files: dict[str, Entry] = field(default_factory=dict)

    def nodes(self) -> Iterator[Node]:
        """This model and all its parts."""
        yield self
        for part in self.parts.values():
            yield from part.nodes()

    def entries(self) -> Iterator[Entry]:
        """The files of this model and of its parts."""
        for node in self.nodes():
            yield from (*node.arrays.values(), *node.files.values())


def array_name(name: str) -> bool:
    """Whether an array may be called this."""
    return len(name) <= 100 and _ARRAY.fullmatch(name) is not None


def part_name(name: str) -> bool:
    """Whether a part may be called this."""
    return len(name) <= 100 and _WORD.fullmatch(name) is not None


def foreign_name(name: object) -> bool:
    """Whether a foreign file may be called this: one or two folders and a name, none of which leads out."""
    top, *below = name.split("/") if isinstance(name, str) else ("",)
    steps = 1 <= len(below) < _MOST_LEVELS and all(_FOREIGN.fullmatch(step) is not None for step in below)
    return steps and _WORD.fullmatch(top) is not None and all(len(step) <= 100 for step in (top, *below))


def place_of(name: str, prefix: str, token: str) -> str:
    """Where a save writes a foreign file, seen from the model's folder."""
    top, _, path = name.partition("/")
    return f"{prefix}{top}.{token}.files/{path}"


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


def dump(model: dict[str, JSON], sylvan_version: str) -> bytes:
    """The manifest's bytes, its own checksum included."""

    def has_files(node: dict[str, JSON]) -> bool:
        return bool(node.get("files")) or any(map(has_files, node.get("parts", {}).values()))

    contents = {
        "format": FORMAT, "format_version": 2 if has_files(model) else 1, "sylvan_version": sylvan_version,
        "model": model,
    }  # fmt: skip
    contents["checksum"] = checksum_of(contents)
    return (json.dumps(contents, indent=1, allow_nan=False, ensure_ascii=True) + "\n").encode("ascii")


def checksum_of(contents: dict[str, Any]) -> str:
    """Checksum of everything in the manifest but the checksum, whatever the spaces between."""
    hashed = {key: value for key, value in contents.items() if key != "checksum"}
    text = json.dumps(hashed, sort_keys=True, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return f"crc32:{zlib.crc32(text.encode('ascii')):08x}"


def parse(data: bytes, path: str, sylvan_version: str) -> Node:
    """The model that a manifest describes, every field checked."""
    contents = _decode(data, path)
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise ModelError(f"{path!r} is not the manifest of a Sylvan model: its 'format' is not {FORMAT!r}.")
    version, writer = contents.get("format_version"), contents.get("sylvan_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelError(f"{path!r} is damaged: its 'format_version' is {shortened(version)}, not an int from 1.")
    if version > FORMAT_VERSION:
        release = _RELEASE.fullmatch(writer) if isinstance(writer, str) else None
        by = f" by Sylvan {writer}" if release else ""
        remedy = f"Install Sylvan {release[1]}.{release[2]} or later" if release else "Install a later Sylvan"
        raise ModelError(
            f"{path!r} was written{by} in format {version}, but this is Sylvan {sylvan_version}, which reads "
            f"format {FORMAT_VERSION}. {remedy} to load it."
        )
    if contents.get("checksum") != checksum_of(contents):
        raise ModelError(f"{path!r} was altered after it was written: its 'checksum' does not match its contents.")
    node = _node(contents.get("model"), path, "model")
    _check_places(node, path, version)
    return node


def _check_places(root: Node, path: str, version: int) -> None:
    """No two files in one place, capitals apart; the files of a folder of one model together."""
    if clashing(entry.file for entry in root.entries()):
        raise ModelError(f"{path!r} is damaged: two of its arrays or files name the same file.")
    nodes = list(root.nodes())
    if version < 2 and any(node.files for node in nodes):
        raise ModelError(f"{path!r} is damaged: manifests of format 1 hold no 'files'.")
    owners = [{(name.partition("/")[0], folder_of_files(e.file)) for name, e in node.files.items()} for node in nodes]
    folders = [folder.lower() for each in owners for _, folder in each]
    if len(set(folders)) != len(folders) or any(len({top for top, _ in each}) != len(each) for each in owners):
        raise ModelError(f"{path!r} is damaged: the files of a folder are not together in one of their own.")


def _decode(data: bytes, path: str) -> Any:
    """JSON with no room for interpretation: no repeated keys, NaN, huge numbers or bottomless nesting."""
    if len(data) > MAX_BYTES:
        raise ModelError(f"{path!r} is not a Sylvan manifest: it holds more than {MAX_BYTES >> 20} MiB.")
    try:
        contents = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_int=_small_int,
            parse_float=_finite_float,
        )  # fmt: skip
        level = [contents]
        for _ in range(_MAX_DEPTH):
            level = [inner for each in level if isinstance(each, dict | list) for inner in _values(each)]
        if any(isinstance(each, dict | list) for each in level):
            raise ValueError("it is nested too deeply")
        if b"\\u" in data:  # a lone surrogate would fail later, wherever the text is first written out
            json.dumps(contents, ensure_ascii=False).encode("utf-8")
        return contents
    except RecursionError:
        raise ModelError(f"{path!r} is not a Sylvan manifest: it is nested too deeply.") from None
    except ValueError as error:
        reason = str(error)
        if isinstance(error, UnicodeDecodeError):
            reason = f"it is not UTF-8 text at byte {error.start}"
        elif isinstance(error, UnicodeEncodeError):
            reason = "it holds half of a surrogate pair"
        elif isinstance(error, json.JSONDecodeError):
            reason = f"it is not JSON at line {error.lineno} ({error.msg[:60]})"
        raise ModelError(f"{path!r} is not a Sylvan manifest: {reason}.") from None


def _values(container: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


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


def shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _fields(value: Any, wanted: dict[str, type], path: str, where: str) -> list[Any]:
    """The values of an object's fields, each of its type."""
    if not isinstance(value, dict):
        raise ModelError(f"{path!r} is damaged: {where} must be an object. Got {shortened(value)} instead.")
    for key, kind in wanted.items():
        if type(value.get(key)) is not kind:
            got = shortened(value[key]) if key in value else "nothing"
            raise ModelError(f"{path!r} is damaged: {where}.{key} must be {_WORDS[kind]}. Got {got} instead.")
    return [value[key] for key in wanted]


def _node(value: Any, path: str, where: str) -> Node:
    kind, version, params, meta, arrays, parts = _fields(value, _MODEL, path, where)
    # One without any has no such field.
    files = _fields(value, {"files": dict}, path, where)[0] if "files" in value else {}
    if not _KIND.fullmatch(kind) or len(kind) > 60:
        raise ModelError(f"{path!r} is damaged: {where}.kind is {shortened(kind)}, which no kind of model is called.")
    if not 1 <= version < 2**31:
        raise ModelError(f"{path!r} is damaged: {where}.version must be an int from 1. Got {version} instead.")
    for noun, names, allowed in (
        ("array", arrays, array_name),
        ("part", parts, part_name),
        ("file", files, foreign_name),
    ):
        for name in names:
            if not allowed(name):
                raise ModelError(f"{path!r} is damaged: no {noun} may be called {shortened(name)}.")
    return Node(
        kind, version, params, meta,
        {name: _array(entry, path, f"{where}.arrays[{name!r}]") for name, entry in arrays.items()},
        {name: _node(part, path, f"{where}.parts[{name!r}]") for name, part in parts.items()},
        {name: _foreign(entry, name, path, f"{where}.files[{shortened(name)}]") for name, entry in files.items()},
    )  # fmt: skip


def _foreign(value: Any, name: str, path: str, where: str) -> Entry:
    """A foreign file: in a folder of files, under its own name."""
    place, size, checksum = _fields(value, _FILE_ENTRY, path, where)
    if not is_folder_of_files(folder_of_files(place)) or place.partition("/")[2] != name.partition("/")[2]:
        raise ModelError(f"{path!r} is damaged: {where}.file is {shortened(place)}, where no such file is written.")
    _check_sum(checksum, path, where)
    return Entry(place, size, checksum)


def _check_sum(checksum: str, path: str, where: str) -> None:
    if not _CHECKSUM.fullmatch(checksum):
        raise ModelError(f"{path!r} is damaged: {where}.checksum is {shortened(checksum)}, not 'crc32:' and 8 digits.")


def _array(value: Any, path: str, where: str) -> Entry:
    file, size, checksum, dtype, shape = _fields(value, _ARRAY_ENTRY, path, where)
    if len(file) > 240 or not _FILE.fullmatch(file):  # no way leads out of the folder
        raise ModelError(f"{path!r} is damaged: {where}.file is {shortened(file)}, not a plain name that ends in .npy.")
    if dtype not in DTYPES:
        raise ModelError(f"{path!r} is damaged: {where}.dtype is {shortened(dtype)}, not one of {', '.join(DTYPES)}.")
    if len(shape) > 8 or not all(type(length) is int and length >= 0 for length in shape):
        raise ModelError(f"{path!r} is damaged: {where}.shape is {shortened(shape)}, not a list of ints from 0.")
    _check_sum(checksum, path, where)
    return Entry(file, size, checksum, dtype, tuple(shape))
