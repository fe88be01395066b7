"""Features of the labels' own names, in the space of a prepared set's features (PECOS's PIFA + LF)."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.common import datasets

__all__ = ["features"]


def features(name: str, data: Path, folder: Path) -> Path:
    """A matrix with one row a label, in a file beside the prepared set ``folder``; made where it's missing.

    eurlex57k's concepts have names and other names; gutenberg's labels are subject headings in words.
    """
    target = folder.parent / f"{folder.name}-names"

    def write(beside: Path) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        _, label_lists = datasets.read_jsonl(data / name / "train.jsonl.xz")
        texts = sorted({label for row in label_lists for label in row})  # in the order of the ids
        written = data / name / "label_names.json.xz"
        if written.exists():
            with lzma.open(written, "rt", encoding="utf-8") as file:
                known = json.load(file)
            texts = [" ".join([known[text]["label"], *known[text]["alt_labels"]]) for text in texts]
        vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True, dtype=np.float32)
        vectorizer.fit((folder / "train.txt").read_text(encoding="utf-8").split("\n")[:-1])
        datasets.save(beside, {"Z": sp.csr_matrix(vectorizer.transform(texts))})

    return datasets.made_once(target, ["Z.npz"], write) / "Z.npz"
