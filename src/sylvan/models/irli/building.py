"""Building an index of vectors: its sizes, training queries, learned buckets, and the settings of a search."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.models.irli.judge import RecallJudge
from sylvan.models.irli.learning import fit_partitions
from sylvan.models.irli.rounds import Rounds
from sylvan.models.irli.search import BucketedVectors
from sylvan.models.irli.sizes import IndexSizes, principal_directions
from sylvan.models.irli.tuning import Tuning, choose_settings, nearest_of
from sylvan.models.irli.vectors import TrainingQueries, Vectors, training_queries
from sylvan.ranking.vectors import Metric
from sylvan.runtime import Checkpoint, Runner

__all__ = ["BuiltIndex", "build_index"]


@dataclass(frozen=True, eq=False)
class BuiltIndex:
    """What was built."""

    vectors: BucketedVectors
    rounds: Rounds
    tuning: Tuning | None  # None where `probes` is given, or there are no holdout queries


def build_index(
    vectors: Vectors,
    queries: Any,
    neighbors: Any,
    metric: Metric,
    parameters: dict[str, Any],
    estimator: str,
    *,
    n_jobs: int,
    checkpoint: Checkpoint | str | os.PathLike[str] | None,
    runner: Runner | None,
) -> BuiltIndex:
    """Learn buckets of the vectors, and measure how to search in them."""
    # Shape: vectors (n, d)
    from sylvan.models.irli.training import one_thread

    sizes = IndexSizes.of(parameters, *vectors.shape)
    with one_thread():
        projection = None
        if sizes.n_components:
            projection = principal_directions(vectors, sizes.n_components, parameters["seed"])
        sample = training_queries(
            vectors, queries, neighbors, metric=metric, n_queries=sizes.n_queries,
            n_neighbors=parameters["n_neighbors"], seed=parameters["seed"], n_jobs=n_jobs, projection=projection,
        )  # fmt: skip
        shown = sample if projection is None else sample.projected(projection)
        learned = fit_partitions(
            estimator,
            {**parameters, **asdict(sizes), "metric": metric},
            {"base": vectors, "queries": _array(queries), "neighbors": _array(neighbors)},
            shown.queries,
            shown.truths,
            n_jobs=n_jobs,
            checkpoint=checkpoint,
            runner=runner,
            label_vectors=vectors if projection is None else vectors @ projection,
            judge=None if shown.holdout is None else RecallJudge(*shown.holdout, n_jobs=n_jobs),
        )
        network = learned.network if projection is None else learned.network.behind(projection)
        index = BucketedVectors(vectors, metric, learned.buckets, network)
        tuning = _tuned(index, sample, parameters, n_jobs)
    return BuiltIndex(index, Rounds(learned.rounds, learned.best_round), tuning)


def _tuned(
    index: BucketedVectors, sample: TrainingQueries, parameters: dict[str, Any], n_jobs: int
) -> Tuning | None:
    """The settings for the wished recall, by the holdout queries."""
    if sample.holdout is None or parameters["probes"] != "auto":
        return None
    queries, truths = sample.holdout
    recall, order = float(parameters["recall"]), parameters["order"]
    return choose_settings(
        index.network, index.buckets, queries, nearest_of(truths), recall=recall, order=order, n_jobs=n_jobs
    )


def _array(values: Any) -> npt.NDArray[Any] | None:
    return None if values is None else np.asarray(values)
