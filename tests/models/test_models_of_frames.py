"""Models that are trained and asked with data frames, and rankings as data frames."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import bits
from kit.errors import raises

import sylvan
from sylvan import BeamTreeClassifier, Ensemble, NeighborRanker, TextModel, TfidfVectorizer, TopK, XRLinear
from sylvan.errors import DataError, ParameterError

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
try:
    import polars
except ImportError:
    polars = None

X = np.eye(4, dtype=np.float32).repeat(4, axis=0)
COLUMNS = {name: np.ascontiguousarray(X[:, place]) for place, name in enumerate("abcd")}
LABELS = [row for row in (["sea"], ["ships", "sea"], ["land"], ["air"]) for _ in range(4)]
TEXTS = [text for text in ("whales at sea", "ships at sea", "bread of the land", "birds of the air") for _ in range(4)]
MAKERS: list[Any] = [pandas.DataFrame, pyarrow.table] + ([] if polars is None else [polars.DataFrame])
makers = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__module__.partition(".")[0])
MODELS: list[Callable[[], Any]] = [
    lambda: XRLinear(n_jobs=1),
    lambda: NeighborRanker(n_jobs=1),
    lambda: Ensemble([XRLinear(n_jobs=1), NeighborRanker(n_jobs=1)], n_jobs=1),
]


def column(make: Any, values: list[Any]) -> Any:
    """A column of the library that ``make`` is of."""
    frame = make({"labels": values})
    return frame["labels"]


@makers
@pytest.mark.parametrize("model", [*MODELS, lambda: TextModel(model=XRLinear(n_jobs=1))])
def test_a_column_for_each_label(make: Any, model: Callable[[], Any], tmp_path: Path) -> None:
    names = ["ships", "air", "sea", "land"]
    flags = {name: np.array([name in row for row in LABELS]) for name in names}
    fitted = model()
    inputs = TEXTS if fitted.takes_texts or isinstance(fitted, TextModel) else X
    fitted.fit(inputs, make(flags)).save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    if not isinstance(fitted, Ensemble):
        assert again.classes_.tolist() == names, "in the order of the columns"
    assert sorted(again.classes_.tolist()) == sorted(names)
    assert again.rank(inputs[-1:], k=1).names == [["air"]]
    assert again.score(inputs, make(flags)) == 1
    assert again.score(inputs, make({name: flags[name] for name in sorted(names)})) == 1, "by name"
    assert again.score(inputs, make({"never": flags["sea"], "ever": flags["air"]})) == 0
    assert again.predict(inputs).shape == (16, 4)


@makers
def test_models_of_text_take_the_column_of_texts(make: Any) -> None:
    frame = make({"id": range(16), "text": TEXTS})
    expected = TextModel(model=XRLinear(n_jobs=1)).fit(TEXTS, LABELS)
    model = TextModel(model=XRLinear(n_jobs=1)).fit(frame, column(make, LABELS))
    assert bits(model.rank(frame, k=3)) == bits(model.rank(column(make, TEXTS), k=3)) == bits(expected.rank(TEXTS, k=3))
    with raises(DataError, 2, "title"):
        model.rank(make({"title": ["a", "b"], "text": ["c", "d"]}))
    with raises(DataError, "text", "dict"):
        model.rank({"text": TEXTS})
    assert (TfidfVectorizer().fit_transform(frame) != TfidfVectorizer().fit_transform(TEXTS)).nnz == 0


@makers
def test_classes_in_a_column(make: Any) -> None:
    names = [row[0] for row in LABELS]
    for model in (XRLinear(n_jobs=1), BeamTreeClassifier(n_candidates=2, n_jobs=1)):
        model.fit(make(COLUMNS), column(make, names))
        assert model.predict(make(COLUMNS)).tolist() == model.fit(X, names).predict(X).tolist()
    flags = {name: np.array([name == row for row in names]) for name in ("sea", "land", "ships", "air")}
    model = BeamTreeClassifier(n_candidates=2, n_jobs=1).fit(X, make(flags))
    assert model.classes_.tolist() == list(flags) and model.score(X, make(flags)) == 1
    assert model.predict(X[-1:]).tolist() == ["air"]


@makers
def test_rows_that_come_later_in_frames(make: Any) -> None:
    new = {name: np.array([name == "new"] * 4) for name in ("sea", "new")}
    for model in (XRLinear(n_jobs=1, keep_rows=True), NeighborRanker(n_jobs=1)):
        model.fit(make(COLUMNS), column(make, LABELS))
        rows = {name: np.zeros(4, np.float32) for name in "abcd"} | {"a": np.ones(4, np.float32), "d": -np.ones(4)}
        model.update(make(rows), make(new))
        assert model.classes_.tolist() == ["air", "land", "sea", "ships", "new"]
        model.update(make(rows), column(make, [["newer"]] * 4))
        assert model.classes_[-1] == "newer"


# ---------------------------------------- rankings as frames

NONE = -np.inf
TOP = TopK(
    np.array([[2, 0], [1, -1], [-1, -1]], np.int32), np.array([[0.75, 0.5], [1, NONE], [NONE, NONE]], np.float32)
)
LONG = [
    {"row": 0, "rank": 1, "label": 2, "score": 0.75},
    {"row": 0, "rank": 2, "label": 0, "score": 0.5},
    {"row": 1, "rank": 1, "label": 1, "score": 1.0},
]


def records(frame: Any) -> list[dict[str, Any]]:
    if hasattr(frame, "to_pylist"):
        return frame.to_pylist()
    return frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")


LIBRARIES = ["pandas", "arrow"] + ([] if polars is None else ["polars"])


@pytest.mark.parametrize("library", LIBRARIES)
def test_rankings_in_long_form(library: str) -> None:
    assert records(TOP.to_frame(library)) == LONG
    named = TOP.to_frame(library, rows=pandas.Index(["x", "y", "z"]), names=["sea", "land", "air"])
    assert [tuple(line.values()) for line in records(named)] == [
        ("x", 1, "air", 0.75), ("x", 2, "sea", 0.5), ("y", 1, "land", 1.0)
    ]  # fmt: skip
    assert records(TopK(TOP.labels[:0], TOP.scores[:0]).to_frame(library)) == []


def test_rankings_have_the_names_that_they_know() -> None:
    top = XRLinear(n_jobs=1).fit(X, LABELS).rank(X[-1:], k=1)
    frame = top.to_frame()
    assert frame["label"].tolist() == ["air"] and frame.dtypes["score"] == np.float32
    assert top.to_frame(names=["1", "2", "3", "4"])["label"].tolist() == ["1"]


def test_what_a_frame_of_rankings_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(ParameterError, "library", "to_frame", "excel"):
        TOP.to_frame("excel")
    with raises(DataError, "'rows'", "to_frame", 3, 2):
        TOP.to_frame(rows=["a", "b"])
    monkeypatch.setitem(sys.modules, "polars", None)
    with raises(ImportError, "to_frame", "'polars'"):
        TOP.to_frame("polars")
