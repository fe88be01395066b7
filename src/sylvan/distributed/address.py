"""A cluster's address: whether there is one, found out within a minute."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from sylvan.errors import ParameterError, SylvanError

__all__ = ["connect"]

_PATIENCE = 10.0  # seconds in which an address must accept a connection
# Ray's own setting for how often it looks for a cluster, some 40 seconds each time. It does so 20 times where nothing
# is said, a quarter of an hour.
_TIMES = "RAY_gcs_server_port_wait_time_s"


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
