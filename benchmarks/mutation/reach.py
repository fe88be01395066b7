"""Which tests run which lines, so that a mutant meets first the tests that reach it, the quickest of them first."""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutation.areas import tests_of

__all__ = ["DEFINITIONS", "Choice", "Reach", "Tracer"]

DEFINITIONS = "tests/architecture/test_defaults.py"  # notices what is wrong in a definition that has run at import
_STEPS = (0.3, 3.0)  # CPU seconds: all quick tests run before the first slow one, those of a file together


@dataclass(frozen=True)
class Choice:
    """Tests for one mutant.

    Attributes
    ----------
    files : list of str
        The test files that are collected.
    seconds : dict
        The tests that run, in this order, and the CPU seconds of each where nothing is wrong.
    left_out : frozenset of str
        Tests of these files that don't run. Those that are in neither are new, and run first.
    slow : bool
        Whether tests run that are marked as slow; they count as new.
    """

    files: list[str]
    seconds: dict[str, float]
    left_out: frozenset[str]
    slow: bool = False


class Reach:
    """What runs of a :class:`Tracer` found, a file each."""

    def __init__(self, root: Path, traces: Path) -> None:
        self.root, self.traces = root, traces
        self.seconds: dict[str, float] = {}  # of the tests that passed
        self.others: set[str] = set()  # that failed or were skipped where nothing was wrong
        self._lines: dict[str, dict[int, set[str]]] = {}
        self._sources: list[tuple[str, str]] = []  # paths and digests
        self._files: dict[str, str] = {}  # digests of the test files
        for path in sorted(traces.glob("*.json")):
            self._take(path)

    def _take(self, path: Path) -> None:
        traced = json.loads(path.read_text())
        self.seconds |= traced["seconds"]
        self.others |= set(traced["others"])
        self._sources += traced["sources"].items()
        self._files |= traced["files"]
        names = [*traced["seconds"], *traced["others"]]
        for source, lines in traced["lines"].items():
            reached = self._lines.setdefault(source, {})
            for line, tests in lines.items():
                reached.setdefault(int(line), set()).update(names[test] for test in tests)

    def missing(self, files: Sequence[str]) -> list[str]:
        """The test files that no run has traced."""
        return [file for file in dict.fromkeys(files) if file not in self._files]

    def choose(self, path: str, line: int, most_seconds: float) -> Choice:
        """The tests that reach the statement of a line, of a condition those first for which it holds, then the others
        of their files, until ``most_seconds``.

        What runs at import only, and a source that has changed since, is taken as reached by whatever reaches the file.
        Tests of files that reach the source, or should notice its faults, and have changed since come first.
        """
        source = self.root / path
        lines, (wanted, body) = self._lines.get(path, {}), _statement(source.read_text("utf-8"), line)
        reached = set().union(*(lines.get(number, set()) for number in wanted))
        inside = lines.get(body, set())
        at_import = {name for name in self.seconds if _file(name) == DEFINITIONS} if not reached else set()
        if not reached or (path, _digest(source)) not in self._sources:
            reached = set().union(*lines.values())
        near = {_file(name) for tests in lines.values() for name in tests}
        listed = {file for file in tests_of(path) if (self.root / file).exists()}
        changed = sorted(file for file in near | listed if self._files.get(file) != _digest(self.root / file))
        altered = {name for name in self.seconds if _file(name) in changed}
        direct = ((reached | altered) & self.seconds.keys()) - at_import
        files = {_file(name) for name in direct}
        beside = {name for name in self.seconds if _file(name) in files} - direct
        chosen = {name: self.seconds[name] for name in at_import}
        room = f"tests/{path.split('/')[2]}/"
        others = sorted(beside, key=lambda name: (not name.startswith(room), *self._place(name)))
        first = sorted(direct, key=lambda name: (name not in altered, name not in inside, *self._place(name)))
        for name in [*first, *others]:
            if sum(chosen.values()) + self.seconds[name] <= most_seconds:
                chosen[name] = self.seconds[name]
        collected = list(dict.fromkeys([*changed, *map(_file, chosen)]))
        return Choice(collected, chosen, frozenset(self.others | (self.seconds.keys() - chosen.keys())))

    def traced(self, name: str) -> bool:
        """Whether a test is as it was traced."""
        file = _file(name)
        return name in self.seconds and self._files.get(file) == _digest(self.root / file)

    def _place(self, name: str) -> tuple[int, str, float]:
        seconds = self.seconds[name]
        return sum(seconds > step for step in _STEPS), _file(name), seconds


class Tracer:
    """A plugin of pytest that writes the lines of a package that each test runs, and its CPU seconds."""

    def __init__(self, root: Path, out: Path, files: Sequence[str]) -> None:
        from coverage import Coverage

        self.root, self.out, self.files = root, out, files
        self.seconds: dict[str, float] = {}
        self.others: set[str] = set()
        self.coverage = Coverage(data_file=None, config_file=False, include=[f"{root}/src/*"], messages=False)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """A test with its fixtures is a context of coverage."""
        before = sum(os.times()[:4])
        self.coverage.switch_context(item.nodeid)
        answer = yield
        self.coverage.switch_context("")
        self.seconds[item.nodeid] = round(sum(os.times()[:4]) - before, 3)
        return answer

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tests that don't pass can't notice anything."""
        if not report.passed:
            self.others.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Writes what :class:`Reach` reads."""
        self.coverage.stop()
        data, sources = self.coverage.get_data(), sorted((self.root / "src").rglob("*.py"))
        passed = [name for name in self.seconds if name not in self.others]
        numbers = {name: number for number, name in enumerate([*passed, *sorted(self.others)])}
        lines = {
            str(source.relative_to(self.root)): {
                line: tests
                for line, names in data.contexts_by_lineno(str(source)).items()
                if (tests := [numbers[name] for name in names if name in numbers])
            }
            for source in sources
        }
        traced = {
            "seconds": {name: self.seconds[name] for name in passed}, "others": sorted(self.others), "lines": lines,
            "files": {file: _digest(self.root / file) for file in self.files},
            "sources": {path: _digest(self.root / path) for path in lines},
        }  # fmt: skip
        self.out.write_text(json.dumps(traced))


def _statement(source: str, line: int) -> tuple[range, int]:
    """The lines of the smallest statement with a line, of a block only its head, of a definition none; and where the
    block begins."""
    smallest, begins = range(line, line + 1), line
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or 0
            if line <= last:
                defined = isinstance(node, (ast.FunctionDef, ast.ClassDef))
                smallest = range(0) if defined else range(node.lineno, last + 1)
                begins = body[0].lineno if body else line
    return smallest, begins


def _file(name: str) -> str:
    return name.partition("::")[0]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""
