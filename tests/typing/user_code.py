"""Code as users write it, for mypy --strict and pyright: an unused ``type: ignore`` is an error there too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import sylvan
from sylvan import (
    BeamTreeClassifier,
    Ensemble,
    IRLIClassifier,
    IRLIIndex,
    LabelTree,
    Reranker,
    TextModel,
    TfidfVectorizer,
    TopK,
    TransformerMatcher,
    XRLinear,
    XRTransformer,
    metrics,
)
from sylvan.errors import ModelError
from sylvan.labels.vocabulary import NamedTopK

if TYPE_CHECKING:
    from typing_extensions import assert_type
else:

    def assert_type(value: Any, kind: Any) -> Any:
        return value


TEXTS = ["whales of the south seas", "bread and cakes"]
LABELS = [["Whaling"], ["Baking"]]


def parameters_have_defaults() -> None:
    TextModel()
    TextModel(model=XRLinear())
    TextModel(TfidfVectorizer(), XRLinear(beam=20), unknown="prior")
    XRLinear(calibration=None, clustering="random", weight_dtype="float16", embedding="pii", relevance="l1")
    XRLinear(weight_dtype="float15")  # type: ignore[arg-type]
    XRLinear(clustering="kmean")  # type: ignore[arg-type]
    TextModel(model="xr-linear")  # type: ignore[arg-type]
    TextModel(modle=XRLinear())  # type: ignore[call-arg]


def choices_are_words_that_editors_know() -> None:
    XRLinear(loss="logistic", negatives=["tfn", "man"], combine="l3_hinge:0.25", negative_cost="auto")
    XRLinear(loss="hinge2")  # type: ignore[arg-type]
    XRLinear(negatives="tnf")  # type: ignore[arg-type]
    XRLinear(negatives=["tfn", "mna"])  # type: ignore[list-item]
    XRLinear(tolerance="automatic")  # type: ignore[arg-type]
    XRLinear.preset("fast")
    XRLinear.preset("slow")  # type: ignore[arg-type]
    TextModel(unknown="priors")  # type: ignore[arg-type]
    TfidfVectorizer(norm="l1", analyzer="char_wb", cjk="chars", stem="en")
    TfidfVectorizer(norm="l3")  # type: ignore[arg-type]
    TfidfVectorizer(analyzer="chars")  # type: ignore[arg-type]
    Ensemble([], how="reciprocal_rank", unknown="prior", calibration=None)
    Ensemble([], how="mean")  # type: ignore[arg-type]
    Reranker([], scorer="trees", objective="rank")
    Reranker([], scorer="tree")  # type: ignore[arg-type]
    IRLIIndex(metric="angular", order="votes", n_buckets="auto")
    IRLIIndex(metric="cosine")  # type: ignore[arg-type]
    IRLIClassifier(order="likelihood")
    IRLIClassifier(order="likely")  # type: ignore[arg-type]
    BeamTreeClassifier(loss="softmax", tree="frequency", optimizer="auto", noise="unigram", class_weight="balanced")
    BeamTreeClassifier(loss="logistic")  # type: ignore[arg-type]
    BeamTreeClassifier(optimizer="adam")  # type: ignore[arg-type]
    XRTransformer("bag", preset="tiny", pooling="cls", matcher=TransformerMatcher(precision="bf16", relevance="max"))
    XRTransformer("bag", preset="small")  # type: ignore[arg-type]
    TransformerMatcher(negatives_from="ranker")  # type: ignore[arg-type]


def choices_of_calls_are_too(model: TextModel, top: TopK) -> None:
    model.rank(TEXTS, unknown="prior")
    model.rank(TEXTS, unknown="usual")  # type: ignore[arg-type]
    XRLinear().choose(TEXTS, expected="f1")
    XRLinear().choose(TEXTS, expected="F1")  # type: ignore[arg-type]
    model.compress(weight_dtype="uint4")
    model.compress(weight_dtype="int4")  # type: ignore[arg-type]
    LabelTree.build(np.eye(4), clustering="random")
    LabelTree.build(np.eye(4), clustering="randomly")  # type: ignore[arg-type]
    top.to_frame("polars")
    top.to_frame("numpy")  # type: ignore[arg-type]
    TfidfVectorizer().set_output(transform="panda")  # type: ignore[arg-type]
    metrics.calibration_error(LABELS, top, bins="mass")
    metrics.calibration_error(LABELS, top, bins="masses")  # type: ignore[arg-type]


def answers_have_names() -> None:
    top = TextModel().fit(TEXTS, LABELS).rank(["whales"], k=1)
    assert_type(top, NamedTopK)
    names: list[list[str]] = top.names
    assert names == [["Whaling"]] and names[0][0].upper() == "WHALING"

    X = np.eye(2, dtype=np.float32)
    ranking = XRLinear().fit(X, LABELS).rank(X, k=1)
    assert_type(ranking, TopK)
    first: str = ranking.names[0][0]
    assert first == "Whaling" and [row[0] for row in ranking.names] == ["Whaling", "Baking"]

    columns = XRLinear().fit(X, X).rank(X, k=1)
    assert columns.names == [[0], [1]]
    assert_type(columns.names(["a", "b"]), list[list[str]])
    assert columns.names(["a", "b"]) == [["a"], ["b"]]


def saved_models_are_of_the_expected_class(folder: str) -> None:
    TextModel().fit(TEXTS, LABELS).save(folder)
    assert_type(sylvan.load(folder, expected=TextModel), TextModel)
    assert_type(TextModel.from_pretrained(folder), TextModel)
    try:
        sylvan.load(folder, expected=XRLinear)
    except ModelError as error:
        assert str(error).endswith("must hold XRLinear. Got TextModel instead.")
    else:
        raise AssertionError("it was another class")


def answers_are_matrices_or_arrays() -> None:
    model = TextModel().fit(TEXTS, LABELS)
    for answers in (model.predict(TEXTS), model.predict_proba(TEXTS)):
        assert not isinstance(answers, np.ndarray) and answers.toarray().shape == (2, 2)
    classes = XRLinear().fit(np.eye(2), ["sea", "land"]).predict(np.eye(2))
    assert isinstance(classes, np.ndarray) and classes.tolist() == ["sea", "land"]
