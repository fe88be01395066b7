"""``sylvan index`` and ``sylvan search``: vectors into a saved index, and the nearest of it to a file's."""

from __future__ import annotations

import json
import time
from typing import Any

import click
import numpy as np

from sylvan import data
from sylvan.cli import options as of
from sylvan.cli.models import save_state
from sylvan.cli.options import resume_options, working
from sylvan.cli.session import Session, folder_size, keep_inputs, quietly, say
from sylvan.errors import ModelError, ParameterError
from sylvan.models.irli.index import IRLIIndex
from sylvan.models.irli.shards import ShardedIRLIIndex
from sylvan.params.wording import counted

_ROWS = 4096  # queries between two movements of the progress bar


@click.command("index", cls=of.DescribedCommand, owners={"--set": IRLIIndex})
@click.argument("base", metavar="BASE")
@click.option("--index", "folder", required=True, metavar="DIR", help="Where to save the index.")
@click.option("--metric", metavar="NAME", help="The same as --set metric=NAME: euclidean, angular or inner_product.")
@click.option("--queries", metavar="FILE", help="Queries to set the search by, and to train on; else rows of BASE.")
@click.option("--neighbors", metavar="FILE",
              help="The nearest rows of BASE to each of --queries, as an array of row numbers.")  # fmt: skip
@of.setting_option("--set", "A parameter of the index (below); repeat it for several.")
@of.seed_option
@click.option("--shards", type=click.IntRange(min=1), metavar="N",
              help="Divide the vectors into this many shards, each with its own process.")  # fmt: skip
@click.option("--recall", type=float, metavar="R", help="Set probes, min_votes and candidates for this recall of the "
                                                        "10 nearest at the lowest cost; default: 0.9.")  # fmt: skip
@click.option("--tune-on", metavar="FILE", help="Vectors for choosing them, none of --queries; default: BASE.")
@click.option("--plan", "planning", is_flag=True, help="Only estimate the time, the memory and the size of the index.")
@click.option("--figure", "figures", multiple=True, metavar="FILE", help="Draw the report (PNG, SVG or PDF).")
@resume_options
@of.shared_options
@of.config_option
@click.pass_context
def command(ctx: click.Context, /, base: str, folder: str, **flags: Any) -> None:
    """Index the vectors in the file BASE for nearest-neighbour search.

    Vectors are the rows of a .npy file, or of the one array in an .npz file. A vector's id is the number of its row,
    from 0. Learned buckets (--set partition=learned) need PyTorch: pip install "sylvan[neural]".

    \b
    Examples:
      sylvan index base.npy --index runs/titles --metric angular
      sylvan index base.npy --index runs/titles --queries learn.npy --set n_buckets=256 --recall 0.9
      sylvan index base.npy --index runs/titles --shards 4 --figure report.svg
      sylvan index base.npy --index runs/titles --config titles.toml
    """
    from sylvan.cli.details import check_figures
    from sylvan.store import check_target

    index: Any = IRLIIndex(**_settings(ctx, flags))
    index.check_params()
    if flags["recall"] is not None and not 0 < flags["recall"] <= 1:
        raise ParameterError(f"--recall must be a number in (0, 1]. Got {flags['recall']} instead.")
    for option, needed in (("neighbors", "queries"), ("tune_on", "recall")):
        if flags[option] is not None and flags[needed] is None:
            raise click.UsageError(f"--{option.replace('_', '-')} is for --{needed}.", ctx)
    if flags["planning"] and flags["shards"] is not None:
        raise click.UsageError("--plan is for an index without --shards.", ctx)
    check_figures(flags["figures"])
    check_target(folder)
    if flags["shards"] is not None:
        index = ShardedIRLIIndex(index, flags["shards"])
    try:
        with quietly(flags):
            _build(Session.of(ctx), index, base, folder, flags)
    finally:
        if flags["shards"] is not None:
            index.close()


def _settings(ctx: click.Context, flags: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the index; one error for everything that is wrong with them."""
    config = of.config_of(ctx)
    shortcuts = [f"{name}={flags[name]}" for name in ("metric", "seed") if flags[name] is not None]
    parameters = config.read(IRLIIndex, config.typed([*flags["settings"], *shortcuts]), config.parameters)
    if config.text:
        config.problems.append("A [text] table is for 'sylvan train': 'sylvan index' takes vectors.")
    config.refuse()
    return {"n_jobs": flags["threads"], **parameters}


def _build(session: Session, index: Any, base: str, folder: str, flags: dict[str, Any]) -> None:

    vectors = data.load_vectors(base)
    paths = (flags[name] for name in ("queries", "tune_on"))
    queries, tune_on = (None if path is None else data.load_vectors(path) for path in paths)
    neighbors = None if flags["neighbors"] is None else data.load_numbers(flags["neighbors"])
    say(flags, f"Read {counted(len(vectors), 'vector')} of {counted(vectors.shape[1], 'dimension')} from {base}.")
    if flags["planning"]:
        click.echo(index.plan(vectors, queries, neighbors).text())
        return
    start = time.perf_counter()
    checkpoint, work = working(session, index, {**flags, "folder": folder})
    index.fit(vectors, queries, neighbors, **work)
    say(flags, f"Indexed them in {time.perf_counter() - start:.1f} s.")
    tuned = getattr(index, "tuning_", None) if flags["recall"] is None else index.tune(tune_on, flags["recall"])
    for shard, tuning in enumerate(tuned if isinstance(tuned, list) else [tuned] * (tuned is not None)):
        say(flags, f"{f'Shard {shard}: ' if isinstance(tuned, list) else ''}{tuning.text()}")
    replaced = save_state(folder, index.to_state())
    if checkpoint is not None:
        checkpoint.remove()
    say(flags, f"Saved it in {folder} ({folder_size(folder)}).{replaced}")
    result = index.report()
    reports = result if isinstance(result, list) else [result]
    for report in reports:
        say(flags, report.text())
    for path in flags["figures"]:
        stem, dot, suffix = path.rpartition(".")  # of several shards: ``report.svg`` becomes ``report-0.svg`` and so on
        for shard, report in enumerate(reports):
            report.save(path if len(reports) == 1 else f"{stem}-{shard}{dot}{suffix}")


@click.command("search")
@click.argument("index", metavar="INDEX")
@click.argument("queries", metavar="QUERIES")
@click.option("-k", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Vectors per query.")
@click.option("--probes", type=int, metavar="N", help="Buckets opened per repetition.")
@click.option("--min-votes", type=int, metavar="N", help="Repetitions that must agree on a vector.")
@click.option("--order", type=click.Choice(("votes", "probability")),
              help="Order of vectors before the first are compared.")  # fmt: skip
@click.option("--candidates", metavar="N", help="Number of vectors compared with a query, or all.")
@click.option("--counts", is_flag=True, help="Also write how many were compared.")
@click.option("--output", "-o", default="-", metavar="FILE", help="Where to write: JSONL; ids alone as an array when "
              "it ends in .npy; ids and distances as arrays when it ends in .npz; JSONL to stdout by "
              "default.")  # fmt: skip
@of.shared_options
def search_command(index: str, queries: str, output: str, **flags: Any) -> None:
    """Find the nearest vectors to each of QUERIES in the index in the folder INDEX.

    QUERIES is a .npy file of vectors, one per row, or an .npz file of one such array. Each line of the output is
    {"ids": [...], "distances": [...]}, nearest first; an id is a row number in the indexed file. Options that aren't
    given are as the index was built or tuned.

    \b
    Examples:
      sylvan search runs/titles queries.npy -k 5
      sylvan search runs/titles queries.npy --probes 16 --candidates 500 -o nearest.npz
    """
    keep_inputs("output")
    from sylvan.parallel import progress, split_ranges
    from sylvan.store.registry import load

    loaded = load(index)
    if isinstance(loaded, ShardedIRLIIndex):
        loaded.set_params(index__n_jobs=flags["threads"])
    elif isinstance(loaded, IRLIIndex):
        loaded.set_params(n_jobs=flags["threads"])
    else:
        raise ModelError(f"{index!r} holds a {type(loaded).__name__}, which is no index of vectors.")
    settings: dict[str, Any] = {name: flags[name] for name in ("probes", "min_votes", "order", "candidates")}
    if settings["candidates"] not in (None, "all"):
        try:
            settings["candidates"] = int(settings["candidates"])
        except ValueError:
            raise click.UsageError(f"--candidates takes an int or all. Got {flags['candidates']!r} instead.") from None
    vectors = data.load_vectors(queries)
    results = []
    try:
        with quietly(flags), progress("searching", len(vectors), "query") as bar:
            for first, last in split_ranges(len(vectors), _ROWS) or [(0, 0)]:
                results.append(loaded.search(vectors[first:last], flags["k"], **settings, return_counts=True))
                bar.update(last - first)
    finally:
        if isinstance(loaded, ShardedIRLIIndex):
            loaded.close()
    ids, distances, counts = (np.concatenate(arrays) for arrays in zip(*results, strict=True))
    _write(output, ids, distances, counts if flags["counts"] else None)


def _write(output: str, ids: Any, distances: Any, counts: Any) -> None:

    from sylvan.data.streams import check_ending, open_write

    name = output.lower()
    check_ending(output, (".jsonl", ".ndjson", ".json", "", ".npy", ".npz"))
    with open_write(output) as stream:
        if name.endswith(".npy"):
            np.save(stream, ids, allow_pickle=False)
        elif name.endswith(".npz"):
            np.savez(stream, ids=ids, distances=distances, **({} if counts is None else {"candidates": counts}))
        else:
            for row, n in enumerate(np.count_nonzero(ids >= 0, axis=1).tolist()):
                rounded = [float(f"{value:.6g}") for value in distances[row, :n]]
                line = {"ids": ids[row, :n].tolist(), "distances": rounded}
                extra = {} if counts is None else {"candidates": int(counts[row])}
                stream.write((json.dumps(line | extra) + "\n").encode())
