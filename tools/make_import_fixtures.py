"""Writes tests/importers/fixtures: small models of other libraries, and what those libraries answer with them.

Runs with an interpreter that has NumPy below 2, libpecos, omikuji and napkinxc:

    PEERS/bin/python tools/make_import_fixtures.py [libpecos] [omikuji] [napkinxc]

The answers of all models to the rows of ``rows.npz`` stand in ``<library>.json``: for each model the labels and scores
of each row, best first.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "importers" / "fixtures"
N_ROWS, N_TEST, N_FEATURES, N_LABELS, TOP = 160, 20, 40, 24, 6
Answers = dict[str, dict[str, Any]]


def make_data() -> tuple[sp.csr_matrix, sp.csr_matrix, sp.csr_matrix]:
    """Rows of unit length that are noisy sums of their labels' features; label 3 is never seen."""
    random = np.random.default_rng(7)
    own = random.random((N_LABELS, N_FEATURES)) * (random.random((N_LABELS, N_FEATURES)) < 0.12)
    Y = np.zeros((N_ROWS + N_TEST, N_LABELS), np.float32)
    for row in Y:
        row[random.choice(np.delete(np.arange(N_LABELS), 3), random.integers(1, 4), replace=False)] = 1
    X = Y @ own + random.random((len(Y), N_FEATURES)) * (random.random((len(Y), N_FEATURES)) < 0.05)
    X = (X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)).astype(np.float32)
    return sp.csr_matrix(X[:N_ROWS]), sp.csr_matrix(Y[:N_ROWS]), sp.csr_matrix(X[N_ROWS:])


def pairs_of(X: sp.csr_matrix) -> list[list[tuple[int, float]]]:
    """Each row as (feature, value) pairs."""
    ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)) for a, b in ends]


def answer(rows: list[list[tuple[int, float]]]) -> dict[str, Any]:
    """What a library says, as plain lists."""
    return {
        "labels": [[int(label) for label, _ in row] for row in rows],
        "scores": [[float(f"{score:.9g}") for _, score in row] for row in rows],
    }


def from_csr(found: sp.csr_matrix) -> dict[str, Any]:
    """The entries of each row, best first."""
    rows = [sorted(row, key=lambda pair: (-pair[1], pair[0])) for row in pairs_of(sp.csr_matrix(found))]
    return answer(rows)


def make_libpecos(X: sp.csr_matrix, Y: sp.csr_matrix, X_test: sp.csr_matrix, scratch: Path) -> Answers:
    """A tree of three layers, none at all, a tree that may name some labels only; the first under each post-processor.

    Models with another post-processor differ in a word of ``param.json``, so only their answers are kept.
    """
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    embedding = LabelEmbeddingFactory.create(Y.tocsc(), X, method="pifa")
    chain = Indexer.gen(embedding, indexer_type="hierarchicalkmeans", nr_splits=3, max_leaf_size=4, seed=0)
    found = {}

    def make(name: str, folder: Path, C: Any, word: str, keep: list[int] | None = None) -> None:
        prediction = {"beam_size": 4, "only_topk": TOP, "post_processor": word}
        model = XLinearModel.train(X, Y.tocsc(), C=C, bias=0.5, threshold=0.1, pred_kwargs=prediction)
        if keep:
            model.set_output_constraint(keep)
        model.save(str(folder / name))
        found[name] = from_csr(XLinearModel.load(str(folder / name)).predict(X_test))

    make("libpecos", FIXTURES, chain, "l3-hinge")
    make("libpecos-flat", FIXTURES, None, "l3-hinge")
    make("libpecos-some", FIXTURES, chain, "l3-hinge", [0, 1, 2, 5, 8, 13, 21])
    for word in ("noop", "sigmoid", "log-sigmoid", "l1-hinge", "l2-hinge", "l4-hinge", "log-l3-hinge"):
        make(word, scratch, chain, word)
    return found


def make_omikuji(X: sp.csr_matrix, Y: sp.csr_matrix, X_test: sp.csr_matrix, scratch: Path) -> Answers:
    """Balanced trees with the hinge, one of unbalanced clusters with the logistic loss; rows of any length."""
    import omikuji

    write_xmc(scratch / "train.xmc", X, Y)
    found = {}
    for name, loss, settings in (
        ("omikuji", "Hinge", {"n_trees": 2, "min_branch_size": 4, "collapse_every_n_layers": 2}),
        ("omikuji-uneven", "Log", {"n_trees": 1, "min_branch_size": 3, "cluster_balanced": False}),
    ):
        given = omikuji.Model.default_hyper_param()
        given.linear_loss_type = {"Hinge": omikuji.LossType.HINGE, "Log": omikuji.LossType.LOG}[loss].value
        for word, value in settings.items():
            setattr(given, word, value)
        model = omikuji.Model.train_on_data(str(scratch / "train.xmc"), given, 1)
        model.save(str(FIXTURES / name))
        rows = [[(at, 3 * value) for at, value in row] for row in pairs_of(X_test)]
        found[name] = answer([model.predict(row, beam_size=30, top_k=TOP) for row in rows])
    return found


def make_napkinxc(X: sp.csr_matrix, Y: sp.csr_matrix, X_test: sp.csr_matrix, scratch: Path) -> Answers:
    """Trees of both losses, an unbalanced one, two trees, and none."""
    from napkinxc.models import BR, PLT

    labels = [row.indices.tolist() for row in Y]
    found = {}
    for name, kind, settings in (
        ("napkinxc", PLT, {"arity": 3, "max_leaves": 4, "loss": "l2"}),
        ("napkinxc-huffman", PLT, {"arity": 2, "tree_type": "huffman", "weights_threshold": 1.0}),
        ("napkinxc-two", PLT, {"arity": 2, "max_leaves": 6, "ensemble": 2, "weights_threshold": 0.7}),
        ("napkinxc-flat", BR, {"norm": False, "bias": 0.5}),
    ):
        model = kind(str(FIXTURES / name), seed=3, threads=1, **settings)
        model.fit(X, labels)
        scaled = X_test if name == "napkinxc-flat" else sp.csr_matrix(X_test * 3)
        # Its trees are joined by what each ranks first: all of it, so that nothing is missing.
        found[name] = answer([row[:TOP] for row in model.predict_proba(scaled, top_k=N_LABELS)])
        for other in FIXTURES.glob(f"{name}/**/tree.txt"):
            other.unlink()
    return found


def write_xmc(path: Path, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
    """The XMC repository's text format."""
    lines = [f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}"]
    for row, labels in zip(pairs_of(X), Y, strict=True):
        lines.append(",".join(map(str, labels.indices)) + " " + " ".join(f"{at}:{value:.7g}" for at, value in row))
    path.write_text("\n".join(lines) + "\n")


MAKERS = {"libpecos": make_libpecos, "omikuji": make_omikuji, "napkinxc": make_napkinxc}


def main() -> None:
    """Makes what the command line names, or everything."""
    FIXTURES.mkdir(parents=True, exist_ok=True)
    X, Y, X_test = make_data()
    sp.save_npz(FIXTURES / "rows.npz", X_test)
    for library in sys.argv[1:] or MAKERS:
        for old in FIXTURES.glob(f"{library}*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        with tempfile.TemporaryDirectory() as scratch:
            found = MAKERS[library](X, Y, X_test, Path(scratch))
        (FIXTURES / f"{library}.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
