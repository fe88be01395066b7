"""What goes wrong with the Hub is a sentence: what it refuses, fails at, or hasn't got."""

import sys
from pathlib import Path
from typing import Any

import pytest
from hub_server import TEXTS, Hub
from kit.errors import raises

import sylvan
from sylvan import XRLinear
from sylvan.errors import HubError, ModelError, NotFittedError, ParameterError
from sylvan.hub import pull, push

NAME = "someone/books"
# What is done, a request that is answered with an error, its status, and a word of the sentence.
FAILING = {
    "no token that may create": (push, "POST", "/api/repos/create", 403, "token"),
    "a token to push that isn't one": (push, "POST", "/api/repos/create", 401, "HF_TOKEN"),
    "creating fails": (push, "POST", "/api/repos/create", 500, "Hub"),
    "a refused card": (push, "POST", "/api/validate-yaml", 400, "README.md"),
    "the list of files fails": (push, "GET", "/tree/", 502, "Hub"),
    "no right to write": (push, "POST", "/preupload/", 403, "token"),
    "git-lfs refuses": (push, "POST", "/info/lfs/objects/batch", 403, "token"),
    "the storage refuses": (push, "PUT", "/lfs/", 413, "Hub"),
    "another commit in between": (push, "POST", "/commit/", 409, "changed"),
    "another parent": (push, "POST", "/commit/", 412, "changed"),
    "the commit fails": (push, "POST", "/commit/", 500, "Hub"),
    "a token to pull that isn't one": (pull, "GET", "/api/models/", 401, "HF_TOKEN"),
    "forbidden": (pull, "GET", "/api/models/", 403, "token"),
    "the Hub fails": (pull, "GET", "/api/models/", 503, "Hub"),
    "an unknown status": (pull, "GET", "/api/models/", 418, "Hub"),
    "a file that is refused": (pull, "HEAD", "/resolve/", 403, "token"),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_is_a_sentence_and_changes_nothing(name: str, hub: Hub, saved: str, tmp_path: Path) -> None:
    act, method, pattern, status, word = FAILING[name]
    if act is pull:
        hub.publish(NAME, saved)
    elif "create" not in pattern:
        hub.repo(NAME)
    hub.signature = "?X-Amz-Signature=feedc0ffee"  # the right to write at the storage's addresses, in what follows
    before = {one: dict(repo.refs) for one, repo in hub.repos.items()}
    hub.fail(method, pattern, status, message="Invalid credentials in Authorization header" if status == 401 else "no")
    done = "pushed" if act is push else "downloaded"
    with raises(HubError, NAME, done, word if status == 400 else (word, status)) as caught:
        act(*((saved, NAME) if act is push else (NAME, tmp_path / "m")))
    said = str(caught.value)
    assert said.endswith(".") and "\n" not in said and "Traceback" not in said and "feedc0ffee" not in said
    assert ("/lfs/" in said) == (method == "PUT")
    assert {one: repo.refs for one, repo in hub.repos.items() if one in before} == before
    assert not (tmp_path / "m").exists()


def test_a_gated_repository(hub: Hub, saved: str) -> None:
    hub.publish(NAME, saved)
    hub.fail("GET", "/api/models/", 403, "GatedRepo", "Access to model someone/books is restricted")
    with raises(HubError, "access"):
        pull(NAME)


def test_a_repository_without_a_model(hub: Hub) -> None:
    hub.repo("someone/bert").commit({"config.json": b"{}", "pytorch_model.bin": b"\x80\x02."})
    with raises(ModelError, "manifest.json", "model"):
        pull("someone/bert")
    assert not hub.asked("resolve")


def test_a_repository_without_one_of_its_files(hub: Hub, saved: str) -> None:
    hub.publish(NAME, saved)
    files = dict(hub.files(NAME))
    gone = next(name for name in files if name.endswith(".npy"))
    del files[gone]
    hub.repos[NAME].commit(files)
    with raises(HubError, gone):
        pull(NAME)


@pytest.mark.filterwarnings("ignore:Not enough free disk space")
def test_no_room_on_the_disk(hub: Hub, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.publish(NAME, saved)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 100}))
    with raises(HubError, "6 kB", "0 kB"):
        pull(NAME)
    assert not hub.asked("GET .*npy")


def test_without_the_extra(hub: Hub, saved: str, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for act in (lambda: push(saved, NAME), lambda: pull(NAME), lambda: sylvan.from_pretrained(NAME)):
        with raises(ImportError, "huggingface_hub", "sylvan[hub]"):
            act()
    for words in (("push", saved, NAME), ("pull", NAME)):
        assert refused("sylvan[hub]", *words).endswith('Install it with: pip install "sylvan[hub]".\n')
    assert not hub.requests


def test_what_is_not_there_to_be_pushed(hub: Hub, saved: str, tmp_path: Path) -> None:
    with raises(ModelError, "folder"):
        push(tmp_path / "none", NAME)
    with pytest.raises(NotFittedError):
        XRLinear().push_to_hub(NAME)
    model = sylvan.load(saved, mmap=False)
    model.save(tmp_path / "m")
    path = next((tmp_path / "m").glob("*.npy"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with raises(ModelError, "checksum"):
        push(tmp_path / "m", NAME)
    with raises(ParameterError, "license", "''"):
        push(saved, NAME, license="")
    assert not hub.requests, "nothing was asked for a model that isn't pushed"
    assert model.rank(TEXTS[:1], k=1).names


def test_other_classes(saved: str) -> None:
    with raises(ModelError, "TextModel", "XRLinear", "sylvan.from_pretrained"):
        XRLinear.from_pretrained(saved)
