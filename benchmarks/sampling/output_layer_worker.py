"""One contender's output layer at one number of classes, in a process of its own; ``output_layer.py`` starts it.

The job: ``{"contender": "midx-rq", "n_classes": 100000, ...}``. Times are lists of milliseconds, one a call; memory is
in MiB.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.common import measure, process
from sylvan import sampling
from sylvan.indexing.codebooks import kmeans

FULL = ("full softmax", "full softmax, chunked")
TOPICS = 256  # of the made classes: their embeddings have clusters, as trained ones do
Step = Callable[[], Tensor]


class Layer:
    """A class table, queries and their targets, and what a training step does with them."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.device = torch.device(job["device"])
        # The processor's time of one thread is what passes on an idle machine, and nearly that beside other work.
        alone = self.device.type == "cpu" and job["threads"] == 1
        self.clock = time.process_time if alone else time.perf_counter
        self.n, self.dim, self.batch = job["n_classes"], job["dim"], job["batch"]
        torch.manual_seed(job["seed"])
        centres = 0.2 * torch.randn(TOPICS, self.dim)
        table = torch.randn(self.n, self.dim).mul_(0.1)
        table += centres[torch.randint(TOPICS, (self.n,))]
        self.counts = 1e7 / torch.arange(1, self.n + 1, dtype=torch.float64)  # Zipf's
        self.targets = torch.multinomial(self.counts, self.batch, replacement=True).to(self.device)
        queries = table[self.targets.cpu()] + 0.2 * torch.randn(self.batch, self.dim)
        self.table = nn.Parameter(table.to(self.device))
        self.queries = queries.to(self.device).requires_grad_()

    def clear(self) -> None:
        """Forgets gradients, as before each step."""
        self.table.grad = self.queries.grad = None

    def step(self, loss: Callable[..., Tensor]) -> Step:
        """A forward and a backward pass."""

        def run() -> Tensor:
            self.clear()
            value = loss(self.queries, self.table, self.targets)
            value.backward()
            return value

        return run

    def synchronize(self) -> None:
        """Waits for the GPU, where there is one."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def times(self, work: Callable[[], Any], seconds: float, most: int = 50) -> list[float]:
        """Milliseconds of each call, until ``seconds`` are spent; at least one call."""
        found: list[float] = []
        while not found or (sum(found) < 1e3 * seconds and len(found) < most):
            self.synchronize()
            start = self.clock()
            work()
            self.synchronize()
            found.append(1e3 * (self.clock() - start))
        return found

    def peak(self, work: Callable[[], Any]) -> float:
        """MiB that one call adds to what was resident before it."""
        if self.device.type == "cuda":
            before = torch.cuda.memory_allocated(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            work()
            return (torch.cuda.max_memory_allocated(self.device) - before) / measure.MIB
        measure.forget_peak()
        before = measure.resident()
        work()
        return measure.peak_resident() - before


def make_sampler(name: str, layer: Layer, job: dict[str, Any]) -> sampling.Sampler:
    """The sampler of a contender, not yet refreshed."""
    if name == "uniform":
        return sampling.Uniform(layer.n)
    if name == "unigram":
        return sampling.Unigram(layer.n, counts=layer.counts)
    if name.startswith("midx"):
        words = name.split("-")
        # "-torch": as where Sylvan's compiled code isn't there.
        native = False if "torch" in words else None
        quantizer = "pq" if "pq" in words else "rq"
        return sampling.MIDX(
            layer.n, layer.dim, n_codewords=job["codewords"], quantizer=quantizer, native=native,
            query_aware="aware" in words,
        )  # fmt: skip
    kind: Any = getattr(sampling, {"lsh": "LSH", "sphere": "Sphere", "rff": "RFF"}[name])
    made: sampling.Sampler = kind(layer.n, layer.dim)
    return made


def make_tail_sampler(name: str, layer: Layer, job: dict[str, Any]) -> sampling.Sampler:
    """That of a contender with a head, which holds the most frequent classes."""
    n_head, tail = job["n_head"], name.removeprefix("head-")
    more = {"n_codewords": job["codewords"]} if "midx" in tail else {}
    return sampling.make_tail_sampler(tail, layer.n, layer.dim, counts=layer.counts, n_head=n_head, **more)


def lloyd(layer: Layer, n_codewords: int) -> list[float]:
    """Milliseconds of a Lloyd iteration over the whole table: what three take more than one does, halved."""
    rows = layer.table.detach()
    start = rows[:: max(layer.n // n_codewords, 1)][:n_codewords]
    taken = [
        layer.times(lambda n=n: kmeans(rows, n_codewords, start=start, n_iterations=n), 0)[0]  # type: ignore[misc]
        for n in (1, 3)
    ]
    return [(taken[1] - taken[0]) / 2]


def optimise(layer: Layer, optimizers: dict[str, torch.optim.Optimizer], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each optimiser's step on the gradient that the last backward pass left."""
    found = {}
    for name, optimizer in optimizers.items():
        optimizer.step()  # makes its state
        found[f"{name}_ms"] = layer.times(optimizer.step, seconds)
        optimizer.state.clear()
    return found


def full(layer: Layer, job: dict[str, Any]) -> dict[str, Any]:
    """Full softmax, plain or chunked, and what dense optimisers add."""
    chunked = sampling.FullSoftmaxLoss()

    def plain(queries: Tensor, table: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(queries @ table.t(), targets)

    work = layer.step(plain if job["contender"] == FULL[0] else chunked)
    found: dict[str, Any] = {"peak_mib": layer.peak(work)}
    found["step_ms"] = layer.times(work, job["seconds"])
    dense: dict[str, torch.optim.Optimizer] = {
        "adam": torch.optim.Adam([layer.table], lr=1e-3), "sgd": torch.optim.SGD([layer.table], lr=1e-3),
    }  # fmt: skip
    return found | optimise(layer, dense, job["seconds"])


def sampled(layer: Layer, job: dict[str, Any]) -> dict[str, Any]:
    """A loss with negatives of each query's own, then with some for the whole batch; drawing; refreshing."""
    headed = job["contender"].startswith("head-")
    sampler = (make_tail_sampler if headed else make_sampler)(job["contender"], layer, job).to(layer.device)
    kind = sampling.HeadAndTailLoss if headed else sampling.SampledSoftmaxLoss
    found: dict[str, Any] = {}
    if sampler.adaptive:
        found["refresh_ms"] = layer.times(lambda: sampler.refresh(layer.table), 0)
        # A second one starts from the first one's codebooks, as it does in training, and has seen queries by then.
        sampler.sample(layer.queries.detach(), job["n_samples"])
        found["refresh_again_ms"] = layer.times(lambda: sampler.refresh(layer.table), 0)
    if job["contender"] == "midx-rq":
        found["lloyd_ms"] = lloyd(layer, job["codewords"])
    queries = layer.queries.detach()
    for way, n, shared in (("own", job["n_samples"], False), ("shared", job["n_shared"], True)):
        loss: Any = kind(sampler, n, shared=shared)
        work = layer.step(loss)
        figures: dict[str, Any] = {"peak_mib": layer.peak(work)}
        figures["step_ms"] = layer.times(work, job["seconds"])
        figures |= optimise(layer, {"adagrad": sampling.RowwiseAdagrad([layer.table], lr=1e-3)}, job["seconds"])
        layer.clear()
        figures["draw_ms"] = layer.times(
            lambda n=n, shared=shared: sampler.sample(queries, n, shared=shared), job["seconds"]
        )
        found[way] = figures
    return found


def measured(job: dict[str, Any]) -> dict[str, Any]:
    """The job's figures."""
    torch.set_num_threads(job["threads"])
    layer = Layer(job)
    with measure.Clock() as clock:
        found = (full if job["contender"] in FULL else sampled)(layer, job)
    return found | {"wall_s": clock.wall, "torch": str(torch.__version__)}


if __name__ == "__main__":
    process.serve(measured)
