"""Reranker holds the contract: over matrices, and over texts with labels' own words."""

from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.known import Known, known

from contract import test_lexical_matcher as lexical
from contract.matrices import MatrixContract
from contract.texts import TextContract
from sylvan import LexicalMatcher, NeighborRanker, Reranker, TextModel, TfidfVectorizer, XRLinear

OF_RERANKER = ("n_jobs", "seed")


def of_reranker(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name in OF_RERANKER}


class OrderContract:
    """What differs where an order is learned: it takes more rows, and depends on what else is a candidate."""

    @pytest.fixture
    def data(self) -> Known:
        return known(rows_per_label=70)  # 840, a quarter of which is more than 200

    def test_an_order_is_learned(self, fitted: Any) -> None:
        assert fitted.scorer_ is not None

    def test_allowed_and_denied_for_every_row(self, fitted: Any, data: Known) -> None:
        """All that is open is answered, in the order of a model that knows nothing else."""
        X = self.inputs(data.X)  # type: ignore[attr-defined]
        gone = [1, 4, 5, 11]
        left = np.setdiff1d(np.arange(data.n_labels), gone)
        full = fitted.rank(X, k=data.n_labels).labels
        expected = bits(fitted.without_labels(gone).rank(X, k=data.n_labels))
        for given in ({"allowed": left}, {"denied": gone}, {"allowed": [*left, 4, 5], "denied": [4, 5]}):
            top = fitted.rank(X, k=data.n_labels, **given)
            assert bits(top) == expected
            for row, every in zip(top.labels.tolist(), full.tolist(), strict=True):
                assert set(row) - {-1} == set(every) - {*gone, -1}
            assert np.isneginf(top.scores[top.labels < 0]).all()

    def test_a_mask_for_each_row(self, fitted: Any, data: Known) -> None:
        X = self.inputs(data.X)  # type: ignore[attr-defined]
        mask = np.random.default_rng(0).random((len(data.X), data.n_labels)) < 0.4
        expected = fitted.rank(X, k=12, allowed=mask)
        for given in ({"allowed": sp.csr_array(mask)}, {"denied": ~mask}):
            assert bits(fitted.rank(X, k=12, **given)) == bits(expected)
        for row in range(12):
            one = self.inputs(data.X[row : row + 1])  # type: ignore[attr-defined]
            labels = fitted.rank(one, k=12, allowed=np.flatnonzero(mask[row])).labels
            assert labels.tolist() == expected.labels[[row]].tolist()


class TestReranker(OrderContract, MatrixContract):
    """A tree and neighbours, in an order of Sylvan's own trees."""

    def make(self, **params: Any) -> Reranker:
        jobs = {"n_jobs": params["n_jobs"]} if "n_jobs" in params else {}
        tree = XRLinear(**{"branching": 2, "max_leaf": 3, "n_jobs": 1, **params})
        return Reranker(
            [tree, NeighborRanker(n_neighbors=10, **jobs)], scorer="trees", n_trees=5, depth=2, **of_reranker(params)
        )


class TestTextReranker(OrderContract, TextContract):
    """Words and labels' own words; a label may be no candidate of one of them."""

    machine: ClassVar[dict[str, Any]] = {"member0__vectorizer__n_jobs": 1}
    inputs = lexical.TestLexicalMatcher.inputs
    targets = lexical.TestLexicalMatcher.targets
    name = lexical.TestLexicalMatcher.name
    answers = lexical.TestLexicalMatcher.answers

    def make(self, **params: Any) -> Reranker:
        jobs = {"n_jobs": params["n_jobs"]} if "n_jobs" in params else {}
        words = TextModel(TfidfVectorizer(**jobs), XRLinear(**{"branching": 3, "max_leaf": 4, **params}))
        own = LexicalMatcher(n_trees=10, **of_reranker(params))
        return Reranker([words, own], scorer="trees", n_trees=5, depth=2, **of_reranker(params))
