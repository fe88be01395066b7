"""Saved and loaded, and what hostile folders get."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises
from text_samples import ENGLISH, FINNISH, GERMAN, OTHERS

from sylvan import kernels, store
from sylvan.errors import ModelError
from sylvan.store import registry
from sylvan.text import TfidfVectorizer

TEXTS = ENGLISH + GERMAN + FINNISH + OTHERS
FITTED = TfidfVectorizer(ngrams=(1, 2), sublinear_tf=True).fit(TEXTS)


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("how", [{}, {"use_idf": False, "norm": None}, {"analyzer": "char", "ngrams": (1, 3)}], ids=str)
def test_round_trip(tmp_path, mmap, how):
    vectorizer = TfidfVectorizer(n_jobs=2, **how)
    X = vectorizer.fit_transform(TEXTS)
    vectorizer.save(tmp_path / "v")
    loaded = registry.load(tmp_path / "v", mmap=mmap)
    assert type(loaded) is TfidfVectorizer
    assert loaded.get_params() == {**vectorizer.get_params(), "n_jobs": None}
    Z = loaded.transform(TEXTS)
    assert Z.data.tobytes() == X.data.tobytes() and Z.indices.tobytes() == X.indices.tobytes()
    assert loaded.vocabulary_ == vectorizer.vocabulary_
    np.testing.assert_array_equal(loaded.idf_, vectorizer.idf_)


def test_state_of_numpy_parameters(tmp_path):
    vectorizer = TfidfVectorizer(ngrams=[np.int64(1), np.int64(2)], min_df=np.int64(1), max_df=np.float64(0.9))
    vectorizer.fit(TEXTS).save(tmp_path / "v")
    assert registry.load(tmp_path / "v").transform(TEXTS).shape == vectorizer.transform(TEXTS).shape


def state():
    """A fresh copy, whose arrays may be written."""
    fresh = FITTED.to_state()
    fresh.arrays = {name: np.array(array) for name, array in fresh.arrays.items()}
    fresh.params = copy.deepcopy(fresh.params)
    return fresh


def put(name, index, value):
    def change(s):
        s.arrays[name][index] = value

    return change


def replace(name, make):
    def change(s):
        s.arrays[name] = make(s.arrays[name])

    return change


def drop(name):
    return lambda s: s.arrays.pop(name)


def swap_terms(s):
    offsets = s.arrays["term_offsets"]
    s.arrays["term_bytes"][: offsets[2]] = np.roll(s.arrays["term_bytes"][: offsets[2]], offsets[1])


HOSTILE = {
    "no bytes": drop("term_bytes"),
    "no offsets": drop("term_offsets"),
    "no slots": drop("slots"),
    "empty offsets": replace("term_offsets", lambda a: a[:0]),
    "one offset": replace("term_offsets", lambda a: a[:1]),
    "offsets of another dtype": replace("term_offsets", lambda a: a.astype(np.int32)),
    "offsets of two dimensions": replace("term_offsets", lambda a: a[None]),
    "offsets not from 0": put("term_offsets", 0, 1),
    "negative offset": put("term_offsets", 3, -(2**62)),
    "falling offsets": put("term_offsets", 3, 0),
    "offset beyond the end": put("term_offsets", 3, 2**62),
    "last offset beyond the end": put("term_offsets", -1, 2**62),
    "bytes cut": replace("term_bytes", lambda a: a[:-1]),
    "padding cut": replace("term_bytes", lambda a: a[:5]),
    "bytes empty": replace("term_bytes", lambda a: a[:0]),
    "terms not in order": swap_terms,
    "a term twice": put("term_bytes", slice(None), 97),
    "slots empty": replace("slots", lambda a: a[:0]),
    "slots cut": replace("slots", lambda a: a[:-1]),
    "slots halved": replace("slots", lambda a: a[: len(a) // 4]),
    "slots all full": put("slots", slice(None), 1),
    "slots all empty": put("slots", slice(None), 0),
    "slots out of range": put("slots", slice(None), 0x7FFFFFFF),
    "slots with a hash and no term": put("slots", 0, 1 << 40),
    "idf too short": replace("idf", lambda a: a[:-1]),
    "idf of float64": replace("idf", lambda a: a.astype(np.float64)),
    "idf with NaN": put("idf", 0, np.nan),
    "idf with infinity": put("idf", 0, np.inf),
    "another number of terms": lambda s: s.meta.update(n_terms=3),
    "no number of terms": lambda s: s.meta.clear(),
    "another kind": lambda s: setattr(s, "kind", "xr-linear"),
    "a newer version": lambda s: setattr(s, "version", 4),
    "a parameter missing": lambda s: s.params.pop("norm"),
    "an unknown parameter": lambda s: s.params.update(colour="red"),
    "a parameter out of range": lambda s: s.params.update(analyzer="none"),
    "ngrams that are none": lambda s: s.params.update(ngrams=[5, 1]),
    "ngrams of a wrong type": lambda s: s.params.update(ngrams={"a": 1}),
    "huge ngrams": lambda s: s.params.update(ngrams=[1, 2**40]),
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_hostile_states_get_a_sentence(attack):
    hostile = state()
    HOSTILE[attack](hostile)
    with pytest.raises(ModelError) as caught:
        TfidfVectorizer.from_state(hostile)
    assert str(caught.value).endswith(".")


def test_hostile_folder_names_the_file(tmp_path):
    hostile = state()
    hostile.arrays["term_offsets"][3] = 2**62
    store.save(tmp_path / "v", hostile)
    with raises(ModelError, "term_offsets"):
        registry.load(tmp_path / "v")


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_damage_is_a_sentence_or_harmless(data):
    hostile = state()
    for _ in range(data.draw(st.integers(1, 3))):
        array = hostile.arrays[data.draw(st.sampled_from(sorted(hostile.arrays)))]
        raw = array.view(np.uint8)
        raw[data.draw(st.integers(0, raw.size - 1))] = data.draw(st.integers(0, 255))
    try:
        loaded = TfidfVectorizer.from_state(hostile)
    except ModelError as error:
        assert str(error).endswith(".")
        return
    loaded.transform(TEXTS)
    try:
        loaded.get_feature_names_out()
    except ModelError as error:
        assert "UTF-8" in str(error)


OLD_WORDS = ["हिन्दी की किताबें", "Mu\u0308ller kommt", "co\u00adop", "ภาษาไทย ง่าย"]


def saved_by_the_first_rules(how):
    """A State as releases wrote it whose words ended at marks, and in no form of Unicode."""
    fitted = TfidfVectorizer(min_token_length=1, **how).fit(["हिन्दी", "x"])
    terms = sorted({"ह", "न", "द", "mu", "ller", "kommt", "co", "op"}, key=lambda term: term.encode())
    data = np.frombuffer("".join(terms).encode() + bytes(16), np.uint8).copy()
    offsets = np.cumsum([0, *(len(term.encode()) for term in terms)]).astype(np.int64)
    old = fitted.to_state()
    old.arrays = {
        "term_bytes": data, "term_offsets": offsets, "slots": kernels.tfidf_slots(data, offsets).view(np.int64),
        "idf": np.ones(len(terms), np.float32),
    }  # fmt: skip
    old.version, old.meta = 1, {"n_terms": len(terms)}
    return old, terms


def test_a_vectoriser_of_earlier_rules_keeps_them(tmp_path):
    old, terms = saved_by_the_first_rules({"norm": None})
    loaded = TfidfVectorizer.from_state(old)
    found = [sorted(terms[at] for at in loaded.transform([text]).indices) for text in OLD_WORDS]
    assert found == [["द", "न", "ह"], ["kommt", "ller", "mu"], ["co", "op"], []]
    store.save(tmp_path / "again", loaded.to_state())
    assert store.load(tmp_path / "again").version == 1
    again = registry.load(tmp_path / "again")
    assert (again.transform(OLD_WORDS) != loaded.transform(OLD_WORDS)).nnz == 0
    assert again.fit(OLD_WORDS).to_state().version == 3
    assert {"हिन्दी", "m\u00fcller", "coop", "ภา", "าษ"} <= set(again.vocabulary_)
