"""LexicalMatcher: the labels whose own words stand in a text."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Bool, Float32, Int32
from sylvan.data import Vocabulary
from sylvan.data.label_terms import label_terms
from sylvan.errors import DataError, ParameterError, UnsupportedError, warn_data
from sylvan.explain.explanation import Explanation, excerpt
from sylvan.explain.question import check_count, place_of
from sylvan.labels.targets import encode_labels, one_class_a_row
from sylvan.labels.vocabulary import find_label, looks_like_uri
from sylvan.models.base import MOST_ANSWERS
from sylvan.models.label_changes import denying, rows_of
from sylvan.models.lexical import matching
from sylvan.models.lexical.lexicon import LabelTies, Lexicon
from sylvan.models.lexical.stored_terms import StoredTerms, label_notes
from sylvan.models.text_estimator import TextEstimator, check_texts, one_text
from sylvan.parallel import all_at_once, of_one_state
from sylvan.params.fields import Choice, Range, Seed, Threads, attribute, parameterized
from sylvan.ranking.boosted_trees import BoostedTrees
from sylvan.ranking.calibrate import Calibrator, Method, calibrated, holdout_folds
from sylvan.text.characters import FIRST_RULES, RULES
from sylvan.text.counting import as_documents
from sylvan.text.word_forms import LEMMA_LANGUAGES, STEM_LANGUAGES, LabelWords


@parameterized
class LexicalMatcher(TextEstimator):
    """Ranks the labels whose own words stand in a text: their names, other names and parts of these.

    What speaks for a label (its phrases, how often and where they stand, how many of its words there are, how often
    texts with these words have it) is weighed by boosted trees, which learn from training texts; without any, by fixed
    weights. It answers with labels that no training text has.

    Parameters
    ----------
    stem : str, optional
        A language, as in ``"en"``, by whose Snowball stems words are compared; needs
        ``pip install "sylvan[languages]"``.
    lemmatize : str, optional
        A language by whose lemmas, simplemma's, words are compared.
    partial : int, default 50
        How many labels of which only some words stand in a text are candidates too, the best by BM25. 0 for none; BM25
        isn't computed then, which saves most of the time of a long text.
    n_trees : int, default 150
        Number of boosted trees; 0 for the fixed weights.
    depth : int, default 5
        Layers of splits of a tree.
    learning_rate : float, default 0.1
        What each tree's answer is multiplied with.
    calibration : {"isotonic", "platt"}, optional
        How scores become the probabilities of :meth:`predict_proba`: by curves fitted to training rows from which the
        trees haven't learned. None leaves the scores, which are probabilities as the trees see them.
    n_jobs : int, optional
        Number of threads; None or -1 for every core. The result doesn't depend on it.
    seed : int, default 0
        Which rows are set apart while the trees are grown.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The label names.
    terms_ : StoredTerms
        The labels' texts.
    n_features_ : int
        How many different words they have.
    n_labels_, n_rows_ : int
    label_counts_ : ndarray of int64, shape (n_labels_,)
        Training rows of each label.

    Notes
    -----
    Matching of a controlled vocabulary with learned features of the matches is that of Maui (Medelyan 2009,
    "Human-competitive automatic topic indexing") and Annif's MLLM. Here phrases are found by an automaton over words
    (Aho & Corasick 1975), sets of words by a trie, and partial matches by postings, all in one pass over a text. Words
    are compared without case and diacritics.

    Examples
    --------
    >>> from sylvan import LexicalMatcher
    >>> names = {"n1": ["whaling", "whale hunting"], "n2": ["bread baking"], "n3": ["poetry", "verse"]}
    >>> matcher = LexicalMatcher().fit(label_texts=names)
    >>> matcher.rank(["On whale hunting in the south seas", "Baking bread at home"], k=1).names
    [['n1'], ['n2']]
    """

    kind = "lexical-matcher"
    layout = 2  # by the words of the first layout, Han and kana alone were without spaces
    least_rows = 0

    stem: Annotated[str | None, Choice(tuple(STEM_LANGUAGES))] = None
    lemmatize: Annotated[str | None, Choice(LEMMA_LANGUAGES)] = None
    partial: Annotated[int, Range(0, 10_000)] = 50
    n_trees: Annotated[int, Range(0, 10_000)] = 150
    depth: Annotated[int, Range(1, 12)] = 5
    learning_rate: Annotated[float, Range(0, 1, open_low=True)] = 0.1
    calibration: Method | None = "isotonic"
    n_jobs: Threads = None
    seed: Seed = 0

    terms_: StoredTerms = attribute()
    _words: LabelWords = attribute()
    _lexicon: Lexicon = attribute()
    _scorer: matching.LabelScorer = attribute()

    # ---------------------------------------- training

    def check_params(self, names: Any = None) -> None:
        """Check every parameter's range, and that words are stemmed or lemmatised, not both."""
        super().check_params(names)
        if self.stem is not None and self.lemmatize is not None:
            raise ParameterError(
                f"The 'stem' and 'lemmatize' parameters of LexicalMatcher exclude each other. Got {self.stem!r} and "
                f"{self.lemmatize!r}."
            )

    def fit(
        self, X: Iterable[str] | None = None, Y: Any = None, sample_weight: Any = None, *, label_texts: Any = None
    ) -> LexicalMatcher:
        """Learn the labels' words, and from texts which of the labels that are found are right.

        Parameters
        ----------
        X : iterable of str, length n, optional
            Texts; none are needed where there are ``label_texts``.
        Y : sequence of length n, optional
            Each text's labels, as in :meth:`TextModel.fit`.
        sample_weight : array-like of shape (n,), optional
            The weight of each text.
        label_texts : mapping of str to (str, list of str or LabelTerms), SubjectVocabulary, or "names", optional
            What labels are called. Of a list, the first is the preferred name. By default, or with "names", each label
            is called as it is in ``Y``. Labels that no text has get ids behind the others, in alphabetical order;
            labels of ``Y`` that it lacks are never answered.

        Raises
        ------
        DataError
            For texts or labels of another type, different numbers of them, or labels without a single word.
        ParameterError
            When a parameter is out of its range.
        ImportError
            When the library for stems or lemmas isn't installed.
        """
        self._fit(X, Y, sample_weight, label_texts, None)
        return self

    def fit_holding_out(  # type: ignore[override]  # the options that it takes are named
        self, X: Any, Y: Any, rows: Int32, sample_weight: Any = None, *, label_texts: Any = None
    ) -> TopK | None:
        """As :meth:`fit`; see :meth:`Estimator.fit_holding_out`."""
        return self._fit(X, Y, sample_weight, label_texts, rows)

    def _fit(self, X: Any, Y: Any, sample_weight: Any, label_texts: Any, rows: Int32 | None) -> TopK | None:
        self.check_params()
        texts, names, truth, weight = self._rows(X, Y, sample_weight)
        if not texts and label_texts is None:
            raise DataError("Without texts the labels are known by label_texts alone: give these, or texts.")
        if texts and (label_texts is None or isinstance(label_texts, str)) and all(map(looks_like_uri, names)):
            warn_data("The labels are URIs, which stand in no text: label_texts says what they are called.", 3)
        terms = label_terms(label_texts, names)
        vocabulary = _with_names(names, terms)
        stored, n_labels = StoredTerms.of(terms, vocabulary), len(vocabulary)
        words, lexicon = stored.lexicon(n_labels, self.stem, self.lemmatize)
        if not lexicon.n_words:
            raise DataError(f"None of the {n_labels} labels has a word: there is nothing to find in texts.")
        truth, top = truth._replace(shape=(len(texts), n_labels)), None
        scorer = matching.LabelScorer(matching.MatchedRows.none(n_labels), None)
        if rows is None and self.calibration is not None:
            rows = next(iter(holdout_folds(len(texts), 1, weight)), None)
        if texts:
            each = np.ones(len(texts), np.float32) if weight is None else weight
            matcher = matching.TextMatcher(words, lexicon.kernel, self.partial)
            scorer, top = matching.learned(self, matcher, texts, truth, each, rows)
        self.vocabulary_, self.terms_, self._words, self._lexicon = vocabulary, stored, words, lexicon
        self._scorer, self._removed, self.calibrator_ = scorer, np.zeros(0, np.int32), None
        self.single_label_ = bool(texts) and one_class_a_row(Y)
        (self.n_rows_, self.n_labels_), self.n_features_ = truth.shape, lexicon.n_words
        self.label_counts_ = np.bincount(truth.indices, minlength=n_labels).astype(np.int64)
        if top is None or rows is None:
            return None
        if self.calibration is not None:
            self.calibrator_ = calibrated(self.calibration, top, rows, truth, weight)
        return self.probabilities(top)

    def _rows(self, X: Any, Y: Any, sample_weight: Any) -> tuple[tuple[str, ...], Vocabulary, Csr, Float32 | None]:
        """Texts, names and matrix of labels, and weights."""
        if (X is None) != (Y is None):
            raise DataError("fit takes X and Y together: the texts, and their labels.")
        texts = () if X is None else as_documents(check_texts(X, type(self).__name__))
        if not texts:
            return (), Vocabulary([]), Csr.empty(0, 0), None
        vocabulary, matrix = encode_labels(Y)
        truth = validate.labels(matrix)
        if len(texts) != truth.shape[0]:
            raise DataError(f"There are {len(texts)} texts, but the labels of {truth.shape[0]}.")
        return texts, vocabulary, truth, validate.sample_weight(sample_weight, len(texts))

    @all_at_once
    def update(
        self, X: Iterable[str] | None = None, Y: Any = None, sample_weight: Any = None, *, label_texts: Any = None,
        rows: Any = None, **options: Any,
    ) -> LexicalMatcher:  # fmt: skip
        """Learn labels that are new, other words for labels, and how often labels are right in new texts.

        The trees, and the curves of the probabilities, stay. How often a new label's words were found in earlier texts
        isn't known.

        Parameters
        ----------
        X, Y, sample_weight : as in :meth:`fit`, optional
        label_texts : as in :meth:`fit`, optional
            Of labels that are new, or called otherwise from now on. New labels of ``Y`` that it lacks are called by
            their names.
        rows : optional
            Makes no difference: other members of an ensemble may need their training rows again.
        **options
            None: those of other models' ``update``, such as ``forget``, are for models that store their rows.

        Raises
        ------
        NotFittedError, DataError
        UnsupportedError
            For another option.

        Examples
        --------
        >>> from sylvan import LexicalMatcher
        >>> matcher = LexicalMatcher().fit(label_texts={"n1": "whaling"})
        >>> matcher.update(label_texts={"n2": ["steam engines"]}).rank(["steam engines"], k=1).names
        [['n2']]
        """
        self._need_fit("update")
        self.check_params()
        if options:
            raise UnsupportedError(
                f"update of LexicalMatcher takes texts and label_texts: it stores no rows for {next(iter(options))!r}."
            )
        texts, names, truth, weight = self._rows(X, Y, sample_weight)
        if not texts and label_texts is None:
            raise DataError("There is nothing to do: give new texts X and Y, or label_texts.")
        new = [name for name in names if name not in self.vocabulary_]
        terms = {**label_terms(None, new), **({} if label_texts is None else label_terms(label_texts, names))}
        vocabulary = _with_names(self.vocabulary_, dict.fromkeys([*new, *terms]))
        n_labels, stored = len(vocabulary), self.terms_.with_others(StoredTerms.of(terms, vocabulary))
        words, lexicon = stored.lexicon(n_labels, self.stem, self.lemmatize)
        ids = np.array([vocabulary.id(name) for name in names], np.int32)
        moved = truth._replace(indices=ids[truth.indices], shape=(len(texts), n_labels))
        truth = validate.labels(moved.to_scipy())
        rows = self._scorer.rows.plus(matching.MatchedRows.none(n_labels))
        if texts:
            matcher = matching.TextMatcher(words, lexicon.kernel, self.partial)
            rows = rows.plus(matching.matched_rows(matcher, texts, truth, weight, self.n_jobs))
        self.vocabulary_, self.terms_, self._words, self._lexicon = vocabulary, stored, words, lexicon
        self._scorer = matching.LabelScorer(rows, self._scorer.trees)
        self.n_rows_, self.n_labels_, self.n_features_ = self.n_rows_ + len(texts), n_labels, lexicon.n_words
        counts = np.pad(self.label_counts_, (0, n_labels - len(self.label_counts_)))
        self.label_counts_ = counts + np.bincount(truth.indices, minlength=n_labels)
        return self

    # ---------------------------------------- answers

    @property
    def matcher_(self) -> matching.TextMatcher:
        """What finds labels."""
        return matching.TextMatcher(self._words, self._lexicon.kernel, self.partial)

    @property
    def ties_(self) -> LabelTies:
        """What names and relations tie labels to each other; made when it is first asked for."""
        return self._lexicon.ties

    def known_texts(self, X: Iterable[str]) -> Bool:
        """Which texts have a word that a label has; no label is found in others.

        Parameters
        ----------
        X : iterable of str, length n

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        NotFittedError, DataError
        """
        self._need_fit("known_texts")
        places = self._words.read(as_documents(check_texts(X, type(self).__name__)))
        before = np.concatenate(([0], np.cumsum(places.words >= 0)))
        return np.diff(before[places.offsets]) > 0

    def _rank_texts(self, texts: list[str], k: int, options: dict[str, Any], unknown: str | None) -> TopK:
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        self.check_params(("partial",))
        allowed, denied = options.get("allowed"), options.get("denied")
        labels = LabelFilter.of(allowed, denied, n_rows=len(texts), n_labels=self.n_labels_)
        if len(self._removed):
            labels = denying(labels, self._removed, self.n_labels_)
        scorer = self._scorer

        def work(first: int, last: int, candidates: Any) -> TopK:
            return matching.best(candidates, scorer.scores(candidates), k, labels, first)

        return rows_of(self.matcher_.each(as_documents(texts), work, self.n_jobs, "Ranking"), k)

    def features(self, texts: Iterable[str], candidates: Any) -> Float32:
        """What is known of some labels in some texts: the columns by which the matcher ranks.

        Parameters
        ----------
        texts : iterable of str, length n
        candidates : TopK, or array of int of shape (n, k)
            Label ids for each text; -1 where there is none.

        Returns
        -------
        ndarray of float32, shape (n, k, n_features)
            In the order of ``feature_names_``; what they are says
            :func:`sylvan.models.lexical.matching.feature_columns`. Zeros where there is no label.

        Raises
        ------
        NotFittedError, DataError

        Examples
        --------
        >>> from sylvan import LexicalMatcher
        >>> matcher = LexicalMatcher().fit(label_texts={"n1": "whaling", "n2": "bread"})
        >>> columns = matcher.features(["Whaling, and whaling again"], [[0, 1]])
        >>> columns[0, :, matcher.feature_names_.index("preferred")].tolist()
        [1.0986123085021973, 0.0]
        """
        self._need_fit("features")
        documents = as_documents(check_texts(texts, type(self).__name__))
        listed = _listed_labels(candidates, len(documents), self.n_labels_)
        rows = np.repeat(np.arange(len(documents)), listed.shape[1])
        valid = listed.ravel() >= 0
        keys, back = np.unique(rows[valid] * np.int64(self.n_labels_) + listed.ravel()[valid], return_inverse=True)
        offsets = np.searchsorted(keys, np.arange(len(documents) + 1, dtype=np.int64) * self.n_labels_).astype(np.int64)
        labels = (keys % self.n_labels_).astype(np.int32)
        pairs = Csr(offsets, labels, np.ones(len(labels), np.float32), (len(documents), self.n_labels_))
        of_rows = self._scorer.rows

        def work(first: int, last: int, matched: Any) -> Float32:
            return matching.feature_columns(matched, of_rows)

        parts = self.matcher_.each(documents, work, self.n_jobs, pairs=pairs)
        columns = np.concatenate([np.zeros((0, len(matching.FEATURES)), np.float32), *parts])
        result = np.zeros((*listed.shape, len(matching.FEATURES)), np.float32)
        result[listed >= 0] = columns[back.ravel()]
        return result

    def without_rows(self, texts: Iterable[str], Y: Any, sample_weight: Any = None) -> LexicalMatcher:
        """The same matcher, which counts how often labels were right without some of the rows that it counted.

        Parameters
        ----------
        texts : iterable of str, length m
            Training texts.
        Y : matrix of shape (m, n_labels_)
            Their labels, by ids.
        sample_weight : array of shape (m,), optional
            The weight that each had.

        Returns
        -------
        LexicalMatcher
            Its trees and its probabilities are those of all rows.

        Raises
        ------
        NotFittedError, DataError
        """
        self._need_fit("without_rows")
        documents, truth = as_documents(check_texts(texts, type(self).__name__)), validate.labels(Y)
        weight = validate.sample_weight(sample_weight, len(documents))
        gone = matching.matched_rows(self.matcher_, documents, truth, weight, self.n_jobs)
        result = copy.copy(self)
        result._scorer = matching.LabelScorer(self._scorer.rows.plus(gone, -1), self._scorer.trees)
        return result

    @property
    def feature_names_(self) -> tuple[str, ...]:
        """The names of the columns of :meth:`features`."""
        return matching.FEATURES

    @of_one_state
    def explain(
        self, x: str | list[str], label: str | int, top: int = 10, *, examples: Any = None, n_examples: int = 3,
        **options: Any,
    ) -> Explanation:  # fmt: skip
        """Which of a label's words stand in a text and where, and what else speaks for or against it.

        Parameters
        ----------
        x : str, or list of one
        label : str or int
        top : int
            Most places of each form that are shown.
        examples, n_examples
            Make no difference: this model stores no rows.
        **options
            None: there are no options of ranking that would change it.

        Returns
        -------
        Explanation
            Its ``notes`` say it in sentences.

        Raises
        ------
        NotFittedError, DataError
        """
        self._need_fit("explain")
        self._need_options(options)
        texts = one_text(x, type(self).__name__)
        number = find_label(label, self.n_labels_, self.vocabulary_)
        if number in self._removed:
            raise DataError(f"Label {number} was removed: there is nothing to explain.")
        top = check_count(top, "top")
        ranking = self.rank(texts, self.n_labels_)
        place, score = place_of(ranking, number)
        probability = None if self.calibrator_ is None else place_of(self.probabilities(ranking), number)[1]
        columns = dict(zip(matching.FEATURES, self.features(texts, [[number]])[0, 0].tolist(), strict=True))
        forms = self.terms_.of_label(number)
        notes = label_notes(texts[0], forms, self._words, columns, self._scorer.rows, number, top)
        n_known = int((self._words.read(tuple(texts)).words >= 0).sum())
        return Explanation(
            model=type(self).__name__, label=number, name=self.vocabulary_[number], place=place, score=score,
            n_labels=self.n_labels_, n_features=self.n_features_, n_known=n_known, excerpt=excerpt(texts[0]),
            probability=probability, notes=notes,
        )  # fmt: skip

    def rank_options(self) -> list[str]:
        return ["allowed", "denied"]

    def _drop_labels(self, ids: Int32) -> None:
        self.terms_ = self.terms_.without(ids)
        self._scorer = matching.LabelScorer(self._scorer.rows.without(ids), self._scorer.trees)
        self._note_dropped(ids)

    # ---------------------------------------- storing

    def to_state(self) -> store.State:
        state = super().to_state()
        state.version = self.layout if self._words.rules == RULES else 1
        return state

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, store.State]]:
        meta, arrays, parts = super()._fitted_state()
        meta |= {"n_rows": self.n_rows_, "n_labels": self.n_labels_, "library": self._words.library}
        arrays |= {"label_counts": self.label_counts_, "rows": self._scorer.rows.to_array()}
        arrays |= {**self._lexicon.to_arrays(), **self.terms_.to_arrays()}
        if self._scorer.trees is not None:
            arrays |= self._scorer.trees.to_arrays()
        if len(self._removed):
            arrays["removed_labels"] = self._removed
        if self.calibrator_ is not None:
            parts["calibrator"] = self.calibrator_.to_state()
        return meta, arrays, {**parts, "words": self._words.vocabulary.to_state()}

    def _restore(self, state: store.State) -> None:
        super()._restore(state)
        n_labels = store.need_int(state, "n_labels", 1, validate.MAX_COLUMNS)
        if len(self.vocabulary_) != n_labels:
            raise DataError(f"it names {len(self.vocabulary_)} of its {n_labels} labels.")
        self.n_rows_ = store.need_int(state, "n_rows", self.least_rows, validate.MAX_COLUMNS)
        self.label_counts_ = store.need_array(state, "label_counts", np.int64, (n_labels,))
        library = state.meta.get("library")
        if library is not None and not isinstance(library, str):
            raise DataError(f"'library' must be a string or null. Got {library!r:.60} instead.")
        vocabulary = Vocabulary.from_state(store.need_part(state, "words", "vocabulary"))
        rules = RULES if state.version >= self.layout else FIRST_RULES
        self._words = LabelWords(vocabulary, self.stem, self.lemmatize, library, rules)
        self._lexicon = Lexicon.from_state(state, n_labels, len(vocabulary))
        self.terms_ = StoredTerms.from_state(state, n_labels)
        trees = BoostedTrees.from_state(state, len(matching.FEATURES)) if "trees.features" in state.arrays else None
        self._scorer = matching.LabelScorer(matching.MatchedRows.from_state(state, "rows", n_labels), trees)
        if "removed_labels" in state.arrays:
            self._removed = store.need_rising(state, "removed_labels", 0, n_labels - 1, np.int32)
        self.n_features_, self.n_labels_ = len(vocabulary), n_labels
        if "calibrator" in state.parts:
            self.calibrator_ = Calibrator.from_state(state.parts["calibrator"])


def _with_names(vocabulary: Vocabulary, names: Iterable[str]) -> Vocabulary:
    """The label names with others behind them, in alphabetical order."""
    new = sorted(name for name in names if name not in vocabulary)
    return type(vocabulary)([*vocabulary, *new]) if new else vocabulary


def _listed_labels(candidates: Any, n: int, n_labels: int) -> Int32:
    """Candidates as label ids of shape (n, k), verified."""
    listed = np.asarray(candidates.labels if isinstance(candidates, TopK) else candidates)
    if listed.ndim != 2 or len(listed) != n or listed.dtype.kind not in "iu":
        raise DataError(
            f"candidates must be label ids of shape ({n}, k), a row a text. Got {listed.dtype} of shape "
            f"{listed.shape} instead."
        )
    if listed.size and (listed.min() < -1 or listed.max() >= n_labels):
        raise DataError(f"candidates must be label ids in [0, {n_labels - 1}], or -1.")
    return listed.astype(np.int32)


store.register(LexicalMatcher.kind, LexicalMatcher.from_state)
