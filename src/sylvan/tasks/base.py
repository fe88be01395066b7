"""What the tasks have in common: an output layer over classes with any sampler and loss, and its optimisers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import nn

from sylvan.neural.loop.schedule import RefreshSchedule
from sylvan.neural.loop.training import Job
from sylvan.params import KW_ONLY, Parameterized, Range, parameterized
from sylvan.sampling import BeamTreeHead, ClassLoss, RowwiseAdagrad, Sampler, check_optimizer
from sylvan.tasks.objective import AUTO, ClassObjective, negatives, usual_loss

__all__ = ["TableOptimizer", "Task", "context_centers", "objective_optimizers", "table_optimizer"]

TableOptimizer = Literal["adagrad", "rowwise-adagrad", "sgd", "adam"]


def context_centers(
    before: npt.NDArray[Any], targets: npt.NDArray[Any], n_classes: int, dim: int = 64
) -> npt.NDArray[np.float32]:
    """Classes with like vectors follow on like things. For every class it is counted what came before it; the roots of
    the shares of each, seen from the directions in which classes differ most, are its vector."""
    # Shapes: before (n, m); targets (n,); returns (n_classes, dim or fewer)
    places = before.shape[1]
    real = before >= 0
    columns = (before.astype(np.int64) + n_classes * np.arange(places))[real]
    rows = np.broadcast_to(targets[:, None], before.shape)[real]
    counts = sp.csr_matrix(
        (np.ones(len(rows), np.float64), (rows, columns)), shape=(n_classes, places * n_classes)
    )  # repeated ones are summed
    sums = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1.0)
    shares = (sp.diags(1 / sums) @ counts).sqrt().tocsr()
    dim = min(dim, n_classes)
    # A randomised look at the rows' space and two steps towards its main directions: the same bits every time.
    basis = shares @ np.random.default_rng(0).standard_normal((shares.shape[1], dim))
    for _ in range(2):
        basis = shares @ (shares.T @ np.linalg.qr(basis)[0])
    directions = np.linalg.qr(shares.T @ np.linalg.qr(basis)[0])[0]
    result: npt.NDArray[np.float32] = (shares @ directions).astype(np.float32)
    return result


def table_optimizer(
    name: str, tables: Sequence[nn.Parameter], rate: float, *, sparse: bool, warn: bool = False
) -> torch.optim.Optimizer:
    """The optimiser of that name."""
    made: torch.optim.Optimizer
    if name == "adagrad":
        made = RowwiseAdagrad(tables, lr=rate, elementwise=True)
    elif name == "rowwise-adagrad":
        made = RowwiseAdagrad(tables, lr=rate)
    elif name == "sgd":
        made = torch.optim.SGD(tables, lr=rate)
    else:
        made = torch.optim.SparseAdam(tables, lr=rate) if sparse else torch.optim.Adam(tables, lr=rate)
    if warn:
        check_optimizer(made, tables[0])
    return made


def objective_optimizers(name: str, objective: ClassObjective, rate: float) -> list[torch.optim.Optimizer]:
    """The optimiser of that name for what an objective has of tables, a head's weights among them; none without."""
    tables, headed = objective.tables(), objective.head is not None
    return [table_optimizer(name, tables, rate, sparse=headed, warn=headed)] if tables else []


@parameterized
class Task(Parameterized, Job):
    """Base of the tasks; :class:`~sylvan.tasks.SequentialRecommendation` says what the parameters are. A task sets
    ``usual_negatives``, the number of them where there are classes enough, and ``data_names``, the parameters that are
    no settings."""

    _: KW_ONLY
    sampler: str | Sampler = "midx-aware-rq"
    loss: str | ClassLoss | BeamTreeHead = AUTO
    n_samples: Annotated[int | None, Range(1)] = None
    shared: bool = False
    codewords: Annotated[int, Range(1)] = 64
    sampler_parameters: Mapping[str, Any] | None = None
    loss_parameters: Mapping[str, Any] | None = None
    refresh: RefreshSchedule | None = None
    dropout: Annotated[float, Range(0, 1)] = 0.0
    batch_size: Annotated[int, Range(1)] = 128
    optimizer: TableOptimizer = "rowwise-adagrad"
    learning_rate: Annotated[float, Range(0, open_low=True)] = 0.001
    table_learning_rate: Annotated[float, Range(0, open_low=True)] = 0.05
    seed: Annotated[int, Range(0)] = 0
    device: str | torch.device = "cpu"

    usual_negatives = 1000
    data_names: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.check_params()
        self._prepare()

    def _prepare(self) -> None:
        """Make what is trained, and its optimisers, of checked parameters."""
        raise TypeError(f"{type(self).__name__} is abstract: it prepares nothing.")

    def make_objective(
        self, n_classes: int, dim: int, counts: np.ndarray[Any, Any], centers: Callable[[], Any]
    ) -> ClassObjective:
        """What the queries are trained towards, with as many negatives as ``n_samples_``, by the loss ``loss_``."""
        self.n_samples_ = negatives(self.n_samples, self.usual_negatives, n_classes)
        self.loss_ = usual_loss(self.sampler, n_classes) if self.loss == AUTO else self.loss
        return ClassObjective(
            n_classes, dim, sampler=self.sampler, loss=self.loss_, n_samples=self.n_samples_, counts=counts,
            sampler_parameters=self.sampler_parameters, loss_parameters=self.loss_parameters, shared=self.shared,
            codewords=self.codewords, refresh=self.refresh, centers=centers,
        )  # fmt: skip

    def make_module(
        self, encoder: nn.Module, objective: ClassObjective, name: str, table: nn.Parameter
    ) -> nn.Parameter:
        """Put together what is trained; the class table, which is called ``name``, or the head's weights instead."""
        self.module = nn.ModuleDict({"encoder": encoder, "objective": objective})
        if objective.head is None:
            self.module.register_parameter(name, table)
        self.module.to(self.device)
        return table if objective.head is None else objective.head.edge_weights

    def class_optimizers(
        self, objective: ClassObjective, table: nn.Parameter, sampled: bool
    ) -> list[torch.optim.Optimizer]:
        """The optimisers of the class table, or of what stands for it; ``sampled`` where its gradients are sparse."""
        rate = self.table_learning_rate
        own = [] if objective.head is not None else [
            table_optimizer(self.optimizer, [table], rate, sparse=sampled, warn=sampled)
        ]  # fmt: skip
        return [*own, *objective_optimizers(self.optimizer, objective, rate)]

    def plain_settings(self) -> dict[str, Any]:
        """The parameters that decide what is trained, as plain values."""
        results = {name: value for name, value in self.get_params(deep=False).items() if name not in self.data_names}
        plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in results.items()}
        return {**plain, "n_samples": self.n_samples_, "loss": self.loss_}
