"""The sets: a prepared one, or some rows of it, as texts and as matrices for every contender.

A folder ``train.txt test.txt`` (a text a line), ``labels.txt`` (ids of a training text's labels), and ``X.trn.npz
Y.trn.npz X.tst.npz Y.tst.npz``, as ``datasets.py`` makes them. Preparing some rows needs scikit-learn.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.common.datasets import load, made_once, save

__all__ = ["label_lists", "lines", "matrix", "subset"]

PARTS = ("X.trn.npz", "Y.trn.npz", "X.tst.npz", "Y.tst.npz", "train.txt", "test.txt", "labels.txt")


def lines(path: Path) -> list[str]:
    """The lines of a file without their ends."""
    with open(path, encoding="utf-8", newline="\n") as found:
        return [line.rstrip("\n") for line in found]


def label_lists(folder: Path) -> list[list[str]]:
    """The labels of each training text, their ids as names."""
    return [line.split(",") for line in lines(folder / "labels.txt")]


def matrix(folder: Path, name: str) -> sp.csr_matrix:
    """One matrix of a set."""
    return load(folder, name)[0]


def subset(whole: Path, rows: int | None, tests: int | None, cache: Path) -> Path:
    """The set with so many training and test rows, drawn with seed 0; labels are those of the drawn training rows."""
    if rows is None and tests is None:
        return whole
    target = cache / f"{whole.name}-{rows or 'all'}-{tests or 'all'}"
    return made_once(target, PARTS, lambda beside: _write(whole, rows, tests, beside))


def _write(whole: Path, rows: int | None, tests: int | None, folder: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    random = np.random.default_rng(0)
    train, Y = _drawn(whole, "train.txt", "Y.trn", rows, random)
    known = np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1]))
    Y = Y[:, known].tocsr()
    test, Y_test = _drawn(whole, "test.txt", "Y.tst", tests, random, known)
    vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True, dtype=np.float32)
    matrices = {"X.trn": vectorizer.fit_transform(train), "Y.trn": Y, "Y.tst": Y_test}
    matrices["X.tst"] = vectorizer.transform(test)
    save(folder, matrices)
    for name, texts in (("train.txt", train), ("test.txt", test)):
        (folder / name).write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    ends = zip(Y.indptr[:-1], Y.indptr[1:], strict=True)
    found = "".join(",".join(map(str, sorted(Y.indices[a:b].tolist()))) + "\n" for a, b in ends)
    (folder / "labels.txt").write_text(found, encoding="ascii")


def _drawn(
    whole: Path, texts: str, labels: str, count: int | None, random: np.random.Generator,
    known: np.ndarray | None = None,
) -> tuple[list[str], sp.csr_matrix]:  # fmt: skip
    """So many rows with a label (one of ``known``, where that is given), in their order."""
    found, Y = lines(whole / texts), matrix(whole, labels)
    if known is not None:
        Y = Y[:, known].tocsr()
    labelled = np.flatnonzero(np.diff(Y.indptr))
    drawn = np.sort(random.permutation(labelled)[:count])
    return [found[row] for row in drawn], Y[drawn]
