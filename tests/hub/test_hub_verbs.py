"""``sylvan push`` and ``sylvan pull``: what they print, ask and refuse, with never a traceback."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hub_server import Hub

import sylvan
from sylvan.cli import main
from sylvan.hub import push

NAME = "someone/books"
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_push_and_pull(call: Call, hub: Hub, saved: str, tmp_path: Path) -> None:
    code, out, err = call("push", saved, NAME, "--license", "mit", "--message", "The first")
    commit = hub.repos[NAME].refs["main"]
    assert (code, out) == (0, f"{hub.url}/{NAME}/commit/{commit}\n")
    assert err == f"Pushed {saved} to someone/books, commit {commit}.\n"
    assert hub.repos[NAME].messages[-1] == "The first"
    folder = str(tmp_path / "m")
    code, out, err = call("pull", NAME, folder)
    assert (code, out) == (0, f"{folder}\n") and err.startswith(f"Pulled someone/books, commit {commit} (")
    code, out, err = call("inspect", folder)
    assert code == 0 and err == "" and f"From someone/books on the Hugging Face Hub, commit {commit}." in out
    code, out, err = call("inspect", folder, "--card", "-q")
    assert code == 0 and (tmp_path / "m" / "README.md").read_text().startswith("---\nlibrary_name: sylvan\n")
    code, out, err = call("pull", f"{NAME}@{commit}", "-q")
    assert code == 0 and err == "" and isinstance(sylvan.load(out.strip()), sylvan.TextModel)


def test_the_license_is_asked_for(call: Call, hub: Hub, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = call("push", saved, NAME)
    assert code == 0 and err.startswith("The card names no license: give one with --license.\n")
    monkeypatch.setattr(sys, "stdin", Terminal("apache-2.0\n"))
    code, _, err = call("push", saved, NAME)
    assert code == 0 and "License of the model" in err and b"license: apache-2.0\n" in hub.files(NAME)["README.md"]
    monkeypatch.setattr(sys, "stdin", Terminal("\n"))
    code, _, _ = call("push", saved, NAME)
    assert code == 0 and b"license" not in hub.files(NAME)["README.md"].split(b"---")[1]


def test_private_and_branches(call: Call, hub: Hub, saved: str) -> None:
    assert call("push", saved, NAME, "--private", "--revision", "v2", "-q")[0] == 0
    assert hub.repos[NAME].private and set(hub.repos[NAME].refs) == {"main", "v2"}
    assert call("pull", NAME, "--revision", "v2", "-q")[0] == 0
    code, _, err = call("pull", NAME)
    assert (code, err) == (2, "Error: someone/books holds no Sylvan model: it has no manifest.json.\n")


def test_errors_are_sentences(call: Call, hub: Hub, saved: str, tmp_path: Path) -> None:
    push(saved, NAME)
    for words, code, sentence in (
        (("push", saved, "books"), 2, "is called 'owner/name'"),
        (("push", str(tmp_path / "none"), NAME), 2, "there is no such folder"),
        (("pull", "someone/none"), 1, "has no such model"),
        (("pull", NAME, saved + "/manifest.json"), 2, "is a file, not a folder"),
        (("pull", f"{NAME}@v7"), 1, "has no revision 'v7'"),
        (("pull",), 2, "Missing argument"),
    ):
        found, out, err = call(*words)
        assert (found, out) == (code, "") and err.startswith("Error: ") and err.count("\n") == 1, (words, err)
        assert sentence in err, (words, err)


def test_without_the_extra(call: Call, hub: Hub, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for words in (("push", saved, NAME), ("pull", NAME)):
        code, _, err = call(*words)
        assert code == 2 and err.endswith('Install it with: pip install "sylvan[hub]".\n'), err


def test_a_model_of_the_hub_answers(call: Call, hub: Hub, saved: str, tmp_path: Path) -> None:
    commit = push(saved, NAME).revision
    (tmp_path / "texts.txt").write_text("whale hunting\n")
    for source in (f"hf://{NAME}", f"hf://{NAME}@{commit}"):
        code, out, _ = call("predict", source, str(tmp_path / "texts.txt"), "-k", "1", "-q")
        assert code == 0 and '"whaling"' in out
    code, _, err = call("predict", "hf://books", str(tmp_path / "texts.txt"), "-q")
    assert code == 2 and "is called 'owner/name'" in err
