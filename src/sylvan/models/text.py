"""TextModel: from texts to label names, a vectoriser and a model in one folder."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import take_rows
from sylvan.arrays.topk import TopK, answers_of
from sylvan.arrays.validate import Csr
from sylvan.data import Vocabulary
from sylvan.data.label_terms import named_texts
from sylvan.errors import DataError, ParameterError, RowsUnknownWarning, warn_data
from sylvan.explain.explanation import Explanation
from sylvan.explain.question import place_of
from sylvan.labels.targets import LabelNumbers, encode_labels, named_rows, names_for, need_as_many, one_class_a_row
from sylvan.labels.vocabulary import NamedTopK
from sylvan.models.base import MOST_ANSWERS, Estimator
from sylvan.models.compress import compressed_model, has_weights, pruned_model
from sylvan.models.encoders import ENCODER_SOURCE, described_encoder, made_encoder, own_encoder
from sylvan.models.label_texts import label_texts as of_labels
from sylvan.models.label_texts import name_rows
from sylvan.models.text_estimator import TextEstimator, Unknown, check_texts
from sylvan.models.text_plan import text_plan, with_encoding
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.parallel import all_at_once, of_one_state
from sylvan.params.fields import Instance, attribute, fresh, parameterized
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import holdout_folds
from sylvan.ranking.votes import Voted
from sylvan.runtime.plan import Plan, UpdatePlan
from sylvan.store import ScratchFiles, State
from sylvan.store.registry import rebuild
from sylvan.text import TfidfVectorizer
from sylvan.weights.layer import WeightDtype


def usual_vectorizer(**params: Any) -> TfidfVectorizer:
    """The vectoriser that texts have by default."""
    return TfidfVectorizer(**{"ngrams": "auto", **params})


@parameterized
class TextModel(TextEstimator):
    """A vectoriser and a model that together go from texts to label names.

    Parameters
    ----------
    vectorizer : TfidfVectorizer, optional
        Turns texts into sparse features; a ``TfidfVectorizer(ngrams="auto")`` by default, which counts words, and
        pairs of words where texts are short.
    model : Estimator, optional
        Any model of matrices; an ``XRLinear()`` by default.
    label_encoder : str, path, TextEncoder or StaticEncoder, optional
        A sentence encoder whose cosines help to find labels that have a text but no rows: a folder, a name on the
        Hugging Face hub, or an encoder. It is used where ``fit`` is given ``label_texts``, is saved in the model's
        folder, and needs the extra ``transformers``, or ``static`` for static vectors. As long as there are such
        labels, texts to rank are encoded too.
    unknown : {"none", "prior"}, default "none"
        What a text gets of which the model knows no word, as it is blank or in another language: no labels, or those
        that the model gives to a row without features, by how frequent they are.
    unlearned : {"skip", "answer"}, default "skip"
        Labels that have a text but no rows: with "skip" they are no labels of the model, with "answer" they are ranked
        by their texts.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The label names; ``vocabulary_[label]`` is the name of a label id.
    text_fields_ : tuple of str
        The fields of JSON lines whose joined texts the model was trained on. The command line reads other files in the
        same way. You may set it; ``("text",)`` by default.
    labels_field_ : str
        The field of their labels, in the same way; "labels" by default.
    label_texts_ : LabelTexts or None
        Of a model whose labels' texts are training rows; None otherwise.
    label_text_likeness_ : Likeness or None
        What decided whether they are: how like held-out rows are to the texts of their own labels, ``of_labels``, and
        ``by_chance``.
    unlearned_labels_ : ndarray of int32
        The labels that are known by their texts alone. As long as there are any, scores are probabilities.

    Notes
    -----
    ``fit`` fits the two given objects, as a scikit-learn pipeline does. Their parameters are set with two underscores:
    ``set_params(model__beam=20)``.

    Examples
    --------
    >>> from sylvan import TextModel
    >>> texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"]
    >>> tagger = TextModel().fit(texts, [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]])
    >>> tagger.rank(["how to bake bread"], k=1).names
    [['Baking']]
    """

    kind = "text-model"
    not_saved = ("vectorizer", "model")
    added = MappingProxyType({"label_encoder": None, "unknown": "none", "unlearned": "answer"})

    vectorizer: TfidfVectorizer = fresh(factory=usual_vectorizer)
    model: Annotated[Estimator, Instance(words="an estimator of Sylvan over matrices")] = fresh(factory=XRLinear)
    label_encoder: Annotated[Any | None, ENCODER_SOURCE] = None
    unknown: Unknown = "none"
    unlearned: Literal["skip", "answer"] = "skip"

    label_texts_: of_labels.LabelTexts | None = attribute(None)
    label_text_likeness_: name_rows.Likeness | None = attribute(None)

    _ranker: of_labels.LabelTextRanker | None = attribute(None)  # of labels that are known by their texts alone

    def inner(self) -> Estimator:
        """The model over matrices that ranks the features of texts: ``model``."""
        return self.model

    @property
    def most_held_out(self) -> int:
        """That of the model over matrices."""
        return self.model.most_held_out

    def _text_features(self, texts: list[str]) -> Csr:
        return self.vectorizer.transform_rows(texts)

    def _feature_name(self, column: int) -> str:
        return self.vectorizer.term(column)

    def fit(
        self, X: Iterable[str], Y: Any, sample_weight: Any = None, *, label_texts: Any = "auto", **options: Any
    ) -> TextModel:
        """Train on texts and their labels.

        Parameters
        ----------
        X : iterable of str, length n
            The texts.
        Y : sequence of length n
            Each text's labels: a list of strings, or of pairs (name, relevance above 0), or one string. A matrix of
            shape (n, L) and lists of ints are label ids; their names are these numbers.
        sample_weight : array-like of shape (n,), optional
            The weight of each text.
        label_texts : mapping of str to (str or list of str), or "auto", "names" or None, default "auto"
            A text for some or all labels: their names in words, synonyms, definitions. With "names" each label's name
            is its text; with "auto" it is where most names are words, not codes, and ``model`` is an XRLinear that
            keeps no rows, among whose ids those of names would stand.
            A label's text is one more training row of this label, unless held-out rows are hardly more like the texts
            of their own labels than like others', as ``label_text_likeness_`` says.
            With ``unlearned="answer"`` every text is such a row. A label without any other row is then ranked by its
            text: its similarity to the row, and to rows whose labels have texts with the same words, as a probability
            that is fitted to labels that have rows, without these. Labels of the mapping that no text has get ids
            behind the others, in alphabetical order.
        **options
            Passed to the model's ``fit``.

        Returns
        -------
        TextModel
            This object, fitted.

        Raises
        ------
        DataError
            For texts or labels of another type, or different numbers of texts and labels.

        Notes
        -----
        Labels' texts as rows, and the sparse map from their words to words of rows, are ideas of PECOS's PIFA + LF
        (section 2.1.1) and of zero-shot extreme classification (Gupta, Bohra, Prabhu, Purohit & Varma 2021).
        """
        listed = [check_texts(X, "TextModel")]
        del X  # a caller who gave an iterator has not kept them either
        self._fit_texts(listed, Y, sample_weight, label_texts, options, None)
        return self

    def fit_holding_out(
        self, X: Any, Y: Any, rows: npt.NDArray[np.int32], sample_weight: Any = None, *, label_texts: Any = "auto",
        **options: Any,
    ) -> TopK | None:  # fmt: skip
        """As :meth:`fit`; see :meth:`Estimator.fit_holding_out`."""
        return self._fit_texts([check_texts(X, "TextModel")], Y, sample_weight, label_texts, options, rows)

    def _fit_texts(
        self, listed: list[list[str]], Y: Any, sample_weight: Any, label_texts: Any, options: dict[str, Any],
        rows: npt.NDArray[np.int32] | None,
    ) -> TopK | None:  # fmt: skip
        """From a list of one item, the texts, which is emptied."""
        self.check_params()
        n_texts = len(listed[0])
        vocabulary, labels = encode_labels(Y)
        need_as_many(n_texts, labels.shape[0])
        described = None
        if label_texts is not None and not name_rows.is_auto(label_texts):
            if options.get("memory_limit") is not None:
                raise DataError("label_texts and memory_limit don't go together: texts of labels are rows in memory.")
            named = self._texts_of_labels(label_texts, vocabulary)
            described = of_labels.Described(
                named, self._judged_texts(listed[0], sample_weight), own_encoder(self.label_encoder)
            )  # before any work
        top = self._fit(
            lambda _: self.vectorizer.fit_transform_rows(listed.pop()).to_scipy(), lambda: (vocabulary, labels),
            sample_weight, options, rows, "auto" if name_rows.is_auto(label_texts) else described,
        )  # fmt: skip
        self.single_label_ = one_class_a_row(Y)
        return top

    def plan(
        self, X: Iterable[str], Y: Any, sample_weight: Any = None, *, label_texts: Any = "auto", **options: Any
    ) -> Plan:
        """Estimate what ``fit`` with the same arguments would need: time, memory and the size of the model.

        At most 5,000 of the texts are read, from which the vocabulary of all is estimated; the rest is the model's own
        plan. (A BeamTreeClassifier's takes the features of all texts.) This object doesn't change. Parameters and
        errors as in :meth:`fit`.

        Returns
        -------
        Plan

        Raises
        ------
        ParameterError
            For a model that has no plan.

        Examples
        --------
        >>> from sylvan import TextModel
        >>> TextModel().plan(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]]).fits
        True
        """
        self.check_params()
        texts, described, judged = check_texts(X, "TextModel"), {}, []
        named: Any = Y
        if name_rows.is_auto(label_texts):
            # of lists of names, all of them are read much sooner than they are encoded
            listed = isinstance(Y, list) and all(type(row) is list and all(type(it) is str for it in row) for row in Y)
            named = Y if listed else named_rows(*encode_labels(Y))
            described = self._readable(sorted(set().union(*named)))
        elif label_texts is not None:
            vocabulary, labels = encode_labels(Y)
            described, named = self._texts_of_labels(label_texts, vocabulary), named_rows(vocabulary, labels)
            judged = self._judged_texts(texts, sample_weight)
        if described:  # as many rows more
            need_as_many(len(texts), len(named))
            Y, texts = [*named, *([name] for name in described)], [*texts, *described.values()]
            if sample_weight is not None:
                sample_weight = np.append(sample_weight, np.ones(len(described)))
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        plan = text_plan(self.vectorizer, self.model, texts, Y, options)
        if self.label_encoder is None or not described:
            return plan
        return with_encoding(plan, self.label_encoder, list(described.values()), judged, self.vectorizer.n_jobs)

    def fit_blocks(self, blocks: Iterable[Any], sample_weight: Any = None, **options: Any) -> TextModel:
        """As :meth:`fit`, from texts that come in blocks and are never all in memory: the same model, bit for bit.

        Parameters
        ----------
        blocks : iterable of (texts, label lists) or TextData
            As from :func:`sylvan.data.stream_jsonl`: some thousands of texts at a time, each with a list of names or
            ints, and optionally their relevances as a third item.
        sample_weight : array-like of shape (n,), optional
        **options
            Passed to the model's ``fit``. With ``memory_limit`` the features are in files.

        Raises
        ------
        DataError
            As :meth:`fit`, and when a block is no such pair.

        Examples
        --------
        >>> from sylvan import TextModel
        >>> blocks = [(["whales at sea"], [["Whaling"]]), (["bread and cakes"], [["Baking"]])]
        >>> TextModel().fit_blocks(blocks).rank(["the whales"], k=1).names
        [['Whaling']]
        """
        self.check_params()
        label_texts = options.pop("label_texts", "auto")
        if label_texts is not None and not name_rows.is_auto(label_texts):
            raise DataError("fit_blocks takes no label_texts but 'auto' or None: give all texts to fit at once.")
        labels = LabelNumbers()
        texts = _texts_of(blocks, labels.take)
        self._fit(
            lambda scratch: self.vectorizer.fit_transform_blocks(texts, scratch=scratch), labels.finish, sample_weight,
            options, described=None if label_texts is None else "auto",
        )  # fmt: skip
        self.single_label_ = False
        return self

    def _texts_of_labels(self, label_texts: Any, vocabulary: Vocabulary) -> dict[str, str]:
        """The text of each label that has one; with ``unlearned="skip"``, of labels that have rows."""
        named = named_texts(label_texts, vocabulary)
        if self.unlearned == "answer":
            return named
        if self.label_encoder is not None:
            raise ParameterError(
                "The 'label_encoder' parameter of TextModel finds labels that have a text and no rows: it needs "
                "unlearned='answer'."
            )
        without = [name for name in named if name not in vocabulary]
        if without and isinstance(label_texts, Mapping):
            warn_data(
                f"label_texts has {counted(len(without), 'label')} that no row has, such as {without[0]!r}: they are "
                "never answered. TextModel(unlearned='answer') ranks them by their texts.", 4,
            )  # fmt: skip
        return {name: text for name, text in named.items() if name in vocabulary}

    def _readable(self, names: Collection[str]) -> dict[str, str]:
        """The texts of labels that nobody gave: names that are words, for a model whose rows have no ids."""
        may = isinstance(self.model, XRLinear) and not self.model.keep_rows
        return name_rows.readable(names) if may else {}

    def _fit(
        self, features: Callable[[ScratchFiles | None], Any], labels: Callable[[], tuple[Vocabulary, Any]],
        sample_weight: Any, options: dict[str, Any], rows: npt.NDArray[np.int32] | None = None,
        described: of_labels.Described | Literal["auto"] | None = None,
    ) -> TopK | None:  # fmt: skip
        """Vectoriser first, then the labels, then the model, perhaps with answers to held-out ``rows``."""
        before, texts_of_labels, like = self.vectorizer.fitted_, None, None
        # on disk where the model is to be trained within a limit
        scratch = None if options.get("memory_limit") is None else ScratchFiles(tempfile.gettempdir())
        try:
            X = features(scratch)
            vocabulary, Y = labels()
            if described == "auto":
                names = self._readable(vocabulary)
                described = of_labels.Described(names, [], None, optional=True) if names else None
            if described is not None:
                vocabulary = of_labels.with_names_of(vocabulary, described.labels)
                data = of_labels.fitted_texts(self, X, Y, sample_weight, vocabulary, described, rows, scratch)
                X, Y, sample_weight, texts_of_labels, like = data
                if texts_of_labels is None and not described.optional:
                    nothing = "No label of the rows has a text with a word of theirs: label_texts changes nothing."
                    warn_data(nothing if like is None else like.sentence(), 4)
            if texts_of_labels is not None and isinstance(self.model, XRLinear):
                options["n_texts"] = len(texts_of_labels.labels)  # rows alone say what a score means, not labels' texts
            elif texts_of_labels is not None and rows is None and getattr(self.model, "calibration", None) is not None:
                n = X.shape[0] - len(texts_of_labels.labels)
                folds = holdout_folds(n, 1, None if sample_weight is None else sample_weight[:n])
                rows = folds[0] if folds else None
            if sample_weight is not None:
                options["sample_weight"] = sample_weight
            options |= names_for(self.model, vocabulary)
            model, top = self.model, None
            if rows is not None:
                top = model.fit_holding_out(X, Y, rows, **options)
                if top is not None and self.unknown == "none":
                    top = answers_of(top, np.diff(X.indptr)[rows] > 0)
            elif isinstance(model, XRLinear) and "n_texts" in options:
                model.fit_holding_out(X, Y, None, **options)
            else:
                model.fit(X, Y, **options)
        except BaseException:  # with its old vectoriser the model is what it was
            self.vectorizer.fitted_ = before
            raise
        of_labels.warn_of_unranked(texts_of_labels, model, self.unlearned == "answer")
        self.label_texts_, self.label_text_likeness_ = texts_of_labels, like
        self._take_labels(vocabulary)
        return top

    def _judged_texts(self, texts: list[str], sample_weight: Any) -> list[str]:
        """Those that an encoder is to be judged by, where there is one."""
        if self.label_encoder is None:
            return []
        weight = validate.sample_weight(sample_weight, len(texts))
        return [texts[row] for row in of_labels.judged_rows(len(texts), weight).tolist()]

    # ---------------------------------------- labels that are known by their texts alone

    @property
    def unlearned_labels_(self) -> npt.NDArray[np.int32]:
        """Ids of the labels that are known by their texts alone, rising; they are ranked by these texts."""
        self._need_fit("unlearned_labels_")
        ranker = self._text_ranker()
        return np.zeros(0, np.int32) if ranker is None else ranker.labels

    def _text_ranker(self) -> of_labels.LabelTextRanker | None:
        """What ranks labels by their texts; None where the model has learned all of them."""
        label_texts = self.label_texts_
        if label_texts is None or label_texts.curve is None:
            return None
        counts, ranker = of_labels.label_counts(self.model), self._ranker
        if ranker is None or ranker.label_texts is not label_texts or not np.array_equal(ranker.counts, counts):
            labels = np.setdiff1d(label_texts.unlearned(counts), self.removed_labels_).astype(np.int32)
            self._ranker = ranker = of_labels.LabelTextRanker(label_texts, counts, labels)
        return ranker if len(ranker.labels) else None

    def _rank_texts(self, texts: list[str], k: int, options: dict[str, Any], unknown: str | None) -> TopK:
        ranker = self._text_ranker()
        if ranker is None:
            return super()._rank_texts(texts, k, options, unknown)
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        rows, vectors = self._text_features(texts), self._vectors(texts)
        return ranker.rank(self.model, texts, rows, vectors, self._answered(rows, texts, unknown), k, options)

    def _vectors(self, texts: list[str]) -> npt.NDArray[np.float32] | None:
        """The label encoder's vectors of texts, where labels are scored by such."""
        label_texts = self.label_texts_
        if label_texts is None or label_texts.encoded is None:
            return None
        return label_texts.encoded.encode(texts, self.vectorizer.n_jobs)

    def rank_voted(self, X: Any, k: int, **options: Any) -> TopK:
        if not self.has_voters or self._text_ranker() is None:
            return super().rank_voted(X, k, **options)
        top, texts = Estimator.rank_voted(self, X, k, **options), check_texts(X)
        voted = self.model.rank_voted(self._text_features(texts), 1)
        assert isinstance(voted, Voted)
        return Voted.of(top, voted.nearest)

    @of_one_state
    def explain(self, x: str | list[str], label: str | int, top: int = 10, **options: Any) -> Explanation:
        """Why the model gives ``label`` to a text, or why it doesn't; see :meth:`TextEstimator.explain`.

        Place and score are those of :meth:`rank`. For a label that is known by its text alone there are no trees' votes
        but a note with the words that its text and ``x`` share.
        """
        result = super().explain(x, label, top, **options)
        ranker = self._text_ranker()
        if ranker is None:
            return result
        options = {name: value for name, value in options.items() if name in self.rank_options()}
        texts = [x] if isinstance(x, str) else x
        place, score = place_of(self.rank(texts, self.n_labels_, **options), result.label)
        options.pop("tail", None)
        probability = place_of(self.rank_plainly(texts, self.n_labels_, **options), result.label)[1]
        result = replace(result, place=place, score=score, probability=probability)
        if result.label not in ranker.labels:
            return result
        texts = check_texts(texts)
        shared = ranker.scorer.shared_features(self._text_features(texts), result.label)
        words = ", ".join(repr(self._feature_name(column)) for column in shared[:top].tolist())
        note = "No training row has this label yet: it is ranked by its own text"
        note += f", which shares {words or 'no word'} with this one."
        vectors = self._vectors(texts)
        if vectors is not None:
            note += f" The cosine of their vectors is {ranker.scorer.cosine(vectors[0], result.label):.2f}."
        return replace(result, trees=(), notes=(note,))

    @of_one_state
    def probabilities(self, top: TopK) -> TopK:
        """The result of :meth:`rank` with probabilities instead of scores, as in :meth:`predict_proba`."""
        self._need_fit("probabilities")
        if self._text_ranker() is None:
            return super().probabilities(top)
        return NamedTopK(top.labels, top.scores, self.vocabulary_)

    def _probabilities(self, top: TopK) -> Any:
        return super()._probabilities(top) if self._text_ranker() is None else np.clip(top.scores, 0, 1)

    # ---------------------------------------- updates

    @all_at_once
    def update(
        self, X: Iterable[str] | None = None, Y: Any = None, sample_weight: Any = None, *, merge: Any = None,
        label_texts: Any = None, **options: Any,
    ) -> TextModel:  # fmt: skip
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
        request = self._request(X, Y, sample_weight, merge, label_texts, options)
        with warnings.catch_warnings():
            if X is None and not self.model.unlearns:  # what is said of new labels isn't true of those with texts alone
                warnings.simplefilter("ignore", RowsUnknownWarning)
            model = copy.copy(self.model).update(*request.arrays, **request.options)
        gone = np.setdiff1d(model.removed_labels_, self.model.removed_labels_)
        label_texts_after = of_labels.texts_after(self.label_texts_, request, model, gone, self.unlearned == "answer")
        of_labels.warn_of_unranked(label_texts_after, model, self.unlearned == "answer" and label_texts is not None)
        self.vectorizer, self.model, self.label_texts_ = request.vectorizer, model, label_texts_after
        self._take_labels(request.vocabulary)
        self._free_names(gone)
        return self

    def plan_update(
        self, X: Iterable[str] | None = None, Y: Any = None, sample_weight: Any = None, *, merge: Any = None,
        label_texts: Any = None, **options: Any,
    ) -> UpdatePlan:  # fmt: skip
        """Estimate what :meth:`update` with the same arguments would do; nothing changes. Errors as there."""
        self._need_fit("plan_update")
        request = self._request(X, Y, sample_weight, merge, label_texts, options)
        plan: UpdatePlan = self.model.plan_update(*request.arrays, **request.options)
        return plan

    def _request(
        self, X: Iterable[str] | None, Y: Any, sample_weight: Any, merge: Any, label_texts: Any, options: dict[str, Any]
    ) -> of_labels.Request:
        """What an update is asked for, in the model's own terms."""
        texts, before = None if X is None else check_texts(X, "TextModel"), self.label_texts_
        if options.get("rows") is not None:
            rows = self._all_rows(options["rows"])
            options = {
                **options,
                "rows": rows if before is None else of_labels.with_known_texts(before, *rows, self.n_labels_),
            }
        if merge is not None:
            options = {**options, "merge": self._merged(merge)}
        return of_labels.requested(self, texts, Y, sample_weight, label_texts, options)

    def calibrate(self, X: Any, Y: Any) -> TextModel:
        """Fit the curves of the probabilities again, to texts that the model wasn't trained on; the ranking stays.

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
        rows = np.flatnonzero(np.diff(features.indptr))
        self.model.calibrate(take_rows(features, rows).to_scipy(), take_rows(truth, rows).to_scipy())
        return self

    def _take_labels(self, vocabulary: Vocabulary) -> None:
        self.vocabulary_ = vocabulary
        self.n_features_, self.n_labels_ = self.model.n_features_, self.model.n_labels_

    # ---------------------------------------- storing

    @classmethod
    def _params_from(cls, state: State) -> dict[str, Any]:
        params = super()._params_from(state)
        params["vectorizer"] = TfidfVectorizer.from_state(store.need_part(state, "vectorizer", "tfidf-vectorizer"))
        params["model"] = _over_matrices(rebuild(store.need_part(state, "model")))
        return {**params, "label_encoder": made_encoder(state, params["label_encoder"])}

    def _plain_params(self) -> dict[str, Any]:
        return {**super()._plain_params(), "label_encoder": described_encoder(self.label_encoder)}

    def to_state(self) -> State:
        """The parts of the model, and the files of the encoder of its labels, for :func:`sylvan.store.save`."""
        state, label_texts = super().to_state(), self.label_texts_
        if label_texts is not None and label_texts.encoded is not None:
            state.files.update(label_texts.encoded.encoder.files())
        return state

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        self.model = self.model.without_label_ids(ids)
        if self.label_texts_ is not None:
            self.label_texts_ = self.label_texts_.without(ids)

    pruned = pruned_model
    compress = compressed_model

    def _with_weights(self, share: float, weight_dtype: WeightDtype | None) -> TextModel:
        changed = copy.copy(self)
        if has_weights(self.model):
            changed.model = self.model.pruned(share, weight_dtype)
        return changed

    def weight_dtypes(self) -> set[str]:
        """How the weights are stored; empty where there are none."""
        return self.model.weight_dtypes() if has_weights(self.model) else set()

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, State]]:
        meta, arrays, parts = super()._fitted_state()
        if self.label_texts_ is not None:
            parts["label_texts"] = self.label_texts_.to_state()
        if self.label_text_likeness_ is not None:
            arrays[name_rows.ARRAY] = self.label_text_likeness_.to_array()
        return meta, arrays, {"vectorizer": self.vectorizer.to_state(), "model": self.model.to_state(), **parts}

    def _restore(self, state: State) -> None:
        super()._restore(state)
        self._join(self.vocabulary_)
        self.label_text_likeness_ = name_rows.Likeness.from_state(state)
        if "label_texts" in state.parts:
            part = store.need_part(state, "label_texts", "label-texts")
            self.label_texts_ = of_labels.LabelTexts.from_state(part, self.n_labels_, self.n_features_, state)

    @classmethod
    def from_parts(cls, vectorizer: TfidfVectorizer, model: Estimator, vocabulary: Vocabulary) -> TextModel:
        """Combine a vectoriser and a model that were fitted separately.

        Parameters
        ----------
        vectorizer : TfidfVectorizer
            Fitted.
        model : Estimator
            Fitted on features from the vectoriser.
        vocabulary : Vocabulary
            The name of each of the model's labels.

        Raises
        ------
        DataError
            When they do not fit each other.
        NotFittedError
            When one of the two is not fitted.

        Examples
        --------
        >>> from sylvan import TextModel, TfidfVectorizer, XRLinear, data
        >>> texts, labels = ["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]]
        >>> vectorizer, names = TfidfVectorizer(), data.Vocabulary.from_labels(labels)
        >>> model = XRLinear().fit(vectorizer.fit_transform(texts), names.encode(labels))
        >>> TextModel.from_parts(vectorizer, model, names).rank(["the whales"], k=1).names
        [['Whaling']]
        """
        joined = cls(vectorizer, _over_matrices(model))
        joined._join(vocabulary)
        return joined

    def _join(self, vocabulary: Vocabulary) -> None:
        """Take the names of labels, when all that was fitted fits each other."""
        n_terms, model = self.vectorizer.n_terms_, self.model
        if model.n_features_ != n_terms:
            raise DataError(
                f"The vectorizer gives {counted(n_terms, 'feature')}, but the model has {model.n_features_}."
            )
        if model.n_labels_ != len(vocabulary):
            raise DataError(
                f"The vocabulary has {counted(len(vocabulary), 'name')}, but the model "
                f"{counted(model.n_labels_, 'label')}."
            )
        self._take_labels(vocabulary)


def _over_matrices(model: Any) -> Estimator:
    """A model, when it is one that a text model can be made of."""
    if not isinstance(model, Estimator) or model.takes_texts:
        raise DataError(f"A TextModel is made of a model over matrices, not of {type(model).__name__}.")
    return model


def _texts_of(blocks: Iterable[Any], take: Callable[[list[Any], Any], None]) -> Iterator[list[str]]:
    """The texts of one block after another; ``take(labels, weights)`` is given its labels."""
    for number, block in enumerate(blocks):
        try:
            texts, labels, *weights = [] if isinstance(block, str) else block
            n_texts, n_labels, (weight,) = len(texts), len(labels), weights or [None]
        except (TypeError, ValueError):
            raise DataError(
                f"Block {number} must be a pair of texts and labels, or a TextData. Got {type(block).__name__} instead."
            ) from None
        if n_texts != n_labels:
            raise DataError(f"Block {number} has {counted(n_texts, 'text')}, but labels for {n_labels:,}.")
        take(labels, weight)
        yield texts


store.register(TextModel.kind, TextModel.from_state)
