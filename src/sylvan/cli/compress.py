"""``sylvan compress``: a saved model with fewer weights, of fewer bits."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from sylvan.cli.options import input_options
from sylvan.cli.session import folder_size, quietly, say
from sylvan.params.wording import size_words
from sylvan.weights.layer import WEIGHT_DTYPES

if TYPE_CHECKING:
    from sylvan.cli.evaluate import Measured

_NOTES, _FIGURES = 512, 4096  # bytes of the manifest for what was done and learned from, and for what was measured


@click.command("compress")
@click.argument("model", metavar="MODEL")
@click.option("--output", "-o", "target", required=True, metavar="FOLDER", help="Where to save the smaller model.")
@click.option("--max-size", metavar="SIZE", help="What it may take on disk, such as 5MB.")
@click.option("--weight-dtype", type=click.Choice(WEIGHT_DTYPES),
              help="How weights are stored; by default as loses least at this size, uint4 without any.")  # fmt: skip
@click.option("--rows", metavar="FILE", help="Labelled rows, not used for training, to measure the loss on.")
@input_options
def command(model: str, target: str, max_size: str | None, rows: str | None, **flags: Any) -> None:
    """Save a smaller copy of the model in the folder MODEL: its weights in fewer bits, then only the largest of each
    cluster of labels, as many as there is room for.

    For XRLinear, alone or in a text model or an ensemble. Nothing is trained. With --rows, P@1, P@3 and P@5 before and
    after are printed, and written into the new model.

    \b
    Examples:
      sylvan compress runs/m --output runs/small
      sylvan compress runs/m --output runs/small --max-size 5MB --rows dev.jsonl
    """
    from sylvan import store
    from sylvan.cli.evaluate import AT, measure
    from sylvan.cli.models import LOST_THRESHOLD, input_for, load_model, save_state, training_name, training_notes
    from sylvan.errors import ParameterError
    from sylvan.hub.card import COMPRESSED, MEASURED, THRESHOLD
    from sylvan.runtime.memory import parse_bytes

    if rows == "-":
        raise click.UsageError("--rows is read twice, before and after: stdin can't be.")
    limit = None if max_size is None else parse_bytes(max_size, "max_size")
    store.check_target(target)
    loaded = load_model(model, (), flags["threads"])
    if not hasattr(loaded, "compress"):
        raise ParameterError(f"{model!r} holds a {type(loaded).__name__}, which has no weights to prune.")
    sources = [] if rows is None else [input_for(loaded, model, rows, flags) for _ in range(2)]
    with quietly(flags):
        small = loaded.compress(limit, flags["weight_dtype"], room=_NOTES if rows is None else _NOTES + _FIGURES)
        results = [measure(each, source, AT) for each, source in zip((loaded, small), sources, strict=False)]
        results = [replace(each, learned_from=training_name(model, str(rows))) for each in results]
    state, before = small.to_state(), store.saved_bytes(loaded.to_state())
    types = sorted(small.weight_dtypes())
    state.meta[COMPRESSED] = {"bytes_before": before, "max_size": limit, "weight_dtypes": types}
    state.meta.update(training_notes(model))
    if rows is not None:
        state.meta[COMPRESSED]["measures_before"] = results[0].as_json()["measures"]
        state.meta[MEASURED] = {"on": os.path.basename(os.path.abspath(rows)), **results[1].as_json()}
    lost = LOST_THRESHOLD.format(target) if THRESHOLD in store.contents(model)["model"]["meta"] else ""
    replaced = save_state(target, state)
    if results:
        click.echo(_table(*results))
    words = f"Compressed {model} of {size_words(before)} to {target} of {folder_size(target)}"
    say(flags, f"{words}; weights are {' and '.join(types)}.{lost}{replaced}", err=True)


def _table(before: Measured, after: Measured) -> str:
    """Precision before and after, and the difference, in percent."""
    first, last = ({k: 100 * share for k, share in each.measures["P"].items()} for each in (before, after))
    lines = ["        " + "".join(f"{f'P@{k}':>8}" for k in first)]
    for name, row in (("before", first), ("after", last)):
        lines.append(f"{name:<8}" + "".join(f"{share:8.2f}" for share in row.values()))
    lines.append(f"{'change':<8}" + "".join(f"{last[k] - first[k]:+8.2f}" for k in first))
    return "\n".join([*lines, after.coverage()])
