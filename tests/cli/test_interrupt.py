"""Ctrl-C, also while the library is loaded, closed pipes, full disks: a sentence at most, and nothing half-written."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import child_processes
import numpy as np
import pytest
import tqdm
from kit.bits import bits
from kit.commands import start
from waiting import PATIENCE, until, used_seconds

from sylvan import data

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals, and calls a POSIX shell")


@pytest.fixture(scope="module")
def much(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up books of many words and labels: enough text to train on for a while."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(30_000)])
    ids = rng.zipf(1.2, size=(1_000, 60)) % len(words)
    labels = [[f"l{j}" for j in row] for row in (rng.zipf(1.3, size=(1_000, 4)) % 5_000).tolist()]
    path = tmp_path_factory.mktemp("much") / "train.jsonl"
    data.write_jsonl(path, (" ".join(words[row]) for row in ids), labels)
    return path


def children_seconds() -> float:
    """The processors' time of all processes that were started here and have ended."""
    times = os.times()
    return times.children_user + times.children_system


def interrupted(process: subprocess.Popen[bytes]) -> str:
    """Send SIGINT; the process must end after a second's work or so, with one sentence."""
    ended_before, used_before = children_seconds(), used_seconds(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    worked = children_seconds() - ended_before - used_before
    assert process.returncode == 1, err
    assert worked < 3.0, f"worked on for {worked:.2f} s"  # two threads, a second and a half
    assert b"Traceback" not in err
    return err.decode().strip()


def worked(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until a process that isn't to end has worked for so long."""
    last = used_seconds(process.pid) + seconds

    def has() -> bool:
        assert process.poll() is None, "the training that was to be interrupted has ended"
        return used_seconds(process.pid) >= last

    until(has, "it doesn't work")


LONG = ("--set", "tolerance=0.0000001", "--set", "max_iterations=100000", "--set", "cost=100", "--threads", "2")


@pytest.mark.parametrize(("seconds", "before"), [(0.0, False), (0.3, True)])  # since it has read its rows
def test_interrupted_training_writes_nothing(
    seconds: float, before: bool, much: Path, files: Any, tmp_path: Path
) -> None:
    """Soon after it has begun, while it indexes and while it trains; a model that was there stays."""
    target = tmp_path / "m"
    if before:
        shutil.copytree(files.text_model, target)
    earlier = bits(tmp_path)
    process = start("train", "xr-linear", str(much), "--model", str(target), *LONG)
    assert process.stderr is not None and process.stderr.readline().startswith(b"Read 1,000 rows")
    worked(process, seconds)
    assert interrupted(process) == "Interrupted; nothing was written."
    assert bits(tmp_path) == earlier and [entry.name for entry in tmp_path.iterdir()] == ["m"] * before


def test_interrupted_prediction_leaves_the_old_file(files: Any, tmp_path: Path) -> None:
    target = tmp_path / "top.jsonl"
    target.write_text("old")
    process = start("predict", files.text_model, "-", "-o", str(target))
    assert process.stdin is not None
    process.stdin.write(b"bread and flour\n" * 5000)
    process.stdin.flush()  # and it waits for more
    until(lambda: len(list(tmp_path.iterdir())) > 1, "it begins no file")
    assert interrupted(process) == "Interrupted; nothing was written."
    assert [entry.name for entry in tmp_path.iterdir()] == ["top.jsonl"] and target.read_text() == "old"


def test_a_closed_pipe_is_quiet(files: Any) -> None:
    model = files.text_model
    ranking = shlex.join([sys.executable, "-m", "sylvan", "predict", model, "-"])
    lines = f"yes 'bread and flour' | head -n 20000 | {ranking} | head -n 1"
    done = child_processes.run(["sh", "-c", lines], text=False)
    assert done.stdout.startswith(b'{"labels": ["Baking"') and done.stdout.count(b"\n") == 1
    assert done.stderr == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_a_sentence(call: Any, files: Any) -> None:
    words = ("predict", files.text_model, files("test.jsonl"))
    written = call(*words, "-o", "/dev/full", "-q", code=1)
    assert written.err.startswith("Error: ") and written.err.count("\n") == 1
    with open("/dev/full", "wb") as full:
        process = start(*words, stdout=full)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert err.startswith(b"Error: ") and err.count(b"\n") == 1, err


def test_progress_is_drawn_on_a_terminal_alone(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bar = tqdm.tqdm
    monkeypatch.setattr(tqdm, "tqdm", lambda **options: bar(**{**options, "delay": 0}))
    train = "train xr-linear {train.jsonl} --model m"
    assert "%" not in call(train).err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "%" in call(train).err
    assert call(f"{train} --quiet").err == ""


def test_an_interrupted_classifier_writes_nothing_in_the_first_minute(tmp_path: Path) -> None:
    path, target = tmp_path / "train.jsonl", tmp_path / "m"
    words = [f"w{i}" for i in range(500)]
    texts = (f"{words[i % 500]} {words[i % 300]}" for i in range(4000))
    data.write_jsonl(path, texts, [[f"l{i % 40}"] for i in range(4000)])
    process = start("train", "beam-tree", str(path), "--model", str(target), "--set", "epochs=1000000",
                    "--set", "learning_rate=0.1")  # fmt: skip
    assert process.stderr is not None and process.stderr.readline().startswith(b"Read 4,000 rows")
    worked(process, 2.5)  # PyTorch is imported, and epochs are learned
    assert interrupted(process) == "Interrupted; nothing was written."
    assert [entry.name for entry in tmp_path.iterdir()] == ["train.jsonl"]


_STRUCK = {
    "a string": "exec('import os, signal; os.kill(os.getpid(), signal.SIGINT); list(range(10**7))')",
    "a module in C": """
    try:
        os.kill(os.getpid(), signal.SIGINT)
        list(range(10**7))
    except KeyboardInterrupt as error:
        raise ImportError("initialization failed") from error""",
}


@pytest.mark.parametrize("where", list(_STRUCK))
def test_an_interrupt_in_an_import_is_answered_as_everywhere(where: str, tmp_path: Path) -> None:
    """PyTorch makes classes from strings while it is imported; the interpreter would end by the signal itself."""
    (tmp_path / "struck.py").write_text(
        f"import os, signal, sys\nfrom sylvan.cli import app, main\n"
        f"def invoke(ctx):\n    {_STRUCK[where].strip()}\n"
        "app.cli.invoke = invoke\nsys.exit(main(['inspect', 'model']))\n"
    )
    done = child_processes.python("-m", "struck", env=child_processes.environment(tmp_path), text=False)
    assert (done.returncode, done.stderr) == (1, b"Interrupted; nothing was written.\n")


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
