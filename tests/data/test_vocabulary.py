"""Names and ids."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.books import load_sample
from kit.errors import raises

from sylvan import store
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.labels.vocabulary import label_name

texts = st.text(st.characters(exclude_categories=["Cs"]))
names = st.lists(texts.map(label_name).filter(bool), unique=True, max_size=8)


def reload(vocabulary, folder, mmap=True):
    store.save(folder, vocabulary.to_state())
    return Vocabulary.from_state(store.load(folder, mmap=mmap))


@given(names)
def test_it_is_a_list_of_names(listed):
    vocabulary = Vocabulary(listed)
    again = Vocabulary.from_state(vocabulary.to_state())
    for v in (vocabulary, again, copy.deepcopy(vocabulary), pickle.loads(pickle.dumps(again))):
        assert list(v) == listed and len(v) == len(listed) and v == vocabulary and hash(v) == hash(vocabulary)
        assert [v[i] for i in range(len(v))] == listed and [v[i - len(v)] for i in range(len(v))] == listed
        assert v[1:3] == listed[1:3] and v[::-1] == listed[::-1]
        assert [v.id(name) for name in listed] == list(range(len(listed)))
        assert all(name in v for name in listed)
    assert "no such name\0" not in vocabulary and vocabulary.get("no such name\0") is None


@pytest.mark.parametrize("mmap", [True, False])
def test_saved_and_loaded(tmp_path, mmap):
    for i, listed in enumerate(([], ["a"], ["Überfahrt", "鯨", "a\nb"])):
        assert reload(Vocabulary(listed), tmp_path / str(i), mmap) == Vocabulary(listed)
    assert list(reload(Vocabulary(listed), tmp_path / "3", mmap)) == listed


def test_from_labels():
    assert list(Vocabulary.from_labels([["b", "a"], [], ["b"]])) == ["a", "b"]
    assert list(Vocabulary.from_labels([[10, 9], [np.int64(100)]])) == ["9", "10", "100"]
    assert list(Vocabulary.from_labels([])) == []
    for odd in ([["a", 1]], [[1.5]], [[True]], [[None]]):
        with raises(DataError, "ints"):
            Vocabulary.from_labels(odd)


def test_encode_and_decode():
    vocabulary = Vocabulary(["c", "a", "b"])
    matrix = vocabulary.encode([["b", "c", "b"], [], ["a"]])
    assert matrix.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert matrix.dtype == np.float32 and matrix.has_canonical_format
    assert vocabulary.decode(matrix) == [["c", "b"], [], ["a"]]
    weighted = vocabulary.encode([["b", "c", "b"], ["a"]], [[1, 0.5, 2], [0]])
    assert weighted.toarray().tolist() == [[0.5, 0, 3], [0, 0, 0]] and weighted.nnz == 2
    assert vocabulary.encode([["x", "a"], ["x"]], unknown="ignore").toarray().tolist() == [[0, 1, 0], [0, 0, 0]]
    assert Vocabulary(["7", "8"]).encode([[8]]).toarray().tolist() == [[0, 1]]
    assert vocabulary.encode([]).shape == (0, 3)


def test_faults():
    vocabulary = Vocabulary(["c", "a", "b"])
    with raises(DataError, 1, "'x'", 3):
        vocabulary.encode([["a"], ["x"]])
    with raises(DataError, "'x'", 3):
        vocabulary.id("x")
    with raises(ParameterError, "unknown", "error", "ignore", "'x'"):
        vocabulary.encode([["a"]], unknown="x")
    for weights in ([[1, 2]], [], [[1], [1]]):
        with raises(DataError, "items"):
            vocabulary.encode([["a"]], weights)
    for weight in (-1, float("nan"), float("inf")):
        with raises(DataError, "finite", 0):
            vocabulary.encode([["a"]], [[weight]])
    with raises(DataError, 3, "(1, 2)"):
        vocabulary.decode(np.ones((1, 2)))
    with raises(DataError, "'a'", 0, 2):
        Vocabulary(["a", "b", "a"])
    with raises(DataError, 5, "id 0"):
        Vocabulary([5])
    with raises(DataError, "character"):
        Vocabulary(["\ud800"])
    for i in (3, -4):
        with raises(IndexError, "[0, 2]"):
            vocabulary[i]


def test_damaged_states(tmp_path):
    def state(text: bytes, offsets, dtype=np.int64):
        arrays = {"names": np.frombuffer(text, np.uint8), "offsets": np.array(offsets, dtype)}
        return store.State("vocabulary", 1, arrays=arrays)

    for text, offsets in ((b"ab", [0, 3]), (b"ab", [0, 2, 1, 2]), (b"ab", []), (b"ab", [1, 2]), (b"ab", [0, 1])):
        with pytest.raises(ModelError):
            Vocabulary.from_state(state(text, offsets))
    with raises(ModelError, "int64", "offsets"):
        Vocabulary.from_state(state(b"ab", [0, 2], np.int32))
    split = Vocabulary.from_state(state("ü".encode(), [0, 1, 2]))
    with raises(ModelError, "label 0", "UTF-8"):
        split[0]
    with raises(ModelError, "label 0", "UTF-8"):
        split.id("a")
    with raises(ModelError, "labels"):
        Vocabulary.from_state(state(b"aa", [0, 1, 2])).id("a")


def test_the_sample():
    train, test = load_sample()
    vocabulary = Vocabulary.from_labels(train.labels)
    y_train, y_test = vocabulary.encode(train.labels), vocabulary.encode(test.labels)
    assert y_train.shape[0] > 15_000 and y_test.shape[0] == 2_000
    assert 2_000 < len(vocabulary) < 5_000
    assert y_train.getnnz(axis=0).min() >= 3 and y_train.getnnz(axis=1).min() >= 1
    assert y_test.getnnz(axis=1).min() >= 1
    assert all(train.texts) and "Hamilton, Alexander" in " ".join(test.texts)
    assert not set(train.texts[:3]) & {""}
    assert repr(vocabulary).startswith(f"Vocabulary({len(vocabulary):,} names: 'Abduction -- Fiction', ")


def test_names_that_were_saved_before_they_had_one_form() -> None:
    saved = Vocabulary.from_state(Vocabulary.verbatim([" sea", "Ba\u0308ume", "sea ", "whale"]).to_state())
    assert [saved.get(name) for name in (" sea", "sea", "sea ", "Bäume", "Ba\u0308ume", "whale")] == [0, 0, 2, 1, 1, 3]
