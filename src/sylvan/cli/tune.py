"""``sylvan tune``: the best model that a budget of time finds, and how it was found."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from functools import partial
from typing import Any

import click

from sylvan.cli.options import config_of, config_option, input_options, on_cluster, ray_option
from sylvan.cli.session import Session, folder_size, quietly, say
from sylvan.errors import DataError

# Options that sylvan.tune takes as they are.
_OF_TUNE = (
    "budget", "max_trials", "metric", "max_latency", "max_size", "max_train_time", "holdout", "encoder", "study",
    "seed",
)  # fmt: skip


@click.command("tune")
@click.argument("train", metavar="TRAIN")
@click.option("--model", "folder", required=True, metavar="DIR", help="Where to save the model.")
@click.option("--budget", metavar="TIME", help="Time for everything, the final training included, such as 10m or 1h. "
              "[default: 10m, without --max-trials]")  # fmt: skip
@click.option("--max-trials", type=click.IntRange(min=1), metavar="N", help="Number of trials at most.")
@click.option("--metric", default="P@5", show_default=True, metavar="NAME",
              help="P@k, R@k, nDCG@k, PSP@k, PSnDCG@k, F1@k, macro-recall@k, or F1.")  # fmt: skip
@click.option("--max-latency", metavar="TIME", help="Median time of a single query on this machine, such as 1ms.")
@click.option("--max-size", metavar="SIZE", help="Size of the saved model, such as 50MB.")
@click.option("--max-train-time", metavar="TIME", help="Time of the training on all rows, such as 5m.")
@click.option("--holdout", type=click.Choice(("random", "last")), default="random", show_default=True, help="Rows that "
              "settings are judged by: drawn at random, or the last ones of rows in time order.")  # fmt: skip
@click.option("--groups", metavar="FIELD|FILE.npy",
              help="Field of the file, or array, whose equal values mark rows that stay together.")  # fmt: skip
@click.option("--encoder", metavar="DIR", help="An encoder of texts, whose vectors are tried beside the words.")
@click.option("--study", metavar="DIR", help="Store the trials here; the same command goes on from them, and several "
              "processes may share them.")  # fmt: skip
@click.option("--report", metavar="DIR", help="Where to write trials, figures and configuration. "
              "[default: the model's folder with .tuning]")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N")
@ray_option
@input_options
@config_option
@click.pass_context
def command(ctx: click.Context, /, train: str, folder: str, report: str | None, **flags: Any) -> None:
    """Find the best model for the file TRAIN within a budget, and train it on all rows.

    Vectorisers, trees of linear models, neighbours and ensembles of them are tried on a part of the rows that is held
    out, first of all the preset balanced. (The presets accurate and best are several models each, which 'sylvan train
    --preset' trains without a search.) Never give test rows. Needs Optuna: pip install "sylvan[tune]". Ctrl-C ends the
    search, and the best so far is trained and saved. The report has the configuration with which 'sylvan train
    --config' trains the same model, the table of trials, and figures of quality against time, size and latency.

    \b
    Examples:
      sylvan tune train.jsonl --model runs/m --budget 10m
      sylvan tune train.jsonl --model runs/m --budget 1h --max-latency 1ms --max-size 50MB --metric PSP@5
      sylvan tune X.trn.npz --labels Y.trn.npz --model runs/m --max-trials 30 --holdout last --study runs/study
    """
    from sylvan.cli.io.inputs import open_input, remember_base
    from sylvan.cli.models import save_model
    from sylvan.store import check_target
    from sylvan.tune.tuner import tune

    config = config_of(ctx)
    config.problems += [f"[{name}] is for 'sylvan train'." for name in ("parameters", "text") if getattr(config, name)]
    config.refuse()
    session, report = Session.of(ctx), report or folder.rstrip("/\\") + ".tuning"
    check_target(folder)
    if os.path.exists(report) and not os.path.isdir(report):
        raise DataError(f"The report is a folder, but {report!r} is a file: give another one with --report.")
    if flags["study"] is not None and os.path.realpath(flags["study"]) == os.path.realpath(folder):
        raise DataError(f"--study and --model are both {folder!r}: give each a folder of its own.")
    source: Any = open_input(train, flags, part="trn")
    options = {name: flags[name] for name in _OF_TUNE}
    with quietly(flags), on_cluster(flags["ray_address"], flags["threads"]):
        options["groups"] = None if flags["groups"] is None else _groups(flags["groups"], source)
        X, Y = source.read()
        if source.is_text:
            options |= {"text_fields": source.text_fields, "labels_field": source.labels_field}
        interrupts = itertools.count()
        session.answers = lambda: next(interrupts) == 0
        try:
            result = tune(X, Y, n_jobs=flags["threads"], report=partial(say, flags, err=True), **options)
        finally:
            session.answers = lambda: False
    remember_base(result.model, source)
    replaced = save_model(session, result.model, folder, {**flags, "train": train})
    written = result.save_report(report)
    say(flags, result.summary())
    say(flags, f"Saved it in {folder} ({folder_size(folder)}), and in {report}: {', '.join(written)}.{replaced}")


def _groups(groups: str, source: Any) -> Any:
    """The group of each row: a field of a file of texts, or an array in a file of its own."""
    import numpy as np

    from sylvan.cli.io.inputs import COLUMNS, TextInput

    if groups.endswith(".npy"):
        try:
            return np.load(groups, allow_pickle=False)
        except (EOFError, ValueError) as error:
            raise DataError(f"{groups} can't be read as an array of groups: {error}.") from error
    if not isinstance(source, TextInput) or source.format not in COLUMNS:
        raise DataError(f"--groups takes a .npy file for {source.name}, which has no fields. Got {groups!r} instead.")
    if source.path == "-":
        raise DataError("--groups takes a field of a file, or a .npy file: stdin is read once.")
    return replace(source, text_fields=(groups,)).read()[0]
