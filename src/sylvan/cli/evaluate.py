"""``sylvan evaluate``: precision, recall, nDCG, F1 and their propensity-scored kin on rows with known labels."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click
import numpy as np

from sylvan import metrics
from sylvan.cli import options as of
from sylvan.cli.measure import Measured, measure, probabilities_of
from sylvan.cli.models import input_for, learned_rows, load_model, training_name
from sylvan.cli.session import quietly, write_text
from sylvan.errors import DataError
from sylvan.metrics import figures
from sylvan.models.blocks import inner_of

CURVES_TO = 10  # the k that curves go to, at least


def check_figures(paths: Sequence[str]) -> None:
    """Refuse what can't be drawn, before hours of work."""
    for path in paths:
        if not figures.can_draw(path):
            raise DataError(f"--figure takes a {figures.FORMATS} file. Got {path!r} instead.")
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise DataError(f"There is no folder {os.path.dirname(path)!r} to draw {path!r} in.")
    if paths:
        figures.need_matplotlib()


def draw_evaluation(paths: Sequence[str], model: Any, measured: Measured, folder: str, test: str) -> None:
    """Draw what ``sylvan evaluate`` measured of the model in ``folder`` on the file ``test``."""
    truth, top = measured.truth, measured.top
    assert top is not None
    panels: list[Any] = [partial(_draw_curves, truth, top, range(1, min(top.k, model.n_labels_) + 1))]
    if getattr(inner_of(model), "tail", None) is None:  # else scores are gains, not probabilities
        panels.append(partial(_draw_reliability, truth, probabilities_of(model, top), model.bounded(top)))
    if measured.slices:
        panels.append(partial(_draw_slices, {name: values["R"] for name, values in measured.slices.items()}))
    figures.draw_panels(paths, f"{os.path.basename(os.path.normpath(folder))} on {os.path.basename(test)}", panels)


def _draw_curves(truth: Any, top: Any, at: Sequence[int], axes: Any) -> None:
    for name, metric, colour, marker in (
        ("precision", metrics.precision, figures.BLUE, "o"), ("recall", metrics.recall, figures.ORANGE, "s")
    ):  # fmt: skip
        values = [100 * value for value in metric(truth, top, at=at).values()]
        axes.plot(list(at), values, marker=marker, markersize=3.5, color=colour, label=name)
    axes.set(xlabel="k: labels answered a row", ylabel="percent", ylim=(0, 100), title="Precision and recall")
    figures.whole_numbers(axes)
    axes.legend(frameon=False)


def _draw_reliability(truth: Any, calibrated: Any, bounded: Any, axes: Any) -> None:
    tops = {"probabilities": calibrated, "before calibration": bounded}
    if np.array_equal(calibrated.scores, bounded.scores):
        del tops["before calibration"]
    axes.plot([0, 1], [0, 1], color=figures.GREY, linestyle=":", linewidth=1)
    for (name, top), colour in zip(tops.items(), (figures.BLUE, figures.GREY), strict=False):
        bins = metrics.reliability(truth, top, k=min(5, top.k), bins="mass")
        used = bins.counts > 0
        sizes = 10 + 90 * np.sqrt(bins.counts[used] / bins.counts.max())
        axes.plot(bins.predicted[used], bins.observed[used], color=colour, linewidth=1)
        axes.scatter(bins.predicted[used], bins.observed[used], s=sizes, color=colour, alpha=0.75, label=name)
    axes.set(
        xlabel="probability given", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1), title="Reliability",
        aspect="equal",
    )  # fmt: skip
    axes.legend(frameon=False, loc="upper left")


def _draw_slices(slices: dict[str, dict[int, float]], axes: Any) -> None:
    names, at = list(slices), sorted(next(iter(slices.values())))
    full, width = np.array([int(figures.GREEN[i : i + 2], 16) / 255 for i in (1, 3, 5)]), 0.8 / len(at)
    for number, (k, share) in enumerate(zip(at, np.linspace(0.4, 1, len(at)), strict=True)):
        places = np.arange(len(names)) - 0.4 + width * (number + 0.5)
        colour = tuple(1 - (1 - full) * share)  # greens, from light to full
        axes.bar(places, [100 * slices[name][k] for name in names], width * 0.95, color=colour, label=f"k = {k}")
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="recall, percent", ylim=(0, 100), title="Frequent and rare labels")
    axes.legend(frameon=False)


@click.command("evaluate", short_help="Measure a saved model on a file with known labels.")
@click.argument("model", metavar="MODEL")
@click.argument("test", metavar="TEST")
@click.option("-k", "at", multiple=True, default=("1", "3", "5"), callback=of.cutoffs, metavar="K",
              help="Cut-offs, such as -k 1,3,5 or -k 1 -k 10. [default: 1,3,5]")  # fmt: skip
@click.option("--json", "json_", metavar="FILE", help="Write the numbers to this file too (- for stdout alone).")
@click.option("--figure", "figures", multiple=True, metavar="FILE",
              help="Draw precision and recall against k, and reliability (.png, .svg, .pdf).")  # fmt: skip
@click.option("--threshold", type=click.FloatRange(0, 1), default=0.5, show_default=True, metavar="P",
              help="F1 of the labels with at least this probability.")  # fmt: skip
@click.option("--propensity-a", type=click.FloatRange(min=0), default=0.55, show_default=True, metavar="A",
              help="A of the propensities; 0.6 for Amazon's sets, 0.5 for Wikipedia's.")  # fmt: skip
@click.option("--propensity-b", type=click.FloatRange(min=0), default=1.5, show_default=True, metavar="B",
              help="B of the propensities; 2.6 for Amazon's sets, 0.4 for Wikipedia's.")  # fmt: skip
@click.option("--known-labels", is_flag=True,
              help="Leave out labels that the model doesn't know, and rows without any other; by default they count as "
              "missed.")  # fmt: skip
@of.ranking_option
@click.option("--filter-labels", metavar="FILE", help="Answers that don't count, one row and label per line (the XMC "
                                                      "repository's filter_labels_test.txt).")  # fmt: skip
@of.device_option
@of.subjects_options
@of.input_options
@of.config_option
def command(model: str, test: str, at: tuple[int, ...], json_: str | None, **given: Any) -> None:
    """Measure the model in the folder MODEL on TEST (- for stdin), which also contains the correct labels.

    All rows that have labels count, and all their labels: those that the model doesn't know are missed, unless
    --known-labels leaves them out. F1@k is the mean of the rows' F1 with their first k
    answers (Annif's F1@5); the line below the tables has the F1 of all labels with at least a probability, as the mean
    over rows, over all pairs of row and label (micro) and over labels (macro). PSP gives labels that are rare in
    training more weight.
    ECE is the difference between probabilities and the share that is correct (raw: before calibration). The second
    table is recall by the labels' frequency in training, in three groups with a third of all its labels each.

    \b
    Examples:
      sylvan evaluate runs/m test.jsonl
      sylvan evaluate runs/m test.jsonl --known-labels
      sylvan evaluate runs/m X.tst.npz --labels Y.tst.npz -k 1,3,5,10 --json result.json
      sylvan evaluate runs/m test.jsonl --threshold 0.3
      sylvan evaluate runs/m test.jsonl --figure result.svg --figure result.png
    """

    check_figures(given["figures"])
    loaded = load_model(model, given["settings"], given["threads"], given["device"])
    source = input_for(loaded, model, test, given)
    with quietly(given):
        result = measure(
            loaded, source, at, given["propensity_a"], given["propensity_b"], CURVES_TO if given["figures"] else 0,
            given["filter_labels"], given["threshold"], given["known_labels"],
        )  # fmt: skip
    result = replace(result, learned_from=training_name(model, source.path))
    if result.learned_from is None:
        result = replace(result, learned=learned_rows(loaded, source))
    if json_ is not None:
        write_text(json_, json.dumps(result.as_json(), indent=2) + "\n")
    if given["figures"]:
        draw_evaluation(given["figures"], loaded, result, model, source.name)
    if json_ != "-":
        result.show(at, all_tables=True)
