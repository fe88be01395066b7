"""A row's points of ``python -m benchmarks.irli``, and what a table or a figure takes of them."""

from __future__ import annotations

from typing import Any

from benchmarks.irli import plan

__all__ = [     "NAMES", "TARGET", "WAYS", "at_recall", "candidates_of", "frontier", "groups", "number", "of_way",
"timed", "title", "ways", ]  # fmt: skip

Record = dict[str, Any]
Point = dict[str, Any]
TARGET = 0.9
WAYS = {
    "probability": "by probability",
    "votes": "by votes, then probability",
    "min_votes": "by a threshold of votes",
}
NAMES = {
    "exact": "exhaustive", "ivf": "IVF", "ivf-pq": "IVF-PQ", "ivf-rabitq": "IVF-RaBitQ", "hnsw": "HNSW",
    "hnswlib": "hnswlib", "neural-lsh": "Neural LSH", "kmeans": "R k-means", "irli": "IRLI",
}  # fmt: skip


def groups(runs: list[Record]) -> list[list[Record]]:
    """Rows that differ in their seed only."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for run in runs:
        found.setdefault(tuple(str(run.get(name)) for name in plan.KEYS), []).append(run)
    return list(found.values())


def frontier(points: list[Point]) -> list[Point]:
    """The points that no other beats in both recall and candidates, fewest candidates first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (work(point), -point["recall"])):
        if not best or point["recall"] > best[-1]["recall"]:
            best.append(point)
    return best


def work(point: Point) -> float:
    """What a point costs beside its scores, in distances: candidates, and compressed codes where there are any.

    Where candidates aren't told, the breadth of the search, which grows with them.
    """
    return float(point["work"] if "work" in point else point.get("candidates", point.get("breadth", 0)))


def at_recall(points: list[Point], target: float = TARGET) -> Point | None:
    """Candidates, increments and compressed codes at a recall, between the settings on either side of it."""
    ordered = frontier(points)
    for before, after in zip([None, *ordered], ordered, strict=False):
        if after["recall"] < target:
            continue
        if before is None or after["recall"] == before["recall"]:
            return after
        share = (target - before["recall"]) / (after["recall"] - before["recall"])
        names = [name for name in ("candidates", "increments", "codes") if name in after]
        return {name: before[name] + share * (after[name] - before[name]) for name in names}
    return None


def of_way(run: Record, way: str | None) -> list[Point]:
    """A row's points of one order; all of them where there are no orders."""
    return [point for point in run["points"] if way is None or point["by"] == way]


def ways(run: Record) -> list[str | None]:
    """The orders that a row was searched by."""
    if run["contender"] == "neural-lsh":  # of one partition
        return ["probability"]
    return list(WAYS) if run["contender"] in ("kmeans", "irli") else [None]


def candidates_of(group: list[Record], way: str | None) -> list[float]:
    """Candidates at the target, one a seed; without those that never reach it."""
    found = [at_recall(of_way(run, way)) for run in group]
    return [point["candidates"] for point in found if point is not None and "candidates" in point]


def title(run: Record) -> str:
    """A contender in the words of a table."""
    words = {"n_repetitions": "R = {}", "hidden": "hidden {}", "room": "room {}", "links": "{} links"}
    words |= {"width": "{} dimensions a byte", "sample": "{} vectors a centre"}
    drawn = run.get("sample") == 1
    said = [text.format(run[name]) for name, text in words.items() if name in run and not (drawn and name == "sample")]
    return ("R random centres" if drawn else NAMES[run["contender"]]) + (f" ({', '.join(said)})" if said else "")


def timed(points: list[Point], key: str) -> Point | None:
    """Of the timed points of enough recall the one of least ``key``: "ms" or "work"."""
    good = [point for point in points if "ms" in point and point["recall"] >= TARGET]
    return min(good, key=work if key == "work" else lambda point: float(point[key]), default=None)


def number(value: float | None, digits: int = 0) -> str:
    """A figure, or a dash."""
    return "–" if value is None else f"{value:,.{digits}f}"
