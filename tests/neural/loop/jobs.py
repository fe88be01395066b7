"""A small job: classify points with dropout, sparse embeddings and a state that is carried from batch to batch."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from kit.bits import bits
from torch import Tensor, nn

from sylvan.neural import Job, load_tree

N, CLASSES, BATCH = 120, 5, 10
PER_EPOCH = N // BATCH


def weights(job: Job) -> Any:
    """The bits that a job's parameters have now."""
    return bits(job.module.state_dict())


def last_bits(folder: Path) -> Any:
    """Those of everything in the last checkpoint: parameters, optimisers, generators."""
    tree = load_tree(folder / "checkpoint", kind="neural-checkpoint")
    states = [list(state.values()) for optimizer in tree["optimizers"] for state in optimizer["state"].values()]
    return bits([tree["module"], states, tree["random"]["cpu"]])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 6, sparse=True)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(6, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.drop(self.words(ids).mean(1)))


class Points(Job):
    """``fail_at`` raises KeyboardInterrupt at that step; ``metrics`` replaces what is measured."""

    metric = "accuracy"

    def __init__(self, seed: int = 0, fail_at: int | None = None, metrics: list[float] | None = None) -> None:
        torch.manual_seed(seed)
        self.module = Net()
        net = self.module
        self.optimizers = [
            torch.optim.Adam(net.out.parameters(), lr=0.02),
            torch.optim.Adagrad(net.words.parameters(), lr=0.1),
        ]
        generator = torch.Generator().manual_seed(99)
        self.x = torch.randint(30, (N, 4), generator=generator)
        self.y = (self.x < 15).sum(1)
        self.carried = torch.zeros(())
        self.seed, self.fail_at, self.metrics = seed, fail_at, metrics
        self.steps: list[int] = []
        self.evaluated: list[str] = []

    def steps_per_epoch(self) -> int:
        return N // BATCH

    def batches(self, epoch: int) -> Iterator[Tensor]:
        self.carried = torch.zeros(())
        order = torch.randperm(N, generator=torch.Generator().manual_seed(1000 * self.seed + epoch))
        yield from order.split(BATCH)

    def step(self, batch: Tensor, step: int) -> Tensor:
        if step == self.fail_at:
            raise KeyboardInterrupt
        self.steps.append(step)
        scores = self.module(self.x[batch]) + self.carried
        self.carried = 0.5 * scores.detach().mean()
        return nn.functional.cross_entropy(scores, self.y[batch])

    def evaluate(self, split: str) -> dict[str, float]:
        torch.rand(3)  # must not matter
        self.evaluated.append(split)
        if self.metrics is not None and split == "validation":
            return {"accuracy": self.metrics.pop(0)}
        return {"accuracy": float((self.module(self.x).argmax(1) == self.y).double().mean())}

    def settings(self) -> dict[str, Any]:
        return {"points": N}

    def state(self) -> dict[str, Any]:
        return {"carried": self.carried}

    def load_state(self, state: dict[str, Any]) -> None:
        self.carried = state["carried"]


class Rows(Points):
    """Points in batches of such sizes, without chance and without what is carried: a step depends on its rows alone."""

    def __init__(self, sizes: Sequence[int], seed: int = 0) -> None:
        super().__init__(seed)
        self.module.drop = nn.Identity()
        self.sizes = tuple(sizes)
        self.seen: list[list[int]] = []

    def steps_per_epoch(self) -> int:
        return len(self.sizes)

    def batches(self, epoch: int) -> Iterator[Any]:
        order = torch.randperm(N, generator=torch.Generator().manual_seed(epoch))
        yield from order[: sum(self.sizes)].split(self.sizes)

    def step(self, batch: Tensor, step: int) -> Tensor:
        self.steps.append(step)
        self.seen.append(batch.tolist())
        return nn.functional.cross_entropy(self.module(self.x[batch]), self.y[batch])
