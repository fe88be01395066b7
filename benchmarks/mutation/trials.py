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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["Copy"]

COPIED = ("src", "tests", "benchmarks", "pyproject.toml", "README.md", "docs", "examples", "tools")
# Imported once, before the fork: what the tests import and no mutant changes.
PRELOADED = ("numpy", "scipy.sparse", "scipy.optimize", "torch", "pytest", "hypothesis", "sklearn.base")
PASSED, FAILED = 0, 1


class _NoShrinking:
    """A plugin of pytest: that some example fails is enough, and looking for the smallest one takes minutes."""

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        settings.register_profile("trial", settings.default, phases=[Phase.explicit, Phase.generate], database=None)
        settings.load_profile("trial")


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
        for name in PRELOADED:
            importlib.import_module(name)

    def run(
        self, tests: Sequence[str], cpu_seconds: float, wall_seconds: float, fault: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Run test files, until one fails, with ``fault`` (a source's path and its text) in the source's place.

        Returns
        -------
        dict
            ``result`` ("survived", "killed" or "timed out"), the failed test as ``by``, and the CPU ``seconds``.
        """
        if fault is None:
            return self._forked(tests, cpu_seconds, wall_seconds, keep_bytecode=True)
        path = self.folder / fault[0]
        text, times = path.read_text("utf-8"), (path.stat().st_atime, path.stat().st_mtime)
        path.write_text(fault[1], "utf-8")
        try:
            return self._forked(tests, cpu_seconds, wall_seconds, keep_bytecode=False)
        finally:
            path.write_text(text, "utf-8")
            os.utime(path, times)  # so that its compiled code counts as current again

    def _forked(
        self, tests: Sequence[str], cpu_seconds: float, wall_seconds: float, keep_bytecode: bool
    ) -> dict[str, Any]:
        out = self.folder / "output.txt"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = os.fork()
        if not child:
            self._child(tests, out, cpu_seconds, keep_bytecode)
        status, waited = _wait(child, time.monotonic() + wall_seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if not waited:
            os.waitpid(child, 0)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        output = out.read_text("utf-8", errors="replace")
        code = os.waitstatus_to_exitcode(status) if waited else -signal.SIGKILL
        by = next((line.split()[1] for line in output.splitlines() if line.startswith(("FAILED", "ERROR "))), "")
        if code == PASSED:
            result = "survived"
        elif code in (-signal.SIGXCPU, -signal.SIGKILL) or "+ Timeout +" in output:
            result = "timed out"
        else:
            result = "killed"
        return {"result": result, "by": by, "seconds": round(seconds, 1)}

    def _child(self, tests: Sequence[str], out: Path, cpu_seconds: float, keep_bytecode: bool) -> None:
        """Becomes a pytest run in the copy, and ends with its exit status."""
        os.setsid()
        limit = int(cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
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
        for name in [name for name in sys.modules if name.partition(".")[0] in ("sylvan", "benchmarks", "tests")]:
            del sys.modules[name]
        code = FAILED
        try:
            import pytest

            quiet = ["-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider"]
            code = int(pytest.main([*quiet, *tests], plugins=[_NoShrinking()]))
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
