"""How near a row's neighbours are, of later rows and of those held out, beside the slow and obvious reference."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.neighbor_columns_reference import Neighbors, columns, nearest_others, neighbors_of
from sylvan import NeighborRanker, Reranker, TextModel, TopK, XRLinear
from sylvan.models.reranker import learning
from sylvan.models.reranker.candidate_columns import OF_NEIGHBORS, neighbor_columns
from sylvan.models.reranker.learning import Candidates
from sylvan.ranking.votes import LabelRows

N_LABELS = 9
HOLE = -1  # a place of a row without a candidate
ROWS = st.lists(st.lists(st.integers(0, N_LABELS - 1), max_size=5, unique=True), max_size=8)
CANDIDATES = st.permutations([*range(N_LABELS), HOLE, HOLE, HOLE])
SIMILARITY = st.integers(1, 4).map(lambda quarters: quarters / 4) | st.floats(2**-20, 1, width=32)  # with many ties


@st.composite
def some_neighbors(draw: st.DrawFn, n_rows: int) -> Neighbors:
    """Each training row once at most, in any order."""
    numbers = draw(st.permutations(range(n_rows)))
    values = draw(st.lists(SIMILARITY, max_size=n_rows))
    return list(zip(numbers, sorted(values, reverse=True), strict=False))


def arrays_of(listed: list[Neighbors], width: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.full((len(listed), width), -1, np.int32)
    similarities = np.full((len(listed), width), -np.inf, np.float32)
    for row, neighbors in enumerate(listed):
        for place, (number, value) in enumerate(neighbors[:width]):
            numbers[row, place], similarities[row, place] = number, value
    return numbers, similarities


def voters_of(rows: list[list[int]], n_labels: int = N_LABELS, **weighing: np.ndarray) -> LabelRows:
    labels = np.array([label for row in rows for label in row], np.int32)
    return LabelRows(np.cumsum([0, *map(len, rows)]).astype(np.int64), labels, n_labels, **weighing)


def agree(labels: np.ndarray, nearest: tuple[np.ndarray, np.ndarray], rows: list[list[int]], voters: LabelRows) -> None:
    given = [labels, *nearest, voters.offsets, voters.labels]
    before = [array.copy() for array in given]
    found = neighbor_columns(labels, nearest, voters)
    assert all((one == other).all() for one, other in zip(given, before, strict=True)), "what is given stays as it is"
    assert found.dtype == np.float32 and found.shape == (*labels.shape, 3)
    np.testing.assert_array_equal(found, columns(labels, neighbors_of(*nearest), [set(row) for row in rows]))


@settings(max_examples=80)
@given(st.data(), ROWS, st.integers(0, N_LABELS + 3), st.integers(0, 10))
def test_columns_are_the_slow_ones(data: st.DataObject, rows: list[list[int]], k: int, m: int) -> None:
    asked = data.draw(st.lists(st.tuples(CANDIDATES, some_neighbors(len(rows))), max_size=5))
    labels = np.array([row[:k] for row, _ in asked], np.int32).reshape(len(asked), k)
    agree(labels, arrays_of([neighbors for _, neighbors in asked], m), rows, voters_of(rows))


@settings(max_examples=20)
@given(st.data(), ROWS)
def test_neither_the_layout_of_arrays_nor_what_votes_weigh_matters(data: st.DataObject, rows: list[list[int]]) -> None:
    asked = data.draw(st.lists(st.tuples(CANDIDATES, some_neighbors(len(rows))), min_size=1, max_size=4))
    labels = np.array([row for row, _ in asked], np.int32)
    numbers, similarities = (np.asfortranarray(part) for part in arrays_of([one for _, one in asked], 8))
    relevance = np.linspace(0.1, 1, sum(map(len, rows)), dtype=np.float32)
    voters = voters_of(rows, relevance=relevance, row_weights=np.arange(len(rows), dtype=np.float32))
    agree(np.asfortranarray(labels), (numbers, similarities), rows, voters)
    agree(labels[:, ::2], (numbers[:, ::-1][:, ::-1], similarities), rows, voters)


def test_by_hand() -> None:
    assert OF_NEIGHBORS == ("similarity", "place", "votes")
    rows = [[3, 0], [], [0], [1, 0]]
    nearest = arrays_of([[(1, 0.875), (2, 0.75), (0, 0.75), (3, 0.25)], []], 5)
    labels = np.array([[0, HOLE, 3, 1, 2], [0, 1, 2, 3, HOLE]], np.int32)
    found = neighbor_columns(labels, nearest, voters_of(rows, 4))
    third = float(np.float32(1 / 3))
    assert found[0].tolist() == [[0.75, 0.5, 3], [0, 0, 0], [0.75, third, 1], [0.25, 0.25, 1], [0, 0, 0]]
    assert not found[1].any(), "nobody is near"


@pytest.mark.parametrize(("n", "k", "m"), [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0), (2, 2, 2)])
def test_nothing_to_count(n: int, k: int, m: int) -> None:
    labels = np.tile(np.arange(k, dtype=np.int32), (n, 1))
    for rows in ([], [[]], [[], []]):  # without training rows, or without labels of these
        nearest = arrays_of([[(0, 1.0)] if rows else []] * n, m)
        agree(labels, nearest, rows, voters_of(rows, 2))


def test_many_rows_and_a_label_beyond_any_table() -> None:
    """Labels and rows of which a number for both takes more than 32 bits."""
    rng = np.random.default_rng(0)
    far = 2**24
    rows = [[int(label) for label in rng.choice([0, 1, 2, far - 2, far - 1], 2, replace=False)] for _ in range(20)]
    listed = [[(int(row), 0.5) for row in rng.permutation(20)[: rng.integers(0, 7)]] for _ in range(600)]
    labels = np.array([rng.permutation([0, 1, far - 2, far - 1, HOLE]) for _ in range(600)], np.int32)
    agree(labels, arrays_of(listed, 6), rows, voters_of(rows, far))


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
