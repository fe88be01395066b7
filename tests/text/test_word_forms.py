"""Words counted as their stems or lemmas: as the reference implementation does it, word by word."""

import builtins
import copy
import importlib.metadata
import os
import pickle
import sys
import threading
import warnings

import numpy as np
import pytest
import tfidf_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.bits import same_bits
from kit.errors import raises, warns
from text_samples import ENGLISH, FINNISH, GERMAN, OTHERS

from sylvan import TextModel, kernels, store
from sylvan.errors import ModelError, OtherReleaseWarning, ParameterError
from sylvan.store import registry
from sylvan.text import TfidfVectorizer, word_forms
from sylvan.text.counting import PADDING
from sylvan.text.estimate import estimate_texts

snowballstemmer = pytest.importorskip("snowballstemmer")
simplemma = pytest.importorskip("simplemma")

BY_LANGUAGE = {"en": ENGLISH, "de": GERMAN, "fi": FINNISH}


def stem(language, lowercase=True):
    """As the stemmer has it, without anything remembered."""
    stemmer = snowballstemmer.stemmer(word_forms.STEM_LANGUAGES[language])
    return lambda word: form(stemmer.stemWord(word), word, lowercase)


def lemma(language, lowercase=True):
    def of(word):
        asked = word.lower() if lowercase and word.isupper() else word
        return form(simplemma.lemmatize(asked, lang=language), word, lowercase)

    return of


def form(found, word, lowercase):
    if any("\ud800" <= character <= "\udfff" for character in word):
        return word.lower() if lowercase else word
    return "_".join((found.lower() if lowercase else found).split()) or word


def assert_as_reference(texts, ngrams, cjk="bigrams", lowercase=True, others=(), **how):
    ((kind, language),) = how.items()
    words_as = {"stem": stem, "lemmatize": lemma}[kind](language, lowercase)
    lowered = lowercase and kind == "stem"  # lemmas are those of words as they are written
    reading = {"ngrams": ngrams, "analyzer": "word", "lowercase": lowered, "cjk": cjk, "form_of": words_as}
    vocabulary, matrix = tfidf_reference.fit_transform(texts, **reading)
    ours = TfidfVectorizer(ngrams=ngrams, cjk=cjk, lowercase=lowercase, n_jobs=1, **how)
    X = ours.fit_transform(texts)
    assert ours.get_feature_names_out().tolist() == vocabulary
    np.testing.assert_allclose(X.toarray(), matrix, rtol=1e-5, atol=1e-7)
    for text in others:  # with words that fit hasn't seen
        counts = tfidf_reference.terms_of(text, **reading)
        row = np.array([counts.count(term) for term in vocabulary]) * ours.idf_
        expected = row / (np.linalg.norm(row) or 1)
        np.testing.assert_allclose(ours.transform([text]).toarray()[0], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["stem", "lemmatize"])
@pytest.mark.parametrize("language", BY_LANGUAGE)
@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2), (2, 3)])
def test_same_matrix_as_the_reference(kind, language, ngrams):
    assert_as_reference(BY_LANGUAGE[language], ngrams, others=ENGLISH + GERMAN + FINNISH + OTHERS, **{kind: language})


@pytest.mark.parametrize("cjk", ["word", "bigrams", "chars"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_same_matrix_in_every_script(cjk, lowercase):
    assert_as_reference(ENGLISH + GERMAN + OTHERS, (1, 2), cjk, lowercase, stem="en")
    assert_as_reference(ENGLISH + GERMAN + OTHERS, (1, 2), cjk, lowercase, lemmatize="de")


@settings(max_examples=60)
@given(st.lists(st.text("abeginsty sÄẞœ_9 狗猫\ud800", max_size=60), min_size=1, max_size=6))
def test_same_matrix_of_any_texts(texts):
    assert_as_reference(["eating eats", *texts], (1, 2), others=["the eaten", *texts], stem="en")


def test_forms_of_one_word_are_one_term():
    vectorizer = TfidfVectorizer(stem="en").fit(["The whales", "a whale", "whaling"])
    assert vectorizer.get_feature_names_out().tolist() == ["the", "whale"]
    assert vectorizer.transform(["WHALED"]).nnz == 1  # a form that fit hasn't seen
    lemmas = TfidfVectorizer(lemmatize="de", ngrams=(1, 2)).fit(["die HÄUSER", "Ein Haus der Bücher", "wir hausen"])
    words = [term for term in lemmas.vocabulary_ if " " not in term]
    assert words == ["buch", "der", "ein", "haus", "hausen", "wir"]  # one is a noun, the other a verb
    phrases = lemmas.get_feature_names_out()[lemmas.phrases()].tolist()
    assert phrases and all(len(phrase.split(" ")) == 2 for phrase in phrases)


def test_forms_never_part_a_phrase(monkeypatch):
    """Whatever a library says: nothing, spaces, capitals."""
    said = {"one": "", "two": "t w\u00a0o", "three": "THREE"}
    monkeypatch.setattr(simplemma, "lemmatize", lambda word, lang: said.get(word, word))
    word_forms.forms_of_language.cache_clear()
    try:
        vectorizer = TfidfVectorizer(lemmatize="en", ngrams=(1, 2)).fit(["one two three"])
        assert set(vectorizer.vocabulary_) == {"one", "t_w_o", "three", "one t_w_o", "t_w_o three"}
        assert vectorizer.phrases().sum() == 2
    finally:
        word_forms.forms_of_language.cache_clear()


def test_same_bits_with_any_number_of_threads_and_blocks():
    texts = (ENGLISH + GERMAN + OTHERS) * 100
    rows = [TfidfVectorizer(stem="en", ngrams=(1, 2), n_jobs=n).fit_transform(texts) for n in (1, 4)]
    blocks = [texts[at : at + 37] for at in range(0, len(texts), 37)]
    rows.append(TfidfVectorizer(stem="en", ngrams=(1, 2), n_jobs=2).fit_transform_blocks(blocks).to_scipy())
    same_bits(rows, rows[:1] * 3)


def test_many_threads_ask_at_once():
    """A stemmer's state is that of one word: without a lock, threads would get each other's stems."""
    words = [f"{start}{end}" for start in ("walk", "talk", "jump", "whal") for end in ("ing", "ed", "s", "er")]
    expected = [stem("en")(word) for word in words]
    forms = word_forms.forms_of_language.__wrapped__("en", None, True)
    forms._form = forms._form_of  # nothing is remembered
    found = []

    def work():
        found.extend([forms.of(word) for word in words] == expected for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert len(found) == 800 and all(found)


def test_each_word_is_asked_once(monkeypatch):
    asked = []
    monkeypatch.setattr(simplemma, "lemmatize", lambda word, lang: asked.append(word) or word)
    monkeypatch.setattr(word_forms, "_MOST_KNOWN", 5)
    forms = word_forms.forms_of_language.__wrapped__(None, "en", True)
    asked.clear()
    assert [forms.of(word) for word in ("a1", "b1", "a1", "c1", "b1")] == ["a1", "b1", "a1", "c1", "b1"]
    assert asked == ["a1", "b1", "c1"]
    assert forms._forms_of([b"a1", b"x", b"y", b"z"]) == [b"a1", b"x", b"y", b"z"]
    assert asked == ["a1", "b1", "c1", "x", "y", "z"]
    assert forms.of("a1") == "a1" and len(asked) == 6  # what was in use is remembered still, the rest is not
    assert forms.of("c1") == "c1" and len(asked) == 7


def test_saved_with_the_release_of_the_library(tmp_path):
    vectorizer = TfidfVectorizer(stem="de", ngrams=(1, 2)).fit(GERMAN)
    vectorizer.save(tmp_path / "v")
    state = store.load(tmp_path / "v")
    assert state.version == 3 and state.params["stem"] == "de" and "lemmatize" not in state.params
    package, release = state.meta["forms_by"].split(" ")
    assert release == importlib.metadata.version(package)
    loaded = registry.load(tmp_path / "v")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, Z = vectorizer.transform(GERMAN + OTHERS), loaded.transform(GERMAN + OTHERS)
    same_bits(X, Z)


def test_another_release_is_said_once(tmp_path):
    vectorizer = TfidfVectorizer(lemmatize="en").fit(ENGLISH)
    state = vectorizer.to_state()
    state.meta["forms_by"] = "simplemma 0.1"
    store.save(tmp_path / "v", state)
    loaded = registry.load(tmp_path / "v")
    words = ("0.1", "simplemma")
    with warns(OtherReleaseWarning, words) as said:
        loaded.transform(ENGLISH)
        loaded.transform(ENGLISH)
    assert len(said) == 1
    assert loaded.to_state().meta["forms_by"] == "simplemma 0.1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.fit(ENGLISH)  # by this release
    assert loaded.to_state().meta == vectorizer.to_state().meta


def test_a_stem_is_that_of_its_snowball():
    forms = word_forms.forms_of_language.__wrapped__("en", None, True)
    numbers = forms.library.rpartition(" ")[2].split(".")
    assert forms.agrees(f"PyStemmer {numbers[0]}.{numbers[1]}.99")
    assert not forms.agrees(f"snowballstemmer {numbers[0]}.99.0")


@pytest.mark.parametrize("said", [None, 7, ""])
def test_a_model_that_doesnt_say_by_what(said, tmp_path):
    state = TfidfVectorizer(stem="en").fit(ENGLISH).to_state()
    state.meta["forms_by"] = said
    if said is None:
        del state.meta["forms_by"]
    store.save(tmp_path / "v", state)
    with raises(ModelError, "library"):
        registry.load(tmp_path / "v")


@pytest.mark.parametrize(("name", "package"), [("stem", "snowballstemmer"), ("lemmatize", "simplemma")])
def test_without_the_library(name, package, monkeypatch, tmp_path):
    fitted = TfidfVectorizer(**{name: "en"}).fit(ENGLISH)
    fitted.save(tmp_path / "v")
    real = builtins.__import__

    def absent(module, *rest, **more):
        if module.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(module, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    monkeypatch.setitem(sys.modules, package, None)
    word_forms.forms_of_language.cache_clear()
    loaded = registry.load(tmp_path / "v")  # opens, and can be inspected
    assert loaded.n_terms_ == fitted.n_terms_
    for use in (loaded.transform, TfidfVectorizer(**{name: "en"}).fit):
        with raises(ImportError, package, "sylvan[languages]"):
            use(ENGLISH)
    word_forms.forms_of_language.cache_clear()


def test_languages_that_an_older_library_lacks(monkeypatch):
    monkeypatch.setitem(word_forms.STEM_LANGUAGES, "en", "klingon")
    with raises(ImportError, "en"):
        word_forms.forms_of_language.__wrapped__("en", None, True)
    with raises(ImportError, "tlh"):
        word_forms.forms_of_language.__wrapped__(None, "tlh", True)


def test_every_language_is_in_the_libraries():
    for language in word_forms.STEM_LANGUAGES:
        assert word_forms.forms_of_language.__wrapped__(language, None, True).of("a") != ""
    for language in word_forms.LEMMA_LANGUAGES:
        found = word_forms.__name__ and os.path.join(os.path.dirname(simplemma.__file__), "strategies", "dictionaries")
        assert os.path.exists(os.path.join(found, "data", f"{language}.plzma")), language


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"stem": "english"}, ("stem", "TfidfVectorizer", "ar", "None", "english")),
        ({"lemmatize": "xx"}, "lemmatize"),
        ({"stem": "en", "lemmatize": "en"}, "lemma"),
        ({"stem": "en", "analyzer": "char"}, ("stem", "TfidfVectorizer", "analyzer='char'")),
        ({"lemmatize": "en", "analyzer": "char_wb"}, "lemmatize"),
    ],
    ids=str,
)
def test_parameters_refused(how, words):
    with raises(ParameterError, words):
        TfidfVectorizer(**how).fit(ENGLISH)
    with raises(ParameterError, words):
        TfidfVectorizer().fit(ENGLISH).set_params(**how).transform(ENGLISH)


def test_copied_pickled_and_grown():
    vectorizer = TfidfVectorizer(stem="en").fit(["red whales"])
    for copied in (pickle.loads(pickle.dumps(vectorizer)), copy.deepcopy(vectorizer)):
        assert copied.transform(["whaling"]).nnz == 1
    grown = vectorizer.with_terms_of(["green teas", "greens"], 1)
    assert grown.get_feature_names_out().tolist() == ["red", "whale", "green", "tea"]
    assert grown.to_state().meta["forms_by"] == vectorizer.to_state().meta["forms_by"]


def test_estimate_counts_stems():
    texts = [f"{word}{end}" for word in ("walk", "talk", "jump") for end in ("s", "ed", "ing")] * 3
    assert estimate_texts(TfidfVectorizer(stem="en"), texts).n_terms == 3
    assert estimate_texts(TfidfVectorizer(), texts).n_terms == 9


def test_a_text_model_answers_by_stems(tmp_path):
    texts = ["whales of the seas", "a voyage over the sea", "bread and cakes", "the baking of bread"]
    tagger = TextModel(TfidfVectorizer(stem="en")).fit(texts, [["Whaling"], ["Voyages"], ["Baking"], ["Baking"]])
    assert tagger.rank(["whaling"], k=1).names == [["Whaling"]]
    tagger.save(tmp_path / "m")
    top, again = tagger.rank(texts, k=3), registry.load(tmp_path / "m").rank(texts, k=3)
    assert (top.labels == again.labels).all() and (top.scores == again.scores).all()
    assert "whale" in {one.name for one in tagger.explain("whaling", "Whaling").trees[0].paths[0].steps[0].positive}


def test_tables_of_forms_are_verified():
    """Arrays that don't fit each other are refused before a kernel looks into them."""
    words, padding = b"ab", bytes(PADDING)
    data, offsets = np.frombuffer(words + padding, np.uint8), np.array([0, 1, 2])
    slots = kernels.tfidf_slots(data, offsets)
    kernels.TfidfForms(data, offsets, slots, data, offsets)
    wrong = [
        (data[:-1], offsets, slots, data, offsets),
        (data, offsets, slots, data[:-1], offsets),
        (data, offsets, slots, data, offsets[:-1]),
        (data, np.array([0, 2, 1]), slots, data, offsets),
        (data, offsets, slots, data, np.array([0, 0, 2])),
        (data, offsets, slots, data, np.array([1, 2, 2])),
        (data, offsets, slots[:-1], data, offsets),
        (data, offsets, slots[:0], data, offsets),
        (data, offsets, np.zeros_like(slots), data, offsets),
        (data, offsets, slots + np.uint64(7) * (slots > 0), data, offsets),
        (data, offsets[:0], slots, data, offsets[:0]),
    ]
    for arrays in wrong:
        with raises(ValueError, "fit"):
            kernels.TfidfForms(*arrays)
