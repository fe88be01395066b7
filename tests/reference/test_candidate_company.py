"""What candidates say for each other, and what ties labels, beside the slow and obvious reference."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.company_reference import Named, Tied, company_of
from sylvan import LexicalMatcher
from sylvan.arrays.canonical import Csr
from sylvan.data import LabelTerms
from sylvan.models.lexical.lexicon import OF_COMPANY, LabelTies, company_columns

N_LABELS, N_WORDS, N_PARTS = 8, 5, 3
LABEL = st.integers(0, N_LABELS - 1)
SOME = st.sets(LABEL, max_size=3)
HOLE = -1  # a place of a row without a candidate
PART = st.none() | st.integers(0, N_PARTS - 1)
LENGTHS = st.dictionaries(st.integers(0, N_WORDS - 1), st.integers(1, 6).map(float), max_size=4)
MEAN = st.floats(0, 1, width=32)
PLACES = st.permutations([*range(N_LABELS), HOLE, HOLE, HOLE])
ROW = st.tuples(PLACES, st.lists(MEAN, max_size=N_LABELS + 3)).map(lambda both: list(zip(*both, strict=False)))


@st.composite
def some_ties(draw: st.DrawFn) -> list[Tied]:
    """Whatever labels are tied to, though none to itself; what is narrower needn't be the other side of broader."""
    ties = []
    for label in range(N_LABELS):
        relations = [draw(SOME) - {label} for _ in range(3)]
        ties.append(Tied(draw(LENGTHS), draw(PART), draw(PART), *relations))
    return ties


def matrix(rows: list[dict[int, float]], width: int) -> Csr:
    dense = np.zeros((len(rows), width), np.float32)
    for row, values in enumerate(rows):
        for column, value in values.items():
            dense[row, column] = value
    return Csr.of(sp.csr_matrix(dense))


def ties_of(labels: list[Tied]) -> LabelTies:
    ones = [
        matrix([{} if part is None else {part: 1.0} for part in parts], N_PARTS)
        for parts in ([tied.first_part for tied in labels], [tied.last_part for tied in labels])
    ]
    relations = [
        matrix([dict.fromkeys(others, 1.0) for others in relation], len(labels))
        for relation in (
            [tied.broader for tied in labels], [tied.narrower for tied in labels], [tied.related for tied in labels],
        )
    ]  # fmt: skip
    return LabelTies(matrix([tied.words for tied in labels], N_WORDS).unit_rows(), *ones, *relations)


def agree(rows: list[list[tuple[int, float]]], k: int, ties: list[Tied]) -> None:
    labels = np.full((len(rows), k), HOLE, np.int32)
    mean = np.zeros((len(rows), k), np.float32)
    expected = np.zeros((len(rows), k, 7))
    for row, candidates in enumerate(rows):
        for place, (label, score) in enumerate(candidates[:k]):
            labels[row, place], mean[row, place] = label, score * (label != HOLE)
    for row in range(len(rows)):
        for place in range(k):
            if labels[row, place] != HOLE:
                expected[row, place] = company_of(place, labels[row].tolist(), mean[row].tolist(), ties)
    asked = labels.copy(), mean.copy()
    found = company_columns(labels, mean, ties_of(ties))
    assert (labels == asked[0]).all() and (mean == asked[1]).all(), "what is asked stays as it is"
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert (found >= 0).all() and (found[labels == HOLE] == 0).all()


@settings(max_examples=50, deadline=None)
@given(some_ties(), st.lists(ROW, max_size=5), st.integers(0, N_LABELS + 3))
def test_columns_are_the_slow_ones(ties: list[Tied], rows: list[list[tuple[int, float]]], k: int) -> None:
    agree(rows, k, ties)


def test_each_column_by_hand() -> None:
    assert OF_COMPANY == ("words", "first_part", "last_part", "broader", "narrower", "related", "siblings")
    ties = [Tied() for _ in range(N_LABELS)]
    ties[0] = Tied({0: 3.0, 1: 4.0}, 0, 1, {1, 7}, {2}, {3, 6})
    ties[1] = Tied({0: 1.0}, 0, 0, {7}, {0})
    ties[2] = Tied({1: 2.0}, None, 1, {0, 1, 7})
    labels, mean = np.array([[0, 1, 2, 3, -1]], np.int32), np.array([[1, 0.5, 0.25, 0.125, 0]], np.float32)
    found = company_columns(labels, mean, ties_of(ties))[0]
    assert found[0].tolist() == pytest.approx([0.6 * 0.5 + 0.8 * 0.25, 0.5, 0.25, 0.5, 0.25, 0.125, 0.5 + 2 * 0.25])
    assert found[1].tolist() == pytest.approx([0.6, 1, 0, 0, 1, 0, 1 + 0.25], abs=1e-6)
    assert found[3:].tolist() == np.zeros((2, 7)).tolist(), "relations are those of a label's own row"


NAME = st.lists(st.sampled_from(["soldiers", "Soldiers", "fiction", "sea", "of", "trade"]), min_size=1, max_size=3)
TEXT = NAME.map(" ".join)
WORDLESS = st.just("...")
HEADINGS = st.lists(  # of few parts, so that labels share them
    st.sampled_from(["soldiers", "Soldiers", "fiction", "sea trade"]), min_size=2, max_size=3, unique_by=str.lower
).map(" -- ".join)
OTHER = st.sampled_from([f"n{at}" for at in range(8)])  # some are no labels
TERMS = st.builds(
    LabelTerms,
    st.tuples(TEXT | HEADINGS | WORDLESS),
    st.lists(TEXT, max_size=2).map(tuple), st.lists(TEXT, max_size=1).map(tuple), st.lists(TEXT, max_size=1).map(tuple),
    st.lists(OTHER, max_size=2).map(tuple), st.lists(OTHER, max_size=2).map(tuple),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(TERMS, min_size=1, max_size=6), st.permutations(range(6)))
def test_ties_of_names_are_the_slow_ones(terms: list[LabelTerms], order: list[int]) -> None:
    texts = {f"n{at}": one for at, one in zip(order, terms, strict=False)}
    texts["n6"] = LabelTerms(("bread",))  # so that one has a word
    matcher = LexicalMatcher(n_trees=0, n_jobs=1).fit(label_texts=texts)
    names = list(matcher.vocabulary_)
    assert sorted(names) == sorted(texts)
    same_ties(matcher.ties_, Named(names, texts))


def same_ties(found: LabelTies, named: Named) -> None:
    pairs = [[(one, other) for other in named.names] for one in named.names]
    words, first, last = (
        (part.to_scipy() @ part.to_scipy().T).toarray() for part in (found.words, found.first_part, found.last_part)
    )
    np.testing.assert_allclose(words, [[named.cosine(*pair) for pair in row] for row in pairs], rtol=1e-5, atol=1e-6)
    for at, shared in ((0, first), (-1, last)):
        expected = [
            [named.part(one, at) is not None and named.part(one, at) == named.part(other, at) for one, other in row]
            for row in pairs
        ]
        assert shared.tolist() == expected, at
    broader, narrower, related = (
        one.to_scipy().toarray().tolist() for one in (found.broader, found.narrower, found.related)
    )
    assert broader == [[named.is_broader(other, of=one) for one, other in row] for row in pairs]
    assert narrower == [[named.is_broader(one, of=other) for one, other in row] for row in pairs]
    assert related == [[named.is_related(*pair) for pair in row] for row in pairs]


def test_ties_of_names_by_hand() -> None:
    texts = {
        "a": LabelTerms(("Soldiers -- Sea -- Fiction",), broader=("c", "d")),
        "b": LabelTerms(("Soldiers -- Fiction",), broader=("c", "d", "b"), related=("c", "nothing")),
        "c": LabelTerms(("War -- Soldiers",)),
        "d": LabelTerms(("soldiers",), definitions=("war at sea",)),
    }
    matcher = LexicalMatcher(n_trees=0, n_jobs=1).fit(label_texts=texts)
    assert list(matcher.vocabulary_) == list("abcd")
    ties = matcher.ties_
    assert [np.diff(part.indptr).tolist() for part in (ties.first_part, ties.last_part)] == [[1, 1, 1, 0]] * 2
    first, last = (part.to_scipy().indices.tolist() for part in (ties.first_part, ties.last_part))
    assert first[0] == first[1] == last[2] and last[0] == last[1] != first[2]
    of_four, of_two = np.log(1 + 0.5 / 4.5), np.log(1 + 2.5 / 2.5)
    words = (ties.words.to_scipy() @ ties.words.to_scipy().T).toarray()
    cosine = (of_four**2 + of_two**2) / np.sqrt(of_four**2 + 2 * of_two**2) / np.sqrt(of_four**2 + of_two**2)
    assert words[0, 1] == pytest.approx(cosine)
    assert ties.broader.to_scipy().toarray().tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [0] * 4, [0] * 4]
    assert ties.narrower.to_scipy().toarray().tolist() == [[0] * 4, [0] * 4, [1, 1, 0, 0], [1, 1, 0, 0]]
    assert ties.related.to_scipy().toarray().tolist() == [[0] * 4, [0, 0, 1, 0], [0, 1, 0, 0], [0] * 4]
    same_ties(ties, Named(list("abcd"), texts))
