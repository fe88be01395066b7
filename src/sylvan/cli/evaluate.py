"""``sylvan evaluate``: precision, recall, nDCG, F1 and their propensity-scored kin on rows with known labels."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from sylvan.cli.config import config_option
from sylvan.cli.options import (
    cutoffs,
    device_option,
    input_options,
    ranking_option,
    shared_options,
    subjects_options,
)  # fmt: skip


@click.command("evaluate", short_help="Measure a saved model on a file with known labels.")
@click.argument("model", metavar="MODEL")
@click.argument("test", metavar="TEST")
@click.option("-k", "at", multiple=True, default=("1", "3", "5"), callback=cutoffs, metavar="K",
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
@ranking_option
@click.option("--filter-labels", metavar="FILE", help="Answers that don't count, one row and label per line (the XMC "
                                                      "repository's filter_labels_test.txt).")  # fmt: skip
@device_option
@subjects_options
@input_options
@shared_options
@config_option
def command(
    model: str,
    test: str,
    at: tuple[int, ...],
    json_: str | None,
    figures: tuple[str, ...],
    threshold: float,
    propensity_a: float,
    propensity_b: float,
    settings: tuple[str, ...],
    filter_labels: str | None,
    known_labels: bool,
    **given: Any,
) -> None:
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
    from sylvan.cli.figure import CURVES_TO, check_figures, draw_evaluation
    from sylvan.cli.measure import measure
    from sylvan.cli.models import input_for, learned_rows, load_model, training_name
    from sylvan.cli.report import metric_table, slice_table, threshold_line
    from sylvan.data.streams import open_write
    from sylvan.parallel import quiet

    check_figures(figures)
    loaded = load_model(model, settings, given["threads"], given["device"])
    source = input_for(loaded, model, test, given)
    with quiet(given["quiet"]):
        depth = CURVES_TO if figures else 0
        result = measure(loaded, source, at, propensity_a, propensity_b, depth, filter_labels, threshold, known_labels)
    result = replace(result, learned_from=training_name(model, source.path))
    if result.learned_from is None:
        result = replace(result, learned=learned_rows(loaded, source))
    if json_ is not None:
        with open_write(json_) as stream:
            stream.write((json.dumps(result.as_json(), indent=2) + "\n").encode())
    if figures:
        draw_evaluation(figures, loaded, result, model, source.name)
    if json_ != "-":
        click.echo(result.coverage())
        click.echo(metric_table(result.measures, at, result.intervals))
        if result.slices:
            click.echo(slice_table(result.slices, at))
        if result.threshold:
            click.echo(threshold_line(result.threshold))
        for note in result.notes():
            click.echo(note)
