"""Answers with labels that no row has taught a text model: by their texts, joined to those of its model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK, answers_of
from sylvan.arrays.validate import Csr
from sylvan.models.base import CANDIDATES, Estimator
from sylvan.models.label_texts.label_texts import LabelTexts
from sylvan.models.label_texts.text_evidence import TextScorer, joined
from sylvan.ranking.tail import label_gains, reweigh, tail_of

_Ids = npt.NDArray[np.int32]


class Query(NamedTuple):
    """Texts to rank: their features, and the label encoder's vectors where labels are scored by such."""

    rows: Csr
    vectors: npt.NDArray[np.float32] | None
    answered: npt.NDArray[np.bool_]  # those that get labels that rows have taught
    readable: npt.NDArray[np.bool_]  # those that get others

    @classmethod
    def of(
        cls, texts: list[str], rows: Csr, vectors: npt.NDArray[np.float32] | None, answered: npt.NDArray[np.bool_]
    ) -> Query:
        """An encoder knows something of every text that isn't blank."""
        if vectors is None:
            return cls(rows, vectors, answered, answered)
        readable = np.fromiter((not text.isspace() and text != "" for text in texts), bool, len(texts))
        return cls(rows, vectors, answered, answered | readable)


@dataclass(frozen=True, eq=False)
class LabelTextRanker:
    """Joins answers with labels that are known by their texts alone to those of a model that knows the others."""

    known: LabelTexts
    counts: npt.NDArray[np.int64]  # how many training rows each label has
    labels: _Ids  # those that are known by their texts alone, rising; at least one

    @cached_property
    def scorer(self) -> TextScorer:
        """What scores these labels."""
        return self.known.scorer(self.labels)

    def rank(self, model: Estimator, query: Query, k: int, options: dict[str, Any]) -> TopK:
        """The ``k`` best labels of either kind, by the options of the model's ``rank``."""
        options, n_labels = dict(options), len(self.counts)
        allowed, denied = options.pop("allowed", None), options.pop("denied", None)
        labels = LabelFilter.of(allowed, denied, n_rows=query.rows.shape[0], n_labels=n_labels)
        if not hasattr(model, "tail"):
            return self._joined(model, query, k, labels, options)
        tail = tail_of(model.tail, options.pop("tail", None))
        options["tail"] = "none"
        if tail is None:
            return self._joined(model, query, k, labels, options)
        gains = label_gains(tail, model.label_counts_, model.n_rows_)
        return reweigh(self._joined(model, query, max(k, CANDIDATES), labels, options), gains, k)

    def _joined(
        self, model: Estimator, query: Query, k: int, labels: LabelFilter | None, options: dict[str, Any]
    ) -> TopK:
        """Probabilities of the model's labels and of those that are known by their texts."""
        assert self.known.curve is not None
        n_labels = len(self.counts)
        everything = LabelFilter(False, np.zeros(0, np.int32), None, n_labels)
        learned = (everything if labels is None else labels).denying(self.labels)
        first = model.probabilities(model.rank(query.rows, min(k, n_labels), **learned.as_given(), **options))
        second = self.scorer.rank(query.rows, k, self.known.curve, labels, query.vectors)
        return joined(answers_of(first, query.answered), answers_of(second, query.readable), k)


def rankers_of(model: Estimator) -> list[Estimator]:
    """The models that were trained on the rows; an ensemble's members have the same counts of them."""
    return list(getattr(model, "members", ())) or [model]


def label_counts(model: Estimator) -> npt.NDArray[np.int64]:
    """How many training rows each label has."""
    counts: npt.NDArray[np.int64] = np.maximum.reduce([each.label_counts_ for each in rankers_of(model)])
    return counts
