"""What a text model answers when some labels are known by their texts alone."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK, answers_of
from sylvan.arrays.validate import Csr
from sylvan.explain.explanation import Explanation
from sylvan.explain.question import place_of
from sylvan.labels.vocabulary import NamedTopK
from sylvan.models.base import CANDIDATES, MOST_ANSWERS, Estimator
from sylvan.models.encoders.dense_features import encoded
from sylvan.models.encoders.saved_encoder import SavedEncoder
from sylvan.models.label_texts.label_texts import LabelTexts
from sylvan.models.label_texts.text_evidence import TextScorer, joined
from sylvan.models.text_estimator import TextEstimator, check_texts
from sylvan.ranking.tail import label_gains, reweigh, tail_of
from sylvan.ranking.votes import Voted
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder

_Ids = npt.NDArray[np.int32]

_opening = threading.RLock()  # not a model's own: locks can't be copied


class _Asked(NamedTuple):
    """Texts that are asked for: their features, and the label encoder's vectors where labels are scored by such.
    ``answered`` are those that get labels that rows have taught; ``readable`` those that get others."""

    rows: Csr
    vectors: npt.NDArray[np.float32] | None
    answered: npt.NDArray[np.bool_]
    readable: npt.NDArray[np.bool_]


def _untailed(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "tail"}


class TextAnswers(TextEstimator):
    """Base of TextModel: joins the answers of its model with those for labels that no row has taught it."""

    vectorizer: TfidfVectorizer
    label_texts_: LabelTexts | None = None  # of a model whose labels have texts
    _label_encoder: TextEncoder | SavedEncoder | None = None  # opened when it is first needed

    @property
    def unlearned_labels_(self) -> _Ids:
        """Ids of the labels that are known by their texts alone, rising; they are ranked by these texts."""
        self._need_fit("unlearned_labels_")
        known = self.label_texts_
        if known is None or known.curve is None:
            return np.zeros(0, np.int32)
        found = known.unlearned(self._label_counts())
        return np.setdiff1d(found, self.removed_labels_).astype(np.int32)

    def _rank_texts(self, texts: list[str], k: int, options: dict[str, Any], unknown: str | None) -> TopK:
        scorer = self._scorer()
        if scorer is None:
            return super()._rank_texts(texts, k, options, unknown)
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        rows, vectors = self._text_features(texts), self._encoded(scorer, texts)
        answered = self._answered(rows, texts, unknown)
        readable = answered
        if vectors is not None:  # an encoder knows something of every text that isn't blank
            readable = answered | np.fromiter((not text.isspace() and text != "" for text in texts), bool, len(texts))
        asked = _Asked(rows, vectors, answered, readable)
        allowed, denied = options.pop("allowed", None), options.pop("denied", None)
        labels = LabelFilter.of(allowed, denied, n_rows=len(texts), n_labels=self.n_labels_)
        own: Any = self.inner()
        if not hasattr(own, "tail"):
            return self._joined(scorer, asked, k, labels, options)
        tail = tail_of(own.tail, options.pop("tail", None))
        options["tail"] = "none"
        if tail is None:
            return self._joined(scorer, asked, k, labels, options)
        gains = label_gains(tail, self.inner().label_counts_, self.inner().n_rows_)
        return reweigh(self._joined(scorer, asked, max(k, CANDIDATES), labels, options), gains, k)

    def rank_voted(self, X: Any, k: int, **options: Any) -> TopK:
        if not self.has_voters or self._scorer() is None:
            return super().rank_voted(X, k, **options)
        top, texts = Estimator.rank_voted(self, X, k, **options), check_texts(X)
        voted = self.inner().rank_voted(self._text_features(texts), 1)
        assert isinstance(voted, Voted)
        return Voted.of(top, voted.nearest)

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
        texts = check_texts(texts)
        shared = scorer.shared_features(self._text_features(texts), result.label)
        words = ", ".join(repr(self._feature_name(column)) for column in shared[:top].tolist())
        note = "No training row has this label yet: it is ranked by its own text"
        note += f", which shares {words or 'no word'} with this one."
        vectors = self._encoded(scorer, texts)
        if vectors is not None:
            note += f" The cosine of their vectors is {scorer.cosine(vectors[0], result.label):.2f}."
        return replace(result, trees=(), notes=(note,))

    def _joined(
        self, scorer: TextScorer, asked: _Asked, k: int, labels: LabelFilter | None, options: dict[str, Any]
    ) -> TopK:
        """Probabilities of the model's labels and of those that are known by their texts."""
        assert self.label_texts_ is not None and self.label_texts_.curve is not None
        everything = LabelFilter(False, np.zeros(0, np.int32), None, self.n_labels_)
        learned = (everything if labels is None else labels).denying(scorer.labels)
        own = self.inner()
        first = own.probabilities(own.rank(asked.rows, min(k, self.n_labels_), **learned.as_given(), **options))
        second = scorer.rank(asked.rows, k, self.label_texts_.curve, labels, asked.vectors)
        return joined(answers_of(first, asked.answered), answers_of(second, asked.readable), k)

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._label_encoder, SavedEncoder):
            self._opened()
        return dict(self.__dict__)

    def _encoded(self, scorer: TextScorer, texts: list[str]) -> npt.NDArray[np.float32] | None:
        """The label encoder's vectors of texts, where labels are scored by such."""
        return self._encode(texts) if scorer.takes_vectors else None

    def _encode(self, texts: list[str]) -> npt.NDArray[np.float32]:
        return encoded(self._opened(), texts, self.vectorizer.n_jobs)

    def _opened(self) -> TextEncoder:
        """The encoder of the labels, read from its files where it hasn't been used yet."""
        known = self.label_texts_
        assert self._label_encoder is not None and known is not None and known.vectors is not None
        with _opening:
            if isinstance(self._label_encoder, SavedEncoder):
                self._label_encoder = self._label_encoder.open_beside(known.vectors.labels)
            return self._label_encoder

    def _label_counts(self) -> npt.NDArray[np.int64]:
        """How many training rows each label has; the members of an ensemble have the same ones."""
        counts: npt.NDArray[np.int64] = np.maximum.reduce([model.label_counts_ for model in self._rankers()])
        return counts

    def _n_rows(self) -> int:
        """How many rows the model was trained on, with those of updates; an ensemble's members have the same ones."""
        return max(model.n_rows_ for model in self._rankers())

    def _rankers(self) -> list[Estimator]:
        return list(getattr(self.inner(), "members", ())) or [self.inner()]

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
