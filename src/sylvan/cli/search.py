"""``sylvan search``: the nearest vectors to each of a file's, in a saved index."""

from __future__ import annotations

import json
from typing import Any

import click

from sylvan.cli.options import shared_options
from sylvan.errors import ModelError

_ROWS = 4096  # queries between two movements of the progress bar


@click.command("search", short_help="Find the nearest vectors in a saved index.")
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
@shared_options
def command(index: str, queries: str, output: str, **given: Any) -> None:
    """Find the nearest vectors to each of QUERIES in the index in the folder INDEX.

    QUERIES is a .npy file of vectors, one per row, or an .npz file of one such array. Each line of the output is
    {"ids": [...], "distances": [...]}, nearest first; an id is a row number in the indexed file. Options that aren't
    given are as the index was built or tuned.

    \b
    Examples:
      sylvan search runs/titles queries.npy -k 5
      sylvan search runs/titles queries.npy --probes 16 --candidates 500 -o nearest.npz
    """
    import numpy as np

    from sylvan import data
    from sylvan.models.irli.index import IRLIIndex
    from sylvan.models.irli.shards import ShardedIRLIIndex
    from sylvan.parallel import progress, quiet, split_ranges
    from sylvan.store.registry import load

    loaded = load(index)
    if isinstance(loaded, ShardedIRLIIndex):
        loaded.set_params(index__n_jobs=given["threads"])
    elif isinstance(loaded, IRLIIndex):
        loaded.set_params(n_jobs=given["threads"])
    else:
        raise ModelError(f"{index!r} holds a {type(loaded).__name__}, which is no index of vectors.")
    settings: dict[str, Any] = {name: given[name] for name in ("probes", "min_votes", "order")}
    settings["candidates"] = _candidates(given["candidates"])
    vectors = data.load_vectors(queries)
    results = []
    try:
        with quiet(given["quiet"]), progress("searching", len(vectors), "query") as bar:
            for first, last in split_ranges(len(vectors), _ROWS) or [(0, 0)]:
                results.append(loaded.search(vectors[first:last], given["k"], **settings, return_counts=True))
                bar.update(last - first)
    finally:
        if isinstance(loaded, ShardedIRLIIndex):
            loaded.close()
    ids, distances, counts = (np.concatenate(arrays) for arrays in zip(*results, strict=True))
    _write(output, ids, distances, counts if given["counts"] else None)


def _candidates(text: str | None) -> int | str | None:
    if text is None or text == "all":
        return text
    try:
        return int(text)
    except ValueError:
        raise click.UsageError(f"--candidates takes an int or all. Got {text!r} instead.") from None


def _write(output: str, ids: Any, distances: Any, counts: Any) -> None:
    import numpy as np

    from sylvan.data.streams import check_ending, open_write

    name = output.lower()
    check_ending(output, (".jsonl", ".ndjson", ".json", "", ".npy", ".npz"))
    with open_write(output) as stream:
        if name.endswith(".npy"):
            np.save(stream, ids, allow_pickle=False)
        elif name.endswith(".npz"):
            np.savez(stream, ids=ids, distances=distances, **({} if counts is None else {"candidates": counts}))
        else:
            for row in range(len(ids)):
                n = int(np.count_nonzero(ids[row] >= 0))
                line: dict[str, Any] = {
                    "ids": ids[row, :n].tolist(),
                    "distances": [float(f"{value:.6g}") for value in distances[row, :n]],
                }
                if counts is not None:
                    line["candidates"] = int(counts[row])
                stream.write((json.dumps(line) + "\n").encode())
