"""A model folder's round trip, and what is refused."""

import json
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from kit.errors import raises
from stops import contents

from sylvan import store
from sylvan.errors import ModelError, ParameterError, SylvanError
from sylvan.store import State, manifest, npy, registry

DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


def example(seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    words = State("example-words", 2, arrays={"bytes": rng.integers(0, 255, 50, dtype=np.uint8)})
    return State(
        "example-model",
        1,
        params={"branching": 16, "cost": 1.0, "name": "grüße", "tree": None, "on": True},
        meta={"n_labels": 7, "nested": {"list": [1, 2.5, "x"]}},
        arrays={
            "layer0.keys": rng.integers(0, 9, 20, dtype=np.int32),
            "layer0.values": rng.normal(size=(4, 5)).astype(np.float32),
            "empty": np.zeros((0, 3), np.float64),
            "seed": np.array(seed),
        },
        parts={"words": words},
    )


def assert_same(a: State, b: State) -> None:
    assert contents(a) == contents(b)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store.save(tmp_path / "m", example())
    return tmp_path / "m"


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("verify", ["auto", True, False])
def test_round_trip(tmp_path: Path, mmap: bool, verify: bool | str) -> None:
    store.save(tmp_path / "a" / "b" / "model", example())
    loaded = store.load(tmp_path / "a" / "b" / "model", mmap=mmap, verify=verify)
    assert_same(example(), loaded)
    assert not any(array.flags.writeable for array in loaded.arrays.values())
    assert all(array.ctypes.data % 64 == 0 for array in loaded.arrays.values() if array.size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 4), (2, 0, 5), (1, 1, 1, 2)])
def test_files_are_what_numpy_writes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    store.save(tmp_path / "m", State("example", 1, arrays={"a": array}))
    (file,) = (tmp_path / "m").glob("a.*.npy")
    np.save(tmp_path / "numpy.npy", array)
    assert file.read_bytes() == (tmp_path / "numpy.npy").read_bytes()
    assert_same(store.load(tmp_path / "m"), State("example", 1, arrays={"a": array}))


def test_arrays_of_any_layout_are_stored_plainly(tmp_path: Path) -> None:
    square = np.arange(12, dtype=np.int64).reshape(3, 4)
    arrays = {"fortran": np.asfortranarray(square), "strided": square[:, ::2], "big": square.astype(">i8")}
    store.save(tmp_path / "m", State("example", 1, arrays=arrays))
    loaded = store.load(tmp_path / "m").arrays
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].flags.c_contiguous and loaded[name].dtype.isnative


def test_numpy_numbers_and_tuples_become_plain_values(tmp_path: Path) -> None:
    state = State("example", 1, params={"a": np.int32(3), "b": (np.float32(0.5), np.bool_(True))})
    store.save(tmp_path / "m", state)
    assert store.load(tmp_path / "m").params == {"a": 3, "b": [0.5, True]}


@pytest.mark.parametrize(
    "state",
    [
        State("example", 1, arrays={"a": np.array([object()])}),
        State("example", 1, arrays={"a": np.array(["x"])}),
        State("example", 1, arrays={"a": np.array([True])}),
        State("example", 1, arrays={"../a": np.zeros(1)}),
        State("example", 1, arrays={"": np.zeros(1)}),
        State("example", 1, arrays={"a..b": np.zeros(1)}),
        State("example", 1, arrays={"a": [1, 2]}),  # type: ignore[dict-item]
        State("example", 1, parts={"a.b": State("example", 1)}),
        State("Example Kind", 1),
        State("example", 0),
        State("example", 1, params={"a": float("nan")}),
        State("example", 1, params={"a": {1, 2}}),
        State("example", 1, params={"a": 10**30}),
        State("example", 1, params={"a": "\ud800"}),
        State("example", 1, params={"a": object()}),
        State("example", 1, arrays={"a": np.zeros(1), "A": np.zeros(1)}),
    ],
)
def test_what_a_folder_cannot_hold_is_refused_and_leaves_nothing(tmp_path: Path, state: State) -> None:
    with pytest.raises(ModelError):
        store.save(tmp_path / "m", state)
    assert os.listdir(tmp_path) == []
    store.save(tmp_path / "m", example())
    before = sorted(os.listdir(tmp_path / "m"))
    with pytest.raises(ModelError):
        store.save(tmp_path / "m", state)
    assert sorted(os.listdir(tmp_path / "m")) == before
    assert_same(store.load(tmp_path / "m", verify=True), example())


@pytest.mark.parametrize("folder", ["", "a\0b", 5, None])
def test_a_folder_that_is_no_path(folder: object) -> None:
    with raises(ParameterError, "path"):
        store.save(folder, example())  # type: ignore[arg-type]
    with raises(ParameterError, "path"):
        store.load(folder)  # type: ignore[arg-type]


def test_verify_takes_three_values(tmp_path: Path) -> None:
    with raises(ParameterError, "verify"):
        store.load(tmp_path, verify="yes")


def test_an_altered_number_is_found_by_its_checksum(folder: Path) -> None:
    (file,) = folder.glob("layer0.values.*.npy")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with raises(ModelError, file.name, "altered"):
        store.load(folder, mmap=False)
    with raises(ModelError, "altered"):
        store.load(folder, mmap=True, verify=True)
    store.load(folder, mmap=True)


@pytest.mark.parametrize(("change", "state"), [(-4, "truncated"), (4, "altered")])
def test_an_array_of_another_size_is_refused(folder: Path, change: int, state: str) -> None:
    (file,) = folder.glob("layer0.values.*.npy")
    size = file.stat().st_size
    with file.open("r+b") as stream:
        stream.truncate(size + change)
    with raises(ModelError, file.name, state, f"{size + change:,} bytes"):
        store.load(folder)


def test_an_altered_manifest_is_found_whatever_verify_says(folder: Path) -> None:
    file = folder / "manifest.json"
    file.write_text(file.read_text().replace('"branching": 16', '"branching": 17'))
    with raises(ModelError, "altered"):
        store.load(folder, verify=False)


def test_a_manifest_laid_out_anew_is_the_same_manifest(folder: Path) -> None:
    file = folder / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()), sort_keys=True, ensure_ascii=False), "utf-8")
    assert_same(store.load(folder), example())


def test_a_newer_format_says_what_to_install(folder: Path) -> None:
    file = folder / "manifest.json"
    contents = json.loads(file.read_text())
    contents.update(format_version=3, sylvan_version="2.7.1", model="something else by then")
    file.write_text(json.dumps(contents))
    with raises(ModelError, "2.7", 3):
        store.load(folder)
    del contents["sylvan_version"]
    file.write_text(json.dumps(contents))
    with raises(ModelError, "later"):
        store.load(folder)


def test_missing_and_foreign_folders(tmp_path: Path) -> None:
    with raises(ModelError, "folder"):
        store.load(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    with raises(ModelError, "file"):
        store.load(tmp_path / "file")
    with raises(ModelError, "manifest.json"):
        store.load(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "safetensors"}')
    with raises(ModelError, "format"):
        store.load(tmp_path)


def test_a_pipe_in_place_of_a_file_does_not_hang(folder: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes in this system's folders")
    (file,) = folder.glob("seed.*.npy")
    file.unlink()
    os.mkfifo(file)
    with raises(ModelError, "file"):
        store.load(folder)


def test_links_are_followed(tmp_path: Path) -> None:
    store.save(tmp_path / "real", example(1))
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert_same(store.load(tmp_path / "link"), example(1))
    store.save(tmp_path / "link", example(2))
    assert (tmp_path / "link").is_symlink()
    assert_same(store.load(tmp_path / "real"), example(2))
    (tmp_path / "loop").symlink_to(tmp_path / "pool")
    (tmp_path / "pool").symlink_to(tmp_path / "loop")
    for refused in (store.check_target, lambda folder: store.save(folder, example(1))):
        with raises(ModelError, "loop", "leads to itself"):
            refused(tmp_path / "loop")


def test_a_mapped_model_opens_in_milliseconds(tmp_path: Path) -> None:
    """By what is read, which unlike a clock is never flaky: headers and the manifest, not the data."""
    big = np.zeros(50_000_000, np.uint8)
    store.save(tmp_path / "m", State("example", 1, arrays={"big": big}))
    array = store.load(tmp_path / "m").arrays["big"]
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert type(getattr(owner, "obj", owner)).__name__.startswith(("mmap", "c_char_Array"))  # mapped pages


def test_the_registry_maps_kinds_to_loaders(tmp_path: Path) -> None:
    store.save(tmp_path / "m", State("test-registry", 1, meta={"n": 3}))
    with raises(ModelError, "test-registry"):
        registry.load(tmp_path / "m")
    store.register("test-registry", lambda state: ("rebuilt", store.need_int(state, "n", 1, 5)))
    assert registry.load(tmp_path / "m") == ("rebuilt", 3)

    def refuse(state: State) -> object:
        raise ParameterError("The 'beam' parameter must be positive.")

    store.register("test-registry", refuse)
    with raises(ModelError, "beam", "damaged"):
        registry.load(tmp_path / "m")


def test_headers_that_numpy_would_evaluate_are_refused() -> None:
    def start(text: bytes) -> bytes:
        text += b" " * (-(len(text) + 11) % 64) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text

    good = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"
    assert npy.parse_header(start(good)) == ("<f4", (3, 4), 128)
    for bad in [
        good.replace(b"<f4", b">f4"),
        good.replace(b"<f4", b"|O"),
        good.replace(b"<f4", b"<f1"),
        good.replace(b"False", b"True"),
        good.replace(b"(3, 4)", b"(3, -4)"),
        good.replace(b"(3, 4)", b"(3, 4" + b"0" * 30 + b")"),
        good.replace(b"(3, 4)", b"(9999999999999999999, 9999999999999999999)"),
        good.replace(b"(3, 4)", b"(0, 9999999999999999999)"),
        good.replace(b"(3, 4)", b"(" + b"1, " * 9 + b")"),
        good.replace(b"(3, 4)", b"(" * 200),
        good + b"()",
        b"[" * 5000,
    ]:
        with pytest.raises(npy.HeaderError):
            npy.parse_header(start(bad))
    for bytes_ in [b"", b"\x93NUMPY", b"\x93NUMPY\x02\x00\x40\x00", start(good)[:-1], b"PK\x03\x04" * 20]:
        with pytest.raises(npy.HeaderError):
            npy.parse_header(bytes_)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"", ("JSON", "manifest.json")), (b"{", ("JSON", "manifest.json")), (b"\xff\xfe", "UTF-8"),
        (b"[1]", "sylvan-model"), (b'{"format": "sylvan-model", "format": "x"}', "twice"), (b'{"format": NaN}', "NaN"),
        (b'{"format": -Infinity}', "-Infinity"), (b'{"format": 1e999}', "beyond"),
        (b'{"format": ' + b"9" * 5000 + b"}", 5000), (b"[" * 100_000 + b"]" * 100_000, "deeply"),
        (b"[" * 40 + b"]" * 40, "deeply"), (b'{"format": "\\ud800"}', "surrogate"),
        (b'{"format": "sylvan-model"}', "format_version"),
        (b'{"format": "sylvan-model", "format_version": true}', "format_version"),
        (b'{"format": "sylvan-model", "format_version": 1}', "altered"),
    ],
)  # fmt: skip
def test_manifests_that_are_none(text: bytes, fault: object) -> None:
    with raises(ModelError, fault):
        manifest.parse(text, "manifest.json", "0.1.0")


@pytest.mark.parametrize("mmap", [True, False])
def test_a_file_shorter_than_its_header_says_is_refused_though_the_manifest_agrees(mmap: bool, folder: Path) -> None:
    contents = store.contents(folder)
    entry = contents["model"]["arrays"]["layer0.values"]
    data = (folder / entry["file"]).read_bytes()[:-4]
    (folder / entry["file"]).write_bytes(data)
    entry.update(bytes=len(data), checksum=f"crc32:{zlib.crc32(data):08x}")
    contents["checksum"] = manifest.checksum_of(contents)
    (folder / manifest.NAME).write_text(json.dumps(contents))
    with raises(ModelError, entry["file"], len(data), len(data) + 4):
        store.load(folder, mmap=mmap)


def test_the_manifest_is_documented_by_what_it_holds(folder: Path) -> None:
    contents = json.loads((folder / "manifest.json").read_text())
    assert contents["format"] == "sylvan-model" and contents["format_version"] == 1
    entry = contents["model"]["arrays"]["layer0.values"]
    data = (folder / entry["file"]).read_bytes()
    assert entry["dtype"] == "<f4" and entry["shape"] == [4, 5] and entry["bytes"] == len(data)
    assert entry["checksum"] == f"crc32:{zlib.crc32(data):08x}"
    assert issubclass(ModelError, SylvanError)
