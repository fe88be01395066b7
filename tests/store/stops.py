"""A model to save, what a folder holds, and where what writes it can be stopped: before every line of its code."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from kit.bits import bits

from sylvan import store
from sylvan.store import State, write

ENTRIES = 5  # of the example's folder: the manifest, two arrays, two folders of files


def example(number: int) -> State:
    """A model with a part and files of other libraries, all of which depend on the number."""
    rng = np.random.default_rng(number)
    words = {"encoder/words.txt": rng.bytes(150)}
    part = State("example-part", 1, arrays={"x": rng.integers(0, 255, 300, dtype=np.uint8)}, files=words)
    files = {"encoder/config.json": rng.bytes(50), "encoder/pooling/config.json": b""}
    return State("example", 1, {"number": number}, {}, {"a": rng.normal(size=40)}, {"part": part}, files)


def contents(state: State) -> Any:
    """All that a state and its parts hold, to be compared."""
    files = {
        name: it if isinstance(it, bytes) else Path(os.fsdecode(it)).read_bytes() for name, it in state.files.items()
    }
    parts = {name: contents(part) for name, part in state.parts.items()}
    return state.kind, state.version, state.params, bits(state), files, parts


def which(folder: Path) -> int | None:
    """The number of the example in the folder, every byte compared; None when there is none."""
    if not folder.exists():
        return None
    state = store.load(folder, mmap=False, verify=True)
    number = int(state.params["number"])
    assert contents(state) == contents(example(number))
    return number


Stop = tuple[int, int]  # a line of the writing module, and whether it runs for the first time, the second, ...


@contextmanager
def before_lines(act: Callable[[Stop], None], passed_over: str = "") -> Iterator[None]:
    """Call ``act`` before each line that the block runs in the writing module, but for the lines of one function."""
    counts: Counter[int] = Counter()

    def in_function(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            counts[frame.f_lineno] += 1
            act((frame.f_lineno, counts[frame.f_lineno]))
        return in_function

    def start(frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        return in_function if code.co_filename == write.__file__ and code.co_name != passed_over else None

    before = sys.gettrace()  # that of a coverage tool or a debugger
    sys.settrace(start)
    try:
        yield
    finally:
        sys.settrace(before)


def stops_of(work: Callable[[], object], passed_over: str = "") -> list[Stop]:
    """Every line that some work runs through, by doing it: its first time, and its last."""
    found: list[Stop] = []
    with before_lines(found.append, passed_over):
        work()
    last = dict(found)
    return [(line, time) for line, time in found if time in (1, last[line])]


def interrupted(work: Callable[[], object], stop: Stop, passed_over: str = "") -> bool:
    """Do some work, with a Ctrl-C at this point; whether it came that far."""

    def interrupt(here: Stop) -> None:
        if here == stop:
            raise KeyboardInterrupt

    try:
        with before_lines(interrupt, passed_over):
            work()
    except KeyboardInterrupt:
        return True
    return False
