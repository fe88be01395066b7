"""How a deep matcher is fine-tuned: what all its layers share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sylvan.errors import ParameterError
from sylvan.models.transformer.cost_weights import COSTS
from sylvan.params import Choice, Constraint, Flag, Number, Parameterized

__all__ = ["DeepSettings"]

TABLE_OPTIMIZERS = ("rowwise-adagrad", "sparse-adam")


@dataclass(repr=False)
class DeepSettings(Parameterized):
    """How a deep matcher is fine-tuned.

    Parameters
    ----------
    learning_rate : float
        Of AdamW, for all of the encoder but its tables with sparse gradients; the highest of its schedule.
    row_learning_rate : float
        Of the encoder's tables with sparse gradients (those of a bag of features), by ``optimizer``.
    label_learning_rate : float
        Of the vectors of the layer's nodes, by ``optimizer``. A bag that begins with nothing wants 0.15.
    optimizer : {"rowwise-adagrad", "sparse-adam"}
        Of everything with sparse gradients. ``"rowwise-adagrad"`` keeps one number a row; ``"sparse-adam"`` two more
        tables, and takes longer. The rates above are the first's; the second wants a tenth of them.
    weight_decay : float
        Of AdamW; biases and the scales of normalisations have none.
    batch_size : int
    epochs : float, or one a layer
        Passes over the rows in each layer; half an epoch is 0.5.
    max_steps : int, or one a layer, optional
        The most steps of a layer.
    warmup : float
        Share of a layer's steps in which the rates rise; they fall to 0 over all the others.
    clip_norm : float, optional
        The most that the gradients' common norm may be.
    beam : int
        Nodes of the layer above whose children are candidates, beside those with a positive below them.
    relevance : {"l1", "l2", "max", "none"}
        The norm of costs by recursive label counts; ``"none"`` for no costs. See
        :func:`~sylvan.models.transformer.cost_weights.cost_weights`.
    negative_cost : float
        Factor of a negative's loss.
    bootstrap : bool
        Whether a layer's vectors begin with the linear ranker's on the current embeddings; otherwise with zeros.
    bootstrap_cost : float
        That ranker's cost.
    refresh : int, optional
        Steps within a layer after which the layer above is searched anew with the current embeddings; by default only
        when a layer begins.
    held_out : int
        Rows kept apart (a tenth of all at most), on which a layer is measured by P@5 (P@1 where a row has fewer than
        10 candidates) to keep the best model, the last of equal ones; 0 for none.
    evaluations : int
        Measurements a layer, the last at its end. With held-out rows there is one more before it begins: a layer that
        only gets worse stays as it was.
    patience : int, optional
        A layer ends after so many measurements in a row without a better one.
    seed : int

    Notes
    -----
    Zhang, Chang, Yu & Dhillon (2021), "Fast multi-resolution transformer fine-tuning for extreme multi-label text
    classification", Section 3.
    """

    learning_rate: float = 1e-4
    row_learning_rate: float = 0.3
    label_learning_rate: float = 0.01
    optimizer: str = "rowwise-adagrad"
    weight_decay: float = 0.01
    batch_size: int = 32
    epochs: float | Sequence[float] = 1.0
    max_steps: int | Sequence[int] | None = None
    warmup: float = 0.1
    clip_norm: float | None = 1.0
    beam: int = 20
    relevance: str = "l1"
    negative_cost: float = 0.1
    bootstrap: bool = True
    bootstrap_cost: float = 1.0
    refresh: int | None = None
    held_out: int = 0
    evaluations: int = 4
    patience: int | None = None
    seed: int = 0

    constraints: ClassVar[dict[str, Constraint]] = {
        "learning_rate": Number(float, 0),
        "row_learning_rate": Number(float, 0, open_low=True),
        "label_learning_rate": Number(float, 0, open_low=True),
        "optimizer": Choice(TABLE_OPTIMIZERS),
        "weight_decay": Number(float, 0),
        "batch_size": Number(int, 1),
        "warmup": Number(float, 0, 1),
        "clip_norm": Number(float, 0, open_low=True, optional=True),
        "beam": Number(int, 1),
        "relevance": Choice(COSTS),
        "negative_cost": Number(float, 0, open_low=True),
        "bootstrap": Flag(),
        "bootstrap_cost": Number(float, 0, open_low=True),
        "refresh": Number(int, 1, optional=True),
        "held_out": Number(int, 0),
        "evaluations": Number(int, 1),
        "patience": Number(int, 1, optional=True),
        "seed": Number(int, 0, 2**31 - 1),
    }
    each_layer: ClassVar[dict[str, Constraint]] = {
        "epochs": Number(float, 0, open_low=True),
        "max_steps": Number(int, 1, optional=True),
    }

    def check(self, n_layers: int) -> None:
        """Hold every parameter's range for ``n_layers`` layers.

        Raises
        ------
        ParameterError
        """
        self.check_params()
        if self.patience is not None and not self.held_out:
            raise ParameterError(
                "The 'patience' parameter needs 'held_out' rows to measure by, at least 1. Got held_out=0 instead."
            )
        for name in self.each_layer:
            for at in range(n_layers):
                self._of_layer(name, at, n_layers)

    def _of_layer(self, name: str, at: int, n_layers: int) -> Any:
        """A parameter that is one value or one a layer, for the layer that is trained as number ``at``."""
        value, allowed = getattr(self, name), self.each_layer[name]
        if isinstance(value, (list, tuple)):
            if len(value) != n_layers:
                are = "is" if n_layers == 1 else "are"
                raise ParameterError(
                    f"The {name!r} parameter of DeepSettings names {len(value)} layers, but {n_layers} {are} trained."
                )
            value = value[at]
        if (value is None and not allowed.optional) or (value is not None and not allowed.accepts(value)):
            raise ParameterError(
                f"The {name!r} parameter of DeepSettings must be {allowed.describe()}, or a list of them, one a layer "
                f"that is trained. Got {getattr(self, name)!r} instead."
            )
        return value

    def steps(self, n_rows: int, at: int, n_layers: int, accumulate: int = 1) -> int:
        """Steps of the layer that is trained as number ``at`` of ``n_layers``, on ``n_rows`` rows.

        ``accumulate`` is the number of batches that make one step.
        """
        each_epoch = -(-n_rows // (self.batch_size * accumulate))
        wanted = max(1, round(float(self._of_layer("epochs", at, n_layers)) * each_epoch))
        most = self._of_layer("max_steps", at, n_layers)
        return wanted if most is None else min(wanted, int(most))
