"""Writes docs/results.md, and the tables in README.md and docs/sampling.md, from the JSON files in results/.

``python benchmarks/report.py [--results DIR] [--out docs/results.md] [--readme README.md]``
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tradeoff
from report_ablation import ablation_section
from report_beam_tree import beam_tree_section
from report_calibration import calibration_section
from report_cane import cane_section
from report_codewords import codewords_section
from report_ensembles import ensembles_section
from report_irli import irli_section
from report_output_layer import output_layer_section, output_layer_summary
from report_plan import plan_section
from report_sampling import sampling_section
from report_transformers import transformers_section

HERE = Path(__file__).resolve().parent
PEERS = ("libpecos", "omikuji", "napkinxc")
NAMES = {
    "sylvan": "Sylvan",
    "libpecos": "libpecos",
    "omikuji": "omikuji",
    "napkinxc": "napkinXC",
    "fasttext": "fastText",
}
ORDER = ("eurlex57k", "gutenberg", "synthetic", "synthetic-large")
TOLERANCE = 0.2  # points of precision
MEMORY = (
    "What training adds to the memory that the process holds by itself (pages of mapped files, which the system can "
    "take back, not counted), one thread, defaults; limits are parts of the peak without one. Every model is the same, "
    "to the bit. A limit is refused when the largest cluster has no room under it."
)
LEAST_ROWS = 20  # that a precision is shown for
CLOSE = 1e-4  # between scores that count as tied, as in importers.py

Record = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One line of a table: where its figure lies, whom it is compared with, and what is wanted."""

    title: str
    step: str
    key: str
    against: tuple[str, ...] = ()
    least: float = 0.0
    aim: float = 0.0
    digits: int = 1


def rows(threads: list[int], single: int) -> list[Row]:
    """The lines of a set's table."""
    lines = []
    for count in threads:
        lines.append(Row(f"training, s, {threads_word(count)}", f"train {count}", "wall_s", PEERS, 4, 8, 2))
        lines.append(Row(f"training, CPU-s, {threads_word(count)}", f"train {count}", "cpu_s", PEERS, digits=2))
    for count in threads:
        title = f"batch, ms a row, {threads_word(count)}"
        lines.append(Row(title, f"rank {count}", "ms_per_row", PEERS, 2, 4, 4))
    lines += [
        Row("one query, p50, ms", f"rank {single}", "p50_ms", PEERS, 3, 6, 4),
        Row("one query, p99, ms", f"rank {single}", "p99_ms", PEERS, 3, 6, 4),
        Row("model on disk, MB", f"train {single}", "model_mb", ("libpecos",), 1 / 0.6, 1 / 0.3),
        Row("loading the model, ms", f"rank {single}", "load_s", PEERS, digits=1),
        Row("peak memory in training, MB", f"train {single}", "peak_mb", ("libpecos",), 1, 2, 0),
        Row("of it before training, MB", f"train {single}", "before_mb", digits=0),
    ]
    for count in threads:
        title = f"raw text to model, s, {threads_word(count)}"
        lines.append(Row(title, f"text {count}", "wall_s", ("libpecos",), 3, 6, 2))
    lines.append(Row("P@1, raw text", f"text {single}", "P@1", digits=2))
    lines += [Row(name, f"rank {single}", name, digits=2) for name in ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")]
    return lines


def threads_word(count: int) -> str:
    """"1 thread", "2 threads"."""
    return f"{count} thread" + ("s" if count > 1 else "")


def figure(record: Record, contender: str, step: str, key: str) -> float | None:
    """One median, or None where it was not measured."""
    found = record["contenders"].get(contender, {}).get("median", {}).get(step, {}).get(key)
    return None if found is None else float(found) * (1e3 if key == "load_s" else 1.0)


def verdict(row: Row, own: float | None, others: list[float]) -> tuple[str, str]:
    """How many times better than the best peer, and how that stands to what is wanted."""
    if own is None or not others or not row.against:
        return "", ""
    ratio = min(others) / own
    text = f"{ratio:.2f}×"
    if ratio < 1:
        text += " **behind**"
    if not row.least:
        return text, ""
    wanted = f"{row.least:.3g}× / {row.aim:.3g}×"
    return text, wanted + (": aim" if ratio >= row.aim else ": least" if ratio >= row.least else ": missed")


def table(record: Record) -> list[str]:
    """One set's table in Markdown."""
    contenders = [name for name in NAMES if name in record["contenders"]]
    measured = [name for name in contenders if not record["contenders"][name].get("missing")]
    heads = [f"{NAMES[name]} {record['contenders'][name]['version']}" for name in measured]
    lines = ["| | " + " | ".join(heads) + " | against the best peer | at least / aim |"]
    lines.append("|---" * (len(heads) + 3) + "|")
    for row in rows(record["threads"], min(record["threads"])):
        values = {name: figure(record, name, row.step, row.key) for name in measured}
        if all(value is None for value in values.values()):
            continue
        others = [value for name in row.against if (value := values.get(name)) is not None]
        cells = ["–" if value is None else f"{value:.{row.digits}f}" for value in values.values()]
        ratio, wanted = verdict(row, values.get("sylvan"), others)
        lines.append(f"| {row.title} | " + " | ".join(cells) + f" | {ratio} | {wanted} |")
    missing = [NAMES[name] for name in contenders if name not in measured]
    if missing:
        lines += ["", f"Missing, so not measured: {', '.join(missing)}."]
    return lines + notes(record, measured)


def notes(record: Record, measured: list[str]) -> list[str]:
    """Sentences below a table: precision beside the peers', the gain of a second thread, what failed."""
    lines = [""]
    step = f"rank {min(record['threads'])}"
    for name in measured:
        if name in PEERS and "sylvan" in measured:
            gaps = [(figure(record, "sylvan", step, f"P@{k}"), figure(record, name, step, f"P@{k}")) for k in (1, 3, 5)]
            worst = min((own - other for own, other in gaps if own is not None and other is not None), default=None)
            if worst is not None:
                verdict = "within" if worst >= -TOLERANCE else "**outside**"
                lines.append(f"- P@1/3/5 beside {NAMES[name]}: {worst:+.2f} points at worst, {verdict} {TOLERANCE}.")
    if {1, 2} <= set(record["threads"]):
        for title, verb, key in (("Training", "train", "wall_s"), ("Batch ranking", "rank", "ms_per_row")):
            parts = []
            for name in measured:
                one, two = (figure(record, name, f"{verb} {count}", key) for count in (1, 2))
                if one and two:
                    parts.append(f"{NAMES[name]} {one / two:.2f}×")
            if parts:
                lines.append(f"- {title}, two threads against one: {', '.join(parts)}.")
    for name in measured:
        for at, found in record["contenders"][name]["median"].items():
            if "error" in found:
                lines.append(f"- {NAMES[name]}, {at}: failed ({found['error']}).")
    return lines


def defaults_table(record: Record) -> list[str]:
    """One set's table of ``defaults.py``."""
    lines = [
        "| setting | fit, CPU-s | model, MB | batch, CPU-ms a row | one query p50, ms | P@1/3/5 | PSP@1/3/5 |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in record["runs"]:
        settings = ", ".join(f"{key}={value}" for key, value in run["settings"].items()) or "defaults"
        p, psp = ("/".join(f"{run[f'{name}@{k}']:.2f}" for k in (1, 3, 5)) for name in ("P", "PSP"))
        lines.append(
            f"| {settings} | {run['cpu_s']:.2f} | {run['model_mb']:.1f} | {run['cpu_ms_per_row']:.4f} | "
            f"{run['p50_ms']:.4f} | {p} | {psp} |"
        )
    return lines


def constraints_table(record: Record) -> list[str]:
    """One set's table of ``constraints.py``."""
    lines = [
        "| allowed | for | rows | batch | one query | P@1/5 | naive: labels ranked | naive: batch | naive: P@1/5 | "
        "naive: answers of 5 | exhaustive: P@1/5 |",
        "|---" * 11 + "|",
    ]
    for run in record["runs"]:
        naive, exhaustive = run["naive"], run["exhaustive"]
        precision = [
            f"{found['P@1']:.1f}/{found['P@5']:.1f}" if found["rows"] >= LEAST_ROWS else "–"
            for found in (run, naive, exhaustive)
        ]
        answers = f"{naive['answers']:.1f}" if naive["rows"] >= LEAST_ROWS else "–"
        batch, naive_batch = run["batch_ms"] / record["batch_ms"], naive["batch_ms"] / record["batch_ms"]
        lines.append(
            f"| {100 * run['share']:g}% | {run['who']} | {run['rows']:,} | {batch:.2f}× | "
            f"{run['single_ms'] / record['single_ms']:.2f}× | {precision[0]} | {naive['k']:,} | "
            f"{naive_batch:.2f}× | {precision[1]} | {answers} | {precision[2]} |"
        )
    return lines


def neighbors_section(folder: Path) -> list[str]:
    """What ``neighbors.py`` found, where it ran."""
    records = by_order(folder, "neighbors")
    lines = []
    if records:
        lines += [
            "",
            "## Neighbours and rare labels",
            "",
            "In percent, by `benchmarks/neighbors.py`. The weight of the neighbours in the mean with a model was "
            "chosen on a tenth of the training rows. Head, torso and tail hold a third of the training positives each; "
            "R@5 is the share of a row's true labels of the slice that are among five answers.",
        ]
    for record in records:
        lines += ["", f"### {record['set']}", "", *neighbors_tables(record)]
    return lines


def neighbors_tables(record: Record) -> list[str]:
    """One set's tables of ``neighbors.py``: costs, rankings, ways of favouring rare labels."""
    lines = ["| | fit, CPU-s | peak memory, MB | model, MB | batch, CPU-ms a row | one query p50, ms |"]
    lines.append("|---|---|---|---|---|---|")
    for name, cost in record["costs"].items():
        keys = (("cpu_s", 2), ("peak_mb", 0), ("model_mb", 1), ("cpu_ms_per_row", 4), ("p50_ms", 4))
        cells = " | ".join(f"{cost[key]:.{digits}f}" if key in cost else "–" for key, digits in keys)
        lines.append(f"| {name} | {cells} |")
    lines += ["", "| | weight of the neighbours | P@1/3/5 | PSP@1/3/5 | macro-F1@5 | head/torso/tail R@5 |"]
    lines.append("|---|---|---|---|---|---|")
    for run in record["rankings"]:
        lines.append(f"| {run['model']} | {run.get('weight', '–')} | {tail_cells(run, 'macro-F1@5')} |")
    lines += ["", "| XRLinear, scores | ordered by | P@1/3/5 | PSP@1/3/5 | macro-P/R/F1@5 | head/torso/tail R@5 |"]
    lines.append("|---|---|---|---|---|---|")
    for run in record["tails"]:
        cells = tail_cells(run, "macro-P@5", "macro-R@5", "macro-F1@5")
        lines.append(f"| {run['calibration'] or 'as they are'} | {run['way']} | {cells} |")
    return lines


def tail_cells(run: Record, *macro: str) -> str:
    """The last cells of a row of :func:`neighbors_tables`."""
    groups = [[f"{name}@{k}" for k in (1, 3, 5)] for name in ("P", "PSP")]
    groups += [list(macro), [f"{name} R@5" for name in ("head", "torso", "tail")]]
    return " | ".join("/".join(f"{run[key]:.2f}" for key in group) for group in groups)


def by_order(folder: Path, prefix: str) -> list[Record]:
    """The JSON files ``PREFIX-SET.json`` in the order of ``ORDER``."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{prefix}-*.json"))]
    return sorted(found, key=lambda record: ORDER.index(record["set"]) if record["set"] in ORDER else len(ORDER))


def single(folder: Path, name: str) -> Record | None:
    """The JSON file of a benchmark that has no sets, if it ran."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def document(folder: Path) -> str:
    """The whole of docs/results.md."""
    lines = [
        "# Results",
        "",
        "Written by `python benchmarks/report.py` from the files in `benchmarks/results/`; how each figure is taken "
        "stands in `benchmarks/README.md`. All contenders use branching 16, leaves of up to 100 labels, beam 10 and "
        "teacher-forcing negatives (TFN), one tree each, on the same features. Figures are medians; a ratio says how "
        "many times better Sylvan is than the best peer of that row (libpecos alone for model size, memory and raw "
        "text), and where it is below 1 Sylvan is behind. Every raw value is in the JSON.",
    ]
    for record in by_order(folder, "peers"):
        machine = record["machine"]
        lines += [
            "",
            f"## {record['set']}",
            "",
            f"{record['rows']:,} training rows, {record['test_rows']:,} test rows, {record['features']:,} features, "
            f"{record['labels']:,} labels. {machine['cpu']}, {machine['cores']} cores, {machine['system']}; "
            f"Python {record['python']}; {record['repeats']} repeat{'s' if record['repeats'] > 1 else ''}; "
            f"{record['date']}.",
            "",
            *table(record),
        ]
    defaults = by_order(folder, "defaults")
    if defaults:
        lines += ["", "## Which defaults", "", "One thread; everything else at its default."]
    for record in defaults:
        lines += ["", f"### {record['set']}", "", *defaults_table(record)]
    constraints = by_order(folder, "constraints")
    if constraints:
        lines += [
            "", "## Constraints", "",
            "Random labels are allowed: the same for all rows, or for each row its own, a true label among them. CPU "
            "time beside the unconstrained top 5, one thread; precision among the allowed labels, over the rows with "
            "a true one (not shown for fewer than 20). The naive way ranks more labels with the same beam, drops those "
            "that are not allowed; the exhaustive ranking, filtered, is what there is to reach.",
        ]  # fmt: skip
    for record in constraints:
        lines += [
            "", f"### {record['set']}, constrained", "",
            f"{record['labels']:,} labels; unconstrained: {record['batch_ms']:.4f} CPU-ms a row in a batch, "
            f"{record['single_ms']:.4f} alone.", "",
            *constraints_table(record),
        ]  # fmt: skip
    imported = by_order(folder, "importers")
    if imported:
        lines += [
            "",
            "## Imported models",
            "",
            "A model of each library, trained by it with the settings above and imported, beside the library itself on "
            "the same test rows (`benchmarks/importers.py`). Equal: rows whose first five labels are the same in the "
            f"same order; or tied: where they differ, their scores do by less than {CLOSE}. Scores apart: the largest "
            "difference of a label's score.",
        ]
    for record in imported:
        lines += ["", f"### {record['set']}", "", *importers_table(record)]
    limited = by_order(folder, "memory")
    if limited:
        lines += ["", "## Memory limits and resuming", "", MEMORY]
    for record in limited:
        lines += ["", f"### {record['set']}", "", *memory_table(record)]
    lines += neighbors_section(folder)
    lines += ensembles_section(by_order(folder, "ensembles"))
    lines += calibration_section(by_order(folder, "calibration"))
    lines += plan_section(by_order(folder, "plan"))
    lines += ablation_section(by_order(folder, "ablation"))
    lines += transformers_section(folder)
    lines += irli_section(folder)
    lines += sampling_section(folder)
    lines += codewords_section(folder)
    lines += beam_tree_section(folder)
    lines += cane_section(folder)
    lines += output_layer_section(single(folder, "output_layer"))
    return "\n".join(lines) + "\n"


def memory_table(record: Record) -> list[str]:
    """One set's table of ``memory.py``; times against the first row's, which are of the same machine and day."""
    lines = ["| training | limit, MB | peak, MB | CPU time |", "|---|---|---|---|"]
    whole = record["runs"][0]["cpu_s"]
    for run in record["runs"]:
        limit = f"{run['limit'] / 1e6:.0f}" if "limit" in run else "–"
        if "refused" in run:
            lines.append(f"| {run['setting']} | {limit} | refused | |")
        else:
            lines.append(f"| {run['setting']} | {limit} | {run['peak'] / 1e6:.0f} | {run['cpu_s'] / whole:.2f}× |")
    return lines


def importers_table(record: Record) -> list[str]:
    """One set's table of ``importers.py``; times where they were taken."""
    lines = [
        "| model | weights | equal, % | or tied, % | scores apart | P@1/3/5 | MB | batch, ms a row | one query, ms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]

    def row(title: str, weights: str, answers: str, run: Record, size: float) -> str:
        p = "/".join(f"{run[f'P@{k}']:.2f}" for k in (1, 3, 5))
        times = " | ".join(f"{run[key]:.4f}" if key in run else "–" for key in ("ms_per_row", "p50_ms"))
        return f"| {title} | {weights} | {answers} | {p} | {size:.1f} | {times} |"

    for name, found in record["libraries"].items():
        if "missing" in found:
            lines.append(f"| {NAMES[name]} | missing | | | | | | | |")
            continue
        lines.append(row(f"{NAMES[name]} {found['version']}", "its own", "| |", found["theirs"], found["their_mb"]))
        for dtype in ("float32", "uint8"):
            run = found[dtype]
            equal = f"{100 * run['rows_equal']:.2f} | {100 * run['rows_equal_or_tied']:.2f}"
            lines.append(row("imported", dtype, f"{equal} | {run['scores_apart_most']:.1g}", run, run["model_mb"]))
    return lines


def summary(folder: Path) -> str:
    """The table between README.md's markers: one column a set, one row a goal."""
    records = by_order(folder, "peers")
    if not records:
        return "Nothing has been measured yet."
    threads, single = records[0]["threads"], min(records[0]["threads"])
    lines = [
        "How many times better than the best of the other libraries (for model size, memory and raw text: than "
        "libpecos); below 1 is behind.",
        "",
        "| | " + " | ".join(record["set"] for record in records) + " |",
        "|---" * (len(records) + 1) + "|",
    ]
    for row in rows(threads, single):
        if row.least:
            title = row.title.replace(", ms a row", "").replace(", ms", "").replace(", MB", "").replace(", s", "")
            lines.append(f"| {title} | " + " | ".join(ratio_text(record, row) for record in records) + " |")
    gaps = [worst_gap(record, single) for record in records]
    cells = ["–" if gap is None else f"{gap:+.2f}" for gap in gaps]
    lines.append("| P@1/3/5, points, at worst | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ratio_text(record: Record, row: Row) -> str:
    """How many times better than the best peer, as in the table of the set."""
    found = {name: figure(record, name, row.step, row.key) for name in ("sylvan", *row.against)}
    others = [value for name, value in found.items() if name != "sylvan" and value is not None]
    return verdict(row, found["sylvan"], others)[0] or "–"


def worst_gap(record: Record, single: int) -> float | None:
    """The least that Sylvan's P@1, P@3 or P@5 is above a peer's, in points."""
    gaps = []
    for key in ("P@1", "P@3", "P@5"):
        own = figure(record, "sylvan", f"rank {single}", key)
        others = [figure(record, name, f"rank {single}", key) for name in PEERS]
        gaps += [own - other for other in others if own is not None and other is not None]
    return min(gaps, default=None)


def sampling_tables(folder: Path) -> str:
    """What stands between docs/sampling.md's markers."""
    return output_layer_summary(single(folder, "output_layer"), tradeoff.section(folder))


def with_summary(text: str, table: str, name: str = "results") -> str:
    """A document with the table between its markers."""
    begin, end = f"<!-- {name}:begin -->\n", f"\n<!-- {name}:end -->"
    head, _, rest = text.partition(begin)
    _, found, tail = rest.partition(end)
    return f"{head}{begin}{table}{end}{tail}" if found else text


def main() -> None:
    """Writes the documents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", default=str(HERE / "results"))
    parser.add_argument("--out", default=str(HERE.parent / "docs" / "results.md"))
    parser.add_argument("--readme", default=str(HERE.parent / "README.md"))
    parser.add_argument("--sampling", default=str(HERE.parent / "docs" / "sampling.md"))
    options = parser.parse_args()
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    Path(options.out).write_text(document(Path(options.results)), encoding="utf-8")
    readme = Path(options.readme)
    if readme.exists():
        text = readme.read_text(encoding="utf-8")
        readme.write_text(with_summary(text, summary(Path(options.results))), encoding="utf-8")
    sampling = Path(options.sampling)
    if sampling.exists():
        table = sampling_tables(Path(options.results))
        sampling.write_text(with_summary(sampling.read_text("utf-8"), table, "output-layer"), encoding="utf-8")


if __name__ == "__main__":
    main()
