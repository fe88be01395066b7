"""Files of other libraries in a model's folder: there whole, under their own names, or refused in a sentence."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan import store
from sylvan.errors import ModelError
from sylvan.store import State, manifest

CONFIG = "encoder/config.json"
FILES = {
    CONFIG: b'{"dim": 2}',
    "encoder/model-00001-of-00002.safetensors": bytes(range(256)) * 50,
    "encoder/1_Pooling/config.json": b"",
    "words/vocab.txt": "wörter\n".encode(),
}


def example(files: dict[str, Any] | None = None) -> State:
    part = State("example-part", 1, files={"encoder/config.json": b"inner"})
    arrays: dict[str, Any] = {"a": np.arange(5)}
    return State("example", 1, arrays=arrays, parts={"part": part}, files=dict(FILES if files is None else files))


def read(state: State) -> dict[str, bytes]:
    return {name: Path(os.fsdecode(path)).read_bytes() for name, path in state.files.items()}  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store.save(tmp_path / "m", example())
    return tmp_path / "m"


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("verify", ["auto", True, False])
def test_round_trip(mmap: bool, verify: bool | str, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(FILES["words/vocab.txt"])
    store.save(tmp_path / "m", example({**FILES, "words/vocab.txt": tmp_path / "source"}))
    loaded = store.load(tmp_path / "m", mmap=mmap, verify=verify)
    assert read(loaded) == FILES and read(loaded.parts["part"]) == {"encoder/config.json": b"inner"}
    encoder = store.need_files(loaded, "encoder")
    assert (encoder / "1_Pooling" / "config.json").read_bytes() == b"" and json.loads(
        (encoder / "config.json").read_text()
    ) == {"dim": 2}
    assert sorted(path.name for path in encoder.iterdir()) == [
        "1_Pooling",
        "config.json",
        "model-00001-of-00002.safetensors",
    ]
    assert (store.need_files(loaded.parts["part"], "encoder") / "config.json").read_bytes() == b"inner"
    assert store.need_files(loaded, "words") != encoder


def test_only_a_model_with_files_needs_a_later_sylvan(tmp_path: Path) -> None:
    plain = State("example", 1, arrays={"a": np.arange(5)}, parts={"part": State("example-part", 1)})
    store.save(tmp_path / "plain", plain)
    found = store.contents(tmp_path / "plain")
    assert found["format_version"] == 1 and "files" not in found["model"]
    store.save(tmp_path / "files", example({}))  # a part alone has some
    store.annotate(tmp_path / "files", {"measured": 1})
    found = store.contents(tmp_path / "files")
    assert found["format_version"] == 2 and "files" not in found["model"]
    assert read(store.load(tmp_path / "files", mmap=False).parts["part"]) == {"encoder/config.json": b"inner"}


def test_a_replaced_model_leaves_nothing_and_an_own_folder_stays(folder: Path) -> None:
    (folder / "notes.20261121").mkdir()
    (folder / "notes.20261121" / "mine").write_text("mine")
    before = store.load(folder)
    store.save(folder, State("example", 1))
    assert sorted(os.listdir(folder)) == ["manifest.json", "notes.20261121"]
    with raises(ModelError, "config.json", "gone"):
        store.need_files(before, "encoder")
    store.save(folder, example())
    store.save(folder, store.load(folder))  # over itself
    assert read(store.load(folder, mmap=False)) == FILES


@pytest.mark.parametrize("name", [
    "", "config.json", "/etc/passwd", "../x/y", "a/../b", "a/..", "a/.", "a//b", "a/", "/a/b", "a/b/c/d", "a\\b/c",
    "a.b/c", "a/.hidden", "a/b.", "a/ü", "a/b c", "a/b\n", "a/b\0", "a/" + "x" * 101, "a" * 101 + "/x",
])  # fmt: skip
def test_names_that_no_file_may_have(name: str, tmp_path: Path) -> None:
    with raises(ModelError, "called"):
        store.save(tmp_path / "m", State("example", 1, files={name: b""}))
    assert os.listdir(tmp_path) == []


def test_sources_that_are_none(tmp_path: Path) -> None:
    def refuse(files: dict[str, Any], words: str) -> None:
        with raises(ModelError, words):
            store.save(tmp_path / "m", State("example", 1, files=files))
        assert not (tmp_path / "m").exists()

    refuse({"a/b": 3}, "path")
    refuse({"a/b": tmp_path / "nothing"}, "nothing")
    refuse({"a/b": tmp_path}, "file")
    refuse({"a/b": b"", "a/B": b""}, "capitals")
    refuse({"a/b": b"", "a/b/c": b""}, "name")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        refuse({"a/b": tmp_path / "pipe"}, "file")


def test_files_that_were_altered(folder: Path) -> None:
    def spoilt(data: bytes | None) -> State:
        store.save(folder, example())
        loaded = store.load(folder)
        path = store.need_files(loaded, "encoder") / "config.json"
        path.unlink() if data is None else path.write_bytes(data)
        return loaded

    def refused(loaded: State, at_load: object, at_use: object = None) -> None:
        with raises(ModelError, at_load):
            store.load(folder, mmap=False)
        with raises(ModelError, at_use or at_load):
            store.need_files(loaded, "encoder")

    refused(spoilt(b"{}"), ("config.json", 2, 10))
    refused(spoilt(b"x" * 11), ("config.json", 11))
    refused(spoilt(None), ("config.json", "missing"), "gone")
    loaded = spoilt(b'{"dim": 3}')
    store.load(folder)  # mapped, sizes alone are compared
    refused(loaded, ("config.json", "checksum"))
    with raises(ModelError, "decoder"):
        store.need_files(loaded, "decoder")


def test_a_file_that_the_manifest_does_not_name(folder: Path) -> None:
    loaded = store.load(folder)
    folder = store.need_files(loaded, "encoder")
    (folder / ".DS_Store").write_bytes(b"")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x").write_bytes(b"")
    assert store.need_files(loaded, "encoder") == folder
    (folder / "1_Pooling" / "adapter_config.json").write_bytes(b"{}")
    with raises(ModelError, "1_Pooling/adapter_config.json", "files"):
        store.need_files(loaded, "encoder")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda m, c: m.update(files=[]), ("model.files", "object")),
        (lambda m, c: m["files"].update({"../x/y": m["files"][CONFIG]}), "file"),
        (lambda m, c: m["files"][CONFIG].update(file="/etc/passwd"), ("model.files", "/etc/passwd")),
        (lambda m, c: m["files"][CONFIG].update(file="encoder/config.json"), "'encoder/config.json',"),
        (lambda m, c: m["files"][CONFIG].update(file="a.00000000.files/../config.json"), "../config.json"),
        (lambda m, c: m["files"][CONFIG].update(file="a.00000000.files/config.json"), "together"),
        (lambda m, c: m["files"][CONFIG].update(bytes="3"), ("bytes", "int")),
        (lambda m, c: m["files"][CONFIG].update(checksum="md5:1"), "checksum"),
        (lambda m, c: m["files"].update({CONFIG: 3}), "object"),
        (lambda m, c: m["files"].update({"words/config.json": m["files"][CONFIG]}), "name"),
        (lambda m, c: m["parts"]["part"].update(files=m["files"]), "name"),
        (lambda m, c: c.update(format_version=1), (1, "files")),
    ],
)
def test_manifests_that_lie_about_files(change: Any, fault: object, folder: Path) -> None:
    contents = store.contents(folder)
    change(contents["model"], contents)
    contents["checksum"] = manifest.checksum_of(contents)
    (folder / manifest.NAME).write_text(json.dumps(contents))
    with raises(ModelError, fault):
        store.load(folder)
