"""The sections of docs/results/ on linear models beside those of ``peers.py``: one for each benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.common import markdown
from benchmarks.report.baskets import BASKETS, baskets_table
from benchmarks.report.label_texts import LABEL_TEXTS, NAME_ROWS, label_texts_table, name_rows_table
from benchmarks.report.new_labels import NEW_LABELS, new_labels_table
from benchmarks.report.static_vectors import STATIC_VECTORS, static_vectors_table
from benchmarks.report.updates import UPDATES, updates_tables
from benchmarks.report.words import WORD_FORMS, WORD_PARTS, word_forms_table, word_parts_table

__all__ = ["NAMES", "by_order", "linear_sections"]

NAMES = {
    "sylvan": "Sylvan",
    "sylvan-fast": "Sylvan, fast",
    "sylvan-accurate": "Sylvan, accurate",
    "libpecos": "libpecos",
    "libpecos-matched": "libpecos, tfn+man",
    "omikuji": "omikuji",
    "napkinxc": "napkinXC",
    "napkinxc-default": "napkinXC, its defaults",
    "libmultilabel": "LibMultiLabel, tree",
    "libmultilabel-flat": "LibMultiLabel, one-vs-rest",
    "fasttext": "fastText",
}
ORDER = ("eurlex57k", "gutenberg", "synthetic", "synthetic-large")
MEMORY = (
    "The memory that training adds to that of the process (without pages of mapped files, which the system can "
    "reclaim), on one thread, with defaults. Limits are fractions of the peak without a limit. Every model is the "
    "same, to the bit. A limit is refused if the largest cluster doesn't fit."
)
LEAST_ROWS = 20  # that a precision is shown for
CLOSE = 1e-4  # between scores that count as tied, as in importers.py
Record = dict[str, Any]
CONSTRAINTS = (
    "Random labels are allowed: the same for all rows, or for each row its own, with a true label among them. CPU "
    "time relative to the unconstrained top 5, on one thread. Precision is among the allowed labels, over the rows "
    "with a true one (not shown for fewer than 20 rows). The naive way ranks more labels with the same beam and "
    "drops those that are not allowed. The exhaustive ranking, filtered, is the best possible result."
)
COMPRESSION = (
    "By `python -m benchmarks.linear.compression`, on one thread: models trained with each type of weights, and the "
    "one of `uint8` compressed to shares of its size by `compress`, without training. All are ranked with in turns."
)
IMPORTERS = (
    "A model of each library, trained by it with the settings above and imported, compared with the library itself "
    "on the same test rows (`python -m benchmarks.linear.importers`). Equal: rows whose first five labels are the "
    f"same in the same order. Or tied: where they differ, their scores differ by less than {CLOSE}. Difference: "
    "the largest of a label's score."
)
NEIGHBORS = (
    "In percent, by `python -m benchmarks.linear.neighbors`. The weight of the neighbours in the mean with a model "
    "was chosen on a tenth of the training rows. Head, torso and tail each have a third of the training positives. "
    "R@5 is the share of a row's true labels in the slice that are among five answers."
)
ENSEMBLES = (
    "By `python -m benchmarks.linear.ensembles`, on one thread, from raw texts to a trained model, vectorisers "
    "included (libpecos: from finished features, whose time isn't included). Frequent pairs are the 120,000 most "
    "frequent words and pairs of words, characters as many 4-grams within words, which the neighbours (a "
    "`NeighborRanker`) have as well. The recipes, with their weights, are the same on all sets."
)
RERANKERS = (
    "By `python -m benchmarks.linear.rerankers`, on one thread, from raw texts: all members of the preset "
    "`best` (of cpv-tenders, whose labels have no names, without the matcher of words), means of them, and "
    "orders learned from the same candidates by each library. R@5: of the true labels with so many training rows (head "
    "50 and more, torso 10 to 49, tail 1 to 9, never 0), the share among five answers. Training is that of all members "
    "and the order, without the import of libraries. As a control, what labels are called is shuffled. The sentence "
    "encoder is all-MiniLM-L6-v2, on one thread of a processor: most of the time of its rows is its own."
)
PRESETS = (
    "By `python -m benchmarks.linear.presets`, on one thread, from raw texts to a trained model, vectorisers included. "
    "The labels of eurlex57k and of yso-titles-fi are codes, whose names each preset is given, in Finnish for the "
    "latter. One text is a call with one text, its processor's time."
)
TUNED = (
    "By `python -m benchmarks.linear.tuned`, from raw texts: `sylvan.tune` with so many seconds for everything, the "
    "final training included, beside the default model and fastText's autotune with the same seconds, threads and "
    "training rows. Means over seeds on the test rows, whose rows without a known label are skipped; the gain is "
    "over the default model with the same seed, in points, the lowest and the highest of the seeds after it."
)
CALIBRATION = (
    "By `python -m benchmarks.linear.calibration`, in percent on the test rows; ECE with 15 bins of equal width. The "
    "factor is the CPU time of training with calibration, divided by that without; the two were trained alternately."
)
# Yu, Zhong, Zhang, Chang & Dhillon (2022), Table 6: Prec@1/3/5 by trees and branching. The random clusters of
# Eurlex-4K stand in Section 6.4, which doesn't say how many trees.
ABLATION_PAPER = {
    "Eurlex-4K": {
        (3, 2): "81.47/69.13/57.87", (3, 8): "81.79/69.30/58.04", (3, 32): "82.07/69.61/58.23",
        (1, 32): "82.48/68.83/57.61",
    },
    "Wiki10-31K": {
        (3, 2): "84.19/72.57/63.39", (3, 8): "84.40/72.87/64.09", (3, 32): "84.55/73.02/64.24",
        (1, 32): "84.14/72.85/64.09",
    },
    "Wiki-500K": {
        (3, 2): "68.44/49.28/38.58", (3, 8): "68.27/49.19/38.50", (3, 32): "68.12/49.07/38.39",
        (1, 32): "66.60/47.67/37.19",
    },
}  # fmt: skip
VECTORIZERS = (
    "By `python -m benchmarks.linear.vectorizers`, from raw texts on one thread, with the `balanced` preset: 20,000 "
    "training rows, of whose texts only the first words are read, and up to 6,000 test rows."
)
PAPER_SETTINGS = (
    "By `python -m benchmarks.linear.paper_settings`, uncalibrated, one run each: `XRLinear`'s defaults, its "
    "defaults with `negatives=\"paper\"` and `combine=\"paper\"`, and `XRLinear.preset(\"paper\")`, which has "
    "three trees of branching 32. Of the preset's lines, those that say so take the product along the path, and "
    "the others read Eq. 13 to the letter (`:nested`). The last column is the percentage of test rows whose five "
    "answers aren't those of the other reading, a line above. CPU seconds of all threads, on a machine with other "
    "work."
)
ABLATION_RANDOM = {"Eurlex-4K": "79.3/67.1/55.9"}
ABLATION = (
    "By `python -m benchmarks.linear.ablation`, as in section 6.4 of PECOS: P@1/3/5 by the number of trees T and the "
    "branching B, with TFN, beam 10 and leaves of up to 100 labels (the paper gives no leaf size; this one gives its "
    "depths). CPU seconds of all threads, one run. The paper's figures are shown as printed there. They are for "
    "**other sets** (its Eurlex-4K has 15,449 training rows and 3,956 labels), so compare how a column changes from "
    "line to line, not one column with another. A dash means that the paper has no figure. It reports random "
    "clusters without a number of trees."
)


def by_order(folder: Path, prefix: str) -> list[Record]:
    """The JSON files ``PREFIX-SET.json`` in the order of ``ORDER``."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{prefix}-*.json"))]
    return sorted(found, key=lambda record: ORDER.index(record["set"]) if record["set"] in ORDER else len(ORDER))


def linear_sections(folder: Path) -> list[str]:
    """What the benchmarks of linear models measured, where they ran."""
    lines = []
    for kind, (title, words, tables) in BY_SET.items():
        records = by_order(folder, kind)
        lines += ["", f"## {title}", "", words] if records else []
        for record in records:
            more = ", constrained" if kind == "constraints" else ""
            lines += ["", f"### {record['set']}{more}", "", *tables(record)]
    for kind, section in {"plan": plan_section, "ablation": ablation_section}.items():
        records = by_order(folder, kind)
        lines += section(records) if records else []
    return lines


def defaults_table(record: Record) -> list[str]:
    """What ``defaults.py`` measured."""
    rows = []
    for run in record["runs"]:
        settings = ", ".join(f"{key}={value}" for key, value in run["settings"].items()) or "defaults"
        settings = f"**{run['preset']}**: {settings}" if run.get("preset") else settings
        costs = [f"{run['cpu_s']:.2f}", f"{run['model_mb']:.1f}", f"{run['cpu_ms_per_row']:.4f}"]
        rows.append([settings, *costs, f"{run['p50_ms']:.4f}", markdown.at(run, "P"), markdown.at(run, "PSP")])
    head = "| setting | fit, CPU-s | model, MB | batch, CPU-ms a row | one query p50, ms | P@1/3/5 | PSP@1/3/5 |"
    return markdown.table(head, rows)


def paper_settings_table(record: Record) -> list[str]:
    """What ``paper_settings.py`` measured."""
    rows = []
    for run in record["runs"]:
        times = [f"{run[key]:.2f}" for key in ("train_cpu_s", "rank_cpu_s")]
        other = f"{run['other_five']:.1f}" if "other_five" in run else ""
        changes = ", ".join(f'`{name}="{value}"`' for name, value in run["changes"].items() if value is not None)
        setting = run["setting"] + (f" ({changes})" if changes else "")
        rows.append([setting, markdown.at(run, "P"), *times, other])
    head = "| setting | P@1/3/5 | training, CPU-s | ranking, CPU-s | other five answers, % |"
    return markdown.table(head, rows)


def compression_table(record: Record) -> list[str]:
    """What ``compression.py`` measured: sizes beside that with ``uint8``, differences in points beside ``float32``."""
    rows = []
    for run in record["runs"]:
        first, whole = (
            next(one for one in record["runs"] if (one["preset"], one["model"]) == (run["preset"], name))
            for name in ("float32", "uint8")
        )
        size = f"{run['model_mb']:.2f} ({run['model_mb'] / whole['model_mb']:.2f})"
        lost = "/".join(f"{run[f'P@{k}'] - first[f'P@{k}']:+.2f}" for k in (1, 3, 5))
        costs = [f"{run['cpu_s']:.2f}", f"{run['batch_ms']:.4f}", f"{1e3 * run['p50_ms']:.0f}"]
        rows.append([run["preset"], run["model"], run["weights"], size, markdown.at(run, "P"), lost, *costs])
    head = (
        "| preset | model | weights | MB (of uint8's) | P@1/3/5 | against float32 | made in, CPU-s | "
        "batch, CPU-ms a row | one query p50, µs |"
    )
    return markdown.table(head, rows)


def vectorizers_table(record: Record) -> list[str]:
    """What ``vectorizers.py`` measured."""
    rows = []
    for run in record["runs"]:
        length = "all" if run["words"] is None else f"first {run['words']}"
        n_words = {(1, 1): "words", (1, 2): "words, pairs"}[tuple(run["ngrams"])]
        name = f"**{run['settings']}** ({n_words})" if run["settings"] == "the default" else run["settings"]
        costs = [f"{run['train_cpu_s']:.2f}", f"{run['model_mb']:.1f}"]
        rows.append([length, name, *costs, markdown.at(run, "P"), markdown.at(run, "PSP")])
    return markdown.table("| words of a text | counted | training, CPU-s | model, MB | P@1/3/5 | PSP@1/3/5 |", rows)


def constraints_table(record: Record) -> list[str]:
    """What ``constraints.py`` measured."""
    head = (
        "| allowed | for | rows | batch | one query | P@1/5 | naive: labels ranked | naive: batch | naive: P@1/5 | "
        "naive: answers of 5 | exhaustive: P@1/5 |"
    )
    rows = []
    for run in record["runs"]:
        naive, exhaustive = run["naive"], run["exhaustive"]
        precision = [
            f"{found['P@1']:.1f}/{found['P@5']:.1f}" if found["rows"] >= LEAST_ROWS else "–"
            for found in (run, naive, exhaustive)
        ]
        answers = f"{naive['answers']:.1f}" if naive["rows"] >= LEAST_ROWS else "–"
        batch, naive_batch = run["batch_ms"] / record["batch_ms"], naive["batch_ms"] / record["batch_ms"]
        rows.append([
            f"{100 * run['share']:g}%", run["who"], f"{run['rows']:,}", f"{batch:.2f}×",
            f"{run['single_ms'] / record['single_ms']:.2f}×", precision[0], f"{naive['k']:,}",
            f"{naive_batch:.2f}×", precision[1], answers, precision[2],
        ])  # fmt: skip
    words = (
        f"{record['labels']:,} labels; unconstrained: {record['batch_ms']:.4f} CPU-ms a row in a batch, "
        f"{record['single_ms']:.4f} alone."
    )
    return [words, "", *markdown.table(head, rows)]


def neighbors_tables(record: Record) -> list[str]:
    """What ``neighbors.py`` measured: costs, rankings, ways of favouring rare labels."""
    keys = (("cpu_s", 2), ("peak_mb", 0), ("model_mb", 1), ("cpu_ms_per_row", 4), ("p50_ms", 4))
    costs = [
        [name, *(f"{cost[key]:.{digits}f}" if key in cost else "–" for key, digits in keys)]
        for name, cost in record["costs"].items()
    ]
    means = [[run["model"], str(run.get("weight", "–")), *_tail_cells(run, "F1")] for run in record["rankings"]]
    tails = [
        [run["calibration"] or "as they are", run["way"], *_tail_cells(run, "P", "R", "F1")] for run in record["tails"]
    ]
    measures = "P@1/3/5 | PSP@1/3/5 | macro-{}@5 | head/torso/tail R@5 |"
    spent = "| | fit, CPU-s | peak memory, MB | model, MB | batch, CPU-ms a row | one query p50, ms |"
    return [
        *markdown.table(spent, costs),
        "", *markdown.table(f"| | weight of the neighbours | {measures.format('F1')}", means),
        "", *markdown.table(f"| XRLinear, scores | ordered by | {measures.format('P/R/F1')}", tails),
    ]  # fmt: skip


def _tail_cells(run: Record, *macro: str) -> list[str]:
    """The last cells of a row of :func:`neighbors_tables`."""
    groups = [[f"macro-{name}@5" for name in macro], [f"{name} R@5" for name in ("head", "torso", "tail")]]
    means = ["/".join(f"{run[key]:.2f}" for key in group) for group in groups]
    return [markdown.at(run, "P"), markdown.at(run, "PSP"), *means]


def memory_table(record: Record) -> list[str]:
    """What ``memory.py`` measured; times against the first row's, which are of the same machine and day."""
    rows, whole = [], record["runs"][0]["cpu_s"]
    for run in record["runs"]:
        limit = f"{run['limit'] / 1e6:.0f}" if "limit" in run else "–"
        spent = ["refused |"]  # an empty cell
        if "refused" not in run:
            spent = [f"{run['peak'] / 1e6:.0f}", f"{run['cpu_s'] / whole:.2f}×"]
        rows.append([run["setting"], limit, *spent])
    return markdown.table("| training | limit, MB | peak, MB | CPU time |", rows)


def importers_table(record: Record) -> list[str]:
    """What ``importers.py`` measured; times where they were taken."""
    head = "| model | weights | equal, % | or tied, % | difference | P@1/3/5 | MB | batch, ms a row | one query, ms |"
    rows = []

    def add(title: str, weights: str, answers: list[str], run: Record, size: float) -> None:
        times = (f"{run[key]:.4f}" if key in run else "–" for key in ("ms_per_row", "p50_ms"))
        rows.append([title, weights, *answers, markdown.at(run, "P"), f"{size:.1f}", *times])

    for name, found in record["libraries"].items():
        if "missing" in found:
            rows.append([NAMES[name], "missing | | | | | | |"])
            continue
        add(f"{NAMES[name]} {found['version']}", "its own", ["| |"], found["theirs"], found["their_mb"])
        for dtype in ("float32", "uint8"):
            run = found[dtype]
            equal = [f"{100 * run['rows_equal']:.2f}", f"{100 * run['rows_equal_or_tied']:.2f}"]
            add("imported", dtype, [*equal, f"{run['scores_apart_most']:.1g}"], run, run["model_mb"])
    return markdown.table(head, rows)


def ensembles_table(record: Record) -> list[str]:
    """What ``ensembles.py`` measured."""
    rows = []
    for run in (run for run in record["recipes"] if "error" not in run):
        weights = "–" if not run.get("weights") else "/".join(f"{weight:.2f}" for weight in run["weights"])
        ranking = f"{run['rank_cpu_ms']:.3f}" if "rank_cpu_ms" in run else "–"
        costs = [f"{run['train_cpu_s']:.2f}", ranking, f"{run['model_mb']:.1f}"]
        rows.append([run["recipe"], weights, markdown.at(run, "P"), *costs])
    return markdown.table("| | weights | P@1/3/5 | training, CPU-s | ranking, CPU-ms a row | model, MB |", rows)


def presets_table(record: Record) -> list[str]:
    """What ``presets.py`` measured."""
    rows = [
        [run["preset"], markdown.at(run, "P"), f"{run['train_cpu_s']:.1f}", f"{run['rank_cpu_ms']:.3f}",
         f"{run['one_text_cpu_ms']:.2f}", f"{run['model_mb']:.1f}"]
        for run in record["runs"]
    ]  # fmt: skip
    return markdown.table("| preset | P@1/3/5 | train, CPU-s | rank, CPU-ms a text | one text, CPU-ms | MB |", rows)


def rerankers_table(record: Record) -> list[str]:
    """What ``rerankers.py`` measured."""
    rows = []
    for run in record["recipes"]:
        cells = [markdown.at(run, "P"), f"{run['PSP@5']:.2f}"]
        slices = (run[f"R@5 {name}"] for name in ("head", "torso", "tail", "never"))
        cells.append("/".join("–" if value is None else f"{value:.1f}" for value in slices))
        cells.append(f"{run['train_cpu_s']:.1f}" if "train_cpu_s" in run else "–")
        cells.append(f"{run['rank_cpu_ms']:.2f}")
        cells.append(f"{run['model_mb']:.1f}" if "model_mb" in run else "–")
        rows.append([run["recipe"] + (" (dropped)" if run.get("dropped") else ""), *cells])
    head = "| | P@1/3/5 | PSP@5 | R@5 head/torso/tail/never | training, CPU-s | ranking, CPU-ms a row | model, MB |"
    lines = markdown.table(head, rows)
    for run in (run for run in record["recipes"] if "one_text_ms" in run):
        for name, times in run["one_text_ms"].items():
            lines += ["", f"One text, {run['recipe']}, {name}: {times['all']:.2f} ms, of which members "
                      f"{times['members']:.2f} and the rest {times['besides']:.2f} (medians)."]  # fmt: skip
    return lines


def tuned_table(record: Record) -> list[str]:
    """What ``tuned.py`` measured: a row a contender, means over seeds."""
    runs = [run for run in record["runs"] if "error" not in run]
    usual = {run["seed"]: run["P@5"] for run in runs if run["contender"] == "default"}
    rows = []
    for name in dict.fromkeys(run["contender"] for run in runs):
        own = [run for run in runs if run["contender"] == name]
        gains = [run["P@5"] - usual[run["seed"]] for run in own if run["seed"] in usual]
        precision = "/".join(f"{fmean(run[f'P@{k}'] for run in own):.2f}" for k in (1, 3, 5))
        gain = "–" if name == "default" else f"{fmean(gains):+.2f} ({min(gains):+.2f} to {max(gains):+.2f})"
        seconds, size = fmean(run["wall_s"] for run in own), fmean(run["bytes"] for run in own) / 1e6
        single = f"{fmean(run['p50_ms'] for run in own):.3f}" if all("p50_ms" in run for run in own) else "–"
        rows.append([name, precision, gain, f"{seconds:.0f}", f"{size:.1f}", single, str(len(own))])
    head = "| | P@1/3/5 | gain in P@5 | seconds | model, MB | single query, ms | seeds |"
    about = f"A budget of {record['budget']} seconds on {record['threads']} threads."
    return [about, "", *markdown.table(head, rows)]


def calibration_tables(record: Record) -> list[str]:
    """What ``calibration.py`` measured."""
    methods, rules = [], []
    for run in record["calibrations"]:
        measures = ("/".join(f"{value:.2f}" for value in run[key]) for key in ("ece", "P"))
        methods.append([run["method"] or "none", *measures, f"{run['cpu_s']:.2f}", f"{run['factor']:.2f}"])
    for name, found in record["rules"].items():
        rules.append([name, *(f"{found[key]:.2f}" for key in ("precision", "recall", "f1", "row_f1", "labels"))])
    heads = (
        "| calibration | ECE@1/3/5 | P@1/3/5 | training, CPU-s | factor |",
        "| isotonic, answered with | precision | recall | F1 | mean F1 of the rows | labels a row |",
    )
    return [*markdown.table(heads[0], methods), "", *markdown.table(heads[1], rules)]


BY_SET = {  # the sections with tables for each set: title, words, tables
    "defaults": ("Which defaults", "On one thread; all other parameters have their defaults.", defaults_table),
    "paper-settings": ("As the paper has it", PAPER_SETTINGS, paper_settings_table),
    "compression": ("Smaller models", COMPRESSION, compression_table),
    "vectorizers": ("Vectorisers", VECTORIZERS, vectorizers_table),
    "word-forms": ("Stems and lemmas", WORD_FORMS, word_forms_table),
    "word-parts": ("Parts of words", WORD_PARTS, word_parts_table),
    "constraints": ("Constraints", CONSTRAINTS, constraints_table),
    "baskets": ("Baskets", BASKETS, baskets_table),
    "importers": ("Imported models", IMPORTERS, importers_table),
    "memory": ("Memory limits and resuming", MEMORY, memory_table),
    "neighbors": ("Neighbours and rare labels", NEIGHBORS, neighbors_tables),
    "static-vectors": ("Static vectors", STATIC_VECTORS, static_vectors_table),
    "ensembles": ("Ensembles", ENSEMBLES, ensembles_table),
    "presets": ("Presets of texts", PRESETS, presets_table),
    "rerankers": ("Rerankers", RERANKERS, rerankers_table),
    "tuned": ("Tuning to a budget", TUNED, tuned_table),
    "calibration": ("Probabilities and stopping rules", CALIBRATION, calibration_tables),
    "updates": ("Updates", UPDATES, updates_tables),
    "name-rows": ("Names of labels as rows", NAME_ROWS, name_rows_table),
    "label-texts": ("Label texts", LABEL_TEXTS, label_texts_table),
    "new-labels": ("New labels without rows", NEW_LABELS, new_labels_table),
}


def plan_section(records: list[Record]) -> list[str]:
    """What ``plan.py`` measured: estimated beside measured."""
    lines = [
        "",
        "## Plans",
        "",
        "By `python -m benchmarks.linear.plan`, on one thread: what `model.plan` estimates, then what training took. "
        "Peak memory is that of the whole process, data and libraries included.",
        "",
    ]
    rows = []
    for record in records:
        for run in record["runs"]:
            plan, fit = run["plan"], run["fit"]
            cells = (
                f"{plan[key]:.{digits}f} → {fit[key]:.{digits}f} ({100 * (plan[key] / fit[key] - 1):+.0f}%)"
                for key, digits in (("seconds", 1), ("peak_mb", 0), ("model_mb", 1))
            )
            rows.append([record["set"], run["settings"], f"{plan['took_s']:.2f}", *cells])
    head = "| set | settings | the plan itself, CPU-s | training, CPU-s | peak memory, MB | model, MB |"
    return [*lines, *markdown.table(head, rows)]


def ablation_section(records: list[Record]) -> list[str]:
    """What ``ablation.py`` measured, beside the figures of the paper."""
    heads = [f"{r['set']}: depth | P@1/3/5 | training, CPU-s | ranking, CPU-s" for r in records]
    heads += [f"paper's {name}" for name in ABLATION_PAPER]
    found = [{_key(run): run for run in record["runs"]} for record in records]
    keys = dict.fromkeys(key for runs in found for key in runs)
    rows = []
    for key in sorted(keys, key=lambda key: (key[2], -key[0], key[1])):
        n_trees, branching, random = key
        cells = [cell for runs in found for cell in _cells(runs.get(key))]
        cells += [_published(name, key) for name in ABLATION_PAPER]
        rows.append([str(n_trees), str(branching), "random" if random else "PIFA", *cells])
    table = markdown.table(["T", "B", "clusters", *heads], rows)
    return ["", "## Branching, trees and clusters", "", ABLATION, "", *table]


def _published(name: str, key: tuple[int, int, bool]) -> str:
    """What the paper prints of a set."""
    n_trees, branching, random = key
    if random:
        return ABLATION_RANDOM.get(name, "–") if n_trees == 1 else "–"
    return ABLATION_PAPER[name].get((n_trees, branching), "–")


def _key(run: Record) -> tuple[int, int, bool]:
    return run["n_trees"], run["branching"], run.get("clustering") == "random"


def _cells(run: Record | None) -> list[str]:
    if run is None:
        return ["–"] * 4
    return [str(run["depth"]), markdown.at(run, "P"), f"{run['train_cpu_s']:.2f}", f"{run['rank_cpu_s']:.2f}"]
