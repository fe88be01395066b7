"""A text model from blocks is the model from all texts at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sylvan import TextModel, TfidfVectorizer, XRLinear, data
from sylvan.errors import DataError
from sylvan.runtime import checkpointed

TRAIN, TEST = data.load_sample()
TEXTS, LABELS = list(TRAIN.texts[:300]), list(TRAIN.labels[:300])


def blocks(size: int, weights: Any = None) -> Iterator[Any]:
    for first in range(0, len(TEXTS), size):
        part = slice(first, first + size)
        yield data.TextData(TEXTS[part], LABELS[part], None if weights is None else weights[part])


def make(**params: Any) -> TextModel:
    return TextModel(TfidfVectorizer(ngrams=(1, 2), sublinear_tf=True, **params), XRLinear(branching=4, max_leaf=20))


def same(one: TextModel, other: TextModel) -> bool:
    tops = [model.rank(TEST.texts[:100], k=5) for model in (one, other)]
    return (
        list(one.vocabulary_) == list(other.vocabulary_)
        and one.vectorizer.vocabulary_ == other.vectorizer.vocabulary_
        and np.array_equal(tops[0].labels, tops[1].labels)
        and np.array_equal(tops[0].scores, tops[1].scores)
    )


@pytest.mark.parametrize("size", [1, 97, 10_000])
@pytest.mark.parametrize("params", [{"n_jobs": 1}, {"n_jobs": 3, "min_df": 2, "max_features": 400}])
def test_the_same_model(size: int, params: dict[str, Any]) -> None:
    assert same(make(**params).fit_blocks(blocks(size)), make(**params).fit(TEXTS, LABELS))


def test_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointed, "private_bytes", lambda _: 0)
    assert same(make().fit_blocks(blocks(100), memory_limit="10MB"), make().fit(TEXTS, LABELS))


def test_relevances_in_some_blocks() -> None:
    weights = [[1.0 + row % 3 for _ in labels] for row, labels in enumerate(LABELS)]
    pairs = [list(zip(*row, strict=True)) for row in zip(LABELS, weights, strict=True)]
    assert same(make().fit_blocks(blocks(50, weights)), make().fit(TEXTS, pairs))


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    data.write_jsonl(path, TEXTS, LABELS)
    assert same(make().fit_blocks(data.stream_jsonl(path, rows=64)), make().fit(TEXTS, LABELS))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ([["a text"]], r"Block 0 must be a pair of texts and labels, or a TextData. Got list instead"),
        ([(["a text"], [["a"]]), 3], r"Block 1 must be a pair .* Got int instead"),
        ([(["one", "two"], [["a"]])], "Block 0 has 2 texts, but labels for 1"),
        ([(["one"], [[["a"]]])], "must be lists of strings or of ints"),
        ([(["one"], [["a"]]), (["two"], [[2]])], "Labels must be all strings or all ints"),
        ([(["one"], [["a"]], [[-1.0]])], "relevance must be a finite number of at least 0"),
        ([(["one"], [["a"]], [[1.0, 2.0]])], "relevance must be a finite number"),
        ([([3], [["a"]])], "Document 0 of texts must be a str"),
        ([], "no documents to learn a vocabulary from"),
    ],
)
def test_what_is_refused(wrong: list[Any], sentence: str) -> None:
    model = TextModel().fit(["one", "two"], [["a"], ["b"]])
    with pytest.raises(DataError, match=sentence):
        model.fit_blocks(wrong)
    assert model.rank(["two"], k=1).names == [["b"]]
