"""Where samplers fail: thirty thousand classes, queries that are sums, large rates; JSON out.

``python -m benchmarks.sampling.peaked`` trains the same model with each loss and sampler. A class has ten of 20,000
signs, a query is the sum of the embeddings of signs (``EmbeddingBag(mode="sum")``), three in ten of them wrong, so
that scores are peaked: they differ by tens from class to class. The class table has ``RowwiseAdagrad(lr=0.3)``,
frequencies are Zipf's, samplers are refreshed every ten steps. After 64, 128 and 256 steps it is measured on other
queries: the sampled loss, the cross-entropy over all classes, accuracy, and whether :meth:`check` warns.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import RESULTS
from benchmarks.common import records
from sylvan.sampling import (
    MIDX,
    ClassLoss,
    FullSoftmaxLoss,
    HeadAndTailLoss,
    RowwiseAdagrad,
    SampledSoftmaxLoss,
    Subset,
    Uniform,
    make_tail_sampler,
)
from sylvan.sampling.losses.sampled_softmax import CrossEntropyEstimate

SETTINGS = {"n_classes": 30_000, "dim": 64, "signs": 20_000, "of_class": 10, "kept": 0.7, "batch": 256}
SETTINGS |= {"codewords": 32, "n_samples": 20, "n_head": 1000, "refresh": 10}
N, DIM = int(SETTINGS["n_classes"]), int(SETTINGS["dim"])
FREQUENCY = 1e6 / torch.arange(1.0, N + 1)


class AsMade(MIDX):
    """MIDX whose scores aren't flattened."""

    def _refresh(self, table: Tensor) -> None:
        super()._refresh(table)
        self.index.flatten(1 / max(float(self.index.factor), 1e-6))


def index(query_aware: bool, kind: type[MIDX] = MIDX, n_classes: int = N) -> MIDX:
    """MIDX as the guide has it, or the paper's."""
    return kind(n_classes, DIM, n_codewords=int(SETTINGS["codewords"]), query_aware=query_aware)


def sampled(sampler: Any, correction: str) -> ClassLoss:
    """Sampled softmax."""
    return SampledSoftmaxLoss(sampler, int(SETTINGS["n_samples"]), correction=correction)


def headed(name: str) -> ClassLoss:
    """Head and tail."""
    more = {} if name == "unigram" else {"n_codewords": SETTINGS["codewords"]}
    tail = make_tail_sampler(name, N, DIM, counts=FREQUENCY, n_head=int(SETTINGS["n_head"]), **more)
    return HeadAndTailLoss(tail, int(SETTINGS["n_samples"]))


def headed_as_made() -> ClassLoss:
    """Head and tail, the tail's index not flattened."""
    n_head = int(SETTINGS["n_head"])
    tail = Subset(N, index(True, AsMade, N - n_head), torch.arange(n_head, N))
    return HeadAndTailLoss(tail, int(SETTINGS["n_samples"]))


CONTENDERS: dict[str, tuple[Callable[[], ClassLoss], float]] = {
    "full softmax": (FullSoftmaxLoss, 0.3),
    "Eq. (1), query-aware MIDX": (lambda: sampled(index(True), "drawn"), 0.3),
    "Eq. (1), query-aware MIDX, rate 0.05": (lambda: sampled(index(True), "drawn"), 0.05),
    "Eq. (1), plain MIDX": (lambda: sampled(index(False), "drawn"), 0.3),
    "Eq. (1), uniform": (lambda: sampled(Uniform(N), "drawn"), 0.3),
    "both corrected, query-aware MIDX": (lambda: sampled(index(True), "all"), 0.3),
    "both corrected, plain MIDX": (lambda: sampled(index(False), "all"), 0.3),
    "both corrected, uniform": (lambda: sampled(Uniform(N), "all"), 0.3),
    "head and tail, query-aware MIDX (the tasks' default)": (lambda: headed("midx-aware-rq"), 0.3),
    "Eq. (1), query-aware MIDX, not flattened": (lambda: sampled(index(True, AsMade), "drawn"), 0.3),
    "both corrected, query-aware MIDX, not flattened": (lambda: sampled(index(True, AsMade), "all"), 0.3),
    "head and tail, query-aware MIDX, not flattened": (headed_as_made, 0.3),
    "head and tail, unigram": (lambda: headed("unigram"), 0.3),
}


class Questions:
    """Queries and their classes."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.signs = torch.randint(int(SETTINGS["signs"]), (N, int(SETTINGS["of_class"])), generator=self.generator)

    def batch(self, n: int) -> tuple[Tensor, Tensor]:
        """Signs (n, of_class) and classes (n,)."""
        classes = torch.multinomial(FREQUENCY, n, replacement=True, generator=self.generator)
        signs = self.signs[classes]
        wrong = torch.rand(signs.shape, generator=self.generator) > SETTINGS["kept"]
        others = torch.randint(int(SETTINGS["signs"]), signs.shape, generator=self.generator)
        return torch.where(wrong, others, signs), classes


def measured(loss: ClassLoss, bag: nn.Module, table: Tensor, asked: tuple[Tensor, Tensor]) -> dict[str, Any]:
    """What is true on other queries, and what the sampled loss says of them."""
    with torch.no_grad():
        queries = bag(asked[0])
        scores = queries @ table.t()
        found: dict[str, Any] = {
            "full": round(float(F.cross_entropy(scores, asked[1])), 3),
            "accuracy": round(float((scores.argmax(dim=1) == asked[1]).float().mean()), 3),
        }
    if isinstance(loss, CrossEntropyEstimate):
        loss.eval()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found["sampled"] = round(loss.check(queries, table, asked[1], n_rows=len(queries)).sampled, 3)
        loss.train()
        found["warned"] = bool(caught)
    return found


def train(name: str, steps: int, seed: int) -> dict[str, Any]:
    """One contender."""
    make, rate = CONTENDERS[name]
    questions, asked = Questions(seed), Questions(seed)
    asked.generator.manual_seed(seed + 1)
    test = asked.batch(1000)
    torch.manual_seed(seed)
    bag = nn.EmbeddingBag(int(SETTINGS["signs"]), DIM, mode="sum")
    table = nn.Parameter(0.1 * torch.randn(N, DIM))
    loss = make()
    sampler = getattr(loss, "sampler", None)
    optimizers = [torch.optim.Adam(bag.parameters(), lr=0.01), RowwiseAdagrad([table], lr=rate)]
    begun, curve = time.process_time(), []
    for step in range(1, steps + 1):
        if sampler is not None and (step - 1) % int(SETTINGS["refresh"]) == 0:
            sampler.refresh(table)
        signs, classes = questions.batch(int(SETTINGS["batch"]))
        value = loss(bag(signs), table, classes)
        for optimizer in optimizers:
            optimizer.zero_grad()
        value.backward()
        for optimizer in optimizers:
            optimizer.step()
        if step >= 64 and step & (step - 1) == 0:
            spent = round(time.process_time() - begun, 1)
            curve.append({"step": step, "cpu_s": spent, **measured(loss, bag, table, test)})
            print(name, curve[-1], flush=True)
    return {"contender": name, "rate": rate, "seed": seed, "curve": curve}


def main() -> None:
    """Runs what the command line asks for; rows of other contenders stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", type=lambda text: text.split(";"), help="between semicolons; all by default")
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "peaked_scores.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    book = records.Book(options.out)
    for name in options.contenders or CONTENDERS:
        if book.find({"contender": name, "seed": options.seed, "steps": options.steps}) is None:
            book.add({**train(name, options.steps, options.seed), "steps": options.steps, "settings": SETTINGS})


if __name__ == "__main__":
    main()
