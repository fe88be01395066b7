"""The columns of candidates, and what rows say of labels, beside the slow and obvious reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.candidate_reference import Answer, Facts, columns_of_row
from sylvan import TopK
from sylvan.arrays import validate
from sylvan.models.reranker.candidate_columns import OF_ALL, OF_MEMBER, LabelFacts, candidate_columns

N_LABELS = 9
LABEL = st.integers(0, N_LABELS - 1)
ROWS = st.lists(st.sets(LABEL, max_size=5), max_size=12)
SCORE = st.integers(0, 8).map(lambda eighths: eighths / 8)  # so that sums are exact, and there are ties
ANSWER = st.dictionaries(LABEL, SCORE, max_size=N_LABELS).map(
    lambda found: sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
)


def facts_of(rows: list[set[int]], n_labels: int = N_LABELS) -> LabelFacts:
    return LabelFacts.of(validate.labels([sorted(row) for row in rows], n_labels=n_labels))


def top_of(answers: list[Answer], width: int) -> TopK:
    labels = np.full((len(answers), width), -1, np.int32)
    scores = np.full((len(answers), width), -np.inf, np.float32)
    for row, answer in enumerate(answers):
        labels[row, : len(answer)] = [label for label, _ in answer]
        scores[row, : len(answer)] = [score for _, score in answer]
    return TopK(labels, scores)


def same_facts(found: LabelFacts, expected: Facts) -> None:
    assert found.n_rows == len(expected.rows)
    assert found.counts.dtype == np.int64
    assert found.counts.tolist() == [expected.count(label) for label in range(expected.n_labels)]
    assert found.together.shape == (expected.n_labels, expected.n_labels)
    for label in range(expected.n_labels):
        listed = slice(*found.together.indptr[label : label + 2].tolist())
        ids, values = found.together.indices[listed].tolist(), found.together.data[listed].tolist()
        assert ids == sorted(ids)
        assert dict(zip(ids, values, strict=True)) == expected.listed(label), label


def mean_of(members: list[Answer], k: int) -> Answer:
    """Candidates as a reranker has them: the labels of the highest mean score."""
    sums: dict[int, float] = {}
    for answer in members:
        for label, score in answer:
            sums[label] = sums.get(label, 0.0) + score
    best = sorted(sums, key=lambda label: (-sums[label], label))[:k]
    return [(label, sums[label] / len(members)) for label in best]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(ANSWER, min_size=n, max_size=n), min_size=1, max_size=4)),
    ROWS, st.integers(1, 14),
)  # fmt: skip
def test_columns_are_the_slow_ones(asked: list[list[Answer]], rows: list[set[int]], k: int) -> None:
    n_members = len(asked[0])
    tops = [top_of([row[member] for row in asked], N_LABELS + member) for member in range(n_members)]
    candidates = [mean_of(row, k) for row in asked]
    found = candidate_columns(top_of(candidates, k), tops, facts_of(rows))
    assert found.dtype == np.float32
    assert found.shape == (len(asked), k, len(OF_MEMBER) * n_members + len(OF_ALL))
    expected = np.zeros(found.shape)
    for row, (answer, members) in enumerate(zip(candidates, asked, strict=True)):
        if answer:
            expected[row, : len(answer)] = columns_of_row(answer, members, Facts(N_LABELS, rows))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_only_the_ten_best_candidates_say_what_occurs_together() -> None:
    rows = [{label, 11} for label in range(11)] + [{10, 11}] * 5
    answer = [(label, 1 - label / 16) for label in range(12)]
    found = candidate_columns(top_of([answer], 12), [top_of([answer], 12)], facts_of(rows, 12))
    expected = columns_of_row(answer, [answer], Facts(12, rows))
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)
    assert found[0, 11, -2] == pytest.approx(sum(1 - label / 16 for label in range(10))), "the eleventh isn't asked"


def test_no_rows_and_labels_beyond_any_table() -> None:
    nothing = top_of([], 3)
    assert candidate_columns(nothing, [nothing, nothing], LabelFacts.none(5)).shape == (0, 3, 18)
    far = 2**20
    answer: Answer = [(far - 1, 0.5), (0, 0.25)]
    found = candidate_columns(top_of([answer], 2), [top_of([answer], 2)], facts_of([{0, far - 1}, {0}], far))
    names = [*OF_MEMBER, *OF_ALL]
    assert found[0, 1, names.index("first_given")] == 1
    assert found[0, 1, names.index("given_first")] == 0.5


@settings(max_examples=30, deadline=None)
@given(ROWS, st.lists(st.sets(st.integers(0, N_LABELS + 2), max_size=5), max_size=6))
def test_facts_are_the_slow_ones(rows: list[set[int]], more: list[set[int]]) -> None:
    facts = facts_of(rows)
    same_facts(facts, Facts(N_LABELS, rows))
    wider = max([N_LABELS, *(label + 1 for row in more for label in row)])
    same_facts(facts.plus(validate.labels([sorted(row) for row in more], n_labels=wider)), Facts(wider, rows + more))
    same_facts(facts, Facts(N_LABELS, rows))


@settings(max_examples=25, deadline=None)
@given(ROWS, st.sets(LABEL, max_size=N_LABELS))
def test_without_some_labels(rows: list[set[int]], gone: set[int]) -> None:
    found = facts_of(rows).without(np.array(sorted(gone), np.int32))
    same_facts(found, Facts(N_LABELS, [row - gone for row in rows]))


@settings(max_examples=25, deadline=None)
@given(ROWS, st.permutations(range(N_LABELS + 3)))
def test_by_other_ids(rows: list[set[int]], ids: list[int]) -> None:
    found = facts_of(rows).moved(np.array(ids[:N_LABELS], np.int32), N_LABELS + 3)
    same_facts(found, Facts(N_LABELS + 3, [{ids[label] for label in row} for row in rows]))


def test_only_the_labels_most_often_with_one_are_listed() -> None:
    """A label that is with 130 others; of those that are with it equally often, the lower ids."""
    rows = [{0, *range(1, 131)}, {0, *range(100, 131)}, {0, 5, 130}]
    facts = facts_of(rows, 131)
    same_facts(facts, Facts(131, rows))
    assert facts.together.indptr[1] == 100 and 5 in facts.together.indices[:100]
    for first, other in ((0, 130), (0, 99), (99, 0)):  # 0 has no place for 99, which has one for 0
        answer: Answer = [(first, 0.5), (other, 0.25)]
        found = candidate_columns(top_of([answer], 2), [top_of([answer], 2)], facts)
        np.testing.assert_allclose(found[0], columns_of_row(answer, [answer], Facts(131, rows)), rtol=1e-6)
        assert (found[0, 1, -4:] > 0).all() == (other != 99)


def test_no_facts() -> None:
    same_facts(LabelFacts.none(4), Facts(4))
    same_facts(facts_of([set(), set()], 4), Facts(4, [set(), set()]))
