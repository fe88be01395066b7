"""ShardedIRLIIndex: an index in disjoint parts, built and asked beside each other."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.errors import DataError, NotFittedError
from sylvan.models.irli.buckets import Order
from sylvan.models.irli.index import IRLIIndex
from sylvan.models.irli.rounds import BucketReport
from sylvan.models.irli.search import Tuning
from sylvan.models.irli.shard_workers import EXECUTORS, LostShardsError, ShardCall, ShardExecutor, recovered, run_calls
from sylvan.models.irli.vectors import Answers, Metric, VectorIndex, check_metric, checked_neighbors, need_directions
from sylvan.parallel import one_at_a_time, resolve_jobs
from sylvan.params.fields import Constraint, Range, parameterized
from sylvan.params.wording import counted

_MOST_SHARDS = 4096

Ids = npt.NDArray[np.int32]


class _Executor(Constraint):
    """The name of a way to run shards, or a callable that makes an executor."""

    def accepts(self, value: Any) -> bool:
        return value in EXECUTORS if isinstance(value, str) else callable(value)

    def describe(self) -> str:
        return f"one of {', '.join(map(repr, EXECUTORS))}, or a callable that makes a ShardExecutor"

    def _parse(self, text: str) -> Any:
        return text


@parameterized
class ShardedIRLIIndex(VectorIndex):
    """Several :class:`IRLIIndex` over disjoint parts of the vectors, each in a process of its own.

    Vector i is in shard i modulo ``n_shards``. Every shard learns buckets and networks for its own vectors and answers
    every query; the nearest of all answers are the index's.

    Parameters
    ----------
    index : IRLIIndex, optional
        What each shard is built with; its parameters count for one shard. Parameters are reached by
        ``set_params(index__probes=20)``; after ``fit`` they change nothing any more.
    n_shards : int, default 2
    executor : {"processes", "serial"} or callable, default "processes"
        Where the shards live: in processes of this machine, or in this process, one asked after another. A callable
        takes the number of shards and gives a :class:`~sylvan.models.irli.shard_workers.ShardExecutor`, such as
        :func:`sylvan.distributed.ray_shards`, which has the shards on the machines of a Ray cluster; where it has an
        attribute ``n_jobs``, a shard has so many threads. The answers don't depend on it.

    Attributes
    ----------
    n_vectors_ : int
        Vectors that a search can find.
    n_dimensions_ : int

    Notes
    -----
    The paper's Section 5.3. The shards of an index that was fitted live in their processes alone until it is saved:
    closing it before loses them. Processes are spawned, so a script must start its work below ``if __name__ ==
    "__main__":``. On a cluster, shards that are lost with their node are started on another from where the index was
    saved last, if it hasn't changed since.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import IRLIIndex, ShardedIRLIIndex
    >>> base = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    >>> shard = IRLIIndex(n_buckets=8, n_repetitions=4, hidden=32, choices=3, probes=4, rounds=1)
    >>> with ShardedIRLIIndex(shard, n_shards=2, executor="serial").fit(base) as index:
    ...     index.search(base[:3], k=1)[0].tolist()
    [[0], [1], [2]]
    """

    kind = "irli-shards"

    index: IRLIIndex | None = None
    n_shards: Annotated[int, Range(1, _MOST_SHARDS)] = 2
    executor: Annotated[Literal["processes", "serial"] | Callable[[int], ShardExecutor], _Executor()] = "processes"

    # ---------------------------------------- building

    def fit(
        self, base: Any, queries: Any = None, neighbors: Any = None, metric: Metric | None = None
    ) -> ShardedIRLIIndex:
        """Index the rows of ``base``; a row's number is its id.

        Parameters
        ----------
        base : array of shape (n, d)
        queries : array of shape (n_queries, d), optional
            What the networks are trained on, those of all shards; rows of a shard's own part by default.
        neighbors : array of int, shape (n_queries, m), optional
            The nearest rows of the whole base to each query; each shard learns those in its own part. By default each
            shard computes the nearest in its part.
        metric : {"euclidean", "angular", "inner_product"}, optional
            Instead of ``index``'s.

        Raises
        ------
        DataError, ParameterError, ImportError
            As :meth:`IRLIIndex.fit`; and when there are more shards than vectors.
        """
        self.check_params()
        template = IRLIIndex() if self.index is None else self.index
        template.check_params()
        resolve_jobs(template.n_jobs)
        metric = template.metric if metric is None else check_metric(metric)
        vectors = validate.vectors(base, name="base", min_rows=1)
        need_directions(vectors, metric, "base")
        if len(vectors) < self.n_shards:
            raise DataError(
                f"base has {counted(len(vectors), 'row')}, which are too few for {counted(self.n_shards, 'shard')}."
            )
        neighbors = checked_neighbors(queries, neighbors, len(vectors))
        params, n_shards, calls = template.get_params(deep=False), self.n_shards, []
        params["n_jobs"] = self._shard_jobs(params["n_jobs"], n_shards)
        for shard in range(n_shards):
            arguments = {"base": vectors[shard::n_shards], "queries": queries, "neighbors": None, "metric": metric}
            if neighbors is not None:  # as the shard's own ids, -1 for those of others
                in_shard = (neighbors >= 0) & (neighbors % n_shards == shard)
                arguments["neighbors"] = np.where(in_shard, neighbors // n_shards, -1)
            calls.append(ShardCall("build", {"params": params, **arguments}))
        running = self._started(n_shards, calls)
        self._keep(template, metric, len(vectors), len(vectors), int(vectors.shape[1]))
        self._set_running(running)
        return self

    def _shard_jobs(self, n_jobs: int | None, n_shards: int) -> int:
        """Threads of one shard: what the executor says, or an equal part of the cores, unless it is given."""
        if n_jobs in (None, -1):
            n_threads = getattr(self.executor, "n_jobs", None)
            if n_threads is not None:
                return resolve_jobs(n_threads)
            return max(1, resolve_jobs(None) // (1 if self.executor == "serial" else n_shards))
        return resolve_jobs(n_jobs)

    def _started(self, n_shards: int, calls: Sequence[ShardCall]) -> ShardExecutor:
        """An executor whose shards have their indexes by these calls."""
        make = EXECUTORS[self.executor] if isinstance(self.executor, str) else self.executor
        running = make(n_shards)
        try:
            run_calls(running, calls)
        except BaseException:
            running.close()
            raise
        return running

    def _keep(self, template: IRLIIndex, metric: Metric, n_ids: int, n_vectors: int, n_dimensions: int) -> None:
        self.close()
        self._template, self._metric = template.get_params(deep=False), metric
        self.n_shards_, self._n_ids, self.n_vectors_, self.n_dimensions_ = self.n_shards, n_ids, n_vectors, n_dimensions
        self._source: Sequence[ShardCall] | None = None
        self._set_running(None)

    def _set_running(self, running: ShardExecutor | None) -> None:
        self._running = running
        self._finalizer = None if running is None else weakref.finalize(self, running.close)

    def _ask(self, calls: Sequence[ShardCall | None]) -> list[Any]:
        """The shards' answers; the shards of an index that was loaded are started when they are first asked."""
        if self._running is None:
            sources = self._sources()
            if sources is None:
                raise NotFittedError(
                    "This ShardedIRLIIndex was closed before it was saved, or lost a shard: fit it again."
                )
            self._set_running(self._started(self.n_shards_, sources))
        assert self._running is not None
        try:
            return self._running.run(calls)
        except LostShardsError as lost:
            try:
                return recovered(self._running, calls, self._sources(), lost)
            except BaseException:
                self.close()  # some shards may have changed, others not: all begin again with their sources
                raise

    def _sources(self) -> list[ShardCall] | None:
        """What makes each shard what it is; None for what was fitted or changed and not saved since."""
        if self._source is None:
            return None
        n_jobs = self._shard_jobs(None if self.index is None else self.index.n_jobs, self.n_shards_)
        return [ShardCall(call.method, {**call.arguments, "n_jobs": n_jobs}) for call in self._source]

    def _all(self, method: str, **arguments: Any) -> list[Any]:
        return self._ask([ShardCall(method, arguments)] * self.n_shards_)

    @one_at_a_time
    def add(self, vectors: Any) -> Ids:
        """Add vectors, each to its shard; as :meth:`IRLIIndex.add`.

        Parameters
        ----------
        vectors : array of shape (n, n_dimensions_)

        Returns
        -------
        ndarray of int32, shape (n,)
            Their ids, which follow those that there are.

        Raises
        ------
        NotFittedError, DataError
        """
        new, ids = self._numbered(vectors)
        shards = ids % self.n_shards_
        parts = [new[shards == shard] for shard in range(self.n_shards_)]
        self._ask([ShardCall("add", {"vectors": part}) if len(part) else None for part in parts])
        self._n_ids, self.n_vectors_, self._source = self._n_ids + len(new), self.n_vectors_ + len(new), None
        return ids.astype(np.int32)

    def removed(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        self._need_fit("removed")
        removed = self._ask([ShardCall("removed", {"ids": part}) for part in self._parted(ids)])
        return np.concatenate([part * self.n_shards_ + shard for shard, part in enumerate(removed)])

    def _remove(self, ids: npt.NDArray[np.int64]) -> None:
        self._ask([ShardCall("remove", {"ids": part}) if part.size else None for part in self._parted(ids)])
        self.n_vectors_, self._source = self.n_vectors_ - ids.size, None

    def _parted(self, ids: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """The ids of each shard's vectors, as the shard counts them."""
        return [ids[ids % self.n_shards_ == shard] // self.n_shards_ for shard in range(self.n_shards_)]

    # ---------------------------------------- searching

    def _search(self, queries: npt.NDArray[np.float32], k: int, options: dict[str, Any]) -> Answers:
        answers = self._all("search", queries=queries, k=k, return_counts=True, **options)
        ids = np.concatenate(
            [np.where(part >= 0, part * self.n_shards_ + shard, -1) for shard, (part, _, _) in enumerate(answers)],
            axis=1,
        )
        distances = np.concatenate([answer[1] for answer in answers], axis=1)
        nearness = -distances if self._metric == "inner_product" else distances
        best = np.lexsort((ids, nearness), axis=-1)[:, :k]
        nearest = np.take_along_axis(ids, best, axis=1).astype(np.int32), np.take_along_axis(distances, best, axis=1)
        return *nearest, np.sum([answer[2] for answer in answers], axis=0)

    def tune(self, queries: Any = None, recall: float = 0.9, k: int = 10, order: Order | None = None) -> list[Tuning]:
        """Set each shard to what finds enough of the nearest in its own part; see :meth:`IRLIIndex.tune`.

        The recall of the nearest of all is at least as high: in their shards they are the nearest of the nearest.

        Parameters
        ----------
        queries, recall, k, order
            As :meth:`IRLIIndex.tune`.

        Returns
        -------
        list of Tuning
            One a shard.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        vectors = None if queries is None else self._comparable(queries, "tune", "queries")
        self._need_fit("tune")
        tunings = self._all("tune", queries=vectors, recall=recall, k=k, order=order)
        self._source = None
        return tunings

    def report(self, queries: Any = None) -> list[BucketReport]:
        """The report of each shard; see :meth:`IRLIIndex.report`.

        Raises
        ------
        NotFittedError, DataError
        """
        vectors = None if queries is None else self._comparable(queries, "report", "queries")
        self._need_fit("report")
        return self._all("report", queries=vectors)

    def _space(self) -> tuple[Metric, int, int]:
        return self._metric, self.n_dimensions_, self._n_ids

    # ---------------------------------------- processes and folders

    def close(self) -> None:
        """End the shards' processes. An index that was saved or loaded starts them again when it is asked."""
        running, finalizer = self.__dict__.get("_running"), self.__dict__.get("_finalizer")
        if running is not None and finalizer is not None:
            finalizer.detach()
            self._running = None
            running.close()

    def __enter__(self) -> ShardedIRLIIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in ("_running", "_finalizer")}
        if self._is_fitted() and self._source is None:
            state["_source"] = self._taken(self._all("give"))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._is_fitted():
            self._set_running(None)

    def _is_fitted(self) -> bool:
        return "_template" in self.__dict__

    def _taken(self, indexes: Sequence[IRLIIndex]) -> list[ShardCall]:
        """How the shards are had again from indexes in memory."""
        return [ShardCall("take", {"index": index}) for index in indexes]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write all shards into one folder, whole or not at all; an older Sylvan model there is replaced.

        Raises
        ------
        NotFittedError, SylvanError
            As :meth:`IRLIIndex.save`.
        """
        super().save(folder)
        self._source = self._saved(os.path.abspath(store.folder_path(folder)))

    def _saved(self, folder: str) -> list[ShardCall]:
        """How the shards are had again from a folder."""
        arguments = {"folder": folder, "checksum": store.contents(folder).get("checksum")}
        return [ShardCall("load", {**arguments, "part": f"shard{shard}"}) for shard in range(self.n_shards_)]

    def _plain_params(self) -> dict[str, Any]:
        executor = self.executor if isinstance(self.executor, str) else "processes"
        return {"n_shards": self.n_shards_, "executor": executor}

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        return store.need_params(state, ("n_shards", "executor"))

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        parts = {}
        for shard, index in enumerate(self._all("give")):
            parts[f"shard{shard}"] = index.to_state()
            parts[f"shard{shard}"].params["n_jobs"] = self._template["n_jobs"]
        return {"index": self._template, "metric": self._metric, "n_ids": self._n_ids}, {}, parts

    def _restore(self, state: store.State) -> None:
        parameters = state.meta.get("index")
        described = store.State(self.kind, 1, parameters if isinstance(parameters, dict) else {}, where=state.where)
        template = IRLIIndex(**store.need_params(described, IRLIIndex.parameter_names()))
        template.check_params()
        n_ids = store.need_int(state, "n_ids", self.n_shards, validate.MAX_COLUMNS)
        shards = [
            IRLIIndex.from_state(store.need_part(state, f"shard{shard}", "irli-index"))
            for shard in range(self.n_shards)
        ]
        metric = store.need_choice(state, "metric", {shards[0].metric_})
        for number, shard in enumerate(shards):
            n_own = len(range(number, n_ids, self.n_shards))
            if (len(shard.base_), shard.n_dimensions_, shard.metric_) != (n_own, shards[0].n_dimensions_, metric):
                raise DataError(f"shard {number} doesn't fit the others in size, width or metric.")
        n_vectors = sum(shard.n_vectors_ for shard in shards)
        self.index = template
        self._keep(template, metric, n_ids, n_vectors, shards[0].n_dimensions_)
        self._source = self._saved(state.where) if state.where else self._taken(shards)


store.register(ShardedIRLIIndex.kind, ShardedIRLIIndex.from_state)
