"""A reranker's candidates beside slow references: columns, what they say for each other, which are learned from."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.candidate_reference import Answer, Facts, columns_of_row
from reference.company_reference import Named, Tied, company_of
from sylvan import LexicalMatcher, TopK
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.data import LabelTerms
from sylvan.models.lexical.lexicon import OF_COMPANY, LabelTies, company_columns
from sylvan.models.reranker.candidate_columns import OF_ALL, OF_MEMBER, LabelFacts, candidate_columns
from sylvan.models.reranker.learning import Candidates
from sylvan.ranking.boosted_trees import GROWERS, Growing, Rows

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


N_TIED, N_WORDS, N_PARTS = 8, 5, 3
TIED_LABEL = st.integers(0, N_TIED - 1)
SOME = st.sets(TIED_LABEL, max_size=3)
HOLE = -1  # a place of a row without a candidate
PART = st.none() | st.integers(0, N_PARTS - 1)
LENGTHS = st.dictionaries(st.integers(0, N_WORDS - 1), st.integers(1, 6).map(float), max_size=4)
MEAN = st.floats(0, 1, width=32)
PLACES = st.permutations([*range(N_TIED), HOLE, HOLE, HOLE])
ROW = st.tuples(PLACES, st.lists(MEAN, max_size=N_TIED + 3)).map(lambda both: list(zip(*both, strict=False)))


@st.composite
def some_ties(draw: st.DrawFn) -> list[Tied]:
    """Whatever labels are tied to, though none to itself; what is narrower needn't be the other side of broader."""
    ties = []
    for label in range(N_TIED):
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
@given(some_ties(), st.lists(ROW, max_size=5), st.integers(0, N_TIED + 3))
def test_columns_of_company_are_the_slow_ones(ties: list[Tied], rows: list[list[tuple[int, float]]], k: int) -> None:
    agree(rows, k, ties)


def test_each_column_by_hand() -> None:
    assert OF_COMPANY == ("words", "first_part", "last_part", "broader", "narrower", "related", "siblings")
    ties = [Tied() for _ in range(N_TIED)]
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


K = 24
RIGHT_ROW = st.tuples(st.lists(st.booleans(), max_size=K), st.integers(1, 12).map(lambda quarters: quarters / 4))
N_DRAWS = 300


def candidates_of(rows: list[tuple[list[bool], float]], k: int = K) -> Candidates:
    """A row of one candidate for each of its truths; each tells its row and its place, from 1, in its columns."""
    labels = np.full((len(rows), k), -1, np.int32)
    scores = np.full((len(rows), k), -np.inf, np.float32)
    right = np.zeros((len(rows), k), bool)
    columns = np.zeros((len(rows), k, 2), np.float32)
    for row, (truths, _) in enumerate(rows):
        for place, truth in enumerate(truths[:k]):
            labels[row, place], scores[row, place], right[row, place] = place, 1 - place / (k + 1), truth
            columns[row, place] = row, place + 1
    return Candidates(TopK(labels, scores), columns, right, np.array([weight for _, weight in rows], np.float32))


def check(found: Rows, rows: list[tuple[list[bool], float]], drawn: bool) -> None:
    """Everything but which of the wrong ones are drawn."""
    listed = [(int(row), int(place)) for row, place in found.columns]
    assert listed == sorted(set(listed)), "row by row, each by place and once"
    assert found.columns.dtype == found.weight.dtype == np.float32
    assert len(found.right) == len(found.weight) == len(listed)
    for (row, place), right, weight in zip(listed, found.right.tolist(), found.weight.tolist(), strict=True):
        truths, own = rows[row]
        assert right == truths[place - 1]
        times = max(1, place / 5) if drawn and not right else 1
        assert weight == pytest.approx(own * times, rel=1e-6)
    there = set(listed)
    for row, (truths, _) in enumerate(rows):
        for place, truth in enumerate(truths, 1):
            assert (row, place) in there or (drawn and not truth and place > 5)
    sizes = [sum(one == row for one, _ in listed) for row in range(len(rows))]
    assert found.groups.dtype == np.int64
    assert found.groups.tolist() == [size for size in sizes if size], "none has none"


@settings(max_examples=40, deadline=None)
@given(st.lists(RIGHT_ROW, max_size=6), st.integers(0, 2**32 - 1))
def test_what_is_listed(rows: list[tuple[list[bool], float]], seed: int) -> None:
    candidates = candidates_of(rows)
    check(candidates.listed(None), rows, drawn=False)
    found = candidates.listed(seed)
    check(found, rows, drawn=True)
    for one, other in zip(found, candidates.listed(seed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_rows_no_candidates_and_a_single_one() -> None:
    for seed in (None, 3):
        for rows, k in (([], 4), ([], 0), ([([], 1.0)] * 2, 0), ([([], 1.0)] * 2, 3)):
            found = candidates_of(rows, k).listed(seed)
            assert found.columns.shape == (0, 2) and found.groups.tolist() == []
        check(candidates_of([([], 1.0), ([False], 2.0)], 1).listed(seed), [([], 1.0), ([False], 2.0)], True)


def drawn_often(n_rows: int) -> np.ndarray:
    """Which wrong candidates are kept in each of many draws, of rows whose third and twentieth are right."""
    truths = [place in (3, 20) for place in range(1, K + 1)]
    candidates = candidates_of([(truths, 2.0)] * n_rows)
    kept = np.zeros((N_DRAWS, n_rows, K))
    for seed in range(N_DRAWS):
        found = candidates.listed(seed)
        at = found.columns.astype(int)
        kept[seed, at[:, 0], at[:, 1] - 1] = found.weight
    return kept


def test_the_weights_of_wrong_candidates_are_unbiased_at_each_place() -> None:
    """Five times the standard deviation of a mean of independent draws is what none of the places may be off."""
    n_rows = 6
    weights = drawn_often(n_rows)
    shares = np.array([1.0 if place in (3, 20) else min(1.0, 5 / place) for place in range(1, K + 1)])
    off = 5 * np.sqrt((shares * (1 - shares)).sum() * N_DRAWS * n_rows)
    assert (weights > 0).sum() == pytest.approx(shares.sum() * N_DRAWS * n_rows, abs=off)
    for place in range(1, K + 1):
        at = weights[:, :, place - 1]
        share = float(shares[place - 1])
        off = 5 * np.sqrt((1 - share) * share / at.size)
        assert (at > 0).mean() == pytest.approx(share, abs=off + 1e-9), place
        assert at.mean() == pytest.approx(2.0, abs=2.0 * off / share + 1e-6), place
        by_row = (at > 0).mean(axis=0)
        assert by_row == pytest.approx(np.full(n_rows, share), abs=off * np.sqrt(n_rows) + 1e-9), place


def test_rows_and_places_are_drawn_apart_from_each_other() -> None:
    kept = drawn_often(2)[:, :, [9, 14, 22]] > 0  # of 3 places of 2 rows
    together = np.corrcoef(kept.reshape(N_DRAWS, -1).T)
    assert np.abs(together - np.eye(6)).max() < 5 / np.sqrt(N_DRAWS)


def test_rows_without_candidates_change_no_order() -> None:
    pytest.importorskip("lightgbm")
    random = np.random.default_rng(4)
    rows = [((random.random(12) < 0.3).tolist(), 1 + row % 3) for row in range(200)]
    growing = Growing("rank", n_trees=2, depth=2, learning_rate=0.3, seed=0, n_jobs=1)
    listed = candidates_of(rows).listed(None)
    wanted = GROWERS["lightgbm"](listed, growing)
    for at in (0, 7, 200):
        more = candidates_of([*rows[:at], ([], 9.0), ([], 0.0), *rows[at:]]).listed(None)
        found = GROWERS["lightgbm"](more._replace(columns=listed.columns), growing)  # which tell rows' numbers
        for one, other in zip(found.to_arrays().values(), wanted.to_arrays().values(), strict=True):
            np.testing.assert_array_equal(one, other)
