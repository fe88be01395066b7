"""ShardedIRLIIndex: an index in disjoint parts, built and asked beside each other."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

import numpy as np

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.types import Array, Float32, Int32, Int64
from sylvan.errors import DataError, ModelError, NotFittedError, SylvanError, UnsupportedError
from sylvan.models.irli.buckets import Order
from sylvan.models.irli.index import IRLIIndex
from sylvan.models.irli.rounds import BucketReport
from sylvan.models.irli.search import Tuning
from sylvan.models.irli.vectors import Answers, Metric, VectorIndex, check_metric, checked_neighbors, need_directions
from sylvan.parallel import one_at_a_time, quiet, resolve_jobs
from sylvan.params.fields import Range, Tested, attribute, parameterized
from sylvan.params.wording import counted

_MOST_LOSSES = 5  # of one list of calls: a shard that its node has no memory for is lost each time
STARTING = ("build", "load", "take")  # methods of a ShardWorker that give it an index, whatever it had before
# What the libraries for matrix products ask how many threads they may have.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_starting = threading.Lock()


@dataclass(frozen=True)
class ShardCall:
    """A method of :class:`ShardWorker`, and what to call it with."""

    method: str
    # plain values, NumPy arrays and Sylvan's own objects: whatever can be pickled
    arguments: Mapping[str, Any] = field(default_factory=dict)


class LostShardsError(SylvanError):
    """Raised by a :class:`ShardExecutor` when workers of shards have ended."""

    def __init__(self, lost: Mapping[int, str], answers: Sequence[Any]) -> None:
        self.lost, self.answers = dict(sorted(lost.items())), list(answers)
        super().__init__("; ".join(f"shard {number} was lost: {why}" for number, why in self.lost.items()) + ".")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.lost, self.answers)


class ShardExecutor(Protocol):
    """What has a :class:`ShardWorker` for each shard, made empty, for as long as it is open."""

    def run(self, calls: Sequence[ShardCall | None]) -> list[Any]:
        """The answer of each shard to its call, in the order of the shards; shards with None aren't called. The calls
        may run at the same time. When some fail, all others are finished first, and the error of the first shard that
        failed is raised. An executor whose workers can be lost one by one raises a
        :class:`LostShardsError`, and gives such a shard a new worker for the next call
        of :data:`STARTING`."""
        ...

    def close(self) -> None:
        """Give the workers up."""
        ...


class ShardWorker:
    """One shard's index where it lives; ids are the shard's own. Other methods than those below are the index's."""

    def __init__(self) -> None:
        self.index: IRLIIndex | None = None

    def call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """The answer to a call."""
        if method in STARTING:
            return getattr(self, method)(**arguments)
        if self.index is None:
            raise NotFittedError("This shard has no index yet.")
        return self.index if method == "give" else getattr(self.index, method)(**arguments)

    def build(self, params: Mapping[str, Any], **arguments: Any) -> None:
        """Fit a new index with what :meth:`IRLIIndex.fit` takes."""
        self.index = IRLIIndex(**params).fit(**arguments)

    def load(self, folder: str, checksum: str, part: str, n_jobs: int) -> None:
        """Map the part of a saved index that is this shard's."""
        if store.contents(folder).get("checksum") != checksum:
            raise ModelError(f"The model in {folder!r} was replaced since it was loaded: load it again.")
        self.take(IRLIIndex.from_state(store.need_part(store.load(folder), part)), n_jobs)

    def take(self, index: IRLIIndex, n_jobs: int) -> None:
        """Use an index that is in memory already."""
        self.index = index.set_params(n_jobs=n_jobs)


class SerialExecutor:
    """All shards in this process, asked one after another; each has all of the threads."""

    def __init__(self, n_shards: int) -> None:
        self._workers = [ShardWorker() for _ in range(n_shards)]

    def run(self, calls: Sequence[ShardCall | None]) -> list[Any]:
        """See :class:`ShardExecutor`."""
        return _answers([_outcome(worker, call) for worker, call in zip(self._workers, calls, strict=True)])

    def close(self) -> None:
        """See :class:`ShardExecutor`."""
        self._workers = [ShardWorker() for _ in self._workers]


class ProcessExecutor:
    """Each shard in a process of its own on this machine; they share its cores. The processes are spawned, not
    forked, so a script must start its work below ``if __name__ == "__main__":``. They end with :meth:`close`, and with
    this process."""

    def __init__(self, n_shards: int) -> None:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        n_jobs = max(1, resolve_jobs(None) // n_shards)
        self._lock = threading.Lock()
        self._owed = [False] * n_shards  # answers that a call that was interrupted has left to come
        self._processes, self._pipes = [], []
        try:
            with _starting, _few_threads(n_jobs):
                for number in range(n_shards):
                    parent, child = context.Pipe()
                    process = context.Process(target=_serve, args=(child,), daemon=True, name=f"sylvan-shard-{number}")
                    process.start()
                    child.close()
                    self._processes.append(process)
                    self._pipes.append(parent)
        except BaseException:
            self.close()
            raise

    def run(self, calls: Sequence[ShardCall | None]) -> list[Any]:
        """See :class:`ShardExecutor`."""
        with self._lock:
            for number, owed in enumerate(self._owed):
                if owed:
                    self._receive(number)
            for number, call in enumerate(calls):
                if call is not None:
                    self._send(number, call)
            return _answers([None if call is None else self._receive(number) for number, call in enumerate(calls)])

    def _send(self, number: int, call: ShardCall) -> None:
        try:
            self._owed[number] = True
            self._pipes[number].send(call)
        except OSError as error:
            raise self._lost(number) from error

    def _receive(self, number: int) -> Any:
        try:
            outcome = self._pipes[number].recv()
        except (EOFError, OSError) as error:
            raise self._lost(number) from error
        self._owed[number] = False
        return outcome

    def _lost(self, number: int) -> SylvanError:
        self._processes[number].join(1)
        code = self._processes[number].exitcode
        self.close()
        return SylvanError(
            f"The process of shard {number} has ended (exit code {code}), and the others were ended with it. In a "
            "script, work with shards must start below: if __name__ == '__main__':"
        )

    def close(self) -> None:
        """See :class:`ShardExecutor`."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()


# Makers of executors by name; each takes the number of shards.
EXECUTORS: Mapping[str, Callable[[int], ShardExecutor]] = {"processes": ProcessExecutor, "serial": SerialExecutor}


def run_calls(
    executor: ShardExecutor, calls: Sequence[ShardCall | None], sources: Sequence[ShardCall] | None = None
) -> list[Any]:
    """The shards' answers; those that are lost meanwhile are started again and asked again."""
    try:
        return executor.run(calls)
    except LostShardsError as lost:
        return recovered(executor, calls, sources, lost)


def recovered(
    executor: ShardExecutor, calls: Sequence[ShardCall | None], sources: Sequence[ShardCall] | None,
    lost: LostShardsError, n_losses: int = 1,
) -> list[Any]:  # fmt: skip
    """The answers to calls in which ``lost`` was raised; parameters and errors as those of :func:`run_calls`."""
    number, why = next(iter(lost.lost.items()))
    if n_losses > _MOST_LOSSES:
        raise SylvanError(f"Shard {number} was lost {n_losses} times, the last time because {why}.") from lost
    again = [call if number in lost.lost else None for number, call in enumerate(calls)]
    starts: list[ShardCall | None] = [None] * len(again)
    for number, call in enumerate(again):
        if call is not None and call.method not in STARTING:
            if sources is None:
                raise SylvanError(
                    f"Shard {number} was lost with vectors that were not saved, because {lost.lost[number]}. Fit the "
                    "index again, or load it from where it was saved before. An index that is saved after it was "
                    "fitted or changed starts lost shards again by itself."
                ) from lost
            starts[number] = sources[number]
    for part in (starts, again):
        if any(call is not None for call in part):
            try:
                answers = executor.run(part)
            except LostShardsError as more:
                answers = recovered(executor, part, sources, more, n_losses + 1)
    return [answers[number] if number in lost.lost else answer for number, answer in enumerate(lost.answers)]


def _outcome(worker: ShardWorker, call: ShardCall | None) -> Any:
    """The answer to a call and None, or None and the error."""
    if call is None:
        return None
    try:
        return worker.call(call.method, call.arguments), None
    except Exception as error:
        return None, error


def _answers(outcomes: Sequence[Any]) -> list[Any]:
    for outcome in outcomes:
        if outcome is not None and outcome[1] is not None:
            raise outcome[1]
    return [None if outcome is None else outcome[0] for outcome in outcomes]


def _serve(pipe: Any) -> None:
    """A shard's process: calls come in, answers go out, until the other end is closed."""
    import multiprocessing
    import signal
    from multiprocessing.connection import wait

    if (parent := multiprocessing.parent_process()) is not None:
        # A parent that is killed notifies nobody, and a shard in training wouldn't look for hours.
        sentinel = parent.sentinel
        threading.Thread(target=lambda: (wait([sentinel]), os._exit(1)), daemon=True, name="sylvan-parent").start()
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks hears Ctrl-C, and decides
    worker = ShardWorker()
    with contextlib.suppress(EOFError, OSError), quiet():
        while True:
            outcome = _outcome(worker, pipe.recv())
            try:
                pipe.send(outcome)
            except OSError:
                raise
            except Exception:  # an error that can't be pickled
                pipe.send((None, SylvanError(f"A shard failed: {outcome[1]!r}")))


@contextlib.contextmanager
def _few_threads(n_threads: int) -> Iterator[None]:
    """Processes started meanwhile take so many threads for matrix products, where nobody has said how many."""
    missing = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, str(n_threads)))
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


_MOST_SHARDS = 4096


_EXECUTOR = Tested(
    lambda value: value in EXECUTORS if isinstance(value, str) else callable(value),
    f"one of {', '.join(map(repr, EXECUTORS))}, or a callable that makes a ShardExecutor",
)


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
        takes the number of shards and gives a :class:`~sylvan.models.irli.shards.ShardExecutor`, such as
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
    >>> shard = IRLIIndex("learned", n_buckets=8, n_repetitions=4, hidden=32, choices=3, probes=4, rounds=1)
    >>> with ShardedIRLIIndex(shard, n_shards=2, executor="serial").fit(base) as index:
    ...     index.search(base[:3], k=1)[0].tolist()
    [[0], [1], [2]]
    """

    kind = "irli-shards"

    index: IRLIIndex | None = None
    n_shards: Annotated[int, Range(1, _MOST_SHARDS)] = 2
    executor: Annotated[Literal["processes", "serial"] | Callable[[int], ShardExecutor], _EXECUTOR] = "processes"

    _running: ShardExecutor | None = attribute(None)
    _end: Callable[[], None] = attribute()  # closes what is running, as the end of this object does

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
            if neighbors is not None:  # as the shard's own ids, -1 for those of others; a shard of none computes them
                in_shard = (neighbors >= 0) & (neighbors % n_shards == shard)
                used = in_shard[:, : params["n_neighbors"]]
                arguments["neighbors"] = np.where(in_shard, neighbors // n_shards, -1) if used.any() else None
            calls.append(ShardCall("build", {"params": params, **arguments}))
        running = self._started(n_shards, calls)
        self._keep(template, metric, len(vectors), len(vectors), int(vectors.shape[1]))
        self._set_running(running)
        return self

    def _shard_jobs(self, n_jobs: int | None, n_shards: int) -> int:
        """Threads of one shard: what the executor says, or an equal part of the cores, unless it is given."""
        n_threads = getattr(self.executor, "n_jobs", None)
        if n_jobs not in (None, -1) or n_threads is not None:
            return resolve_jobs(n_threads if n_jobs in (None, -1) else n_jobs)
        return max(1, resolve_jobs(None) // (1 if self.executor == "serial" else n_shards))

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

    def _set_running(self, running: ShardExecutor) -> None:
        self._running, self._end = running, weakref.finalize(self, running.close)

    def _ask(self, calls: Sequence[ShardCall | None]) -> list[Any]:
        """The shards' answers; the shards of an index that was loaded are started when they are first asked."""
        if self._running is None:
            if (sources := self._sources()) is None:
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
    def add(self, vectors: Any) -> Int32:
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

    def removed(self, ids: Int64) -> Int64:
        self._need_fit("removed")
        removed = self._ask([ShardCall("removed", {"ids": part}) for part in self._parted(ids)])
        return np.concatenate([part * self.n_shards_ + shard for shard, part in enumerate(removed)])

    def _remove(self, ids: Int64) -> None:
        self._ask([ShardCall("remove", {"ids": part}) if part.size else None for part in self._parted(ids)])
        self.n_vectors_, self._source = self.n_vectors_ - ids.size, None

    def _parted(self, ids: Int64) -> list[Int64]:
        """The ids of each shard's vectors, as the shard counts them."""
        return [ids[ids % self.n_shards_ == shard] // self.n_shards_ for shard in range(self.n_shards_)]

    # ---------------------------------------- searching

    def _search(self, queries: Float32, k: int, options: dict[str, Any], open_ids: LabelFilter | None) -> Answers:
        if open_ids is not None:
            raise UnsupportedError("An index in shards takes no allowed and denied: search them in an IRLIIndex.")
        answers = self._all("search", queries=queries, k=k, return_counts=True, **options)
        parts, farness, counts = zip(*answers, strict=True)
        global_ids = [np.where(part >= 0, part * self.n_shards_ + shard, -1) for shard, part in enumerate(parts)]
        ids, distances = np.concatenate(global_ids, axis=1), np.concatenate(farness, axis=1)
        nearness = -distances if self._metric == "inner_product" else distances
        best = np.lexsort((ids, nearness), axis=-1)[:, :k]
        nearest = np.take_along_axis(ids, best, axis=1).astype(np.int32), np.take_along_axis(distances, best, axis=1)
        return *nearest, np.sum(counts, axis=0)

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
        if self._running is not None:
            self._running = None
            self._end()

    def __enter__(self) -> ShardedIRLIIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in ("_running", "_end")}
        if self._is_fitted() and self._source is None:
            state["_source"] = self._taken(self._all("give"))
        return state

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

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, store.State]]:
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
        parts = (store.need_part(state, f"shard{shard}", "irli-index") for shard in range(self.n_shards))
        shards = [IRLIIndex.from_state(part) for part in parts]
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
