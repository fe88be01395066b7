"""CANE's language model (Section 5, 7.2) on Penn Treebank: perplexity at equal steps beside NCE, BlackOut and softmax.

    python -m benchmarks.sampling.cane --data DATA/ptb --steps 1327 --seeds 0 1 2 --settings full nce cane-path-mass
    python -m benchmarks.sampling.cane --list
    python -m benchmarks.sampling.cane --report

Perplexity against epochs, by the task ``language-model`` (figure 3), is ``cane_epochs.py``; classification over a tree
(7.1) is ``python -m benchmarks.beam_tree``.

Each run is one file under ``--work``; runs that are there, or under way in another process, are left alone, so that the
command may be stopped, repeated, and started several times. ``--report`` gathers them into
``benchmarks/results/cane_language_model.json`` and prints a table. One thread a process.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import lzma
import math
import os
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import CACHE, RESULTS
from benchmarks.sampling.cane_tables import steps_tables
from sylvan.sampling import (
    MIDX,
    BlackOutLoss,
    CANELoss,
    FrequencySubsets,
    NCELoss,
    Softmax,
    Uniform,
    Unigram,
)

RESULT = RESULTS / "cane_language_model.json"
HIDDEN, EMBEDDING, STREAMS, LENGTH = 128, 200, 20, 35
MARKS = (400, 1327)  # steps after which the validation perplexity is taken; 1,327 are one epoch


class Model(nn.Module):
    """LSTM of two layers; its output is a query."""

    def __init__(self, n_words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, EMBEDDING, sparse=True)
        self.lstm = nn.LSTM(EMBEDDING, HIDDEN, 2)
        self.table = nn.Parameter(torch.empty(n_words, HIDDEN))
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.table, -0.1, 0.1)

    def forward(self, words: Tensor, state: Any) -> tuple[Tensor, Any]:
        output, state = self.lstm(self.embedding(words), state)
        return output, tuple(part.detach() for part in state)


class WholeSoftmax(nn.Module):
    """Cross-entropy over all classes."""

    def forward(self, queries: Tensor, table: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(queries @ table.t(), targets)


class NearbyDraws:
    """Candidates that an adaptive sampler draws, repeated ones once; its index is refreshed as training goes."""

    def __init__(self, sampler: Any, n: int) -> None:
        self.sampler, self.n, self.calls = sampler, n, 0

    def __call__(self, queries: Tensor, table: Tensor) -> Tensor:
        if refresh_is_due(self.calls):
            self.sampler.refresh(table)
        self.calls += 1
        return self.sampler.sample(queries, self.n).ids


class BestOfAll:
    """The classes with the largest scores: what no selector can beat at covering the positive, at full cost."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, queries: Tensor, table: Tensor) -> Tensor:
        return (queries @ table.t()).topk(self.n, dim=1).indices


class Frequent:
    """The most frequent classes, for every query."""

    def __init__(self, counts: Tensor, n: int) -> None:
        self.ids = counts.argsort(descending=True)[:n]

    def __call__(self, queries: Tensor, table: Tensor) -> Tensor:
        return self.ids.expand(len(queries), -1)


def multi_index(counts: Tensor) -> MIDX:
    return MIDX(len(counts), HIDDEN, n_codewords=32, quantizer="rq", class_weights=counts.sqrt())


def refresh_is_due(step: int) -> bool:
    return step % (10 if step < 200 else 50) == 0


_SIZES = {"n_candidates": 40, "n_noises": 1, "together": False}


def noise_of(counts: Tensor, power: float | None) -> Any:
    """A power of the frequencies, or an adaptive sampler for None."""
    if power is None:
        return multi_index(counts)
    return Uniform(len(counts)) if power == 0 else Unigram(len(counts), counts, power=power)


def make_loss(kind: str, counts: Tensor, options: dict[str, Any]) -> nn.Module:
    """The loss of one setting."""
    n_words, options = len(counts), dict(options)
    noise = noise_of(counts, options.pop("power", 1.0))
    if kind == "full":
        return WholeSoftmax()
    if kind in ("nce", "blackout"):
        return {"nce": NCELoss, "blackout": BlackOutLoss}[kind](noise, 40, **options)
    n, n_noises, together = (options.pop(key, value) for key, value in _SIZES.items())
    if kind == "subsets":
        candidates: Any = FrequencySubsets(counts, options.pop("n_subsets", 100), n, HIDDEN, **options)
    elif kind == "softmax":
        candidates = NearbyDraws(Softmax(n_words, HIDDEN), n)
    elif kind == "midx":
        candidates = NearbyDraws(multi_index(counts), n)
    elif kind == "best":
        candidates = BestOfAll(n)
    else:
        candidates = Frequent(counts, n)
    return CANELoss(candidates, noise, n_noises=n_noises, together=together)


def settings() -> dict[str, tuple[str, dict[str, Any]]]:
    """Every setting by name."""
    chosen: dict[str, tuple[str, dict[str, Any]]] = {
        "full": ("full", {}),
        "nce": ("nce", {}),
        "nce-power-0.75": ("nce", {"power": 0.75}),
        "nce-normalizer-0": ("nce", {"log_normalizer": 0.0}),
        "blackout": ("blackout", {}),
        "blackout-power-0.75": ("blackout", {"power": 0.75}),
        "blackout-power-0.5": ("blackout", {"power": 0.5}),
    }
    for learning, split, n_subsets in product(("path", "own"), ("mass", "count"), (100, 10, 25, 250)):
        for reach, beam in (("", 1), ("-fill", n_subsets)):
            name = f"cane-{learning}-{split}-{n_subsets}{reach}"
            chosen.update(_cane(name, "subsets", learning=learning, split=split, n_subsets=n_subsets, beam=beam))
    for kind in ("softmax", "midx", "best", "frequent"):
        chosen.update(_cane(f"cane-{kind}", kind))
    return chosen


def _cane(name: str, kind: str, **options: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """A selector with every noise; 40 candidates and one noise as in the paper, or fewer candidates, more noises."""
    found = {}
    for noise, power in (("uniform", 0.0), ("power", 0.75), ("unigram", 1.0), ("near", None)):
        for n_candidates, n_noises in ((40, 1), (30, 10), (20, 20)):
            given = {**options, "power": power, "n_candidates": n_candidates, "n_noises": n_noises}
            found[f"{name}-{noise}-{n_candidates}v{n_noises}"] = kind, given
            if n_noises > 1:
                found[f"{name}-{noise}-{n_candidates}v{n_noises}-together"] = kind, {**given, "together": True}
    return found


def read_words(folder: Path) -> tuple[Tensor, Tensor, int]:
    """Training and validation words as numbers."""
    texts = {}
    for part in ("train", "valid"):
        with lzma.open(folder / f"{part}.txt.xz", "rt", encoding="utf-8") as file:
            texts[part] = [word for line in file for word in [*line.split(), "<eos>"]]
    numbers = {word: i for i, word in enumerate(dict.fromkeys(texts["train"]))}
    train, valid = (torch.tensor([numbers[word] for word in texts[part]]) for part in ("train", "valid"))
    return train, valid, len(numbers)


def streams(words: Tensor, n: int) -> Tensor:
    length = len(words) // n
    return words[: length * n].view(n, length).t().contiguous()  # (length, n)


@torch.no_grad()
def perplexity(model: Model, table: Tensor, words: Tensor) -> float:
    """Over the full vocabulary, twenty streams side by side."""
    data, state, total, seen = streams(words, STREAMS), None, 0.0, 0
    for start in range(0, len(data) - 1, LENGTH):
        inputs = data[start : min(start + LENGTH, len(data) - 1)]
        targets = data[start + 1 : start + 1 + len(inputs)].reshape(-1)
        output, state = model(inputs, state)
        scores = output.reshape(-1, HIDDEN) @ table.t()
        total += float(nn.functional.cross_entropy(scores, targets, reduction="sum"))
        seen += len(targets)
    return math.exp(total / seen)


def train(name: str, rate: float, seed: int, steps: int, data: tuple[Tensor, Tensor, int]) -> dict[str, Any]:
    """One run: the first ``steps`` steps of training, the perplexity at the marks, coverage over the last steps."""
    words, valid, n_words = data
    torch.manual_seed(seed)
    counts = torch.bincount(words, minlength=n_words).double()
    model = Model(n_words)
    loss = make_loss(settings()[name][0], counts, settings()[name][1])
    adam = torch.optim.Adam(model.lstm.parameters(), lr=2e-3)
    tables = [model.embedding.weight, model.table, *loss.parameters()]
    adagrad = torch.optim.Adagrad(tables, lr=rate)
    parts, state, started = streams(words, STREAMS), None, time.perf_counter()
    marks, coverage, place = {}, [], 0
    for step in range(1, steps + 1):
        if place + LENGTH + 1 > len(parts):
            place, state = 0, None
        output, state = model(parts[place : place + LENGTH], state)
        targets = parts[place + 1 : place + 1 + LENGTH].reshape(-1)
        place += LENGTH
        if isinstance(loss, CANELoss) and loss.noise.adaptive and refresh_is_due(step - 1):
            loss.noise.refresh(model.table)
        value = loss(output.reshape(-1, HIDDEN), model.table, targets)
        adam.zero_grad()
        adagrad.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.lstm.parameters(), 5.0)
        adam.step()
        adagrad.step()
        if isinstance(loss, CANELoss):
            coverage.append(float(loss.coverage))
        if step in MARKS or step == steps:
            whole = loss.output_embeddings(model.table) if isinstance(loss, CANELoss) else model.table
            marks[step] = perplexity(model, whole.detach(), valid)
            print(f"{name} rate {rate} seed {seed}: step {step}, perplexity {marks[step]:.1f}", flush=True)
    recent = coverage[-200:]
    return {
        "setting": name,
        "loss": settings()[name][0],
        "options": settings()[name][1],
        "rate": rate,
        "seed": seed,
        "perplexity": marks,
        "coverage": sum(recent) / len(recent) if recent else None,
        "seconds": time.perf_counter() - started,
    }


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether no other process is at the run of this file; the system lets go of it when a process is killed."""
    with path.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def run_all(arguments: argparse.Namespace) -> None:
    """Every run asked for that isn't there."""
    torch.set_num_threads(1)
    data = read_words(arguments.data)
    arguments.work.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        for name in arguments.settings:
            for rate in arguments.rates:
                key = f"{name}_rate{rate}_seed{seed}_steps{arguments.steps}"
                file = arguments.work / f"{key}.json"
                if file.exists():
                    continue
                with claimed(arguments.work / f"{key}.lock") as free:
                    if not free or file.exists():
                        continue
                    record = train(name, rate, seed, arguments.steps, data)
                    temporary = file.with_suffix(".tmp")
                    temporary.write_text(json.dumps(record, indent=1))
                    os.replace(temporary, file)


def report(work: Path) -> None:
    """All runs in one file, and a table of the best rate of each setting at each mark."""
    records = [json.loads(file.read_text()) for file in sorted(work.glob("*.json"))]
    RESULT.write_text(
        json.dumps({"task": "language model, Penn Treebank, validation", "runs": records}, indent=1) + "\n"
    )
    print("\n".join(steps_tables(records)))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data") / "ptb")
    parser.add_argument("--work", type=Path, default=CACHE / "cane", help="where runs are stored")
    parser.add_argument("--settings", nargs="+", default=["full", "nce", "blackout"], choices=list(settings()))
    parser.add_argument("--rates", nargs="+", type=float, default=[0.1], help="of Adagrad on the tables")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, default=1327)
    parser.add_argument("--list", action="store_true", help="print the settings")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (kind, options) in settings().items():
            print(name, kind, options)
    elif arguments.report:
        report(arguments.work)
    else:
        run_all(arguments)


if __name__ == "__main__":
    main()
