"""The rows of ``irli.py``: a plain dict each, which is what a finished row is found by."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["KEYS", "PLANS", "describe", "planned", "same"]

Row = dict[str, Any]
KEYS = (  # what a row may say beside its seed
    "set", "base", "contender", "partition", "n_buckets", "n_repetitions", "hidden", "choices", "rounds", "width",
    "links",
    "breadth", "room", "sample", "n_queries", "n_neighbors", "epochs_per_round", "features", "settings",
    "rankings", "rows", "untimed",
)  # fmt: skip
SETS = ("title-vectors", "fashion-mnist")
WIDTHS = {"title-vectors": (2, 4), "fashion-mnist": (8, 16), "synthetic": (4,)}  # dimensions of a code of IVF-PQ
LISTS = (64, 128, 256, 512, 1000, 2000, 4000)  # of IVF, of which its own best count is found
OURS: Row = {"n_buckets": 256, "n_repetitions": 16, "hidden": 128}
SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000)


def same(row: Row, record: Row) -> bool:
    """Whether a finished row is this one."""
    return all(row.get(name) == record.get(name) for name in (*KEYS, "seed"))


def planned(part: str, *, quick: bool = False) -> list[Row]:
    """The rows of a part, those first that all tables need."""
    rows = [{**row, "seed": row.get("seed", 0)} for row in PLANS[part]()]
    if not quick:
        return rows
    small = [_quick(row) for row in rows]
    return [row for at, row in enumerate(small) if row not in small[:at]]


def describe(row: Row) -> str:
    """The row in a few words."""
    settings = {**row, **row.get("settings", {})}
    shown_elsewhere = ("set", "contender", "settings", "rankings", "features")
    words = ", ".join(f"{name} {value}" for name, value in settings.items() if name not in shown_elsewhere)
    return f"{row['set']}: {row['contender']}" + (f", {words}" if words else "")


def _neighbors() -> list[Row]:
    """First what the goals compare, then the other contenders, other numbers of buckets, and other seeds."""
    count = OURS["n_repetitions"]
    rows: list[Row] = []
    for name in SETS:
        at = {"set": name, "n_buckets": 256}
        rows.append({**at, "contender": "ivf"})
        rows.append({**at, "contender": "kmeans", "n_repetitions": count})
        rows.append({**at, "contender": "kmeans", "n_repetitions": count, "sample": 1})
        rows.append({**OURS, **at, "contender": "irli"})
    for name in SETS:
        for peer in ("hnsw", "hnswlib"):
            rows += [{"set": name, "contender": peer, "links": links, "breadth": 200} for links in (16, 32)]
        rows += [{"set": name, "contender": "ivf", "n_buckets": lists} for lists in LISTS if lists != 256]
        for width in WIDTHS[name]:
            rows += [{"set": name, "contender": "ivf-pq", "n_buckets": lists, "width": width} for lists in (256, 1000)]
        rows += [{"set": name, "contender": "ivf-rabitq", "n_buckets": lists} for lists in (256, 1000)]
        rows.append({"set": name, "contender": "exact"})
        rows += [{"set": name, "contender": "neural-lsh", "n_buckets": 256, "seed": seed} for seed in (0, 1, 2)]
    at = {"set": "title-vectors", "n_buckets": 1000}
    rows.append({**at, "contender": "kmeans", "n_repetitions": count})
    rows.append({**at, "contender": "kmeans", "n_repetitions": count, "sample": 1})
    rows.append({**OURS, **at, "contender": "irli"})
    rows += [{**OURS, "set": name, "contender": "irli", "hidden": 512} for name in SETS]
    for count, hidden, n_buckets in ((8, 64, 512), (8, 64, 1024)):  # fewer and smaller networks, more buckets
        rows += [{"set": name, "contender": "irli", "n_buckets": n_buckets, "n_repetitions": count, "hidden": hidden}
                 for name in SETS]  # fmt: skip
    for sample in (4, 40):  # how alike k-means makes the repetitions
        rows += [{"set": name, "n_buckets": 256, "contender": "kmeans", "n_repetitions": count, "sample": sample}
                 for name in SETS]  # fmt: skip
    rows += [{**OURS, "set": name, "contender": "irli", "room": 1.3} for name in SETS]
    for seed in (1, 2):  # how much of it is chance
        for name in SETS:
            at = {"set": name, "n_buckets": 256, "seed": seed}
            rows += [{**at, "contender": "kmeans", "n_repetitions": count, **more} for more in ({}, {"sample": 1})]
            rows.append({**OURS, **at, "contender": "irli"})
    return rows


def _defaults() -> list[Row]:
    """An index that nobody set anything of, beside brute force and IVF with as many buckets."""
    rows: list[Row] = []
    for at in (*({"set": name} for name in SETS), {"set": "synthetic", "base": 100_000}):
        rows += [{**at, "contender": "numpy"}, {**at, "contender": "ivf", "n_buckets": 256}]
        rows += [{**at, "contender": "irli-defaults", "partition": name} for name in ("centers", "learned")]
    return rows


def _ablation() -> list[Row]:
    """One thing is changed at a time; two rounds where rounds aren't what is changed. Nothing is timed but training."""
    shared = {**OURS, "set": "title-vectors", "contender": "irli", "choices": 10, "room": 0.0, "rounds": 2}
    shared |= {"n_neighbors": 30, "untimed": True}
    changes: list[Row] = [{}, {"contender": "irli-rounds", "rounds": 8}]
    changes += [{"rounds": rounds} for rounds in (0, 1, 3)]
    changes += [{"choices": choices} for choices in (1, 5, 25)]
    changes += [{"n_repetitions": count} for count in (1, 4, 8, 32)]
    changes += [{"hidden": hidden} for hidden in (32, 64, 256, 512)]
    changes += [{"n_neighbors": count} for count in (10, 100)]
    changes += [{"room": room} for room in (1.1, 1.3)]
    changes += [{"n_buckets": count} for count in (64, 128, 512)]
    return [{**shared, **change} for change in changes]


def _scaling() -> list[Row]:
    rows: list[Row] = []
    for size in SIZES:
        at = {"set": "synthetic", "base": size, "n_buckets": 2 ** round(math.log2(0.8 * math.sqrt(size)))}
        rows.append({**at, "contender": "ivf"})
        rows.append({**at, "contender": "irli", "n_repetitions": 16, "hidden": 128, "rounds": 2})
    return rows


def _multilabel() -> list[Row]:
    """The defaults, ranked by every order; the paper's are those by votes with 5 and 10 probes."""
    rows: list[Row] = []
    rankings = [{}, {"order": "probability"}, {"order": "votes"}]
    rankings += [{"order": order, "probes": probes} for order in ("likelihood", "votes") for probes in (10, 5)]
    for name in ("eurlex57k", "gutenberg"):
        at = {"set": name, "features": "tf-idf"}
        rows.append({**at, "contender": "XRLinear"})
        rows.append({**at, "contender": "IRLIClassifier", "rankings": rankings})
    for name in ("eurlex57k", "gutenberg"):
        at = {"set": name, "features": "tf-idf", "contender": "IRLIClassifier", "rankings": rankings[:1]}
        rows += [{**at, "settings": {"n_repetitions": count}} for count in (2, 4, 16)]
        rows += [{**at, "settings": {"rounds": rounds}} for rounds in (0, 1)]
    return rows


def _quick(row: Row) -> Row:
    """A small version of a row."""
    if "features" in row:
        return {**row, "rows": 2000}
    small: Row = {"base": min(row.get("base", 5000), 5000)}
    if "n_buckets" in row:
        small["n_buckets"] = min(row["n_buckets"], 64)
    if row["contender"] == "irli":
        small |= {"n_queries": 1000, "n_neighbors": 20}
    if row["contender"] in ("irli", "irli-rounds"):
        small |= {"hidden": min(row["hidden"], 64), "epochs_per_round": 2}
    return {**row, **small}


PLANS = {
    "neighbors": _neighbors, "defaults": _defaults, "ablation": _ablation, "scaling": _scaling,
    "multilabel": _multilabel,
}  # fmt: skip
