"""Sets of short sparse texts with one class each, dense sets of the same, and made ones, split by seeds."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.beam_tree.sets import made
from benchmarks.common.datasets import made_once

__all__ = ["SETS", "load", "prepare"]

TESTED, MOST_TESTED = 0.15, 10_000  # share of the rows
N_DENSE = 128  # features of a dense set
Set = tuple[Any, np.ndarray]


def _lines(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for part in ("train", "dev", "val", "test"):
        if (folder / f"{part}.jsonl.xz").exists():
            with lzma.open(folder / f"{part}.jsonl.xz", "rt", encoding="utf-8") as lines:
                rows += [json.loads(line) for line in lines]
    return rows


def _frequent(texts: list[str], classes: list[str], least: int, most: int | None = None) -> Set:
    """TF-IDF of the texts of the most frequent classes, each of so many rows at least."""
    from sylvan import TfidfVectorizer

    names = {name for name, count in Counter(classes).most_common(most) if count >= least}
    rows = [(text, name) for text, name in zip(texts, classes, strict=True) if name in names]
    X = TfidfVectorizer(min_df=2, sublinear_tf=True).fit_transform([text for text, _ in rows])
    return X, np.unique([name for _, name in rows], return_inverse=True)[1]


def _titles_by_subject(data: Path) -> Set:
    """A book's title and its most frequent subject."""
    books = [book for book in _lines(data / "gutenberg") if book["labels"]]
    counts = Counter(label for book in books for label in book["labels"])
    subjects = [max(book["labels"], key=lambda label: (counts[label], label)) for book in books]
    return _frequent([book["title"] for book in books], subjects, 5, 1000)


def _titles_by_author(data: Path) -> Set:
    books = [book for book in _lines(data / "gutenberg") if book["author"]]
    return _frequent([book["title"] for book in books], [book["author"] for book in books], 8, 2000)


def _tenders(data: Path) -> Set:
    rows = _lines(data / "cpv-tenders")
    return _frequent([row["text"] for row in rows], [row["label"] for row in rows], 2)


def _utterances(data: Path) -> Set:
    rows = _lines(data / "clinc150")
    return _frequent([row["text"] for row in rows], [row["label"] for row in rows], 2)


def _dense_tenders(data: Path) -> Set:
    """The tenders' rows as their largest singular vectors have them, of unit length."""
    from sklearn.decomposition import TruncatedSVD

    X, y = _tenders(data)
    rows = TruncatedSVD(N_DENSE, random_state=0, n_iter=3).fit_transform(X).astype(np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6), y


def _digits(data: Path) -> Set:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return (X / np.sqrt(np.square(X).sum(axis=1).mean())).astype(np.float32), y


def _made(data: Path) -> Set:
    parts = made(1000, 40_000, 5_000, 2.4)
    X, y = np.concatenate(parts[::2]), np.concatenate(parts[1::2])
    return X / np.sqrt(np.square(X).sum(axis=1).mean()), y


SETS: dict[str, Callable[[Path], Set]] = {
    "titles-subject": _titles_by_subject,
    "titles-author": _titles_by_author,
    "tenders": _tenders,
    "utterances": _utterances,
    "tenders-dense": _dense_tenders,
    "digits": _digits,
    "made": _made,
}


def prepare(name: str, data: Path, cache: Path) -> Path:
    """The set's folder, written unless it lies there."""

    def write(beside: Path) -> None:
        X, y = SETS[name](data)
        if sp.issparse(X):
            sp.save_npz(beside / "X.npz", X.tocsr())
        else:
            np.save(beside / "X.npy", X.astype(np.float32))
        np.save(beside / "y.npy", y.astype(np.int32))

    return made_once(cache / f"short-texts-{name}", ["y.npy"], write)


def load(folder: Path, seed: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training rows and their classes, test rows and theirs; another split for each seed."""
    X = sp.load_npz(folder / "X.npz") if (folder / "X.npz").exists() else np.load(folder / "X.npy")
    y = np.load(folder / "y.npy")
    order = np.random.default_rng([seed, 7]).permutation(len(y))
    n_test = min(int(len(y) * TESTED), MOST_TESTED)
    test, train = np.sort(order[:n_test]), np.sort(order[n_test:])
    return X[train], y[train], X[test], y[test]
