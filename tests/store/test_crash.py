"""Whatever interrupts a save, the folder holds the old model or the new one.

The interruptions are put before every single line of the code that writes (a process that is killed there, a
Ctrl-C that arrives there) and into every call of the operating system (a full disk, a device that fails).
"""

import builtins
import errno
import io
import itertools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_processes import environment, exit_code, forked, python
from kit.errors import raises
from stops import ENTRIES, Stop, before_lines, example, interrupted, stops_of, which

from sylvan import store
from sylvan.errors import ModelError
from sylvan.store import State, write

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to kill a process at a chosen line")

CHUNK = 100  # bytes that are written at once


def in_small_chunks(patch: Callable[[Any, str, int], None] = setattr) -> None:
    """Files are then written in several steps, and a kill can fall between them."""
    patch(write, "_CHUNK", CHUNK)
    patch(write, "_FOREIGN_CHUNK", CHUNK)


def killed_at(folder: Path, seed: int, stop: Stop) -> bool:
    """Save in a fork that dies at this point; whether it came that far."""

    def die(here: Stop) -> None:
        if here == stop:
            os._exit(9)

    def save() -> None:
        with before_lines(die):
            store.save(folder, example(seed))

    code = exit_code(forked(save))
    assert code in (0, 9)
    return code == 9


def killed_while_replacing(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    store.save(folder, example(1))
    stops = stops_of(lambda: store.save(folder, example(1)))
    assert killed_at(folder, 1, stops[len(stops) // 2])
    of_leftovers = set(stops_of(lambda: store.save(folder, example(1)))) - set(stops)
    current, outcomes = 1, set()
    for stop in [*stops, *of_leftovers]:
        if stop in of_leftovers:
            assert killed_at(folder, current, stops[len(stops) // 2])
        assert killed_at(folder, current + 1, stop)
        found = which(folder)
        assert found in (current, current + 1)
        outcomes.add(found == current)
        current = found if found is not None else 0
    assert outcomes == {True, False}
    store.save(folder, example(99))
    assert which(folder) == 99
    assert len(os.listdir(folder)) == ENTRIES and os.listdir(tmp_path) == ["m"]


def killed_while_writing_the_first(tmp_path: Path) -> None:
    outcomes = set()
    for number, stop in enumerate(stops_of(lambda: store.save(tmp_path / "other", example(1)))):
        folder = tmp_path / str(number) / "m"
        assert killed_at(folder, 1, stop)
        assert which(folder) in (None, 1)
        outcomes.add(which(folder))
        for abandoned in folder.parent.glob(".m.*.saving"):
            os.utime(abandoned, (0, 0))  # a fresh one might be in the hands of another process
        store.save(folder, example(2))
        assert which(folder) == 2 and len(os.listdir(folder)) == ENTRIES
        # A kill after the rename abandons nothing; what one before it abandoned is gone now.
        assert os.listdir(folder.parent) == ["m"]
    assert outcomes == {None, 1}


@pytest.mark.parametrize("saves", [killed_while_replacing, killed_while_writing_the_first])
def test_killed_at_every_line(saves: Callable[[Path], None], tmp_path: Path) -> None:
    """From a process that has loaded nothing else: to fork this one, which may have run half of the suite, takes longer
    than to save."""
    code = (
        f"import pathlib, sys, {__name__} as tests; tests.in_small_chunks(); "
        f"tests.{saves.__name__}(pathlib.Path(sys.argv[1]))"
    )
    here = Path(__file__).parent
    python("-c", code, tmp_path, check=True, env=environment(here, here.parent))


@pytest.mark.parametrize("first", [True, False])
def test_ctrl_c_at_every_line(tmp_path: Path, first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_chunks(monkeypatch.setattr)
    folder = tmp_path / "m"
    stops = stops_of(lambda: store.save(folder if not first else tmp_path / "other", example(1)))
    if not first:
        stops = stops_of(lambda: store.save(folder, example(1)))
    for number, stop in enumerate(stops):
        before = which(folder) if not first else None
        target = folder if not first else tmp_path / str(number) / "m"
        assert interrupted(partial(store.save, target, example((before or 0) + 1)), stop)
        assert which(target) in (before, (before or 0) + 1)


class Faults:
    """Counts the calls that reach the system, writes to files too, and lets one of them fail."""

    def __init__(self, patch: pytest.MonkeyPatch, code: int, fail_at: int) -> None:
        self.code, self.fail_at, self.count = code, fail_at, 0
        step, opened = self.step, io.open

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                step()
                return super().write(data)

        def open_file(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            step()
            return File(file, mode) if "x" in mode else opened(file, mode, *args, **kwargs)

        for name in ("fsync", "replace", "rename", "unlink", "open", "mkdir", "listdir"):
            patch.setattr(os, name, self.counted(getattr(os, name)))
        for module in (io, builtins):
            patch.setattr(module, "open", open_file)

    def step(self) -> None:
        self.count += 1
        if self.count == self.fail_at:
            raise OSError(self.code, os.strerror(self.code))

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.step()
            return call(*args, **kwargs)

        return counted


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_every_failing_call_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool, code: int
) -> None:
    in_small_chunks(monkeypatch.setattr)
    failures = 0
    for at in itertools.count(1):
        folder = tmp_path / str(at) / "m"
        folder.parent.mkdir()
        if not first:
            store.save(folder, example(1))
        outcome = ""
        with monkeypatch.context() as patch:
            faults = Faults(patch, code, at)
            try:
                store.save(folder, example(2))
            except ModelError as error:
                outcome = str(error)
        if outcome:
            failures += 1
            assert os.strerror(code) in outcome and "What was there before is unchanged" in outcome
            assert which(folder) == (None if first else 1), at
            # Nothing is left behind either, unless the very call that removes it is the one that failed.
            store.save(folder, example(1))
            assert len(os.listdir(folder)) == ENTRIES and os.listdir(folder.parent) == ["m"]
        else:
            assert which(folder) == 2
        if faults.count < at:
            break
    assert failures >= 10


def test_a_full_device(tmp_path: Path) -> None:
    """A limit of the system on the size of files, which fails the write itself."""
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    folder = tmp_path / "m"
    store.save(folder, example(1))
    big = State("example", 1, arrays={"big": np.zeros(1 << 20)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with raises(ModelError, folder, "File too large"):
            store.save(folder, big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert which(folder) == 1 and len(os.listdir(folder)) == ENTRIES


def test_a_damaged_model_can_be_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    store.save(folder, example(1))
    for file in folder.glob("*.npy"):
        file.unlink()
    with raises(ModelError, "missing"):
        store.load(folder)
    store.save(folder, example(2))
    assert which(folder) == 2


def test_readers_never_see_a_mixture(tmp_path: Path) -> None:
    """A child saves again and again while the parent loads with full checks."""
    folder = tmp_path / "m"
    store.save(folder, example(0))
    children = []
    for first in (1, 100):

        def save_again(first: int = first) -> None:
            for seed in range(first, first + 40):
                store.save(folder, example(seed))

        children.append(forked(save_again))
    whole = 0
    for _ in range(60):
        try:
            assert which(folder) is not None
            whole += 1
        except FileNotFoundError as error:  # its foreign files went with the model, which a newer one has replaced
            assert ".files" in str(error)
    assert whole > 0
    assert [exit_code(child) for child in children] == [0, 0]
    assert which(folder) in (40, 139)
    assert len(os.listdir(folder)) == ENTRIES


def test_several_processes_save_the_first_model(tmp_path: Path) -> None:
    """Whoever comes second finds a folder that was not there when it looked."""
    for attempt in range(5):
        folder, (begun, begin) = tmp_path / str(attempt), os.pipe()

        def save_when_begun(seed: int, folder: Path = folder, begun: int = begun) -> None:
            assert os.read(begun, 1)
            store.save(folder, example(seed))

        children = [forked(partial(save_when_begun, seed)) for seed in (1, 2, 3)]
        os.write(begin, b"123")
        assert [exit_code(child) for child in children] == [0, 0, 0]
        for end_of_pipe in (begun, begin):
            os.close(end_of_pipe)
        assert which(folder) in (1, 2, 3)
        assert len(os.listdir(folder)) == ENTRIES
    assert sorted(os.listdir(tmp_path)) == sorted(map(str, range(5)))
