"""The section of docs/results.md on IRLI: recall against candidates, its costs, ablations, scaling, multilabel sets."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import irli_estimate
import irli_plan

__all__ = ["at_recall", "frontier", "groups", "irli_section", "main_figure", "section", "title"]

Record = dict[str, Any]
Point = dict[str, Any]
PARTS = ("neighbors", "ablation", "scaling", "multilabel")
TARGET = 0.9
WAYS = {
    "probability": "by probability",
    "votes": "by votes, then probability",
    "min_votes": "by a threshold of votes",
}
NAMES = {"exact": "exhaustive", "ivf": "IVF", "ivf-pq": "IVF-PQ", "hnsw": "HNSW", "kmeans": "R k-means", "irli": "IRLI"}
GOALS = {  # of IVF's candidates at the same number of buckets: by probability, by a threshold of votes
    "title-vectors": (0.35, 0.5),
    "fashion-mnist": (0.3, 0.6),
}


def irli_section(folder: Path) -> list[str]:
    """Everything that ``irli.py`` left in ``folder``."""
    lines: list[str] = []
    for part in PARTS:
        path = folder / f"irli_{part}.json"
        if path.exists():
            book = json.loads(path.read_text())
            machine = book["machine"]
            lines += section(part, book["runs"])
            lines += ["", f"{machine['cpu']}, {machine['cores']} cores; {book['date']}."]
    if not lines:
        return []
    intro = (
        "By `benchmarks/irli.py`. A query's candidates are the vectors whose true distance is computed; recall10@10 is "
        "the share of its ten nearest among them. All searches take one thread."
    )
    return ["", "## Learned partitions (IRLI)", "", intro, *lines]


def section(part: str, runs: list[Record]) -> list[str]:
    """One part's section, in Markdown."""
    return _SECTIONS[part](runs)


def groups(runs: list[Record]) -> list[list[Record]]:
    """Rows that differ in their seed only."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for run in runs:
        found.setdefault(tuple(run.get(name) for name in irli_plan.KEYS), []).append(run)
    return list(found.values())


def frontier(points: list[Point]) -> list[Point]:
    """The points that no other beats in both recall and candidates, fewest candidates first."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda point: (work(point), -point["recall"])):
        if not kept or point["recall"] > kept[-1]["recall"]:
            kept.append(point)
    return kept


def work(point: Point) -> float:
    """What a point costs beside its scores, in distances: candidates, and compressed codes where there are any."""
    return float(point.get("work", point["candidates"]))


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
    return list(WAYS) if run["contender"] in ("kmeans", "irli") else [None]


def candidates_of(group: list[Record], way: str | None) -> list[float]:
    """Candidates at the target, one a seed; without those that never reach it."""
    found = [at_recall(of_way(run, way)) for run in group]
    return [point["candidates"] for point in found if point is not None]


def title(run: Record) -> str:
    """A contender in the words of a table."""
    words = {"n_repetitions": "R = {}", "hidden": "hidden {}", "width": "{} dimensions a byte", "links": "{} links"}
    told = [text.format(run[name]) for name, text in words.items() if name in run]
    return NAMES[run["contender"]] + (f" ({', '.join(told)})" if told else "")


def timed(points: list[Point], key: str) -> Point | None:
    """Of the timed points of enough recall the one of least ``key``: "ms" or "work"."""
    good = [point for point in points if "ms" in point and point["recall"] >= TARGET]
    return min(good, key=work if key == "work" else lambda point: float(point[key]), default=None)


def number(value: float | None, digits: int = 0) -> str:
    """A figure, or a dash."""
    return "–" if value is None else f"{value:,.{digits}f}"


def spread(values: list[float], digits: int = 0) -> str:
    """The mean over seeds, and their standard deviation."""
    if not values:
        return "–"
    text = f"{statistics.mean(values):,.{digits}f}"
    return text if len(values) < 2 else f"{text} ± {statistics.stdev(values):,.{digits}f}"


def _milliseconds(point: Point | None) -> str:
    if point is None:
        return "–"
    return f"{point['ms']:.3f}" + (f" / {point['p50_ms']:.3f}" if "p50_ms" in point else "")


def _neighbors(runs: list[Record]) -> list[str]:
    lines = []
    for name in dict.fromkeys(run["set"] for run in runs):
        own = [run for run in runs if run["set"] == name]
        lines += ["", f"### {name}: recall10@10 of {TARGET:g}", "", *_costs_words(own), "", *_costs(own)]
        lines += ["", *_goals(name, own)]
    return [*lines, "", "![Recall against candidates](figures/irli_neighbors.png)"]


def _costs_words(runs: list[Record]) -> list[str]:
    return [
        f"{runs[0]['queries']:,} queries. Candidates are those of the setting with the fewest, between the settings on "
        "either side of the recall where they are coarse; all contenders' settings were chosen on these queries. For "
        "HNSW they are all the distances that it computes, for IVF-PQ those after the compressed codes (in brackets). "
        "Scores are what choosing the buckets costs, in distances of the set's width; counters are incremented once "
        "for each vector of a chosen bucket. Milliseconds of a query: in a batch / alone (median)."
    ]


def _costs(runs: list[Record]) -> list[str]:
    heads = (
        "", "buckets", "candidates", "against IVF", "counters", "scores", "ms with the fewest", "ms at the fastest",
        "build, s", "index beside the vectors, MB", "peak memory, MB",
    )  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    ivf = {run["n_buckets"]: at_recall(run["points"]) for run in runs if run["contender"] == "ivf"}
    for group in sorted(groups(runs), key=lambda group: list(NAMES).index(group[0]["contender"])):
        run = group[0]
        build = run["build"]
        for way in ways(run):
            points = of_way(run, way)
            found, fewest, fastest = at_recall(points), timed(points, "work"), timed(points, "ms")
            cells = [title(run) + (f", {WAYS[way]}" if way else ""), number(run.get("n_buckets"))]
            if found is None:
                best = max((point["recall"] for point in points), default=0.0)
                lines.append(
                    "| " + " | ".join([*cells, f"recall {best:.3f} at most"] + ["–"] * (len(heads) - 3)) + " |"
                )
                continue
            counts = candidates_of(group, way)
            codes = f" ({found['codes']:,.0f})" if "codes" in found else ""
            beside = ivf.get(run.get("n_buckets", 0))
            ratio = f"{statistics.mean(counts) / beside['candidates']:.2f}" if beside and way else "–"
            cells += [spread(counts) + codes, ratio, number(found.get("increments"))]
            cells += [number(points[0]["scoring"]), _milliseconds(fewest), _milliseconds(fastest)]
            vectors = run["vectors_mb"] if run["contender"] in ("exact", "ivf", "hnsw") else 0.0
            cells += [f"{build['wall_s']:.1f}", number(run["index_mb"] - vectors, 1), number(build.get("peak_mb"))]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _goals(name: str, runs: list[Record]) -> list[str]:
    """What was wanted, beside what was found."""
    if name not in GOALS:
        return []
    found: dict[str, list[Record]] = {}
    for group in groups(runs):
        run = group[0]
        if run.get("n_buckets") == 256 and (run["contender"] != "irli" or run["hidden"] == 512):
            found[run["contender"]] = group
    if not {"ivf", "kmeans", "irli"} <= set(found):
        return []
    ivf, irli = statistics.mean(candidates_of(found["ivf"], None)), found["irli"]
    mean_load = irli[0]["vectors"] / irli[0]["n_buckets"]
    ours = {way: statistics.mean(candidates_of(irli, way)) for way in WAYS if candidates_of(irli, way)}
    theirs = candidates_of(found["kmeans"], "probability")
    rows = []
    for way, least in zip(("probability", "min_votes"), GOALS[name], strict=True):
        if way in ours:
            rows.append((f"candidates {WAYS[way]}, of IVF's", f"at most {least:g}", f"{ours[way] / ivf:.2f}",
                         ours[way] / ivf <= least))  # fmt: skip
    if theirs and "probability" in ours:
        ratio = ours["probability"] / statistics.mean(theirs)
        rows.append(("candidates by probability, of R k-means'", "below 1", f"{ratio:.2f}", ratio < 1))
    deviation = 100 * irli[0]["load_deviation"] / mean_load
    rows.append(("load deviation, of the mean load", "below 1%", f"{deviation:.2f}%", deviation < 1))
    best = [timed(of_way(run, None), "ms") for run in (irli[0], found["ivf"][0])]
    if best[0] and best[1]:
        times = best[0]["ms"] / best[1]["ms"]
        rows.append(("milliseconds of a query, of IVF's", "at most 3", f"{times:.1f}", times <= 3))
    lines = ["| 256 buckets, IRLI with hidden 512 | wanted | found | |", "|---|---|---|---|"]
    return lines + [
        f"| {what} | {goal} | {value} | {'reached' if good else 'missed'} |" for what, goal, value, good in rows
    ]


ABLATED = {
    "rounds": ("Rounds", "rounds"),
    "choices": ("Choices (K)", "choices"),
    "n_repetitions": ("Repetitions (R)", "repetitions"),
    "hidden": ("Hidden size", "hidden"),
    "n_buckets": ("Buckets (B)", "buckets"),
}
PAPER_LOADS = "The paper's table 3 (GloVe, its own load): random 15.3, K = 5 17.08, K = 10 2.66, K = 25 0.46."
PAPER_FOUR = (
    "The paper's table 4 (GloVe, candidates in at least four of 32 repetitions after 5, 10, ... 30 epochs): 5,011, "
    "19,151, 36,252, 43,605, 47,072, 48,969."
)


def varied(runs: list[Record], name: str) -> list[Record]:
    """The rows in which nothing but ``name`` is changed, in its order."""
    usual = {key: statistics.mode([run[key] for run in runs]) for key in ABLATED}
    rows = [run for run in runs if all(run[key] == usual[key] for key in ABLATED if key != name)]
    return sorted(rows, key=lambda run: run[name])


def _ablation(runs: list[Record]) -> list[str]:
    if not runs:
        return []
    usual = {key: statistics.mode([run[key] for run in runs]) for key in ABLATED}
    told = ", ".join(f"{key} {value}" for key, value in usual.items())
    lines = ["", f"### Ablations, {runs[0]['set']}", "", f"Where it isn't what is changed: {told}.", ""]
    for name, (head, _) in ABLATED.items():
        rows = varied(runs, name)
        if len(rows) < 2:
            continue
        heads = (head, *(f"candidates {words}" for words in WAYS.values()), "counters", "in four or more, 10 probes",
                 "load deviation", "largest bucket", "moved in the last round", "affinity before and after it",
                 "ms at the fastest", "build, s")  # fmt: skip
        lines += ["", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for run in rows:
            found = {way: at_recall(of_way(run, way)) for way in WAYS}
            cells = [f"{run[name]:,}", *(number(point and point["candidates"]) for point in found.values())]
            cells += [number((found["probability"] or {}).get("increments")), number(run.get("in_four"))]
            last = run["rounds_told"][-1] if run.get("rounds_told") else {}
            gain = [last.get(key) for key in ("affinity_before", "affinity_after")]
            cells += [number(run["load_deviation"], 1), number(run["largest_bucket"])]
            cells.append("–" if last.get("moved") is None else f"{100 * last['moved']:.0f}%")
            cells.append("–" if None in gain else f"{gain[0]:.3f} → {gain[1]:.3f}")
            fastest = timed(of_way(run, None), "ms")
            cells += ["–" if fastest is None else f"{fastest['ms']:.3f}", f"{run['build']['wall_s']:.0f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return [*lines, "", PAPER_LOADS, "", PAPER_FOUR, "", "![Ablations](figures/irli_ablation.png)"]


def _scaling(runs: list[Record]) -> list[str]:
    heads = ("vectors", "buckets", "", "build, s", "placing anew, s: networks / least loaded", "peak memory, MB",
             "index beside the vectors, MB", "candidates", "counters", "ms at the fastest")  # fmt: skip
    lines = ["", "### Made vectors, 10,000 to a million", "", "96 dimensions, recall10@10 of 0.9.", ""]
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for run in sorted(runs, key=lambda run: (run["base"], run["contender"])):
        way = "probability" if run["contender"] == "irli" else None
        points = of_way(run, way)
        found, fastest = at_recall(points), timed(points, "ms")
        anew = run.get("repartition")
        vectors = run["vectors_mb"] if run["contender"] == "ivf" else 0.0
        cells = [
            f"{run['base']:,}", number(run["n_buckets"]), title(run), f"{run['build']['wall_s']:.1f}",
            f"{anew['affinity_s']:.1f} / {anew['placing_s']:.2f}" if anew else "–", number(run["build"]["peak_mb"]),
            number(run["index_mb"] - vectors, 1), number(found and found["candidates"]),
            number((found or {}).get("increments")), "–" if fastest is None else f"{fastest['ms']:.3f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, "", "![Scaling](figures/irli_scaling.png)", *irli_estimate.section(runs)]


def _multilabel(runs: list[Record]) -> list[str]:
    lines = []
    for name in dict.fromkeys(run["set"] for run in runs):
        heads = ("", "P@1", "P@3", "P@5", "PSP@5", "ms in a batch", "ms alone, p50 / p99", "training, s", "model, MB",
                 "peak memory, MB")  # fmt: skip
        lines += ["", f"### {name}: labels", "", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        own = [run for run in runs if run["set"] == name]
        for run in own:
            for point in run["points"]:
                told = f", {point['probes']} probes" if "probes" in point else ""
                cells = [run["contender"] + told, *(f"{point[key]:.2f}" for key in ("P@1", "P@3", "P@5", "PSP@5"))]
                cells += [f"{point['ms_per_row']:.4f}", f"{point['p50_ms']:.4f} / {point['p99_ms']:.4f}"]
                cells += [f"{run['build']['wall_s']:.1f}", f"{run['model_mb']:.1f}", number(run["build"]["peak_mb"])]
                lines.append("| " + " | ".join(cells) + " |")
        best = {run["contender"]: max(point["P@5"] for point in run["points"]) for run in own}
        if {"XRLinear", "IRLIClassifier"} <= set(best):
            gap = best["IRLIClassifier"] - best["XRLinear"]
            verdict = "reached" if gap >= -1 else "missed"
            lines += ["", f"P@5 beside XRLinear's: {gap:+.2f} points; at least -1 was wanted: {verdict}."]
    return lines


def main_figure(record: Record) -> str:
    """What the progress lines tell of a row."""
    if "features" in record:
        return ", ".join(f"P@5 {point['P@5']:.2f}" for point in record["points"])
    told = []
    for way in ways(record):
        found = at_recall(of_way(record, way))
        told.append(f"{way or 'candidates'} {found['candidates']:,.0f}" if found else f"{way or ''} too low a recall")
    return f"at recall {TARGET:g}: {', '.join(told)}; built in {record['build']['wall_s']:.1f} s"


_SECTIONS = {"neighbors": _neighbors, "ablation": _ablation, "scaling": _scaling, "multilabel": _multilabel}
