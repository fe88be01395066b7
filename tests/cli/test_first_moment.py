"""Ctrl-C while the library itself is still being loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import child_processes
import pytest
from waiting import PATIENCE

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")

# What goes on when it is told to.
ASKING = (
    "import os, sys\nprint('importing', flush=True)\nsys.stdin.readline()\nos.write(1, b'went on\\n')\nos._exit(7)\n"
)
PIPE = subprocess.PIPE
COMMAND = "import sys; from sylvan_command import main; sys.argv[0] = 'sylvan'; sys.exit(main())"
# What hangs while NumPy, the first thing that the library needs, is imported, as a slow disk would make it.
SLOW = "import sys, time\nprint('importing', flush=True)\ntime.sleep(600)\n"
# As modules in C do that are interrupted.
SWALLOWING = (
    "import time\nprint('importing', flush=True)\n"
    "try:\n    time.sleep(600)\nexcept KeyboardInterrupt as error:\n    raise ImportError('initialization failed')\n"
)


@contextmanager
def loading(tmp_path: Path, module: str, before: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A command that waits in the import of a module."""
    (tmp_path / "numpy.py").write_text(module)
    environment = child_processes.environment(tmp_path)
    command = [sys.executable, "-c", f"import signal; {before}\n{COMMAND}", "inspect", "no-model"]
    process = child_processes.start(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"importing\n"
        yield process
    finally:
        child_processes.end(process)


AS_IN_A_TERMINAL = "signal.signal(signal.SIGINT, signal.default_int_handler)"


@pytest.mark.parametrize("module", [SLOW, SWALLOWING], ids=["slow", "swallowing"])
def test_an_interrupt_in_the_first_moment_is_a_sentence(module: str, tmp_path: Path) -> None:
    with loading(tmp_path, module, AS_IN_A_TERMINAL) as process:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (1, b"Interrupted; nothing was written.\n")


def test_a_command_that_ignores_interrupts_goes_on_ignoring_them(tmp_path: Path) -> None:
    with loading(tmp_path, ASKING, "signal.signal(signal.SIGINT, signal.SIG_IGN)") as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(b"go on\n", timeout=PATIENCE)
    assert (process.returncode, out, err) == (7, b"went on\n", b"")


def test_afterwards_the_command_answers_itself() -> None:
    check = (
        "import signal, sys, sylvan_command, sylvan.cli; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "sylvan.cli.main = lambda: print(signal.getsignal(signal.SIGINT) is signal.default_int_handler) or 5; "
        "sys.exit(sylvan_command.main())"
    )
    done = child_processes.python("-c", check)
    assert (done.returncode, done.stdout, done.stderr) == (5, "True\n", "")
