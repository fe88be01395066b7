"""Commands of ``sylvan``, run in this process (fixtures that the conftest.py of a folder imports), and as others."""

import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import child_processes
import pytest

from sylvan.cli import main


class Outcome(NamedTuple):
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """An answer that is one document."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """An answer in JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def labels(self) -> list[list[Any]]:
        """The labels of each row of such an answer."""
        return [row["labels"] for row in self.rows]


@pytest.fixture
def place() -> Callable[[str], str]:
    """What {name} stands for in a line; a folder whose tests share files has its own."""
    return "{{{}}}".format


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: Callable[[str], str]
) -> Callable[..., Outcome]:
    """Run a command by its words, or as a line: ``call("predict", model, "-", stdin=b"...")``, ``call("demo -q")``.

    It has to end with ``code``, whatever that is if it is None, and never with a traceback.
    """

    def run(*words: str | Path, stdin: bytes | TextIO = b"", code: int | None = 0) -> Outcome:
        typed = list(map(str, words))
        if len(words) == 1:
            named = (re.split(r"\{(.*?)\}", word) for word in shlex.split(typed[0]))
            typed = ["".join(place(part) if n % 2 else part for n, part in enumerate(parts)) for parts in named]
        given = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))) if isinstance(stdin, bytes) else stdin
        monkeypatch.setattr(sys, "stdin", given)
        capsys.readouterr()
        outcome = Outcome(main(typed), *capsys.readouterr())
        assert code in (None, outcome.code), outcome
        assert "Traceback" not in outcome.err or "--debug" in typed, outcome
        assert "inside Sylvan" not in outcome.err or code == 1, outcome
        return outcome

    return run


@pytest.fixture
def refused(call: Callable[..., Outcome]) -> Callable[..., str]:
    """Run a command that is wrong: it ends with code 2, prints nothing but what it read, and says what is wrong.

    That is in these words, or in each of several: ``refused("no such folder", "predict", "nowhere", "-")``.
    """

    def run(said: str | tuple[str, ...], *words: str | Path, code: int = 2, **options: Any) -> str:
        outcome = call(*words, code=code, **options)
        assert outcome.out == "" or outcome.out.startswith("Read "), outcome
        sentence = outcome.err.strip().split("\n")[-1]
        assert sentence.startswith("Error: ") and sentence.endswith((".", "?", '"')), outcome
        missing = [each for each in ((said,) if isinstance(said, str) else said) if each not in outcome.err]
        assert not missing, outcome.err
        return outcome.err

    return run


@pytest.fixture(autouse=True)  # where it is imported
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in an empty folder, so that ``--model m`` is a new one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*words: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command as a process of its own, with pipes for its streams; it ends with the test."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return child_processes.start([sys.executable, "-m", "sylvan", *words], **{**streams, **options})
