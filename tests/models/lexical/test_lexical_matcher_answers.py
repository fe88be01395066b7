"""LexicalMatcher: labels without rows, what rows teach, relations, columns, explanations, updates."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

import sylvan
from sylvan import LexicalMatcher, TopK
from sylvan.data import LabelTerms, SubjectVocabulary
from sylvan.errors import DataError, ModelError, ParameterError, UnsupportedError
from sylvan.models.lexical.matching import FEATURES
from sylvan.models.lexical.stored_terms import derived_names, heading_parts

TERMS = {
    "n1": LabelTerms(("whaling",), ("whale hunting",), ("whalling",), broader=("n5",)),
    "n2": LabelTerms(("bread baking",)),
    "n3": LabelTerms(("Twain, Mark, 1835-1910",)),
    "n4": LabelTerms(("Mississippi River -- Description and travel",)),
    "n5": LabelTerms(("hunting",), related=("n2",)),
}


@pytest.fixture(scope="module")
def untaught() -> LexicalMatcher:
    return LexicalMatcher().fit(label_texts=TERMS)


def column(model: LexicalMatcher, text: str, label: str, name: str) -> float:
    number = model.vocabulary_.id(label)
    return float(model.features([text], [[number]])[0, 0, FEATURES.index(name)])


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("On WHALE hunting", "n1"), ("The whalling industry", "n1"), ("The baking of fresh bread", "n2"),
        ("A life of Mark Twain", "n3"), ("Travel on the river Mississippi: a description", "n4"), ("Mississippi", "n4"),
        ("fox hunting", "n5"),
    ],
)  # fmt: skip
def test_labels_that_no_row_has_are_found(untaught: LexicalMatcher, text: str, label: str) -> None:
    assert untaught.rank([text], k=1).names == [[label]]
    assert (untaught.n_rows_, untaught.label_counts_.tolist()) == (0, [0] * 5)


def test_texts_without_any_of_the_words_get_no_answer(untaught: LexicalMatcher) -> None:
    assert untaught.rank(["", "of the", "nothing"], k=2).names == [[], [], []]
    assert untaught.rank([], k=2).labels.shape == (0, 2)


@pytest.mark.filterwarnings("ignore:The vocabulary names its labels in several languages")
def test_subject_vocabularies_are_label_texts() -> None:
    subjects = SubjectVocabulary({"u:1": {"en": "whaling", "de": "Walfang"}, "u:2": {"en": "bread"}}, {"u:1": ["u:2"]})
    model = LexicalMatcher().fit(label_texts=subjects)
    assert model.rank(["der Walfang"], k=1).names == [["u:1"]]
    named = LexicalMatcher().fit(["the bread"], [["bread"]], label_texts=subjects)
    assert list(named.vocabulary_) == ["bread", "whaling"] and named.rank(["Walfang"], k=1).names == [["whaling"]]


def test_headings() -> None:
    assert heading_parts("Lear (King) -- In art") == ("Lear", "In art") and heading_parts(" -- x") == ()
    assert derived_names("Bonn (Germany), 1900") == ("Bonn",)
    assert derived_names("1914-1918") == derived_names("(x)") == derived_names("whaling") == ()


def rows(n: int = 240) -> tuple[list[str], list[list[str]]]:
    """Where "river" stands the label is wrong; where "sea" does, right; each label has half of the rows."""
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for number in range(n):
        words = ["sea", "river"] if number % 2 else ["river"]
        texts.append(" ".join(rng.permutation([*words, *rng.choice(["a", "b", "c"], 4)])))
        labels.append(["S"] if number % 2 else ["other"])
    return texts, labels


def test_what_rows_say_of_labels_is_learned() -> None:
    terms = {"S": "sea", "R": "river", "other": "thing"}
    plain = LexicalMatcher(n_trees=0).fit(*rows(), label_texts=terms)
    taught = LexicalMatcher(n_trees=10).fit(*rows(), label_texts=terms)
    text = "river, river and the sea"
    assert plain.rank([text], k=1).names == [["R"]]
    assert taught.rank([text], k=1).names == [["S"]], "the river was never right where it was found"
    assert column(taught, text, "R", "keyphraseness") < 0.05 < 0.9 < column(taught, text, "S", "keyphraseness")
    top = taught.predict_proba([text], k=2).toarray()[0]
    assert top[taught.vocabulary_.id("S")] > 0.9 and top[taught.vocabulary_.id("R")] < 0.1


def test_a_row_doesn_t_count_for_itself() -> None:
    """Labels of one row each: what says that they are right is that row alone."""
    rng = np.random.default_rng(0)
    words = [f"word{at}" for at in range(300)]
    texts = [" ".join([words[at], *rng.choice(words, 3)]) for at in range(300)]
    model = LexicalMatcher(n_trees=20, calibration=None).fit(texts, [[word] for word in words])
    scores = model.rank([f"{words[0]} {words[1]}"], k=2).scores
    assert scores.max() < 0.6, "one of four found labels is right, whatever its own row says"


def test_weights_of_rows() -> None:
    texts, labels = rows()
    weight = np.array([1.0 if row == ["S"] else 0.0 for row in labels])
    model = LexicalMatcher(n_trees=0).fit(texts, labels, weight, label_texts={"S": "sea", "other": "river"})
    assert column(model, "river", "other", "keyphraseness") < 0.1
    half = LexicalMatcher(n_trees=0).fit(texts, labels, label_texts={"S": "sea", "other": "river"})
    assert column(half, "river", "other", "keyphraseness") == pytest.approx(0.5, abs=0.05)


def test_columns(untaught: LexicalMatcher) -> None:
    text = "Whaling! We saw a whale hunting, and other Hunting. Then bread was baking; whaling."
    assert column(untaught, text, "n1", "preferred") == pytest.approx(np.log(3))
    assert column(untaught, text, "n1", "alternative") == pytest.approx(np.log(2))
    assert column(untaught, text, "n1", "sentences") == pytest.approx(np.log(4))
    assert column(untaught, text, "n1", "first") == 0
    assert column(untaught, text, "n1", "spread") == pytest.approx(13 / 14)
    assert column(untaught, text, "n5", "capitals") == pytest.approx(1 / 2)
    assert column(untaught, text, "n1", "broader") == pytest.approx(np.log(2))
    assert column(untaught, text, "n5", "narrower") == pytest.approx(np.log(2))
    for label in ("n2", "n5"):
        assert column(untaught, text, label, "related") == pytest.approx(np.log(2))
    assert column(untaught, text, "n2", "share") == 1 and column(untaught, text, "n3", "share") == 0
    assert column(untaught, "whale", "n1", "share") == pytest.approx(0.5, abs=0.2)
    assert column(untaught, "Description and travel", "n4", "parts") == pytest.approx(0.5)


def test_columns_of_any_labels(untaught: LexicalMatcher) -> None:
    texts = ["whaling and bread baking", "hunting", "", "Mark Twain"]
    top = untaught.rank(texts, k=3)
    columns = untaught.features(texts, top)
    assert columns.shape == (4, 3, len(untaught.feature_names_)) and columns.dtype == np.float32
    assert not columns[2].any() and not columns[top.labels < 0].any()
    alone = untaught.features(texts[:1], [[top.labels[0, 1], -1, top.labels[0, 0], top.labels[0, 0]]])
    assert (alone[0, 0] == columns[0, 1]).all() and (alone[0, 2] == columns[0, 0]).all()
    assert (alone[0, 3] == columns[0, 0]).all() and not alone[0, 1].any()
    assert untaught.features([], np.zeros((0, 2), int)).shape == (0, 2, len(FEATURES))


@pytest.mark.parametrize(
    "bad", [[0], [[5]], [[-2]], [[0.5]], [[0], [1]], TopK(np.zeros((2, 1), np.int32), np.zeros((2, 1), np.float32))]
)
def test_candidates_that_are_none_are_refused(untaught: LexicalMatcher, bad: Any) -> None:
    with raises(DataError, "candidates"):
        untaught.features(["whaling"], bad)


def test_explanations(untaught: LexicalMatcher) -> None:
    text = "We saw a whale hunting near the ship. Whale hunting. The bread."
    notes = " ".join(untaught.explain(text, "n1").notes)
    assert "The alternative form 'whale hunting' stands there 2 times: at character 9 (" in notes
    assert "preferred" not in notes and "1 broader" in notes
    assert ", and 1 more." in " ".join(untaught.explain(text, "n1", top=1).notes)
    note = untaught.explain("Baking, they said, of bread", "n2").notes[0]
    assert note == "All words of the preferred form 'bread baking' stand in the sentence at character 0."
    note = untaught.explain("Some bread", "n2").notes[0]
    assert note.endswith("1 of the 2 words of the preferred form 'bread baking' stand in the text: 'bread'.")
    found = untaught.explain("nothing", "n2")
    assert found.place is None and "none of its words stands in the text" in found.notes[0]
    with raises(DataError, "explain"):
        untaught.explain(["a", "b"], "n2")
    with raises(UnsupportedError, "searches"):
        untaught.searched("whaling")


def test_new_words_and_labels(untaught: LexicalMatcher, tmp_path: Path) -> None:
    untaught.save(tmp_path / "m")
    model = sylvan.load(tmp_path / "m")
    model.update(["A steam engine", "engines"], [["n6"], ["n1"]], label_texts={"n1": "engines", "n6": ["steam engine"]})
    assert model.rank(["steam engine"], k=1).names == [["n6"]] and model.rank(["engines"], k=1).names == [["n1"]]
    assert model.rank(["whaling"], k=1).names == [[]], "its words are others now"
    assert model.rank(["bread baking"], k=1).names == [["n2"]]
    assert (model.n_rows_, model.label_counts_.tolist()) == (2, [1, 0, 0, 0, 0, 1])
    with raises(DataError, "label_texts"):
        model.update()
    with raises(UnsupportedError, "forget"):
        model.update(forget=[0])


@pytest.mark.parametrize(
    ("arguments", "options", "why"),
    [
        ((), {}, ("texts", "label_texts", "alone")), ((["a"],), {}, ("X", "Y", "together")),
        (([], []), {"label_texts": None}, ("label_texts", "alone")), ((), {"label_texts": {}}, "word"),
        ((), {"label_texts": {"a": "..."}}, ("None", 1, "word")), ((["a", "b"], [["x"]]), {}, ("labels", 2, 1)),
        (("a", ["x"]), {}, "list"), ((["a"], [["x"]]), {"label_texts": 3}, ("label_texts", "int")),
    ],
)  # fmt: skip
def test_what_can_t_be_learned_from(arguments: tuple[Any, ...], options: dict[str, Any], why: object) -> None:
    with raises(DataError, why):
        LexicalMatcher().fit(*arguments, **options)


def test_one_class_a_row(tmp_path: Path) -> None:
    model = LexicalMatcher().fit(["whales", "bread", "bread"], ["whales", "bread", "bread"])
    model.save(tmp_path / "m")
    assert sylvan.load(tmp_path / "m").predict(["whales", "?"]).tolist() == ["whales", "bread"]
    assert not model.fit(label_texts=TERMS).single_label_


def test_stems_and_lemmas_exclude_each_other() -> None:
    with raises(ParameterError, "exclude"):
        LexicalMatcher(stem="en", lemmatize="en").fit(label_texts=TERMS)


def test_stems_are_stored(tmp_path: Path) -> None:
    pytest.importorskip("snowballstemmer")
    model = LexicalMatcher(stem="en").fit(label_texts={"n1": "hunting of whales"})
    model.save(tmp_path / "m")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = sylvan.load(tmp_path / "m")
        assert again.rank(["he hunts a whale"], k=1).names == [["n1"]]
    assert again.get_params()["stem"] == "en"


@pytest.mark.parametrize(
    ("name", "wrong"), [("labels", 5), ("labels", -1), ("kinds", 5), ("broader", 5), ("related", 5)]
)
def test_stored_terms_that_are_damaged(untaught: LexicalMatcher, name: str, wrong: int) -> None:
    state = untaught.to_state()
    key = next(key for key in state.arrays if key.endswith(f"terms.{name}"))
    state.arrays[key] = np.full_like(state.arrays[key], wrong)
    with raises(ModelError, f"terms.{name}"):
        LexicalMatcher.from_state(state)
