"""Where what writes a model folder can be stopped: before every line of its code that runs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sylvan.store import write

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
