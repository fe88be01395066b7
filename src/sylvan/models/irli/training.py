"""Training of bucket networks (PyTorch): some repetitions together, gradients written out, sparse or dense inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from sylvan.matching.bucket_network import BucketNetwork, Float32

__all__ = ["GroupTrainer", "InputScale", "TrainingOptions", "one_thread"]

_MEASURED = 10  # the loss is computed on one batch of so many
_EPSILON = 1e-10
_SPARSE_SIZE = np.float32(0.1)


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch computes on one thread in the block: groups of repetitions run beside each other instead."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class TrainingOptions:
    """How bucket networks are trained."""

    hidden: int
    learning_rate: float
    batch_size: int
    row_learning_rate: float = 0.1
    dropout: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class InputScale:
    """What is taken from dense inputs, and what all inputs are multiplied with, before they reach a network.

    Networks learn best from numbers around 1, whatever the unit of the inputs. Both are folded into the first layer
    when a network is given out.
    """

    mean: Float32 | None  # (n_features,); None for sparse inputs, whose zeros must stay
    factor: float

    @classmethod
    def of(cls, X: Float32 | sp.csr_matrix) -> InputScale:
        """The scale that gives features (sparse: rows) a mean square of 1."""
        if sp.issparse(X):
            square = float(np.square(X.data, dtype=np.float64).sum()) / max(X.shape[0], 1)
            return cls(None, float(1 / np.sqrt(square)) if square > 0 else 1.0)
        mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        total = sum(float(np.square(X[i : i + 4096] - mean, dtype=np.float64).sum()) for i in range(0, len(X), 4096))
        return cls(mean, float(np.sqrt(X.size / total)) if total > 0 else 1.0)


class GroupTrainer:
    """The networks of some repetitions in training.

    Parameters
    ----------
    X : ndarray of float32, or csr_matrix of float32, of shape (n, n_features)
    truths : csr_matrix of shape (n, n_labels)
    repetitions : range
        Which repetitions these are, of all.
    n_buckets : int
    scale : InputScale
    options : TrainingOptions
    row_weights : ndarray of float32, shape (n,), optional
        Factor of each row's loss.

    Notes
    -----
    The loss of a row and a repetition is the binary cross-entropy of all buckets, summed, against 1 for the buckets
    that hold a label of the row. Dense first layers, second layers and biases are moved by Adam; the first layer of
    sparse inputs row by row, by Adagrad with one sum of squares for each feature and repetition, where a batch has
    the feature.

    What repetition r begins with and what it is shown depend on the seed, r and the epoch, not on which repetitions
    are in the group.
    """

    def __init__(
        self,
        X: Float32 | sp.csr_matrix,
        truths: sp.csr_matrix,
        repetitions: range,
        n_buckets: int,
        scale: InputScale,
        options: TrainingOptions,
        row_weights: npt.NDArray[Any] | None = None,
    ) -> None:
        self.weights = None if row_weights is None else torch.from_numpy(np.ascontiguousarray(row_weights, np.float32))
        self.X, self.truths, self.repetitions = X, truths, repetitions
        self.n_buckets, self.scale, self.options = n_buckets, scale, options
        self.sparse = sp.issparse(X)
        self.epoch = 0
        first, second = zip(*[self._begin(repetition) for repetition in repetitions], strict=True)
        density = min(max(truths.nnz / max(truths.shape[0], 1) / n_buckets, 1e-6), 0.5)
        self.first = torch.from_numpy(np.concatenate(first, axis=1))  # (n_features, G * hidden)
        self.first_bias = torch.zeros(self.first.shape[1])
        self.second = torch.from_numpy(np.stack(second))  # (G, hidden, n_buckets)
        self.second_bias = torch.full((len(repetitions), n_buckets), float(np.log(density / (1 - density))))
        dense = [self.first_bias, self.second, self.second_bias]
        if self.sparse:
            self.sums = torch.zeros(self.first.shape[0], len(repetitions))
        else:
            dense.append(self.first)
        self.optimizer = torch.optim.Adam(dense, lr=options.learning_rate, fused=True)

    def _begin(self, repetition: int) -> tuple[Float32, Float32]:
        """What the layers of a repetition begin with."""
        random = np.random.default_rng([self.options.seed, 1, repetition])
        n_features, hidden = self.X.shape[1], self.options.hidden
        first = random.standard_normal((n_features, hidden), np.float32)
        # What a rare feature adds should be what has been learned about it, hence the little ones of sparse inputs.
        first *= _SPARSE_SIZE if self.sparse else np.float32(np.sqrt(2 / max(n_features, 1)))
        second = random.standard_normal((hidden, self.n_buckets), np.float32)
        second *= np.float32(np.sqrt(1 / max(hidden, 1)))
        return first, second

    def network(self) -> BucketNetwork:
        """The networks as they are now, copied, for inputs that aren't scaled."""
        first, bias = self.first.numpy() * np.float32(self.scale.factor), self.first_bias.numpy().copy()
        if self.scale.mean is not None:
            bias -= self.scale.mean @ first
        return BucketNetwork(first, bias, self.second.numpy().copy(), self.second_bias.numpy().copy())

    def state(self) -> dict[str, Any]:
        """Everything that training goes on from, copied."""
        tensors = {name: getattr(self, name) for name in self._kept()}
        return copy.deepcopy({**tensors, "epoch": self.epoch, "optimizer": self.optimizer.state_dict()})

    def load_state(self, state: Mapping[str, Any]) -> None:
        """What :meth:`state` gave, put back."""
        for name in self._kept():
            getattr(self, name).copy_(state[name])
        self.epoch = state["epoch"]
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))

    def _kept(self) -> list[str]:
        return ["first", "first_bias", "second", "second_bias"] + ["sums"] * self.sparse

    def n_batches(self, rows: npt.NDArray[np.int64] | None = None) -> int:
        """How many batches an epoch has."""
        return -(-(self.X.shape[0] if rows is None else len(rows)) // self.options.batch_size)

    def train(
        self,
        assignment: npt.NDArray[np.int32],
        epochs: int,
        *,
        rows: npt.NDArray[np.int64] | None = None,
        fade: bool = False,
        tick: Callable[[], bool] | None = None,
    ) -> float:
        """Train for some epochs against the buckets of the labels.

        Parameters
        ----------
        assignment : ndarray of int32, shape (G, n_labels)
        epochs : int
        rows : ndarray of int64, optional
            On which rows; all by default.
        fade : bool
            Let the learning rate fall to nothing, step by step.
        tick : callable, optional
            Called after every batch; False ends the training.

        Returns
        -------
        float
            The mean loss of a row and a repetition over the last epoch, on one batch of ten.
        """
        total, losses, done = epochs * self.n_batches(rows), [0.0], 0
        shown = np.arange(self.X.shape[0]) if rows is None else rows
        for _ in range(epochs):
            self.random = [self._generator(repetition) for repetition in self.repetitions]
            order = np.random.default_rng([self.options.seed, 2, self.epoch]).permutation(shown)
            losses = []
            for number, start in enumerate(range(0, len(order), self.options.batch_size)):
                rate = 1 - done / total if fade else 1.0
                batch = np.sort(order[start : start + self.options.batch_size])
                loss = self._step(batch, assignment, rate, measure=number % _MEASURED == 0)
                if loss is not None:
                    losses.append(loss)
                done += 1
                if tick is not None and not tick():
                    return float("nan")
            self.epoch += 1
        return float(np.mean(losses))

    def _step(self, rows: Any, assignment: npt.NDArray[np.int32], rate: float, measure: bool) -> float | None:
        n, n_group = len(rows), len(self.repetitions)
        hits = torch.from_numpy(self._hits(rows, assignment))
        inputs = self._inputs(rows)
        values = torch.from_numpy(np.asarray(inputs @ self.first.numpy(), dtype=np.float32))
        values.add_(self.first_bias).relu_()
        kept = self._dropout(n)
        if kept is not None:
            values *= kept
        hidden = values.view(n, n_group, -1).transpose(0, 1)  # (G, n, hidden)
        logits = torch.baddbmm(self.second_bias.unsqueeze(1), hidden, self.second)  # (G, n, n_buckets)
        loss = None
        if measure:
            right = logits.view(-1)[torch.from_numpy(np.unique(hits.numpy()))].sum(dtype=torch.float64)
            loss = float(torch.nn.functional.softplus(logits).sum(dtype=torch.float64) - right) / (n * n_group)
        slope = logits.sigmoid_()  # of the loss by the logits, once the ones are taken away
        flat = slope.view(-1)
        flat[hits] = flat[hits] - 1  # a place named twice is written the same value twice
        slope /= n
        if self.weights is not None:
            slope *= self.weights[torch.from_numpy(rows)].view(1, n, 1)
        back = torch.bmm(slope, self.second.transpose(1, 2)).transpose(0, 1).reshape(n, -1)
        if kept is not None:
            back *= kept
        back *= values > 0
        self.second.grad = torch.bmm(hidden.transpose(1, 2), slope)
        self.second_bias.grad = slope.sum(dim=1)
        self.first_bias.grad = back.sum(dim=0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.learning_rate * rate
        if self.sparse:
            self._move_rows(inputs, back.numpy(), self.options.row_learning_rate * rate)
        else:
            self.first.grad = torch.from_numpy(inputs.T @ back.numpy())
        self.optimizer.step()
        return loss

    def _inputs(self, rows: Any) -> Any:
        """Some rows, scaled."""
        inputs = self.X[rows]
        if self.sparse:
            return inputs * np.float32(self.scale.factor)
        if self.scale.mean is not None:
            inputs = inputs - self.scale.mean
        return inputs * np.float32(self.scale.factor)

    def _dropout(self, n: int) -> Tensor | None:
        """What hidden values are multiplied with."""
        rate = self.options.dropout
        if not rate:
            return None
        kept = [torch.rand(n, self.options.hidden, generator=random) >= rate for random in self.random]
        return torch.cat(kept, dim=1).float().div_(1 - rate)

    def _hits(self, rows: Any, assignment: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Where in (G, n, n_buckets) there is a label of the row, flat; places may be named twice."""
        labels = self.truths[rows]
        at = np.repeat(np.arange(len(rows), dtype=np.int64), np.diff(labels.indptr)) * self.n_buckets
        groups = np.arange(len(assignment), dtype=np.int64)[:, None] * (len(rows) * self.n_buckets)
        found: npt.NDArray[np.int64] = (groups + at + assignment[:, labels.indices]).ravel()
        return found

    def _generator(self, repetition: int) -> torch.Generator:
        """What decides on a repetition's dropout in this epoch."""
        seeds = np.random.SeedSequence([self.options.seed, 3, self.epoch, repetition])
        return torch.Generator().manual_seed(int(seeds.generate_state(1, np.uint64)[0] >> 1))

    def _move_rows(self, inputs: sp.csr_matrix, back: Float32, rate: float) -> None:
        """Adagrad on the rows of the first layer that a batch has."""
        ids, columns = np.unique(inputs.indices, return_inverse=True)
        part = sp.csr_matrix((inputs.data, columns, inputs.indptr), shape=(inputs.shape[0], len(ids)))
        gradient = torch.from_numpy(np.asarray(part.T.tocsr() @ back)).view(
            len(ids), len(self.repetitions), self.options.hidden
        )
        at = torch.from_numpy(ids.astype(np.int64))
        sums = self.sums.index_select(0, at).add_(gradient.square().mean(dim=2))
        self.sums.index_copy_(0, at, sums)
        gradient *= sums.add_(_EPSILON).rsqrt_().mul_(-rate).unsqueeze(2)
        self.first.index_add_(0, at, gradient.view(len(ids), self.first.shape[1]))
