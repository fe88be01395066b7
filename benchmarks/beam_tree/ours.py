"""What of ours is trained: ``BeamTreeClassifier`` with each loss, a pass at a time, and PyTorch's softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

import sylvan
from benchmarks.beam_tree.sets import ClassSet
from benchmarks.common import measure
from sylvan.indexing import balanced_tree, class_centers, class_tree

__all__ = ["Batches", "Ours", "contender", "plant"]

TOP = 5
BRANCHING = 10
BLOCK = 1000  # rows whose probabilities of all classes are in memory at a time
_OURS = ("loss", "n_candidates", "n_noises", "noise", "scores", "together", "optimizer", "seed")


def plant(row: dict[str, Any], found: ClassSet) -> tuple[sylvan.LabelTree | None, float]:
    """The tree over the classes, and its seconds; nothing for those who need none."""
    if row.get("loss") not in ("cane", "hsm"):
        return None, 0.0
    with measure.Clock() as clock:
        if row.get("tree") == "random":
            order = np.random.default_rng(row["seed"]).permutation(found.n_classes)
            tree = balanced_tree(order, BRANCHING)
        else:
            centres = class_centers(found.X, found.y, found.n_classes)
            tree = class_tree(centres, BRANCHING, seed=row["seed"])
    return tree, clock.cpu


def contender(row: dict[str, Any], rate: float, found: ClassSet, tree: sylvan.LabelTree | None) -> Ours | Batches:
    """The row's contender, untrained."""
    return Batches(row, float(rate), found) if row.get("torch") else Ours(row, rate, found, tree)


class Ours:
    """``BeamTreeClassifier`` with a tree that it is given."""

    def __init__(self, row: dict[str, Any], rate: float, found: ClassSet, tree: sylvan.LabelTree | None) -> None:
        params = {name: row[name] for name in _OURS if name in row}
        if "power" in row:
            params["noise_power"] = row["power"]
        if tree is not None:
            params["tree"] = tree
        params["learning_rate"] = rate
        self.found = found
        self.classes = np.arange(found.n_classes)
        self.beam = row.get("n_candidates")
        self.model = sylvan.BeamTreeClassifier(branching=BRANCHING, n_jobs=1, **params)

    def learn(self, rows: np.ndarray) -> measure.Clock:
        """Once over these training rows; taking the rows out isn't timed."""
        X, y = self.found.X[rows], self.found.y[rows]
        with measure.Clock() as clock:
            self.model.partial_fit(X, y, classes=self.classes)
        return clock

    def rank(self, X: Any, k: int = TOP) -> np.ndarray:
        """The best classes of each row, as the public call finds them."""
        return np.asarray(self.model.rank(X, k=k).labels)

    def found_by(self, X: Any, beam: int, k: int) -> np.ndarray:
        """The best classes by another beam."""
        return np.asarray(self.model.rank(X, k=k, beam=beam).labels)

    def candidates(self, X: Any) -> np.ndarray | None:
        """The candidates that training would take, where it takes any."""
        return None if self.beam is None else self.found_by(X, self.beam, self.beam)

    def exact(self, X: Any) -> np.ndarray:
        """The best class of each row over all, (n, 1)."""
        return self.found_by(X, self.found.n_classes, 1)

    def log_loss(self, X: Any, y: np.ndarray) -> float:
        """Mean of minus the natural logarithm of the true class's probability over all classes."""
        n, spent = self.found.n_classes, 0.0
        for start in range(0, len(y), BLOCK):
            # With every node followed, a score is the logarithm of the probability among all classes.
            top = self.model.rank(X[start : start + BLOCK], k=n, beam=n)
            own = top.labels == y[start : start + BLOCK, None]
            spent -= float(top.scores[own].astype(np.float64).sum())
        return spent / len(y)

    def save(self, folder: Any) -> None:
        """Writes the model."""
        self.model.save(folder)


class Batches:
    """PyTorch: a linear layer over dense rows and cross-entropy, 256 rows a step."""

    beam = None
    SIZE = 256

    def __init__(self, row: dict[str, Any], rate: float, found: ClassSet) -> None:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(row["seed"])
        self.torch, self.found = torch, found
        self.layer = torch.nn.Linear(found.X.shape[1], found.n_classes)
        torch.nn.init.zeros_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)
        kind = {"adagrad": torch.optim.Adagrad, "sgd": torch.optim.SGD}[row["optimizer"]]
        self.optimizer = kind(self.layer.parameters(), lr=rate)

    def learn(self, rows: np.ndarray) -> measure.Clock:
        """Once over these training rows, in this order."""
        torch = self.torch
        X, y = torch.from_numpy(self.found.X[rows]), torch.from_numpy(self.found.y[rows].astype(np.int64))
        with measure.Clock() as clock:
            for start in range(0, len(rows), self.SIZE):
                scores = self.layer(X[start : start + self.SIZE])
                loss = torch.nn.functional.cross_entropy(scores, y[start : start + self.SIZE])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return clock

    def _scores(self, X: np.ndarray) -> Any:
        with self.torch.no_grad():
            return self.layer(self.torch.from_numpy(np.ascontiguousarray(X)))

    def rank(self, X: np.ndarray, k: int = TOP) -> np.ndarray:
        """The best classes of each row."""
        found: np.ndarray = self._scores(X).topk(min(k, self.found.n_classes), dim=1).indices.numpy()
        return found

    def candidates(self, X: np.ndarray) -> None:
        """It has none."""

    def exact(self, X: np.ndarray) -> np.ndarray:
        """What it always does."""
        return self.rank(X, 1)

    def log_loss(self, X: np.ndarray, y: np.ndarray) -> float:
        """As for the others."""
        truth = self.torch.from_numpy(y.astype(np.int64))
        return float(self.torch.nn.functional.cross_entropy(self._scores(X), truth))

    def save(self, folder: Any) -> None:
        """Writes the weights."""
        folder.mkdir()
        np.save(folder / "weight.npy", self.layer.weight.detach().numpy())
