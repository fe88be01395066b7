"""The sets: one class a row, of unit length on average, so that one grid of rates serves.

Preparing a text set takes Sylvan's vectoriser, preparing ``digits`` takes scikit-learn; reading a prepared set takes
NumPy and SciPy alone, so that every contender's own environment reads the same.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common.datasets import made_once

__all__ = ["SETS", "ClassSet", "load", "made", "prepare", "split"]

TEXTS = ("cpv-tenders", "clinc150")
MADE = {"made-1000": (1_000, 100_000, 2.4), "made-10000": (10_000, 100_000, 1.7)}  # classes, training rows, noise
SETS = (*TEXTS, "digits", *MADE)
N_FEATURES, N_TEST = 128, 10_000  # of a made set
BALANCED = ("clinc150", "digits", *MADE)


@dataclass(frozen=True)
class ClassSet:
    """Rows of float32 with one class each; classes are those of the training rows, 0 to ``n_classes`` - 1."""

    name: str
    X: Any  # (n, D), CSR or dense
    y: np.ndarray  # (n,) int32
    X_test: Any
    y_test: np.ndarray
    n_classes: int
    skipped: int  # test rows of a class that no training row has

    def part(self, rows: np.ndarray, test: np.ndarray | None = None) -> ClassSet:
        """The set with some training rows, tested on others of them, or on its own test rows."""
        if test is None:
            return ClassSet(self.name, self.X[rows], self.y[rows], self.X_test, self.y_test, self.n_classes, 0)
        return ClassSet(self.name, self.X[rows], self.y[rows], self.X[test], self.y[test], self.n_classes, 0)


def load(folder: Path) -> ClassSet:
    """A prepared set."""
    about = json.loads((folder / "about.json").read_text())
    X, X_test = (
        sp.load_npz(folder / f"X.{part}.npz") if about["sparse"] else np.load(folder / f"X.{part}.npy")
        for part in ("trn", "tst")
    )
    y, y_test = (np.load(folder / f"y.{part}.npy") for part in ("trn", "tst"))
    return ClassSet(about["name"], X, y, X_test, y_test, about["n_classes"], about["skipped"])


def split(found: ClassSet, share: float = 0.1, seed: int = 0) -> ClassSet:
    """Nine in ten training rows, tested on the tenth: what rates are chosen by."""
    order = np.random.default_rng(seed).permutation(len(found.y))
    n_holdout = max(1, round(share * len(order)))
    return found.part(np.sort(order[n_holdout:]), np.sort(order[:n_holdout]))


def small(found: ClassSet, rows: int) -> ClassSet:
    """The first rows, all classes."""
    test = found.X_test[: rows // 4], found.y_test[: rows // 4]
    return ClassSet(found.name, found.X[:rows], found.y[:rows], *test, found.n_classes, found.skipped)


def prepare(name: str, data: Path, cache: Path) -> Path:
    """The set, written into ``cache`` unless it lies there."""
    if name not in SETS:
        raise SystemExit(f"there is no set {name!r}; there are {', '.join(SETS)}")

    def write(beside: Path) -> None:
        if name in TEXTS:
            _write(beside, name, *_text(data / name))
        elif name == "digits":
            _write(beside, name, *_digits())
        else:
            n_classes, n_rows, noise = MADE[name]
            _write(beside, name, *made(n_classes, n_rows, N_TEST, noise))

    return made_once(cache / f"beam-tree-{name}", ["about.json"], write)


def made(
    n_classes: int, n_rows: int, n_test: int, noise: float, seed: int = 0
) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Rows around centres that lie in groups, groups of groups and so on, ten to each; as many rows of every class.

    A centre is the sum of a step for each group that holds it, and the steps grow shorter from the root, as classes of
    pictures or products do: most mistakes are among the ten of a group. ``noise`` is a row's distance from its centre
    in each feature.
    """
    rng = np.random.default_rng(seed)
    layers = max(1, int(np.ceil(np.log10(n_classes))))
    centres = np.zeros((n_classes, N_FEATURES), np.float32)
    shuffled = rng.permutation(n_classes)  # class numbers tell nothing
    for layer in range(layers):
        group = shuffled // 10 ** (layers - 1 - layer)
        steps = rng.standard_normal((group.max() + 1, N_FEATURES), np.float32) * np.float32(0.85**layer)
        centres += steps[group]

    def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.arange(n) % n_classes).astype(np.int32)
        X = rng.standard_normal((n, N_FEATURES), np.float32)
        X *= np.float32(noise)
        X += centres[y]
        return X, y

    (X, y), (X_test, y_test) = rows(n_rows), rows(n_test)
    return X, y, X_test, y_test


def _digits() -> tuple[Any, np.ndarray, Any, np.ndarray]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    cut = len(y) * 4 // 5
    train, test = order[:cut], order[cut:]
    return X[train].astype(np.float32), y[train], X[test].astype(np.float32), y[test]


def _text(source: Path) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    from sylvan import TfidfVectorizer

    texts, labels = zip(*(_read(source / f"{part}.jsonl.xz") for part in ("train", "test")), strict=True)
    vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True)
    X = vectorizer.fit_transform(texts[0])
    return X, np.array(labels[0]), vectorizer.transform(texts[1]), np.array(labels[1])


def _read(path: Path) -> tuple[list[str], list[str]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def _write(folder: Path, name: str, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> None:
    """Classes become numbers in sorted order; test rows of other classes are skipped; rows are scaled."""
    names, numbers = np.unique(y, return_inverse=True)
    at = np.minimum(np.searchsorted(names, y_test), len(names) - 1)
    known = names[at] == y_test
    squares = X.multiply(X).sum() if sp.issparse(X) else np.square(X, dtype=np.float64).sum()
    scale = np.float32(1 / np.sqrt(squares / X.shape[0]))
    for part, rows, classes in (("trn", X, numbers), ("tst", X_test[np.flatnonzero(known)], at[known])):
        scaled = (rows * scale).astype(np.float32)
        if sp.issparse(scaled):
            sp.save_npz(folder / f"X.{part}.npz", scaled.tocsr())
        else:
            np.save(folder / f"X.{part}.npy", scaled)
        np.save(folder / f"y.{part}.npy", classes.astype(np.int32))
    about = {"name": name, "sparse": bool(sp.issparse(X)), "n_classes": len(names)}
    (folder / "about.json").write_text(json.dumps({**about, "skipped": int((~known).sum())}))
