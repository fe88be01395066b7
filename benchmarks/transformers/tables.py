"""The section of docs/results/ on encoders of texts: its tables, and the figure of P@5 against training time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import FIGURES
from benchmarks.common import markdown
from benchmarks.common.drawing import draw_figure, plain_log
from benchmarks.transformers import plan

__all__ = [
    "draw", "goals", "main_figure", "negatives", "of_group", "scales", "seconds", "section", "title",
    "transformers_section",
]  # fmt: skip

Record = dict[str, Any]
CHANCE = 0.1  # points of P@5 that say nothing, with a few thousand test texts
ORDER = ("eurlex57k", "gutenberg")
# Okabe and Ito's colours, told apart by people who see few.
LOOKS = {
    "xr-linear": ("#000000", "o", "XR-Linear"),
    "frozen": ("#56B4E9", "s", "XR-Linear, frozen encoder"),
    "xr-transformer": ("#D55E00", "D", "XR-Transformer"),
    "x-transformer": ("#009E73", "^", "X-Transformer"),
    "libpecos-frozen": ("#999999", "s", "libpecos, frozen encoder"),
    "libpecos-xr-transformer": ("#0072B2", "v", "libpecos's XR-Transformer"),
}
MOST_COLUMNS = 2
TEXT = (
    "By `python -m benchmarks.transformers`, from raw texts to a trained model, TF-IDF included (libpecos: from "
    "finished TF-IDF, whose time isn't included), on one thread of a processor without a GPU. Everything uses the "
    "encoder all-MiniLM-L6-v2 (six layers, 384 dimensions), the same texts, the same tokens of each, and the same "
    "number of training steps with equally many texts, divided evenly among the trained layers. libpecos computes in "
    "float32, pads every text to the limit and uses the encoder's own pooler. Sylvan fine-tunes in bfloat16 and "
    "ranks in float32. XR-Transformer has three trees of linear rankers, as in its preset; X-Transformer and "
    "libpecos have one. Training time is CPU time in seconds, and isn't given if embeddings came from another row. "
    "Ranking time is wall time, on a machine with other work. Rows that say so were fine-tuned on one NVIDIA H200, "
    "several at once and so without times; their encoder was read from half precision."
)


def transformers_section(folder: Path) -> list[str]:
    """What ``python -m benchmarks.transformers`` found, where it ran."""
    book = markdown.book(folder / "transformers.json")
    if book is None:
        return []
    machine = book["machine"]
    lines = ["", "## Encoders of texts", "", f"{TEXT} {machine['cpu']}, {machine['system']}; {book['date']}."]
    if (FIGURES / "transformers.svg").exists():
        lines += ["", "![P@5 against training time](figures/transformers.svg)"]
    return lines + section(book["runs"]) + scales(folder) + negatives(folder)


def negatives(folder: Path) -> list[str]:
    """What ``negatives.py`` found: means over the seeds that both ways were measured with."""
    book = markdown.book(folder / "negatives_from.json")
    if book is None:
        return []
    keys = ("encoder", "set", "rows", "tests", "steps", "beam")
    groups: dict[tuple[Any, ...], dict[str, dict[int, Record]]] = {}
    for run in book["runs"]:
        group = groups.setdefault(tuple(run[key] for key in keys), {})
        group.setdefault(run["negatives_from"], {})[run["seed"]] = run
    rows = []
    for (encoder, name, n_rows, n_tests, steps, beam), found in sorted(groups.items()):
        both = sorted(set(found.get("rankers", {})) & set(found.get("network", {})))
        for way in ("rankers", "network") if both else ():
            runs = [found[way][seed] for seed in both]
            means = ["/".join(f"{_mean(run[f'P@{k}'] for run in runs):.2f}" for k in (1, 3, 5))]
            means += [f"{_mean(run['build']['cpu_s'] for run in runs):.0f}"]
            coverage = "/".join(
                f"{_mean(run['layers'][t]['coverage'] for run in runs):.3f}" for t in range(1, len(runs[0]["layers"]))
            )
            what = f"{name}, {n_rows:,} texts, {n_tests:,} test texts"
            rows.append([encoder, what, str(beam), f"{steps:,}", way, *means, coverage, str(len(both))])
    head = "| encoder | set | beam | steps | negatives_from | P@1/3/5 | training, CPU-s | coverage | seeds |"
    return [
        "", "### negatives_from", "",
        "Who finds XR-Transformer's matcher-aware negatives: linear rankers solved anew before each layer, or the "
        "fine-tuned network. By `python -m benchmarks.transformers.negatives`, preset base with `ranker__max_leaf=16`, "
        "the same texts, steps and seeds for both, on one thread. Coverage is the share of positives that the search "
        f"finds by itself, above each layer but the first. {book['machine']['cpu']}; {book['date']}.", "",
        *markdown.table(head, rows),
    ]  # fmt: skip


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def scales(folder: Path) -> list[str]:
    """What ``dense_scale.py`` found, for each encoder."""
    lines = []
    for path in sorted(folder.glob("dense_scale-*.json")):
        book = markdown.book(path) or {}
        encoder = "the bag of words" if book["encoder"] is None else f"`{book['encoder']}`"
        how = "frozen" if book["frozen"] else "trained"
        lines += [
            "", f"### dense_scale, {encoder} {how}, preset {book['preset']}", "",
            "The length of an encoder's vectors relative to TF-IDF's (0: none). By `python -m "
            f"benchmarks.transformers.dense_scale`, with a holdout of {book['holdout']:,} of the bundled sample's "
            f"training rows, trained on {book['rows']:,} rows; mean of {len(book['runs'])} seeds.", "",
        ]  # fmt: skip
        rows = []
        for scale in book["runs"][0]:
            means = [sum(run[scale][f"P@{k}"] for run in book["runs"]) / len(book["runs"]) for k in (1, 3, 5)]
            rows.append([scale, "/".join(f"{mean:.2f}" for mean in means)])
        lines += markdown.table("| dense_scale | P@1/3/5 |", rows)
    return lines


def section(runs: list[Record]) -> list[str]:
    """A table for each set and part of it, and below it what the goals say."""
    groups = sorted({_group(run) for run in runs}, key=lambda group: (ORDER.index(group[0]), group[1] != 0, group[1:]))
    lines = []
    for group in groups:
        name, rows, tests = group
        size = f"{rows:,} training texts and {tests:,} test texts" if rows else "all texts"
        lines += ["", f"### {name}, {size}", "", *_table(of_group(runs, group))]
        said = goals(runs, group)
        lines += ["", *said] if said else []
    return lines


def of_group(runs: list[Record], group: tuple[str, int, int]) -> list[Record]:
    """The rows of a set and part, each with its training time."""
    names = list(plan.TITLES)
    found = [run for run in runs if _group(run) == group]
    timed = [{**run, "train_s": seconds(run, found)} for run in found]
    return sorted(timed, key=lambda run: (
        names.index(run["contender"]), len(run.get("settings", {})), str(run.get("settings", "")),
        run.get("steps", 0), "seeds" in run, run.get("seed", 0),
    ))  # fmt: skip


def _group(run: Record) -> tuple[str, int, int]:
    return run["set"], run.get("rows") or 0, run.get("tests") or 0


def seconds(run: Record, beside: list[Record]) -> float | None:
    """Seconds that the thread computed in training; an ensemble's are those of its members."""
    if "seeds" in run:
        members = [record for member in plan.members(run) for record in beside if plan.same(member, record)]
        spent = [seconds(member, beside) for member in members]
        return sum(filter(None, spent)) if len(spent) == len(run["seeds"]) and None not in spent else None
    if "device" in run or (run["contender"] == "frozen" and "settings" in run):
        return None  # beside others on a GPU, or with vectors of another row
    return float(run["build"]["cpu_s"])


def title(run: Record) -> str:
    """The first cell of a row."""
    words = [plan.TITLES[run["contender"]]]
    if "steps" in run:
        words.append(f"{run['steps']:,} steps of {run['batch']}")
    if "device" in run:
        words.append(f"{run['tokens']} tokens, on a GPU")
    words += [f"{name}={value}" for name, value in run.get("settings", {}).items()]
    if "seeds" in run:
        words.append(f"{len(run['seeds'])} models")
    elif run.get("seed", 0):
        words.append(f"seed {run['seed']}")
    return ", ".join(words)


def _table(runs: list[Record]) -> list[str]:
    head = "| | P@1/3/5 | R@1/3/5/10 | PSP@1/3/5 | training, s | batch, ms a text | one text p50, ms | model, MB |"
    rows = []
    for run in runs:
        cells = [markdown.at(run, "P"), markdown.at(run, "R", (1, 3, 5, 10)), markdown.at(run, "PSP")]
        spent = "–" if run["train_s"] is None else f"{run['train_s']:,.0f}"
        times = [f"{run[name]:.2f}" if name in run else "–" for name in ("ms_per_row", "p50_ms")]
        cells += [spent, *times, f"{run['model_mb']:.0f}"]
        rows.append([title(run), *cells])
    return markdown.table(head, rows)


def goals(runs: list[Record], group: tuple[str, int, int]) -> list[str]:
    """What was wanted, beside what was found, for what has been measured of a part."""
    found = [run for run in of_group(runs, group) if "seeds" not in run and run.get("seed", 0) == 0]
    linear, frozen = (_plain(found, name) for name in ("xr-linear", "frozen"))
    ours, theirs = (_plain(found, name) for name in ("xr-transformer", "libpecos-xr-transformer"))
    lines = []
    if frozen:
        alike = [run for run in found if run["contender"] == "xr-linear"
                 and run.get("settings", {}) == _ranker(frozen)]  # fmt: skip
        for run, words in ((linear, "at its defaults"), (alike[0] if alike else None, "with the same rankers")):
            if run is not None:
                gain = frozen["P@5"] - run["P@5"]
                lines.append(
                    f"- A frozen encoder with TF-IDF: {gain:+.2f} points of P@5 against TF-IDF alone {words} "
                    f"(wanted +1.00{_missed(gain < 1)})."
                )
    if ours and frozen:
        gain = ours["P@5"] - frozen["P@5"]
        lines.append(f"- Fine-tuned against frozen: {gain:+.2f} points of P@5 (wanted more{_missed(gain <= 0)}).")
        lines += _more_seeds(of_group(runs, group))
    if ours and theirs and ours["train_s"] and theirs["train_s"]:
        gain, times = ours["P@5"] - theirs["P@5"], ours["train_s"] / theirs["train_s"]
        lines.append(
            f"- Against libpecos's XR-Transformer: {gain:+.2f} points of P@5 (wanted more{_missed(gain <= 0)}) in "
            f"{times:.2f} of its training time (wanted at most 1{_missed(times > 1)})."
        )
    return lines + _faster(ours, [run for run in found if run["contender"] == "x-transformer"])


def _more_seeds(found: list[Record]) -> list[str]:
    """Fine-tuned against frozen, beyond one seed: in the mean of single models, and of ensembles."""
    tuned, frozen = (
        [run for run in found if run["contender"] == name and "settings" not in run]
        for name in ("xr-transformer", "frozen")
    )
    tuned = [run for run in tuned if all(run[name] == tuned[0][name] for name in ("tokens", "steps"))]
    lines = []
    alone = [[run["P@5"] for run in runs if "seeds" not in run] for runs in (tuned, frozen)]
    if min(map(len, alone)) > 1:
        means = [sum(figures) / len(figures) for figures in alone]
        lines.append(
            f"- The same in the mean of {len(alone[0])} and {len(alone[1])} seeds: {means[0] - means[1]:+.2f} points."
        )
    together, theirs = (next((run for run in runs if "seeds" in run), None) for runs in (tuned, frozen))
    if together is not None:
        n, one = len(together["seeds"]), next(run for run in frozen if "seeds" not in run)
        words = f"- {n} fine-tuned models together: {together['P@5'] - one['P@5']:+.2f} points against one frozen"
        beside = "" if theirs is None else f", {together['P@5'] - theirs['P@5']:+.2f} against {len(theirs['seeds'])}"
        lines.append(f"{words}{beside}.")
    return lines


def _faster(ours: Record | None, others: list[Record]) -> list[str]:
    """XR-Transformer against every X-Transformer, and the least time in which one of them is as good."""
    timed = [run for run in others if run["train_s"]]
    if not ours or not ours["train_s"] or not timed:
        return []
    lines, least = [], None
    for run in sorted(timed, key=lambda run: float(run["train_s"])):
        times = run["train_s"] / ours["train_s"]
        first, five = (run[name] - ours[name] for name in ("P@1", "P@5"))
        lines.append(
            f"- X-Transformer, {run['steps']:,} steps, against XR-Transformer: {five:+.2f} points of P@5 and "
            f"{first:+.2f} of P@1 in {times:.2f} of its time."
        )
        if least is None and five > -CHANCE:
            least = times
    wanted = f"(as good: at most {CHANCE} points of P@5 lower; wanted 5 times its time"
    if least is None:
        longest = max(timed, key=lambda run: float(run["train_s"]))["train_s"] / ours["train_s"]
        shown = "" if longest >= 5 else ": not shown without a longer training"
        return [*lines, f"- X-Transformer isn't as good in {longest:.1f} times the time {wanted}{shown})."]
    return [*lines, f"- X-Transformer is as good in {least:.2f} of the time {wanted}{_missed(least < 5)})."]


def _plain(found: list[Record], contender: str) -> Record | None:
    """The contender's first row: at its defaults."""
    return next((run for run in found if run["contender"] == contender and "settings" not in run), None)


def _ranker(run: Record) -> Record:
    """The parameters of an ``XRLinear`` that ranks as this row does."""
    return dict(run.get("ranker", {}))


def _missed(yes: bool) -> str:
    return ": missed" if yes else ""


def main_figure(run: Record) -> str:
    """The main figures of a finished row."""
    spent = f", {run['build']['cpu_s']:.0f} s" if "build" in run else ""
    alone = f", {run['p50_ms']:.1f} ms a text" if "p50_ms" in run else ""
    return f"P@1/3/5 {run['P@1']:.2f}/{run['P@3']:.2f}/{run['P@5']:.2f}{spent}{alone}"


def draw(runs: list[Record], path: Path) -> list[Path]:
    """Draws what there is, as SVG; nothing where matplotlib is missing."""
    known = {(run["set"], run.get("rows") or 0, run.get("tests") or 0) for run in runs}
    groups = sorted(known, key=lambda group: (ORDER.index(group[0]), *group[1:]))
    shown = {group: [run for run in of_group(runs, group) if run["train_s"]] for group in groups}
    shown = {group: found for group, found in shown.items() if len({run["contender"] for run in found}) > 1}
    return draw_figure(path, lambda figure: _fill(figure, shown)) if shown else []


def _fill(figure: Any, shown: dict[tuple[str, int, int], list[Record]]) -> None:
    columns = min(len(shown), MOST_COLUMNS)
    rows = -(-len(shown) // columns)
    figure.set_size_inches(5.5 * columns, 3.9 * rows + 0.3)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(shown) :]:
        axes.remove()
    for axes, (group, runs) in zip(panels, shown.items(), strict=False):
        for contender, (colour, marker, words) in LOOKS.items():
            for together in (False, True):  # an ensemble is hollow
                found = [run for run in runs if run["contender"] == contender and ("seeds" in run) == together]
                if found:
                    axes.plot(
                        [run["train_s"] for run in found], [run["P@5"] for run in found], marker, color=colour,
                        markerfacecolor="none" if together else colour,
                        label=f"{words}, ensemble" if together else words,
                    )  # fmt: skip
        size = f"{group[1]:,} texts" if group[1] else "all texts"
        axes.set(xscale="log", xlabel="training, seconds", title=f"{group[0]}, {size}")
        plain_log(axes.xaxis)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel("P@5, %")
    labels = {line.get_label(): line for axes in figure.axes for line in axes.lines}
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=3, fontsize=7, frameon=False)
