"""What ``irli.py`` measures of Sylvan: ``IRLIIndex``, and R independent k-means partitions searched in the same way.

Both have R partitions, a score for every bucket and the same kernels for counting and re-ranking, so that only what the
partitions and the scores bring is compared. A candidate is found at its place in an order, so one search without a
limit tells the recall at every number of candidates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

import sylvan
from benchmarks.common import measure
from benchmarks.irli import sets
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.buckets import Buckets, find_candidates, least_loaded
from sylvan.models.irli.learning import learn_partitions
from sylvan.models.irli.rounds import LearningSettings
from sylvan.models.irli.vectors import nearest_candidates, training_queries
from sylvan.runtime import Runner

__all__ = ["Point", "Search", "followed", "irli", "kmeans", "round_figures", "searching", "watched"]

PROBES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
SOME_PROBES = (8, 16, 32, 64)  # where nothing is timed: of as many as it likes a row needs the fewest candidates
LEVELS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.875, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99)
TARGET = 0.9
PATIENCE = 2  # more numbers of probes that are tried when one saved nothing
MOST_TIMED = 8
WATCHED_PROBES = 10
BLOCK = 100  # queries whose candidates are in memory at a time
SOFTNESS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # of k-means's bucket probabilities
Point = dict[str, Any]
Top = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]
Search = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Places:
    """Where the true neighbours stand among what some number of probes finds, over all queries."""

    by_order: dict[str, np.ndarray]  # of every true neighbour; 2**31 where it isn't found
    of_votes: np.ndarray  # its votes, 0 where it isn't found
    sizes: np.ndarray  # candidates of each query
    at_least: np.ndarray  # candidates a query with at least so many votes, [R + 1]
    increments: float


def look(top: Top, buckets: Buckets, found: sets.VectorSet, probes: int) -> Places:
    """Searches without a limit, and finds every true neighbour's place."""
    n, shape = len(found.queries), (len(found.queries), sets.K)
    absent = 2**31 - 1
    by_probability, by_votes, of_votes = np.full(shape, absent), np.full(shape, absent), np.zeros(shape, np.int64)
    sizes, counts, touched = np.zeros(n, np.int64), np.zeros(buckets.n_repetitions + 1, np.int64), 0
    where = np.full(buckets.n_labels, -1, np.int64)
    for first in range(0, n, BLOCK):
        chosen, probabilities = top(found.queries[first : first + BLOCK], probes)
        candidates = find_candidates(buckets, chosen, probabilities, order="probability")
        for row in range(first, first + len(chosen)):
            part = slice(candidates.offsets[row - first], candidates.offsets[row - first + 1])
            labels, votes = candidates.labels[part], candidates.votes[part]
            where[labels] = np.arange(len(labels))
            at = where[found.truth[row]]
            where[labels] = -1
            there, at = at >= 0, at[at >= 0]
            by_probability[row, there], of_votes[row, there] = at, votes[at]
            # The order by votes keeps that by probability within the same number of them.
            before = [(votes[:place] == votes[place]).sum() + (votes > votes[place]).sum() for place in at]
            by_votes[row, there] = before
            counts += np.bincount(votes, minlength=len(counts))
            sizes[row] = len(labels)
        touched += int(candidates.touched.sum())
    places = {"probability": by_probability, "votes": by_votes}
    return Places(places, of_votes, sizes, np.cumsum(counts[::-1])[::-1] / n, touched / n)


def shared_by(places: Places, n_vectors: int) -> dict[str, float]:
    """How far the repetitions agree, on true neighbours and on all others, and the recall of all that was opened.

    ``alike`` is how often two repetitions open the same vector that is no true neighbour, in units of how often they
    would if each had drawn as many at random.
    """
    n_repetitions = len(places.at_least) - 1
    votes = np.arange(n_repetitions + 1)
    n = len(places.sizes)
    counts = np.append(-np.diff(places.at_least), places.at_least[-1])
    counts = counts - np.bincount(places.of_votes.ravel(), minlength=len(votes)) / n
    counts[0] = 0  # what no repetition opens isn't counted
    in_one = (counts * votes).sum() / n_repetitions
    in_two = (counts * votes * (votes - 1)).sum() / max(1, n_repetitions * (n_repetitions - 1))
    return {
        "recall_of_all": float((places.of_votes > 0).mean()),
        "neighbour_votes": float(places.of_votes.mean()),
        "alike": float(in_two * n_vectors / in_one**2) if n_repetitions > 1 else 1.0,
    }


def points_of(places: Places, probes: int) -> Iterator[Point]:
    """A point for every threshold of votes, and for every level of recall by the two orders."""
    shared = {"probes": probes, "increments": places.increments}
    for least in range(1, len(places.at_least)):
        recall = float((places.of_votes >= least).mean())
        yield {"by": "min_votes", "min_votes": least, "recall": recall,
               "candidates": float(places.at_least[least]), **shared}  # fmt: skip
    for order, place in places.by_order.items():
        ordered = np.sort(place, axis=None)
        for level in LEVELS:
            last = ordered[int(np.ceil(level * ordered.size)) - 1]
            if last < 2**31 - 1:
                limit = int(last) + 1
                count = float(np.minimum(places.sizes, limit).mean())
                recall = float((place < limit).mean())
                yield {"by": order, "limit": limit, "level": level, "recall": recall, "candidates": count, **shared}


def thinned(points: list[Point]) -> list[Point]:
    """What a figure or a table needs: the cheapest points of each way, and all those that just reach the target."""
    useful = []
    for by in ("min_votes", "votes", "probability"):
        best = 0.0
        for point in sorted((p for p in points if p["by"] == by), key=lambda p: (p["candidates"], -p["recall"])):
            if point.get("level") == TARGET or point["recall"] > best + 1e-4:
                useful.append(point)
            best = max(best, point["recall"])
    return [point for point in useful if 0.45 < point["recall"] <= 0.995]


def curve(
    top: Top, buckets: Buckets, found: sets.VectorSet, scoring: float, ladder: Sequence[int] = PROBES
) -> list[Point]:
    """The points of all numbers of probes, until more of them save no candidates."""
    points: list[Point] = []
    fewest: list[float] = []  # at the target by probability, one a number of probes
    for probes in ladder:
        if probes > buckets.n_buckets:
            break
        points += points_of(look(top, buckets, found, probes), probes)
        own = [point["candidates"] for point in points if point["probes"] == probes and point.get("level") == TARGET]
        fewest.append(min(own, default=np.inf))
        if fewest[-1] < np.inf and len(fewest) > PATIENCE and min(fewest[-PATIENCE:]) > 0.99 * min(fewest[:-PATIENCE]):
            break
    return [point | {"scoring": scoring} for point in thinned(points)]


def timed(points: list[Point], search_with: Callable[[Point], Search], found: sets.VectorSet) -> None:
    """Adds milliseconds to points that reach the target: a quick figure to those that no other beats in candidates and
    increments both, a careful one to that of the fewest candidates and to the fastest."""
    for by in ("min_votes", "votes", "probability"):
        good: list[Point] = []
        for point in sorted((p for p in points if p["by"] == by and reaches(p)), key=lambda p: p["candidates"]):
            if not good or point["increments"] < good[-1]["increments"]:
                good.append(point)
        good = good[:MOST_TIMED]
        for point in good:
            search = search_with(point)
            search(found.queries[:20])
            spent = []
            for _ in range(2):
                begun = time.process_time()
                ids = search(found.queries)
                spent.append((time.process_time() - begun) * 1e3 / len(found.queries))
            point |= {"ms": min(spent), "recall_found": sets.recall(ids, found.truth)}
        best = [min(good, key=itemgetter(key)) for key in ("candidates", "ms") if good]
        for point in best[:1] if best[:1] == best[1:] else best:
            _carefully(point, search_with, found.queries)


def reaches(point: Point) -> bool:
    """Whether a point is there to be compared at the target."""
    return bool(point.get("level", TARGET) == TARGET and point["recall"] >= TARGET)


def _carefully(point: Point, search_with: Callable[[Point], Search], queries: np.ndarray) -> None:
    search = search_with(point)
    batch, _ = measure.batch(lambda: search(queries), len(queries))
    alone = measure.one_by_one(search, [queries[at : at + 1] for at in range(len(queries))])
    point |= {"ms": batch["cpu_ms_per_row"], "p50_ms": alone["p50_ms"], "p99_ms": alone["p99_ms"]}


def parts(top: Top, buckets: Buckets, found: sets.VectorSet, point: Point) -> dict[str, float]:
    """Milliseconds a query that scoring, counting and re-ranking take in a batch."""
    spent = {"scoring_ms": 0.0, "counting_ms": 0.0, "ranking_ms": 0.0}
    for _ in range(2):  # the first round warms up
        moments = [time.process_time()]
        chosen, probabilities = top(found.queries, point["probes"])
        moments.append(time.process_time())
        candidates = find_candidates(buckets, chosen, probabilities, **_limits(point), best_first=False)
        moments.append(time.process_time())
        nearest_candidates(found.queries, found.base, candidates, sets.K, found.metric)
        moments.append(time.process_time())
        each = np.diff(moments) * 1e3 / len(found.queries)
        spent = dict(zip(spent, each.tolist(), strict=True))
    return spent | {name: point[name] for name in ("probes", "increments", "candidates")}


def searching(top: Top, buckets: Buckets, found: sets.VectorSet) -> Callable[[Point], Search]:
    """Makes the search of a point, for partitions whose buckets ``top`` chooses."""

    def search_with(point: Point) -> Search:
        def search(queries: np.ndarray) -> np.ndarray:
            chosen, probabilities = top(queries, point["probes"])
            candidates = find_candidates(buckets, chosen, probabilities, **_limits(point), best_first=False)
            return nearest_candidates(queries, found.base, candidates, sets.K, found.metric)[0]

        return search

    return search_with


def _limits(point: Point) -> dict[str, Any]:
    if point["by"] == "min_votes":
        return {"min_votes": point["min_votes"], "order": "votes"}
    return {"order": point["by"], "limit": point["limit"]}


def best_point(points: list[Point], by: str = "probability", key: str = "candidates") -> Point | None:
    """The timed point of least ``key``."""
    good = [point for point in points if point["by"] == by and "ms" in point]
    return min(good, key=lambda point: point[key], default=None)


def followed(
    top: Top,
    buckets: Buckets,
    found: sets.VectorSet,
    search_with: Callable[[Point], Search] | None,
    scoring: float,
) -> dict[str, Any]:
    """The curve, with its times where searches are given, the balance of the loads, and how many candidates are in
    four repetitions or more."""
    points = curve(top, buckets, found, scoring, SOME_PROBES if search_with is None else PROBES)
    if search_with is not None:
        timed(points, search_with, found)
    figures: dict[str, Any] = {"points": points, "load_deviation": float(buckets.load_deviation().mean())}
    figures["largest_bucket"] = int(buckets.loads().max())
    places = look(top, buckets, found, min(WATCHED_PROBES, buckets.n_buckets))
    figures |= shared_by(places, buckets.n_labels)
    if buckets.n_repetitions >= 4:
        figures["in_four"] = float(places.at_least[4])
    for name, key in (("parts", "candidates"), ("parts_fastest", "ms")):
        best = best_point(points, key=key)
        if best is not None:
            figures[name] = parts(top, buckets, found, best)
    return figures


def kmeans(row: dict[str, Any], found: sets.VectorSet, made: Path) -> dict[str, Any]:
    """R partitions by k-means (``irli_faiss.partitions``), their buckets scored by the distance of their centres.

    A bucket's probability is the softmax over its repetition of minus the squared distance, in units of the scores'
    deviation times a softness; of several softnesses that with the fewest candidates is taken.
    """
    stored = np.load(made)
    centres, assignment = stored["centres"], stored["assignment"]
    n_repetitions, n_buckets, dim = centres.shape
    buckets = Buckets.from_assignment(assignment, n_buckets)
    flat = np.ascontiguousarray(centres.reshape(-1, dim).T)
    half = 0.5 * np.einsum("rbd,rbd->rb", centres, centres) if found.metric == "euclidean" else 0.0

    def top_with(softness: float) -> Top:
        def top(X: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
            score = (X @ flat).reshape(len(X), n_repetitions, n_buckets)
            score -= half
            some = np.argpartition(-score, min(m, n_buckets - 1), axis=2)[:, :, :m]
            best = np.take_along_axis(score, some, axis=2)
            order = np.argsort(-best, axis=2, kind="stable")
            chosen, best = np.take_along_axis(some, order, axis=2), np.take_along_axis(best, order, axis=2)
            score -= best[:, :, :1]
            best -= best[:, :, :1]
            score *= 1 / (softness * width)
            best *= 1 / (softness * width)
            probabilities = np.exp(best) / np.exp(score).sum(axis=2, keepdims=True)
            return chosen.astype(np.int32), probabilities.astype(np.float32)

        return top

    score = (found.queries[:BLOCK] @ flat).reshape(-1, n_repetitions, n_buckets) - half
    width = float(score.std(axis=2).mean())
    tried, probes = {}, min(10, n_buckets)
    for softness in SOFTNESS:
        places = look(top_with(softness), buckets, found, probes)
        reached = [p for p in points_of(places, probes) if p["by"] == "probability" and p["level"] <= TARGET]
        tried[softness] = (-reached[-1]["level"], reached[-1]["candidates"]) if reached else (0.0, 0.0)
    softness = min(tried, key=lambda value: tried[value])
    top = top_with(softness)

    figures = {"build": {"wall_s": float(stored["seconds"])}, "softness": softness}
    figures["index_mb"] = (centres.nbytes + sum(array.nbytes for array in buckets.arrays().values())) / 1e6
    figures["vectors_mb"] = found.base.nbytes / 1e6
    return figures | followed(top, buckets, found, searching(top, buckets, found), float(n_repetitions * n_buckets))


def irli(row: dict[str, Any], found: sets.VectorSet, folder: Path, n_jobs: int) -> dict[str, Any]:
    """An ``IRLIIndex`` with the parameters that the row names, built, saved, and searched by its public call."""
    names = sylvan.IRLIIndex.constraints
    parameters = {"partition": "learned", **{name: value for name, value in row.items() if name in names}}
    if row.get("untimed"):
        parameters["probes"] = 8  # which spares the choice of settings that nothing here is searched with
    with measure.Training() as training:
        index = sylvan.IRLIIndex(**parameters, metric=found.metric, n_jobs=n_jobs).fit(found.base)
    figures: dict[str, Any] = {"version": sylvan.__version__, "build": training.figures()}
    index.save(folder)
    figures["vectors_mb"] = found.base.nbytes / 1e6
    figures["index_mb"] = measure.folder_bytes(folder) / 1e6 - figures["vectors_mb"]
    figures["rounds_told"] = [round_figures(one) for one in index.report().rounds]
    figures["repartition"] = repartition(index, found.base, int(row.get("choices", 10)))
    index.n_jobs = 1
    threadpoolctl.threadpool_limits(1)  # from here to the end

    def search_with(point: Point) -> Search:
        options = _limits(point)
        options["candidates"] = options.pop("limit", "all")
        return lambda queries: index.search(queries, sets.K, probes=point["probes"], **options)[0]

    scoring = index.network_.multiplications / found.base.shape[1]
    timing = None if row.get("untimed") else search_with
    return figures | followed(index.network_.top, index.buckets_, found, timing, scoring)


def repartition(index: Any, base: np.ndarray, choices: int) -> dict[str, float]:
    """Seconds that placing every vector anew takes: the networks' best buckets, and the least loaded of them."""
    spent = {"affinity_s": 0.0, "placing_s": 0.0}
    buckets = index.buckets_
    choices = min(choices, buckets.n_buckets)
    for first in range(0, len(base), 1 << 17):
        part = slice(first, first + (1 << 17))
        with measure.Clock() as clock:
            best, _ = index.network_.top(base[part], choices, n_jobs=index.n_jobs)
        spent["affinity_s"] += clock.wall
        for repetition in range(buckets.n_repetitions):
            own, current = np.ascontiguousarray(best[:, repetition]), buckets.assignment[repetition, part]
            with measure.Clock() as clock:
                least_loaded(own, buckets.n_buckets, current=current)
            spent["placing_s"] += clock.wall
    return spent


def round_figures(one: Any) -> dict[str, Any]:
    """A learning round in numbers: figures of each repetition are averaged."""
    means = {name: float(np.mean(value)) for name, value in vars(one).items() if np.ndim(value) and len(value)}
    numbers = {name: value for name, value in vars(one).items() if isinstance(value, (int, float, dict))}
    return {name: value for name, value in numbers.items() if value == value} | means  # which leaves out NaN


def watched(row: dict[str, Any], found: sets.VectorSet, n_jobs: int) -> dict[str, Any]:
    """Learning for a fixed number of rounds, looked at after each of them on the queries of the benchmark."""
    ways = {"metric": found.metric, "seed": row["seed"], "n_jobs": n_jobs}
    sample = training_queries(found.base, n_queries=30_000, n_neighbors=row["n_neighbors"], **ways)
    seen: list[dict[str, Any]] = []

    def judge(buckets: Buckets, network: BucketNetwork) -> dict[str, float]:
        places = look(network.top, buckets, found, WATCHED_PROBES)
        points = [point for point in points_of(places, WATCHED_PROBES) if point["recall"] > 0.5]
        alike = shared_by(places, buckets.n_labels)
        seen.append({"in_four": float(places.at_least[4]), **alike, "points": thinned(points)})
        return {"score": float(len(seen))}

    names = ("n_buckets", "n_repetitions", "hidden", "choices", "rounds", "epochs_per_round")
    options = {name: row[name] for name in names if name in row}
    settings = LearningSettings(final_epochs=0, learning_rate=0.003, seed=row["seed"], **options)
    with measure.Clock() as clock:
        learned = learn_partitions(
            sample.queries, sample.truths, settings, label_vectors=found.base, judge=judge, runner=Runner(n_jobs)
        )
    rounds = [{**round_figures(one), **own} for one, own in zip(learned.record.rounds, seen, strict=True)]
    return {"version": sylvan.__version__, "build": {"wall_s": clock.wall, "cpu_s": clock.cpu}, "watched": rounds}
