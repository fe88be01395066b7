"""Figures on held-out rows, taken right after training and kept in the model's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from sylvan import store
from sylvan.cli.io.inputs import MatrixInput, TextInput, open_input
from sylvan.cli.io.saved import check_kind
from sylvan.cli.measure import measure
from sylvan.cli.shown.card import MEASURED
from sylvan.cli.shown.report import metric_table
from sylvan.errors import DataError

__all__ = ["keep_figures", "open_held_out"]

_AT = (1, 3, 5)


def open_held_out(model: Any, given: Mapping[str, Any]) -> TextInput | MatrixInput | None:
    """What ``--test`` names, refused before the work of training where it can be; None without the option.

    Raises
    ------
    DataError
        When it can't be read, doesn't go with the training file, or holds no labels.
    """
    path = given["test"]
    if path is None:
        if given["test_labels"] is not None:
            raise DataError("--test-labels goes with --test, which was not given.")
        return None
    if path == "-" == given["train"]:
        raise DataError("stdin can't be both the training file and the --test file.")
    source = open_input(path, {**given, "labels": given["test_labels"], "format_": None}, model, part="tst")
    check_kind(model, given["folder"], source)
    if isinstance(source, MatrixInput):
        source.read_labels()
    elif source.format == "lines":
        source.read()  # which says that such a file holds no labels
    return source


def keep_figures(model: Any, source: TextInput | MatrixInput, folder: str, quiet: bool) -> None:
    """Measure the model that was just saved, and write the figures into its manifest."""
    result = measure(model, source, _AT)
    on = os.path.basename(os.path.abspath(source.path)) if source.path != "-" else "stdin"
    store.annotate(folder, {MEASURED: {"on": on, **result.as_json()}})
    if not quiet:
        click.echo(metric_table(result.measures, _AT, result.intervals))
        for note in result.notes():
            click.echo(note)
