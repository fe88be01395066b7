"""``sylvan inspect``: a saved model as a card, its tree as a drawing, and the card as the folder's README.md."""

from __future__ import annotations

import json
from typing import Any

import click

from sylvan.cli.options import label_names_option, shared_options, vocabulary_options
from sylvan.cli.session import say, write_text


@click.command("inspect")
@click.argument("model", metavar="MODEL")
@click.option("--labels", "n_labels", type=click.IntRange(0), default=0, metavar="N", help="List the N most frequent.")
@click.option("--levels", type=click.IntRange(0, 64), default=2, show_default=True, metavar="N",
              help="Layers of a tree drawn.")  # fmt: skip
@click.option("--branches", type=click.IntRange(1, 10_000), default=6, show_default=True, metavar="N",
              help="Children drawn of a node: those that training saw most often.")  # fmt: skip
@label_names_option
@vocabulary_options
@click.option("--json", "json_", metavar="FILE", help="Write the card as data (- for stdout alone).")
@click.option("--card", "as_card", is_flag=True, help="Write the card as README.md into the model's folder.")
@shared_options
def command(model: str, label_names: str | None, **flags: Any) -> None:
    """Show what is in the folder MODEL: sizes, parameters, layers, figures from training, and the tree.

    Takes any folder that Sylvan saved: a model, a tree, a vectoriser, a vocabulary. A node of a tree is called by the
    labels below it that training saw most often; --vocabulary gives the names of labels that are codes.

    \b
    Examples:
      sylvan inspect runs/m
      sylvan inspect runs/m --levels 3 --branches 10
      sylvan inspect runs/m --labels 20 --card
      sylvan inspect runs/m --labels 20 --vocabulary subjects.tsv
    """
    from sylvan.cli.io.inputs import read_names, read_titles
    from sylvan.data import Vocabulary
    from sylvan.hub.card import read_card
    from sylvan.hub.card_text import as_text, card_state, write_card

    names = None if label_names is None else Vocabulary(read_names(label_names))
    limits = {"levels": flags["levels"], "branches": flags["branches"], "n_labels": flags["n_labels"]}
    card = read_card(model, **limits, names=names, titles=read_titles(flags))
    if flags["json_"] is not None:
        write_text(flags["json_"], json.dumps(card.as_json(), ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    if flags["json_"] != "-":
        click.echo(as_text(card))
    if flags["as_card"]:
        say(flags, f"Wrote {write_card(card)}.", err=True)
    elif card_state(model) not in (None, "", card.checksum):
        say(flags, "README.md is the card of an earlier model: write it again with --card.", err=True)
