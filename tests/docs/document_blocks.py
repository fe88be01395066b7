"""The code blocks of a Markdown file, and how they are run: in order, in one folder, as a reader would."""

import contextlib
import io
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from child_processes import environment, run

_FENCE = re.compile(r"^```(\w*)\s*$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_DECIMAL = r"\d[\d,]*\.\d+(?!\.\d)(?:e[+-]?\d+)?"  # no version either
_RELATIVE, _LAST_PLACES = 0.03, 2.0  # of a decimal that another processor prints, which rounds differently


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the line that its text begins on, and why it isn't run, if it isn't."""

    language: str
    text: str
    line: int
    not_run: str | None
    prints: str | None = None


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a file; a ``text`` block headed by ``<!-- prints -->`` belongs to the one before."""
    lines = path.read_text("utf-8").split("\n")
    found: list[Block] = []
    before = ""
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if not fence:
            before = lines[at] or before
            at += 1
            continue
        end = next(i for i in range(at + 1, len(lines)) if lines[i] == "```")
        text = "\n".join(lines[at + 1 : end]) + "\n"
        if before == "<!-- prints -->":
            last = found[-1]
            found[-1] = Block(last.language, last.text, last.line, last.not_run, text)
        else:
            marker = _NOT_RUN.match(before)
            found.append(Block(fence[1], text, at + 1, marker[1] if marker else None))
        before = ""
        at = end + 1
    return found


def run_all(path: Path, commands: str) -> None:
    """Run a file's Python and shell blocks in the current folder; what they print is compared with the text."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(path):
        if block.not_run or block.language not in ("python", "sh"):
            continue
        where = f"{path.name}, line {block.line}"
        try:
            said = _python(block, path, names) if block.language == "python" else _shell(block, commands)
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        if block.prints is not None:
            assert prints_same(block.prints, said), f"{where} is said to print\n{block.prints}\nbut prints\n{said}"


def prints_same(shown: str, said: str) -> bool:
    """Whether what a document shows is what a block has said: blanks count as one, ``...`` stands for anything, a
    decimal for one that is nearly the same, and seconds for any other seconds."""
    shown = re.sub(r"\b[\d.]+(?= s\b)", "...", shown)
    parts = re.split(rf"(\.\.\.|(?<![\w.]){_DECIMAL}|\s+)", shown.strip())
    forms = [_form(part) for part in parts]
    match = re.fullmatch("".join(forms), said.strip(), re.DOTALL)
    if match is None:
        return False
    pairs = zip((part for part in parts if re.fullmatch(_DECIMAL, part)), match.groups(), strict=True)
    return all(abs(_number(one) - _number(other)) <= _tolerance(one) for one, other in pairs)


def _form(part: str) -> str:
    if part == "...":
        return ".*?"
    if part.isspace():
        return r"\s+"
    return rf"({_DECIMAL})" if re.fullmatch(_DECIMAL, part) else re.escape(part)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _tolerance(text: str) -> float:
    places = len(text.partition("e")[0].partition(".")[2])
    return max(_RELATIVE * abs(_number(text)), _LAST_PLACES * 10.0**-places * (1 + 1e-9))


def _python(block: Block, path: Path, names: dict[str, Any]) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        # Empty lines make the line numbers those of the file; this file's __future__ imports aren't the reader's.
        exec(compile("\n" * block.line + block.text, str(path), "exec", dont_inherit=True), names)
    return said.getvalue()


def _shell(block: Block, commands: str) -> str:
    path = commands + os.pathsep + os.environ.get("PATH", "")
    done = run(["bash", "-euo", "pipefail", "-c", block.text], env=environment(PATH=path))
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return done.stdout


def has_shell() -> bool:
    """Whether the shell blocks can be run here."""
    return os.name == "posix" and shutil.which("bash") is not None


def documents(root: Path) -> Iterator[Path]:
    """Every document whose blocks are run."""
    yield root / "README.md"
    yield root / "CONTRIBUTING.md"
    yield from sorted((root / "docs").rglob("*.md"))
