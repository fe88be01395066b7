"""TextModel: strings to strings, in one folder; and from blocks of texts."""

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits, same_bits
from kit.books import load_sample
from kit.errors import raises

import sylvan
from sylvan import Ensemble, TextModel, TfidfVectorizer, XRLinear, data
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError
from sylvan.runtime import checkpointed

TEXTS = [
    "whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread and rolls",
    "stars and planets", "a telescope for the stars",
] * 3  # fmt: skip
LABELS = [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"], ["Astronomy"], ["Astronomy", "Optics"]] * 3


@pytest.fixture(scope="module")
def model() -> TextModel:
    return TextModel(TfidfVectorizer(ngrams=(1, 2)), XRLinear(beam=5)).fit(TEXTS, LABELS)


def same_answers(one: TextModel, other: TextModel) -> bool:
    first, second = one.rank(TEXTS, k=4), other.rank(TEXTS, k=4)
    return bits(first) == bits(second) and first.names == second.names


def test_the_same_as_its_parts_one_by_one(model: TextModel) -> None:
    vectorizer, names = TfidfVectorizer(ngrams=(1, 2)), data.Vocabulary.from_labels(LABELS)
    inner = XRLinear(beam=5).fit(vectorizer.fit_transform(TEXTS), names.encode(LABELS))
    assert same_answers(model, TextModel.from_parts(vectorizer, inner, names))


def test_parts_that_do_not_fit_are_refused(model: TextModel) -> None:
    names = data.Vocabulary(["a", "b"])
    with raises(DataError, "vocabulary", 2, 5):
        TextModel.from_parts(model.vectorizer, model.model, names)
    with raises(DataError, "features"):
        TextModel.from_parts(TfidfVectorizer().fit(["one two"]), model.model, model.vocabulary_)
    with raises(DataError, "matrices"):
        TextModel.from_parts(model.vectorizer, model, model.vocabulary_)


@pytest.mark.parametrize(
    "labels",
    [
        [tuple(row) for row in LABELS], [set(row) for row in LABELS], [dict.fromkeys(row, 1.0) for row in LABELS],
        [[(name, 1.0) for name in row] for row in LABELS], [[*row, row[0]] for row in LABELS],
        np.array([np.array(row, dtype=object) for row in LABELS], dtype=object),
    ],
    ids=["tuples", "sets", "dicts", "pairs", "named twice", "object array"],
)  # fmt: skip
def test_forms_of_labels(model: TextModel, labels: Any) -> None:
    assert same_answers(model, TextModel(TfidfVectorizer(ngrams=(1, 2)), XRLinear(beam=5)).fit(TEXTS, labels))


def test_an_array_of_numpys_strings(model: TextModel) -> None:
    strings = getattr(getattr(np, "dtypes", None), "StringDType", lambda: object)()  # since NumPy 2
    assert model.rank(np.array(TEXTS, strings), k=3).names == model.rank(TEXTS, k=3).names


def test_a_label_matrix(model: TextModel) -> None:
    Y = model.vocabulary_.encode(LABELS)
    for given in (Y, Y.toarray(), sp.csr_array(Y)):
        by_matrix = TextModel(TfidfVectorizer(ngrams=(1, 2)), XRLinear(beam=5)).fit(TEXTS, given)
        assert np.array_equal(by_matrix.rank(TEXTS, k=3).labels, model.rank(TEXTS, k=3).labels)
        assert list(by_matrix.vocabulary_) == ["0", "1", "2", "3", "4"]


def test_relevance_counts_as_a_cost() -> None:
    """Of two labels that always stand together, the one of more relevance gets the higher score."""
    pairs = [[("Low", 0.05), ("High", 20.0)] if "Baking" in row else ["Other"] for row in LABELS]
    assert TextModel().fit(TEXTS, pairs).rank(["bread"], k=1).names == [["High"]]


def test_the_fields_of_json_lines_are_kept(model: TextModel, tmp_path: Path) -> None:
    assert (model.text_fields_, model.labels_field_) == (("text",), "labels")
    other = copy.copy(model)
    other.text_fields_, other.labels_field_ = ("title", "author"), "subjects"
    other.save(tmp_path / "m")
    loaded = sylvan.load(tmp_path / "m")
    assert (loaded.text_fields_, loaded.labels_field_) == (("title", "author"), "subjects")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.meta.update(text_fields=[]), "text_fields"),
        (lambda state: state.meta.update(text_fields=[3]), "text_fields"),
        (lambda state: state.meta.update(labels_field=None), "labels_field"),
        (lambda state: state.parts.update(vocabulary=data.Vocabulary(["one"]).to_state()), ("vocabulary", 1)),
        (lambda state: state.parts.update(model=state.parts["vectorizer"]), "damaged"),
        (lambda state: state.parts.pop("model"), "'model'"),
    ],
)
def test_a_folder_whose_parts_do_not_fit_is_refused(
    change: Any, words: object, model: TextModel, tmp_path: Path
) -> None:
    state = model.to_state()
    change(state)
    sylvan.store.save(tmp_path / "m", state)
    with raises(ModelError, words):
        sylvan.load(tmp_path / "m")


def test_parameters_reach_into_the_parts() -> None:
    model = TextModel(TfidfVectorizer(ngrams=(1, 2)), XRLinear(beam=5))
    parameters = model.get_params()
    assert parameters["model__beam"] == 5 and parameters["vectorizer__ngrams"] == (1, 2)
    assert set(model.get_params(deep=False)) == {"vectorizer", "model", "label_encoder", "unknown", "unlearned"}
    model.set_params(model__beam=20, vectorizer__min_df=2)
    assert (model.model.beam, model.vectorizer.min_df) == (20, 2)
    with raises(ParameterError, "beem"):
        model.set_params(model__beem=1)
    with raises(ParameterError, "beam"):
        model.set_params(beam=1)


def test_repr_names_the_parts() -> None:
    text = repr(TextModel(TfidfVectorizer(min_df=2), XRLinear(beam=3)))
    assert text == "TextModel(vectorizer=TfidfVectorizer(min_df=2), model=XRLinear(beam=3))"


def test_any_iterable_of_texts(model: TextModel) -> None:
    once = (text for text in TEXTS)
    assert model.rank(once, k=2).names == model.rank(np.array(TEXTS), k=2).names == model.rank(tuple(TEXTS), k=2).names


@pytest.mark.parametrize(
    ("texts", "labels", "sentence"),
    [
        (TEXTS, "one string", "string"), (TEXTS, [*LABELS[:-1], ["ok", 3]], "ints"),
        (TEXTS, [*LABELS[:-1], [("negative", -1.0)]], "weight"), (TEXTS, [*LABELS[:-1], None], "text 17"),
        (TEXTS, [*LABELS[:-1], [3.5]], "text 17"), (TEXTS, 5, ("Y", "int")), (None, LABELS, ("list", "NoneType")),
        (5, LABELS, ("list", "int")), ([], [], "texts"),
    ],
)  # fmt: skip
def test_what_is_no_text_or_label_is_refused(texts: Any, labels: Any, sentence: object) -> None:
    with raises(DataError, sentence):
        TextModel().fit(texts, labels)


def test_no_texts_and_no_thresholds(model: TextModel) -> None:
    for call in (lambda: model.rank(None), lambda: model.explain(None, "Baking")):  # type: ignore[arg-type]
        with raises(DataError, "list", "NoneType"):
            call()
    with raises(DataError, "list", "NoneType"):
        Ensemble([TextModel(), TextModel()]).fit(None, LABELS)
    for no_labels in (None, 5):
        with raises(DataError, "Y"):
            Ensemble([TextModel(), TextModel()]).fit(TEXTS, no_labels)
    with raises(DataError, "'Baking'", "'Baking '"):
        model.choose(TEXTS, threshold={"Baking": 0.1, "Baking ": 0.9})
    with raises(DataError, "threshold", "[0, 1]", "'0.5'", "'Baking'"):
        model.choose(TEXTS, threshold={"Baking": "0.5"})


def test_wrong_parts() -> None:
    with pytest.raises(NotFittedError):
        _ = TextModel().classes_
    with raises(ParameterError, "model", "TextModel"):
        TextModel(model=TfidfVectorizer()).fit(TEXTS, LABELS)  # type: ignore[arg-type]
    with raises(ParameterError, "vectorizer", "TextModel"):
        TextModel(vectorizer=XRLinear()).fit(TEXTS, LABELS)  # type: ignore[arg-type]


def test_an_int_is_the_id_of_a_label_in_explanations_too() -> None:
    texts, names = ["alpha one", "beta two", "gamma three"], [["1"], ["2"], ["3"]]
    model = TextModel().fit(texts * 20, names * 20)
    assert model.explain("beta two", 1).name == model.rank(["beta two"], 1, allowed=[1]).names[0][0] == "2"
    assert model.explain("beta two", "1").name == "1"


def test_labels_allowed_and_denied_by_name(model: TextModel) -> None:
    texts = ["bread under the stars", "a voyage to the whales"]
    for row in model.rank(texts, k=5, allowed=["Optics", "Baking"]).names:
        assert set(row) == {"Baking", "Optics"}
    assert model.rank(texts, k=5, allowed=np.array(["Optics"])).names == [["Optics"]] * 2
    assert model.rank(texts, k=5, allowed=[["Baking"], ["Voyages", 2]]).names[0] == ["Baking"]
    assert set(model.rank(texts, k=5, allowed=[["Baking"], ("Voyages", 2)]).names[1]) == {"Voyages", "Optics"}
    names = model.rank(texts, k=5, denied={"Whaling", "Baking"}).names
    assert all(set(row) == {"Astronomy", "Optics", "Voyages"} for row in names)
    assert model.rank(texts, k=1, allowed=[2], denied=["Optics"]).names == [[], []]


def test_a_name_that_is_not_known_is_refused_with_one_that_is(model: TextModel) -> None:
    for given in (["Wailing"], [["Baking"], ["Wailing"]]):
        sentence = ("Wailing", 5, "Whaling")
        with raises(DataError, sentence):
            model.rank(["bread", "stars"], denied=given)
    with raises(DataError, "qqqqqq"):
        model.rank(["bread"], allowed=["qqqqqq"])


TRAIN, _ = load_sample()
BOOKS, HEADINGS = list(TRAIN.texts[:300]), list(TRAIN.labels[:300])


def blocks(size: int, weights: Any = None) -> Iterator[Any]:
    for first in range(0, len(BOOKS), size):
        part = slice(first, first + size)
        yield data.TextData(BOOKS[part], HEADINGS[part], None if weights is None else weights[part])


def make(**params: Any) -> TextModel:
    return TextModel(TfidfVectorizer(ngrams=(1, 2), sublinear_tf=True, **params), XRLinear(branching=4, max_leaf=20))


@cache
def whole(**params: Any) -> TextModel:
    """Of all texts at once."""
    return make(**params).fit(BOOKS, HEADINGS)


@pytest.mark.parametrize("size", [1, 97, 10_000])
@pytest.mark.parametrize("params", [{"n_jobs": 1}, {"n_jobs": 3, "min_df": 2, "max_features": 400}])
def test_the_same_model(size: int, params: dict[str, Any]) -> None:
    same_bits(make(**params).fit_blocks(blocks(size)), whole(**params))


def test_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointed, "private_bytes", lambda _: 0)
    same_bits(make().fit_blocks(blocks(100), memory_limit="10MB"), whole())


def test_relevances_in_some_blocks() -> None:
    weights = [[1.0 + row % 3 for _ in labels] for row, labels in enumerate(HEADINGS)]
    pairs = [list(zip(*row, strict=True)) for row in zip(HEADINGS, weights, strict=True)]
    same_bits(make().fit_blocks(blocks(50, weights)), make().fit(BOOKS, pairs))


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    data.write_jsonl(path, BOOKS, HEADINGS)
    same_bits(make().fit_blocks(data.stream_jsonl(path, rows=64)), whole())


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ([["a text"]], (0, "TextData")), ([(["a text"], [["a"]]), 3], ("pair", 1)),
        ([(["one", "two"], [["a"]])], ("labels", 0, 2, 1)), ([(["one"], [[["a"]]])], "lists"),
        ([(["one"], [["a"]]), (["two"], [[2]])], "ints"), ([(["one"], [["a"]], [[-1.0]])], ("finite", 0)),
        ([(["one"], [["a"]], [[1.0, 2.0]])], "relevances"),
        ([(["one", "two"], [["a", "b"], ["c"]], [[1.0], [2.0, 3.0]])], "as many as its labels"),
        ([([3], [["a"]])], ("str", 0)), (["abc"], ("Block 0", "str")),
        ([(["one"], [["a"]], None, None)], ("Block 0", "tuple")), ([], "documents"),
    ],
)  # fmt: skip
def test_what_is_refused(wrong: list[Any], sentence: object) -> None:
    model = TextModel().fit(["one", "two"], [["a"], ["b"]])
    with raises(DataError, sentence):
        model.fit_blocks(wrong)
    assert model.rank(["two"], k=1).names == [["b"]]
