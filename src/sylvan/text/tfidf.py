"""TF-IDF: documents as sparse vectors of weighted words or characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from sylvan import kernels, store
from sylvan.arrays.canonical import Csr
from sylvan.errors import DataError, ModelError
from sylvan.parallel import map_parallel, resolve_jobs
from sylvan.params.fields import Choice, Range, Threads, parameterized
from sylvan.params.wording import counted
from sylvan.remote.fitted import Fitted
from sylvan.text.characters import FIRST_RULES, RULES
from sylvan.text.columns import Analyzer
from sylvan.text.constraints import DocumentShare, NgramRange
from sylvan.text.counting import Rows, TermCounter, chunks
from sylvan.text.documents import apart, as_documents, stacked_rows
from sylvan.text.reading import Cjk, TfidfReading
from sylvan.text.terms import Terms
from sylvan.text.word_forms import LEMMA_LANGUAGES, STEM_LANGUAGES

KIND = "tfidf-vectorizer"
_NORMS = (None, "l1", "l2")
_TRANSFORM_PARAMS = (
    "ngrams", "analyzer", "sublinear_tf", "norm", "lowercase", "min_token_length", "cjk", "stem", "lemmatize", "n_jobs"
)  # fmt: skip
_NO_IDF = np.zeros(0, dtype=np.float32)
# Written where they are set.
_OPTIONAL = ("phrase_weight", "phrase_min_df", "stem", "lemmatize")
# Layouts, of which releases before them can read none: with stems or lemmas; with the words of today's rules.
_WITH_FORMS, _WITH_RULES = 2, 3


@parameterized
class TfidfVectorizer(TfidfReading, Fitted):
    """Converts texts to a sparse matrix of TF-IDF weights, in native code and on several threads.

    With the same settings the matrix is the same as scikit-learn's: the same columns in the same order, and the same
    values to float32 precision (Salton and Buckley 1988 for the weights; the variants are those of PECOS, Section 5).
    Lower case, word characters and white space are those of this Python's ``str.lower`` and ``re``, in every language.
    Unlike there, texts are brought into Unicode's composed form (NFC), a combining mark continues the word that it
    stands in, as vowels of Hindi do, and characters that aren't seen, such as soft hyphens, are left out. The result
    has the same bits with any number of threads.

    Parameters
    ----------
    ngrams : (int, int) or "auto", default (1, 1)
        Shortest and longest n-gram, of words or of characters. ``"auto"``: words, and where texts are short also pairs
        of words, with ``phrase_weight=0.5`` and ``phrase_min_df=2``; short are texts of no more than 40 words (the
        median of the first 1,000). :class:`~sylvan.TextModel` and the command line have it by default.
    analyzer : {"word", "char", "char_wb"}, default "word"
        Count words (runs of ``\\w`` and combining marks), characters, or characters within words, each padded with a
        space on both sides.
    min_df, max_df : int or float, default 1 and 1.0
        Minimum and maximum number of documents with a term; a float is a fraction of the documents.
    phrase_weight : float, optional
        What terms of several words are multiplied with; 1 by default.
    phrase_min_df : int, optional
        Minimum number of documents with a term of several words, beside ``min_df``; 1 by default.
    max_features : int, optional
        Keep only this many terms, the most frequent.
    sublinear_tf : bool, default False
        Take 1 + log(count) instead of the count.
    smooth_idf : bool, default True
        Add one document that has every term, so that no idf is infinite.
    use_idf : bool, default True
        Multiply by the inverse document frequency, log(n / df) + 1.
    norm : {"l2", "l1", None}, default "l2"
        Scale each row to unit length in this norm.
    lowercase : bool, default True
        Lower-case texts first, as ``str.lower`` does.
    min_token_length : int, default 2
        Minimum length of a word in characters; 2 is scikit-learn's ``(?u)\\b\\w\\w+\\b``, 1 its ``(?u)\\b\\w+\\b``.
        With 2, words of one letter are left out, and "vitamin C" and "vitamin D" are the same text; take 1 where one
        letter tells texts apart.
    cjk : {"bigrams", "chars", "word"}, default "bigrams"
        What a run of Han, kana or Bopomofo characters becomes when words are counted, and one of Thai, Lao, Khmer,
        Myanmar or Tai. These scripts put no spaces between words, so a whole run taken as one word (``"word"``, as
        scikit-learn does) hardly ever occurs twice. Overlapping pairs of characters, each with its marks, match as well
        as the words of a segmenter, at no cost (Nie, Gao, Zhang and Zhou 2000, for Chinese); a single character remains
        as it is. For texts in other scripts, including Korean, all three give the same.
    stem : str, optional
        A language, as in ``"en"``, whose Snowball stemmer words go through before they are counted: "whales" and
        "whaling" are one term. Needs ``pip install "sylvan[languages]"``, for ranking as well.
    lemmatize : str, optional
        A language by whose dictionary, simplemma's, words are counted as their lemmas: "mice" as "mouse".
    n_jobs : int, optional
        Threads; None or -1 for every core.

    Attributes
    ----------
    n_terms_ : int
        Number of columns.
    ngrams_ : (int, int)
        Shortest and longest n-gram, those that ``"auto"`` took.
    vocabulary_ : dict of str to int
        Each term's column; built again for each call.
    idf_ : ndarray of float32, shape (n_terms,)
        Each column's inverse document frequency, times ``phrase_weight`` for terms of several words.

    Examples
    --------
    >>> from sylvan.text import TfidfVectorizer
    >>> vectorizer = TfidfVectorizer(ngrams=(1, 2), n_jobs=1)
    >>> X = vectorizer.fit_transform(["Grüße aus Köln", "Grüße aus Turku"])
    >>> X.shape, vectorizer.get_feature_names_out().tolist()
    ((2, 7), ['aus', 'aus köln', 'aus turku', 'grüße', 'grüße aus', 'köln', 'turku'])
    """

    ngrams: Annotated[tuple[int, int] | str, NgramRange()] = (1, 1)
    analyzer: Analyzer = "word"
    min_df: Annotated[float, DocumentShare()] = 1
    max_df: Annotated[float, DocumentShare()] = 1.0
    phrase_weight: Annotated[float | None, Range(0, open_low=True)] = None
    phrase_min_df: Annotated[int | None, Range(1)] = None
    max_features: Annotated[int | None, Range(1)] = None
    sublinear_tf: bool = False
    smooth_idf: bool = True
    use_idf: bool = True
    norm: Literal["l1", "l2"] | None = "l2"
    lowercase: bool = True
    min_token_length: Annotated[int, Range(1)] = 2
    cjk: Cjk = "bigrams"
    stem: Annotated[str | None, Choice(tuple(STEM_LANGUAGES))] = None
    lemmatize: Annotated[str | None, Choice(LEMMA_LANGUAGES)] = None
    n_jobs: Threads = None

    # ------------------------------------------------------------------------------------------ fitting

    def fit(self, texts: Iterable[str], y: object = None) -> TfidfVectorizer:
        """Learn the vocabulary and the inverse document frequencies.

        Parameters
        ----------
        texts : iterable of str, or data frame with one column of strings
            One string per document.
        y : ignored
            For scikit-learn's pipelines.

        Raises
        ------
        ParameterError
            When a parameter is out of its range.
        DataError
            When ``texts`` is one string, holds anything but strings, or leaves no term.
        """
        self._learn(texts, keep_rows=False)
        return self

    def fit_transform(self, texts: Iterable[str], y: object = None) -> Any:
        """Learn the vocabulary and return the matrix of the documents, as fit followed by transform.

        Parameters
        ----------
        texts : iterable of str, or data frame with one column of strings
            One string per document.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        csr_matrix of float32, shape (n_documents, n_terms)
            Rows are sorted by column. What :meth:`set_output` has chosen, if anything.

        Raises
        ------
        ParameterError, DataError
            As :meth:`fit`.
        """
        return self._as_set(self.fit_transform_rows(texts).to_scipy(), texts)

    def fit_transform_rows(self, texts: Iterable[str]) -> Csr:
        """As :meth:`fit_transform`, as :meth:`transform_rows` gives it: whatever :meth:`set_output` has chosen.

        Returns
        -------
        Csr
        """
        return self._weigh(self._learn(texts, keep_rows=True))

    def fit_transform_blocks(
        self, blocks: Iterable[Iterable[str]], *, scratch: store.ScratchFiles | None = None
    ) -> Csr:
        """As :meth:`fit_transform` of all texts together, with only one block in memory at a time.

        Parameters
        ----------
        blocks : iterable of iterables of str
            A few thousand documents each.
        scratch : ScratchFiles, optional
            Puts the counts and the matrix into files instead of memory.

        Returns
        -------
        Csr
            The same matrix, to the bit.

        Raises
        ------
        ParameterError, DataError
            As :meth:`fit`.

        Examples
        --------
        >>> from sylvan.text import TfidfVectorizer
        >>> TfidfVectorizer().fit_transform_blocks([["red tea", "tea"], ["green tea"]]).shape
        (3, 3)
        """
        rows = self._learn_blocks(blocks, True, apart if scratch is None else scratch.moved)
        return self._weigh(rows, np.empty if scratch is None else scratch.zeros)

    def _learn(self, texts: Iterable[str], keep_rows: bool) -> list[Rows]:
        return self._learn_blocks([as_documents(texts)], keep_rows)

    def _learn_blocks(
        self,
        blocks: Iterable[Iterable[str]],
        keep_rows: bool,
        moved: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = apart,
    ) -> list[Rows]:
        self.check_params()
        self._check_together()
        self._rules = RULES
        forms = self._own_forms()
        phrases, documents = self._phrases(map(as_documents, blocks))
        counter = TermCounter(
            self._scan(phrases.ngrams, forms), keep_rows or self.max_features is not None, resolve_jobs(self.n_jobs),
            moved,
        )  # fmt: skip
        for block in documents:
            counter.add(block)
        if not counter.n_documents:
            raise DataError("texts has no documents to learn a vocabulary from.")
        terms, n_with_term, rows = counter.finish(
            min_df=self.min_df, max_df=self.max_df, max_features=self.max_features, phrase_min_df=phrases.min_df
        )
        idf = self._idf_of(n_with_term, counter.n_documents) if self.use_idf else None
        if phrases.weight != 1:
            weights = np.where(terms.phrases(), np.float32(phrases.weight), np.float32(1))
            idf = weights if idf is None else idf * weights
        self._idf, self._terms, self._chosen = idf, terms, phrases
        self._forms_by = self._agreed = None if forms is None else forms.library
        return rows

    def with_terms_of(self, texts: Iterable[str], n_documents: int) -> TfidfVectorizer:
        """A copy with further columns, for terms of more texts that have none; the columns that there are stay.

        A term gets a column when it is in at least ``min_df`` of these texts (a share is one of these texts), as long
        as there are fewer than ``max_features``. Its document frequency is that among these texts, of all documents
        so far. The weights of the other columns stay what they were, so that rows weighed before agree with new ones.

        Parameters
        ----------
        texts : iterable of str
        n_documents : int
            Of which the vocabulary was learned until now.

        Examples
        --------
        >>> from sylvan.text import TfidfVectorizer
        >>> vectorizer = TfidfVectorizer().fit(["red tea", "tea"])
        >>> vectorizer.with_terms_of(["green tea", "green"], 2).get_feature_names_out().tolist()
        ['red', 'tea', 'green']
        """
        terms, documents = self._fitted_terms(), as_documents(texts)
        counter = TermCounter(self._scan(self.ngrams_, self.word_forms()), False, resolve_jobs(self.n_jobs), apart)
        counter.add(documents)
        phrases = self._chosen_phrases()
        made = type(self)(**self.get_params())
        made.__dict__.update(self.__dict__)
        try:
            found, n_with_term, _ = counter.finish(
                min_df=self.min_df, max_df=1.0, max_features=None, phrase_min_df=phrases.min_df
            )
        except DataError:  # nothing is in so many of them
            return made
        known = self.vocabulary_
        new = np.array([at for at, term in enumerate(found.decode()) if term not in known], np.int64)
        room = None if self.max_features is None else max(0, self.max_features - len(terms))
        new = np.sort(new[np.argsort(-n_with_term[new], kind="stable")][:room])
        if not len(new):
            return made
        further = found.some(new)
        weights = np.ones(len(new), np.float32)
        if self._idf is not None and self.use_idf:
            weights = self._idf_of(n_with_term[new], n_documents + counter.n_documents)
        if phrases.weight != 1:
            weights = weights * np.where(further.phrases(), np.float32(phrases.weight), np.float32(1))
        made._idf = None if self._idf is None else np.concatenate((self._idf, weights)).astype(np.float32)
        made._terms = terms.followed_by(further)
        return made

    def _idf_of(self, n_with_term: npt.NDArray[np.int64], n_documents: int) -> npt.NDArray[np.float32]:
        more = int(self.smooth_idf)
        idf = np.log((n_documents + more) / (n_with_term + more).astype(np.float64)) + 1.0
        return np.asarray(idf, dtype=np.float32)

    def _weigh(self, rows: list[Rows], allocate: Callable[[int, Any], npt.NDArray[Any]] = np.empty) -> Csr:
        """One matrix of all chunks; each chunk's counts are let go as soon as it is weighed."""
        starts = np.cumsum([0, *(int(chunk.indptr[-1]) for chunk in rows)])
        indices, data = allocate(int(starts[-1]), np.int32), allocate(int(starts[-1]), np.float32)
        weights = self._weights()
        n_terms = self.n_terms_

        def work(i: int) -> npt.NDArray[np.int64]:
            chunk, here = rows[i], slice(starts[i], starts[i + 1])
            entries = chunk.entries[: chunk.indptr[-1]]
            kernels.tfidf_weigh_rows(entries, chunk.indptr, *weights, n_terms, indices[here], data[here])
            chunk.entries = entries[:0].copy()
            return np.asarray(chunk.indptr[1:] + starts[i], dtype=np.int64)

        ends = map_parallel(work, range(len(rows)), resolve_jobs(self.n_jobs))
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), *ends])
        return Csr(indptr, indices, data, (len(indptr) - 1, n_terms))

    # ------------------------------------------------------------------------------------- transforming

    def transform(self, texts: Iterable[str]) -> Any:
        """The matrix of documents over the learned vocabulary; other terms are skipped.

        Parameters
        ----------
        texts : iterable of str, or data frame with one column of strings
            One string per document.

        Returns
        -------
        csr_matrix of float32, shape (n_documents, n_terms)
            Rows are sorted by column; a document without a known term is an empty row. What
            :meth:`set_output` has chosen, if anything.

        Raises
        ------
        NotFittedError
            Before :meth:`fit`.
        DataError
            When ``texts`` is one string, or holds anything but strings.
        """
        return self._as_set(self.transform_rows(texts).to_scipy(), texts)

    def transform_rows(self, texts: Iterable[str]) -> Csr:
        """As :meth:`transform`, without building a scipy matrix, which takes longer than a short text.

        Returns
        -------
        Csr
            The arrays of the matrix; models accept it like a matrix.
        """
        terms = self._fitted_terms()
        self._check_once()
        documents = as_documents(texts)
        scan, (idf, use_idf, sublinear, norm) = self._scan(self.ngrams_, self.word_forms()), self._weights()

        def work(chunk: tuple[int, int]) -> tuple[Any, Any, Any]:
            return kernels.tfidf_transform(
                documents, chunk[0], chunk[1], scan.table, scan.settings,
                terms.data, terms.offsets, terms.slots, idf, use_idf, sublinear, norm, scan.forms(documents, *chunk),
            )  # fmt: skip

        ranges = chunks(documents) or [(0, 0)]
        if len(ranges) == 1:
            indptr, indices, data = work(ranges[0])
        else:

            def part(chunk: tuple[int, int]) -> tuple[Any, Any, Any]:
                indptr, indices, data = work(chunk)
                return indptr, apart(indices), apart(data)

            n_jobs = resolve_jobs(self.n_jobs)
            indptr, indices, data = stacked_rows(map_parallel(part, ranges, n_jobs, description="Transforming texts"))
        return Csr(indptr, indices, data, (len(documents), len(terms)))

    def _check_once(self) -> None:
        """Check the parameters that matter here, unless nothing changed: one query is short."""
        values = [getattr(self, name) for name in _TRANSFORM_PARAMS]
        if values != getattr(self, "_checked", None):
            self.check_params(_TRANSFORM_PARAMS)
            self._check_forms()
            resolve_jobs(self.n_jobs)
            self._checked = [list(value) if isinstance(value, list) else value for value in values]

    def _weights(self) -> tuple[npt.NDArray[np.float32], bool, bool, int]:
        idf = self._idf
        return (_NO_IDF if idf is None else idf), idf is not None, self.sublinear_tf, _NORMS.index(self.norm)

    # ----------------------------------------------------------------------------------- what was fitted

    # --------------------------------------------------------------------------------------- saving

    def to_state(self) -> store.State:
        """The fitted vectoriser as plain values and arrays."""
        terms = self._fitted_terms()
        arrays = terms.arrays()
        if self._idf is not None:
            arrays["idf"] = self._idf
        values = self.get_params()
        if isinstance(self.ngrams, str):
            values |= self._chosen.parameters()
        params = {
            name: _plain(value) for name, value in values.items()
            if name != "n_jobs" and (value is not None or name not in _OPTIONAL)
        }  # fmt: skip
        layout = _WITH_FORMS if self.counts_forms else 1
        if self._rules != FIRST_RULES:
            layout = _WITH_RULES
        return store.State(KIND, layout, params, {"n_terms": len(terms), **self._forms_meta()}, arrays)

    @classmethod
    def from_state(cls, state: store.State) -> TfidfVectorizer:
        """The vectoriser of a loaded State."""
        store.need_kind(state, KIND, _WITH_RULES)
        names = [name for name in cls.parameter_names() if name != "n_jobs"]
        params = store.need_params(state, [name for name in names if name not in _OPTIONAL or name in state.params])
        if isinstance(params["ngrams"], list):
            params["ngrams"] = tuple(params["ngrams"])
        vectorizer = cls(**params)
        try:
            vectorizer.check_params()
        except ValueError as error:
            raise ModelError(f"{state.where or 'The model'!r} is damaged: {error}") from error
        vectorizer._terms = terms = Terms.from_state(state)
        n_terms = store.need_int(state, "n_terms", 1, 2**31 - 1)
        if len(terms) != n_terms:
            raise ModelError(
                f"{state.where or 'The model'!r} is damaged: it says that it has {counted(n_terms, 'term')}, but its "
                f"arrays hold {len(terms)}."
            )
        vectorizer._rules = RULES if state.version >= _WITH_RULES else FIRST_RULES
        vectorizer._take_forms_meta(state)
        vectorizer._idf = None
        if "idf" in state.arrays:
            store.need_array(state, "idf", np.float32, (n_terms,))
            vectorizer._idf = store.need_finite(state, "idf")
        return vectorizer

    def _is_fitted(self) -> bool:
        return "_terms" in self.__dict__


def _plain(value: Any) -> Any:
    """A parameter as JSON holds it."""
    if isinstance(value, tuple):
        return [int(n) for n in value]
    return value.item() if isinstance(value, np.generic) else value


store.register(KIND, TfidfVectorizer.from_state)
