"""Ensemble keeps the contract: over matrices, with weights fitted, and over texts with several vectorisers."""

from typing import Any, ClassVar

from contract.matrices import FEW_FORMS, MatrixContract
from contract.texts import TextContract
from sylvan import Ensemble, NeighborRanker, TextModel, TfidfVectorizer, XRLinear


class TestEnsemble(MatrixContract):
    """A tree and neighbours, the first three times as heavy."""

    def make(self, **params: Any) -> Ensemble:
        jobs = {"n_jobs": params["n_jobs"]} if "n_jobs" in params else {}
        tree = XRLinear(**{"branching": 2, "max_leaf": 3, "n_jobs": 1, **params})
        return Ensemble([tree, NeighborRanker(n_neighbors=10, **jobs)], weights=[3, 1], **jobs)


class TestFittedWeights(MatrixContract):
    """Two trees whose weights are fitted."""

    forms = FEW_FORMS

    def make(self, **params: Any) -> Ensemble:
        members = [XRLinear(**{"branching": 2, "max_leaf": m, "n_jobs": 1, **params}) for m in (3, 4)]
        return Ensemble(members, weights="fit", n_jobs=params.get("n_jobs"))


class TestTextEnsemble(TextContract):
    """Words and pairs of words."""

    machine: ClassVar[dict[str, Any]] = {f"member{at}__vectorizer__n_jobs": 1 for at in range(2)}

    def make(self, **params: Any) -> Any:
        jobs = params.get("n_jobs")
        return Ensemble(
            [
                TextModel(TfidfVectorizer(n_jobs=jobs), XRLinear(**{"branching": 3, "max_leaf": 4, **params})),
                TextModel(TfidfVectorizer(ngrams=(1, 2), n_jobs=jobs), XRLinear(**params)),
            ],
            n_jobs=jobs,
        )
