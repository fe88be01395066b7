"""This process's connection to a Ray cluster, which all that need it share, and the last of them closes."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sylvan.errors import ParameterError, SylvanError

_PATIENCE = 10.0  # seconds in which an address must accept a connection
# Ray's own setting for how often it looks for a cluster, some 40 seconds each time. It does so 20 times where nothing
# is said, a quarter of an hour.
_TIMES = "RAY_gcs_server_port_wait_time_s"
_lock = threading.RLock()  # the garbage collector may close one connection while another is opened
_users: dict[tuple[str, str], int] = {}  # of the connections that were opened here


def connect(module: Any, address: str | None, options: Mapping[str, Any]) -> None:
    """``ray.init`` that says within a minute what is wrong."""
    where = "A Ray cluster can't be started on this machine"
    if address is not None:
        where = f"The Ray cluster at {address!r} can't be reached"
        _check_address(address, where)
    place = "local" if address is None else address
    try:
        with nullcontext() if place == "local" else _once():
            module.init(address=place, log_to_driver=False, configure_logging=False, **options)
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise SylvanError(f"{where}: {lines[-1].rstrip('.: ')}.") from error


def _check_address(address: str, where: str) -> None:
    """Refuse an address where nobody listens."""
    if not isinstance(address, str):
        raise ParameterError(f"The address of a Ray cluster must be a string. Got {address!r} instead.")
    known = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    if known.startswith("ray://"):  # Ray Client, after whose failure no other connection can be made
        raise ParameterError(
            f"The address of a Ray cluster must be that of its own port, HOST:6379. Got {known!r} instead."
        )
    host, _, port = known.rpartition(":")
    if not host or not port.isdigit():
        return  # Ray finds it, or says what is wrong with it
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, OverflowError, UnicodeError) as error:
        of = "" if known == address else f" (RAY_ADDRESS is {known!r})"
        raise SylvanError(f"{where}{of}: {getattr(error, 'strerror', None) or error}.") from error


@contextmanager
def _once() -> Iterator[None]:
    """Within it, Ray looks for a cluster once, unless the environment says otherwise."""
    if _TIMES in os.environ:
        yield
        return
    os.environ[_TIMES] = "1"
    try:
        yield
    finally:
        os.environ.pop(_TIMES, None)


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
