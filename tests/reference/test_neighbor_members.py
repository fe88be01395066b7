"""The neighbours of a reranker's members: their columns beside loops, of later rows and of those that were held out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp

from reference.neighbor_columns_reference import columns, nearest_others, neighbors_of
from sylvan import NeighborRanker, Reranker, TextModel, TopK, XRLinear
from sylvan.models.reranker import learning
from sylvan.models.reranker.candidate_columns import OF_NEIGHBORS
from sylvan.models.reranker.learning import Candidates

N_ROWS, N_FEATURES, N_MATRIX_LABELS = 1000, 60, 13
FEW: dict[str, Any] = {"scorer": "trees", "n_trees": 3, "depth": 2, "n_jobs": 1}
NEAREST = 5


def matrix(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((n, N_FEATURES)) * (rng.random((n, N_FEATURES)) < 0.1)).astype(np.float32)


def labels_of(n: int) -> list[set[int]]:
    """None to three of each row; no row has the last label."""
    rng = np.random.default_rng(1)
    return [set(rng.integers(0, N_MATRIX_LABELS - 1, rng.integers(0, 4)).tolist()) for _ in range(n)]


def indicators(rows: list[set[int]]) -> sp.csr_matrix:
    dense = np.array([[label in row for label in range(N_MATRIX_LABELS)] for row in rows], np.float32)
    return sp.csr_matrix(dense)


def texts(n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"word{number}" for number in rng.integers(0, 150, rng.integers(3, 25))) for _ in range(n)]


def names_of(rows: list[set[int]]) -> list[list[str]]:
    return [[f"label {label}" for label in sorted(row)] for row in rows]


def columns_in(model: Reranker, found: np.ndarray) -> np.ndarray:
    """Of all columns, those of the second member's neighbours."""
    assert not any(name.startswith("member0 nearest") for name in model.feature_names_), "it has no neighbours"
    return found[..., [model.feature_names_.index(f"member1 nearest: {name}") for name in OF_NEIGHBORS]]


def test_members_over_matrices() -> None:
    rows = labels_of(N_ROWS)
    members = [XRLinear(n_jobs=1), NeighborRanker(n_neighbors=NEAREST, n_jobs=1)]
    model = Reranker(members, **FEW).fit(sp.csr_matrix(matrix(N_ROWS, 0)), indicators(rows))
    new = matrix(300, 2)
    new[[0, 299]] = 0  # no row is near to these
    candidates, found = model.candidate_columns(sp.csr_matrix(new))
    listed = neighbors_of(*model.members[1].neighbors(sp.csr_matrix(new), NEAREST))
    assert not listed[0] and max(map(len, listed)) == NEAREST
    np.testing.assert_array_equal(columns_in(model, found), columns(candidates.labels, listed, rows))
    assert N_MATRIX_LABELS - 1 in candidates.labels, "a candidate that no row has"


def same_for_texts(model: Reranker, new: list[str], training: list[list[str]]) -> None:
    """The same, by names: a label may have another number for each member."""
    own = model.members[1]
    candidates, found = model.candidate_columns(new)
    listed = neighbors_of(*own.model.neighbors(own.vectorizer.transform(new), NEAREST))
    rows = [{model.vocabulary_.id(name) for name in row} for row in training]
    expected = columns(candidates.labels, listed, rows)
    assert expected.any()
    np.testing.assert_array_equal(columns_in(model, found), expected)


def test_members_over_texts() -> None:
    labels = names_of(labels_of(N_ROWS))
    members = [TextModel(), TextModel(model=NeighborRanker(n_neighbors=NEAREST, n_jobs=1))]
    model = Reranker(members, **FEW).fit(texts(N_ROWS, 0), labels)
    same_for_texts(model, [*texts(300, 2), "unheard of"], labels)


@pytest.mark.parametrize("described", [False, True])
def test_members_over_texts_that_know_other_labels(described: bool) -> None:
    """Where labels have texts, these are rows behind the others."""
    sets = labels_of(600)
    labels = names_of(sets)
    rows = [" ".join([text, *(f"sign{label}" for label in row)]) for text, row in zip(texts(600, 0), sets, strict=True)]
    first = TextModel().fit(rows, [[*names, "a label of one member"] for names in labels])
    some = [names[::-1] for names in labels[50:]]
    signs = {f"label {label}": f"sign{label}" for label in range(8)} | {"new label": "word1 word2 word3"}
    options = {"label_texts": signs} if described else {}
    second = TextModel(model=NeighborRanker(n_neighbors=NEAREST, n_jobs=1), unlearned="answer").fit(
        rows[50:], some, **options
    )
    assert len(second.unlearned_labels_) == described, "one is ranked by its text, not by votes"
    model = Reranker.of_fitted([first, second], **FEW)
    assert any(model.vocabulary_.id(name) != own for own, name in enumerate(second.vocabulary_))
    behind = [[name] for name in options.get("label_texts", {})]  # which are in order of the alphabet
    same_for_texts(model, [*texts(60, 2), "word1 word2 word3 sign4"], some + behind)


# ----------------------------------------------------------------------- as the order is learned


def learned_from(model: Reranker, *given: Any, **options: Any) -> tuple[Reranker, Candidates]:
    """The fitted model, and the candidates that taught it."""
    with mock.patch.object(learning, "learned", wraps=learning.learned) as watched:
        fitted = model.fit(*given, **options)
    watched.assert_called_once()
    return fitted, watched.call_args.args[0]


def numbered(number_of: Callable[[Any], list[int]]) -> Callable[[Any, TopK], np.ndarray]:
    """A further column that says which training row this is."""
    return lambda rows, top: np.broadcast_to(np.array(number_of(rows))[:, None, None], (*top.labels.shape, 1))


def same_without_themselves(
    model: Reranker, taught: Candidates, features: np.ndarray, rows: list[set[int]], weight: np.ndarray | None
) -> np.ndarray:
    """Columns of rows that were held out are by all other rows; the columns of similarities."""
    held = taught.columns[..., -1].max(axis=1).astype(int).tolist()
    assert len(set(held)) == len(held) >= 200
    some = slice(None, None, 5)
    listed = [nearest_others(row, features, NEAREST, weight) for row in held[some]]
    expected, found = columns(taught.top.labels[some], listed, rows), columns_in(model, taught.columns)[some]
    np.testing.assert_allclose(found[..., 0], expected[..., 0], atol=2e-6)
    np.testing.assert_array_equal(found[..., 1:], expected[..., 1:])
    return found[..., 0]


def learned_from_matrix(X: np.ndarray, rows: list[set[int]], *weight: Any) -> tuple[Reranker, Candidates]:
    numbers = {row.tobytes(): at for at, row in enumerate(X)}
    assert len(numbers) == len(X), "no row is another's duplicate"
    members = [XRLinear(n_jobs=1), NeighborRanker(n_neighbors=NEAREST, n_jobs=1)]
    function = numbered(lambda given: [numbers[row.tobytes()] for row in given.toarray()])
    return learned_from(Reranker(members, columns=function, **FEW), sp.csr_matrix(X), indicators(rows), *weight)


def full(n: int) -> np.ndarray:
    """Rows of which none is empty, and none in the direction of another."""
    X = matrix(n, 0)
    X[:, :3] += np.random.default_rng(4).random((n, 3), np.float32)
    return X


@pytest.mark.parametrize("weighted", [False, True])
def test_held_out_rows_of_a_matrix_are_not_their_own_neighbors(weighted: bool) -> None:
    X, rows = full(N_ROWS), labels_of(N_ROWS)
    weight = np.random.default_rng(3).integers(0, 9, N_ROWS).astype(np.float32) if weighted else None
    model, taught = learned_from_matrix(X, rows, weight)
    assert same_without_themselves(model, taught, X, rows, weight).max() < 0.9999


def test_held_out_rows_with_a_twin_are_near_to_that_alone() -> None:
    X, rows = full(N_ROWS), labels_of(N_ROWS)
    X[500:700] = 2 * X[:200]  # other bytes, and a cosine of 1
    model, taught = learned_from_matrix(X, rows)
    assert same_without_themselves(model, taught, X, rows, None).max() > 0.9999


def test_held_out_texts_are_not_their_own_neighbors() -> None:
    given, rows = texts(N_ROWS, 0), labels_of(N_ROWS)
    members = [TextModel(), TextModel(model=NeighborRanker(n_neighbors=NEAREST, n_jobs=1))]
    function = numbered(lambda some: [given.index(text) for text in some])
    model, taught = learned_from(Reranker(members, columns=function, **FEW), given, names_of(rows))
    known = [{model.vocabulary_.id(name) for name in row} for row in names_of(rows)]
    features = model.members[1].vectorizer.transform(given).toarray()
    assert same_without_themselves(model, taught, features, known, None).max() < 0.9999
