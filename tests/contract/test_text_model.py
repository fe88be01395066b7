"""TextModel holds the contract of everything that ranks."""

from typing import Any, ClassVar

from contract.texts import TextContract
from sylvan import TextModel, TfidfVectorizer, XRLinear


class TestTextModel(TextContract):
    """A vectoriser and a model of matrices."""

    machine: ClassVar[dict[str, Any]] = {"vectorizer__n_jobs": 1}

    def make(self, **params: Any) -> Any:
        model = XRLinear(**{"branching": 3, "max_leaf": 4, **params})
        return TextModel(TfidfVectorizer(n_jobs=params.get("n_jobs")), model)

    def jobs(self, n_jobs: int | None) -> dict[str, Any]:
        return {"vectorizer__n_jobs": n_jobs, "model__n_jobs": n_jobs}
