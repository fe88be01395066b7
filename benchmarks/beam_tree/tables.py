"""The section of docs/results/ on Beam Tree: accuracy, coverage and times beside rivals, and costs by classes."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.beam_tree.contenders import CONTENDERS, PEERS, RATES
from benchmarks.beam_tree.defaults_table import defaults_section
from benchmarks.beam_tree.plan import ENTRANTS, PARTS, RULES, chosen
from benchmarks.beam_tree.updates_table import updates_section
from benchmarks.common import markdown

__all__ = ["TREES", "Runs", "beam_tree_section", "by_rule", "main_figure", "section"]

Record = dict[str, Any]
Runs = dict[str, list[Record]]
TREES = ("VW-filter-tree", "VW-LOMTree", "VW-recall-tree")
RIVALS = ("NCE-10", "BlackOut-10", "HSM")
BRANCHING = 10
WITHIN = 0.5  # points below the softmax that are wanted at most
TIMES = {1_000: 5, 10_000: 30}  # faster than the softmax's epoch, by classes
RANKING = 20  # faster than ranking by all scores, at 10,000 classes
PAPER = (
    "The paper's table 3, for scale: on ALOI (1,000 classes) candidates held the class of 44.84, 86.47 and 93.59% of "
    "the test rows with 1, 5 and 9 of them; and its table 2 there: Filter Tree 20.07, HSM 65.69, LOMTree 82.70, Recall "
    "Tree 83.03% right."
)
INTRO = (
    "By `python -m benchmarks.beam_tree --part accuracy` and `speed`: `BeamTreeClassifier` with each loss (Han and "
    "others, arXiv 1711.00658, 7.1; CANE is the paper's, named by its numbers of candidates and noises), and Vowpal "
    "Wabbit's trees. Rows have unit length on average. Test rows of classes without training rows are skipped. "
    "Learning rates (and the power of the frequencies from which noises are drawn, if classes aren't balanced; for "
    "LOMTree its size and swap resistance) are chosen on a tenth of the training rows after half an epoch, as in the "
    "paper's appendix D, with seed 0. One thread."
)
LEGEND = (
    "Right: percent of the test rows, with the default beam; of all: with all scores; in five: the class is among "
    "the first five; loss: mean of minus ln p of the class, over all classes; coverage: percent of the test rows "
    "whose class is among as many candidates as in training. Training: CPU seconds per epoch, without the tree. "
    "Ranking: CPU milliseconds per row in a batch / alone, median. Mean ± standard deviation over seeds. "
    "The defaults of `BeamTreeClassifier`, which aren't the paper's CANE, stand in the tables on short texts below. "
    "For VW, rows come from its cache of parsed examples, in the same order in each epoch; the time includes reading "
    "them."
)


def beam_tree_section(folder: Path) -> list[str]:
    """Everything that ``python -m benchmarks.beam_tree`` left in ``folder``."""
    books = {part: markdown.book(folder / f"beam_tree_{part}.json") or {} for part in PARTS}
    runs = {part: book.get("runs", []) for part, book in books.items()}
    lines: list[str] = []
    for part in ("accuracy", "speed"):
        if runs[part]:
            lines += [*section(part, runs), "", markdown.taken(books[part])]
    lines += [*defaults_section(folder), *updates_section(folder)]
    return ["", "## Candidates against noises over a tree", "", INTRO, *lines] if lines else []


def section(part: str, runs: Runs) -> list[str]:
    """One part's section, in Markdown."""
    return {"tuning": _tuning, "accuracy": _accuracy, "speed": _speed}[part](runs)


def by_rule(runs: Runs, name: str, contender: str, optimizer: str, rule: str) -> list[Record]:
    """The finished trainings of a contender with what ``rule`` chose for it, a record a seed."""
    own = [run for run in runs["accuracy"] if (run["set"], run["contender"], run["optimizer"]) == (
        name, contender, optimizer)]  # fmt: skip
    rows = own[0].get("rows") if own else None
    choice = chosen(runs["tuning"], name, contender, optimizer, rule, rows=rows)
    return [] if choice is None else [run for run in own if all(run.get(key) == choice[key] for key in choice)]


def _mean(group: list[Record], value: Callable[[Record], float | None], digits: int = 2) -> str:
    """Mean of what there is, with the standard deviation where there are several."""
    return markdown.mean([found for run in group if (found := value(run)) is not None], digits, ",")


def _right(group: list[Record]) -> float | None:
    return statistics.mean(run["accuracy"] for run in group) if group else None


def _chosen_words(record: Record) -> str:
    words = [f"{record['rate']:g}"]
    words += [f"{name.replace('_', ' ')} {record[name]:g}" for name in ("power", "nodes", "swap_resistance")
              if name in record]  # fmt: skip
    return ", ".join(words)


def _sets(runs: list[Record]) -> list[str]:
    return [name for name in ENTRANTS if any(run["set"] == name for run in runs)]


def _accuracy(runs: Runs) -> list[str]:
    lines = ["", LEGEND]
    for name in _sets(runs["accuracy"]):
        one = next(run for run in runs["accuracy"] if run["set"] == name)
        skipped = f" ({one['skipped']:,} skipped)" if one["skipped"] else ""
        lines += ["", f"### {name}: {one['n_classes']:,} classes", ""]
        lines += [f"{one['rows_trained']:,} training rows of {one['n_features']:,} features, {one['rows_tested']:,} "
                  f"test rows{skipped}, {one['epochs']} epochs.", ""]  # fmt: skip
        lines += [*_main_table(runs, name), *_goals(runs, name), *_other_rule(runs, name)]
    return [*lines, "", PAPER, "", "![Accuracy by epoch](figures/beam_tree_accuracy.svg)"]


def _groups(runs: Runs, name: str, rule: str) -> list[tuple[str, str, list[Record]]]:
    """Contenders with finished trainings, the optimisers side by side."""
    found = []
    for optimizer in RATES:
        for contender in (*CONTENDERS, *PEERS):
            group = by_rule(runs, name, contender, optimizer, rule)
            if group:
                found.append((contender, optimizer, group))
    return found


def _main_table(runs: Runs, name: str) -> list[str]:
    heads = ("", "optimizer", "rate", "right, %", "of all, %", "in five, %", "loss", "coverage, %",
             "training, s an epoch", "tree, s", "ranking, ms", "peak memory, MB")  # fmt: skip
    rows = []
    for contender, optimizer, group in _groups(runs, name, "half"):
        best = group[0]
        alone = _mean(group, lambda run: run["ranking"].get("p50_ms"), 4).split(" ")[0]
        batch = _mean(group, lambda run: run["ranking"]["cpu_ms_per_row"], 4).split(" ")[0]
        rows.append([
            contender, optimizer, _chosen_words(best),
            *(_mean(group, lambda run, key=key: run.get(key)) for key in ("accuracy", "exact", "among_five")),
            _mean(group, lambda run: run.get("log_loss"), 3),
            _mean(group, lambda run: run.get("curve", [{}])[-1].get("coverage")),
            _mean(group, lambda run: run["training"]["cpu_s"] / run["epochs"], 3).split(" ")[0],
            _mean(group, lambda run: run.get("tree_s") or None).split(" ")[0],
            f"{batch} / {alone}",
            _mean(group, lambda run: run["training"]["peak_mb"], 0).split(" ")[0],
        ])  # fmt: skip
    return markdown.table(heads, rows)


def _goals(runs: Runs, name: str) -> list[str]:
    """What was wanted of CANE-9v1, beside what was found."""
    lines = []
    alike = next(run["n_classes"] for run in runs["accuracy"] if run["set"] == name) <= BRANCHING
    peers = {peer: _right(by_rule(runs, name, peer, "vw", "half")) for peer in TREES}
    for optimizer in ("adagrad", "sgd"):
        own = _right(by_rule(runs, name, "CANE-9v1", optimizer, "half"))
        others = {rival: _right(by_rule(runs, name, rival, optimizer, "half")) for rival in ("softmax", *RIVALS)}
        for rival, value in (*others.items(), *peers.items()):
            if own is not None and value is not None:
                gap, least = own - value, -WITHIN if rival == "softmax" else 0.0
                wanted = f"at least -{WITHIN:g}" if rival == "softmax" else "above 0"
                good = gap >= least if rival == "softmax" else gap > least
                verdict = "reached" if good else "missed"
                if alike and rival == "HSM":  # a tree of one node
                    wanted, verdict = "–", "the same model"
                lines.append([f"beside {rival}", optimizer, wanted, f"{gap:+.2f}", verdict])
    return ["", *markdown.table(("CANE-9v1, points", "optimizer", "wanted", "found", ""), lines)] if lines else []


def _other_rule(runs: Runs, name: str) -> list[str]:
    """The accuracy with rates that were chosen by longer trainings, which favour other rates."""
    rows = []
    for contender, optimizer, group in _groups(runs, name, "long"):
        words = [contender, optimizer, _chosen_words(group[0])]
        figures = [_mean(group, lambda run: run["accuracy"]), _mean(group, lambda run: run.get("log_loss"), 3)]
        rows.append([*words, *figures, _edge(runs, name, contender, optimizer)])
    if not rows:
        return []
    tuned = next(run["epochs"] for run in runs["tuning"] if run["set"] == name)
    words = f"The same with what was best {RULES['long'].replace('some', str(tuned))}:"
    return ["", words, "", *markdown.table(("", "optimizer", "rate", "right, %", "loss", ""), rows)]


def _edge(runs: Runs, name: str, contender: str, optimizer: str) -> str:
    """Whether a better rate may lie beyond those tried."""
    found = by_rule(runs, name, contender, optimizer, "long")[0]["rate"]
    return "at the end of the rates" if found in (RATES[optimizer][0], RATES[optimizer][-1]) else ""


def _tuning(runs: Runs) -> list[str]:
    """What was tried: accuracy on held-out rows at the marks."""
    lines = []
    for run in runs["tuning"]:
        tried = "; ".join(
            f"{point['rate']:g}: " + (" → ".join(f"{value:.2f}" for _, value in point["marks"]) or "–")
            + (" refused" if "error" in point else "")
            for point in run["points"]
        )  # fmt: skip
        extra = ", ".join(f"{key} {run[key]:g}" for key in ("power", "nodes", "swap_resistance") if key in run)
        lines.append([run["set"], run["contender"], run["optimizer"], extra, tried])
    return ["", *markdown.table(("set", "", "optimizer", "with", "rate: % right after half an epoch → …"), lines)]


def _speed(runs: Runs) -> list[str]:
    lines = ["", "### Costs by the number of classes", "",
             "Made dense rows of 128 features, one thread: microseconds of a training step, and of ranking a row in a "
             "batch / alone (median). `softmax-batches` is PyTorch with 256 rows a step."]  # fmt: skip
    every = sorted({run["n_classes"] for run in runs["speed"]})
    for optimizer in ("adagrad", "sgd"):
        own = {(run["contender"], run["n_classes"]): run for run in runs["speed"] if run["optimizer"] == optimizer}
        contenders = [name for name in CONTENDERS if any(name == contender for contender, _ in own)]
        if not contenders:
            continue
        heads = (f"training step, {optimizer}, µs", *(f"{count:,}" for count in every))
        rows = [[name, *(_cell(own.get((name, count)), "step_us") for count in every)] for name in contenders]
        lines += ["", *markdown.table(heads, rows), *_speed_goals(own, optimizer)]
    own = {(run["contender"], run["n_classes"]): run for run in runs["speed"] if run["optimizer"] == "adagrad"}
    ranked = [name for name in ("CANE-9v1", "HSM", "softmax", "softmax-batches") if any(name == one for one, _ in own)]
    rows = [[name, *(_cell(own.get((name, count)), "ranking") for count in every)] for name in ranked]
    lines += ["", *markdown.table(("ranking, µs", *(f"{count:,}" for count in every)), rows), *_ranking_goals(own)]
    planted = [own.get(("CANE-9v1", count), {}).get("tree_s") for count in every]
    if any(planted):
        shown = ", ".join(f"{seconds:.2f} ({n:,})" for n, seconds in zip(every, planted, strict=True) if seconds)
        lines += ["", f"CPU seconds of planting the tree (classes): {shown}."]
    return [*lines, "", "![Cost by classes](figures/beam_tree_speed.svg)"]


def _cell(run: Record | None, key: str) -> str:
    if run is None:
        return "–"
    if key == "ranking":
        return f"{1e3 * run[key]['cpu_ms_per_row']:,.1f} / {1e3 * run[key]['p50_ms']:,.1f}"
    return f"{run[key]:,.1f}"


def _speed_goals(own: dict[tuple[str, int], Record], optimizer: str) -> list[str]:
    rows = []
    for count, least in TIMES.items():
        ours = own.get(("CANE-9v1", count))
        for rival in ("softmax", "softmax-batches"):
            if ours and (rival, count) in own:
                ratio = own[rival, count]["step_us"] / ours["step_us"]
                wanted = f"at least {least}" if rival == "softmax" else "–"
                verdict = "" if rival != "softmax" else "reached" if ratio >= least else "missed"
                rows.append([f"{count:,} classes, {rival}", wanted, f"{ratio:.1f}", verdict])
    heads = (f"times faster an epoch of CANE-9v1 is, {optimizer}", "wanted", "found", "")
    return ["", *markdown.table(heads, rows)] if rows else []


def _ranking_goals(own: dict[tuple[str, int], Record]) -> list[str]:
    ours, rows = own.get(("CANE-9v1", 10_000)), []
    for rival in ("softmax", "softmax-batches"):
        if ours and (other := own.get((rival, 10_000))):
            for key, words in (("cpu_ms_per_row", "in a batch"), ("p50_ms", "alone")):
                ratio = other["ranking"][key] / ours["ranking"][key]
                wanted = f"at least {RANKING}" if rival == "softmax" else "–"
                verdict = "" if rival != "softmax" else "reached" if ratio >= RANKING else "missed"
                rows.append([f"{rival}, {words}", wanted, f"{ratio:.1f}", verdict])
    heads = ("times faster CANE-9v1 ranks among 10,000 classes", "wanted", "found", "")
    return ["", *markdown.table(heads, rows)] if rows else []


def main_figure(record: Record) -> str:
    """What the progress lines tell of a row."""
    if "points" in record:
        marks = [(point["marks"][0][1], point["rate"]) for point in record["points"] if point["marks"]]
        best = max(marks, default=(0.0, 0.0))
        return f"after half an epoch {best[0]:.2f}% with rate {best[1]:g}"
    if "step_us" in record:
        return f"{record['step_us']:.1f} µs a step"
    return f"{record['accuracy']:.2f}% right, {record['training']['cpu_s']:.1f} CPU-s of training"
