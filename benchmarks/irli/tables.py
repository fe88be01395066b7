"""The section of docs/results/ on IRLI: recall against candidates, its costs, ablations, scaling, multilabel sets."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.irli import ablation_tables, plan
from benchmarks.irli.points import (
    NAMES,
    TARGET,
    WAYS,
    at_recall,
    candidates_of,
    groups,
    number,
    of_way,
    timed,
    title,
    ways,
)
from benchmarks.irli.updates_table import updates_section

__all__ = ["irli_section", "main_figure", "section"]

PAPER_LABELS = (
    "The paper's tables 1 and 2 (Wiki-500K; hidden 1,024, by votes): P@1/3/5 of 60.77/46.09/43.49 in 0.56 ms with "
    "10 probes, 60.69/45.78/43.15 in 0.47 ms with 5; Parabel 59.34/39.05/29.35 in 2.94 ms."
)
Record = dict[str, Any]
Point = dict[str, Any]
PARTS = ("neighbors", "defaults", "ablation", "scaling", "multilabel")
GOALS = {  # of IVF's candidates at the same number of buckets: by probability, by a threshold of votes
    "title-vectors": (0.35, 0.5),
    "fashion-mnist": (0.3, 0.6),
}
# A hundred million vectors over eight machines, on paper.
VECTORS, MACHINES, DIM = 100_000_000, 8, 96
REPETITIONS, HIDDEN, PROBES, CANDIDATES = 4, 1024, 8, 10_000  # four networks a machine, as in the paper's section 5.3
QUERIES, EPOCHS, ROUNDS = 1_000_000, 20, 3  # of training, on each machine
FLOAT = 4  # bytes
MODEL_MB = 64  # of IRLIClassifier, wanted
FOUR_BITS = "2026-11-22"  # from when on it saves its first layer in four bits, and places labels in a random order


def irli_section(folder: Path) -> list[str]:
    """Everything that ``python -m benchmarks.irli`` left in ``folder``."""
    lines: list[str] = []
    for part in PARTS:
        book = markdown.book(folder / f"irli_{part}.json")
        if book is not None:
            lines += [*section(part, book["runs"]), "", markdown.taken(book)]
    lines += updates_section(folder)
    if not lines:
        return []
    intro = (
        "By `python -m benchmarks.irli`. The candidates of a query are the vectors whose true distance is computed. "
        "recall10@10 is the share of its ten nearest vectors among them. All searches use one thread."
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
        lines += ["", *_goals(name, own), *_best_ivf(own), *_parts(own)]
    return [*lines, "", "![Recall against candidates](figures/irli_neighbors.svg)"]


def _costs_words(runs: list[Record]) -> list[str]:
    return [
        f"{runs[0]['queries']:,} queries. Candidates are those of the setting with the fewest, interpolated between "
        "the settings on either side of the recall if these are coarse. All settings were chosen on these queries. "
        "For HNSW, candidates are all distances that it computes (hnswlib doesn't tell), for IVF-PQ and IVF-RaBitQ "
        "those after the compressed codes (in brackets). Scores are the cost of choosing the buckets, in distances of "
        "the set's width. Counters are incremented once for each vector of an opened bucket. Milliseconds per query: "
        "of the CPU in a batch / of the clock alone (median)."
    ]


def _costs(runs: list[Record]) -> list[str]:
    heads = (
        "", "buckets", "candidates", "against IVF", "counters", "scores", "ms with the fewest", "ms at the fastest",
        "build, CPU-s", "index beside the vectors, MB", "peak memory, MB",
    )  # fmt: skip
    rows = []
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
                rows.append([*cells, f"recall {best:.3f} at most", *["–"] * (len(heads) - 3)])
                continue
            counts = candidates_of(group, way)
            codes = f" ({found['codes']:,.0f})" if "codes" in found else ""
            beside = ivf.get(run.get("n_buckets", 0))
            ratio = f"{statistics.mean(counts) / beside['candidates']:.2f}" if beside and way else "–"
            mean = markdown.mean(counts, 0, ",") if counts else "–"
            cells += [mean + codes, ratio, number(found.get("increments"))]
            cells += [number(points[0]["scoring"]), _milliseconds(fewest), _milliseconds(fastest)]
            vectors = run["vectors_mb"] if run["contender"] in ("exact", "ivf", "hnsw", "hnswlib") else 0.0
            seconds = build.get("cpu_s", build["wall_s"])  # of k-means the clock's were taken
            cells += [f"{seconds:.1f}", number(run["index_mb"] - vectors, 1), number(build.get("peak_mb"))]
            rows.append(cells)
    return [*markdown.table(heads, rows), *_days(runs)]


def _parts(runs: list[Record]) -> list[str]:
    """Where the time of a query goes, at the fastest setting by probability."""
    rows = []
    for run in runs:
        own = run.get("parts_fastest")
        if run["contender"] == "irli" and own:
            spent = [own[name] for name in ("scoring_ms", "counting_ms", "ranking_ms")]
            cells = [title(run), number(run["n_buckets"]), number(own["probes"]), number(own["increments"])]
            cells += [number(own["candidates"]), *(f"{ms:.3f}" for ms in spent), f"{sum(spent):.3f}"]
            rows.append(cells)
    if not rows:
        return []
    heads = ("fastest at 0.9, by probability", "buckets", "probes", "counters", "candidates", "networks, ms",
             "counting, ms", "distances, ms", "together, ms")  # fmt: skip
    return ["", "Where a query's time goes, in a batch, in milliseconds of the CPU:", "", *markdown.table(heads, rows)]


def _days(runs: list[Record]) -> list[str]:
    """Which rows were measured on which day, and where it is known on what processor, if not all on one."""
    days: dict[str, list[str]] = {}
    for run in runs:
        day = run.get("date", "") + (f" ({run['cpu']})" if "cpu" in run else "")
        names = days.setdefault(day, [])
        name = NAMES[run["contender"]]
        if run["contender"] == "ivf":
            name += f" of {run['n_buckets']:,}"
        if name not in names:
            names.append(name)
    if len(days) < 2:
        return []
    parts = (f"{day}: {', '.join(names)}" for day, names in sorted(days.items()))
    of_which = "days or processors" if any("cpu" in run for run in runs) else "days"
    return ["", f"Measured on {'; '.join(parts)}. Milliseconds of different {of_which} shouldn't be compared closely."]


def _best_ivf(runs: list[Record]) -> list[str]:
    """IVF at the number of buckets that suits it best, by work and by time."""
    rows = [run for run in runs if run["contender"] == "ivf" and at_recall(run["points"]) is not None]
    last = max((run.get("date", "") for run in rows), default="")
    rows = [run for run in rows if run.get("date", "") == last]  # whose times can be compared
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
        ours = run["contender"] != "irli" or (run["hidden"] == plan.OURS["hidden"] and not run.get("room"))
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
    head = f"| 256 buckets, IRLI with hidden {plan.OURS['hidden']} | wanted | found | |"
    return markdown.table(head, [(*cells, "reached" if good else "missed") for *cells, good in rows])


def _defaults(runs: list[Record]) -> list[str]:
    """`IRLIIndex()` beside brute force and IVF, measured in one go."""
    heads = ("", "recall", "candidates", "CPU-ms in a batch", "ms alone, p50 / p99", "build, s", "build, CPU-s",
             "as planned, s", "peak memory, MB")  # fmt: skip
    lines = ["", "### Nothing set", "",
             "`IRLIIndex().fit(base)`, then `search(queries, k=10)` without a setting: `fit` has tuned it to a recall "
             "of 0.9 on its own holdout. IVF is at its fastest setting that reaches 0.9 on the queries. One thread "
             "searches; building had as many as the row says."]  # fmt: skip
    for name in dict.fromkeys(run["set"] for run in runs):
        rows = []
        own = [run for run in runs if run["set"] == name]
        for run in own:
            point = timed(run["points"], "ms") or run["points"][0]
            build, planned = run["build"], run.get("planned_s")
            if run["contender"] != "irli-defaults":
                brute = run["contender"] == "numpy"
                shown = "brute force, NumPy" if brute else f"{title(run)}, {run['n_buckets']} lists"
            else:
                shown = "IRLIIndex()" if run["partition"] == "centers" else 'IRLIIndex("learned")'
                shown += ", built by one thread" if run["threads"] == 1 else f", built by {run['threads']} threads"
            rows.append([
                shown, f"{point['recall']:.3f}", number(point["candidates"]), f"{point['ms']:.3f}",
                f"{point['p50_ms']:.3f} / {point['p99_ms']:.3f}", f"{build['wall_s']:.1f}", f"{build['cpu_s']:.1f}",
                number(planned), number(build.get("peak_mb")),
            ])  # fmt: skip
        lines += ["", f"{name}, {own[0]['vectors']:,} × {own[0]['dimensions']}:", "", *markdown.table(heads, rows)]
    return lines


def _scaling(runs: list[Record]) -> list[str]:
    heads = ("vectors", "buckets", "", "build, CPU-s", "placing anew, s: networks / least loaded", "peak memory, MB",
             "index beside the vectors, MB", "candidates", "counters", "ms at the fastest")  # fmt: skip
    rows = []
    for run in sorted(runs, key=lambda run: (run["base"], run["contender"])):
        way = "probability" if run["contender"] == "irli" else None
        points = of_way(run, way)
        found, fastest = at_recall(points), timed(points, "ms")
        anew = run.get("repartition")
        vectors = run["vectors_mb"] if run["contender"] == "ivf" else 0.0
        cells = [
            f"{run['base']:,}", number(run["n_buckets"]), title(run), f"{run['build']['cpu_s']:.1f}",
            f"{anew['affinity_s']:.1f} / {anew['placing_s']:.2f}" if anew else "–", number(run["build"]["peak_mb"]),
            number(run["index_mb"] - vectors, 1), number(found and found["candidates"]),
            number((found or {}).get("increments")), "–" if fastest is None else f"{fastest['ms']:.3f}",
        ]  # fmt: skip
        rows.append(cells)
    lines = ["", "### Made vectors, 10,000 to a million", "", "96 dimensions, recall10@10 of 0.9.", ""]
    return [*lines, *markdown.table(heads, rows), "", "![Scaling](figures/irli_scaling.svg)", *_on_paper(runs)]


def _on_paper(runs: list[dict[str, Any]]) -> list[str]:
    """What a hundred million vectors over eight machines would take, from the largest row of ours if it is large."""
    ours = [run for run in runs if run["contender"] == "irli" and run["base"] >= 100_000 and "parts" in run]
    if not ours:
        return []
    run = max(ours, key=lambda run: run["base"])
    return [
        "", "### On paper: 100 million vectors over eight machines", "",
        f"Each machine has {VECTORS // MACHINES:,} vectors of {DIM} dimensions, {REPETITIONS} repetitions of "
        f"{_buckets():,} buckets and networks with hidden size {HIDDEN:,}, trained on {QUERIES:,} queries for "
        f"{EPOCHS} epochs with {ROUNDS} re-partitions. A query goes to all machines, with {PROBES} probes and "
        f"{CANDIDATES:,} candidates on each. Rates are those of one thread at {run['base']:,} vectors above, and only "
        "the arithmetic was done; divide the times by the number of threads of a machine.", "",
        *markdown.table("| on each machine | |", _estimate(run).items()),
    ]  # fmt: skip


def _buckets() -> int:
    """As ``n_buckets="auto"`` has it."""
    return int(2 ** round(math.log2(0.8 * math.sqrt(VECTORS // MACHINES))))


def _estimate(run: dict[str, Any]) -> dict[str, str]:
    """The table's lines."""
    parts, anew, size = run["parts"], run["repartition"], run["base"]
    n_buckets, n = _buckets(), VECTORS // MACHINES
    measured = run["points"][0]["scoring"] * run["dimensions"]  # multiplications of a query's scores
    rate = size * measured / anew["affinity_s"]
    network = REPETITIONS * HIDDEN * (DIM + n_buckets)
    placing = anew["placing_s"] / (size * run["n_repetitions"])
    counter = parts["counting_ms"] / parts["increments"]
    distance = parts["ranking_ms"] / parts["candidates"]
    increments = REPETITIONS * PROBES * n / n_buckets
    hours = {
        "exact neighbours of the training queries": QUERIES * n * DIM / rate,
        "training": 3 * QUERIES * EPOCHS * network / rate,
        "repartitions": ROUNDS * (n * network / rate + n * REPETITIONS * placing),
    }
    query = {"networks": 1e3 * network / rate, "counting": increments * counter, "distances": CANDIDATES * distance}
    lines = {
        "vectors": f"{n * DIM * FLOAT / 1e9:.1f} GB",
        "buckets": f"{2 * n * REPETITIONS * FLOAT / 1e9:.2f} GB",
        "networks": f"{network * FLOAT / 1e6:.0f} MB",
    }
    lines |= {what: f"{seconds / 3600:.1f} hours of a thread" for what, seconds in hours.items()}
    shown = ", ".join(f"{what} {value:.2f}" for what, value in query.items())
    return lines | {"a query, milliseconds of a thread": f"{sum(query.values()):.2f} ({shown})"}


def _multilabel(runs: list[Record]) -> list[str]:
    lines = []
    for name in dict.fromkeys(run["set"] for run in runs):
        heads = ("", "P@1", "P@3", "P@5", "PSP@5", "CPU-ms in a batch", "ms alone, p50 / p99", "training, CPU-s",
                 "model, MB", "peak memory, MB")  # fmt: skip
        rows = []
        own = [run for run in runs if run["set"] == name]
        for run in own:
            for point in run["points"]:
                settings = [f"{key}={value}" for key, value in run.get("settings", {}).items()]
                settings += [f"{key}={point[key]}" for key in ("order", "probes") if key in point]
                cells = [
                    ", ".join([run["contender"], *settings]),
                    *(f"{point[key]:.2f}" for key in ("P@1", "P@3", "P@5", "PSP@5")),
                ]
                cells += [f"{point['cpu_ms_per_row']:.4f}", f"{point['p50_ms']:.4f} / {point['p99_ms']:.4f}"]
                cells += [f"{run['build']['cpu_s']:.1f}", f"{run['model_mb']:.1f}", number(run["build"]["peak_mb"])]
                rows.append(cells)
        lines += ["", f"### {name}: labels", "", *markdown.table(heads, rows)]
        usual = {run["contender"]: run["points"][0]["P@5"] for run in own if not run.get("settings")}
        if {"XRLinear", "IRLIClassifier"} <= set(usual):
            gap = usual["IRLIClassifier"] - usual["XRLinear"]
            verdict = "reached" if gap >= -1 else "missed"
            ours = [run for run in own if run["contender"] == "IRLIClassifier" and not run.get("settings")]
            size = ours[0]["model_mb"]
            small = "reached" if size < MODEL_MB else "missed"
            lines += ["", f"P@5 beside XRLinear's: {gap:+.2f} points; at least -1 was wanted: {verdict}. A model below "
                          f"{MODEL_MB} MB was wanted: {size:.0f} MB, {small}."]  # fmt: skip
            if ours[0].get("date", "") < FOUR_BITS:
                lines[-1] += " It was measured before first layers were saved in four bits a weight."
    return [*lines, "", PAPER_LABELS]


def main_figure(record: Record) -> str:
    """What the progress lines tell of a row."""
    if "features" in record:
        return ", ".join(f"P@5 {point['P@5']:.2f}" for point in record["points"])
    if record["contender"] == "irli-defaults":
        point = record["points"][0]
        return f"recall {point['recall']:.3f} in {point['ms']:.3f} ms; built in {record['build']['wall_s']:.1f} s"
    parts = []
    if "watched" in record:
        return f"{len(record['watched'])} rounds"
    for way in ways(record):
        found = at_recall(of_way(record, way))
        count = "too low a recall" if found is None else number(found.get("candidates"))
        parts.append(f"{way or 'candidates'} {count}")
    return f"at recall {TARGET:g}: {', '.join(parts)}; built in {record['build']['wall_s']:.1f} s"


_SECTIONS = {
    "neighbors": _neighbors,
    "defaults": _defaults,
    "ablation": ablation_tables.section,
    "scaling": _scaling,
    "multilabel": _multilabel,
}
