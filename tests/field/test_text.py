"""Texts as people have them: every script has whole words, and a text that a model knows nothing of gets no labels."""

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

import sylvan
from sylvan import Ensemble, LexicalMatcher, NeighborRanker, Reranker, TextModel, TfidfVectorizer, data
from sylvan.errors import ParameterError

# Of two subjects, words that are told apart by their marks, or stand in runs without spaces; and a pair of texts with
# the same words that a person, a keyboard or a converter of files writes otherwise.
SUBJECTS = {
    "Hindi": ["मोती नदी किताब", "माता नाद कीट"], "Tamil": ["கடல் மீன் படகு", "காடு மான் பாடு"],
    "Telugu": ["కలం పుస్తకం", "కాలం పస్తు"], "Nepali": ["पहाड हिउँ", "पाहुना हाउ"],
    "Thai": ["ทะเลและปลา", "ภูเขาและป่า"], "Lao": ["ທະເລແລະປາ", "ພູເຂົາ"], "Khmer": ["សមុទ្រនិងត្រី", "ភ្នំនិងព្រៃ"],
    "Chinese": ["海洋和鱼类", "高山与森林"], "Arabic with vowel signs": ["كَتَبَ كِتَابٌ", "كُتِبَ كُتُبٌ"],
    "Hebrew with points": ["סֵפֶר יָם", "סָפַר יוֹם"], "Vietnamese": ["bò sữa", "bổ sứa"],
    "German": ["Bücher für Müller", "Buche fur Muller"],
}  # fmt: skip
SAME = [
    ("Müller in Köln", unicodedata.normalize("NFD", "Müller in Köln")),
    ("tiếng Việt", unicodedata.normalize("NFD", "tiếng Việt")),
    ("한국어 책", unicodedata.normalize("NFD", "한국어 책")),
    ("がぎぐ", unicodedata.normalize("NFD", "がぎぐ")), ("Ångström", "\u212bngstro\u0308m"), ("क़िताब", "\u0958िताब"),
    ("Donaudampfschiff", "Donau\u00addampf\u00adschiff"), ("می‌روم", "می‌\u200cروم".replace("\u200c\u200c", "\u200c")),
    ("شركة", "\u200fشركة\u200f"), ("office", "of\u2060fice"), ("葛城", "葛\U000e0100城"),
]  # fmt: skip
WORDS = [  # a text, and its words as they are counted
    ("हिन्दी की किताबें", ["हिन्दी", "की", "किताबें"]), ("தமிழ் நூல்", ["தமிழ்", "நூல்"]),
    ("తెలుగు పుస్తకం", ["తెలుగు", "పుస్తకం"]), ("كِتَابٌ جَدِيد", ["كِتَابٌ", "جَدِيد"]), ("סֵפֶר", ["סֵפֶר"]),
    ("co\u00adop zero\u200bwidth", ["coop", "zero", "width"]), ("\u0301ab \u00adcd", ["ab", "cd"]),
    ("กินปลา", ["กิ", "น", "ป", "ล", "า"]), ("e\u0301te\u0301", ["été"]), ("x\u0302y", ["x\u0302y"]),
]  # fmt: skip


@pytest.mark.parametrize("script", SUBJECTS)
def test_every_script_is_told_apart(script: str, call: Any) -> None:
    """By Python and on the command line, where each text of the test has only some of the words."""
    texts = [text for text in SUBJECTS[script] for _ in range(8)]
    labels = [[name] for name in ("first", "second") for _ in range(8)]
    asked = [words[at : at + 1] for words in (text.split() for text in SUBJECTS[script]) for at in range(len(words))]
    right = [["first"] for _ in SUBJECTS[script][0].split()] + [["second"] for _ in SUBJECTS[script][1].split()]
    model = TextModel(TfidfVectorizer(n_jobs=1)).fit(texts, labels)
    assert model.rank([" ".join(words) for words in asked], k=1).names == right
    data.write_jsonl("train.jsonl", texts, labels)
    data.write_jsonl("test.jsonl", [" ".join(words) for words in asked], right)
    call("train xr-linear train.jsonl --model m -q")
    assert call("evaluate m test.jsonl -q -k 1 --json -").json["measures"]["P"]["1"] == 1.0


@pytest.mark.parametrize(("text", "words"), WORDS)
def test_words(text: str, words: Sequence[str]) -> None:
    """Of the vectoriser, and of a matcher of labels' words."""
    counted = TfidfVectorizer(min_token_length=1, cjk="chars").fit([text])
    assert set(counted.vocabulary_) == set(words)
    for word in words:
        matcher = LexicalMatcher().fit(label_texts={"label": word})
        assert matcher.rank([text], k=1).names == [["label"]]
        assert matcher.known_texts([text, "Ω"]).tolist() == [True, False]


@pytest.mark.parametrize(("text", "written"), SAME)
def test_texts_that_look_the_same_are_the_same(text: str, written: str) -> None:
    for how in ({}, {"analyzer": "char_wb", "ngrams": (2, 3)}, {"analyzer": "char", "ngrams": (1, 3)}):
        vectorizer = TfidfVectorizer(**how).fit([text, "other words"])
        assert (vectorizer.transform([text]) != vectorizer.transform([written])).nnz == 0
        again = TfidfVectorizer(**how).fit([written, "other words"])
        assert again.vocabulary_ == vectorizer.vocabulary_
    matcher = LexicalMatcher().fit(label_texts={"label": written})
    assert matcher.rank([text], k=1).names == [["label"]]


@pytest.mark.parametrize(
    ("language", "forms"),
    [("hi", ["किताब", "किताबें"]), ("hi", ["लड़की", "लड़कियों"]), ("ta", ["மரம்", "மரங்கள்"]), ("ne", ["घर", "घरको"])],
)
def test_stems_are_those_of_whole_words(language: str, forms: list[str]) -> None:
    library = pytest.importorskip("snowballstemmer")
    stem = library.stemmer({"hi": "hindi", "ta": "tamil", "ne": "nepali"}[language]).stemWord
    vectorizer = TfidfVectorizer(stem=language, min_token_length=1).fit(forms)
    assert set(vectorizer.vocabulary_) == {stem(form) for form in forms}
    decomposed = [unicodedata.normalize("NFD", form) for form in forms]
    assert (vectorizer.transform(forms) != vectorizer.transform(decomposed)).nnz == 0


def test_lemmas_are_those_of_whole_words() -> None:
    pytest.importorskip("simplemma")
    assert set(TfidfVectorizer(lemmatize="hi").fit(["किताबें", "किताब"]).vocabulary_) == {"किताब"}
    assert set(TfidfVectorizer(lemmatize="fa").fit(["کتاب‌ها", "کتاب"]).vocabulary_) == {"کتاب"}


# ------------------------------------------------------------------------- a text of which the model knows no word

TEXTS = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"] * 12
LABELS = [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]] * 12
UNKNOWN = ["", "   ", "\n\t", "\u3000", "Πάντα ῥεῖ", "подснежник", "x", "!?…", "zzzz qqqq"]
MODELS = {
    "words": lambda: TextModel(),
    "characters": lambda: TextModel(TfidfVectorizer(analyzer="char", ngrams=(3, 4))),
    "neighbours": lambda: TextModel(model=NeighborRanker()),
    "ensemble": lambda: Ensemble([TextModel(), TextModel(TfidfVectorizer(analyzer="char_wb", ngrams=(4, 4)))]),
    "reranker": lambda: Reranker([TextModel(), TextModel(model=NeighborRanker())], scorer="trees", n_trees=3),
    "labels' words": lambda: LexicalMatcher(),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]().fit(TEXTS, LABELS)


def test_no_answer_to_a_text_without_a_known_word(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    for one in (model, sylvan.load(tmp_path / "m")):
        top = one.rank(UNKNOWN, k=3)
        assert (top.labels == -1).all() and np.isneginf(top.scores).all()
        assert not one.known_texts(UNKNOWN).any()
        assert one.predict_proba(UNKNOWN).nnz == 0 and one.predict(UNKNOWN).nnz == 0
        assert one.choose(UNKNOWN, expected="f1").names == [[]] * len(UNKNOWN)
        assert one.choose(UNKNOWN, threshold=0.0).names == [[]] * len(UNKNOWN)
        assert one.rank(UNKNOWN, k=2, allowed=["Baking"]).names == [[]] * len(UNKNOWN)
        mixed = one.rank(["baking bread", *UNKNOWN, "baking"], k=2)
        assert mixed.names[0][0] == mixed.names[-1][0] == "Baking"
        assert (mixed.labels[1:-1] == -1).all()
        found = one.explain("Πάντα ῥεῖ", "Baking")
        assert found.place is None and found.score is None and found.n_known == 0


def test_the_answer_of_those_who_want_it() -> None:
    for make in (MODELS["words"], MODELS["ensemble"]):
        model = make().fit(TEXTS, LABELS)
        usual = model.rank(UNKNOWN, k=1, unknown="prior").names
        assert usual == [["Baking"]] * len(UNKNOWN)
        model.set_params(unknown="prior")
        assert model.rank(UNKNOWN, k=1).names == usual and model.predict_proba(UNKNOWN).nnz
        assert model.explain("Πάντα", "Baking").place == 1
        assert model.rank(UNKNOWN, k=1, unknown="none").names == [[]] * len(UNKNOWN)
    with raises(ParameterError, "unknown", "TextModel", "none", "prior"):
        TextModel(unknown="priors").fit(TEXTS, LABELS)


def test_members_that_know_the_text_answer_for_all(tmp_path: Path) -> None:
    """As if the others weren't there."""
    words = TextModel(TfidfVectorizer(ngrams=(1, 1))).fit(TEXTS, LABELS)
    parts = TextModel(TfidfVectorizer(analyzer="char_wb", ngrams=(4, 4))).fit(TEXTS, LABELS)
    both = Ensemble.of_fitted([words, parts], weights=[3, 1])
    asked = ["whalers", "bakeries and whaleboats"]
    assert words.known_texts(asked).tolist() == [False, True] and both.known_texts(asked).all()
    alone = parts.probabilities(parts.rank(asked[:1], k=3))
    top = both.rank(asked, k=3)
    assert top.names[0] == parts.rank(asked, k=3).names[0]
    np.testing.assert_allclose(top.scores[0], alone.scores[0], rtol=1e-5)


def test_models_of_earlier_releases_say_nothing_of_it(tmp_path: Path) -> None:
    state = TextModel().fit(TEXTS, LABELS).to_state()
    del state.params["unknown"]
    assert TextModel.from_state(state).rank(["Πάντα"], k=1).names == [[]]


def test_the_command_line_counts_them(call: Any, refused: Any) -> None:
    TextModel().fit(TEXTS, LABELS).save("m")
    n = len(UNKNOWN)
    data.write_jsonl("rows.jsonl", ["baking bread", *UNKNOWN], [["Baking"]] * (n + 1))
    outcome = call("predict m rows.jsonl -k 1")
    assert f"The model knows no word of {n} of {n + 1} texts" in outcome.err and "unknown=prior" in outcome.err
    assert outcome.labels == [["Baking"], *([[]] * n)]
    usual = call("predict m rows.jsonl -k 1 --set unknown=prior")
    assert "no word" not in usual.err and usual.labels == [["Baking"]] * (n + 1)
    said = call("evaluate m rows.jsonl -k 1 --json out.json").out
    assert f"The model knows no word of {n} texts" in said
    assert json.loads(Path("out.json").read_text())["texts_unknown"] == n
    call("train xr-linear rows.jsonl --model usual -q --set unknown=prior")
    assert sylvan.load("usual").unknown == "prior"
    refused("must be", "predict m rows.jsonl --set unknown=maybe")


@pytest.mark.parametrize(
    ("text", "term", "there"),
    [
        ("Der Mu\u0308ller malt", "m\u00fcller", "Mu\u0308ller"), ("हिन्दी की किताबें", "किताबें", "किताबें"),
        ("हिन्दी की किताबें", "हिन्दी की", "हिन्दी की"), ("हिन्दी की किताबें", "हिन", None),
        ("Donau\u00addampf", "donaudampf", "Donau\u00addampf"), ("ฉันกินปลาทู", "ปล", "ปล"),
        ("A white whale", "whale", "whale"),
    ],
)  # fmt: skip
def test_words_are_shown_where_they_stand_in_the_text_that_was_given(text: str, term: str, there: str | None) -> None:
    pytest.importorskip("msgspec")
    from sylvan.serve.answers import find_terms

    spans = find_terms(text, {term: 1.0}, by_words=True, lowercase=True)
    assert [text[span.start : span.end] for span in spans] == ([] if there is None else [there])
