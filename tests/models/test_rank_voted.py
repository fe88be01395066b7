"""Answers that carry the neighbours who gave them."""

from __future__ import annotations

import numpy as np
import pytest
from kit.bits import same_bits
from kit.errors import raises

from sylvan import LexicalMatcher, NeighborRanker, TextModel, TopK, XRLinear
from sylvan.errors import NotFittedError, ParameterError
from sylvan.labels.vocabulary import NamedTopK
from sylvan.ranking.votes import Voted

WORDS = ("whales", "ships", "bread", "cakes", "poems", "songs")


def rows(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(WORDS), n)
    return (np.eye(len(WORDS))[y] + rng.random((n, len(WORDS))) / 2).astype(np.float32), y


def texts(n: int = 60, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(WORDS), n)
    return [f"{WORDS[at]} and {rng.choice(WORDS)}" for at in y], [[WORDS[at]] for at in y]


def test_of_a_matrix() -> None:
    X, y = rows()
    model, asked = NeighborRanker(n_neighbors=7).fit(X, y), rows(50, 1)[0]
    for options in ({}, {"allowed": [0, 2]}, {"denied": [1]}):
        top = model.rank_voted(asked, 4, **options)
        assert isinstance(top, Voted)
        same_bits(top, model.probabilities(model.rank(asked, 4, **options)))
        for found, expected in zip(top.nearest, model.neighbors(asked, 7), strict=True):
            assert found.tobytes() == expected.tobytes()
    assert model.voters_ is model.row_labels_
    with raises(ParameterError, "rank", "psp"):
        model.rank_voted(asked, 4, tail="psp")
    with pytest.raises(NotFittedError):
        NeighborRanker().rank_voted(asked, 4)


def test_held_out_rows_are_no_neighbours_of_their_own() -> None:
    X, y = rows()
    X[11] = X[10]  # of two equal rows each is the other's nearest
    held_out = np.array([3, 10, 11, 300], np.int32)
    model = NeighborRanker(n_neighbors=7)
    top = model.fit_holding_out(X, y, held_out)
    assert isinstance(top, Voted) and top.nearest[0].shape == (4, 7)
    for row, nearest in zip(held_out.tolist(), top.nearest[0].tolist(), strict=True):
        others = NeighborRanker(n_neighbors=7).fit(np.delete(X, row, axis=0), np.delete(y, row))
        expected = others.neighbors(X[row : row + 1], 7)[0][0]
        assert nearest == [int(at) + (at >= row) for at in expected]
    assert top.nearest[0][1, 0] == 11 and top.nearest[0][2, 0] == 10


def test_of_texts() -> None:
    X, Y = texts()
    model = TextModel(model=NeighborRanker(n_neighbors=5)).fit(X, Y)
    top = model.rank_voted(X[:9], 3, allowed=["whales", "bread"])
    assert isinstance(top, Voted)
    same_bits(top, model.probabilities(model.rank(X[:9], 3, allowed=["whales", "bread"])))
    features = model.vectorizer.transform(X[:9])
    assert (top.nearest[0] == model.model.neighbors(features, 5)[0]).all()
    assert model.voters_ is model.model.row_labels_


def test_with_labels_that_are_known_by_their_texts() -> None:
    X, Y = texts(200)
    names = {word: word for word in WORDS} | {"storms": "ships in storms"}
    model = TextModel(model=NeighborRanker(n_neighbors=5), unlearned="answer").fit(X, Y, label_texts=names)
    assert len(model.unlearned_labels_)
    top = model.rank_voted(X[:9], 3)
    assert isinstance(top, Voted)
    same_bits(top, model.probabilities(model.rank(X[:9], 3)))
    assert (top.nearest[0] == model.model.neighbors(model.vectorizer.transform(X[:9]), 5)[0]).all()


def test_of_models_without_neighbours() -> None:
    X, y = rows()
    model = XRLinear().fit(X, y)
    top = model.rank_voted(X[:5], 3)
    assert not model.has_voters and model.voters_ is None and not isinstance(top, Voted)
    same_bits(top, model.probabilities(model.rank(X[:5], 3)))
    matcher = LexicalMatcher().fit(label_texts={"n1": "whaling"})
    assert not matcher.has_voters and matcher.rank_voted(["whaling"], 1).labels.tolist() == [[0]]


@pytest.mark.parametrize("which", [slice(1, 3), np.array([2, 0]), np.array([True, False, True])])
def test_answers_of_some_rows(which: object) -> None:
    X, Y = texts()
    model = TextModel(model=NeighborRanker(n_neighbors=5)).fit(X, Y)
    voted, named = model.rank_voted(X[:3], 2), model.rank(X[:3], 2)
    numbers = np.arange(3)[which]
    some, some_named = voted.of_rows(which), named.of_rows(which)
    assert isinstance(some, Voted) and isinstance(some_named, NamedTopK)
    same_bits(some, TopK(voted.labels[numbers], voted.scores[numbers]))
    assert (some.nearest[0] == voted.nearest[0][numbers]).all() and (some.nearest[1] == voted.nearest[1][numbers]).all()
    assert some_named.names == [named.names[at] for at in numbers]
