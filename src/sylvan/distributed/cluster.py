"""``with sylvan.distributed.ray(…):``: a cluster that trainings run on, looked at before they begin."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from sylvan.distributed.connection import Connection
from sylvan.distributed.nodes import ask_nodes
from sylvan.distributed.ray_runner import RayRunner
from sylvan.errors import DataError
from sylvan.runtime.jobs import using
from sylvan.version import __version__


def need_ray(module: str = "ray") -> Any:
    """Ray, or its ``ray.data``, or how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        what = "Ray" if module == "ray" else f"Ray Data ({error})"
        raise ImportError(f'Working on a cluster needs {what}. Install it with: pip install "sylvan[ray]"') from error


@contextmanager
def ray(address: str | None = None, *, n_jobs: int | None = 1, **options: Any) -> Iterator[RayRunner]:
    """Trainings within the block run their jobs on a Ray cluster; models have the same bits as without.

    Parameters
    ----------
    address : str, optional
        Of the cluster, or "auto" for the one that this machine belongs to; None takes the one that this process is
        connected to already, or starts one on this machine, whatever RAY_ADDRESS says.
    n_jobs : int, optional
        Threads of this process, for what isn't divided into jobs.
    **options
        For ``ray.init``, where it is called here.

    Yields
    ------
    RayRunner
        Also taken by ``fit(…, runner=…)``.

    Raises
    ------
    ImportError
        Without Ray.
    SylvanError
        When there is no cluster at the address, or a node has another version of Python, NumPy or Sylvan.

    Examples
    --------
    ::

        with sylvan.distributed.ray("auto"):
            model = XRLinear().fit(X, Y)
    """
    module = need_ray()
    with ExitStack() as ends:
        ends.callback(Connection(module, address, **options).close)
        check_nodes(module)
        runner = RayRunner(module, n_jobs)
        with using(runner):
            yield runner


def versions() -> dict[str, str]:
    """What must be the same in this process and in every worker, for the same bits and for results that fit."""
    return {"Python": platform.python_version(), "NumPy": np.__version__, "Sylvan": __version__}


def check_nodes(module: Any) -> None:
    """Ask every node for its versions."""
    own = versions()
    for name, found in ask_nodes(module, versions):
        for what, version in own.items():
            if found[what] != version:
                raise DataError(f"The node {name!r} has {what} {found[what]}, but this process has {version}.")
