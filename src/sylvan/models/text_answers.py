"""What a text model answers when some labels are known by their texts alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import validate
from sylvan.explain.explanation import Explanation
from sylvan.explain.question import place_of
from sylvan.label_filter import LabelFilter
from sylvan.models.base import CANDIDATES, MOST_ANSWERS, Estimator
from sylvan.models.label_names import NamedTopK, ids_of_names
from sylvan.models.label_texts import LabelTexts
from sylvan.models.text_estimator import TextEstimator, check_texts
from sylvan.ranking.tail import label_gains, reweigh, tail_of
from sylvan.ranking.text_evidence import TextScorer, joined
from sylvan.topk import TopK
from sylvan.validate import Csr

__all__ = ["TextAnswers"]

_Ids = npt.NDArray[np.int32]


def _untailed(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "tail"}


class TextAnswers(TextEstimator):
    """Base of TextModel: joins the answers of its model with those for labels that no row has taught it.

    Attributes
    ----------
    label_texts_ : LabelTexts or None
        Of a model whose labels have texts.
    """

    label_texts_: LabelTexts | None = None

    @property
    def unlearned_labels_(self) -> _Ids:
        """Ids of the labels that are known by their texts alone, rising; they are ranked by these texts."""
        self._need_fit("unlearned_labels_")
        known = self.label_texts_
        if known is None or known.curve is None:
            return np.zeros(0, np.int32)
        found = known.unlearned(self._label_counts())
        return np.setdiff1d(found, self.removed_labels_).astype(np.int32)

    def rank(
        self, X: Iterable[str], k: int = 10, *, allowed: Any = None, denied: Any = None, **options: Any
    ) -> NamedTopK:
        """The best labels of each text, best first.

        Parameters
        ----------
        X : iterable of str, length n
        k : int
            Number of labels per text; there may be fewer.
        allowed, denied : list of str or int, list of such lists, or mask of shape (n, n_labels_), optional
            The only labels that may be answered, and labels that may not, for all texts or for each text. Strings are
            names, ints label ids.
        **options
            Passed to the model's ``rank``, such as ``beam=20``.

        Returns
        -------
        NamedTopK
            ``labels`` and ``scores`` of shape (n, k), and ``names``. Scores are the model's own; where some labels are
            known by their texts alone (``unlearned_labels_``), they are probabilities.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            When ``X`` is anything but strings, or a label's name isn't known.
        """
        self._need_fit("rank")
        scorer = self._scorer()
        if scorer is None:
            return super().rank(X, k, allowed=allowed, denied=denied, **options)
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        rows = self._text_features(check_texts(X, type(self).__name__))
        allowed, denied = (
            ids_of_names(each, self.vocabulary_, name) for each, name in ((allowed, "allowed"), (denied, "denied"))
        )
        labels = LabelFilter.of(allowed, denied, n_rows=rows.shape[0], n_labels=self.n_labels_)
        own: Any = self.inner()
        if not hasattr(own, "tail"):
            return self._joined(scorer, rows, k, labels, options)
        tail = tail_of(own.tail, options.pop("tail", None))
        options["tail"] = "none"
        if tail is None:
            return self._joined(scorer, rows, k, labels, options)
        gains = label_gains(tail, self.inner().label_counts_, self.inner().n_rows_)
        top = reweigh(self._joined(scorer, rows, max(k, CANDIDATES), labels, options), gains, k)
        return NamedTopK(top.labels, top.scores, self.vocabulary_)

    def explain(self, x: str | list[str], label: str | int, top: int = 10, **options: Any) -> Explanation:
        """Why the model gives ``label`` to a text, or why it doesn't; see :meth:`TextEstimator.explain`.

        Place and score are those of :meth:`rank`. For a label that is known by its text alone there are no trees' votes
        but a note with the words that its text and ``x`` share.
        """
        result = super().explain(x, label, top, **options)
        scorer = self._scorer()
        if scorer is None:
            return result
        asked = {name: value for name, value in options.items() if name in self.rank_options()}
        texts = [x] if isinstance(x, str) else x
        place, score = place_of(self.rank(texts, self.n_labels_, **asked), result.label)
        probability = place_of(self.rank_plainly(texts, self.n_labels_, **_untailed(asked)), result.label)[1]
        result = replace(result, place=place, score=score, probability=probability)
        if result.label not in scorer.labels:
            return result
        shared = scorer.shared_features(self._text_features(check_texts(texts)), result.label)
        words = ", ".join(repr(self._feature_name(column)) for column in shared[:top].tolist())
        note = "No training row has this label yet: it is ranked by its own text"
        return replace(result, trees=(), notes=(f"{note}, which shares {words or 'no word'} with this one.",))

    def _joined(
        self, scorer: TextScorer, rows: Csr, k: int, labels: LabelFilter | None, options: dict[str, Any]
    ) -> NamedTopK:
        """Probabilities of the model's labels and of those that are known by their texts."""
        assert self.label_texts_ is not None and self.label_texts_.curve is not None
        everything = LabelFilter(False, np.zeros(0, np.int32), None, self.n_labels_)
        learned = (everything if labels is None else labels).denying(scorer.labels)
        own = self.inner()
        first = own.probabilities(own.rank(rows, min(k, self.n_labels_), **learned.as_given(), **options))
        second = scorer.rank(rows, k, self.label_texts_.curve, labels)
        top = joined(first, second, k)
        return NamedTopK(top.labels, top.scores, self.vocabulary_)

    def _label_counts(self) -> npt.NDArray[np.int64]:
        """How many training rows each label has; the members of an ensemble have the same ones."""
        models: list[Estimator] = list(getattr(self.inner(), "members", ())) or [self.inner()]
        counts: npt.NDArray[np.int64] = np.maximum.reduce([model.label_counts_ for model in models])
        return counts

    def _scorer(self) -> TextScorer | None:
        """What scores labels by their texts; None where the model has learned all of them."""
        known = self.label_texts_
        if known is None:
            return None
        counts = self._label_counts()
        cached = self.__dict__.get("_text_scorer")
        if cached is None or cached[0] is not known or not np.array_equal(cached[1], counts):
            labels = self.unlearned_labels_
            cached = (known, counts, known.scorer(labels) if len(labels) else None)
            self.__dict__["_text_scorer"] = cached
        scorer: TextScorer | None = cached[2]
        return scorer

    def probabilities(self, top: TopK) -> TopK:
        """The result of :meth:`rank` with probabilities instead of scores, as in :meth:`predict_proba`."""
        self._need_fit("probabilities")
        return super().probabilities(top) if self._scorer() is None else NamedTopK(
            top.labels, top.scores, self.vocabulary_
        )  # fmt: skip

    def _probabilities(self, top: TopK) -> Any:
        return super()._probabilities(top) if self._scorer() is None else np.clip(top.scores, 0, 1)
