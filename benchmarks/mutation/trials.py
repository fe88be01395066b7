"""A copy of the repository in which tests run against one mutant after the other."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutation.reach import Choice, Tracer

__all__ = ["Copy"]

COPIED = ("src", "tests", "benchmarks", "pyproject.toml", "README.md", "docs", "examples", "tools")
# Imported once, before the fork: what the tests import and no mutant changes.
LIBRARIES = ("numpy", "scipy.sparse", "scipy.optimize", "torch", "pytest", "hypothesis", "sklearn.base", "pandas")
PASSED, FAILED = 0, 1  # of pytest


class _NoShrinking:
    """A plugin of pytest: that some example fails is enough, and looking for the smallest one takes minutes."""

    def pytest_configure(self) -> None:
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile(
            "trial", settings.default, phases=[Phase.explicit, Phase.generate], database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        settings.load_profile("trial")


class _Chosen:
    """A plugin of pytest: the tests of a choice, in its order, each with a limit of CPU time of its own."""

    def __init__(self, choice: Choice) -> None:
        self.seconds, self.left_out, self.slow = choice.seconds, choice.left_out, choice.slow

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """New tests first, which no choice knows."""
        order = {name: number for number, name in enumerate(self.seconds)}
        items[:] = [item for item in items if item.nodeid not in self.left_out]
        items.sort(key=lambda item: order.get(item.nodeid, -1))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A mutant that loops for ever is ended by SIGXCPU."""
        limit = time.process_time() + 3 * self.seconds.get(item.nodeid, 100 if self.slow else 10) + 8
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), resource.RLIM_INFINITY))


class Copy:
    """A copy of the repository.

    Tests run in forks of this process, which has loaded the libraries: that saves most of the seconds that a small
    test file takes.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        ignored = shutil.ignore_patterns("__pycache__", "results", ".hypothesis")
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name, ignore=ignored)
            else:
                shutil.copy2(root / name, folder / name)
        for name in LIBRARIES:
            importlib.import_module(name)

    def trace(self, tests: Sequence[str], out: Path, wall_seconds: float) -> None:
        """Run test files whole, and write what :class:`Reach` reads."""
        _, output = self._forked(tests, wall_seconds, lambda: Tracer(self.folder, out, tests), keep_bytecode=True)
        assert out.exists(), output[-2000:]

    def run(self, choice: Choice, wall_seconds: float, fault: tuple[str, str] | None = None) -> dict[str, Any]:
        """Run tests, until one fails, with ``fault`` (a source's path and its text) in the source's place.

        Returns
        -------
        dict
            ``result`` ("survived", "killed" or "timed out"), the failed test as ``by``, and the CPU ``seconds``.
        """
        path = self.folder / (fault[0] if fault else choice.files[0])
        text, times = path.read_text("utf-8"), (path.stat().st_atime, path.stat().st_mtime)
        if fault:
            path.write_text(fault[1], "utf-8")
        try:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            code, output = self._forked(choice.files, wall_seconds, lambda: _Chosen(choice), keep_bytecode=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        finally:
            path.write_text(text, "utf-8")
            os.utime(path, times)  # so that its compiled code counts as current again
        by = next((line.split()[1] for line in output.splitlines() if line.startswith(("FAILED", "ERROR "))), "")
        if code == PASSED:
            result = "survived"
        elif code in (-signal.SIGXCPU, -signal.SIGKILL) or "+ Timeout +" in output:
            result = "timed out"
        else:
            result = "killed"
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"result": result, "by": by, "seconds": round(seconds, 1)}

    def _forked(
        self, tests: Sequence[str], wall_seconds: float, plugin: Callable[[], object], keep_bytecode: bool
    ) -> tuple[int, str]:
        """The exit status and the output of pytest in a fork of this process."""
        out = self.folder / "output.txt"
        child = os.fork()
        if not child:
            self._child(tests, out, plugin, keep_bytecode)
        status, waited = _wait(child, time.monotonic() + wall_seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if not waited:
            os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status) if waited else -signal.SIGKILL
        return code, out.read_text("utf-8", errors="replace")

    def _child(self, tests: Sequence[str], out: Path, plugin: Callable[[], object], keep_bytecode: bool) -> None:
        """Becomes a pytest run in the copy, and ends with its exit status."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with out.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(self.folder)
        own = [str(self.folder / "src"), str(self.folder), str(self.folder / "tests")]
        sys.path[:] = own + [place for place in sys.path if place and not Path(place).is_relative_to(self.root)]
        os.environ["PYTHONPATH"] = os.pathsep.join(own)
        os.environ["PYTHONDONTWRITEBYTECODE"] = "" if keep_bytecode else "1"
        sys.dont_write_bytecode = not keep_bytecode
        code = FAILED
        try:
            added = plugin()
            for name in [name for name in sys.modules if name.partition(".")[0] in ("sylvan", "benchmarks", "tests")]:
                del sys.modules[name]
            marks = "not release" if isinstance(added, _Chosen) and added.slow else "not release and not slow"
            quiet = ["-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-m", marks]
            quiet += ["-x"] if isinstance(added, _Chosen) else []
            code = int(pytest.main([*quiet, *tests], plugins=[_NoShrinking(), added]))
        finally:
            sys.stdout.flush()
            os._exit(code)


def _wait(child: int, until: float) -> tuple[int, bool]:
    """The exit status of a process, and whether it ended in time."""
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status, True
        time.sleep(0.05)
    return 0, False
