"""Reranker holds the contract: over matrices, by trees and by a network, and over texts with labels' own words."""

from __future__ import annotations

from typing import Any

import pytest

from contract import test_lexical_matcher as lexical
from contract.data import Known, known
from contract.matrices import MatrixContract
from contract.texts import TextContract
from sylvan import LexicalMatcher, NeighborRanker, Reranker, TextModel, TfidfVectorizer, XRLinear

OF_RERANKER = ("n_jobs", "seed")


def of_reranker(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name in OF_RERANKER}


class EnoughRows:
    """As many rows as an order is learned from: a quarter of 840 is more than 200."""

    @pytest.fixture
    def data(self) -> Known:
        return known(rows_per_label=70)

    def test_an_order_is_learned(self, fitted: Any) -> None:
        assert fitted.scorer_ is not None and fitted.calibrator_ is not None


class TestReranker(EnoughRows, MatrixContract):
    """A tree and neighbours, in an order of Sylvan's own trees."""

    def make(self, **params: Any) -> Reranker:
        jobs = {"n_jobs": params["n_jobs"]} if "n_jobs" in params else {}
        tree = XRLinear(**{"branching": 2, "max_leaf": 3, "n_jobs": 1, **params})
        return Reranker(
            [tree, NeighborRanker(n_neighbors=10, **jobs)], scorer="trees", n_trees=5, depth=2, **of_reranker(params)
        )


class TestNeuralReranker(EnoughRows, MatrixContract):
    """Two trees, in the order of a network."""

    def make(self, **params: Any) -> Reranker:
        pytest.importorskip("torch")
        members = [XRLinear(**{"branching": 2, "max_leaf": m, "n_jobs": 1, **params}) for m in (3, 4)]
        return Reranker(members, scorer="neural", objective="rank", **of_reranker(params))


class TestTextReranker(EnoughRows, TextContract):
    """Words and labels' own words; a label may be no candidate of one of them."""

    inputs = lexical.TestLexicalMatcher.inputs
    targets = lexical.TestLexicalMatcher.targets
    name = lexical.TestLexicalMatcher.name
    answers = lexical.TestLexicalMatcher.answers

    def make(self, **params: Any) -> Reranker:
        jobs = {"n_jobs": params["n_jobs"]} if "n_jobs" in params else {}
        words = TextModel(TfidfVectorizer(**jobs), XRLinear(**{"branching": 3, "max_leaf": 4, **params}))
        own = LexicalMatcher(n_trees=10, **of_reranker(params))
        return Reranker([words, own], scorer="trees", n_trees=5, depth=2, **of_reranker(params))
