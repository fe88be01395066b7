"""Models of strangers: whatever a repository holds, nothing is run, nothing outside is read, a sentence says why."""

import io
import json
import os
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import child_processes
import numpy as np
import pytest
from hub_server import LABELS, TEXTS, Hub
from kit.errors import raises

import sylvan
from sylvan import TextModel, XRLinear, store
from sylvan.errors import ModelError, SylvanError
from sylvan.hub import pull, push
from sylvan.hub.card import card_of
from sylvan.models.blocks import set_threads
from sylvan.store import manifest

NAME = "someone/books"
Change = Callable[[dict[str, bytes], Path], dict[str, bytes]]  # of the files; a place for what shouldn't be written


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


@pytest.fixture
def there(hub: Hub, saved: str) -> Callable[[dict[str, bytes | None]], None]:
    """The repository with some files changed, added or taken away."""
    hub.publish(NAME, saved)

    def change(files: dict[str, bytes | None]) -> None:
        merged = {**hub.files(NAME), **files}
        hub.repos[NAME].commit({name: data for name, data in merged.items() if data is not None})

    return change


def resealed(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A manifest that was changed by somebody who knows how its checksum is made."""
    contents = json.loads(data)
    change(contents["model"])
    contents["checksum"] = manifest.checksum_of(contents)
    return json.dumps(contents).encode()


def first_array(model: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = next(iter(model["parts"]["vectorizer"]["arrays"].values()))
    return entry


def refused(call: Callable[[], object], match: object) -> None:
    with raises(SylvanError, match) as caught:
        call()
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_pickles_are_neither_downloaded_nor_opened(hub: Hub, there: Any, tmp_path: Path) -> None:
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    names = ("model.pkl", "pytorch_model.bin", "x.npy", "vectorizer.joblib", "__init__.py")
    traps: dict[str, bytes | None] = dict.fromkeys(names, trap)
    there(traps)
    folder = sylvan.hub.pull(NAME)
    assert not set(traps) & set(os.listdir(folder))
    # One in the place of an array is refused by its first bytes.
    name = next(iter(store.files_of(folder)))
    there({name: trap})
    refused(lambda: pull(NAME), ".npy")
    assert not (tmp_path / "sprung").exists()


def in_array(data: Callable[[bytes, Path], bytes]) -> Change:
    """Another content of the first array."""

    def change(files: dict[str, bytes], place: Path) -> dict[str, bytes]:
        name = next(name for name in files if name.endswith(".npy"))
        return {name: data(files[name], place)}

    return change


def in_manifest(change: Callable[[dict[str, Any]], object]) -> Change:
    return lambda files, place: {"manifest.json": resealed(files["manifest.json"], change)}


def unsealed(change: Callable[[bytes], bytes]) -> Change:
    return lambda files, place: {"manifest.json": change(files["manifest.json"])}


def pickled(data: bytes, place: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Trap(place)], object), allow_pickle=True)
    return file.getvalue()


def later(data: bytes) -> bytes:
    return json.dumps({**json.loads(data), "format_version": 99, "sylvan_version": "7.3.1"}).encode()


HUGE = {"shape": [2**40], "bytes": 8 * 2**40 + 128}
OUTSIDE = ("../../a.npy", "/etc/passwd", "..\\a.npy", "a/../../b.npy", "C:a.npy")
# What somebody changed in a repository, and the sentence. git stores a link as a file that holds its target.
SPOILED: dict[str, tuple[Change, object]] = {
    "pickled objects": (in_array(pickled), "header"),
    "a link as array": (in_array(lambda data, _: b"../../../../etc/passwd"), ".npy"),
    "a link as manifest": (
        unsealed(lambda data: b"/etc/passwd"), ("manifest.json", "JSON", "line 1")),
    "another bit": (
        in_array(lambda data, _: data[:-1] + bytes([data[-1] ^ 1])), "checksum"),
    "another parameter": (
        unsealed(lambda data: data.replace(b'"beam": 10', b'"beam": 11')), ("altered", "written")),
    "a kind of model that this release doesn't know": (
        in_manifest(lambda model: model.update(kind="os-system")),
        "os-system"),
    "a later Sylvan": (unsealed(later), "Sylvan 7.3"),
    "a huge shape": (
        in_manifest(lambda model: first_array(model).update(HUGE)), "free"),
    "a huge shape of few bytes": (
        in_manifest(lambda model: first_array(model).update(shape=HUGE["shape"])),
        "(1099511627776,)"),
} | {
    f"a file outside: {name}": (
        in_manifest(lambda model, name=name: first_array(model).update(file=name)),
        repr(name))
    for name in OUTSIDE
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILED)
def test_what_is_spoiled_is_refused(case: str, hub: Hub, there: Any, tmp_path: Path) -> None:
    change, sentence = SPOILED[case]
    there(change(hub.files(NAME), tmp_path / "sprung"))
    asked = len(hub.asked(r"resolve/.*npy"))
    refused(lambda: pull(NAME, tmp_path / "m"), sentence)
    assert list(tmp_path.glob("[ms]*")) == []
    if "outside" in case:
        assert len(hub.asked(r"resolve/.*npy")) == asked, "nothing is asked for before the manifest is sound"


def test_links_out_of_the_cache(hub: Hub, there: Any, tmp_path: Path) -> None:
    folder = Path(pull(NAME))
    path = next(folder.glob("*.npy"))
    (tmp_path / "secret.npy").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(tmp_path / "secret.npy")
    refused(lambda: sylvan.from_pretrained(NAME), "link")
    refused(lambda: push(folder, "someone/other"), "link")
    assert "someone/other" not in hub.repos


def test_links_out_of_a_folder_are_not_pushed(hub: Hub, saved: str, tmp_path: Path) -> None:
    """What somebody else has packed would have files of this machine published."""
    TextModel.from_pretrained(saved).save(tmp_path / "m")
    (tmp_path / "m" / "README.md").symlink_to("/etc/hostname")
    refused(lambda: push(tmp_path / "m", NAME), ("README.md", "etc/hostname"))
    (tmp_path / "m" / "README.md").unlink()
    path = next((tmp_path / "m").glob("*.npy"))
    path.rename(tmp_path / "moved.npy")
    path.symlink_to(tmp_path / "moved.npy")
    refused(lambda: push(tmp_path / "m", NAME), "link")
    assert sylvan.load(tmp_path / "m").rank(TEXTS[:1], k=1).names, "opened, a link is what it leads to"
    assert not hub.requests


@pytest.fixture(scope="module")
def with_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with an encoder of a few weights."""
    pytest.importorskip("torch")
    from sylvan import XRTransformer
    from sylvan.neural import BagTextEncoder

    encoder = BagTextEncoder(dim=3, n_buckets=8)
    ranker = XRLinear(branching=3, max_leaf=2)
    model = XRTransformer(encoder, preset="tiny", frozen=True, ranker=ranker, device="cpu", n_jobs=1)
    folder = tmp_path_factory.mktemp("encoder") / "m"
    model.fit(TEXTS, LABELS).set_params(encoder="bag").save(folder)
    return folder


def test_a_model_that_needs_torch_says_so(hub: Hub, with_encoder: Path, tmp_path: Path) -> None:
    push(with_encoder, NAME)
    needs = 'Its text encoder needs PyTorch: pip install "sylvan[transformers]".'
    assert needs in hub.files(NAME)["README.md"].decode()
    code = (
        "import sys; sys.modules['torch'] = None; import sylvan; model = sylvan.load(sys.argv[1])\n"
        "try: model.rank(['a whale'], k=1)\n"
        "except ImportError as error: print(error)"
    )
    folder = pull(NAME, tmp_path / "pulled")
    found = child_processes.python("-c", code, folder)
    assert found.stdout.strip().endswith('needs PyTorch. Install it with: pip install "sylvan[neural]"'), found.stderr
    assert sylvan.load(folder).rank(["a whale"], k=1).names


def test_its_card_shows_what_it_has_learned(with_encoder: Path) -> None:
    model = sylvan.load(with_encoder)
    card = card_of(store.load(with_encoder), model, str(with_encoder))
    assert {"vectorizer", "ranker"} <= {part.path for part in card.parameters}
    assert [tree.path for tree in card.trees] == ["ranker.tree0"]


def test_threads_leave_the_usual_parts_to_the_preset(with_encoder: Path) -> None:
    model = sylvan.load(with_encoder)
    set_threads(model, 3)
    assert (model.n_jobs, model.vectorizer, model.ranker.n_jobs) == (3, None, 3)


def test_an_encoder_that_is_not_there(hub: Hub, with_encoder: Path) -> None:
    hub.publish(NAME, with_encoder)
    files = dict(hub.files(NAME))
    config = next(name for name in files if name.endswith("config.json"))
    hub.repos[NAME].commit({name: data for name, data in files.items() if name != config})
    refused(lambda: pull(NAME), "missing")

    def without(model: dict[str, Any]) -> None:
        model["files"].pop("encoder/config.json")

    hub.repos[NAME].commit({**files, "manifest.json": resealed(files["manifest.json"], without)})
    refused(lambda: pull(NAME), ("encoder/config.json", "xr-transformer"))


def test_a_checksum_is_no_seal(hub: Hub, there: Any, saved: str) -> None:
    """Who can write a repository can write a matching manifest: what they get is other numbers, no more."""
    name = next(n for n in hub.files(NAME) if n.startswith("vectorizer.") and n.endswith(".npy"))
    data = hub.files(NAME)[name]
    altered = data[:-4] + b"\xff\xff\xff\x7f"

    def sealed(model: dict[str, Any]) -> None:
        for entry in model["parts"]["vectorizer"]["arrays"].values():
            if entry["file"] == name:
                entry["checksum"] = f"crc32:{zlib.crc32(altered):08x}"

    there({name: altered, "manifest.json": resealed(hub.files(NAME)["manifest.json"], sealed)})
    try:
        sylvan.from_pretrained(NAME).rank(TEXTS[:2], k=2)
    except ModelError as error:
        assert str(error).endswith(".")
