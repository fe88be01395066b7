"""What a reranker learns besides its members: what is known of labels, and the trees that order candidates by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays.validate import Csr
from sylvan.data import Vocabulary
from sylvan.models.base import Estimator
from sylvan.models.encoders.encoded_labels import OF_ENCODER, EncodedLabels
from sylvan.models.ensembles.joint import Joined
from sylvan.models.lexical.lexical_matcher import LexicalMatcher
from sylvan.models.lexical.lexicon import OF_COMPANY
from sylvan.models.reranker.candidate_columns import OF_ALL, OF_MEMBER, OF_NEIGHBORS, LabelFacts
from sylvan.ranking.boosted_trees import BoostedTrees

MOST_OWN = 1000  # columns that a caller adds


@dataclass(frozen=True, eq=False)
class Order:
    """What is known of labels besides what members say of them, and the trees that order candidates by all of it."""

    facts: LabelFacts
    values: npt.NDArray[np.float32]  # shape (n_labels, n_values): the caller's columns of labels
    encoded: EncodedLabels | None  # the encoder, and its vectors of labels' texts
    n_own: int | None = None  # how many columns the caller's function gave; None where there was no function
    scorer: BoostedTrees | None = None  # None for the order of the mean probabilities

    def column_names(self, members: Sequence[Estimator]) -> tuple[str, ...]:
        """What the columns of candidates are called, in their order."""
        return column_names(members, self.encoded is not None, self.values.shape[1], self.n_own)

    def updated(self, before: Vocabulary | None, joined: Joined, truth: Csr | None, n_jobs: int | None) -> Order:
        """For members that were brought up to date: with the labels of new rows, and by their ids from now on."""
        ids, encoded = np.arange(len(self.values), dtype=np.int32), self.encoded
        if before is not None and joined.vocabulary is not None:
            ids = np.array([joined.vocabulary.id(name) for name in before], np.int32)
            encoded = None if encoded is None else encoded.moved(ids, list(joined.vocabulary), n_jobs)
        same = bool((ids == np.arange(len(ids))).all())
        facts = self.facts if same else self.facts.moved(ids, joined.n_labels)
        if truth is not None:
            facts = facts.plus(truth)
        values = np.zeros((joined.n_labels, self.values.shape[1]), np.float32)
        values[ids] = self.values
        counts, n_rows = joined.counts()  # members may have forgotten rows
        return replace(self, facts=replace(facts, counts=counts, n_rows=n_rows), values=values, encoded=encoded)

    def without(self, labels: npt.NDArray[np.int32]) -> Order:
        """Without what is known of some labels, whose ids stay."""
        values = self.values.copy()
        values[labels] = 0
        encoded = None if self.encoded is None else self.encoded.without(labels)
        return replace(self, facts=self.facts.without(labels), values=values, encoded=encoded)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by the names that they are stored under."""
        arrays: dict[str, npt.NDArray[Any]] = {"label_columns": self.values, **self.facts.to_arrays()}
        for part in (self.scorer, self.encoded):
            arrays |= {} if part is None else part.to_arrays()
        return arrays

    @classmethod
    def from_state(cls, state: store.State, members: Sequence[Estimator], n_labels: int) -> Order:
        """From the arrays and files of a model, verified."""
        facts = LabelFacts.from_state(state, n_labels)
        values = store.need_array(state, "label_columns", np.float32, (n_labels, None))
        store.need_finite(state, "label_columns")
        n_own = store.need_int(state, "n_own", 0, MOST_OWN) or None
        order = cls(facts, values, EncodedLabels.from_state(state, n_labels), n_own)
        n_columns = len(order.column_names(members))
        store.need_int(state, "n_columns", n_columns, n_columns)  # trees can't tell
        if store.need_choice(state, "order", ("mean", "trees")) == "mean":
            return order
        return replace(order, scorer=BoostedTrees.from_state(state, n_columns))


def column_names(members: Sequence[Estimator], encodes: bool, n_values: int, n_own: int | None) -> tuple[str, ...]:
    """What the columns are called, in their order."""
    names = [f"member{number} {name}" for number in range(len(members)) for name in OF_MEMBER]
    names += OF_ALL
    for number, member in enumerate(members):
        if member.has_voters:
            names += [f"member{number} nearest: {name}" for name in OF_NEIGHBORS]
        if isinstance(member, LexicalMatcher):
            names += [f"member{number} words: {name}" for name in member.feature_names_]
            names += [f"member{number} other candidates: {name}" for name in OF_COMPANY]
    names += [f"label_encoder: {name}" for name in OF_ENCODER if encodes]
    names += [f"label_columns {number}" for number in range(n_values)]
    return (*names, *(f"columns {number}" for number in range(n_own or 0)))
