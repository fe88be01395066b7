"""Answers that carry the neighbours who gave them."""

import numpy as np
import pytest
from kit.bits import same_bits
from kit.errors import raises
from kit.known import known, questions
from kit.topics import WORDS, corpus

from sylvan import LexicalMatcher, NeighborRanker, TextModel, TopK, XRLinear
from sylvan.errors import NotFittedError, ParameterError
from sylvan.labels.vocabulary import NamedTopK
from sylvan.ranking.votes import Voted

DATA = known(6, 40, most=1)
TEXTS, LABELS = corpus(200, seed=0)


def test_of_a_matrix() -> None:
    model, asked = NeighborRanker(n_neighbors=7).fit(DATA.X, DATA.Y), questions(DATA)[0]
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


def test_with_labels_that_are_known_by_their_texts() -> None:
    texts = {**WORDS, "Storms": "ocean stars"}
    model = TextModel(model=NeighborRanker(n_neighbors=5), unlearned="answer").fit(TEXTS, LABELS, label_texts=texts)
    assert len(model.unlearned_labels_) and model.voters_ is model.model.row_labels_
    for options in ({}, {"allowed": ["Whaling", "Baking"]}):
        top = model.rank_voted(TEXTS[:9], 3, **options)
        assert isinstance(top, Voted)
        same_bits(top, model.probabilities(model.rank(TEXTS[:9], 3, **options)))
        assert (top.nearest[0] == model.model.neighbors(model.vectorizer.transform(TEXTS[:9]), 5)[0]).all()


def test_of_models_without_neighbours() -> None:
    model = XRLinear().fit(DATA.X, DATA.Y)
    top = model.rank_voted(DATA.X[:5], 3)
    assert not model.has_voters and model.voters_ is None and not isinstance(top, Voted)
    same_bits(top, model.probabilities(model.rank(DATA.X[:5], 3)))
    matcher = LexicalMatcher().fit(label_texts={"n1": "whaling"})
    assert not matcher.has_voters and matcher.rank_voted(["whaling"], 1).labels.tolist() == [[0]]


@pytest.mark.parametrize("which", [slice(1, 3), np.array([2, 0]), np.array([True, False, True])])
def test_answers_of_some_rows(which: object) -> None:
    model = TextModel(model=NeighborRanker(n_neighbors=5)).fit(TEXTS, LABELS)
    voted, named = model.rank_voted(TEXTS[:3], 2), model.rank(TEXTS[:3], 2)
    numbers = np.arange(3)[which]
    some, some_named = voted.of_rows(which), named.of_rows(which)
    assert isinstance(some, Voted) and isinstance(some_named, NamedTopK)
    same_bits(some, TopK(voted.labels[numbers], voted.scores[numbers]))
    same_bits(some.nearest, tuple(array[numbers] for array in voted.nearest))
    assert some_named.names == [named.names[at] for at in numbers]
