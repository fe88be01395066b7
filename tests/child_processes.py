"""Processes that tests start: each in a session of its own, and none outlives its test.

``start`` begins a process, ``run`` waits for its end, and ``forked`` forks. What a test starts while it runs is killed
when it ends, with all that it has started itself; what a fixture starts, it ends by ``end``. ``tests/conftest.py`` sees
to it, and to what is left at the end of a session (``leftovers``). If pytest itself is killed, ``child_guard`` ends its
children.
"""

import os
import secrets
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import child_guard
from waiting import PATIENCE, alive

import sylvan

SOURCE = str(Path(sylvan.__file__).parent.parent)
_MARK = f"{os.getpid()}-{secrets.token_hex(8)}"


@dataclass(frozen=True)
class _Group:
    """A group of processes, whose leader was started or, without a process, forked."""

    process: subprocess.Popen[Any] | None
    lasting: bool


_groups: dict[int, _Group] = {}  # those that haven't been ended, by their leader
_guards: list[subprocess.Popen[bytes]] = []  # the one of this process, once it has started others


def environment(*places: str | Path, **more: str) -> dict[str, str]:
    """The environment of a Python process that imports this package, and modules that lie in ``places``."""
    path = [*map(str, places), SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **more}


def start(
    command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, lasting: bool = False, **options: Any
) -> subprocess.Popen[Any]:
    """Start a process; options are those of ``subprocess.Popen``, and ``env`` is ``environment()`` unless given.

    It leads a session of its own: signals that are sent to pytest's group don't reach it, and its whole group can be
    ended. One that is ``lasting`` isn't ended with the test that starts it: whoever starts it calls ``end``.
    """
    given = {**(environment() if env is None else env), child_guard.MARK: _MARK}
    process = subprocess.Popen(list(map(os.fspath, command)), env=given, start_new_session=True, **options)
    _begin(process.pid, _Group(process, lasting))
    return process


def run(
    command: Sequence[str | Path],
    *,
    input: Any = None,
    check: bool = False,
    timeout: float = PATIENCE,
    text: bool = True,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a process to its end; whatever it has started ends with it. What it says is UTF-8, or bytes without ``text``.

    Raises
    ------
    AssertionError
        If ``check`` is set and its exit code isn't 0.
    """
    pipe = subprocess.PIPE
    given = {"stdin": subprocess.DEVNULL if input is None else pipe, "stdout": pipe, "stderr": pipe, **options}
    process = start(command, **given, **({"encoding": "utf-8"} if text else {}))
    try:
        out, err = process.communicate(input, timeout)
    finally:
        end(process)
    assert not check or process.returncode == 0, f"{process.args} ended with {process.returncode}: {err}"
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def python(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run Python with these words to its end, as ``run`` does."""
    return run([sys.executable, *words], **options)


def forked(work: Callable[[], object]) -> int:
    """Do some work in a fork of this process; its id, for ``exit_code``."""
    child = os.fork()
    if child == 0:
        _do(work)
    _begin(child, _Group(None, lasting=False))
    return child


def _do(work: Callable[[], object]) -> NoReturn:
    """Work in a fork, which ends with 0, or with 1 after an exception."""
    code = 1
    try:
        os.setsid()
        _groups.clear()  # they are the parent's
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def exit_code(child: int) -> int:
    """Wait for the end of a fork; its exit code, negative if a signal has ended it."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _forget(child)
    return code


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a process and what it has started that stayed in its group; nothing if that was done before."""
    if process.pid in _groups:
        _end(process.pid)


@contextmanager
def ended_with() -> Iterator[None]:
    """What is started in the block has ended after it, unless it is lasting."""
    before = set(_groups)
    try:
        yield
    finally:
        for leader, group in list(_groups.items()):
            if leader not in before and not group.lasting:
                _end(leader)


def mark_all() -> None:
    """Let whatever is started from now on carry the mark, also what libraries start (Ray, multiprocessing)."""
    os.environ[child_guard.MARK] = _MARK


def leftovers() -> list[str]:
    """What was started and still runs, a line each, and is killed now; what is about to end is waited for a while."""
    last = time.monotonic() + float(os.environ.get("SYLVAN_TESTS_LEFTOVERS", "60"))
    while (found := _left()) and time.monotonic() < last:
        time.sleep(0.1)
    lines = [_described(pid) for pid in found]
    for pid in found:
        child_guard.kill(pid)
    return lines


def _begin(leader: int, group: _Group) -> None:
    _groups[leader] = group
    _say(f"+{leader}\n")


def _forget(leader: int) -> None:
    del _groups[leader]
    _say(f"-{leader}\n")


def _end(leader: int) -> None:
    process = _groups[leader].process
    if process is None:
        child_guard.kill_group(leader)
        with suppress(ChildProcessError):  # somebody has waited for it
            os.waitpid(leader, 0)
    elif process.poll() is None:
        child_guard.kill_group(leader)
        process.wait()
    else:  # its number may be another's by now: only what bears the mark is its own
        for pid in _group_of(leader):
            child_guard.kill(pid)
    for stream in (process.stdin, process.stdout, process.stderr) if process else ():
        if stream is not None:
            with suppress(OSError, ValueError):  # there may be something left to say to a process that has ended
                stream.close()
    _forget(leader)


def _group_of(leader: int) -> list[int]:
    """The processes of a group whose leader has ended, on systems that show them."""
    found = []
    with suppress(AttributeError, ProcessLookupError, PermissionError):
        os.killpg(leader, 0)  # there is mostly nobody left
        for pid in child_guard.marked(_MARK):
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == leader:
                    found.append(pid)
    return found


def guard() -> None:
    """Begin the process that ends what this one has started, should it be killed; on a POSIX system, once."""
    if os.name == "posix" and not _guards:
        command = [sys.executable, "-I", "-S", child_guard.__file__, str(os.getpid()), _MARK]
        _guards.append(subprocess.Popen(command, stdin=subprocess.PIPE, cwd=os.sep, start_new_session=True))


def _say(line: str) -> None:
    """Say to the guard what it has to end."""
    guard()
    for stream in (one.stdin for one in _guards):
        assert stream is not None
        stream.write(line.encode())
        stream.flush()


# What multiprocessing and joblib start beside their processes, once; each ends with the process that started it.
_SERVANTS = ("multiprocessing.forkserver", "multiprocessing.resource_tracker", "loky")


def _left() -> list[int]:
    if os.name != "posix":
        return [leader for leader, group in _groups.items() if group.process and group.process.poll() is None]
    children, guards = set(_children()), {guard.pid for guard in _guards}
    servants = {pid for pid in children if any(name in _command(pid) for name in _SERVANTS)}
    found = children | set(child_guard.marked(_MARK)) | set(_groups)
    return sorted(pid for pid in found - guards - servants - {os.getpid()} if alive(pid))


def _children() -> list[int]:
    """The processes that this one has started, where the system shows them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(entry.name))
    return found


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return ""


def _described(pid: int) -> str:
    """A process, its command, and the test that started it, as far as the system shows them."""
    test = ""
    with suppress(OSError):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, value = variable.decode("utf-8", "replace").partition("=")
            test = f", started in {value}" if name == "PYTEST_CURRENT_TEST" else test
    return f"process {pid}{test}: {_command(pid)[:300]}"
