"""Ctrl-C ends a process that is deep inside a kernel, and leaves one that ends by itself alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sylvan.parallel import exit_on_interrupt

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")

# A hash of minutes stands for a kernel: it lets go of the GIL, and no signal handler of Python runs meanwhile.
_BUSY = """
import hashlib
from sylvan.parallel import exit_on_interrupt
with exit_on_interrupt(lambda: "Interrupted here.", 130):
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


@contextmanager
def running(program: str) -> Iterator[subprocess.Popen[str]]:
    """A child process, which ends with its test."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_busy_main_thread_is_ended_within_a_second() -> None:
    with running(_BUSY) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        _, errors = process.communicate(timeout=60)
        assert time.monotonic() - start < 2.0
    assert process.returncode == 130
    assert "Interrupted here." in errors


def test_the_interrupt_is_an_ordinary_one_where_python_can_raise_it() -> None:
    with pytest.raises(KeyboardInterrupt), exit_on_interrupt(lambda: "not said", 1, patience=5.0):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)


def test_other_threads_and_the_block_without_signals_are_left_alone() -> None:
    seen = []

    def run() -> None:
        with exit_on_interrupt(lambda: "", 1):
            seen.append(1)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    with exit_on_interrupt(lambda: "", 1):
        seen.append(2)
    assert seen == [1, 2]
    assert not [t for t in threading.enumerate() if t.name == "sylvan-interrupt"]


_ANSWERED = """
import hashlib, itertools
from sylvan.parallel import exit_on_interrupt
asked = itertools.count()
with exit_on_interrupt(lambda: "Interrupted here.", 130, answers=lambda: next(asked) == 0):
    answered = False
    while True:  # whenever an interrupt comes, it doesn't leave the block
        try:
            print("answered" if answered else "ready", flush=True)
            while True:  # each longer than the patience
                hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9 if answered else 4 * 10**6)
        except KeyboardInterrupt:
            answered = True
"""


def test_a_block_may_answer_the_first_interrupt_itself() -> None:
    with running(_ANSWERED) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "answered\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Interrupted here." in errors


_TOGETHER = """
import hashlib, itertools, os, signal
from sylvan.parallel import exit_on_interrupt
asked = itertools.count()
with exit_on_interrupt(lambda: "Interrupted here.", 130, answers=lambda: next(asked) == 0):
    told = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(told)
    os.write(told, bytes([signal.SIGINT, signal.SIGINT]))
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


def test_interrupts_that_are_heard_together_are_each_asked_about() -> None:
    with running(_TOGETHER) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Interrupted here." in errors
