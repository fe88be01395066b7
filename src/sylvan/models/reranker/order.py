"""What a reranker learns besides its members, brings up to date and stores."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.frames import labels_of
from sylvan.arrays.topk import TopK, resized
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, ModelError
from sylvan.metrics.rows import hits
from sylvan.models.encoders.described import described_encoder, made_encoder
from sylvan.models.encoders.encoded_labels import EncodedLabels
from sylvan.models.ensembles.members import joint_counts, known_labels
from sylvan.models.reranker.answers import RerankerAnswers
from sylvan.models.reranker.candidate_columns import LabelFacts
from sylvan.models.reranker.candidates import MOST_OWN, column_names
from sylvan.models.reranker.learning import LEAST_ROWS, Candidates, learned, scorer_from
from sylvan.parallel import one_at_a_time, resolve_jobs
from sylvan.params.wording import counted
from sylvan.ranking.boosted_trees import GROWERS, Growing, Scorer, need_library
from sylvan.ranking.ensemble import fit_weights

_Self = TypeVar("_Self", bound="RerankerOrder")
_WEIGHED = 20  # of a member's answers, by which it is weighed
_STRUCK = ("xgboost", "scikit-learn", "neural")  # scorers that there were
_LEAST_SHARE = 0.25  # of an equal weight


class RerankerOrder(RerankerAnswers):
    """Base of Reranker, with what is learned from rows besides the members themselves."""

    scorer: Scorer
    n_trees: int
    depth: int
    learning_rate: float
    calibration: str | None
    label_encoder: Any
    seed: int

    def _learn(
        self, tops: Sequence[TopK], rows: Any, truth: Csr, weight: Any, unseen: LabelFacts | None = None
    ) -> None:
        """The order, from answers to rows as by members that haven't seen them. Where members have seen the rows by
        now, ``unseen`` is what all others say of the labels."""
        jobs = resolve_jobs(self.n_jobs)
        self.weights_ = _member_weights(tops, truth, weight, jobs)
        candidates = self._candidates(tops, jobs)
        n_own = None if self.columns is not None else self._n_own  # another function may give as many as it likes
        maker = replace(self._column_maker(unseen), function=self.columns, n_own=n_own)
        if unseen is not None:
            maker = maker.without_rows(rows, truth, weight)
        columns = self._columns(maker, candidates, tops, rows)
        each = np.ones(len(columns), np.float32) if weight is None else weight
        given = Candidates(candidates, columns, hits(candidates, truth), each)
        growing = Growing(self.objective, self.n_trees, self.depth, self.learning_rate, self.seed, jobs)
        self.scorer_, self.calibrator_ = learned(given, self.scorer, growing, self.calibration)
        known = column_names(self.members, self._encoded is not None, self._values.shape[1], 0)
        self._n_own = columns.shape[2] - len(known) or None

    def fit_order(self: _Self, X: Any, Y: Any, sample_weight: Any = None) -> _Self:
        """Learn the order anew, on rows that no member was trained on; the members stay.

        To bring a model up to date with new rows, call this with them before :meth:`update`.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), or n texts
        Y : their labels, as in ``fit``
            Labels that no member knows are ignored.
        sample_weight : array of shape (n,), optional

        Raises
        ------
        NotFittedError
            Before ``fit`` or ``of_fitted``.
        DataError
            When the arrays are malformed, or there are too few rows to learn from.
        ImportError
            With ``scorer="lightgbm"`` when LightGBM isn't installed.
        """
        self._need_fit("fit_order")
        self.check_params()
        need_library(self.scorer)
        X, n_rows = self._checked(X)
        truth = known_labels(Y, n_rows, self.vocabulary_, self.n_labels_)
        weight = validate.sample_weight(sample_weight, n_rows)
        if n_rows < LEAST_ROWS or not len(truth.indices):
            raise DataError(
                f"fit_order needs {LEAST_ROWS} rows at least, and labels that a member knows. Got "
                f"{counted(n_rows, 'row')} with {counted(len(truth.indices), 'such label')}."
            )
        tops = [self._member_top(number, X, {}) for number in self._asked_members]
        self._learn(tops, X, truth, weight)
        return self

    @one_at_a_time
    def update(self: _Self, X: Any = None, Y: Any = None, sample_weight: Any = None, **options: Any) -> _Self:
        """Bring every member up to date, and what is known of the labels; the order and the probabilities' curves stay.

        :meth:`fit_order` with new rows, called before, learns the order from them.

        Parameters
        ----------
        X, Y, sample_weight, **options
            As the members' ``update`` takes them: ``forget``, ``merge``, ``n_features``, ``precise``.

        Raises
        ------
        UnsupportedError
            When a member can't be brought up to date; none is changed then.
        NotFittedError, DataError
        """
        self._need_fit("update")
        updated = self._updated_members(X, Y, sample_weight, options)
        before = self.vocabulary_
        made = copy.copy(self)  # so that this one stays as it is when something fails
        made._adopt(updated, self.weights_)
        facts, values = self._facts, self._values
        if before is not None and made.vocabulary_ is not None:
            ids = np.array([made.vocabulary_.id(name) for name in before], np.int32)
            facts, values = _moved(facts, values, ids, made.n_labels_)
            if made._encoded is not None:
                made._encoded = made._encoded.moved(ids, list(made.vocabulary_), self.n_jobs)
        grown = np.zeros((made.n_labels_, values.shape[1]), np.float32)
        grown[: len(values)] = values
        if Y is not None:
            n_rows = len(X) if made.takes_texts else made._features(X).shape[0]
            truth = known_labels(labels_of(Y), n_rows, made.vocabulary_, made.n_labels_)
            facts = facts.plus(truth)
        counts, n_rows = joint_counts(made.members, made._ids, made.n_labels_)  # members may have forgotten rows
        made._facts, made._values = replace(facts, counts=counts, n_rows=n_rows), grown
        vars(self).update(vars(made))
        return self

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        super()._drop_labels(ids)
        self._facts, self._values = self._facts.without(ids), self._values.copy()
        self._values[ids] = 0
        if self._encoded is not None:
            self._encoded = self._encoded.without(ids)

    # ---------------------------------------- storing

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        meta = {
            "n_members": len(self.members), "order": "mean" if self.scorer_ is None else "trees",
            "n_own": self._n_own or 0, "n_columns": len(self.feature_names_),
        }  # fmt: skip
        arrays: dict[str, npt.NDArray[Any]] = {"weights": self.weights_, "label_columns": self._values}
        arrays |= self._facts.to_arrays()
        if self.scorer_ is not None:
            arrays |= self.scorer_.to_arrays()
        if self._encoded is not None:
            arrays |= self._encoded.to_arrays()
        return meta, arrays, self._member_parts()

    def _plain_params(self) -> dict[str, Any]:
        return {**super()._plain_params(), "label_encoder": described_encoder(self.label_encoder)}

    def to_state(self) -> store.State:
        """All parts of the model, and the files of its encoder, for :func:`sylvan.store.save`."""
        state = super().to_state()
        if self._encoded is not None:
            state.files.update(self._encoded.files())
        return state

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        params = super()._params_from(state)
        if params["scorer"] in _STRUCK:
            raise ModelError(
                f"{state.where!r} was saved with scorer={params['scorer']!r}, which Sylvan no longer has. Train it "
                f"again, with {' or '.join(repr(name) for name in GROWERS)}."
            )
        return {**params, "columns": None, "label_encoder": made_encoder(state, params["label_encoder"])}

    def _restore(self, state: store.State) -> None:
        self._restore_members(state)
        self._facts = LabelFacts.from_state(state, self.n_labels_)
        self._values = store.need_array(state, "label_columns", np.float32, (self.n_labels_, None))
        store.need_finite(state, "label_columns")
        self._n_own = store.need_int(state, "n_own", 0, MOST_OWN) or None
        self._encoded = EncodedLabels.from_state(state, self.n_labels_)
        n_columns = len(self.feature_names_)
        store.need_int(state, "n_columns", n_columns, n_columns)  # trees can't tell
        self.scorer_ = scorer_from(state, n_columns)


def _member_weights(
    tops: Sequence[TopK], truth: Csr, weight: npt.NDArray[np.float32] | None, n_jobs: int
) -> npt.NDArray[np.float64]:
    """Each member's weight in the mean, as an ensemble's, but enough for its own candidates to be seen."""
    first = [resized(top, _WEIGHED) for top in tops]
    weights = np.maximum(fit_weights(first, truth, sample_weight=weight, n_jobs=n_jobs), _LEAST_SHARE / len(tops))
    shares: npt.NDArray[np.float64] = weights / weights.sum()
    return shares


def _moved(
    facts: LabelFacts, values: npt.NDArray[np.float32], ids: npt.NDArray[np.int32], n_labels: int
) -> tuple[LabelFacts, npt.NDArray[np.float32]]:
    """What is known of labels, by their ids in another vocabulary."""
    if (ids == np.arange(len(ids))).all():
        return facts, values
    grown = np.zeros((n_labels, values.shape[1]), np.float32)
    grown[ids] = values
    return facts.moved(ids, n_labels), grown
