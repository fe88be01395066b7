"""Labels as people have them: numbers, blanks, forms of one name; what every model and metric makes of them."""

import itertools
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises, warns

import sylvan
from sylvan import BeamTreeClassifier, Ensemble, NeighborRanker, Reranker, TextModel, TopK, XRLinear, metrics
from sylvan.data import Vocabulary
from sylvan.errors import DataError, DataWarning

X = np.eye(4, dtype=np.float32).repeat(8, axis=0)
PLACES = np.arange(4).repeat(8)
TEXTS = np.array(["gradient network", "image camera", "robot grasp", "bayes posterior"])[PLACES].tolist()

MATRIX_MODELS: dict[str, Callable[[], Any]] = {
    "XRLinear": lambda: XRLinear(n_jobs=1),
    "NeighborRanker": lambda: NeighborRanker(n_jobs=1),
    "BeamTreeClassifier": lambda: BeamTreeClassifier(n_candidates=2, n_jobs=1),
    "Ensemble": lambda: Ensemble([XRLinear(n_jobs=1), NeighborRanker(n_jobs=1)], n_jobs=1),
}
TEXT_MODELS: dict[str, Callable[[], Any]] = {
    "TextModel": lambda: TextModel(model=XRLinear(n_jobs=1)),
    "Ensemble of texts": lambda: Ensemble([TextModel(model=XRLinear(n_jobs=1)), TextModel(model=NeighborRanker())]),
    "Reranker": lambda: Reranker([TextModel(model=XRLinear(n_jobs=1))], n_trees=4, n_jobs=1),
}
MODELS = [*MATRIX_MODELS, *TEXT_MODELS]
IDS = {
    "from 0": [0, 1, 2, 3], "from 1": [1, 2, 3, 4], "tens": [10, 20, 30, 40],
    "products": [7, 1_048_575, 1_048_576, 5_000_000], "books": [3, 50_000_000, 2_000_000_000, 9_783_161_484_100],
}  # fmt: skip


def made(name: str) -> tuple[Any, Any]:
    """A model, and the rows that it takes."""
    return (MATRIX_MODELS[name](), X) if name in MATRIX_MODELS else (TEXT_MODELS[name](), TEXTS)


FORMS: dict[str, Any] = {"list": list, "array": np.array, "lists": lambda y: [[label] for label in y]}
# All with one model; each form and some ids with the others.
WITH_ALL = [("from 1", "list"), ("products", "array"), ("books", "lists")]


@pytest.mark.parametrize(
    ("name", "ids_of", "form"),
    [("XRLinear", *both) for both in itertools.product(IDS, FORMS)]
    + [(name, *both) for name in MODELS if name != "XRLinear" for both in WITH_ALL],
)
def test_ids_are_names_of_classes(name: str, ids_of: str, form: str, tmp_path: Path) -> None:
    ids = IDS[ids_of]
    model, rows = made(name)
    Y = FORMS[form]([ids[place] for place in PLACES])
    model.fit(rows, Y).save(tmp_path / "model")
    for each in (model, sylvan.load(tmp_path / "model")):
        top = each.rank(rows, k=1)
        assert each.n_labels_ == 4 and each.classes_.tolist() == ids
        assert metrics.precision(Y, top, at=1) == {1: 1.0} and each.score(rows, Y) == 1.0
        assert top.labels[:, 0].tolist() == PLACES.tolist(), "labels are places in classes_, whatever the ids"
        if isinstance(top.names, list):
            assert top.names == [[ids[place]] for place in PLACES]
        assert each.rank(rows[:1], k=4, allowed=[ids[0], ids[2]], denied=[ids[2]]).labels[0].tolist()[:2] == [0, -1]
        proba = each.predict_proba(rows)
        assert proba.shape == (len(rows), 4)
        if name != "BeamTreeClassifier":
            assert each.explain(rows[8:9], ids[1]).label == 1
    if form == "array":
        assert model.predict(rows).tolist() == Y.tolist()


@pytest.mark.parametrize("name", ["XRLinear", "NeighborRanker", "BeamTreeClassifier", "TextModel"])
def test_new_ids_are_new_classes(name: str) -> None:
    model = XRLinear(n_jobs=1, keep_rows=True) if name == "XRLinear" else made(name)[0]
    rows = X if name in MATRIX_MODELS else TEXTS
    if name == "TextModel":
        model = TextModel(model=XRLinear(n_jobs=1, keep_rows=True))
    known, new = [8, 8, 1000], 1_000_000
    model.fit(rows[:24], [[known[place]] for place in PLACES[:24]])
    model.update(rows[24:], [[new]] * 8)
    assert model.n_labels_ == 3 and model.classes_.tolist() == [8, 1000, new]
    assert metrics.precision([[new]] * 8, model.rank(rows[24:], k=1), at=1) == {1: 1.0}


def test_ids_far_from_those_of_a_matrix_cost_what_occurs() -> None:
    model = XRLinear(n_jobs=1, keep_rows=True).fit(X[:24], sp.csr_matrix(np.eye(3)[PLACES[:24]]))
    model.update(X[24:], [[1_000_000]] * 8)
    assert model.n_labels_ == 4 and model.classes_.tolist() == [0, 1, 2, 1_000_000]
    assert model.rank(X[24:25], k=1).names == [[1_000_000]]


def test_the_columns_of_a_matrix_are_columns() -> None:
    Y = np.zeros((32, 7), np.float32)
    Y[np.arange(32), PLACES + 2] = 1
    model = XRLinear(n_jobs=1).fit(X, Y)
    assert model.n_labels_ == 7 and model.classes_.tolist() == list(range(7))
    assert metrics.precision(Y, model.rank(X, k=1), at=1) == {1: 1.0}
    assert metrics.precision((PLACES + 2).tolist(), model.rank(X, k=1), at=1) == {1: 1.0}


def test_scikit_learn_has_no_class_0_to_miss() -> None:
    pytest.importorskip("sklearn")
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.metrics import log_loss, roc_auc_score

    y = PLACES + 1
    model = XRLinear(n_jobs=1).fit(X, y)
    proba = model.predict_proba(X)
    assert np.isfinite(log_loss(y, proba)) and roc_auc_score(y, proba, multi_class="ovr") == 1.0
    many, columns = np.repeat(np.arange(150), 2), np.eye(150).repeat(2, axis=0)
    for each in (XRLinear(n_jobs=1), BeamTreeClassifier(n_jobs=1)):  # more classes than the 100 of a sparse result
        proba = each.fit(columns, many).predict_proba(columns)
        assert np.isfinite(log_loss(many, proba)) and roc_auc_score(many, proba, multi_class="ovr") > 0.9
    calibrated = CalibratedClassifierCV(XRLinear(n_jobs=1), cv=2).fit(X, y)
    assert calibrated.predict(X).tolist() == y.tolist()


# ---------------------------------------- metrics of named answers

NAMED = XRLinear(n_jobs=1).fit(X, np.array(["elm", "ash", "oak", "fir"])[PLACES])
WOODS = np.array(["elm", "ash", "oak", "fir"])[PLACES].tolist()
DIGITS = XRLinear(n_jobs=1).fit(X, np.array(["10", "20", "30", "40"])[PLACES])


@pytest.mark.parametrize(
    ("model", "Y", "expected"),
    [
        (NAMED, WOODS, 1.0), (NAMED, [[wood] for wood in WOODS], 1.0), (NAMED, [[f" {wood} "] for wood in WOODS], 1.0),
        (NAMED, NAMED.vocabulary_.encode([[wood] for wood in WOODS]), 1.0), (NAMED, [*WOODS[:16], *["palm"] * 16], 0.5),
        (NAMED, ["palm"] * 32, 0.0), (DIGITS, ((PLACES + 1) * 10).tolist(), 1.0),
        (DIGITS, [str(label) for label in (PLACES + 1) * 10], 1.0),
    ],
)  # fmt: skip
def test_metrics_look_names_up(model: Any, Y: Any, expected: float) -> None:
    assert metrics.precision(Y, model.rank(X, k=1), at=1) == {1: expected}
    assert metrics.evaluate(Y, model.rank(X, k=1), at=1)["P@1"] == expected
    assert metrics.recall(Y, model.probabilities(model.rank(X, k=3)), at=3) == {3: expected}


@pytest.mark.parametrize(
    ("model", "Y", "words"),
    [
        (NAMED, PLACES.tolist(), (0, "ash")),
        (XRLinear(n_jobs=1).fit(X, PLACES + 5), WOODS, "ash"),
        (NAMED, np.eye(5)[PLACES], ("columns", 5, 4)),
        (XRLinear(n_jobs=1).fit(X, PLACES), WOODS, "row 0"),
    ],
)
def test_metrics_refuse_what_they_can_not_look_up(model: Any, Y: Any, words: object) -> None:
    with raises(DataError, words):
        metrics.precision(Y, model.rank(X, k=1), at=1)


def test_metrics_of_answers_without_names() -> None:
    top = TopK(np.array([[2, 0], [1, 3]], np.int32), np.array([[0.9, 0.4], [0.7, 0.1]], np.float32))
    assert metrics.precision([[2], [3]], top, at=1) == {1: 0.5}
    with raises(DataError, "Y", "label 3", 3):
        metrics.precision([1, 3], np.eye(3)[:2], at=1)


# ---------------------------------------- names

NFC, NFD = "Bäume", unicodedata.normalize("NFD", "Bäume")


@pytest.mark.parametrize("name", MODELS)
def test_names_of_one_form_are_one_label(name: str) -> None:
    model, rows = made(name)
    spelled = [NFC, NFD, f" {NFC}", f"{NFD}\u00a0"]
    Y = [spelled[i % 4] if place == 0 else f"label {place}" for i, place in enumerate(PLACES)]
    model.fit(rows, Y)
    assert model.classes_.tolist() == sorted([NFC, "label 1", "label 2", "label 3"])
    assert model.score(rows, Y) == 1.0
    for spelling in spelled:
        assert model.rank(rows[:1], k=4, allowed=[spelling]).names == [[NFC]]
        assert NFC not in model.rank(rows[:1], k=4, denied=[spelling]).names[0]
        assert model.vocabulary_.get(spelling) == model.vocabulary_.id(NFC)
        if name not in ("Reranker", "Ensemble of texts"):
            assert model.explain(rows[:1], spelling).name == NFC


@pytest.mark.parametrize("name", ["XRLinear", "TextModel", "Ensemble", "Ensemble of texts"])
def test_a_blank_name_is_no_label(name: str) -> None:
    model, rows = made(name)
    Y = [[f"label {place}", *(["", "  "] if i == 0 else [])] for i, place in enumerate(PLACES)]
    with warns(DataWarning, "blank", 2):
        model.fit(rows, Y)
    assert model.classes_.tolist() == [f"label {place}" for place in range(4)]


def test_names_that_come_later_have_the_same_form() -> None:
    model = XRLinear(n_jobs=1, keep_rows=True).fit(X[:24], [[f"label {place}"] for place in PLACES[:24]])
    model.update(X[24:], [[NFD]] * 4 + [[f"{NFC} "]] * 4)
    assert model.classes_.tolist()[-1] == NFC and model.n_labels_ == 4
    renamed = model.with_label_names({f" {NFD}": "Wa\u0308lder "})
    assert renamed.classes_.tolist()[-1] == "Wälder"
    with raises(DataError, "blank"):
        model.with_label_names({NFC: " "})
    assert model.without_labels([NFD]).removed_labels_.tolist() == [3]


def test_vocabularies() -> None:
    names = Vocabulary([f" {NFD}", "sea"])
    assert list(names) == [NFC, "sea"] and names.encode([[NFC], [f"{NFD} "]]).toarray().tolist() == [[1, 0]] * 2
    assert list(Vocabulary.from_labels([[NFC, NFD, "", " sea "]])) == [NFC, "sea"]
    with raises(DataError, "['P001']", "the string"):  # whose characters aren't labels
        Vocabulary.from_labels(["P001", "P002"])
    with raises(DataError, "Bäume"):
        Vocabulary([NFC, NFD])
    with raises(DataError, "blank"):
        Vocabulary(["sea", " "])
    with warns(DataWarning, "blank", 1):
        assert names.encode([["sea", ""]]).nnz == 1


# ---------------------------------------- forms that may mean something else


@pytest.mark.parametrize("Y", [PLACES[:, None] > 1, sp.csr_matrix(PLACES[:, None] > 1)])
def test_a_column_of_flags_is_one_label(Y: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert XRLinear(n_jobs=1).fit(X, Y).n_labels_ == 1


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_a_column_of_zeros_and_ones_says_what_it_is_taken_for(dtype: Any) -> None:
    Y = (PLACES[:, None] > 1).astype(dtype)
    with warns(DataWarning, "(32, 1)"):
        model = XRLinear(n_jobs=1).fit(X, Y)
    assert model.n_labels_ == 1


@pytest.mark.parametrize("width", [3, 4])
def test_lists_of_zeros_and_ones_are_no_ids(width: int) -> None:
    Y = np.eye(width, dtype=int)[PLACES % width].tolist()
    for call in (lambda: XRLinear(n_jobs=1).fit(X, Y), lambda: metrics.precision(Y, NAMED.rank(X, k=1), at=1)):
        with raises(DataError, "np.asarray", "Y"):
            call()


# ---------------------------------------- targets of losses


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ("one-hot", (7, "targets.argmax", "dim=-1")),
        ("multi-hot", "one-hot"),
        ([[3, 3], [1, 2]], "class 3"),
        ([[3, -100], [2, 2]], "class 2"),
    ],
)
@pytest.mark.parametrize("loss", ["full", "sampled", "cane"])
def test_losses_refuse_what_is_no_row_of_classes(loss: str, targets: Any, words: object) -> None:
    torch = pytest.importorskip("torch")
    from sylvan.sampling import CANELoss, FullSoftmaxLoss, SampledSoftmaxLoss, Uniform

    made: dict[str, Any] = {
        "full": FullSoftmaxLoss, "sampled": lambda: SampledSoftmaxLoss(Uniform(7), 3),
        "cane": lambda: CANELoss(lambda queries, table: torch.arange(3).expand(len(queries), -1), Uniform(7)),
    }  # fmt: skip
    hot = torch.eye(7, dtype=torch.long)[[3, 1]]
    forms = {"one-hot": hot, "multi-hot": hot + torch.eye(7, dtype=torch.long)[6]}
    given = forms[targets] if isinstance(targets, str) else torch.tensor(targets)
    queries, table = torch.randn(2, 4), torch.nn.Parameter(torch.randn(7, 4))
    with raises(DataError, words):
        made[loss]()(queries, table, given)
    for good in ([3, 1], [[3, 1], [2, -100]], [[-100, -100], [0, 1]]):
        assert torch.isfinite(made[loss]()(queries, table, torch.tensor(good)))
    with raises(DataError, "class 3"):  # of a sequence of queries
        made[loss]()(queries[:, None], table, torch.tensor([[[3, 1, 3]], [[0, 1, 2]]]))
