"""The peers that train from files: omikuji, napkinXC, fastText, one tree each, or none; and everybody by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import measure
from benchmarks.linear.contenders import (
    BEAM,
    BRANCHING,
    MAX_LEAF,
    TOP,
    Contender,
    Libpecos,
    LibpecosMatched,
    Sylvan,
    SylvanAccurate,
    SylvanFast,
    labelled_texts,
    read,
)
from benchmarks.linear.libmultilabel_models import LibMultiLabelOneVsRest, LibMultiLabelTree


def write_xmc(path: Path, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
    """Writes the XMC repository's text format, header included; without rows that lack features or labels."""
    rows = np.flatnonzero((np.diff(X.indptr) > 0) & (np.diff(Y.indptr) > 0))
    with open(path, "w", encoding="ascii") as lines:
        lines.write(f"{len(rows)} {X.shape[1]} {Y.shape[1]}\n")
        for at in rows.tolist():
            a, b = X.indptr[at], X.indptr[at + 1]
            labels = ",".join(map(str, Y.indices[Y.indptr[at] : Y.indptr[at + 1]].tolist()))
            pairs = zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)
            lines.write(labels + " " + " ".join(f"{feature}:{value:.7g}" for feature, value in pairs) + "\n")


def _pairs(X: sp.csr_matrix) -> list[list[tuple[int, float]]]:
    ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)) for a, b in ends]


def _top(answer: list[Any]) -> np.ndarray:
    best = np.full((len(answer), TOP), -1, dtype=np.int64)
    for at, pairs in enumerate(answer):
        best[at, : len(pairs)] = [int(label) for label, _ in pairs][:TOP]
    return best


class Omikuji(Contender):
    """omikuji, one tree of balanced 2-means whose layers are collapsed to 16 branches; one row a call."""

    package = "omikuji"

    def load_imports(self) -> None:
        import omikuji

        self._omikuji = omikuji

    def prepare(self, folder: Path, scratch: Path) -> None:
        self._path = scratch / "train.xmc"
        write_xmc(self._path, read(folder, "X.trn"), read(folder, "Y.trn"))

    def train_measured(self, threads: int) -> measure.Training:
        """The two halves of ``Model.train_on_data``, so that reading the file does not count."""
        from omikuji import _ThreadPoolHandle, ffi, lib

        pool = _ThreadPoolHandle(threads)
        data = lib.load_omikuji_data_set(ffi.new("char[]", str(self._path).encode()), pool.ptr)
        data = ffi.gc(data, lib.free_omikuji_data_set)
        settings = self._omikuji.Model.default_hyper_param()
        settings.n_trees, settings.min_branch_size, settings.collapse_every_n_layers = 1, MAX_LEAF, 3
        with measure.Training() as training:
            model = lib.train_omikuji_model(data, settings, pool.ptr)
        self._model = self._omikuji.Model(model, pool)
        return training

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._model.save(str(folder))

    def open(self, folder: Path, threads: int) -> None:
        self._model = self._omikuji.Model.load(str(folder))
        self._model.init_prediction_thread_pool(threads)

    def queries(self, X: sp.csr_matrix) -> Any:
        return _pairs(X)

    def rank_all(self, queries: Any) -> Any:
        return [self._model.predict(row, beam_size=BEAM, top_k=TOP) for row in queries]

    def top(self, answer: Any) -> np.ndarray:
        return _top(answer)

    def rows(self, X: sp.csr_matrix) -> list[Any]:
        return _pairs(X)

    def rank_one(self, row: Any) -> Any:
        return self._model.predict(row, beam_size=BEAM, top_k=TOP)


class NapkinXC(Contender):
    """napkinXC's PLT: 16-ary k-means tree, squared hinge as the others, beam search; saves while it trains."""

    package = "napkinxc"

    def load_imports(self) -> None:
        from napkinxc.models import PLT

        self._PLT = PLT

    def _make(self, folder: Path, threads: int) -> Any:
        return self._PLT(
            str(folder), arity=BRANCHING, max_leaves=MAX_LEAF, loss="l2", liblinear_c=1.0, seed=self.seed,
            threads=threads, tree_search_type="beam", beam_search_width=BEAM, load_as="map",
        )  # fmt: skip

    def prepare(self, folder: Path, scratch: Path) -> None:
        self._X, Y = read(folder, "X.trn"), read(folder, "Y.trn")
        ends = zip(Y.indptr[:-1], Y.indptr[1:], strict=True)
        self._Y = [Y.indices[a:b].tolist() for a, b in ends]
        self._folder = scratch / "napkinxc"

    def train(self, threads: int) -> None:
        self._model = self._make(self._folder, threads)
        self._model.fit(self._X, self._Y)

    def save(self, folder: Path) -> None:
        self._folder.rename(folder)

    def open(self, folder: Path, threads: int) -> None:
        self._model = self._make(folder, threads)
        self._model.load()

    def rank_all(self, X: sp.csr_matrix) -> Any:
        return self._model.predict_proba(X, top_k=TOP)

    def top(self, answer: Any) -> np.ndarray:
        return _top(answer)

    def rank_one(self, row: Any) -> Any:
        return self._model.predict_proba(row, top_k=TOP)


class NapkinXCDefault(NapkinXC):
    """napkinXC's PLT as it comes: a binary tree, the logistic loss, C 10, the exact search for the best labels."""

    def _make(self, folder: Path, threads: int) -> Any:
        return self._PLT(str(folder), seed=self.seed, threads=threads)


class NapkinXCOnline(NapkinXC):
    """napkinXC's online PLT: one pass over the rows, a tree that grows with the labels, AdaGrad at its own rate."""

    only_named = True

    def load_imports(self) -> None:
        from napkinxc.models import LabelTreeModel

        self._PLT = LabelTreeModel  # which has no class of its own for it

    def _make(self, folder: Path, threads: int) -> Any:
        return self._PLT(
            model="oplt", output=str(folder), tree_structure=None, tree_type="onlineBestScore", arity=BRANCHING,
            max_leaves=MAX_LEAF, loss="log", optimizer="adagrad", eta=1.0, epochs=1, norm=True, bias=1.0,
            seed=self.seed, threads=threads, tree_search_type="beam", beam_search_width=BEAM, load_as="map",
        )  # fmt: skip


class FastText(Contender):
    """fastText: another family (averaged word vectors, hierarchical softmax); raw text, settings of its tutorial."""

    package = "fasttext"
    matrices = False
    text = True

    def load_imports(self) -> None:
        import fasttext

        self._fasttext = fasttext

    def prepare_text(self, folder: Path, scratch: Path) -> None:
        with open(scratch / "train.ft", "w", encoding="utf-8") as lines:
            for text, labels in labelled_texts(folder):
                lines.write(" ".join("__label__" + label for label in labels) + f" {text}\n")

    def train_text(self, folder: Path, scratch: Path, threads: int) -> None:
        self._model = self._fasttext.train_supervised(
            str(scratch / "train.ft"), loss="hs", lr=1.0, epoch=25, minCount=2, thread=threads, verbose=0
        )

    def rank_text(self, texts: list[str]) -> np.ndarray:
        found, _ = self._model.predict(texts, TOP)
        return _top([[(name.removeprefix("__label__"), 0) for name in row] for row in found])


CONTENDERS = {
    "sylvan": Sylvan,
    "sylvan-fast": SylvanFast,
    "sylvan-accurate": SylvanAccurate,
    "libpecos": Libpecos,
    "libpecos-matched": LibpecosMatched,
    "omikuji": Omikuji,
    "napkinxc": NapkinXC,
    "napkinxc-default": NapkinXCDefault,
    "napkinxc-online": NapkinXCOnline,
    "libmultilabel": LibMultiLabelTree,
    "libmultilabel-flat": LibMultiLabelOneVsRest,
    "fasttext": FastText,
}
