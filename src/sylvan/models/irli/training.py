"""Training of bucket networks (PyTorch): some repetitions together, gradients written out, sparse or dense inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

try:
    from threadpoolctl import threadpool_limits
except ImportError:  # slower, no different: it comes with Sylvan's extra "neural", not with PyTorch
    threadpool_limits = None


from sylvan.arrays.types import Float32, Int32, Int64
from sylvan.models.irli.rounds import LAYERS, Lesson, State
from sylvan.parallel import advance

_MEASURED = 10  # the loss is computed on one batch of so many, and progress shown
_EPSILON = 1e-10
_SPARSE_SIZE = np.float32(0.1)
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch and NumPy's products compute on one thread in the block: threads of our own run beside each other.
    Products that start threads in each of several threads wait for each other, which can take most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with nullcontext() if threadpool_limits is None else threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


class GroupTrainer:
    """The networks of some repetitions in training. The loss of a row and a repetition is the binary cross-entropy of
    all buckets, summed, against 1 for those that hold a label of the row. The first layer of sparse inputs is moved by
    row-wise Adagrad, the rest by Adam. What repetition r begins with and is shown depends on the seed, r and the epoch,
    not on the group."""

    def __init__(
        self,
        lesson: Lesson,
        repetitions: range,  # which repetitions these are, of all
        state: State | None = None,  # what `state` gave, to go on from; it is copied
    ) -> None:
        weights, self.repetitions = lesson.weights, repetitions
        self.weights = None if weights is None else torch.from_numpy(np.ascontiguousarray(weights, np.float32))
        self.X, self.truths, self.settings, self.scale = lesson.X, lesson.truths, lesson.settings, lesson.scale
        settings, self.sparse = lesson.settings, sp.issparse(lesson.X)
        begun = self._begin() if state is None else {name: np.array(array) for name, array in state.items()}
        self.epoch = int(begun["epoch"])
        tensors = {name: torch.from_numpy(begun[name]) for name in LAYERS}
        self.first, self.first_bias = tensors["first"], tensors["first_bias"]  # (n_features, G * hidden)
        self.second, self.second_bias = tensors["second"], tensors["second_bias"]  # (G, hidden, n_buckets)
        self.by_adam = [name for name in LAYERS if name != "first" or not self.sparse]
        if self.sparse:
            self.sums = torch.from_numpy(begun["sums"])  # (n_features, G)
        adam = torch.optim.Adam([tensors[name] for name in self.by_adam], lr=settings.learning_rate, fused=True)
        moments = {
            i: {key: torch.from_numpy(begun[f"{name}.{key}"]) for key in _MOMENTS}
            for i, name in enumerate(self.by_adam)
            if f"{name}.step" in begun
        }
        adam.load_state_dict({"state": moments, "param_groups": adam.state_dict()["param_groups"]})
        self.adam = adam

    def _begin(self) -> State:
        """What all begins with."""
        layers, n_features, hidden = [], self.X.shape[1], self.settings.hidden
        for repetition in self.repetitions:
            random = np.random.default_rng([self.settings.seed, 1, repetition])
            first = random.standard_normal((n_features, hidden), np.float32)
            # What a rare feature adds should be what was learned about it, hence the small ones of sparse inputs.
            first *= _SPARSE_SIZE if self.sparse else np.float32(np.sqrt(2 / max(n_features, 1)))
            second = random.standard_normal((hidden, self.settings.n_buckets), np.float32)
            second *= np.float32(np.sqrt(1 / max(hidden, 1)))
            layers.append((first, second))
        density = min(max(self.truths.nnz / max(self.truths.shape[0], 1) / self.settings.n_buckets, 1e-6), 0.5)
        shape = len(layers), self.settings.n_buckets
        begun = {
            "first": np.concatenate([first for first, _ in layers], axis=1),
            "first_bias": np.zeros(len(layers) * hidden, np.float32),
            "second": np.stack([second for _, second in layers]),
            "second_bias": np.full(shape, np.log(density / (1 - density)), np.float32),
            "epoch": np.array(0),
        }
        return {**begun, "sums": np.zeros((n_features, len(layers)), np.float32)} if self.sparse else begun

    def state(self) -> State:
        """Everything that training goes on from, in the memory that this trainer works in."""
        state = {name: getattr(self, name).numpy() for name in (*LAYERS, *["sums"] * self.sparse)}
        for i, moments in self.adam.state_dict()["state"].items():
            state |= {f"{self.by_adam[i]}.{key}": moments[key].numpy() for key in _MOMENTS}
        return {**state, "epoch": np.array(self.epoch)}

    def train(self, assignment: Int32, epochs: int, *, rows: Int64 | None = None, fade: bool = False) -> float:
        """Train for some epochs against the buckets of the labels."""
        # Shapes: assignment (G, n_labels); rows (m,)
        rows = np.arange(self.X.shape[0]) if rows is None else rows
        rows_of_epochs = np.broadcast_to(rows, (epochs, rows.shape[-1]))
        total, losses, done = epochs * -(-rows_of_epochs.shape[1] // self.settings.batch_size), [0.0], 0
        for epoch_rows in rows_of_epochs:
            # what decides on a repetition's dropout in this epoch
            seeds = [[self.settings.seed, 3, self.epoch, repetition] for repetition in self.repetitions]
            states = [np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 1 for seed in seeds]
            self.random = [torch.Generator().manual_seed(int(state)) for state in states]
            order = np.random.default_rng([self.settings.seed, 2, self.epoch]).permutation(epoch_rows)
            losses, starts = [], range(0, len(order), self.settings.batch_size)
            for number, start in enumerate(starts):
                rate = 1 - done / total if fade else 1.0
                batch = np.sort(order[start : start + self.settings.batch_size])
                if (loss := self._step(batch, assignment, rate, measure=number % _MEASURED == 0)) is not None:
                    losses.append(loss)
                    advance(min(_MEASURED, len(starts) - number))
                done += 1
            self.epoch += 1
        return float(np.mean(losses))

    def _step(self, rows: Any, assignment: Int32, rate: float, measure: bool) -> float | None:
        n, n_group = len(rows), len(self.repetitions)
        hits = torch.from_numpy(self._hits(rows, assignment))
        inputs = self.X[rows]
        if self.scale.mean is not None:
            inputs = inputs - self.scale.mean
        inputs = inputs * np.float32(self.scale.factor)
        if self.sparse:
            values = torch.from_numpy(np.asarray(inputs @ self.first.numpy(), dtype=np.float32)).add_(self.first_bias)
        else:  # PyTorch's product, as NumPy's would start threads of its own beside those of the other groups
            values = torch.addmm(self.first_bias, torch.from_numpy(inputs), self.first)
        values.relu_()
        mask, dropout = None, self.settings.dropout
        if dropout:  # what hidden values are multiplied with
            stay = [torch.rand(n, self.settings.hidden, generator=random) >= dropout for random in self.random]
            mask = torch.cat(stay, dim=1).float().div_(1 - dropout)
            values *= mask
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
        if mask is not None:
            back *= mask
        back *= values > 0
        self.second.grad = torch.bmm(hidden.transpose(1, 2), slope)
        self.second_bias.grad = slope.sum(dim=1)
        self.first_bias.grad = back.sum(dim=0)
        self.adam.param_groups[0]["lr"] = self.settings.learning_rate * rate
        if self.sparse:
            self._move_rows(inputs, back.numpy(), self.settings.row_learning_rate * rate)
        else:
            self.first.grad = torch.from_numpy(inputs).T @ back
        self.adam.step()
        return loss

    def _hits(self, rows: Any, assignment: Int32) -> Int64:
        """Where in (G, n, n_buckets) there is a label of the row, flat; places may be named twice."""
        labels = self.truths[rows]
        starts = np.repeat(np.arange(len(rows), dtype=np.int64), np.diff(labels.indptr)) * self.settings.n_buckets
        groups = np.arange(len(assignment), dtype=np.int64)[:, None] * (len(rows) * self.settings.n_buckets)
        return np.asarray((groups + starts + assignment[:, labels.indices]).ravel())

    def _move_rows(self, inputs: sp.csr_matrix, back: Float32, rate: float) -> None:
        """Adagrad on the rows of the first layer that a batch has."""
        ids, columns = np.unique(inputs.indices, return_inverse=True)
        part = sp.csr_matrix((inputs.data, columns, inputs.indptr), shape=(inputs.shape[0], len(ids)))
        shape = len(ids), len(self.repetitions), self.settings.hidden
        gradient = torch.from_numpy(np.asarray(part.T.tocsr() @ back)).view(shape)
        features = torch.from_numpy(ids.astype(np.int64))
        sums = self.sums.index_select(0, features).add_(gradient.square().mean(dim=2))
        self.sums.index_copy_(0, features, sums)
        gradient *= sums.add_(_EPSILON).rsqrt_().mul_(-rate).unsqueeze(2)
        self.first.index_add_(0, features, gradient.view(len(ids), self.first.shape[1]))


def begin_group(lesson: Lesson, repetitions: range) -> State:
    """The networks of some repetitions as they are before any training."""
    return GroupTrainer(lesson, repetitions).state()


def train_group(lesson: Lesson, repetitions: range, state: State, assignment: Int32, epochs: int, **how: Any) -> State:
    """Some epochs of the networks of some repetitions; parameters as of :class:`GroupTrainer` and its ``train``."""
    trainer = GroupTrainer(lesson, repetitions, state)
    loss = trainer.train(assignment, epochs, **how)
    return {**trainer.state(), "loss": np.array(loss)}
