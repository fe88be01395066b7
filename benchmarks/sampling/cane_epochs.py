"""Perplexity against epochs with CANE, its rivals and the softmax (the paper's figure 3), by sylvan.tasks; JSON out.

``python -m benchmarks.sampling.cane_epochs --data DATA --epochs 3``

Every contender trains the same LSTM of the task ``language-model`` on Penn Treebank, with 40 classes a word, after its
rate for the class table was chosen on the validation words by trainings of ``--tune-steps`` steps with seed 0. What is
finished is written to ``results/cane_epochs_tuning.json`` and ``results/cane_epochs.json`` at once, and the same
command goes on with what is missing; a row that was stopped goes on from its checkpoint, and with more ``--epochs``
from where it had ended. At the end the table is printed and the figure drawn; ``--report`` does only that.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks import CACHE, FIGURES, RESULTS
from benchmarks.common import records, resuming
from benchmarks.sampling import cane_tables, trainings

CONTENDERS = (
    "nce-40", "cane-tree-40", "blackout-40", "cane-40", "full", "cane-tree-20-20", "cane-20-20", "cane-tree-40-unigram",
)  # fmt: skip
NETWORK = {"model": "lstm", "hidden": 64, "embedding": 64, "n_layers": 1, "batch_size": 40}
Row = dict[str, Any]


def command_line(arguments: list[str] | None = None) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of ptb/")
    everyone = f"of {', '.join(CONTENDERS)}"
    parser.add_argument("--contenders", type=resuming.choices(CONTENDERS), default=CONTENDERS, help=everyone)
    parser.add_argument("--seeds", type=resuming.numbers, default=[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--tune-steps", type=int, default=100)
    parser.add_argument("--time-limit", type=float, help="minutes after which no row is begun")
    parser.add_argument("--list", action="store_true", help="the rows, and which are there")
    parser.add_argument("--report", action="store_true", help="print and draw what there is")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plots", type=Path, default=FIGURES)
    parser.add_argument("--scratch", type=Path, default=CACHE / "cane_epochs", help="checkpoints")
    return parser.parse_args(arguments)


def planned(options: argparse.Namespace) -> list[Row]:
    """The rows, seed by seed, without their rates."""
    return [
        {"task": "language-model", "set": "ptb", **NETWORK, "contender": name, "seed": seed}
        for seed in options.seeds
        for name in options.contenders
    ]


def longest(row: Row, book: records.Book) -> int:
    """Epochs of the row's longest training in the book; 0 where there is none."""
    return max((run["epochs"] for run in book.runs if row.items() <= run.items()), default=0)


def rate_of(row: Row, options: argparse.Namespace) -> float:
    """The class table's rate that serves a contender best, searched for where that isn't known yet."""

    book = records.Book(options.results / "cane_epochs_tuning.json")
    search = {**{name: value for name, value in row.items() if name != "seed"}, "steps": options.tune_steps}
    found = book.find(search)
    if found is None:
        found = trainings.tuned(search, options.data, options.scratch)
        found = {name: value for name, value in found.items() if name != "seed"}
        book.add(found)
        print(f"{row['contender']}: rate {found['best']:g} of {found['trials']}", flush=True)
    return float(found["best"])


def trained(row: Row, options: argparse.Namespace) -> Row:
    """One training, from its checkpoint where there is one, and what came of it."""
    import torch

    from sylvan.neural import train

    row = {**row, "table_learning_rate": rate_of(row, options), "tuned": options.tune_steps}
    job = trainings.make_job(row, options.data, options.scratch)
    covered: list[float] = []
    step = job.step

    def noted(batch: Any, number: int) -> Any:
        loss = step(batch, number)
        covered.append(float(getattr(job._objective.loss, "coverage", float("nan"))))
        return loss

    job.step = noted
    folder = options.scratch / f"{row['contender']}-seed{row['seed']}-rate{row['table_learning_rate']:g}"
    history = train(job, epochs=options.epochs, seed=row["seed"], folder=folder, resume=True, checkpoint_every=120.0)
    recent = covered[-200:]
    share = sum(recent) / len(recent) if recent else float("nan")
    return {
        **row,
        "epochs": options.epochs,
        "curve": [
            {"epoch": entry["epoch"], "loss": round(entry["loss"], 5), "perplexity": round(entry["perplexity"], 3)}
            for entry in history.epochs
        ],
        "test": round(history.test["perplexity"], 3),
        "stopped": history.stopped,
        "coverage": round(share, 4) if share == share else None,  # JSON has no NaN
        "torch": torch.__version__,
    }


def train_missing(options: argparse.Namespace, rows: list[Row], book: records.Book) -> None:
    """The rows that aren't in the book with as many epochs."""
    import torch

    torch.set_num_threads(1)
    missing, begun = [row for row in rows if longest(row, book) < options.epochs], time.monotonic()
    for at, row in enumerate(missing):
        spent = (time.monotonic() - begun) / 60
        if options.time_limit and spent > options.time_limit:
            print(f"{len(missing) - at} rows are left; the time is over", flush=True)
            return
        record = trained(row, options)
        book.add(record)
        curve = ", ".join(f"{point['perplexity']:.1f}" for point in record["curve"])
        title = f"[{at + 1}/{len(missing)}] {row['contender']}, seed {row['seed']}"
        print(f"{title}: {curve} ({spent:.1f} min)", flush=True)


def main() -> None:
    """Runs what the command line asks for."""
    options = command_line()
    book, rows = records.Book(options.results / "cane_epochs.json"), planned(options)
    if options.list:
        for row in rows:
            there = longest(row, book) >= options.epochs
            print("done   " if there else "missing", row["contender"], "seed", row["seed"])
        return
    if not options.report:
        train_missing(options, rows, book)
    if book.runs:
        print("\n".join(cane_tables.epochs_table(book.runs)))
        for path in cane_tables.draw(book.runs, options.plots):
            print(path)


if __name__ == "__main__":
    main()
