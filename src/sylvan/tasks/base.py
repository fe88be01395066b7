"""What the tasks have in common: an output layer over classes with any sampler and loss, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from sylvan.neural.loop.schedule import RefreshSchedule
from sylvan.neural.loop.training import Job
from sylvan.params import KW_ONLY, Choice, Parameterized, Range, parameterized
from sylvan.sampling import BeamTreeHead, ClassLoss, Sampler
from sylvan.tasks.objective import ClassObjective, negatives
from sylvan.tasks.table_optimizer import TABLE_OPTIMIZERS

__all__ = ["Task"]


@parameterized
class Task(Parameterized, Job):
    """Base of the tasks; :class:`~sylvan.tasks.SequentialRecommendation` says what the parameters are.

    A task sets ``usual_negatives``, the number of them where there are classes enough, and ``data_names``, the
    parameters that are no settings.
    """

    _: KW_ONLY
    sampler: str | Sampler = "midx-aware-rq"
    loss: str | ClassLoss | BeamTreeHead = "sampled-softmax"
    n_samples: Annotated[int | None, Range(1)] = None
    shared: bool = False
    codewords: Annotated[int, Range(1)] = 64
    sampler_parameters: Mapping[str, Any] | None = None
    loss_parameters: Mapping[str, Any] | None = None
    refresh: RefreshSchedule | None = None
    dropout: Annotated[float, Range(0, 1)] = 0.0
    batch_size: Annotated[int, Range(1)] = 128
    optimizer: Annotated[str, Choice(TABLE_OPTIMIZERS)] = "rowwise-adagrad"
    learning_rate: Annotated[float, Range(0, open_low=True)] = 0.001
    table_learning_rate: Annotated[float, Range(0, open_low=True)] = 0.05
    seed: Annotated[int, Range(0)] = 0
    device: str | torch.device = "cpu"

    usual_negatives = 1000
    data_names: ClassVar[tuple[str, ...]] = ()

    def make_objective(
        self, n_classes: int, dim: int, counts: np.ndarray[Any, Any], centers: Callable[[], Any]
    ) -> ClassObjective:
        """What the queries are trained towards, with as many negatives as ``n_samples_`` is then."""
        self.n_samples_ = negatives(self.n_samples, self.usual_negatives, n_classes)
        return ClassObjective(
            n_classes, dim, sampler=self.sampler, loss=self.loss, n_samples=self.n_samples_, counts=counts,
            sampler_parameters=self.sampler_parameters, loss_parameters=self.loss_parameters, shared=self.shared,
            codewords=self.codewords, refresh=self.refresh, centers=centers,
        )  # fmt: skip

    def plain_settings(self) -> dict[str, Any]:
        """The parameters that decide what is trained, as plain values."""
        found = {name: value for name, value in self.get_params(deep=False).items() if name not in self.data_names}
        plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}
        return {**plain, "n_samples": self.n_samples_}
