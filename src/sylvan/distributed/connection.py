"""This process's connection to a Ray cluster, which all that need it share, and the last of them closes."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from sylvan.distributed.address import connect
from sylvan.errors import ParameterError

__all__ = ["Connection"]

_lock = threading.RLock()  # the garbage collector may close one connection while another is opened
_users: dict[tuple[str, str], int] = {}  # of the connections that were opened here


class Connection:
    """What needs Ray has one while it does. Ray is connected to one cluster at a time. Where this process is connected
    already, that connection is taken; one that was opened here is shut down when the last that needs it has closed."""

    def __init__(self, module: Any, address: str | None = None, **options: Any) -> None:
        self._ray, self._open = module, True
        with _lock:
            opened = not module.is_initialized()
            if opened:
                _open(module, address, options)
            elif address not in (None, "auto", module.get_runtime_context().gcs_address):
                raise ParameterError(
                    f"This process is connected to the Ray cluster at {module.get_runtime_context().gcs_address} "
                    f"already. Got {address!r} instead."
                )
            self._job = self._current_job()
            if opened:
                _users[self._job] = 0
            if self._job in _users:
                _users[self._job] += 1

    def is_alive(self) -> bool:
        """Whether this process is still connected: Ray can be shut down by anybody."""
        return bool(self._ray.is_initialized()) and self._current_job() == self._job

    def close(self) -> None:
        """Say that it isn't needed any more; a second time says nothing."""
        with _lock:
            if self._open and self._job in _users:
                _users[self._job] -= 1
                if not _users[self._job]:
                    del _users[self._job]
                    if self.is_alive():
                        self._ray.shutdown()
            self._open = False

    def _current_job(self) -> tuple[str, str]:
        context = self._ray.get_runtime_context()
        return str(context.gcs_address), str(context.get_job_id())


def _open(module: Any, address: str | None, options: dict[str, Any]) -> None:
    if address is None:  # workers of this machine import what this process does
        places = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        options.setdefault("runtime_env", {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, places))}})
    connect(module, address, options)
