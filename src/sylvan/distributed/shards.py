"""The shards of a ShardedIRLIIndex on a Ray cluster: an actor for each, on whichever node has room."""

from __future__ import annotations

import copy
import os
import platform
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sylvan.distributed.ray_runner import Connection, array_bytes, check_nodes, line_of, need_ray
from sylvan.errors import ModelError, SylvanError
from sylvan.models.irli.shards import STARTING, LostShardsError, ShardCall, ShardWorker
from sylvan.parallel import quiet
from sylvan.params.fields import Range, check_values
from sylvan.params.wording import counted, shown_bytes
from sylvan.runtime.memory import parse_bytes

_SMALL = 100_000  # bytes of arguments that travel with their call: smaller ones aren't worth a place in the store
_STAYING = ("base", "index")  # arguments that a shard's index keeps


def ray_shards(
    address: str | None = None, *, cpus_per_shard: float = 1, memory_per_shard: int | str | None = None,
    start_timeout: float = 120.0, **options: Any,
) -> RayShards:  # fmt: skip
    """An executor for :class:`~sylvan.ShardedIRLIIndex`: its shards live on a Ray cluster.

    Each shard is an actor, on whichever node has room; they are spread over the nodes. A shard's vectors are sent to
    its actor alone, queries once to all. A shard that is lost with its process or node is started on another node
    from where the index was saved or loaded from, if it hasn't changed since, and asked again.

    Parameters
    ----------
    address : str, optional
        As of :func:`sylvan.distributed.ray`.
    cpus_per_shard : float, default 1
        CPUs that the cluster sets aside for a shard as long as the index is open; may be 0, or less than 1. So many
        threads, rounded down, a shard has by default.
    memory_per_shard : int or str, optional
        Bytes, or text such as "4GB", that a node must have for each of its shards, besides what it has for others.
    start_timeout : float, default 120
        Seconds in which shards must have found their place and started.
    **options
        For ``ray.init``, where it is called here.

    Raises
    ------
    ParameterError
        When a parameter is out of its range.

    Notes
    -----
    ``fit``, or the first search of an index that was loaded, raises an ImportError without Ray, and a SylvanError when
    there is no cluster, when it hasn't room for all shards, when a node has other versions of Python, NumPy or Sylvan,
    or when it doesn't see the folder of the index.

    Examples
    --------
    ::

        index = ShardedIRLIIndex(IRLIIndex(), n_shards=8, executor=sylvan.distributed.ray_shards("auto"))
        index.fit(base).save("/shared/index")
    """
    check_values(
        {"cpus_per_shard": Range(0), "start_timeout": Range(0, open_low=True)}, "ray_shards",
        cpus_per_shard=cpus_per_shard, start_timeout=start_timeout,
    )  # fmt: skip
    memory = None if memory_per_shard is None else parse_bytes(memory_per_shard, "memory_per_shard")
    return RayShards(address, float(cpus_per_shard), memory, float(start_timeout), options)


@dataclass(frozen=True)
class RayShards:
    """Makes executors over a Ray cluster; see :func:`ray_shards`."""

    address: str | None  # address, cpus_per_shard, memory_per_shard, start_timeout: as of `ray_shards`
    cpus_per_shard: float
    memory_per_shard: int | None
    start_timeout: float
    options: Mapping[str, Any] = field(default_factory=dict)  # for `ray.init`

    @property
    def n_jobs(self) -> int:
        """Threads of a shard."""
        return max(1, int(self.cpus_per_shard))

    def __call__(self, n_shards: int) -> RayExecutor:
        return RayExecutor(n_shards, self)

    def places(self, resources: Mapping[str, float], n_shards: int) -> int:
        """How many of ``n_shards`` shards a node with these resources has room for."""
        needs = (("CPU", self.cpus_per_shard), ("memory", self.memory_per_shard or 0))
        return min([n_shards, *(int(resources.get(name, 0) / size + 1e-6) for name, size in needs if size)])


class RayExecutor:
    """The executor that :class:`RayShards` makes, connected to its cluster until it is closed. See
    :class:`~sylvan.models.irli.shards.ShardExecutor`. A shard's actor is started by the call that gives it its
    index. Lists of calls may be run from several threads; a shard takes one call after another."""

    def __init__(self, n_shards: int, shards: RayShards) -> None:
        self._ray, self._shards = need_ray(), shards
        self._connection = Connection(self._ray, shards.address, **shards.options)
        self._actors: list[Any] = [None] * n_shards
        self._nodes = ["the cluster"] * n_shards  # names of where shards are, or were
        self._starting, self._closed = threading.Lock(), False
        try:
            check_nodes(self._ray)
            self._class = self._ray.remote(_ShardActor)
        except BaseException:
            self.close()
            raise

    def run(self, calls: Sequence[ShardCall | None]) -> list[Any]:
        """The answers of the shards; see :class:`~sylvan.models.irli.shards.ShardExecutor`."""
        if self._closed or not self._connection.is_alive():
            raise SylvanError(
                "The connection to the Ray cluster that has the shards was closed. Call the index's close(); if it was "
                "saved, its shards are then started again when it is asked."
            )
        numbers = [number for number, call in enumerate(calls) if call is not None]
        lost = self._start(number for number in numbers if calls[number].method in STARTING)  # type: ignore[union-attr]
        pending = {}
        # What is large is sent once, however many shards are given it. By identity; with the object, which stays alive.
        sent: dict[int, tuple[Any, Any]] = {}
        for number in numbers:
            call, actor = calls[number], self._actors[number]
            assert call is not None
            if actor is None:
                lost.setdefault(number, f"it has ended on {self._nodes[number]}")
                continue
            for value in call.arguments.values():
                if id(value) not in sent:
                    sent[id(value)] = value, value if array_bytes(value) < _SMALL else self._ray.put(value)
            values = [sent[id(value)][1] for value in call.arguments.values()]
            pending[number] = actor, actor.call.remote(call.method, list(call.arguments), *values)
        del sent  # what was sent may go when the calls are done
        answers: list[Any] = [None] * len(calls)
        failed: list[Exception] = []
        for number, (actor, reference) in pending.items():
            try:
                answer = self._ray.get(reference)
                # Other answers are a user's, who may write to them; an index is saved and let go.
                answers[number] = answer if calls[number].method == "give" else copy.deepcopy(answer)  # type: ignore[union-attr]
            except self._ray.exceptions.RayTaskError as error:
                cause = getattr(error, "cause", None)
                failed.append(cause if isinstance(cause, Exception) else error)
            except self._ray.exceptions.RayError as error:
                lost[number] = self._give_up(number, actor, error)
        if failed:
            raise failed[0] from None
        if lost:
            raise LostShardsError(lost, answers)
        return answers

    def close(self) -> None:
        """End the actors, and the connection if nothing else needs it."""
        self._closed = True
        with suppress(Exception):  # Ray may be gone by now
            if self._connection.is_alive():
                self._kill(actor for actor in self._actors if actor is not None)
        self._actors = [None] * len(self._actors)
        self._connection.close()

    def _start(self, numbers: Iterable[int]) -> dict[int, str]:
        """Start the actors of shards that have none; of those that ended at once, why."""
        with self._starting:
            missing = [number for number in numbers if self._actors[number] is None]
            if not missing:
                return {}
            self._need_room()
            size = self._shards.memory_per_shard
            memory = {} if size is None else {"memory": size}
            maker = self._class.options(
                num_cpus=self._shards.cpus_per_shard, scheduling_strategy="SPREAD", max_restarts=0, **memory
            )
            actors = {number: maker.remote() for number in missing}
            try:
                lost = self._placed(actors)
            except BaseException:
                self._kill(actors.values())
                raise
            for number in missing:
                if number not in lost:
                    self._actors[number] = actors[number]
            return lost

    def _placed(self, actors: Mapping[int, Any]) -> dict[int, str]:
        """Wait until actors have found their places; of those that ended at once, why."""
        places = {number: actor.place.remote() for number, actor in actors.items()}
        references, timeout = list(places.values()), self._shards.start_timeout
        _, waiting = self._ray.wait(references, num_returns=len(references), timeout=timeout, fetch_local=False)
        if waiting:
            number = min(number for number, reference in places.items() if reference in waiting)
            free = self._ray.available_resources()
            raise SylvanError(
                f"Shard {number} has found no place within {timeout:g} seconds: each needs {self._needs()}, and other "
                f"work has the cluster's, of which {_resources(free)} are free."
            )
        lost = {}
        for number, reference in places.items():
            try:
                self._nodes[number] = f"the node {self._ray.get(reference)!r}"
            except self._ray.exceptions.RayError as error:
                lost[number] = self._give_up(number, actors[number], error)
        return lost

    def _need_room(self) -> None:
        """Refuse shards that the cluster will never have room for, at once."""
        n_shards = len(self._actors)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        n_places = sum(self._shards.places(resources, n_shards) for resources in nodes)
        if n_places < n_shards:
            have = "; ".join(map(_resources, nodes))
            raise SylvanError(
                f"The Ray cluster has room for {n_places} of {counted(n_shards, 'shard')}: each needs {self._needs()} "
                f"of one node, and the nodes have: {have}. Add nodes, or lower n_shards, cpus_per_shard or "
                "memory_per_shard."
            )

    def _needs(self) -> str:
        memory = self._shards.memory_per_shard
        return _cpus(self._shards.cpus_per_shard) + ("" if memory is None else f" and {shown_bytes(memory)}")

    def _give_up(self, number: int, actor: Any, error: Exception) -> str:
        """Of an actor that can't be asked any more: why."""
        self._kill([actor])
        if self._actors[number] is actor:
            self._actors[number] = None
        if isinstance(error, self._ray.exceptions.OutOfMemoryError):
            return f"{self._nodes[number]} ran out of memory"
        return f"its process on {self._nodes[number]} has ended ({line_of(error)})"

    def _kill(self, actors: Iterable[Any]) -> None:
        for actor in actors:
            with suppress(Exception):
                self._ray.kill(actor)


class _ShardActor:
    """A shard's worker on a node."""

    def __init__(self) -> None:
        self._worker = ShardWorker()

    def place(self) -> str:
        """The name of the node."""
        return platform.node()

    def call(self, method: str, names: Sequence[str], *values: Any) -> Any:
        """The answer of the worker."""
        arguments = dict(zip(names, values, strict=True))
        if method == "load" and not os.path.isdir(arguments["folder"]):
            fault = f"The node {platform.node()!r} doesn't see the folder {arguments['folder']!r} of the index"
            way = "Save it where all nodes of the cluster see it under the same path, as on a shared disk"
            raise ModelError(f"{fault}. {way}.")
        if method in STARTING:
            arguments |= {name: _copied(arguments[name]) for name in _STAYING if name in arguments}
        with quiet():
            return self._worker.call(method, arguments)


def _copied(value: Any) -> Any:
    """The same in this process's memory: what lies in the object store would take its place there for good."""
    if not isinstance(value, np.ndarray):
        return copy.deepcopy(value)
    array = value if value.flags.writeable else value.copy()  # what lies in the store is for reading alone
    array.flags.writeable = False  # or the index would copy it once more
    return array


def _resources(resources: Mapping[str, float]) -> str:
    return f"{_cpus(resources.get('CPU', 0))} and {shown_bytes(resources.get('memory', 0))}"


def _cpus(number: float) -> str:
    return f"{number:g} CPU" if number == 1 else f"{number:g} CPUs"
