"""What a person does with a loaded model; a spoiled one must do it, or say in a sentence why not."""

import contextlib
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan import TopK
from sylvan.errors import SylvanError

TEXTS = ["whale hunting in the south seas", "", "Über die Wälder, 1851", "poetry " * 30]


def exercise(model: Any) -> None:
    """Use whatever the folder turned out to hold."""
    name = type(model).__name__
    if name == "Reranker":
        _give_columns(model)
    if name == "LabelTree":
        _tree(model)
    elif name == "Vocabulary":
        _vocabulary(model)
    elif name == "TfidfVectorizer":
        _vectorizer(model)
    elif name == "Calibrator":
        _calibrator(model)
    elif getattr(model, "takes_texts", False):
        top = model.rank(TEXTS, k=5)
        assert len(top.names) == len(TEXTS)
    elif name in ("IRLIIndex", "ShardedIRLIIndex"):
        _index(model)
    elif hasattr(model, "rank"):
        _ranker(model)
    elif isinstance(model, dict):
        _synthetic(model)
    repr(model)


def _give_columns(model: Any) -> None:
    """As many columns of a function as it says that it learned from: the function isn't stored."""
    n_own = sum(name.startswith("columns ") for name in model.feature_names_)
    model.set_params(columns=lambda rows, candidates: np.zeros((*candidates.labels.shape, n_own)))


def _synthetic(model: dict[str, Any]) -> None:
    """Read every byte, as a kernel would."""
    for array in model["arrays"].values():
        array.copy()
    offsets, ids = model["offsets"], model["ids"]
    values = np.zeros(model["n_ids"])
    for first, last in pairwise(offsets):
        values[ids[first:last]] += 1


def _tree(tree: Any) -> None:
    assert tree.n_labels > 0 and tree.depth == len(tree.layer_sizes)
    tree.to_matrices()
    assert tree.leaf_labels.min() >= 0 and tree.leaf_labels.max() < tree.n_labels
    assert hash(tree) == hash(tree) and tree == tree


def _vocabulary(vocabulary: Any) -> None:
    names = list(vocabulary)
    assert len(names) == len(vocabulary)
    for i, name in enumerate(names):
        assert vocabulary[i] == name and vocabulary.get(name) == i
    vocabulary.encode([names])
    assert "never heard of" not in vocabulary


def _vectorizer(vectorizer: Any) -> None:
    X = vectorizer.transform(TEXTS)
    assert X.shape[0] == len(TEXTS)
    if X.nnz:
        assert X.indices.min() >= 0 and X.indices.max() < X.shape[1]


def _calibrator(calibrator: Any) -> None:
    scores = np.linspace(1, 0, 30, dtype=np.float32)[None]
    found = calibrator(TopK(np.arange(30, dtype=np.int32)[None], scores)).scores
    assert (found > 0).all() and (found < 1).all() and (np.diff(found) < 0).all()


def _index(index: Any) -> None:
    width = int(index.n_dimensions_)
    assert width < 10**6, "an index this wide was not saved"
    queries = np.random.default_rng(0).normal(size=(5, width)).astype(np.float32)
    n = index.n_vectors_ + 100
    for settings in ({}, {"probes": 99, "order": "votes"}, {"candidates": 3, "order": "probability"}):
        ids, distances, counts = index.search(queries, 4, return_counts=True, **settings)
        assert ids.shape == distances.shape == (5, 4) and counts.min() >= 0
        assert ids.min() >= -1 and ids.max() < n
    for report in np.ravel(index.report(queries)):
        report.text()
        report.to_dict()
    added = index.add(queries)
    assert len(set(added.tolist())) == 5
    index.remove(added[:2])
    assert not np.isin(index.search(queries, 4)[0], added[:2]).any()
    index.tune(queries, 0.5)
    if hasattr(index, "close"):
        index.close()


def _classifier(model: Any, X: Any) -> None:
    """Every class at once, and one more pass, which other parameters may not allow."""
    assert model.predict(X).shape == (17,)
    assert model.predict_proba(X[:2], exact=True).shape == (2, model.n_labels_)
    with contextlib.suppress(SylvanError):
        model.partial_fit(X, model.classes_[np.arange(17) % model.n_labels_])


def _ranker(model: Any) -> None:
    n_features, n_labels = int(model.n_features_), int(model.n_labels_)
    assert n_features < 10**6, "a model this large was not saved"
    rng = np.random.default_rng(0)
    X = sp.random(17, n_features, min(1.0, 20 / max(n_features, 1)), "csr", np.float32, rng)
    dense = sp.csr_matrix(rng.random((3, n_features), np.float32))
    for rows in (X, dense, X[:1], sp.csr_matrix((2, n_features), dtype=np.float32)):
        for k in (1, 5):
            top = model.rank(rows, k=k)
            assert top.labels.shape[0] == rows.shape[0]
            assert top.labels.min() >= -1 and top.labels.max() < n_labels
    model.predict_proba(X[:2])
    if getattr(model, "training_rows_", None) is not None:
        model.update(X, np.arange(17) % n_labels)
    if hasattr(model, "partial_fit"):
        _classifier(model, X)
    if hasattr(model, "neighbors"):
        found, _ = model.neighbors(X, n=3, label=n_labels - 1)
        assert found.min() >= -1 and found.max() < model.n_rows_
