"""What a lexical matcher answers, and why; and the columns by which it ranks."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, UnsupportedError
from sylvan.explain.explanation import Explanation
from sylvan.explain.paths import Candidates as TreeCandidates
from sylvan.explain.question import check_count, place_of
from sylvan.explain.records import excerpt
from sylvan.labels.vocabulary import NamedTopK, find_label
from sylvan.models.base import MOST_ANSWERS, Estimator
from sylvan.models.lexical.features import FEATURES, MatchedRows, feature_columns
from sylvan.models.lexical.label_ties import LabelTies
from sylvan.models.lexical.lexicon import Lexicon
from sylvan.models.lexical.matching import LabelScorer, TextMatcher, best
from sylvan.models.lexical.stored_terms import StoredTerms
from sylvan.models.lexical.training import matched_rows
from sylvan.models.text_estimator import TextEstimator, check_texts
from sylvan.parallel import resolve_jobs
from sylvan.text.documents import as_documents
from sylvan.text.label_words import LabelWords, is_content
from sylvan.text.words import BEGINS_SENTENCE

_AROUND = 30  # characters shown on both sides of a place
_Self = TypeVar("_Self", bound="LexicalAnswers")


class _Text(NamedTuple):
    """A text's words by ids, where they stand, and in which sentence."""

    text: str
    ids: list[int]
    starts: list[int]
    ends: list[int]
    sentences: list[int]


def label_notes(
    text: str, forms: Sequence[tuple[str, str]], words: LabelWords, columns: Mapping[str, float], rows: MatchedRows,
    label: int, top: int,
) -> tuple[str, ...]:  # fmt: skip
    """Sentences about one label in one text."""
    read = _read(text, words)
    notes = [note for kind, form in forms if (note := _form_note(read, kind, form, words, top))]
    if not notes:
        notes = [_partial_note(read, forms, words)]
    found, right = rows.found[label], rows.found_right[label]
    if columns["sentences"] > 0:
        notes.append(
            f"Its words were found in {_number(found)} training texts, of which {_number(right)} have it."
            if found else "Its words were found in no training text."
        )  # fmt: skip
    else:
        tried, ok = rows.partial[label], rows.partial_right[label]
        notes.append(
            f"Some of its words made it a candidate in {_number(tried)} training texts, of which {_number(ok)} have it."
        )
    counts = {name: round(np.expm1(columns[name])) for name in ("broader", "narrower", "related")}
    related = [f"{count} {name}" for name, count in counts.items() if count]
    if related:
        notes.append(f"Labels that it is related to are found too: {', '.join(related)}.")
    notes.append(f"BM25 of its words is {columns['bm25']:.2f}, {columns['bm25_share']:.0%} of the best label's.")
    return tuple(notes)


def _number(weight: float) -> str:
    return f"{weight:,.0f}" if weight == round(weight) else f"{weight:,.1f}"


def _read(text: str, words: LabelWords) -> _Text:
    scanned = words.scan((text,))
    ids = words.ids(scanned.distinct)[scanned.words]
    sentences = np.cumsum((scanned.kinds & BEGINS_SENTENCE) != 0)
    return _Text(text, ids.tolist(), scanned.starts.tolist(), scanned.ends.tolist(), sentences.tolist())


def _form_note(read: _Text, kind: str, form: str, words: LabelWords, top: int) -> str:
    """Where a form stands as a phrase, or its words in one sentence; empty where neither."""
    of_form = _read(form, words)
    wanted, n = of_form.ids, len(of_form.ids)
    if not n:
        return ""
    places = [
        at for at in range(len(read.ids) - n + 1)
        if read.ids[at : at + n] == wanted and read.sentences[at] == read.sentences[at + n - 1]
    ]  # fmt: skip
    if places:
        shown = ", ".join(f"at character {read.starts[at]} ({_around(read, at, at + n - 1)})" for at in places[:top])
        more = f", and {len(places) - top} more" if len(places) > top else ""
        times = "once" if len(places) == 1 else f"{len(places)} times"
        return f"The {kind} form {form!r} stands there {times}: {shown}{more}."
    content = _content(of_form)
    in_sentence: dict[int, set[int]] = {}
    for number, sentence in zip(read.ids, read.sentences, strict=True):
        in_sentence.setdefault(sentence, set()).add(number)
    whole = next((sentence for sentence, there in in_sentence.items() if content <= there), None)
    if whole is None:
        return ""
    at = read.sentences.index(whole)
    return f"All words of the {kind} form {form!r} stand in the sentence at character {read.starts[at]}."


def _content(form: _Text) -> set[int]:
    """The words of a form that count in sets."""
    pairs = zip(form.ids, form.starts, form.ends, strict=True)
    found = {number for number, start, end in pairs if is_content(form.text[start:end])}
    return found or set(form.ids)


def _partial_note(read: _Text, forms: Sequence[tuple[str, str]], words: LabelWords) -> str:
    """Which words of which form stand anywhere in the text, of the form of which the largest share does."""
    there = set(read.ids)
    best = (0.0, "none of its words stands in the text.")
    for kind, form in forms:
        of_form = _read(form, words)
        content = _content(of_form)
        shared = content & there
        if content and len(shared) / len(content) > best[0]:
            pairs = zip(of_form.ids, of_form.starts, of_form.ends, strict=True)
            named = dict.fromkeys(form[start:end] for number, start, end in pairs if number in shared)
            words_of = f"{len(shared)} of the {len(content)} words of the {kind} form {form!r} stand in the text"
            best = (len(shared) / len(content), f"{words_of}: {', '.join(map(repr, named))}.")
    return f"None of its forms stands in one sentence; {best[1]}"


def _around(read: _Text, first: int, last: int) -> str:
    """The words of a place with some text around them."""
    start, end = max(read.starts[first] - _AROUND, 0), min(read.ends[last] + _AROUND, len(read.text))
    before, after = "…" if start else "", "…" if end < len(read.text) else ""
    return f"'{before}{' '.join(read.text[start:end].split())}{after}'"


class LexicalAnswers(TextEstimator):
    """Base of LexicalMatcher, once it is fitted."""

    partial: int
    n_jobs: int | None
    terms_: StoredTerms
    _words: LabelWords
    _lexicon: Lexicon
    _scorer: LabelScorer

    @property
    def matcher_(self) -> TextMatcher:
        """What finds labels."""
        return TextMatcher.of(self._words, self._lexicon, self.partial)

    @property
    def ties_(self) -> LabelTies:
        """What names and relations tie labels to each other; made when it is first asked for."""
        cached = self.__dict__.get("_ties")
        if cached is None or cached[0] is not self._lexicon:
            cached = (self._lexicon, LabelTies.of(self._lexicon))
            self.__dict__["_ties"] = cached
        ties: LabelTies = cached[1]
        return ties

    def inner(self) -> Estimator:
        """The matcher itself: no model over matrices is inside."""
        return self

    @property
    def has_voters(self) -> bool:
        return False

    @property
    def voters_(self) -> None:
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_ties"}

    def known_texts(self, X: Iterable[str]) -> npt.NDArray[np.bool_]:
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
        jobs = resolve_jobs(self.n_jobs)
        labels = LabelFilter.of(
            options.get("allowed"), options.get("denied"), n_rows=len(texts), n_labels=self.n_labels_
        )
        if len(self._removed):
            everything = LabelFilter(False, np.zeros(0, np.int32), None, self.n_labels_)
            labels = (everything if labels is None else labels).denying(self._removed)
        scorer, matcher = self._scorer, self.matcher_

        def work(first: int, last: int, candidates: Any) -> TopK:
            return best(candidates, scorer.scores(candidates), k, labels, first)

        tops = matcher.each(as_documents(texts), work, jobs, "Ranking")
        none = np.zeros((0, k), np.int32), np.zeros((0, k), np.float32)
        return TopK(
            np.concatenate([none[0], *(top.labels for top in tops)]),
            np.concatenate([none[1], *(top.scores for top in tops)]),
        )

    def features(self, texts: Iterable[str], candidates: Any) -> npt.NDArray[np.float32]:
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
            :func:`sylvan.models.lexical.features.feature_columns`. Zeros where there is no label.

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
        known = listed.ravel() >= 0
        keys, back = np.unique(rows[known] * np.int64(self.n_labels_) + listed.ravel()[known], return_inverse=True)
        counts = np.bincount(keys // self.n_labels_, minlength=len(documents))
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        labels = (keys % self.n_labels_).astype(np.int32)
        given = Csr(offsets, labels, np.ones(len(labels), np.float32), (len(documents), self.n_labels_))
        of_rows = self._scorer.rows

        def work(first: int, last: int, found: Any) -> npt.NDArray[np.float32]:
            return feature_columns(found, of_rows)

        parts = self.matcher_.each(documents, work, resolve_jobs(self.n_jobs), given=given)
        columns = np.concatenate([np.zeros((0, len(FEATURES)), np.float32), *parts])
        result = np.zeros((listed.size, len(FEATURES)), np.float32)
        result[known] = columns[back.ravel()]
        return result.reshape(*listed.shape, len(FEATURES))

    def without_rows(self: _Self, texts: Iterable[str], Y: Any, sample_weight: Any = None) -> _Self:
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
        each = np.ones(len(documents), np.float32) if weight is None else weight
        made, gone = copy.copy(self), matched_rows(self.matcher_, documents, truth, each, resolve_jobs(self.n_jobs))
        made._scorer = LabelScorer(self._scorer.rows.plus(gone, -1), self._scorer.trees)
        return made

    @property
    def feature_names_(self) -> tuple[str, ...]:
        """The names of the columns of :meth:`features`."""
        return FEATURES

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
        texts = check_texts([x] if isinstance(x, str) else x, type(self).__name__)
        if len(texts) != 1:
            raise DataError(f"explain takes one text. Got {len(texts)} instead.")
        number = find_label(label, self.n_labels_, self.vocabulary_)
        if number in self._removed:
            raise DataError(f"Label {number} was removed: there is nothing to explain.")
        top = check_count(top, "top")
        ranking = self.rank(texts, self.n_labels_)
        place, score = place_of(ranking, number)
        probability = None if self.calibrator_ is None else place_of(self.probabilities(ranking), number)[1]
        columns = dict(zip(FEATURES, self.features(texts, [[number]])[0, 0].tolist(), strict=True))
        forms = self.terms_.of_label(number)
        notes = label_notes(texts[0], forms, self._words, columns, self._scorer.rows, number, top)
        n_known = int((self._words.read(tuple(texts)).words >= 0).sum())
        return Explanation(
            model=type(self).__name__, label=number, name=self.vocabulary_[number], place=place, score=score,
            n_labels=self.n_labels_, n_features=self.n_features_, n_known=n_known, excerpt=excerpt(texts[0]),
            probability=probability, notes=notes,
        )  # fmt: skip

    def searched(self, x: str | list[str], tree: int = 0, beam: int | None = None) -> list[TreeCandidates]:
        """Nothing: there is no label tree.

        Raises
        ------
        UnsupportedError
        """
        raise UnsupportedError(f"{type(self).__name__} searches no label tree.")

    def probabilities(self, top: TopK) -> TopK:
        """The result of :meth:`rank` with probabilities instead of scores, as in :meth:`predict_proba`."""
        result = Estimator.probabilities(self, top)
        return NamedTopK(result.labels, result.scores, self.vocabulary_)

    def _probabilities(self, top: TopK) -> Any:
        return np.clip(top.scores, 0, 1)

    def rank_options(self) -> list[str]:
        return ["allowed", "denied"]

    def _untailed(self) -> dict[str, Any]:
        return {}

    @property
    def removed_labels_(self) -> npt.NDArray[np.int32]:
        """Ids of the labels that were removed, rising."""
        self._need_fit("removed_labels_")
        return self._removed

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        self.terms_ = self.terms_.without(ids)
        self._scorer = LabelScorer(self._scorer.rows.without(ids), self._scorer.trees)
        self._note_dropped(ids)


def _listed_labels(candidates: Any, n: int, n_labels: int) -> npt.NDArray[np.int32]:
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
