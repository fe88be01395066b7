"""The section of docs/results.md on IRLI: recall against candidates, its costs, ablations, scaling, multilabel sets."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import irli_estimate
import irli_plan
import report_irli_ablation
from irli_points import (
    NAMES,
    TARGET,
    WAYS,
    at_recall,
    candidates_of,
    groups,
    number,
    of_way,
    spread,
    timed,
    title,
    ways,
)  # fmt: skip

__all__ = ["irli_section", "main_figure", "section"]

PAPER_LABELS = (
    "The paper's tables 1 and 2 (Wiki-500K; hidden 1,024, by votes): P@1/3/5 of 60.77/46.09/43.49 in 0.56 ms with "
    "10 probes, 60.69/45.78/43.15 in 0.47 ms with 5; Parabel 59.34/39.05/29.35 in 2.94 ms."
)
Record = dict[str, Any]
Point = dict[str, Any]
PARTS = ("neighbors", "ablation", "scaling", "multilabel")
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


def _milliseconds(point: Point | None) -> str:
    if point is None:
        return "–"
    return f"{point['ms']:.3f}" + (f" / {point['p50_ms']:.3f}" if "p50_ms" in point else "")


def _neighbors(runs: list[Record]) -> list[str]:
    lines = []
    for name in dict.fromkeys(run["set"] for run in runs):
        own = [run for run in runs if run["set"] == name]
        lines += ["", f"### {name}: recall10@10 of {TARGET:g}", "", *_costs_words(own), "", *_costs(own)]
        lines += ["", *_goals(name, own), *_best_ivf(own)]
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


def _best_ivf(runs: list[Record]) -> list[str]:
    """IVF at the number of buckets that suits it best, by work and by time."""
    rows = [run for run in runs if run["contender"] == "ivf" and at_recall(run["points"]) is not None]
    times = [(point["ms"], run["n_buckets"]) for run in rows if (point := timed(run["points"], "ms"))]
    if len(rows) < 2 or not times:
        return []
    looked = [(run["n_buckets"] + (at_recall(run["points"]) or {})["candidates"], run["n_buckets"]) for run in rows]
    (fewest, few), (fastest, fast) = min(looked), min(times)
    return ["", f"IVF at its own best: with {few:,} buckets it computes {fewest:,.0f} distances, those to the centres "
            f"included; with {fast:,} it takes {fastest:.3f} ms."]  # fmt: skip


def _goals(name: str, runs: list[Record]) -> list[str]:
    """What was wanted, beside what was found."""
    if name not in GOALS:
        return []
    found: dict[str, list[Record]] = {}
    for group in groups(runs):
        run = group[0]
        ours = run["contender"] != "irli" or (run["hidden"] == irli_plan.OURS["hidden"] and not run.get("room"))
        if run.get("n_buckets") == 256 and ours:
            found[run["contender"] + {None: "", 1: " random"}.get(run.get("sample"), " of a sample")] = group
    if not {"ivf", "kmeans", "irli"} <= set(found):
        return []
    ivf, irli = statistics.mean(candidates_of(found["ivf"], None)), found["irli"]
    mean_load = irli[0]["vectors"] / irli[0]["n_buckets"]
    counts = {way: statistics.mean(candidates_of(irli, way)) for way in WAYS if candidates_of(irli, way)}
    others = {name: candidates_of(found.get(name, []), "probability") for name in ("kmeans", "kmeans random")}
    rows = []
    for way, least in zip(("probability", "min_votes"), GOALS[name], strict=True):
        if way in counts:
            ratio = counts[way] / ivf
            rows.append((f"candidates {WAYS[way]}, of IVF's", f"at most {least:g}", f"{ratio:.2f}", ratio <= least))
    for name, words in (("kmeans", "R k-means'"), ("kmeans random", "R random centres'")):
        if others[name] and "probability" in counts:
            ratio = counts["probability"] / statistics.mean(others[name])
            rows.append((f"candidates by probability, of {words}", "below 1", f"{ratio:.2f}", ratio < 1))
    deviation = 100 * irli[0]["load_deviation"] / mean_load
    rows.append(("load deviation, of the mean load", "below 1%", f"{deviation:.2f}%", deviation < 1))
    best = [timed(of_way(run, None), "ms") for run in (irli[0], found["ivf"][0])]
    if best[0] and best[1]:
        times = best[0]["ms"] / best[1]["ms"]
        rows.append(("milliseconds of a query, of IVF's", "at most 3", f"{times:.1f}", times <= 3))
    lines = [f"| 256 buckets, IRLI with hidden {irli_plan.OURS['hidden']} | wanted | found | |", "|---|---|---|---|"]
    return lines + [
        f"| {what} | {goal} | {value} | {'reached' if good else 'missed'} |" for what, goal, value, good in rows
    ]


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
                told = [f"{key}={value}" for key, value in run.get("settings", {}).items()]
                told += [f"{key}={point[key]}" for key in ("order", "probes") if key in point]
                cells = [
                    ", ".join([run["contender"], *told]),
                    *(f"{point[key]:.2f}" for key in ("P@1", "P@3", "P@5", "PSP@5")),
                ]
                cells += [f"{point['ms_per_row']:.4f}", f"{point['p50_ms']:.4f} / {point['p99_ms']:.4f}"]
                cells += [f"{run['build']['wall_s']:.1f}", f"{run['model_mb']:.1f}", number(run["build"]["peak_mb"])]
                lines.append("| " + " | ".join(cells) + " |")
        usual = {run["contender"]: run["points"][0]["P@5"] for run in own if not run.get("settings")}
        if {"XRLinear", "IRLIClassifier"} <= set(usual):
            gap = usual["IRLIClassifier"] - usual["XRLinear"]
            verdict = "reached" if gap >= -1 else "missed"
            lines += ["", f"P@5 beside XRLinear's: {gap:+.2f} points; at least -1 was wanted: {verdict}."]
    return [*lines, "", PAPER_LABELS]


def main_figure(record: Record) -> str:
    """What the progress lines tell of a row."""
    if "features" in record:
        return ", ".join(f"P@5 {point['P@5']:.2f}" for point in record["points"])
    told = []
    if "watched" in record:
        return f"{len(record['watched'])} rounds"
    for way in ways(record):
        found = at_recall(of_way(record, way))
        told.append(f"{way or 'candidates'} {found['candidates']:,.0f}" if found else f"{way or ''} too low a recall")
    return f"at recall {TARGET:g}: {', '.join(told)}; built in {record['build']['wall_s']:.1f} s"


_SECTIONS = {
    "neighbors": _neighbors,
    "ablation": report_irli_ablation.section,
    "scaling": _scaling,
    "multilabel": _multilabel,
}
