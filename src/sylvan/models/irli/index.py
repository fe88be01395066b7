"""IRLIIndex: the nearest vectors to a vector, among those of the buckets that networks expect them in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sylvan import store, validate
from sylvan.errors import DataError, ParameterError
from sylvan.matching.candidates import ORDERS
from sylvan.models.base import MOST_ANSWERS
from sylvan.models.irli.base import IndexHabits
from sylvan.models.irli.bucketed_vectors import BucketedVectors, check_removable
from sylvan.models.irli.kept_rounds import kept_rounds
from sylvan.models.irli.query_sample import given_queries, sampled_queries
from sylvan.models.irli.report import BucketReport, Rounds
from sylvan.models.irli.settings import MOST_BUCKETS, Tuning
from sylvan.models.irli.vector_space import comparable, kept
from sylvan.parallel import resolve_jobs
from sylvan.params import Choice, Constraint, Jobs, Number, NumberOr
from sylvan.ranking.vectors import METRICS
from sylvan.runtime.checkpoint import Checkpoint, identity_of

__all__ = ["IRLIIndex"]

KIND = "irli-index"
_LEARNING = (  # parameters that are learn_partitions' own
    "n_repetitions", "hidden", "choices", "rounds", "epochs_per_round", "final_epochs", "learning_rate", "batch_size",
    "room", "seed",
)  # fmt: skip


class IRLIIndex(IndexHabits):
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
        By what the vectors found are ordered before the first ``candidates`` are compared: the summed probability of
        the buckets they are in, or the number of these.
    candidates : int, optional
        Vectors compared with a query, at most; None compares all that are found.
    n_neighbors : int, default 30
        Nearest neighbours of a training query that the networks learn; best a few times what searches ask for. Of
        many, most buckets hold one, and their probabilities tell little (the paper has 100).
    n_queries : int, default 30,000
        Vectors of the base that are training queries where ``fit`` is given no others.
    rounds : int or "auto", default "auto"
        Times that vectors move; "auto" stops when queries held out are answered no better, and keeps the best.
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

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_buckets": NumberOr(int, 1, MOST_BUCKETS, word="auto"),
        "n_repetitions": Number(int, 1, 1024),
        "hidden": Number(int, 1, 1 << 20),
        "choices": Number(int, 1, MOST_BUCKETS),
        "metric": Choice(METRICS),
        "probes": Number(int, 1),
        "min_votes": Number(int, 1),
        "order": Choice(ORDERS),
        "candidates": Number(int, 1, optional=True),
        "n_neighbors": Number(int, 1, MOST_ANSWERS),
        "n_queries": Number(int, 1),
        "rounds": NumberOr(int, 0, 1000, word="auto"),
        "epochs_per_round": Number(int, 1, 10_000),
        "final_epochs": Number(int, 0, 10_000),
        "room": Number(float, 0, 1000),
        "learning_rate": Number(float, 0, 10, open_low=True),
        "batch_size": Number(int, 1, 1 << 20),
        "seed": Number(int, 0, 2**31 - 1),
        "n_jobs": Jobs(optional=True),
    }

    _rounds: Rounds

    def __init__(
        self,
        n_buckets: int | str = "auto",
        n_repetitions: int = 16,
        hidden: int = 1024,
        choices: int = 10,
        metric: str = "euclidean",
        probes: int = 8,
        min_votes: int = 1,
        order: str = "probability",
        candidates: int | None = None,
        n_neighbors: int = 30,
        n_queries: int = 30_000,
        rounds: int | str = "auto",
        epochs_per_round: int = 5,
        final_epochs: int = 5,
        room: float = 0.0,
        learning_rate: float = 0.003,
        batch_size: int = 256,
        seed: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_buckets = n_buckets
        self.n_repetitions = n_repetitions
        self.hidden = hidden
        self.choices = choices
        self.metric = metric
        self.probes = probes
        self.min_votes = min_votes
        self.order = order
        self.candidates = candidates
        self.n_neighbors = n_neighbors
        self.n_queries = n_queries
        self.rounds = rounds
        self.epochs_per_round = epochs_per_round
        self.final_epochs = final_epochs
        self.room = room
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.seed = seed
        self.n_jobs = n_jobs

    # ---------------------------------------- building

    def fit(
        self,
        base: Any,
        queries: Any = None,
        neighbors: Any = None,
        metric: str | None = None,
        *,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    ) -> IRLIIndex:
        """Index the rows of ``base``; a row's number is its id.

        Parameters
        ----------
        base : array of shape (n, d)
        queries : array of shape (n_queries, d), optional
            What the networks are trained on, one in ten of them (1,000 at most) held out; best such as will be asked.
            Rows of the base by default.
        neighbors : array of int, shape (n_queries, m), optional
            The nearest rows of the base to each query, nearest first, -1 where there are fewer; computed exactly by
            default.
        metric : {"euclidean", "angular", "inner_product"}, optional
            The parameter of this name, set for good.
        checkpoint : path or Checkpoint, optional
            A folder for what has been learned at the end of each round, from which the same call goes on after an
            interruption, to the same bits. Nothing is written in the first minute; a path is removed when ``fit`` is
            done.

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
        from sylvan.models.irli.learning import learn_partitions

        self.check_params()
        validate.count(self.min_votes, "min_votes", owner="IRLIIndex", high=self.n_repetitions)
        n_jobs = resolve_jobs(self.n_jobs)
        metric = self.metric if metric is None else check_metric(metric)
        if neighbors is not None and queries is None:
            raise DataError("neighbors were given without the queries that they are the neighbours of.")
        vectors = kept(comparable(base, metric, name="base", min_rows=1), base)
        ways: dict[str, Any] = {
            "metric": metric, "n_neighbors": self.n_neighbors, "seed": self.seed, "n_jobs": n_jobs
        }  # fmt: skip
        if queries is None:
            sample = sampled_queries(vectors, n_queries=self.n_queries, **ways)
        else:
            sample = given_queries(queries, neighbors, vectors, **ways)
        n_buckets = buckets_for(len(vectors)) if isinstance(self.n_buckets, str) else int(self.n_buckets)
        with kept_rounds(checkpoint, lambda: self._identity(metric, vectors, queries, neighbors)) as keeper:
            learned = learn_partitions(
                sample.queries,
                sample.truths,
                len(vectors),
                n_buckets=n_buckets,
                label_vectors=vectors,
                held_out=sample.held_out,
                keeper=keeper,
                n_jobs=n_jobs,
                **{name: getattr(self, name) for name in _LEARNING},
            )
        self._rounds = Rounds.of(learned.rounds, learned.best_round)
        self.metric = metric
        self._held = BucketedVectors(vectors, metric, learned.buckets, learned.network)
        return self

    def _identity(self, metric: str, vectors: Any, queries: Any, neighbors: Any) -> dict[str, Any]:
        """What tells this training from others, for its checkpoint."""
        parameters = {**self.get_params(deep=False), "metric": metric}
        del parameters["n_jobs"]
        given = {name: None if value is None else np.asarray(value) for name, value in
                 (("queries", queries), ("neighbors", neighbors))}  # fmt: skip
        return identity_of(type(self).__name__, parameters, base=vectors, **given)

    def add(self, vectors: Any) -> npt.NDArray[np.int32]:
        """Add vectors: in each repetition to the least full of the buckets that the networks like best for them.

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
        new = self._vectors(vectors, "add", "vectors")
        n_before = len(self._held.base)
        if len(new):
            self._held = self._held.grown(new, self.choices, resolve_jobs(self.n_jobs))
        return np.arange(n_before, n_before + len(new), dtype=np.int32)

    def remove(self, ids: Any) -> None:
        """Remove vectors: no search finds them any more, and they are overwritten with zeros.

        The ids of all others stay as they are, and removed ids aren't given to new vectors. Searches that run at the
        same time go on with the index as it was. The arrays are copied: many at once are better than one by one.

        Parameters
        ----------
        ids : array of int
            Each once.

        Raises
        ------
        DataError
            For an id that the index hasn't got, or hasn't got any more; nothing is removed then.
        NotFittedError
        """
        self._need_fit("remove")
        wanted = validate.row_numbers(ids, len(self._held.base), name="ids", what="the index's vectors").ravel()
        if wanted.size:
            check_removable(wanted, self._held.gone(wanted))
            self._held = self._held.without(wanted)

    def removed(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Those of ``ids``, each below the number of ids there are, that were removed."""
        self._need_fit("removed")
        return self._held.gone(ids)

    # ---------------------------------------- searching

    def search(
        self,
        queries: Any,
        k: int = 10,
        probes: int | None = None,
        min_votes: int | None = None,
        order: str | None = None,
        candidates: int | str | None = None,
        return_counts: bool = False,
    ) -> tuple[npt.NDArray[Any], ...]:
        """The ``k`` nearest vectors to each query among its candidates.

        Parameters
        ----------
        queries : array of shape (n, n_dimensions_)
        k : int
            Vectors a query; where there are fewer candidates, or fewer vectors, the row ends in id -1.
        probes, min_votes, order, candidates
            Instead of the index's own parameters; ``candidates="all"`` keeps all that are found.
        return_counts : bool
            Also give how many vectors were compared with each query.

        Returns
        -------
        ids : ndarray of int32, shape (n, k)
        distances : ndarray of float32, shape (n, k)
            Nearest first, lower id first among equals: Euclidean distances, 1 - cosines, or inner products, of which
            the largest come first. Infinite where the id is -1 (-inf for inner products).
        counts : ndarray of int64, shape (n,)
            Only with ``return_counts``.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        vectors = self._vectors(queries, "search", "queries")
        k = validate.count(k, "k", owner="search", high=max(len(self._held.base), MOST_ANSWERS))
        settings = self._settings("search", probes=probes, min_votes=min_votes, order=order, candidates=candidates)
        found = self._held.search(vectors, k, settings, resolve_jobs(self.n_jobs))
        return found if return_counts else found[:2]

    def tune(self, queries: Any = None, recall: float = 0.9, k: int = 10, order: str | None = None) -> Tuning:
        """Set ``probes``, ``min_votes`` and ``candidates`` to what finds enough of the nearest at least cost.

        Parameters
        ----------
        queries : array of shape (n, n_dimensions_), optional
            Such as will be asked, and not those of ``fit``; by default 1,000 vectors of the index, each without
            itself, which is only as good where queries are like them.
        recall : float in (0, 1]
            Share of the ``k`` nearest vectors of a query, on average, that must be found.
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
        vectors, left_out = self._asked(queries, "tune")
        nearest = self._held.nearest(vectors, k, left_out, n_jobs)
        tuning = self._held.tuned(vectors, nearest, float(recall), settings.order, n_jobs)
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
        vectors, _ = self._asked(queries, "report")
        counts = self._held.count(vectors, self._settings("report"), resolve_jobs(self.n_jobs))
        return BucketReport.of(self._held.buckets, self._rounds, *counts)

    def to_state(self) -> store.State:
        """The index as plain values and arrays."""
        self._need_fit("to_state")
        meta = {**self._held.sizes(), **self._rounds.as_json()}
        return store.State(KIND, 1, self.get_params(deep=False), meta, self._held.to_arrays())

    @classmethod
    def from_state(cls, state: store.State) -> IRLIIndex:
        """An index from what :meth:`to_state` gave.

        Raises
        ------
        ModelError
            When something is missing, of the wrong kind or inconsistent.
        """
        store.need_kind(state, KIND)
        index = cls(**store.need_params(state, cls.parameter_names()))
        index.check_params()
        resolve_jobs(index.n_jobs)
        index._rounds = Rounds.from_state(state)
        index._held = BucketedVectors.from_state(state)
        index._settings("search")
        return index


def check_metric(metric: Any) -> str:
    """``metric``, if there is one of that name.

    Raises
    ------
    ParameterError
    """
    if not isinstance(metric, str) or metric not in METRICS:
        words = ", ".join(map(repr, METRICS))
        raise ParameterError(f"The 'metric' parameter of fit must be one of {words} or None. Got {metric!r} instead.")
    return metric


def buckets_for(n_vectors: int) -> int:
    """The number of buckets that "auto" means: about as many as vectors in a bucket."""
    return int(min(2 ** round(np.log2(max(1.0, 0.8 * np.sqrt(n_vectors)))), MOST_BUCKETS))


store.register(KIND, IRLIIndex.from_state)
