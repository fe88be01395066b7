"""The sets of the benchmarks as CSR pairs: features by scikit-learn's TF-IDF, so that no contender's own decides.

A prepared set is a folder ``X.trn.npz Y.trn.npz X.tst.npz Y.tst.npz`` and, where the set has text, ``train.txt test.txt
labels.txt`` with one document a line. Preparing one needs scikit-learn; reading one needs SciPy alone.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["NAMES", "load", "made_once", "prepare", "read_jsonl", "save"]

TEXT_SETS = ("eurlex57k", "gutenberg", "cpv-tenders")
TEXT_FIELDS = ("title", "author", "text")
NAMES = ("X.trn", "Y.trn", "X.tst", "Y.tst")


def read_jsonl(path: Path) -> tuple[list[str], list[list[str]]]:
    """Texts (title, author and text joined by spaces) and label names of one ``.jsonl.xz``."""
    texts, labels = [], []
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            texts.append(" ".join(row[field] for field in TEXT_FIELDS if row.get(field)))
            labels.append([str(label) for label in row.get("labels") or [row["label"]]])
    return texts, labels


def label_matrix(rows: list[list[str]], ids: dict[str, int]) -> sp.csr_matrix:
    """Indicator matrix (n, L), float32; names that ``ids`` lacks are skipped."""
    known = [sorted({ids[name] for name in row if name in ids}) for row in rows]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in known])])
    indices = np.array([label for row in known for label in row], dtype=np.int32)
    data = np.ones(len(indices), dtype=np.float32)
    return sp.csr_matrix((data, indices, indptr), shape=(len(rows), len(ids)))


def made_once(target: Path, parts: Sequence[str], write: Callable[[Path], None]) -> Path:
    """A folder with all ``parts``, filled by ``write`` unless it is there; it appears whole or not at all."""
    if all((target / part).exists() for part in parts):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        write(beside)
        if target.exists() and not all((target / part).exists() for part in parts):
            shutil.rmtree(target)
        os.replace(beside, target)
    except OSError:
        if not all((target / part).exists() for part in parts):  # another process may have been quicker
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return target


def prepare(name: str, data: Path, folder: Path, *, seed: int = 0) -> Path:
    """The set ``name``, written into ``folder / name`` unless it lies there."""

    def write(beside: Path) -> None:
        if name in TEXT_SETS:
            _prepare_text(data / name, beside)
            return
        from benchmarks.common import synthetic

        save(beside, synthetic.generate(name, seed=seed))

    return made_once(folder / name, [f"{part}.npz" for part in NAMES], write)


def _prepare_text(source: Path, folder: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    train_texts, train_labels = read_jsonl(source / "train.jsonl.xz")
    test_texts, test_labels = read_jsonl(source / "test.jsonl.xz")
    ids = {label: at for at, label in enumerate(sorted({label for row in train_labels for label in row}))}
    vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True, dtype=np.float32)
    X = vectorizer.fit_transform(train_texts)
    Y_test = label_matrix(test_labels, ids)
    known = np.diff(Y_test.indptr) > 0
    known_texts = [text for text, keep in zip(test_texts, known, strict=True) if keep]
    Y, X_test = label_matrix(train_labels, ids), vectorizer.transform(known_texts)
    save(folder, {"X.trn": X, "Y.trn": Y, "X.tst": X_test, "Y.tst": Y_test[known]})
    for name, rows in (("train", train_texts), ("test", known_texts)):
        with open(folder / f"{name}.txt", "w", encoding="utf-8") as lines:
            lines.writelines(re.sub(r"\s+", " ", text).strip() + "\n" for text in rows)
    with open(folder / "labels.txt", "w", encoding="utf-8") as labels:
        labels.writelines(",".join(str(ids[label]) for label in sorted(set(row))) + "\n" for row in train_labels)


def save(folder: Path, matrices: Mapping[str, Any]) -> None:
    """Writes the parts of a prepared set."""
    for name, matrix in matrices.items():
        matrix = matrix.tocsr().astype(np.float32)
        matrix.sort_indices()
        sp.save_npz(folder / f"{name}.npz", matrix, compressed=False)


def load(folder: Path, *names: str) -> list[sp.csr_matrix]:
    """The named parts of a prepared set, CSR float32 with sorted indices."""
    return [sp.csr_matrix(sp.load_npz(folder / f"{name}.npz")) for name in names]
