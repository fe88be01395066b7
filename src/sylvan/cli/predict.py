"""``sylvan predict``: the best labels of each row, block by block, so that input of any size will do."""

from __future__ import annotations

import sys
from typing import Any

import click

from sylvan.cli.options import input_options, shared_options

__all__ = ["command"]


@click.command("predict", short_help="Rank the labels of each row of a file with a saved model.")
@click.argument("model", metavar="MODEL")
@click.argument("input_", metavar="INPUT", default="-")
@click.option("-k", "k", type=click.IntRange(min=1), default=10, show_default=True, help="Labels a row.")
@click.option(
    "--output",
    "-o",
    default="-",
    metavar="FILE",
    help="Where to write: JSONL, or a CSR matrix when it ends in .npz; stdout by default.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the model that matters when ranking, such as beam=20.",
)
@input_options
@shared_options
def command(model: str, input_: str, k: int, output: str, settings: tuple[str, ...], **given: Any) -> None:
    """Rank the labels of each row of INPUT (- for stdin) with the model in the folder MODEL.

    For a model trained on text, INPUT is JSONL or plain text, one text a line; otherwise a matrix.
    Each line of the output is {"labels": [...], "scores": [...]}, best first.

    \b
    Examples:
      sylvan predict runs/m test.jsonl -k 5 -o top.jsonl
      echo "whale hunting in the south seas" | sylvan predict runs/m
      sylvan predict runs/m X.tst.npz -k 100 --set beam=50 -o top.npz
    """
    from sylvan.cli.inputs import open_input
    from sylvan.cli.outputs import open_predictions
    from sylvan.cli.saved import check_kind, load_model, rank_blocks
    from sylvan.parallel import progress, quiet

    loaded = load_model(model, settings, given["threads"])
    source = open_input(input_, given, loaded)
    check_kind(loaded, model, source)
    if input_ == "-" and sys.stdin.isatty() and not given["quiet"]:
        click.echo("Reading from the terminal, one row a line, until Ctrl-D.", err=True)
    with (
        quiet(given["quiet"]),
        open_predictions(output, loaded.n_labels_) as writer,
        progress("ranking", None, "row") as bar,
    ):
        for top, names, _ in rank_blocks(loaded, source, k):
            writer.write(top, names)
            bar.update(len(top))
