"""``sylvan predict``: the best labels of each row, block by block, so that input of any size will do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import click

from sylvan.arrays.topk import TopK
from sylvan.cli import options as of
from sylvan.cli.evaluate import unknown_words
from sylvan.cli.io.answers import FilesBeside
from sylvan.cli.io.formats import format_of_name
from sylvan.cli.io.inputs import LabelTitles, read_labels, read_titles, with_fields
from sylvan.cli.io.matrices import MatrixInput
from sylvan.cli.models import codes_of, input_for, load_model, ranking_parameters
from sylvan.cli.options import on_cluster
from sylvan.cli.session import Session, keep_inputs, quietly, say
from sylvan.data.formats.rankings import columns_of_output, open_rankings
from sylvan.data.other_fields import RecordSource
from sylvan.distributed.ranking import Ranker, rank_sources
from sylvan.distributed.ray_runner import RayRunner, need_ray
from sylvan.errors import DataError, ParameterError
from sylvan.models.blocks import Source, has_probabilities, inner_of, rank_blocks
from sylvan.parallel import progress
from sylvan.params.wording import counted
from sylvan.ranking.stopping import StoppingRule
from sylvan.runtime.jobs import Job, current_runner

_PATHS = ("items", "labels", "vocabulary")  # options that name a file, which workers open from elsewhere


def rank_on_cluster(ranker: Ranker, source: Source) -> Iterator[tuple[TopK, list[list[str]] | None, int]]:
    """Answers for the rows of one input, their names and the number of unknown texts, block by block in the order of
    the input. This process reads it, workers of the cluster that the command is on rank; few blocks are in memory."""
    runner = current_runner(1)
    assert isinstance(runner, RayRunner)
    ranker.check_nodes(need_ray())
    blocks = source.blocks(False if source.is_text else ranker.model().n_features_)
    jobs = (
        Job(f"rows{number}", Ranker.rank, {"rows": rows}, title=f"ranking rows of {source.name}")
        for number, (rows, _) in enumerate(blocks)
    )
    yield from runner.ordered(jobs, {"self": ranker})


def rank_into_folder(
    ranker: Ranker, model: Any, inputs: Sequence[str], titles: LabelTitles | None, key: str, flags: Mapping[str, Any]
) -> None:
    """Rank each of some files into a file of its name."""
    folder = flags["output"]
    absolute = {name: os.path.abspath(flags[name]) for name in _PATHS if flags.get(name) is not None}
    sources = []
    for path in inputs:
        if path == "-":
            raise DataError("Rows of stdin are ranked alone: give files, or - as the only input.")
        source = input_for(model, ranker.folder, os.path.abspath(path), {**flags, **absolute})
        source = replace(source, n_jobs=1) if isinstance(source, MatrixInput) else source
        sources.append(with_fields(source, columns_of_output("", key, titles is not None), "", flags))
    session = Session.of(click.get_current_context())
    sentence = f"the files in {folder!r} are whole, and the same command begins again"
    session.remains = lambda: sentence if os.path.isdir(folder) and os.listdir(folder) else None
    ranked = rank_sources(sources, ranker, folder, flags["output_format"], titles)
    say(flags, f"Ranked {counted(ranked.n_rows, 'row')} of {counted(len(ranked.paths), 'file')} into {folder!r}.")
    say_unknown(flags, ranked.n_unknown, ranked.n_rows)


def say_unknown(flags: Mapping[str, Any], n_unknown: int, n_rows: int) -> None:
    """Say of how many texts the model knows no word, if there are any."""
    if n_unknown:
        say(flags, unknown_words(f"{n_unknown:,} of {counted(n_rows, 'text')}"), err=True)


@click.command("predict")
@click.argument("model", metavar="MODEL")
@click.argument("inputs", metavar="[INPUT]...", nargs=-1)
@click.option("-k", "k", type=click.IntRange(min=1),
              help="Maximum number of labels per row. [default: 10; with a rule, what it selects]")  # fmt: skip
@click.option("--proba/--scores", "proba", default=None,
              help="Write probabilities, or the raw scores that labels are ordered by. [default: probabilities, where "
              "the model has calibrated ones and no tail orders its answers]")  # fmt: skip
@click.option("--threshold", type=of.Share(), metavar="P", help="Rule: labels with at least this probability.")
@click.option("--expected", metavar="f1", help="Rule: the number of labels with the highest expected F1.")
@click.option("--precision", type=of.Share(above_zero=True), metavar="P",
              help="Rule: the longest list with this expected precision, such as 0.9.")  # fmt: skip
@click.option("--ray", "ray_address", metavar="ADDRESS",
              help="Rank on a Ray cluster: its address, auto for the one that this machine belongs to, or local to "
              "start one here. Several inputs are then ranked into the folder that -o names.")  # fmt: skip
@click.option("--output-format", type=click.Choice(("jsonl", "parquet")),
              help="Of the files in that folder; by default Parquet for Parquet, else JSONL.")  # fmt: skip
@click.option("--output", "-o", default="-", metavar="FILE",
              help="Where to write: JSONL; a line a label when it ends in .csv or .tsv; Parquet when it ends in "
              ".parquet; a CSR matrix when it ends in .npz; stdout by default.")  # fmt: skip
@click.option("--output-suffix", metavar="TEXT",
              help="For a folder of texts: write the answers to a.txt beside it, into a file of this ending, such as "
              ".jsonl or .top.csv.")  # fmt: skip
@of.output_fields_option
@click.option("--allowed", metavar="FILE",
              help="Answer only with these labels: names (ids for a matrix model), one per line.")  # fmt: skip
@click.option("--denied", metavar="FILE", help="Don't answer with these labels; the same form.")
@of.ranking_option
@of.vocabulary_options
@of.device_option
@of.input_options
@of.config_option
def command(model: str, inputs: tuple[str, ...], k: int | None, proba: bool | None, output: str, **flags: Any) -> None:
    """Rank the labels of each row of INPUT (- for stdin) with the model in the folder MODEL.

    Several INPUTs are ranked on a Ray cluster (--ray), each into a file of its name in the folder that -o names, in
    place of what stood there. A command that was interrupted begins again.

    For a model trained on text, INPUT is JSONL, CSV, TSV, a spreadsheet (.xlsx), MARCXML, fastText's or PECOS's lines,
    one of Annif's corpora, Parquet, a file or folder of plain text (each file one text; --format lines reads a text a
    line, as stdin is read); otherwise a matrix.
    Each line of the output is {"labels": [...], "probabilities": [...]}, best first, where a list may be empty; with
    --scores, or from a model without calibrated probabilities, {"labels": [...], "scores": [...]}. With --vocabulary
    labels are names, and "uris" has their codes.
    A CSV, for a spreadsheet, has a line for each label: row, rank, label, name, probability. A row's other fields, such
    as its id, stand before these (--output-fields); of a MARC record the id, of a text in a file of its own the file.

    \b
    Examples:
      sylvan predict runs/m test.jsonl -k 5 -o top.jsonl
      echo "whale hunting in the south seas" | sylvan predict runs/m
      sylvan predict runs/m books.csv --vocabulary subjects.ttl --language en -o top.csv
      sylvan predict runs/m new.xml --output-fields id,245a -o top.csv
      sylvan predict runs/m texts/ --output-suffix .jsonl
      sylvan predict runs/m test.jsonl --denied withdrawn.txt
      sylvan predict runs/m test.jsonl --precision 0.9 -o sure.jsonl
      sylvan predict runs/m X.tst.npz -k 100 --set beam=50 -o top.npz
      sylvan predict runs/m texts/*.jsonl --ray auto -o tags
    """
    keep_inputs("output")
    inputs, address = inputs or ("-",), flags["ray_address"]
    if flags["output_suffix"] is not None and (len(inputs) > 1 or output != "-" or flags["output_fields"]):
        raise click.UsageError("--output-suffix is for one INPUT, without -o and --output-fields.")
    into_folder = _into_folder(inputs, output, address, flags["output_format"])
    written = flags["output_suffix"] or output
    of.check_output_options(written, None if into_folder else format_of_name(f"a{written}"))
    titles = read_titles(flags)
    loaded = load_model(model, flags["settings"], flags["threads"], flags["device"])
    if titles is not None:
        titles.check(codes_of(loaded))
    rule: dict[str, Any] | None = {name: flags[name] for name in ("threshold", "expected", "precision")}
    ruled = any(flags[name] is not None for name in ("threshold", "expected", "precision"))
    k = 10 if k is None and not ruled else k
    if ruled and proba is False:
        raise click.UsageError("--threshold, --expected and --precision choose by probabilities: leave --scores out.")
    if proba is None:
        proba = has_probabilities(loaded) and getattr(inner_of(loaded), "tail", None) is None
    if proba or ruled:  # refused before any row is read if they make no rule
        StoppingRule.of(k, flags["threshold"], flags["expected"], flags["precision"], loaded.n_labels_)
        if not has_probabilities(loaded):
            say(flags, "The model is not calibrated: its probabilities are scores brought into [0, 1].", err=True)
    else:
        rule = None
    paths = {name: flags[name] for name in ("allowed", "denied") if flags[name] is not None}
    if [*paths.values(), inputs[0]].count("-") > 1:
        raise ParameterError("Only one of INPUT, --allowed and --denied can be read from stdin.")
    lists: dict[str, Any] = {name: read_labels(path, loaded) for name, path in paths.items()}
    key, ranker = "scores" if rule is None else "probabilities", None
    if address is not None:  # workers open the model as this command has set it
        parameters = tuple(sorted(ranking_parameters(loaded, flags["settings"]).items()))
        ranker = Ranker.of(model, k, {"rule": rule, **lists}, parameters=parameters, device=flags["device"])
        if into_folder:
            with quietly(flags), on_cluster(address, flags["threads"]):
                rank_into_folder(ranker, loaded, inputs, titles, key, {**flags, "output": output})
            return
    source = input_for(loaded, model, inputs[0], flags)
    suffix = flags["output_suffix"]
    rows = with_fields(source, columns_of_output(written, key, titles is not None), written, flags)
    if inputs[0] == "-" and sys.stdin.isatty():
        say(flags, "Reading from the terminal, one row per line, until Ctrl-D.", err=True)
    write_to = partial(
        open_rankings, n_labels=loaded.n_labels_, label_of=titles, key=key, delimiter=flags["output_delimiter"],
        guards=flags["guard_formulas"],
    )  # fmt: skip
    with (
        quietly(flags),
        on_cluster(address, flags["threads"]),
        write_to(output) if suffix is None else nullcontext(FilesBeside(source, suffix, write_to)) as writer,
        progress("ranking", None, "row") as bar,
    ):
        blocks = rank_blocks(loaded, rows, k, rule=rule, **lists) if ranker is None else rank_on_cluster(ranker, rows)
        n_rows = n_unknown = 0
        for top, names, *counts in blocks:
            writer.write(top, names, rows.next_fields() if isinstance(rows, RecordSource) else None)
            n_rows, n_unknown = n_rows + len(top), n_unknown + counts[-1]
            bar.update(len(top))
    say_unknown(flags, n_unknown, n_rows)


def _into_folder(inputs: tuple[str, ...], output: str, address: str | None, format_: str | None) -> bool:
    """Whether the output is a folder of files."""
    into_folder = len(inputs) > 1 or (address is not None and (output.endswith(("/", os.sep)) or os.path.isdir(output)))
    if into_folder and address is None:
        raise click.UsageError("Several inputs are ranked on a cluster: say --ray, or give one.")
    if into_folder and output == "-":
        raise click.UsageError("Several inputs are ranked into a folder: name it with -o.")
    if format_ is not None and not into_folder:
        raise click.UsageError("--output-format is for several inputs: the name of a single output says its format.")
    return into_folder
