"""A Ray cluster: this process's connection to it, which all that need it share, and what its nodes answer."""

from __future__ import annotations

import os
import platform
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sylvan.errors import DataError, ParameterError, SylvanError
from sylvan.version import __version__

_PATIENCE = 10.0  # seconds in which an address must accept a connection
# Ray's own setting for how often it looks for a cluster, some 40 seconds each time. It does so 20 times where nothing
# is said, a quarter of an hour.
_TIMES = "RAY_gcs_server_port_wait_time_s"
_ANSWERS = 60.0  # seconds in which every node must have answered
_lock = threading.RLock()  # the garbage collector may close one connection while another is opened
_users: dict[tuple[str, str], int] = {}  # of the connections that were opened here


def need_ray(module: str = "ray") -> Any:
    """Ray, or its ``ray.data``, or how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        what = "Ray" if module == "ray" else f"Ray Data ({error})"
        raise ImportError(f'Working on a cluster needs {what}. Install it with: pip install "sylvan[ray]"') from error


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
        raise SylvanError(f"{where}: {line_of(error, -1).rstrip('.: ')}.") from error


def line_of(error: Exception, number: int = 0) -> str:
    """A line of what an error says; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[number].strip()


def _check_address(address: str, where: str) -> None:
    """Refuse an address where nobody listens."""
    if not isinstance(address, str):
        raise ParameterError(f"The address of a Ray cluster must be a string. Got {address!r} instead.")
    place = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    if place.startswith("ray://"):  # Ray Client, after whose failure no other connection can be made
        wanted = "that of its own port, HOST:6379"
        raise ParameterError(f"The address of a Ray cluster must be {wanted}. Got {place!r} instead.")
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        return  # Ray finds it, or says what is wrong with it
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, OverflowError, UnicodeError) as error:
        of = "" if place == address else f" (RAY_ADDRESS is {place!r})"
        raise SylvanError(f"{where}{of}: {getattr(error, 'strerror', None) or error}.") from error


@contextmanager
def _once() -> Iterator[None]:
    """Within it, Ray looks for a cluster once, unless the environment says otherwise."""
    unset = _TIMES not in os.environ
    os.environ.setdefault(_TIMES, "1")
    try:
        yield
    finally:
        if unset:
            os.environ.pop(_TIMES, None)


class Connection:
    """What needs Ray has one while it does. Ray is connected to one cluster at a time. Where this process is connected
    already, that connection is taken; one that was opened here is shut down when the last that needs it has closed."""

    def __init__(self, module: Any, address: str | None = None, **options: Any) -> None:
        self._ray, self._open = module, True
        with _lock:
            opened = not module.is_initialized()
            if opened:
                if address is None:  # workers of this machine import what this process does
                    places = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
                    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, places))}}
                    options.setdefault("runtime_env", environment)
                connect(module, address, options)
            elif address not in (None, "auto", present := module.get_runtime_context().gcs_address):
                words = f"This process is connected to the Ray cluster at {present} already"
                raise ParameterError(f"{words}. Got {address!r} instead.")
            self._job = self._current_job()
            if opened or self._job in _users:
                _users[self._job] = 1 if opened else _users[self._job] + 1

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


def ask_nodes(module: Any, work: Callable[..., Any], *arguments: Any) -> list[tuple[str, Any]]:
    """What a worker of every node answers: names of nodes and answers. ``work`` is a function of a module."""
    task = module.remote(num_cpus=0, max_retries=0)(work)
    strategy = module.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    nodes = [node for node in module.nodes() if node["Alive"]]
    answers = [
        (node["NodeManagerHostname"], node["NodeID"],
         task.options(scheduling_strategy=strategy(node["NodeID"], soft=False)).remote(*arguments))
        for node in nodes
    ]  # fmt: skip
    results = []
    for name, number, reference in answers:
        try:
            results.append((name, module.get(reference, timeout=_ANSWERS)))
        except module.exceptions.TaskUnschedulableError:
            continue  # a node that has just left the cluster runs nothing
        except Exception as error:
            if number not in {node["NodeID"] for node in module.nodes() if node["Alive"]}:
                continue  # it left while it was asked
            raise DataError(f"The node {name!r} can't run Sylvan: {line_of(error, -1)}") from error
    return results


def versions() -> dict[str, str]:
    """What must be the same in this process and in every worker, for the same bits and for results that fit."""
    return {"Python": platform.python_version(), "NumPy": np.__version__, "Sylvan": __version__}


def check_nodes(module: Any) -> None:
    """Ask every node for its versions."""
    for name, remote in ask_nodes(module, versions):
        for what, version in versions().items():
            if remote[what] != version:
                raise DataError(f"The node {name!r} has {what} {remote[what]}, but this process has {version}.")
