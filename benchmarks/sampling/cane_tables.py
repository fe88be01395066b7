"""The section of docs/results/ on CANE's language models: perplexity at equal steps, and by epoch (figure 3)."""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.drawing import draw_figure
from benchmarks.sampling.contenders import CONTENDERS

__all__ = ["cane_section", "draw", "epochs_section", "epochs_table", "steps_tables"]

Record = dict[str, Any]
Found = dict[tuple[str, float], dict[int, tuple[float, float | None]]]
FIGURE = "cane_epochs"
TITLE = "Language models: perplexity against epochs (the paper's figure 3)"
# Okabe and Ito's colours; CANE's are alike and differ in their dashes.
LOOKS = {
    "full": ("#000000", "-"), "nce-40": ("#0072B2", "-"), "blackout-40": ("#56B4E9", "-"),
    "cane-tree-40": ("#D55E00", "-"), "cane-tree-40-unigram": ("#D55E00", ":"), "cane-tree-20-20": ("#D55E00", "--"),
    "cane-40": ("#CC79A7", "-"),
    "cane-20-20": ("#CC79A7", "--"),
}  # fmt: skip


def cane_section(folder: Path) -> list[str]:
    """What ``cane.py`` and ``cane_epochs.py`` measured."""
    book, epochs = markdown.book(folder / "cane_language_model.json"), epochs_section(folder)
    if book is None:
        return epochs
    intro = (
        "By `python -m benchmarks.sampling.cane`: validation perplexity of an LSTM on Penn Treebank with candidates "
        "and noises (Han and others, arXiv 1711.00658, section 5), compared with other losses with 40 unigram "
        "noises. Adagrad on both tables with the given rate; mean ± standard deviation over seeds. A name says how "
        "subsets learn (`path`: their scores are part of the class's; `own`), how words are divided (`mass`, "
        "`count`) and into how many subsets, whether missing candidates of the best subset are filled up from the "
        "next ones (`fill`), the noise, the numbers of candidates and noises, and `together` if all noises of a "
        "query are in one sum, which is our extension. `frequent` takes the most frequent words as candidates; "
        "`best` and `softmax` use all scores. Coverage is how often the word itself was a candidate."
    )
    reading = (
        "So the paper's claim, close to the softmax and better than NCE and BlackOut, isn't confirmed here, as we "
        "read the paper (words of the best subset drawn uniformly, one noise): the word is rarely a candidate. With "
        "filled-up subsets and several noises in one sum, it is level with NCE and BlackOut."
    )
    return ["", "## Candidates against noises", "", intro, *steps_tables(book["runs"]), "", reading, *epochs]


def steps_tables(runs: list[dict[str, Any]]) -> list[str]:
    """A table for each number of steps, the best first."""
    # A longer run passes through a shorter one's mark with the same figures: each seed once.
    by_mark: dict[int, Found] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        for mark, value in run["perplexity"].items():
            by_mark[int(mark)][run["setting"], run["rate"]][run["seed"]] = value, run["coverage"]
    lines = []
    for mark, found in sorted(by_mark.items()):
        rows = []
        groups = [(name, rate, list(seeds.values())) for (name, rate), seeds in found.items()]
        for name, rate, seeds in sorted(groups, key=lambda group: statistics.mean(value for value, _ in group[2])):
            values, covered = [value for value, _ in seeds], [share for _, share in seeds if share is not None]
            share = f"{statistics.mean(covered):.2f}" if covered else ""
            rows.append([name, f"{rate:g}", str(len(values)), markdown.mean(values, 1), share])
        lines += ["", f"After {mark:,} steps:", ""]
        lines += markdown.table("| setting | rate | seeds | perplexity | coverage |", rows)
    return lines


def epochs_section(folder: Path) -> list[str]:
    """What ``cane_epochs.py`` measured; nothing where nothing was measured."""
    book = markdown.book(folder / f"{FIGURE}.json")
    if book is None:
        return []
    picture = ["", f"![{TITLE}](figures/{FIGURE}.svg)"]
    found = [_sentence(book["runs"]), *epochs_table(book["runs"]), *_reading(book["runs"]), *picture]
    return ["", f"### {TITLE}", "", *found, "", markdown.taken(book)]


def _sentence(runs: list[Record]) -> str:
    one = runs[0]
    return (
        "By `python -m benchmarks.sampling.cane_epochs`: the task `language-model` (`sylvan.tasks`) on Penn "
        f"Treebank, a small LSTM ({one['embedding']} dimensions of words, {one['n_layers']} layer of {one['hidden']}) "
        f"that reads {one['batch_size']} columns of the text, 35 words per step. Each row uses the learning rate for "
        f"its class table that was best on the validation words after {one['tuned']} steps, among powers of two. The "
        "40 candidates of a Beam Tree are the best that a beam search finds in a tree of branching 10 over the "
        "words, built by k-means from the two words before each; its noise is uniform, as in the paper. The paper's "
        "own candidates for language models are words of the best of some subsets by frequency. Coverage is the share "
        "of words that were among their candidates, over the last 200 steps."
    )


def _reading(runs: list[Record]) -> list[str]:
    """Whether the paper's order, CANE before NCE and BlackOut, is found by the test words; nothing where one lacks."""
    test = {name: statistics.mean(run["test"] for run in group) for name, group in _groups(runs).items()}
    if not {"full", "nce-40", "blackout-40"} <= test.keys():
        return []
    rivals = min(test["nce-40"], test["blackout-40"])
    lines = ["", "In the paper, CANE is between the softmax and NCE and BlackOut."]
    for name, noise in (("cane-tree-40", "one uniform noise"), ("cane-tree-40-unigram", "one unigram noise"),
                       ("cane-tree-20-20", "twenty unigram noises in one sum, our extension")):  # fmt: skip
        if name in test:
            does = "it is" if test[name] < rivals else "it isn't"
            lines.append(
                f"With a Beam Tree's candidates and {noise}, {does}: {test[name] / rivals - 1:+.1%} compared with the "
                f"better perplexity of these two, {test[name] / test['full'] - 1:+.1%} with the softmax's."
            )
    return [lines[0], " ".join(lines[1:])] if len(lines) > 2 else []


def epochs_table(runs: list[Record]) -> list[str]:
    """Validation perplexity after each epoch, and the test's; the best first."""
    groups = _groups(runs)
    most = max(len(run["curve"]) for group in groups.values() for run in group)
    heads = ["contender", "rate", "seeds", *(f"epoch {number}" for number in range(1, most + 1)), "test", "coverage"]
    rows = []
    for name, group in sorted(groups.items(), key=lambda item: statistics.mean(run["test"] for run in item[1])):
        cells = [CONTENDERS[name].title, f"{group[0]['table_learning_rate']:g}", str(len(group))]
        curves = [[point["perplexity"] for point in run["curve"]] for run in group]
        cells += [markdown.mean([curve[at] for curve in curves if at < len(curve)], 1) for at in range(most)]
        covered = [run["coverage"] for run in group if run["coverage"] is not None]
        cells.append(markdown.mean([run["test"] for run in group], 1))
        rows.append([*cells, f"{statistics.mean(covered):.2f}" if covered else "–"])
    return ["", *markdown.table(heads, rows)]


def _groups(runs: list[Record]) -> dict[str, list[Record]]:
    """Of each contender the longest training with each seed."""
    found: dict[str, dict[int, Record]] = {}
    for run in sorted(runs, key=lambda run: int(run["epochs"])):
        found.setdefault(run["contender"], {})[run["seed"]] = run
    return {name: list(by_seed.values()) for name, by_seed in found.items()}


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
