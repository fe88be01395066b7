"""A text model brought up to date: texts that come and go, labels that come with rows or with nothing but a text."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, take_rows
from sylvan.data import Vocabulary
from sylvan.errors import DataError, RowsUnknownWarning
from sylvan.labels.targets import grown_labels, need_as_many
from sylvan.models.base import Estimator
from sylvan.models.label_texts.answers import TextAnswers
from sylvan.models.label_texts.label_texts import LabelTexts, judged_rows, named_texts, with_names_of, with_text_rows
from sylvan.models.label_texts.word_contexts import WordContexts
from sylvan.models.text_estimator import check_texts
from sylvan.parallel import one_at_a_time
from sylvan.runtime.plan import UpdatePlan
from sylvan.text import TfidfVectorizer

_Self = TypeVar("_Self", bound="TextUpdates")


@dataclass(frozen=True)
class _Asked:
    """What an update was asked for, in the model's own terms."""

    vectorizer: TfidfVectorizer
    vocabulary: Vocabulary
    given: tuple[Any, Any, Any]  # X, Y and sample_weight of the model's update; texts of labels are their last rows
    options: dict[str, Any]  # of the model's update
    texts: Csr  # shape (m, d): the features of labels' texts that come
    labels: npt.NDArray[np.int32]  # shape (m,): whose they are
    # labels that are given texts, and the label encoder's vectors of these, in a model whose labels have such
    vectors: tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]] | None


class TextUpdates(TextAnswers):
    """Base of TextModel, for what comes after its training."""

    vectorizer: TfidfVectorizer
    model: Estimator

    @one_at_a_time
    def update(
        self: _Self, X: Iterable[str] | None = None, Y: Any = None, sample_weight: Any = None, *, merge: Any = None,
        label_texts: Any = None, **options: Any,
    ) -> _Self:  # fmt: skip
        """Learn new texts, with labels old and new; forget texts; make several labels one.

        Words that are new get columns behind the others, by the rule of :meth:`TfidfVectorizer.with_terms_of`; the
        weights of known words stay.

        Parameters
        ----------
        X : iterable of str, optional
            New texts.
        Y : their labels, as in :meth:`fit`, optional
            Names that aren't known are new labels.
        sample_weight : array-like, optional
        merge : mapping of str to list of str, optional
            The texts of some labels become those of another.
        label_texts : mapping of str to (str or list of str), optional
            Texts of labels that are new, or have none yet, or have had another; as in :meth:`fit`. A label that isn't
            known and has no rows either is answered from now on where its text fits, if the model was fitted with
            ``label_texts``, or keeps its rows.
        **options
            Of the model's ``update``: ``forget``, ``precise``, or ``rows``, a pair (texts, labels).

        Returns
        -------
        TextModel
            This model, changed; where an error is raised, it is as it was.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        UnsupportedError
            When the model keeps no rows and isn't given them, or can't be brought up to date.
        DataError
            When something is malformed or not known.

        Examples
        --------
        >>> from sylvan import TextModel, XRLinear
        >>> tagger = TextModel(model=XRLinear(keep_rows=True))
        >>> tagger = tagger.fit(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]])
        >>> tagger.update(["the steam engine"], [["Railways"]]).rank(["an old engine"], k=1).names
        [['Railways']]
        """
        self._need_fit("update")
        asked = self._asked(X, Y, sample_weight, merge, label_texts, options)
        with warnings.catch_warnings():
            if X is None and not self.model.unlearns:  # what is said of new labels isn't true of those with texts alone
                warnings.simplefilter("ignore", RowsUnknownWarning)
            model = copy.copy(self.model).update(*asked.given, **asked.options)
        gone = np.setdiff1d(model.removed_labels_, self.model.removed_labels_)
        known = self._texts_then(asked, model, gone)
        self.vectorizer, self.model, self.label_texts_ = asked.vectorizer, model, known
        self._take_labels(asked.vocabulary)
        self._free_names(gone)
        return self

    def plan_update(
        self, X: Iterable[str] | None = None, Y: Any = None, sample_weight: Any = None, *, merge: Any = None,
        label_texts: Any = None, **options: Any,
    ) -> UpdatePlan:  # fmt: skip
        """Estimate what :meth:`update` with the same arguments would do; nothing changes. Errors as there."""
        self._need_fit("plan_update")
        asked = self._asked(X, Y, sample_weight, merge, label_texts, options)
        plan: UpdatePlan = self.model.plan_update(*asked.given, **asked.options)
        return plan

    def calibrate(self: _Self, X: Any, Y: Any) -> _Self:
        """Fit the curves of the probabilities anew, to texts that the model wasn't trained on; the ranking stays.

        Parameters and errors as in :meth:`Estimator.calibrate`, with texts for X. Texts without a known word, which
        have no answers, don't count.

        Examples
        --------
        >>> from sylvan import TextModel, data
        >>> train, test = data.load_sample()
        >>> tagger = TextModel().fit(train.texts, train.labels)
        >>> top = tagger.calibrate(test.texts, test.labels).probabilities(tagger.rank(test.texts, k=5))
        >>> bool(top.scores.max() < 1)
        True
        """
        self._need_fit("calibrate")
        features, truth = self._text_features(check_texts(X, type(self).__name__)), self._truth(Y)
        need_as_many(features.shape[0], truth.shape[0])
        known = np.flatnonzero(np.diff(features.indptr))
        self.model.calibrate(take_rows(features, known).to_scipy(), take_rows(truth, known).to_scipy())
        return self

    def _take_labels(self, vocabulary: Vocabulary) -> None:
        self.vocabulary_ = vocabulary
        self.n_features_, self.n_labels_ = self.model.n_features_, self.model.n_labels_

    # ---------------------------------------- what is asked for

    def _asked(
        self, X: Iterable[str] | None, Y: Any, sample_weight: Any, merge: Any, label_texts: Any,
        options: Mapping[str, Any],
    ) -> _Asked:  # fmt: skip
        """The arguments in the model's own terms, verified as far as they are texts and names."""
        texts, matrix, options = None if X is None else check_texts(X, "TextModel"), Y, dict(options)
        described = {} if label_texts is None else named_texts(label_texts, self._names_in_use())
        vectorizer, vocabulary = self.vectorizer, with_names_of(self.vocabulary_, described)
        if texts is not None and Y is not None:
            grown, matrix = grown_labels(self.vocabulary_, len(self.vocabulary_), Y, described)
            assert grown is not None
            vocabulary = grown
            need_as_many(len(texts), matrix.shape[0])
            own = 0 if self.label_texts_ is None else len(self.label_texts_.labels)
            vectorizer = vectorizer.with_terms_of(texts, self._n_rows() - own)
            options["n_features"] = vectorizer.n_terms_
        if options.get("rows") is not None:
            options["rows"] = self._rows_again(options["rows"])
        if merge is not None:
            options["merge"] = self._merges(merge)
        labels = np.array([vocabulary.id(name) for name in described], np.int32)
        removed = np.intersect1d(labels, self.removed_labels_)
        if len(removed):
            raise DataError(f"label_texts has label {vocabulary[int(removed[0])]!r}, which was removed before.")
        rows = vectorizer.transform_rows(list(described.values()))
        kept = np.flatnonzero((np.diff(rows.indptr) > 0) | (labels >= self.n_labels_))  # a new label needs a row
        vectors = None
        if len(labels) and self.label_texts_ is not None and self.label_texts_.vectors is not None:
            vectors = labels, self._encode(list(described.values()))
        rows, labels = take_rows(rows, kept), labels[kept]
        features = None if texts is None else vectorizer.transform_rows(texts)
        given: tuple[Any, Any, Any] = features, matrix, sample_weight
        if len(labels) and (features is None) == (matrix is None):
            given = self._with_texts_below(features, matrix, sample_weight, rows, labels, len(vocabulary))
            self._replaces(labels, options)
        return _Asked(vectorizer, vocabulary, given, options, rows, labels, vectors)

    def _names_in_use(self) -> list[str]:
        gone = set(self.removed_labels_.tolist())
        return [name for label, name in enumerate(self.vocabulary_) if label not in gone]

    def _with_texts_below(
        self, features: Csr | None, matrix: Any, sample_weight: Any, texts: Csr, labels: npt.NDArray[np.int32],
        n_labels: int,
    ) -> tuple[Any, Any, Any]:  # fmt: skip
        """The new rows, if there are any, and labels' texts as rows below them."""
        if features is None:
            features, matrix = Csr.empty(0, texts.shape[1]), Csr.empty(0, n_labels).to_scipy()
        truth = validate.labels(matrix)
        truth = truth._replace(shape=(truth.shape[0], n_labels))
        weight = validate.sample_weight(sample_weight, features.shape[0])
        rows, truth, weight = with_text_rows(features, truth, weight, texts, labels)
        return rows, truth.to_scipy(), weight

    def _replaces(self, labels: npt.NDArray[np.int32], options: dict[str, Any]) -> None:
        """Have the model forget the texts that labels have had until now."""
        known = self.label_texts_
        if known is None:
            return
        old = known.rows[np.isin(known.labels, labels)]
        kept: Any = getattr(self.model, "training_rows_", None)
        if len(old) and (kept is None or (old < 0).any()):
            name = self.vocabulary_[int(known.labels[np.isin(known.labels, labels)][0])]
            raise DataError(
                f"label_texts gives label {name!r} another text, but the model keeps no rows and can't forget the one "
                "that it has."
            )
        if len(old):
            forget = options.get("forget")
            options["forget"] = old if forget is None else np.union1d(kept.ids[kept.rows_of(forget)], old)

    def _rows_again(self, rows: Any) -> tuple[Any, Any]:
        """All rows of a model that keeps none, as its own model takes them: the texts of labels are the last ones."""
        features, truth = self._all_rows(rows)
        known = self.label_texts_
        if known is not None:
            own = take_rows(known.texts, known.labels)
            truth = truth._replace(shape=(truth.shape[0], self.n_labels_))
            features, truth, _ = with_text_rows(features, truth, None, own, known.labels)
        return features, truth

    # ---------------------------------------- what becomes of labels' texts

    def _texts_then(self, asked: _Asked, model: Any, gone: npt.NDArray[np.int32]) -> LabelTexts | None:
        """The texts of labels after an update; learned from the rows again where some are forgotten, or texts come."""
        known = self.label_texts_
        if known is None and not len(asked.labels):
            return None
        n_labels, n_features = model.n_labels_, model.n_features_
        kept = getattr(model, "training_rows_", None)
        ids = np.full(len(asked.labels), -1) if kept is None else kept.ids[len(kept.ids) - len(asked.labels) :]
        if known is None:
            known = LabelTexts.empty(n_labels, n_features)
        known = known.grown(n_labels, n_features)
        if len(asked.labels):
            known = known.with_texts(asked.texts, asked.labels, ids.astype(np.int64))
        if asked.vectors is not None and known.vectors is not None:
            known = replace(known, vectors=known.vectors.with_labels(*asked.vectors))
        known = known.merged(asked.options.get("merge") or {})
        if kept is not None:
            known = known.left_with(kept.ids)
        if len(gone):
            known = known.without(gone)
        forgets = asked.options.get("forget") is not None
        if kept is not None and (forgets or len(gone) or len(asked.labels)):
            real = np.flatnonzero(~np.isin(kept.ids, known.rows))
            features, labels, weight = kept.taken(real)
            judged, vectors = judged_rows(features.shape[0], weight), None
            if known.vectors is not None:  # of other rows there are no texts any more
                judged = np.flatnonzero(np.isin(kept.ids[real], known.vectors.judged)).astype(np.int32)
                vectors = known.vectors.rows[np.searchsorted(known.vectors.judged, kept.ids[real][judged])]
            return known.learned_from(features, labels, weight, judged, vectors, model.n_jobs)
        return replace(known, contexts=WordContexts.none(n_features)) if forgets else known
