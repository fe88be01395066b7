"""The kernel that finds labels' words in documents, beside the slow and obvious reference."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from reference import lexical_reference as reference
from reference.lexical_reference import DEFINITION, PART, Label, Place, Reference
from sylvan import kernels
from sylvan.models.lexical.lexicon import COUNTS, FormRows, Lexicon
from sylvan.text.characters import BEGINS_SENTENCE, CAPITAL

N_WORDS = 7
WORDS = st.integers(0, N_WORDS - 1)
FORM = st.tuples(st.integers(0, 5), st.lists(WORDS, max_size=4).map(tuple))
LABELS = st.lists(st.lists(FORM, max_size=4).map(Label), min_size=1, max_size=8)
PLACE = st.builds(Place, st.integers(-1, N_WORDS - 1), st.booleans(), st.sampled_from([False, False, False, True]))
DOCUMENTS = st.lists(st.lists(PLACE, max_size=25), max_size=4)


def related(labels: list[Label], pairs: list[tuple[int, int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    """Relations between some of the labels, noted in these and as pairs."""
    listed: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for one, other, broader in pairs:
        one, other = one % len(labels), other % len(labels)
        if one == other:
            continue
        listed[broader].append((one, other))
        if broader:
            labels[one].broader.add(other)
            labels[other].narrower.add(one)
        else:
            labels[one].related.add(other)
            labels[other].related.add(one)
    first, second = (np.array(listed[key], np.int32).reshape(-1, 2) for key in (True, False))
    return first, second


def lexicon_of(labels: list[Label], content: list[bool], pairs: list[tuple[int, int, bool]]) -> Lexicon:
    forms = [(number, *form) for number, label in enumerate(labels) for form in label.forms]
    rows = FormRows(
        np.array([number for number, _, _ in forms], np.int32),
        np.array([kind for _, kind, _ in forms], np.uint8),
        np.cumsum([0, *(len(words) for _, _, words in forms)], dtype=np.int64),
        np.array([word for _, _, words in forms for word in words], np.int32),
    )
    return Lexicon.build(rows, np.array(content, bool), len(labels), *related(labels, pairs))


def arrays_of(documents: list[list[Place]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    places = [place for document in documents for place in document]
    kinds = [CAPITAL * place.capital + BEGINS_SENTENCE * place.begins for place in places]
    return (
        np.cumsum([0, *map(len, documents)], dtype=np.int64), np.array([place.word for place in places], np.int32),
        np.array(kinds, np.uint8),
    )  # fmt: skip


def check(
    expected: Reference, places: list[Place], numbers: list[int], found: set[int], got: Any, row: int, bm25: bool = True
) -> None:
    offsets, labels, is_found, counts, best = got
    own = slice(offsets[row], offsets[row + 1])
    assert labels[own].tolist() == numbers
    assert is_found[own].astype(bool).tolist() == [number in found for number in numbers]
    assert best[row] == (max(expected.bm25(places), default=0) if bm25 else 0)
    for number, line in zip(numbers, counts.reshape(-1, len(COUNTS))[own], strict=True):
        wanted = expected.counts(places, number, found)
        wanted["bm25"] *= bm25
        assert dict(zip(COUNTS, line.tolist(), strict=True)) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(
    LABELS, st.lists(st.booleans(), min_size=N_WORDS, max_size=N_WORDS), DOCUMENTS, st.integers(0, 4),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.booleans()), max_size=5),
)  # fmt: skip
def test_candidates_and_counts_are_the_reference_s(
    labels: list[Label], content: list[bool], documents: list[list[Place]], partial: int,
    pairs: list[tuple[int, int, bool]],
) -> None:  # fmt: skip
    lexicon = lexicon_of(labels, content, pairs)
    expected = Reference(labels, content)
    got = kernels.match_labels(lexicon.kernel, *arrays_of(documents), partial)
    for row, places in enumerate(documents):
        check(expected, places, *expected.candidates(places, partial), got, row, partial > 0)


@settings(max_examples=30, deadline=None)
@given(LABELS, DOCUMENTS, st.sets(st.integers(0, 7)))
def test_counts_of_given_labels_are_the_reference_s(
    labels: list[Label], documents: list[list[Place]], asked: set[int]
) -> None:
    lexicon = lexicon_of(labels, [True] * N_WORDS, [])
    expected = Reference(labels, [True] * N_WORDS)
    numbers = sorted(number for number in asked if number < len(labels))
    offsets = np.arange(len(documents) + 1) * len(numbers)
    listed = np.array(numbers * len(documents), np.int32)
    got = kernels.match_labels(lexicon.kernel, *arrays_of(documents), 1, offsets, listed)
    for row, places in enumerate(documents):
        check(expected, places, numbers, expected.found(places), got, row)


def test_a_long_form_is_a_phrase_and_no_set() -> None:
    words = tuple(range(reference.MOST_SET_WORDS + 1))
    labels = [Label([(0, words)]), Label([(0, words[:-1])])]
    content = [True] * len(words)
    places = [Place(word, False, False) for word in words]
    got = kernels.match_labels(lexicon_of(labels, content, []).kernel, *arrays_of([places]), 0)
    assert got[1].tolist() == [0, 1]
    assert dict(zip(COUNTS, got[3].tolist(), strict=False))["sentences"] == 0


def test_a_trie_of_many_children_finds_each() -> None:
    labels = [Label([(0, (0, word)), (PART, (word,)), (DEFINITION, (word, word))]) for word in range(1, 60)]
    content = [True] * 60
    places = [Place(word, False, True) for word in range(60)] + [Place(0, False, True), Place(31, False, False)]
    got = kernels.match_labels(lexicon_of(labels, content, []).kernel, *arrays_of([places]), 0)
    assert got[1].tolist() == [30]
    expected = Reference(labels, content)
    check(expected, places, [30], {30}, got, 0, False)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"phrase_word": [0, 9]}, "trie"), ({"phrase_fail": [0, 5]}, "trie"), ({"phrase_first": [1, 2, 3]}, "trie"),
        ({"phrase_labels": [4]}, "labels"), ({"set_ending": [-1, 3]}, "trie"), ({"posting_labels": [-1]}, "postings"),
        ({"form_words": [8]}, "word"), ({"part_phrases": [7]}, "part"), ({"broader_labels": [2]}, "relation"),
    ],
)  # fmt: skip
def test_unsound_arrays_are_refused(change: dict[str, list[int]], why: str) -> None:
    labels = [Label([(0, (0,)), (PART, (0,))])]
    lexicon = lexicon_of([*labels, Label([(1, (0,))])], [True], [(0, 1, True)])
    name, values = next(iter(change.items()))
    broken = np.array(values, getattr(lexicon, name).dtype)
    spoiled = type(lexicon)(**{**vars(lexicon), name: np.resize(broken, getattr(lexicon, name).shape)})
    with raises(ValueError, why):
        spoiled.kernel  # noqa: B018


def test_words_out_of_range_are_refused() -> None:
    kernel = lexicon_of([Label([(0, (0,))])], [True], []).kernel
    for words in ([1], [-2]):
        with raises(ValueError, "range"):
            kernels.match_labels(kernel, np.array([0, 1]), np.array(words, np.int32), np.zeros(1, np.uint8), 1)
    with raises(ValueError, "labels"):
        kernels.match_labels(
            kernel, np.array([0, 0]), np.zeros(0, np.int32), np.zeros(0, np.uint8), 1, np.array([0, 1]),
            np.array([1], np.int32),
        )  # fmt: skip
