"""Thousands of ways to spoil a model folder.

A *raw* mutant changes bytes and leaves the checksums as they were, like a failing disk. A *sealed* mutant is what an
adversary makes: manifest, headers, sizes and checksums all agree with each other, and only the structure is wrong, so
that nothing but its verification stands between it and the kernels.
"""

import copy
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sylvan.store import manifest, npy

Apply = Callable[["Folder"], None]


@dataclass(frozen=True)
class Mutant:
    """A name that says what was done, and the doing; ``sealed`` when the checksums agree.

    Mutants are alike where the same was done (``how``) to the same value or array of a kind of model (``field``). Of
    those without a field a reader of folders knows enough to refuse them, whatever the model.
    """

    name: str
    apply: Apply
    how: str
    field: str = ""
    sealed: bool = False


class Folder:
    """A copy of a model folder to spoil; files are links to the originals until they are written."""

    def __init__(self, original: Path, path: Path) -> None:
        self.path = path
        self._originals = {str(file.relative_to(original)): file for file in files_of(original)}
        self._manifest = (original / manifest.NAME).read_bytes()
        self._spoiled = set(self._originals)
        self.restore()

    def restore(self) -> None:
        """What was spoiled is again as in the original."""
        if self.path.exists() and not self.path.is_dir():
            self.path.unlink()
        for name in self._spoiled:
            place = self.path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            self.remove(name)
            if name == manifest.NAME:
                place.write_bytes(self._manifest)
            else:
                os.link(self._originals[name], place)
        self._spoiled.clear()

    def remove(self, name: str) -> Path:
        """Take away a file, or what stands in its place; the original keeps its bytes."""
        self._spoiled.add(name)
        place = self.path / name
        if place.is_dir() and not place.is_symlink():
            place.rmdir()
        else:
            place.unlink(missing_ok=True)
        return place

    def clear(self) -> None:
        """Take everything away but the folder itself."""
        self._spoiled.update(self._originals)
        shutil.rmtree(self.path)
        self.path.mkdir()

    def write(self, name: str, data: bytes) -> None:
        """Replace a file."""
        self.remove(name).write_bytes(data)

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def contents(self) -> dict[str, Any]:
        contents: dict[str, Any] = json.loads(self.read(manifest.NAME))
        return contents

    def seal(self, contents: dict[str, Any]) -> None:
        """Write a manifest whose own checksum is right."""
        contents["checksum"] = manifest.checksum_of(contents)
        self.write(manifest.NAME, json.dumps(contents).encode())

    def put(self, contents: dict[str, Any], at: list[Any], array: np.ndarray) -> None:
        """Write another array in an array's place, everything in agreement."""
        entry = follow(contents, at)
        array = np.ascontiguousarray(array)
        data = npy.header(array.dtype, array.shape) + array.tobytes()
        self.write(entry["file"], data)
        entry.update(
            dtype=array.dtype.str, shape=list(array.shape), bytes=len(data), checksum=f"crc32:{zlib.crc32(data):08x}"
        )
        self.seal(contents)


def files_of(folder: Path) -> list[Path]:
    """Every file of a model, those in folders of foreign files too."""
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def follow(contents: Any, at: list[Any]) -> Any:
    for key in at:
        contents = contents[key]
    return contents


def array_paths(contents: dict[str, Any]) -> list[list[Any]]:
    """Where the manifest describes arrays."""

    def walk(model: dict[str, Any], at: list[Any]) -> Iterator[list[Any]]:
        for name in model["arrays"]:
            yield [*at, "arrays", name]
        for name, part in model["parts"].items():
            yield from walk(part, [*at, "parts", name])

    return list(walk(contents["model"], ["model"]))


def model_paths(contents: dict[str, Any]) -> list[list[Any]]:
    """Where the manifest describes models: the whole and its parts."""

    def walk(model: dict[str, Any], at: list[Any]) -> Iterator[list[Any]]:
        yield at
        for name, part in model["parts"].items():
            yield from walk(part, [*at, "parts", name])

    return list(walk(contents["model"], ["model"]))


def field_of(contents: dict[str, Any], at: list[Any]) -> str:
    """A value or an array of the manifest by the kind of its model and its name there, but for numbers."""
    model = max((path for path in model_paths(contents) if path == at[: len(path)] != at), key=len, default=None)
    within = at[len(model) :] if model else []
    if not within or within[0] == "files" or (within[0] == "arrays" and len(within) > 2):
        return ""
    found = follow(contents, at)
    is_array = within[0] == "arrays" and len(within) == 2
    what = [found["dtype"], len(found["shape"])] if is_array else [type(found).__name__]
    return " ".join([follow(contents, model)["kind"], re.sub(r"\d+", "#", ".".join(map(str, within))), *map(str, what)])


def all_mutants(original: Path) -> Iterator[Mutant]:
    """Every mutant of a saved model, always the same ones in the same order."""
    contents = json.loads((original / manifest.NAME).read_text())
    yield from folder_mutants(original)
    for file in files_of(original):
        yield from byte_mutants(file, str(file.relative_to(original)))
    yield from text_mutants((original / manifest.NAME).read_bytes())
    for mutant in sealed_mutants(original, contents):
        yield replace(mutant, sealed=True)


def sealed_mutants(original: Path, contents: dict[str, Any]) -> Iterator[Mutant]:
    """The mutants of which no checksum tells."""
    yield from value_mutants(contents)
    for at in array_paths(contents):
        entry = follow(contents, at)
        array = np.load(original / entry["file"])
        yield from header_mutants(at, array)
        yield from array_mutants(at, array, field_of(contents, at))
    yield from swap_mutants(contents)


def folder_mutants(original: Path) -> Iterator[Mutant]:
    """Files that are missing, or are something else."""

    def without_arrays(folder: Folder) -> None:
        for file in folder.path.glob("*.npy"):
            folder.remove(file.name)

    def to_file(folder: Folder) -> None:
        gone(folder)
        folder.path.write_bytes(b"model")

    def gone(folder: Folder) -> None:
        folder.clear()
        folder.path.rmdir()

    def is_folder(folder: Folder, name: str) -> None:
        folder.remove(name).mkdir()

    def is_loop(folder: Folder, name: str) -> None:
        place = folder.remove(name)
        place.symlink_to(place)

    def is_pipe(folder: Folder, name: str) -> None:
        os.mkfifo(folder.remove(name))

    wholes = {
        "an empty folder": Folder.clear, "only the manifest": without_arrays, "a file": to_file, "no folder": gone,
    }  # fmt: skip
    for how, apply in wholes.items():
        yield Mutant(how, apply, how)
    ways: dict[str, Callable[[Folder, str], Any]] = {
        "missing": Folder.remove, "a folder": is_folder, "a link to itself": is_loop,
        **({"a pipe": is_pipe} if hasattr(os, "mkfifo") else {}),
    }  # fmt: skip
    for file in files_of(original):
        name = str(file.relative_to(original))
        for how, way in ways.items():
            yield Mutant(f"{name} {how}", partial(way, name=name), f"{sort_of(name)} {how}")


def sort_of(name: str) -> str:
    """What a reader knows of a file before it has read it."""
    return name if name == manifest.NAME else Path(name).suffix if "/" not in name else "a foreign file"


def byte_mutants(file: Path, name: str) -> Iterator[Mutant]:
    """Truncations, additions and flipped bits; the checksums are left as they were."""
    data = file.read_bytes()
    rng = np.random.default_rng(len(data))

    def mutant(how: str, change: Callable[[bytes], bytes], sort: str) -> Mutant:
        return Mutant(f"{name} {how}", lambda f: f.write(name, change(f.read(name))), f"{sort_of(name)} {sort}")

    for size in sorted({0, 1, 5, 9, 10, 11, 63, 64, 127, 128, len(data) // 2, len(data) - 1}):
        if 0 <= size < len(data):
            yield mutant(
                f"cut to {size} bytes", lambda old, size=size: old[:size], f"cut to {size if size < 129 else '#'}"
            )
    for extra in (b"\0", b"\n", b"x" * 4096):
        how = f"with {len(extra)} more bytes"
        yield mutant(how, lambda old, extra=extra: old + extra, f"{how} {extra[:1]!r}")
    for at in sorted({*range(10), *rng.integers(0, max(len(data), 1), 20).tolist()}):
        if at < len(data):
            how, bit = f"with a bit flipped in byte {at}", 1 << int(at % 8)
            flip = lambda old, at=at, bit=bit: old[:at] + bytes([old[at] ^ bit]) + old[at + 1 :]  # noqa: E731
            yield mutant(how, flip, f"bit {at if at < 10 else at % 8 + 10}")
    yield mutant("all zero bytes", lambda old: b"\0" * len(old), "zero")
    yield mutant("all 255 bytes", lambda old: b"\xff" * len(old), "255")


def text_mutants(data: bytes) -> Iterator[Mutant]:
    """Manifests that are no JSON, or JSON with a trap in it."""
    texts = {
        "a bare number": b"1",
        "null": b"null",
        "a list": b"[]",
        "an empty object": b"{}",
        "another format": data.replace(b"sylvan-model", b"other-model"),
        "a byte order mark": b"\xef\xbb\xbf" + data,
        "UTF-16": data.decode().encode("utf-16"),
        "a million brackets": b"[" * 1_000_000,
        "a million objects": b'{"a":' * 1_000_000,
        "brackets closed": b"[" * 900 + b"]" * 900,
        "NaN": data.replace(b'"format_version": 1', b'"format_version": NaN'),
        "Infinity": data.replace(b'"format_version": 1', b'"format_version": Infinity'),
        "an int of a million digits": data.replace(b'"format_version": 1', b'"format_version": 1' + b"0" * 1_000_000),
        "a float that overflows": data.replace(b'"format_version": 1', b'"format_version": 1e400'),
        "format version 0": data.replace(b'"format_version": 1', b'"format_version": 0'),
        "format version 2": data.replace(b'"format_version": 1', b'"format_version": 2'),
        "a key twice": data.replace(b'"format":', b'"format": 1, "format":', 1),
        "half a surrogate": data.replace(b'"params": {', b'"params": {"\\ud800": 1,', 1),
        "a NUL in a string": data.replace(b"sylvan-model", b"sylvan-model\\u0000", 1),
        "a raw control character": data.replace(b"sylvan-model", b"sylvan-model\x01", 1),
        "megabytes of spaces": b" " * (8 << 20) + data,
        "text behind": data + b"x",
    }
    for name, text in texts.items():
        yield Mutant(f"manifest: {name}", lambda f, t=text: f.write(manifest.NAME, t), name)


FEW = [None, -1, 2**63, "x", []]
STRANGE = [None, -1, 2**63, 0.5, "x", [], {}]
RARE = [True, 0, 1, 2**31, 10**19, -1e300, "", "../x.npy", [[]], {"a": 1}]


def value_mutants(contents: dict[str, Any]) -> Iterator[Mutant]:
    """Each value of the manifest missing or strange, each object with one key too many; sealed."""

    def walk(value: Any, at: list[Any]) -> Iterator[list[Any]]:
        if at:
            yield at
        if isinstance(value, dict):
            for key in value:
                yield from walk(value[key], [*at, key])
        elif isinstance(value, list):
            for i in range(len(value)):
                yield from walk(value[i], [*at, i])

    fully = array_paths(contents)[:3]  # one array's entry is read like another's
    for at in walk(contents, []):
        if at == ["checksum"]:
            continue
        where, field = ".".join(map(str, at)), field_of(contents, at)
        of = "" if field else f"{at[-1]} "  # a reader's own values, as they are called
        old = follow(contents, at)

        def removed(folder: Folder, at: list[Any] = at) -> None:
            changed = folder.contents()
            del follow(changed, at[:-1])[at[-1]]
            folder.seal(changed)

        yield Mutant(f"manifest: {where} missing", removed, f"{of}missing", field)
        in_entry = "arrays" in at[:-1] and not any(at[: len(path)] == path for path in fully)
        values = {"value": list(FEW if in_entry else STRANGE), "rare": [] if in_entry else RARE}
        if isinstance(old, int) and not isinstance(old, bool):
            values["near"] = [old + 1, old - 1]
            values["value"] += [old * 2, -old, str(old), float(old)]
        elif isinstance(old, str):
            values["value"] += [old + "x", old.upper(), old[:-1], "/etc/passwd", "a/b.npy", "..", "\0", "ü" * 300]
        elif isinstance(old, list):
            values["value"] += [old[::-1], old[:-1], [*old, 1], [*old, -1]]
        for sort, number, value in ((sort, *one) for sort, given in values.items() for one in enumerate(given)):
            if type(value) is type(old) and value == old:
                continue

            def replaced(folder: Folder, at: list[Any] = at, value: Any = value) -> None:
                changed = folder.contents()
                follow(changed, at[:-1])[at[-1]] = copy.deepcopy(value)
                folder.seal(changed)

            yield Mutant(f"manifest: {where} = {value!r}"[:200], replaced, f"{of}{sort}: {number}", field)
        if isinstance(old, dict):

            def extended(folder: Folder, at: list[Any] = at) -> None:
                changed = folder.contents()
                follow(changed, at)["unheard_of"] = {"file": "x.npy"}
                folder.seal(changed)

            yield Mutant(f"manifest: {where} with one more key", extended, f"{of}more", field)


def header_mutants(at: list[Any], array: np.ndarray) -> Iterator[Mutant]:
    """Headers and manifests that lie about the bytes that follow; sealed."""
    where = ".".join(map(str, at[1:]))
    shape = array.shape
    text = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': {shape!r}, }}"

    def with_header(header: bytes, **fields: Any) -> Apply:
        def apply(folder: Folder) -> None:
            contents = folder.contents()
            entry = follow(contents, at)
            padded = header + b" " * (-(len(header) + 11) % 64) + b"\n"
            data = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + array.tobytes()
            folder.write(entry["file"], data)
            entry.update(bytes=len(data), checksum=f"crc32:{zlib.crc32(data):08x}", **fields)
            folder.seal(contents)

        return apply

    for number, lie in enumerate([
        text.replace("False", "True"),
        text.replace(array.dtype.str, ">f4"),
        text.replace(array.dtype.str, "|O"),
        text.replace(array.dtype.str, "<U9"),
        text.replace(array.dtype.str, "|V8"),
        text.replace(array.dtype.str, "<M8[s]"),
        text.replace(repr(shape), "()"),
        text.replace(repr(shape), "(-1,)"),
        text.replace(repr(shape), "(9223372036854775807,)"),
        text.replace(repr(shape), "(4294967296, 4294967296)"),
        text.replace(repr(shape), "(1,) * 3"),
        text.replace(repr(shape), "__import__('os').abort()"),
        text + "#" * 5000,
        "(" * 4000,
        "",
    ]):  # fmt: skip
        yield Mutant(f"{where}: header {lie[:90]}", with_header(lie.encode()), f"header {number}")
    for number, lied in enumerate([[array.size + 1], [2**62], [2**32, 2**32], [0], [0, 2**40], [1, array.size], []]):
        header = text.replace(repr(shape), repr(tuple(lied))).encode()
        how = f"{where}: header and manifest of shape {lied}"
        yield Mutant(how, with_header(header, shape=lied), f"header and shape {number}")
        yield Mutant(f"{where}: manifest of shape {lied}", with_header(text.encode(), shape=lied), f"shape {number}")
    unaligned = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()

    def at_odd_address(folder: Folder) -> None:
        contents = folder.contents()
        entry = follow(contents, at)
        data = unaligned + array.tobytes()
        folder.write(entry["file"], data)
        entry.update(bytes=len(data), checksum=f"crc32:{zlib.crc32(data):08x}")
        folder.seal(contents)

    yield Mutant(f"{where}: data at byte {len(unaligned)}", at_odd_address, "data at an odd address")


def array_mutants(at: list[Any], array: np.ndarray, field: str) -> Iterator[Mutant]:
    """Arrays with other values, sizes and types; sealed."""
    where = ".".join(map(str, at[1:]))

    def mutant(name: str, change: np.ndarray, how: str) -> Mutant:
        return Mutant(f"{where}{name}", lambda folder: folder.put(folder.contents(), at, change), how, field)

    flat = array.reshape(-1)
    sizes = {
        "one fewer": flat[:-1], "one more": np.append(flat, flat[-1:] if flat.size else np.zeros(1, array.dtype)),
        "none": flat[:0], "only the first": flat[:1], "twice as many": np.concatenate([flat, flat]),
        "one dimension more": array[..., None], "no dimension": np.zeros((), array.dtype),
    }  # fmt: skip
    if array.ndim > 1:
        sizes |= {
            "turned": array.T,
            "one row fewer": array[:-1],
            "one column fewer": array[:, :-1],
            "one row more": np.concatenate([array, array[-1:]]),
        }
    for name, change in sizes.items():
        yield mutant(f": {name}", change, f"size: {name}")
    for dtype in ("<i4", "<i8", "<u8", "<f4", "<f8", "|u1", "<f2"):
        if np.dtype(dtype) != array.dtype:
            with np.errstate(all="ignore"):
                yield mutant(f": as {dtype}", array.astype(dtype), f"type: {dtype}")
    yield mutant(": backwards", array[::-1] if array.ndim else array, "order: backwards")
    yield mutant(": sorted", np.sort(flat).reshape(array.shape), "order: sorted")
    for value in extremes(array.dtype):
        yield mutant(f": all {value}", np.full_like(array, value), f"all: {value}")
        for position in sorted({0, flat.size // 2, flat.size - 1}):
            if 0 <= position < flat.size:
                changed = flat.copy()
                changed[position] = value
                yield mutant(f"[{position}] = {value}", changed.reshape(array.shape), f"value: {value}")
    yield from random_mutants(array, mutant)


def extremes(dtype: np.dtype[Any]) -> list[Any]:
    """Values that have broken software before."""
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        return [np.nan, np.inf, -np.inf, limits.max, limits.min, limits.smallest_subnormal, -0.0]
    limits = np.iinfo(dtype)
    values = {0, 1, -1, limits.min, limits.max, limits.max - 1, limits.max // 2, 2**31 - 1, 2**31, 2**32, 2**62}
    return [dtype.type(value) for value in sorted(values) if limits.min <= value <= limits.max]


def random_mutants(array: np.ndarray, mutant: Callable[[str, np.ndarray, str], Mutant]) -> Iterator[Mutant]:
    """A few elements off by one, exchanged, or with random bits."""
    flat = array.reshape(-1)
    if not flat.size:
        return
    for seed in range(8):
        rng = np.random.default_rng(seed)
        changed = flat.copy()
        with np.errstate(all="ignore"):
            place = rng.integers(0, flat.size)
            changed[place] += changed.dtype.type(1) if seed % 2 else changed.dtype.type(-1 % 2**8)
        yield mutant(f"[{place}] off by a little, {seed}", changed.reshape(array.shape), "random: off by a little")
        changed = flat.copy()
        first, second = rng.integers(0, flat.size, 2)
        changed[[first, second]] = changed[[second, first]]
        yield mutant(f"[{first}] and [{second}] exchanged, {seed}", changed.reshape(array.shape), "random: exchanged")
        changed = flat.copy()
        bits = changed.view(np.uint8)
        for _ in range(1 + 3 * (seed % 3)):
            bits[rng.integers(0, bits.size)] ^= np.uint8(1 << rng.integers(0, 8))
        yield mutant(f" with random bits, {seed}", changed.reshape(array.shape), "random: bits")


def swap_mutants(contents: dict[str, Any]) -> Iterator[Mutant]:
    """Files, arrays and parts in each other's place; models under another's name."""
    paths = array_paths(contents)
    for first, second in zip(paths, paths[1:] + paths[:1], strict=True):

        def raw(folder: Folder, first: list[Any] = first, second: list[Any] = second) -> None:
            files = [follow(contents, at)["file"] for at in (first, second)]
            data = [folder.read(file) for file in files]
            folder.write(files[0], data[1])
            folder.write(files[1], data[0])

        def sealed(folder: Folder, first: list[Any] = first, second: list[Any] = second) -> None:
            changed = folder.contents()
            one, other = follow(changed, first), follow(changed, second)
            follow(changed, first[:-1])[first[-1]] = other
            follow(changed, second[:-1])[second[-1]] = one
            folder.seal(changed)

        if first != second:
            field = field_of(contents, first)
            yield Mutant(f"{first[1:]} and {second[1:]}: files exchanged", raw, "files exchanged")
            yield Mutant(f"{first[1:]} and {second[1:]}: entries exchanged", sealed, "size: exchanged", field)
    models = model_paths(contents)
    kinds = ["label-tree", "vocabulary", "xr-linear", "tfidf-vectorizer", "text-model", "unheard-of"]
    for at in models:
        for kind in kinds:

            def renamed(folder: Folder, at: list[Any] = at, kind: str = kind) -> None:
                changed = folder.contents()
                follow(changed, at)["kind"] = kind
                folder.seal(changed)

            of = f"{follow(contents, at[:-2])['kind']} {at[-1]}" if len(at) > 1 else follow(contents, at)["kind"]
            yield Mutant(f"{'.'.join(at)} said to be of kind {kind}", renamed, f"value: of kind {kind}", of)
        for other in models:
            if other is not at:

                def replaced(folder: Folder, at: list[Any] = at, other: list[Any] = other) -> None:
                    changed = folder.contents()
                    model = copy.deepcopy(follow(changed, other))
                    if len(at) == 1:
                        changed["model"] = model
                    else:
                        follow(changed, at[:-1])[at[-1]] = model
                    folder.seal(changed)

                yield Mutant(f"{'.'.join(other)} in place of {'.'.join(at)}", replaced, "all: of another part", of)
