"""``sylvan task sequential-recommendation``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from sylvan.cli.options import together
from sylvan.errors import DataError
from sylvan.params.wording import counted

if TYPE_CHECKING:
    from sylvan.neural.loop.training import Job

OWNER = ("sylvan.tasks.sequential_recommendation", "SequentialRecommendation")
DEFAULTS = {"epochs": 50, "patience": 10}
HELP = """Train a recommender of next items and measure NDCG and recall at 10, 20 and 50 over the full catalogue.

DATA is a file with a line 'user item' or 'user item timestamp' for each interaction, or with a line 'user item item
...' for each user in the order of time; fields are parted by blanks, tabs or commas. Packed as .xz or .gz or not.

\b
Examples:
  sylvan task sequential-recommendation log.tsv --out runs/rec
  sylvan task sequential-recommendation log.tsv --set encoder=gru4rec --set split=last --out runs/gru
  sylvan task sequential-recommendation ratings.csv --columns userId,movieId,timestamp --out runs/films
  sylvan task sequential-recommendation users.txt --layout users --min-interactions 5 --loss full --out runs/full
  sylvan task sequential-recommendation log.tsv --sampler unigram --seed 0 --seed 1 --seed 2 --out runs/three
"""
_SEPARATORS = {"blanks": " ", "tabs": "\t", "commas": ","}


# The options of this task alone: how the file is read.
options = together(
    click.option("--filter-once", is_flag=True,
                 help="Count interactions once and drop by these counts, not until all that are left have enough."),
    click.option("--min-interactions", type=int, default=10, show_default=True, metavar="N",
                 help="Drop users and items with fewer; 1 keeps all."),
    click.option("--order", type=click.Choice(("time", "line")), default="time", show_default=True,
                 help="Order of a user's items: by timestamp where there are timestamps, or by line."),
    click.option("--columns", metavar="USER,ITEM[,TIME]",
                 help="Columns of user, item and time, by number (1,2,4) or by name in the first line."),
    click.option("--header", is_flag=True, help="Pass over the first line, which names columns."),
    click.option("--separator", type=click.Choice(tuple(_SEPARATORS)),
                 help="Separator of fields; by default found from the first line."),
    click.option("--layout", type=click.Choice(("interactions", "users")),
                 help="Contents of a line; by default found from the first 1,000 lines."),
)  # fmt: skip


def make_job(paths: Sequence[str], given: dict[str, Any], settings: dict[str, Any]) -> Job:
    """The job for the interactions in the one file of ``paths``."""
    from sylvan.data import read_sequences
    from sylvan.tasks.sequential_recommendation import SequentialRecommendation

    if len(paths) != 1:
        raise DataError(f"DATA must be one file of interactions. Got {counted(len(paths), 'word')} instead.")
    sequences = read_sequences(
        paths[0],
        layout=given["layout"],
        separator=None if given["separator"] is None else _SEPARATORS[given["separator"]],
        header=given["header"],
        columns=_columns(given["columns"]),
        order=given["order"],
        min_interactions=given["min_interactions"],
        until_stable=not given["filter_once"],
    )
    if not given["quiet"]:
        click.echo(f"Read {sequences.describe()}.")
    return SequentialRecommendation(sequences, **settings)


def _columns(text: str | None) -> list[int | str] | None:
    """What ``--columns`` lists: numbers, or names."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else list(words)
