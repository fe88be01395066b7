"""IRLIIndex: the nearest vectors to a vector, among those of the buckets that networks expect them in."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from sylvan import store, validate
from sylvan.errors import ParameterError
from sylvan.indexing.buckets import Buckets
from sylvan.matching.bucket_network import BucketNetwork
from sylvan.matching.candidates import ORDERS
from sylvan.models.base import MOST_ANSWERS
from sylvan.models.irli.judge import RecallJudge
from sylvan.models.irli.learning import fit_partitions
from sylvan.models.irli.report import BucketReport
from sylvan.models.irli.rounds import Rounds
from sylvan.models.irli.search import BucketedVectors, SearchSettings
from sylvan.models.irli.settings import (
    MOST_BUCKETS,
    Batch,
    Choices,
    Epochs,
    FinalEpochs,
    Hidden,
    NBucketsOrAuto,
    NumberOfRounds,
    Rate,
    Repetitions,
    Room,
)  # fmt: skip
from sylvan.models.irli.tuning import Tuning, choose_settings
from sylvan.models.irli.vectors import Answers, VectorIndex, Vectors, check_metric, comparable, owned, training_queries
from sylvan.parallel import resolve_jobs
from sylvan.params import Choice, Range, Seed, Threads, attribute, parameterized
from sylvan.ranking.vectors import METRICS
from sylvan.runtime import Checkpoint, Runner

__all__ = ["IRLIIndex"]

_SAMPLE = 1000  # queries that a setting or a report is measured on where none are given


@parameterized
class IRLIIndex(VectorIndex):
    """An index of vectors whose buckets are learned: similar vectors come to share them, and all are as full.

    The vectors are parted into buckets several times over, at first at random. For each of these repetitions a
    network learns which buckets a query's nearest neighbours are in; then every vector moves to the least full of the
    few buckets that its own network likes best, and the networks learn again. A search looks into the buckets that
    the networks expect the neighbours in, counts how many repetitions agree on a vector, and compares the query with
    the best of them.

    Parameters
    ----------
    n_buckets : int or "auto", default "auto"
        Buckets of a repetition; "auto" takes the power of two next to 0.8 times the square root of the number of
        vectors. More than there are vectors leave some empty.
    n_repetitions : int, default 16
        Partitions, each with a network of its own.
    hidden : int, default 1024
        Width of the networks' hidden layers. The networks are what most of a search's time goes to.
    choices : int, default 10
        Buckets that a vector may move to: the best for it, of which it takes the least full.
    metric : {"euclidean", "angular", "inner_product"}, default "euclidean"
        What near means. "angular" is 1 - the cosine; with "inner_product" the nearest has the largest product.
    probes : int, default 8
        Buckets that a search looks into, a repetition; n_buckets at most.
    min_votes : int, default 1
        Repetitions, at least, in which a vector must be in one of these buckets.
    order : {"probability", "votes"}, default "probability"
        By what candidates are ordered before the first ``candidates`` are compared: the summed probability of
        the buckets they are in, or the number of these.
    candidates : int, optional
        Candidates compared with a query, at most; None compares all.
    n_neighbors : int, default 30
        Nearest neighbours of a training query that the networks learn; best a few times what searches ask for. Of
        many, most buckets hold one, and their probabilities differ little (the paper has 100).
    n_queries : int, default 30,000
        Vectors of the base that are training queries where ``fit`` is given no others.
    rounds : int or "auto", default "auto"
        Times that vectors move; "auto" stops when holdout queries are answered no better, and takes the best.
    epochs_per_round, final_epochs : int, default 5 and 5
        Passes over the training queries before each move, and at the end.
    room : float, default 0
        A bucket of less than so many times the mean load takes the vectors that like it best, whatever the loads of
        the others. With 0, as in the paper, the least full is always chosen.
    learning_rate, batch_size
        How the networks are trained.
    seed : int, default 0
        Decides all that is drawn.
    n_jobs : int, optional
        Threads; None or -1 for every core. The answers don't depend on it.

    Attributes
    ----------
    base_ : ndarray of float32, shape (n, n_dimensions_)
        The vectors, of unit length under the angular metric; those removed are zeros.
    buckets_ : Buckets
    network_ : BucketNetwork
    n_vectors_ : int
        Vectors that a search can find; ids go beyond it where some were removed.
    n_dimensions_ : int

    Notes
    -----
    IRLI (Gupta, Medini, Shrivastava & Smola 2021), Sections 3 and 4: B is ``n_buckets``, R ``n_repetitions``, K
    ``choices``, m ``probes``; a vector's affinity to a bucket is the network's output for the vector itself
    (Definition 2). The paper filters candidates by votes; ordering them by probability is an extension, and so is
    choosing the number of rounds. Training needs PyTorch, searching doesn't.

    Equal vectors are found each under its own id, lower id first among equal distances.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import IRLIIndex
    >>> base = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    >>> index = IRLIIndex(n_buckets=8, n_repetitions=4, hidden=32, choices=3, probes=4, rounds=1, n_jobs=1)
    >>> ids, distances = index.fit(base).search(base[:2], k=1)
    >>> ids.tolist(), distances.tolist()
    ([[0], [1]], [[0.0], [0.0]])
    """

    kind = "irli-index"

    n_buckets: NBucketsOrAuto = "auto"
    n_repetitions: Repetitions = 16
    hidden: Hidden = 1024
    choices: Choices = 10
    metric: Annotated[str, Choice(METRICS)] = "euclidean"
    probes: Annotated[int, Range(1)] = 8
    min_votes: Annotated[int, Range(1)] = 1
    order: Annotated[str, Choice(ORDERS)] = "probability"
    candidates: Annotated[int | None, Range(1)] = None
    n_neighbors: Annotated[int, Range(1, MOST_ANSWERS)] = 30
    n_queries: Annotated[int, Range(1)] = 30_000
    rounds: NumberOfRounds = "auto"
    epochs_per_round: Epochs = 5
    final_epochs: FinalEpochs = 5
    room: Room = 0.0
    learning_rate: Rate = 0.003
    batch_size: Batch = 256
    seed: Seed = 0
    n_jobs: Threads = None

    _vectors: BucketedVectors = attribute()
    _rounds: Rounds = attribute()

    # ---------------------------------------- building

    def fit(
        self,
        base: Any,
        queries: Any = None,
        neighbors: Any = None,
        metric: str | None = None,
        *,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        runner: Runner | None = None,
    ) -> IRLIIndex:
        """Index the rows of ``base``; a row's number is its id.

        Parameters
        ----------
        base : array of shape (n, d)
        queries : array of shape (n_queries, d), optional
            What the networks are trained on, but for a holdout of one in ten (1,000 at most); best such as will be
            asked. Rows of the base by default.
        neighbors : array of int, shape (n_queries, m), optional
            The nearest rows of the base to each query, nearest first, -1 where there are fewer; computed exactly by
            default.
        metric : {"euclidean", "angular", "inner_product"}, optional
            The parameter of this name, set for good.
        checkpoint : path or Checkpoint, optional
            A folder for what each round has learned, from which the same call goes on after an interruption, to the
            same bits. A short training of small networks writes nothing; a path is removed when ``fit`` is done.
        runner : Runner, optional
            Who runs the training's jobs, instead of threads of this process; see :mod:`sylvan.runtime`.

        Raises
        ------
        DataError
            When an array is malformed, widths or lengths don't agree, a neighbour is out of range, or a vector of
            zeros is given for the angular metric.
        ParameterError
            When a parameter is out of its range.
        ModelError
            When ``checkpoint`` is another training's, or can't be written.
        ImportError
            When PyTorch isn't installed.
        """
        self.check_params()
        validate.count(self.min_votes, "min_votes", owner="IRLIIndex", high=self.n_repetitions)
        n_jobs = resolve_jobs(self.n_jobs)
        metric = self.metric if metric is None else check_metric(metric)
        vectors = owned(comparable(base, metric, name="base", min_rows=1), base)
        sample = training_queries(
            vectors, queries, neighbors, metric=metric, n_queries=self.n_queries, n_neighbors=self.n_neighbors,
            seed=self.seed, n_jobs=n_jobs,
        )  # fmt: skip
        n_buckets = buckets_for(len(vectors)) if isinstance(self.n_buckets, str) else int(self.n_buckets)
        learned = fit_partitions(
            type(self).__name__,
            {**self.get_params(deep=False), "n_buckets": n_buckets, "metric": metric},
            {"base": vectors, "queries": _array(queries), "neighbors": _array(neighbors)},
            sample.queries,
            sample.truths,
            n_jobs=n_jobs,
            checkpoint=checkpoint,
            runner=runner,
            label_vectors=vectors,
            judge=None if sample.holdout is None else RecallJudge(*sample.holdout, n_jobs=n_jobs),
        )
        self._rounds = Rounds(learned.rounds, learned.best_round)
        self.metric = metric
        self._vectors = BucketedVectors(vectors, metric, learned.buckets, learned.network)
        return self

    def add(self, vectors: Any) -> npt.NDArray[np.int32]:
        """Add vectors: in each repetition to the least full of the buckets that the networks like best for them.

        They are placed in a random order, another one in each repetition, so that the order in which they are given,
        such as sorted by topic, doesn't matter to what is found.

        Nothing is learned anew, so an index that has grown a lot, or by vectors unlike those it was fitted on, finds
        less until it is fitted again. The arrays are copied: many vectors at once are better than one by one.

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

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import IRLIIndex
        >>> base = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
        >>> index = IRLIIndex(n_buckets=8, n_repetitions=4, hidden=32, probes=8, rounds=0, n_jobs=1).fit(base)
        >>> index.add(base[:1] * 2).tolist(), index.search(base[:1] * 2, k=1)[0].tolist()
        ([300], [[300]])
        """
        new, ids = self._numbered(vectors)
        if len(new):
            self._vectors = self._vectors.grown(new, self.choices, self.seed, resolve_jobs(self.n_jobs))
        return ids.astype(np.int32)

    def removed(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        self._need_fit("removed")
        return self._vectors.removed(ids)

    def _remove(self, ids: npt.NDArray[np.int64]) -> None:
        self._vectors = self._vectors.without(ids)

    # ---------------------------------------- searching

    def _search(self, queries: Vectors, k: int, options: dict[str, Any]) -> Answers:
        return self._vectors.search(queries, k, self._settings("search", **options), resolve_jobs(self.n_jobs))

    def tune(self, queries: Any = None, recall: float = 0.9, k: int = 10, order: str | None = None) -> Tuning:
        """Set ``probes``, ``min_votes`` and ``candidates`` to what finds enough of the nearest at least cost.

        Parameters
        ----------
        queries : array of shape (n, n_dimensions_), optional
            Such as will be asked, and not those of ``fit``; by default 1,000 vectors of the index, each without
            itself, which is only as good where queries are like them.
        recall : float in (0, 1]
            Share of the ``k`` nearest vectors of a query, on average, that must be candidates.
        k : int
        order : {"votes", "probability"}, optional
            "votes" chooses ``min_votes``, "probability" ``candidates``; the index's own by default.

        Returns
        -------
        Tuning
            The settings, which are the index's parameters from then on, with the recall and the candidates measured.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        self._need_fit("tune")
        if isinstance(recall, bool) or not isinstance(recall, (int, float, np.number)) or not 0 < recall <= 1:
            raise ParameterError(f"The 'recall' parameter of tune must be a float in (0, 1]. Got {recall!r} instead.")
        k = validate.count(k, "k", owner="tune", high=MOST_ANSWERS)
        settings = self._settings("tune", order=order)
        n_jobs = resolve_jobs(self.n_jobs)
        vectors, own = self._queries(queries, "tune")
        index = self._vectors
        nearest = index.nearest(vectors, k, own, n_jobs)
        tuning = choose_settings(
            index.network, index.buckets, vectors, nearest, recall=float(recall), order=settings.order, n_jobs=n_jobs
        )
        self.set_params(**asdict(tuning.settings))
        return tuning

    def report(self, queries: Any = None) -> BucketReport:
        """How balanced the buckets are, how the training went, and how many candidates a search has.

        Parameters
        ----------
        queries : array of shape (n, n_dimensions_), optional
            What candidates are counted for; 1,000 vectors of the index by default.

        Returns
        -------
        BucketReport
            Data, with ``text()``, ``to_dict()`` and ``save(path)``, which draws it.

        Raises
        ------
        NotFittedError, DataError

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import IRLIIndex
        >>> base = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
        >>> index = IRLIIndex(n_buckets=8, n_repetitions=4, hidden=32, choices=3, rounds=1, n_jobs=1).fit(base)
        >>> report = index.report()
        >>> report.n_labels, report.mean_load, len(report.load_deviation), len(report.rounds)
        (300, 37.5, 4, 2)
        """
        self._need_fit("report")
        vectors, _ = self._queries(queries, "report")
        counts = self._vectors.count(vectors, self._settings("report"), resolve_jobs(self.n_jobs))
        return BucketReport.of(self._vectors.buckets, self._rounds, *counts)

    def _space(self) -> tuple[str, int, int]:
        return self._vectors.metric, int(self._vectors.base.shape[1]), len(self._vectors.base)

    def _queries(self, queries: Any, action: str) -> tuple[Vectors, npt.NDArray[np.int32] | None]:
        """Queries, or a sample of the index's own vectors with their ids."""
        if queries is not None:
            return self._comparable(queries, action, "queries"), None
        ids = np.random.default_rng(self.seed).permutation(self._vectors.there)[:_SAMPLE]
        return self._vectors.base[ids], ids

    def _settings(self, owner: str, **other: Any) -> SearchSettings:
        """The index's own settings, verified, with those of a call in their place, and no more probes than buckets."""
        self.check_params(("probes", "min_votes", "order", "candidates"))
        own = SearchSettings(self.probes, self.min_votes, self.order, self.candidates)
        return own.replaced(owner, self._vectors.buckets, **other)

    # ---------------------------------------- what was built

    @property
    def metric_(self) -> str:
        """What near means here; the parameter ``metric`` is for the next ``fit``."""
        self._need_fit("metric_")
        return self._vectors.metric

    @property
    def base_(self) -> Vectors:
        """The vectors: of unit length under the angular metric, zeros where one was removed."""
        self._need_fit("base_")
        return self._vectors.base

    @property
    def buckets_(self) -> Buckets:
        """Which bucket each vector is in, in every repetition."""
        self._need_fit("buckets_")
        return self._vectors.buckets

    @property
    def network_(self) -> BucketNetwork:
        """The networks of all repetitions."""
        self._need_fit("network_")
        return self._vectors.network

    @property
    def n_vectors_(self) -> int:
        """Vectors that a search can find; ids go beyond it where some were removed."""
        self._need_fit("n_vectors_")
        return int(self._vectors.buckets.members.shape[1])

    @property
    def n_dimensions_(self) -> int:
        """Width of a vector."""
        self._need_fit("n_dimensions_")
        return int(self._vectors.base.shape[1])

    def _is_fitted(self) -> bool:
        return "_vectors" in self.__dict__

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        return {**self._vectors.sizes(), **self._rounds.as_json()}, self._vectors.to_arrays(), {}

    def _restore(self, state: store.State) -> None:
        self._rounds = Rounds.from_state(state)
        self._vectors = BucketedVectors.from_state(state)
        self._settings("search")


def _array(values: Any) -> npt.NDArray[Any] | None:
    return None if values is None else np.asarray(values)


def buckets_for(n_vectors: int) -> int:
    """The number of buckets that "auto" means: about as many as vectors in a bucket."""
    return int(min(2 ** round(np.log2(max(1.0, 0.8 * np.sqrt(n_vectors)))), MOST_BUCKETS))


store.register(IRLIIndex.kind, IRLIIndex.from_state)
