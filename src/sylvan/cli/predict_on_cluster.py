"""``sylvan predict --ray``: a file in blocks that workers rank, or many files, each the work of one worker."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from sylvan.arrays.topk import TopK
from sylvan.cli.io.matrices import MatrixInput
from sylvan.cli.io.vocabulary_file import LabelTitles
from sylvan.cli.saved import input_for, ranking_parameters
from sylvan.cli.session import Session
from sylvan.data.formats.rankings import columns_of_output
from sylvan.distributed.file_ranking import rank_sources
from sylvan.distributed.ranked_folder import RECORD, checksum_of
from sylvan.distributed.ranker import Ranker, rank_on_cluster
from sylvan.distributed.ray_runner import RayRunner
from sylvan.errors import DataError
from sylvan.models.at_work import Source
from sylvan.params.wording import counted
from sylvan.runtime.current import current_runner

_PATHS = ("items", "labels", "vocabulary")  # options that name a file, which workers open from elsewhere


def ranker_of(
    folder: str, model: Any, k: int | None, settings: Sequence[str], device: str | None, rule: Mapping[str, Any] | None,
    lists: Mapping[str, Any],
) -> Ranker:  # fmt: skip
    """What workers rank with: the model that the command has loaded, as it has set it."""
    parameters = tuple(sorted(ranking_parameters(model, settings).items()))
    return Ranker.of(folder, k, parameters=parameters, device=device, rule=rule, lists=lists)


def ranked_blocks(ranker: Ranker, source: Source) -> Iterator[tuple[TopK, list[list[str]] | None, int]]:
    """Answers for the rows of one input, their names and the number of unknown texts, block by block, of the cluster
    that the command is on."""
    runner = current_runner(1)
    assert isinstance(runner, RayRunner)
    yield from rank_on_cluster(runner, ranker, source)


def rank_into_folder(
    ranker: Ranker, model: Any, inputs: Sequence[str], folder: str, titles: LabelTitles | None,
    given: Mapping[str, Any],
) -> None:  # fmt: skip
    """Rank each of some files into a file of its name."""
    absolute = {name: os.path.abspath(given[name]) for name in _PATHS if given.get(name) is not None}
    sources = []
    for path in inputs:
        if path == "-":
            raise DataError("Rows of stdin are ranked alone: give files, or - as the only input.")
        source = input_for(model, ranker.folder, os.path.abspath(path), {**given, **absolute})
        sources.append(replace(source, n_jobs=1) if isinstance(source, MatrixInput) else source)
    if titles is not None:
        titles = replace(titles, source=checksum_of(absolute["vocabulary"]))
    session = Session.of(click.get_current_context())
    sentence = f"what is ranked so far lies in {folder!r}: the same command goes on from there"
    session.remains = lambda: sentence if os.path.exists(os.path.join(folder, RECORD)) else None
    columns = columns_of_output("", ranker.key, titles is not None)
    wanted = given["output_fields"]
    fields = [None if isinstance(one, MatrixInput) else one.other_fields(columns, wanted) for one in sources]
    ranked = rank_sources(sources, ranker, folder, given["output_format"], titles, fields)
    if not given["quiet"]:
        before = len(ranked.paths) - ranked.n_ranked
        there = f" ({before:,} were there already)" if before else ""
        click.echo(
            f"Ranked {counted(ranked.n_rows, 'row')} of {counted(len(ranked.paths), 'file')} into {folder!r}{there}."
        )
        say_unknown(ranked.n_unknown, ranked.n_rows)


def say_unknown(n_unknown: int, n_rows: int) -> None:
    """Say of how many texts the model knows no word, if there are any."""
    if n_unknown:
        click.echo(
            f"The model knows no word of {n_unknown:,} of {counted(n_rows, 'text')}, so there are no labels for them; "
            "--set unknown=prior gives the usual ones.", err=True
        )  # fmt: skip
