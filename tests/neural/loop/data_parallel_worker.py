"""Two processes whose model PyTorch wraps: ``test_data_parallel`` starts them and reads the gradients that they wrote.

The class table is an ``nn.Parameter`` with dense gradients, or the weight of an ``nn.Embedding(sparse=True)``.
"""

import sys
from pathlib import Path

import torch
from forked_processes import together
from torch import Tensor, nn

from sylvan.indexing import balanced_tree
from sylvan.sampling import BeamTreeHead, CANELoss, FullSoftmaxLoss, SampledSoftmaxLoss, Uniform

N_CLASSES, DIM, PADDING = 20, 4, -100
BATCHES = {"both": ([1, 5, 5, 19], [0, 7, PADDING, 3]), "one is padding": ([2, 2, 8, 11], [PADDING] * 4)}
KINDS = ("parameter", "embedding", "full", "cane", "head")


def first_six(queries: Tensor, table: Tensor) -> Tensor:
    return torch.arange(6).expand(len(queries), -1)


class Model(nn.Module):
    """A layer and what is over the classes; its output is the loss."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, DIM)
        sparse = kind == "embedding"
        if kind == "head":
            self.loss = BeamTreeHead(DIM, balanced_tree(range(N_CLASSES), branching=4), sparse=False)
        elif kind == "cane":
            self.loss = CANELoss(first_six, Uniform(N_CLASSES), n_noises=3, sparse=False)
        else:
            sampled = SampledSoftmaxLoss(Uniform(N_CLASSES), 5, sparse=sparse)
            self.loss = FullSoftmaxLoss() if kind == "full" else sampled
        if sparse:
            self.table = nn.Embedding(N_CLASSES, DIM, sparse=True)
        elif kind != "head":
            self.weight = nn.Parameter(torch.randn(N_CLASSES, DIM))

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        if isinstance(self.loss, BeamTreeHead):
            return self.loss(self.layer(x), targets)
        return self.loss(self.layer(x), self.table.weight if hasattr(self, "table") else self.weight, targets)


def rows(process: int) -> Tensor:
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(10 + process))


def loss_of(model: nn.Module, batch: str, process: int) -> Tensor:
    """The loss of a process's batch, with its own draws."""
    torch.manual_seed(100 + process)
    loss: Tensor = model(rows(process), torch.tensor(BATCHES[batch][process]))
    return loss


def gradients(model: nn.Module) -> list[Tensor]:
    """Dense, of all parameters in their order."""
    found = [parameter.grad for parameter in model.parameters()]
    return [each.to_dense() if each.is_sparse else each for each in found if each is not None]


def work(process: int) -> None:
    torch.distributed.init_process_group("gloo", rank=process, world_size=2)
    found = {}
    for kind in KINDS:
        for batch in BATCHES:
            model = nn.parallel.DistributedDataParallel(Model(kind))
            loss_of(model, batch, process).backward()
            found[kind, batch] = gradients(model)
    torch.save(found, Path(sys.argv[1]) / f"{process}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    sys.exit(max(together(work, seconds=400.0)))
