"""Pytest as a stranger starts it: whatever it inherits and however it ends, its children begin alike and end too."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from child_processes import end, environment, exit_code, forked, python, run, start
from kit.errors import raises
from waiting import PATIENCE, alive, group_seconds, until, used_seconds

TESTS = Path(__file__).parent
posix = pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")
shown = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at processes under /proc")
SLEEPS = "import time; time.sleep(10**6)"
AT_ONCE = 1e-3  # seconds
UNUSED = ("cacheprovider", "xdist", "schemathesis")  # plugins; the last one takes a second to be imported
# A process, what it starts in its group, and what it starts in another one, the way a library would.
FAMILY = f"""
import subprocess, sys, time
there = subprocess.Popen([sys.executable, "-c", {SLEEPS!r}])
away = subprocess.Popen([sys.executable, "-c", {SLEEPS!r}], start_new_session=True)
print(there.pid, away.pid, flush=True)
time.sleep(10**6)
"""


def pytest_command(folder: Path, text: str) -> list[str | Path]:
    """Pytest with this suite's settings over a file of its own."""
    (folder / "test_inner.py").write_text(text, "utf-8")
    options = ["-p", "conftest", *(word for name in UNUSED for word in ("-p", f"no:{name}")), "-q", "-x"]
    return [sys.executable, "-m", "pytest", *options, "--rootdir", folder, folder / "test_inner.py"]


def numbers(path: Path, n: int) -> list[int]:
    """The process ids in a file, once all are there."""
    until(lambda: path.exists() and len(path.read_text().split()) == n, f"{path} doesn't come")
    return [int(word) for word in path.read_text().split()]


@posix
@shown
def test_what_a_killed_pytest_leaves_is_ended(tmp_path: Path) -> None:
    text = f"""
import sys, time
from pathlib import Path
from child_processes import forked, start

def test_runs() -> None:
    process = start([sys.executable, "-c", {FAMILY!r}], stdout=-1, encoding="utf-8")
    child = forked(lambda: time.sleep(10**6))
    Path({str(tmp_path / "pids")!r}).write_text(f"{{process.pid}} {{child}} " + process.stdout.readline())
    time.sleep(10**6)
"""
    process = start(pytest_command(tmp_path, text), stdout=subprocess.DEVNULL, env=environment(TESTS))
    pids = numbers(tmp_path / "pids", 4)
    assert all(alive(pid) for pid in pids)
    process.kill()
    process.wait()
    until(lambda: not any(alive(pid) for pid in pids), lambda: f"these live on: {[p for p in pids if alive(p)]}")


@posix
def test_what_a_process_wrote_before_it_went_is_read() -> None:
    """A guard that comes too late to see its process, of which a fork still holds the other end of the pipe."""
    left = [forked(lambda: time.sleep(10**6)) for _ in range(2)]
    gone = python("-c", "import os; print(os.getpid())", check=True).stdout.strip()
    guard = start([sys.executable, "-I", "-S", TESTS / "child_guard.py", gone, "no such mark"], stdin=subprocess.PIPE)
    assert guard.stdin is not None
    os.write(guard.stdin.fileno(), "".join(f"+{pid}\n" for pid in left).encode())
    assert guard.wait(PATIENCE) == 0
    until(lambda: not any(map(alive, left)), "they live on", timeout=PATIENCE / 10)  # they are killed before it ends
    assert [exit_code(pid) for pid in left] == [-signal.SIGKILL] * 2
    guard.stdin.close()


INNER = """
import json, os, signal, sys
from pathlib import Path
from child_processes import forked, python, start
from waiting import alive, until

SHOWS = '''
import json, os, signal
usual = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGCHLD", "SIGUSR1", "SIGALRM")}
ignored = [number.name for number in usual if signal.getsignal(number) == signal.SIG_IGN]
mask = [number.name for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
umask = os.umask(0)
names = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONWARNINGS", "http_proxy", "OMP_NUM_THREADS", "LANGUAGE", "RANK")
open(os.path.expanduser("~/written"), "w").close()
print(json.dumps([sorted(ignored), mask, umask, {name: os.environ.get(name) for name in names}, os.environ["LC_ALL"]]))
'''

def test_child() -> None:
    ignored, mask, umask, variables, language = json.loads(python("-c", SHOWS, check=True).stdout)
    assert (ignored, mask, umask) == ([], [], 0o022)
    assert {name: value for name, value in variables.items() if value is not None} == {"OMP_NUM_THREADS": "1"}
    assert language.endswith("UTF-8") or sys.platform != "linux"

def test_ctrl_c_of_this_process() -> None:
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        return
    raise AssertionError("Ctrl-C is ignored")

def test_others_are_still_ignored_here() -> None:
    os.kill(os.getpid(), signal.SIGHUP)  # nohup's wish

def test_starts() -> None:
    process = start([sys.executable, "-c", FAMILY], stdout=-1, encoding="utf-8")
    child = forked(lambda: __import__("time").sleep(10**6))
    Path(os.environ["PIDS"]).write_text(f"{process.pid} {child} " + process.stdout.readline())

def test_has_ended() -> None:
    leader, fork, there, away = map(int, Path(os.environ["PIDS"]).read_text().split())
    assert [alive(pid) for pid in (leader, fork, away)] == [False, False, True]
    until(lambda: not alive(there), "it lives on")
"""


@posix
@shown
def test_children_begin_alike_and_end_whatever_pytest_inherits(tmp_path: Path) -> None:
    """From a script in the background, under nohup, without a home or a language, with colours and proxies.

    What a test starts ends with it, without a word; what has left its group is found by its mark, and named.
    """
    script = "umask 077; trap '' INT TERM HUP QUIT CHLD USR1 ALRM; exec \"$@\" <&-"
    strange = {
        "COLUMNS": "20", "NO_COLOR": "1", "FORCE_COLOR": "1", "PYTHONWARNINGS": "ignore", "http_proxy": "http://no:1",
        "OMP_NUM_THREADS": "7", "LANGUAGE": "de", "LC_ALL": "C", "RANK": "3", "HOME": str(tmp_path / "none"),
        "PIDS": str(tmp_path / "pids"), "SYLVAN_TESTS_LEFTOVERS": "1",
    }  # fmt: skip
    env = {name: value for name, value in environment(TESTS, **strange).items() if name != "TERM"}
    words = pytest_command(tmp_path, f"FAMILY = {FAMILY!r}\n{INNER}")
    done = run(["bash", "-c", script, "bash", *words], env=env)
    away = numbers(tmp_path / "pids", 4)[3]
    assert done.returncode == 1 and "5 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "should have ended with their tests" in done.stdout, done.stdout
    assert f"process {away}, started in test_inner.py::test_starts (call): " in done.stdout, done.stdout
    until(lambda: not alive(away), "it is named, and lives on")


@posix
def test_forks_say_how_they_ended() -> None:
    def fails() -> None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (in a fork that ends at once)
        raise ValueError

    def dies() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    assert [exit_code(forked(work)) for work in (lambda: None, fails, dies)] == [0, 1, -signal.SIGKILL]


def test_a_command_runs_in_a_session_of_its_own_and_to_its_end() -> None:
    done = python("-c", "import os, sys; print(os.getpid() == os.getsid(0), sys.stdin.read())", input="é\n", check=True)
    assert done.stdout == "True é\n\n" and done.stderr == ""
    with raises(AssertionError, "ended", 3):
        python("-c", "import sys; print('no', file=sys.stderr); sys.exit(3)", check=True)
    with pytest.raises(subprocess.TimeoutExpired):
        python("-c", SLEEPS, timeout=AT_ONCE)


@shown
def test_the_time_of_a_processor_is_that_of_work() -> None:
    busy = start([sys.executable, "-c", "while True: pass"])
    idle = start([sys.executable, "-c", f"print(flush=True); {SLEEPS}"], stdout=subprocess.PIPE)
    assert idle.stdout is not None and idle.stdout.readline()
    before = used_seconds(idle.pid)
    until(lambda: used_seconds(busy.pid) > 0.3, "it doesn't work")
    assert used_seconds(idle.pid) - before < 0.1 and group_seconds(busy.pid) > 0.3
    end(busy)
    end(busy)  # as a test and a fixture may both do
    assert not alive(busy.pid) and alive(idle.pid) and group_seconds(busy.pid) == 0
