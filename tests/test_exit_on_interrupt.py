"""Ctrl-C ends a process that is deep inside a kernel, and leaves one that ends by itself alone."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from child_processes import start
from waiting import PATIENCE, until, used_seconds

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


def running(program: str) -> subprocess.Popen[str]:
    """A child process, which ends with its test."""
    pipe = subprocess.PIPE
    return start([sys.executable, "-c", program], stdout=pipe, stderr=pipe, encoding="utf-8")


def test_a_busy_main_thread_is_ended_within_a_second() -> None:
    """Of its work; its hash alone takes minutes."""
    process = running(_BUSY)
    assert process.stdout is not None
    process.stdout.readline()
    before, begun = os.times().children_user, used_seconds(process.pid)
    until(lambda: used_seconds(process.pid) > begun + 0.1, "it doesn't work")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert os.times().children_user - before - begun < 2.5
    assert process.returncode == 130
    assert "Interrupted here." in errors


def test_the_interrupt_is_an_ordinary_one_where_python_can_raise_it() -> None:
    with pytest.raises(KeyboardInterrupt), exit_on_interrupt(lambda: "not said", 1, patience=PATIENCE):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(PATIENCE)


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
    process = running(_ANSWERED)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "answered\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
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
    process = running(_TOGETHER)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "Interrupted here." in errors
