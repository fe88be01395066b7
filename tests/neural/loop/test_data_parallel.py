"""Losses over classes under PyTorch's DistributedDataParallel: the gradients are the mean of those of the processes,
and a process whose batch is padding alone holds no other up."""

import os
from pathlib import Path

import pytest
import torch
from child_processes import environment, python
from data_parallel_worker import BATCHES, KINDS, Model, gradients, loss_of

pytest.importorskip("accelerate")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes that find each other by gloo")
WORKER = Path(__file__).parent / "data_parallel_worker.py"


@pytest.fixture(scope="module")
def of_processes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[tuple[str, str], list[torch.Tensor]]]:
    folder = tmp_path_factory.mktemp("gradients")
    ended = python(WORKER, folder, env=environment(WORKER.parent))
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [torch.load(folder / f"{process}.pt", weights_only=True) for process in range(2)]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_the_mean_of_those_of_the_processes(
    kind: str, batch: str, of_processes: list[dict[tuple[str, str], list[torch.Tensor]]]
) -> None:
    each = []
    for process in range(2):
        model = Model(kind)
        loss_of(model, batch, process).backward()
        each.append(gradients(model))
    wanted = [(first + second) / 2 for first, second in zip(*each, strict=True)]
    assert len(wanted) >= 3 and any(gradient.any() for gradient in wanted)
    for found in of_processes:
        assert len(found[kind, batch]) == len(wanted)
        for gradient, mean in zip(found[kind, batch], wanted, strict=True):
            torch.testing.assert_close(gradient, mean, rtol=1e-5, atol=1e-7)
