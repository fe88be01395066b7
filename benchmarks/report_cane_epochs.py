"""The part of docs/results.md on CANE's figure 3: perplexity against epochs, as a table and a picture."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from figures import draw_figure
from sampling_contenders import CONTENDERS

__all__ = ["cane_epochs_section", "draw", "table"]

Record = dict[str, Any]
FIGURE = "cane_epochs"
TITLE = "Language models: perplexity against epochs (the paper's figure 3)"
# Okabe and Ito's colours; CANE's are alike and differ in their dashes.
LOOKS = {
    "full": ("#000000", "-"), "nce-40": ("#0072B2", "-"), "blackout-40": ("#56B4E9", "-"),
    "cane-tree-40": ("#D55E00", "-"), "cane-tree-40-unigram": ("#D55E00", ":"), "cane-tree-20-20": ("#D55E00", "--"),
    "cane-40": ("#CC79A7", "-"),
    "cane-20-20": ("#CC79A7", "--"),
}  # fmt: skip


def cane_epochs_section(folder: Path) -> list[str]:
    """What ``cane.py --part language-model`` found; nothing where nothing was measured."""
    path = folder / f"{FIGURE}.json"
    if not path.exists():
        return []
    book = json.loads(path.read_text())
    machine = book["machine"]
    picture = ["", f"![{TITLE}](figures/{FIGURE}.png)"]
    found = [_sentence(book["runs"]), *table(book["runs"]), *_reading(book["runs"]), *picture]
    return ["", f"### {TITLE}", "", *found, "", f"{machine['cpu']}, {machine['cores']} cores; {book['date']}."]


def _sentence(runs: list[Record]) -> str:
    one = runs[0]
    return (
        "By `benchmarks/cane.py --part language-model`: the task `language-model` (`sylvan.tasks`) on Penn Treebank, "
        f"a small LSTM ({one['embedding']} dimensions of words, {one['n_layers']} layer of {one['hidden']}) that reads "
        f"{one['batch_size']} columns of the text, 35 words a step; each contender with the rate for its class table "
        f"that served it best on the validation words after {one['tuned']} steps, among doubles of each other. A "
        "Beam Tree's 40 candidates are the best that a beam "
        "search finds in a tree of branching 10 over the words, made by k-means from the two words before each; its "
        "noise is uniform, as the paper's. The paper's own candidates for language models are words of one of 100 "
        "subsets by frequency. Coverage is the share of words that were among their candidates, over the last 200 "
        "steps."
    )


def _reading(runs: list[Record]) -> list[str]:
    """Whether the paper's order, CANE before NCE and BlackOut, is found by the test words; nothing where one lacks."""
    test = {name: statistics.mean(run["test"] for run in group) for name, group in _groups(runs).items()}
    if not {"full", "nce-40", "blackout-40"} <= test.keys():
        return []
    rivals = min(test["nce-40"], test["blackout-40"])
    lines = ["", "The paper has CANE between the softmax and both of its rivals."]
    for name, told in (("cane-tree-40", "one uniform noise"), ("cane-tree-40-unigram", "one unigram noise"),
                       ("cane-tree-20-20", "twenty unigram noises in one sum, our extension")):  # fmt: skip
        if name in test:
            does = "it is" if test[name] < rivals else "it isn't"
            lines.append(
                f"With a Beam Tree's candidates and {told}, {does}: {test[name] / rivals - 1:+.1%} beside the better "
                f"rival's perplexity, {test[name] / test['full'] - 1:+.1%} beside the softmax's."
            )
    return [lines[0], " ".join(lines[1:])] if len(lines) > 2 else []


def table(runs: list[Record]) -> list[str]:
    """Validation perplexity after each epoch, and the test's; the best first."""
    groups = _groups(runs)
    most = max(len(run["curve"]) for group in groups.values() for run in group)
    heads = ["contender", "rate", "seeds", *(f"epoch {number}" for number in range(1, most + 1)), "test", "coverage"]
    lines = ["", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, group in sorted(groups.items(), key=lambda item: statistics.mean(run["test"] for run in item[1])):
        cells = [CONTENDERS[name].title, f"{group[0]['table_learning_rate']:g}", str(len(group))]
        cells += [_mean([run["curve"][at]["perplexity"] for run in group if at < len(run["curve"])])
                  for at in range(most)]  # fmt: skip
        covered = [run["coverage"] for run in group if run["coverage"] is not None]
        cells += [_mean([run["test"] for run in group]), f"{statistics.mean(covered):.2f}" if covered else "–"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _groups(runs: list[Record]) -> dict[str, list[Record]]:
    """Of each contender the longest training with each seed."""
    found: dict[str, dict[int, Record]] = {}
    for run in sorted(runs, key=lambda run: int(run["epochs"])):
        found.setdefault(run["contender"], {})[run["seed"]] = run
    return {name: list(by_seed.values()) for name, by_seed in found.items()}


def _mean(values: list[float]) -> str:
    if not values:
        return "–"
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def draw(runs: list[Record], folder: Path) -> list[Path]:
    """Validation perplexity by epoch, a curve a contender."""
    groups = _groups(runs)

    def fill(figure: Any) -> None:
        figure.set_size_inches(7.0, 4.2)
        axes = figure.subplots()
        for name, (colour, style) in LOOKS.items():
            if name in groups:
                group = groups[name]
                most = min(len(run["curve"]) for run in group)
                values = [statistics.mean(run["curve"][at]["perplexity"] for run in group) for at in range(most)]
                axes.plot(range(1, most + 1), values, style, marker="o", markersize=3, color=colour, linewidth=1.3,
                          label=CONTENDERS[name].title)  # fmt: skip
        axes.set(xlabel="epoch", ylabel="validation perplexity", yscale="log")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.tick_params(axis="y", which="minor", labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=7, frameon=False)

    return draw_figure(folder / FIGURE, fill)
