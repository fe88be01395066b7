"""Processes that train together, forked off one that has imported everything and computed nothing."""

import importlib
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence

import torch


def together(
    work: Callable[[int], None], processes: Sequence[int] = (0, 1), seconds: float = 500.0, imports: Sequence[str] = ()
) -> list[int]:
    """The exit codes of ``work(process)`` in each of the processes, of two in all; those killed that don't end."""
    for name in ("accelerate.state", *imports):
        importlib.import_module(name)
    torch.set_num_threads(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return _ended([_started(work, process, port) for process in processes], seconds)


def _started(work: Callable[[int], None], process: int, port: int) -> int:
    """A child that is process ``process`` of two; its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ.update(RANK=str(process), LOCAL_RANK=str(process), WORLD_SIZE="2")
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        work(process)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _ended(children: list[int], seconds: float) -> list[int]:
    """The exit codes of all, those killed that don't end."""
    codes: dict[int, int] = {}
    until = time.monotonic() + seconds
    while len(codes) < len(children):
        for child in children:
            if child not in codes:
                found, status = os.waitpid(child, os.WNOHANG)
                if found:
                    codes[child] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() > until:
                    os.kill(child, signal.SIGKILL)
        time.sleep(0.02)
    return [codes[child] for child in children]
