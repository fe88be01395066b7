"""IRLIIndex: the nearest vectors to a vector, among those of the buckets that networks expect them in."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.types import Array, Float32, Int32, Int64
from sylvan.errors import ParameterError
from sylvan.lazy import need_torch
from sylvan.models.base import MOST_ANSWERS
from sylvan.models.irli.bucket_centers import BucketCenters
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.buckets import MOST_BUCKETS, MOST_REPETITIONS, ORDERS, Buckets, Order, hash_partition
from sylvan.models.irli.learning import fit_partitions, grouped
from sylvan.models.irli.rounds import (
    BucketReport,
    Choices,
    InputScale,
    LearningSettings,
    Lesson,
    NBucketsOrAuto,
    NumberOfRounds,
    Rate,
    RecallJudge,
    Rounds,
    network_of,
)
from sylvan.models.irli.search import UNTUNED, BucketedVectors, SearchSettings, Tuning, choose_settings
from sylvan.models.irli.vectors import (
    ROUGH_WIDTH,
    Answers,
    Metric,
    VectorIndex,
    Vectors,
    check_metric,
    checked_neighbors,
    comparable,
    exact_neighbors,
    nearest_of,
    owned,
    training_queries,
)
from sylvan.parallel import one_at_a_time, resolve_jobs
from sylvan.params.fields import Choice, Range, Seed, Threads, attribute, check_value, parameterized
from sylvan.runtime import Checkpoint, Runner
from sylvan.runtime.memory import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan, timed

ROUNDS = 3  # that "auto" is taken to make
_FLOAT = 4
_QUERIES, _ROWS = 64, 4096  # that are compared to see how long it takes
_BATCHES = 4  # that are trained on
_JUDGED = 64  # queries that are judged
_TUNED = 4  # judgements that the tuning takes as long as, about
_TUNED_FOR = 10  # neighbours that a search is set to
_FEWEST_QUERIES, _MOST_QUERIES = 10_000, 30_000
_NARROWEST, _WIDEST = 128, 1024  # hidden layers of "auto"; 128 is enough for 100,000 vectors
_DIRECTIONS_OF = 20_000  # vectors whose directions are found
_COMPARED = 4096  # allowed vectors that are all compared
_SAMPLE = 1000  # queries that a setting or a report is measured on where none are given
_FEWEST = 10  # such queries
_LEARNED_REPETITIONS, _REPETITIONS_OF_CENTERS = 16, 4
_SMALLER = 4  # buckets around centres are so many times as many as learned ones: no network has to tell them apart
_OF_LEARNING = (
    "hidden", "n_components", "choices", "n_neighbors", "n_queries", "rounds", "epochs_per_round", "final_epochs",
    "room", "learning_rate", "batch_size",
)  # fmt: skip


@dataclass(frozen=True)
class IndexSizes:
    """What is learned of how much."""

    n_buckets: int
    n_repetitions: int
    hidden: int
    n_components: int  # principal directions that the networks see; 0 where they see the vectors as they are
    n_queries: int  # rows of the base that are training queries where none are given

    @classmethod
    def of(cls, parameters: dict[str, Any], n_vectors: int, n_dimensions: int) -> IndexSizes:
        """The parameters of an index, with numbers for "auto"."""
        numbers = {name: None if value == "auto" else value for name, value in parameters.items()}
        centers = parameters["partition"] == "centers"
        n_buckets = numbers["n_buckets"] or buckets_for(n_vectors, _SMALLER if centers else 1)
        n_repetitions = numbers["n_repetitions"] or (_REPETITIONS_OF_CENTERS if centers else _LEARNED_REPETITIONS)
        hidden = numbers["hidden"] or min(max(n_buckets // 2, _NARROWEST), _WIDEST)
        width = numbers["n_components"]
        if width is None:
            width = hidden if n_dimensions >= 2 * hidden else 0
        n_queries = numbers["n_queries"] or min(max(n_vectors // 3, _FEWEST_QUERIES), _MOST_QUERIES)
        return cls(n_buckets, n_repetitions, hidden, width if width < n_dimensions else 0, n_queries)


def buckets_for(n_vectors: int, times: int = 1) -> int:
    """The number of buckets that "auto" means: about as many as vectors in a bucket, or so many times that."""
    return int(min(2 ** round(np.log2(max(1.0, 0.8 * times * np.sqrt(n_vectors)))), MOST_BUCKETS))


def principal_directions(vectors: Float32, width: int, seed: int) -> Float32:
    """The orthonormal directions in which some of the vectors have the largest mean squares, largest first. The mean
    isn't taken away, so that inner products of projected vectors come near those of the vectors."""
    # Shape: vectors (n, d); returns (d, width)
    some = np.sort(np.random.default_rng([seed, 8]).permutation(len(vectors))[:_DIRECTIONS_OF])
    sample = vectors[some].astype(np.float64)
    directions = np.linalg.eigh(sample.T @ sample)[1][:, ::-1]
    return np.ascontiguousarray(directions[:, :width], dtype=np.float32)


def plan_index(
    vectors: Vectors, metric: Metric, parameters: dict[str, Any], n_given: int | None, finds_neighbors: bool,
    n_jobs: int,
) -> Plan:  # fmt: skip
    """The plan of an index, by a few small measurements. ``n_given`` training queries are given; with None, rows of the
    base are taken."""
    from sylvan.models.irli.training import one_thread

    n, width = vectors.shape
    sizes = IndexSizes.of(parameters, n, width)
    if parameters["partition"] == "centers":
        return _plan_centers(vectors, metric, sizes, n_jobs)
    settings = LearningSettings.of({**parameters, **asdict(sizes)})
    n_inputs, n_queries = sizes.n_components or width, min(sizes.n_queries, n) if n_given is None else n_given
    resident, available = resident_bytes(), available_bytes()
    with one_thread():
        training, moving, judging = _seconds_of_steps(n, int(parameters["n_neighbors"]), settings, n_inputs)
        rough_width = min(n_inputs, ROUGH_WIDTH) if sizes.n_components else width
        exact, rough = (_seconds_of_distance(vectors[:_ROWS, :used], metric) for used in (width, rough_width))
    # The neighbours of training queries are computed, and those of the holdout, which are exact.
    holdout = min(1000, n_queries // 10)
    n_exact, n_rough = holdout if n_given is None or finds_neighbors else 0, n_queries if finds_neighbors else 0
    finding = n * (n_exact * exact + n_rough * rough) / n_jobs
    rounds = ROUNDS if isinstance(settings.rounds, str) else settings.rounds
    epochs = (rounds + 1) * settings.epochs_per_round + settings.final_epochs
    n_groups, batches = len(grouped(settings)), -(-n_queries // settings.batch_size)
    spread = min(n_jobs, n_groups)  # a group is trained on one thread
    network = settings.n_repetitions * (settings.hidden * (n_inputs + sizes.n_buckets + 1) + sizes.n_buckets)
    projected = _FLOAT * n_inputs * (n + n_queries + width) if sizes.n_components else 0
    truths = 12 * n_queries * int(parameters["n_neighbors"])
    buckets = 2 * _FLOAT * settings.n_repetitions * n
    phases = (
        Phase("neighbours", finding, projected + truths),
        Phase("training", epochs * batches * n_groups * training / spread, 7 * _FLOAT * network),  # Adam; the best
        Phase("moving", rounds * n * moving / n_jobs, 3 * buckets),
        Phase("judging", (rounds + 1 + _TUNED) * holdout * judging / n_jobs, 0),
    )
    model = _FLOAT * (n * width + network + (n_inputs * width if sizes.n_components else 0)) + buckets
    peak = resident + vectors.nbytes + sum(phase.peak_bytes for phase in phases)
    seconds = sum(phase.seconds for phase in phases)
    return Plan(seconds, peak, model, None if available is None else resident + available, phases)


def _plan_centers(vectors: Vectors, metric: Metric, sizes: IndexSizes, n_jobs: int) -> Plan:
    """The plan of an index around centres: its vectors are assigned, and a search is set by some of them."""
    n, width = vectors.shape
    resident, available = resident_bytes(), available_bytes()
    rows = vectors[:_ROWS]
    drawn = BucketCenters.draw(rows, sizes.n_buckets, sizes.n_repetitions, metric == "inner_product", 0)
    with timed() as assigning:
        drawn.assign(rows)
    exact, n_asked = _seconds_of_distance(rows, metric), min(n, _SAMPLE)
    buckets, centers = 2 * _FLOAT * sizes.n_repetitions * n, _FLOAT * sizes.n_repetitions * sizes.n_buckets * width
    phases = (
        Phase("assigning", n * assigning.seconds / (len(rows) * n_jobs), buckets + 2 * centers),
        Phase("neighbours", n * n_asked * exact / n_jobs, 0),
        Phase("setting the search", _TUNED * n_asked * assigning.seconds / (len(rows) * n_jobs), 0),
    )
    peak, seconds = (sum(getattr(phase, name) for phase in phases) for name in ("peak_bytes", "seconds"))
    model = _FLOAT * n * width + centers + buckets
    return Plan(
        seconds, resident + vectors.nbytes + peak, model, None if available is None else resident + available, phases
    )


def _seconds_of_distance(rows: Vectors, metric: Metric) -> float:
    rows = np.ascontiguousarray(rows)
    with timed() as comparing:
        exact_neighbors(rows[:_QUERIES], rows, min(100, len(rows)), metric)
    return comparing.seconds / (min(_QUERIES, len(rows)) * len(rows))


def _seconds_of_steps(n: int, n_neighbors: int, settings: LearningSettings, width: int) -> tuple[float, float, float]:
    """Seconds of training a group on a batch, of a vector's best buckets, and of judging a query; of one thread."""
    from sylvan.models.irli.training import GroupTrainer

    size, random = _BATCHES * settings.batch_size, np.random.default_rng(0)
    inputs = random.standard_normal((size, width), np.float32)
    ones, ids = np.ones(size * n_neighbors, np.float32), random.integers(n, size=size * n_neighbors, dtype=np.int32)
    truths = sp.csr_matrix((ones, ids, np.arange(0, size * n_neighbors + 1, n_neighbors)), shape=(size, n))
    group, lesson = grouped(settings)[0], Lesson(inputs, truths, settings, InputScale.of(inputs))
    assignment = hash_partition(n, settings.n_buckets, settings.n_repetitions, settings.seed)[group.start : group.stop]
    trainer = GroupTrainer(lesson, group)
    trainer.train(assignment, 1)  # what happens once
    with timed() as training:
        trainer.train(assignment, 1)
    network = network_of([trainer.state()], lesson.scale)
    with timed() as moving:
        network.top(inputs, min(settings.choices, settings.n_buckets))
    buckets = Buckets.from_assignment(assignment, settings.n_buckets)
    with timed() as judging:
        RecallJudge(inputs[:_JUDGED], truths[:_JUDGED])(buckets, network)
    share = settings.n_repetitions / len(group)
    return training.seconds / _BATCHES, share * moving.seconds / size, share * judging.seconds / min(_JUDGED, size)


@parameterized
class IRLIIndex(VectorIndex):
    """An index of vectors that are parted into buckets several times over, by random centres or by learning.

    By default the centres of the buckets are vectors drawn at random, in each repetition others, and each vector is in
    the bucket of the nearest. With ``partition="learned"`` the buckets are learned, as in the paper: similar vectors
    come to share them, and all are as full. Vectors are then at first parted at random; for each repetition a
    network learns which buckets a query's nearest neighbours are in; then every vector moves to the least full of the
    few buckets that its own network likes best, and the networks learn again. A search looks into the buckets whose
    centres are nearest, or that the networks expect the neighbours in, counts how many repetitions agree on a vector,
    and compares the query with the best of them.

    Parameters
    ----------
    partition : {"centers", "learned"}, default "centers"
        Random centres need no PyTorch, are built in seconds, and were searched sooner on every set measured.
    n_buckets : int or "auto", default "auto"
        Buckets of a repetition; "auto" takes the power of two next to 0.8 times the square root of the number of
        vectors, or next to 3.2 times for centres. More than there are vectors leave some empty.
    n_repetitions : int or "auto", default "auto"
        Partitions, each with centres or a network of its own; "auto" takes 4 of centres and 16 learned ones.
    hidden : int or "auto", default "auto"
        This and all below that is said of networks and training is for ``partition="learned"`` alone, and refused
        beside centres. Width of the networks' hidden layers; "auto" takes half the number of buckets, but 128 at least
        and 1,024 (the paper's) at most. The networks are what most of a search's time goes to.
    n_components : int or "auto", default "auto"
        Principal directions of the vectors that the networks see, all of them where that is no fewer than the vectors
        have dimensions. "auto" takes as many as ``hidden`` for vectors that are at least twice as wide: all networks
        share this projection, which makes them several times cheaper to train and to ask. Distances are computed
        from the vectors as they are. Where ``fit`` computes the neighbours of its training queries, it then finds
        them among those that are near by the first directions.
    choices : int, default 10
        Buckets that a vector may move to: the best for it, of which it takes the least full.
    metric : {"euclidean", "angular", "inner_product"}, default "euclidean"
        What near means. "angular" is 1 - the cosine; with "inner_product" the nearest has the largest product.
    recall : float in (0, 1], default 0.9
        Share of the 10 nearest vectors that a search is to find, on average. ``fit`` measures on holdout queries
        what "auto" of ``probes``, ``candidates`` and ``min_votes`` means for it, at least cost; see ``tuning_``.
    probes : int or "auto", default "auto"
        Buckets that a search looks into, a repetition; n_buckets at most. What is given for one of the three rules,
        and ``recall`` isn't promised. Beside a number of probes that is given, here or in a search, "auto" of the
        other two means 1 vote and all candidates, as nothing was measured for it.
    min_votes : int or "auto", default "auto"
        Repetitions, at least, in which a vector must be in one of these buckets.
    order : {"probability", "votes"}, default "probability"
        By what candidates are ordered before the first ``candidates`` are compared: the summed probability of
        the buckets they are in, or the number of these.
    candidates : int or "auto", optional, default "auto"
        Candidates compared with a query, at most; None compares all.
    n_neighbors : int, default 30
        Nearest neighbours of a training query that the networks learn; best a few times what searches ask for. Of
        many, most buckets hold one, and their probabilities differ little (the paper has 100).
    n_queries : int or "auto", default "auto"
        Vectors of the base that are training queries where ``fit`` is given no others. "auto" takes a third of them,
        but 10,000 at least and 30,000 at most.
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
    network_ : BucketNetwork or BucketCenters
    n_vectors_ : int
        Vectors that a search can find; ids go beyond it where some were removed.
    n_dimensions_ : int
    tuning_ : Tuning or None
        What a search was set to by ``fit``, or by ``tune`` since, with the recall and candidates measured. None where
        ``probes`` was given, or there were too few vectors to measure on; a search then looks into 8 buckets and
        compares all candidates.

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
    >>> ids, distances = IRLIIndex(n_jobs=1).fit(base).search(base[:2], k=1)
    >>> ids.tolist(), distances.tolist()
    ([[0], [1]], [[0.0], [0.0]])
    """

    kind = "irli-index"

    partition: Literal["centers", "learned"] = "centers"
    n_buckets: NBucketsOrAuto = "auto"
    n_repetitions: Annotated[int | Literal["auto"], Range(1, MOST_REPETITIONS, word="auto")] = "auto"
    hidden: Annotated[int | Literal["auto"], Range(1, 1 << 20, word="auto")] = "auto"
    n_components: Annotated[int | Literal["auto"], Range(1, word="auto")] = "auto"
    choices: Choices = 10
    metric: Metric = "euclidean"
    recall: Annotated[float, Range(0, 1, open_low=True)] = 0.9
    probes: Annotated[int | Literal["auto"], Range(1, word="auto")] = "auto"
    min_votes: Annotated[int | Literal["auto"], Range(1, word="auto")] = "auto"
    order: Order = "probability"
    candidates: Annotated[int | Literal["auto"] | None, Range(1, word="auto")] = "auto"
    n_neighbors: Annotated[int, Range(1, MOST_ANSWERS)] = 30
    n_queries: Annotated[int | Literal["auto"], Range(1, word="auto")] = "auto"
    rounds: NumberOfRounds = "auto"
    epochs_per_round: Annotated[int, Range(1)] = 5
    final_epochs: Annotated[int, Range(0)] = 5
    room: Annotated[float, Range(0, 1000)] = 0.0
    learning_rate: Rate = 0.003
    batch_size: Annotated[int, Range(1)] = 256
    seed: Seed = 0
    n_jobs: Threads = None

    _vectors: BucketedVectors = attribute()
    _rounds: Rounds = attribute()
    tuning_: Tuning | None = attribute()

    # ---------------------------------------- building

    def fit(
        self, base: Any, queries: Any = None, neighbors: Any = None, metric: Metric | None = None, *,
        checkpoint: Checkpoint | Literal["auto"] | os.PathLike[str] | None = None, runner: Runner | None = None,
    ) -> IRLIIndex:  # fmt: skip
        """Index the rows of ``base``; a row's number is its id. Then set the search to the wished ``recall``.

        Parameters
        ----------
        base : array of shape (n, d)
        queries : array of shape (n_queries, d), optional
            What the networks are trained on, but for a holdout of one in ten (1,000 at most), on which the best round
            and the settings of a search are chosen; best such as will be asked. Rows of the base by default.
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
        vectors, metric = self._verified(base, metric)
        vectors = owned(vectors, base)
        if self.partition == "centers":
            return self._fit_centers(vectors, queries, neighbors, metric)
        need_torch("Fitting an IRLIIndex with partition='learned'")
        from sylvan.models.irli.training import one_thread

        parameters, n_jobs, projection, tuning = self.get_params(deep=False), resolve_jobs(self.n_jobs), None, None
        sizes = IndexSizes.of(parameters, *vectors.shape)
        with one_thread():
            if sizes.n_components:
                projection = principal_directions(vectors, sizes.n_components, self.seed)
            sample = training_queries(
                vectors, queries, neighbors, metric=metric, n_queries=sizes.n_queries, n_neighbors=self.n_neighbors,
                seed=self.seed, n_jobs=n_jobs, projection=projection,
            )  # fmt: skip

            def seen(rows: Vectors) -> Vectors:
                return rows if projection is None else rows @ projection

            inputs = {"queries": queries, "neighbors": neighbors}
            data = {name: None if array is None else np.asarray(array) for name, array in inputs.items()}
            holdout, judge = sample.holdout, None
            if holdout is not None:
                judge = RecallJudge(seen(holdout[0]), holdout[1], n_jobs=n_jobs)
            learned = fit_partitions(
                type(self).__name__, {**parameters, **asdict(sizes), "metric": metric}, {"base": vectors, **data},
                seen(sample.queries), sample.truths, n_jobs=n_jobs, checkpoint=checkpoint, runner=runner,
                label_vectors=seen(vectors), judge=judge,
            )  # fmt: skip
            network = replace(learned.network, projection=projection)
            index = BucketedVectors(vectors, metric, learned.buckets, network)
            if holdout is not None and self.probes == "auto":  # the settings for the wished recall
                tuning = choose_settings(index, holdout[0], nearest_of(holdout[1]), self.recall, self.order, n_jobs)
        self.metric, self._vectors, self._rounds, self.tuning_ = metric, index, learned.record, tuning
        return self

    def _fit_centers(self, vectors: Vectors, queries: Any, neighbors: Any, metric: Metric) -> IRLIIndex:
        """Centres drawn, each vector with the nearest; the search is set by queries given, or by some vectors."""
        n_jobs, sizes = resolve_jobs(self.n_jobs), IndexSizes.of(self.get_params(deep=False), *vectors.shape)
        nearest, ids = checked_neighbors(queries, neighbors, len(vectors)), None
        if queries is not None:
            width = vectors.shape[1]
            asked = comparable(queries, metric, n_dimensions=width, name="queries", min_rows=1, owner="the base")
            asked, nearest = asked[:_SAMPLE], None if nearest is None else nearest[:_SAMPLE, :_TUNED_FOR]
        else:
            ids = np.sort(np.random.default_rng(self.seed).permutation(len(vectors))[:_SAMPLE]).astype(np.int32)
            asked = vectors[ids]
        inner_product = metric == "inner_product"
        centers = BucketCenters.draw(vectors, sizes.n_buckets, sizes.n_repetitions, inner_product, self.seed)
        buckets = Buckets.from_assignment(centers.assign(vectors, n_jobs), sizes.n_buckets)
        index, tuning = BucketedVectors(vectors, metric, buckets, centers), None
        if self.probes == "auto" and len(asked) >= _FEWEST:
            nearest = index.nearest(asked, _TUNED_FOR, ids, n_jobs) if nearest is None else nearest.astype(np.int32)
            tuning = choose_settings(index, asked, nearest, self.recall, self.order, n_jobs)
        self.metric, self._vectors, self._rounds, self.tuning_ = metric, index, Rounds((), 0), tuning
        return self

    def plan(self, base: Any, queries: Any = None, neighbors: Any = None, metric: Metric | None = None) -> Plan:
        """Estimate what ``fit`` with the same arguments would need: time, memory and the size of the index.

        A few steps of each kind are made and timed, in a second or two. ``rounds="auto"`` is taken to be 3. The index
        doesn't change.

        Parameters and errors as in :meth:`fit`.

        Returns
        -------
        Plan
            With ``seconds``, ``peak_bytes``, ``model_bytes``, ``available_bytes`` and ``fits``; ``print(plan.text())``.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import IRLIIndex
        >>> IRLIIndex().plan(np.random.default_rng(0).normal(size=(300, 8))).fits
        True
        """
        vectors, metric = self._verified(base, metric)
        checks: dict[str, Any] = {"n_dimensions": vectors.shape[1], "name": "queries", "owner": "the base"}
        n_given = None if queries is None else len(comparable(queries, metric, min_rows=1, **checks))
        checked_neighbors(queries, neighbors, len(vectors))
        if self.partition == "learned":
            need_torch("Planning an IRLIIndex with partition='learned'")
        jobs = resolve_jobs(self.n_jobs)
        return plan_index(vectors, metric, self.get_params(deep=False), n_given, neighbors is None, jobs)

    def _verified(self, base: Any, metric: Metric | None) -> tuple[Vectors, Metric]:
        """The vectors and the metric, and all parameters, verified."""
        self.check_params()
        usual = IRLIIndex()
        for name in _OF_LEARNING if self.partition == "centers" else ():
            if getattr(self, name) != getattr(usual, name):
                raise ParameterError(
                    f"IRLIIndex({name}={getattr(self, name)!r}) is for a learned partition: give partition='learned' "
                    f"too, or leave {name!r} at {getattr(usual, name)!r}. Got partition='centers'."
                )
        n_repetitions = IndexSizes.of(self.get_params(deep=False), 1, 1).n_repetitions
        if not isinstance(self.min_votes, str):
            validate.count(self.min_votes, "min_votes", owner="IRLIIndex", high=n_repetitions)
        resolve_jobs(self.n_jobs)
        metric = self.metric if metric is None else check_metric(metric)
        return comparable(base, metric, name="base", min_rows=1), metric

    @one_at_a_time
    def add(self, vectors: Any) -> Int32:
        """Add vectors: in each repetition to the bucket of the nearest centre, or to the least full of the learned ones
        that the networks like best for them.

        To learned buckets they are added in a random order, another one in each repetition, so that the order in which
        they are given, such as sorted by topic, doesn't matter to what is found.

        Nothing is learned again, so an index that has grown a lot, or by vectors unlike those it was fitted on, finds
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
        >>> index = IRLIIndex(n_jobs=1).fit(base)
        >>> index.add(base[:1] * 2).tolist(), index.search(base[:1] * 2, k=1)[0].tolist()
        ([300], [[300]])
        """
        new, ids = self._numbered(vectors)
        if len(new):
            self._vectors = self._vectors.grown(new, self.choices, self.seed, resolve_jobs(self.n_jobs))
        return ids.astype(np.int32)

    def removed(self, ids: Int64) -> Int64:
        return np.asarray(ids[self._built("removed").buckets.assignment[0, ids] < 0])

    def _remove(self, ids: Int64) -> None:
        self._vectors = self._vectors.without(ids)

    # ---------------------------------------- searching

    def _search(self, queries: Vectors, k: int, options: dict[str, Any], open_ids: LabelFilter | None) -> Answers:
        settings, n_jobs, index = self._settings("search", **options), resolve_jobs(self.n_jobs), self._vectors
        if open_ids is not None and open_ids.allows and len(open_ids.shared) <= _COMPARED:  # none where rows have lists
            return index.search_allowed(queries, k, open_ids, n_jobs)
        ids, distances, counts = index.search(queries, k, settings, n_jobs, open_ids)
        rules = ("probes", "min_votes", "candidates")
        if any(options[rule] is not None or getattr(self, rule) != "auto" for rule in rules):
            return ids, distances, counts
        # What was tuned may hold fewer than k candidates, of more neighbours or after removals: look further there.
        last, n_buckets = min(k, len(index.present)) - 1, index.buckets.n_buckets
        short = np.flatnonzero(ids[:, last] < 0) if last >= 0 else np.zeros(0, np.int64)
        while len(short) and (settings.probes < n_buckets or settings.min_votes > 1 or settings.candidates is not None):
            probes = min(2 * settings.probes, n_buckets)
            settings = replace(settings, probes=probes, min_votes=1, candidates=None)
            of_short = None if open_ids is None else open_ids.of_rows(short)
            ids[short], distances[short], counts[short] = index.search(queries[short], k, settings, n_jobs, of_short)
            short = short[ids[short, last] < 0]
        return ids, distances, counts

    def tune(self, queries: Any = None, recall: float = 0.9, k: int = 10, order: Order | None = None) -> Tuning:
        """Set the search to what finds enough of the nearest at least cost, as ``fit`` did for its own queries.

        ``probes``, ``min_votes`` and ``candidates`` are "auto" from then on.

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
            The settings, with the recall and the candidates measured; it is ``tuning_`` from then on.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        self._need_fit("tune")
        check_value("recall", recall, self.constraints["recall"], "tune")
        k = validate.count(k, "k", owner="tune", high=MOST_ANSWERS)
        order, n_jobs = self._settings("tune", order=order).order, resolve_jobs(self.n_jobs)
        vectors, ids = self._queries(queries, "tune")
        nearest = self._vectors.nearest(vectors, k, ids, n_jobs)
        tuning = choose_settings(self._vectors, vectors, nearest, recall, order, n_jobs)
        self.set_params(probes="auto", min_votes="auto", candidates="auto", order=order)
        self.tuning_ = tuning
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
        >>> index = IRLIIndex("learned", n_buckets=8, n_repetitions=4, hidden=32, rounds=1, n_jobs=1).fit(base)
        >>> report = index.report()
        >>> report.n_labels, report.mean_load, len(report.load_deviation), len(report.rounds)
        (300, 37.5, 4, 2)
        """
        self._need_fit("report")
        vectors, _ = self._queries(queries, "report")
        counts = self._vectors.count(vectors, self._settings("report"), resolve_jobs(self.n_jobs))
        return BucketReport.of(self._vectors.buckets, self._rounds, *counts)

    def _space(self) -> tuple[Metric, int, int]:
        return self._vectors.metric, int(self._vectors.base.shape[1]), len(self._vectors.base)

    def _queries(self, queries: Any, action: str) -> tuple[Vectors, Int32 | None]:
        """Queries, or a sample of the index's own vectors with their ids."""
        if queries is not None:
            return self._comparable(queries, action, "queries"), None
        ids = np.random.default_rng(self.seed).permutation(self._vectors.present)[:_SAMPLE]
        return self._vectors.base[ids], ids

    def _settings(
        self, owner: str, *, probes: Any = None, min_votes: Any = None, order: Any = None, candidates: Any = None
    ) -> SearchSettings:
        """The index's own settings, verified, with those of a call in their place, and no more probes than buckets."""
        self.check_params(("probes", "min_votes", "order", "candidates"))
        check_value("order", self.order if order is None else order, Choice(ORDERS), owner)
        n_probes_given, buckets = probes is not None or not isinstance(self.probes, str), self._vectors.buckets
        tuned = UNTUNED if n_probes_given or self.tuning_ is None else self.tuning_.settings

        def value(name: str, argument: Any) -> Any:
            parameter = getattr(self, name) if argument is None else argument
            return getattr(tuned, name) if argument is None and isinstance(parameter, str) else parameter

        limit = value("candidates", candidates)
        if limit is not None:
            check_value("candidates", limit, Range(1, validate.MAX_COLUMNS, word="all", kind=int), owner)
            limit = None if isinstance(limit, str) else int(limit)
        n_probes = validate.count(value("probes", probes), "probes", owner=owner)
        votes = validate.count(value("min_votes", min_votes), "min_votes", owner=owner, high=buckets.n_repetitions)
        return SearchSettings(min(n_probes, buckets.n_buckets), votes, order or self.order, limit)

    def _built(self, action: str) -> BucketedVectors:
        self._need_fit(action)
        return self._vectors

    # ---------------------------------------- what was built

    @property
    def metric_(self) -> Metric:
        """What near means here; the parameter ``metric`` is for the next ``fit``."""
        return self._built("metric_").metric

    @property
    def base_(self) -> Vectors:
        """The vectors: of unit length under the angular metric, zeros where one was removed."""
        return self._built("base_").base

    @property
    def buckets_(self) -> Buckets:
        """Which bucket each vector is in, in every repetition."""
        return self._built("buckets_").buckets

    @property
    def network_(self) -> BucketNetwork | BucketCenters:
        """The networks of all repetitions, or the centres of their buckets."""
        return self._built("network_").network

    @property
    def n_vectors_(self) -> int:
        """Vectors that a search can find; ids go beyond it where some were removed."""
        return int(self._built("n_vectors_").buckets.members.shape[1])

    @property
    def n_dimensions_(self) -> int:
        """Width of a vector."""
        return int(self._built("n_dimensions_").base.shape[1])

    def _is_fitted(self) -> bool:
        return "_vectors" in self.__dict__

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, store.State]]:
        self._settings("save")  # which a loaded one would be refused with
        sizes, arrays = self._vectors.to_parts()
        tuning = None if self.tuning_ is None else self.tuning_.as_json()
        return {**sizes, **self._rounds.as_json(), "tuning": tuning}, arrays, {}

    def _restore(self, state: store.State) -> None:
        self._rounds = Rounds.from_state(state)
        self._vectors = BucketedVectors.from_state(state)
        self.partition = "centers" if isinstance(self._vectors.network, BucketCenters) else "learned"
        self.tuning_ = None if state.meta.get("tuning") is None else Tuning.from_state(state)
        self._settings("search")


store.register(IRLIIndex.kind, IRLIIndex.from_state)
