"""TF-IDF: documents as sparse vectors of weighted words or characters."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels, store
from sylvan.arrays.canonical import Csr
from sylvan.arrays.frames import setting, sparse_as_set
from sylvan.errors import DataError, MemoryLimitError, ModelError, NotFittedError, OtherReleaseWarning, ParameterError
from sylvan.parallel import map_parallel, resolve_jobs
from sylvan.params.fields import Choice, Range, Threads, attribute, check_value, parameterized
from sylvan.params.wording import counted
from sylvan.remote.fitted import Fitted
from sylvan.text import counting
from sylvan.text.characters import FIRST_RULES, RULES, character_table
from sylvan.text.word_forms import LEMMA_LANGUAGES, STEM_LANGUAGES, WordForms, forms_of_language

Output = Literal["default", "pandas", "polars"]
_OUTPUTS: tuple[Output, ...] = get_args(Output)
_MOST_DENSE = 1 << 28  # values of a polars frame, which has no sparse columns: a gigabyte


def in_output(
    chosen: Output | None, matrix: sp.csr_matrix, names: Callable[[], npt.NDArray[np.object_]], texts: Any
) -> Any:
    """A matrix in the form that was chosen here or in scikit-learn, with the index of ``texts`` where they are
    pandas's; ``names()`` are those of its columns."""
    output = chosen or setting("transform_output")
    if output in (None, "default"):
        return sparse_as_set(matrix)
    columns = names()
    try:
        library: Any = importlib.import_module(output)
    except ImportError as error:
        raise ImportError(f"set_output(transform={output!r}) needs {output}: pip install {output}") from error
    if output == "pandas":
        index = getattr(texts, "index", None)
        index = None if callable(index) else index  # of lists and tuples, it is a method
        return library.DataFrame.sparse.from_spmatrix(matrix, index=index, columns=columns)
    if matrix.shape[0] * matrix.shape[1] > _MOST_DENSE:
        raise MemoryLimitError(
            f"A polars frame of {matrix.shape[0]} rows and {matrix.shape[1]} columns would be dense, of more than "
            f"{_MOST_DENSE} values. Choose set_output(transform='default') or 'pandas', or fewer max_features."
        )
    return library.DataFrame(matrix.toarray(), schema=columns.tolist(), orient="row")


KIND = "tfidf-vectorizer"
_ANALYZERS, _CJK = get_args(counting.Analyzer), get_args(counting.Cjk)  # looked up with every call
_NORMS = (None, "l1", "l2")
_TRANSFORM_PARAMS = (
    "ngrams", "analyzer", "sublinear_tf", "norm", "lowercase", "min_token_length", "cjk", "stem", "lemmatize", "n_jobs"
)  # fmt: skip
_transform_params = attrgetter(*_TRANSFORM_PARAMS)
_NO_IDF = np.zeros(0, dtype=np.float32)
# Written where they are set.
_OPTIONAL = ("phrase_weight", "phrase_min_df", "stem", "lemmatize")
_FORMS_BY = "forms_by"  # the library that gave the forms of words
# Layouts, of which releases before them can read none: with stems or lemmas; with the words of today's rules.
_WITH_FORMS, _WITH_RULES = 2, 3


@dataclass(frozen=True, eq=False)
class FittedTerms:
    """What fit learns."""

    terms: counting.Terms
    idf: npt.NDArray[np.float32] | None  # of each column, times the weight of phrases; None where all are 1
    phrases: counting.Phrases  # what is counted beside words; what was chosen where ``ngrams`` is "auto"
    rules: int  # what a word is, as of the release that fitted this
    library: str | None  # and its release, by which words' stems or lemmas were counted


@parameterized
class TfidfVectorizer(Fitted):
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

    ngrams: Annotated[tuple[int, int] | str, counting.NgramRange()] = (1, 1)
    analyzer: counting.Analyzer = "word"
    min_df: Annotated[float, counting.DocumentShare()] = 1
    max_df: Annotated[float, counting.DocumentShare()] = 1.0
    phrase_weight: Annotated[float | None, Range(0, open_low=True)] = None
    phrase_min_df: Annotated[int | None, Range(1)] = None
    max_features: Annotated[int | None, Range(1)] = None
    sublinear_tf: bool = False
    smooth_idf: bool = True
    use_idf: bool = True
    norm: Literal["l1", "l2"] | None = "l2"
    lowercase: bool = True
    min_token_length: Annotated[int, Range(1)] = 2
    cjk: counting.Cjk = "bigrams"
    stem: Annotated[str | None, Choice(tuple(STEM_LANGUAGES))] = None
    lemmatize: Annotated[str | None, Choice(LEMMA_LANGUAGES)] = None
    n_jobs: Threads = None

    fitted_: FittedTerms | None = attribute(None)
    _checked: tuple[Any, ...] | None = attribute(None)  # the parameters by which texts were last transformed
    _compared: tuple[str, str] | None = attribute(None)  # the libraries of words' forms in fit and here

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
        self._learn_blocks([texts], False)
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
        return self._as_set(self.fit_transform_rows(texts), texts)

    def fit_transform_rows(self, texts: Iterable[str]) -> Csr:
        """As :meth:`fit_transform`, as :meth:`transform_rows` gives it: whatever :meth:`set_output` has chosen.

        Returns
        -------
        Csr
        """
        return self._weigh(self._learn_blocks([texts], True))

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
            The same matrix, bit for bit.

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
        rows = self._learn_blocks(blocks, True, counting.apart if scratch is None else scratch.moved)
        return self._weigh(rows, np.empty if scratch is None else scratch.zeros)

    def _learn_blocks(
        self, blocks: Iterable[Iterable[str]], keep_rows: bool,
        moved: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = counting.apart,
    ) -> list[counting.Rows]:  # fmt: skip
        self.check_params()
        counting.need_phrases(
            type(self).__name__, self.analyzer, self.ngrams,
            phrase_weight=self.phrase_weight, phrase_min_df=self.phrase_min_df,
        )  # fmt: skip
        counting.need_one_form(type(self).__name__, self.analyzer, stem=self.stem, lemmatize=self.lemmatize)
        forms = self._own_forms()
        phrases, documents = self._phrases(map(counting.as_documents, blocks))
        counter = counting.TermCounter(
            self._scan(phrases.ngrams, forms, RULES), keep_rows or self.max_features is not None,
            resolve_jobs(self.n_jobs), moved,
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
        self.fitted_ = FittedTerms(terms, idf, phrases, RULES, None if forms is None else forms.library)
        return rows

    def _phrases(self, blocks: Iterable[tuple[str, ...]]) -> tuple[counting.Phrases, Iterable[tuple[str, ...]]]:
        """What is counted beside words, and the documents, by which ``"auto"`` is chosen."""
        chosen = counting.WORDS
        if not isinstance(self.ngrams, str):
            chosen = counting.Phrases((int(self.ngrams[0]), int(self.ngrams[1])))
        elif self.analyzer == "word":
            chosen, blocks = counting.chosen_phrases(blocks, self._scan((1, 1), None, RULES))
        if chosen.ngrams[1] == 1:  # there are no phrases, whatever is said of them
            return chosen, blocks
        if self.phrase_weight is not None:
            chosen = chosen._replace(weight=float(self.phrase_weight))
        if self.phrase_min_df is not None:
            chosen = chosen._replace(min_df=int(self.phrase_min_df))
        return chosen, blocks

    def resolved(self, texts: Iterable[str]) -> TfidfVectorizer:
        """One that isn't fitted, with what ``ngrams="auto"`` is for these texts in its place.

        Examples
        --------
        >>> from sylvan.text import TfidfVectorizer
        >>> TfidfVectorizer(ngrams="auto").resolved(["whales at sea", "bread and cakes"])
        TfidfVectorizer(ngrams=(1, 2), phrase_weight=0.5, phrase_min_df=2)
        """
        self.check_params()
        self._own_forms()  # what is read once and for all is in memory from now on
        params = self.get_params()
        if isinstance(self.ngrams, str):
            params |= self._phrases([counting.as_documents(texts)])[0].parameters()
        return type(self)(**params)

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
        fitted, documents = self._need_terms(), counting.as_documents(texts)
        scan = self._scan(self.ngrams_, self.word_forms(), fitted.rules)
        counter = counting.TermCounter(scan, False, resolve_jobs(self.n_jobs), counting.apart)
        counter.add(documents)
        result, phrases = copy.copy(self), fitted.phrases
        try:
            further_terms, n_with_term, _ = counter.finish(
                min_df=self.min_df, max_df=1.0, max_features=None, phrase_min_df=phrases.min_df
            )
        except DataError:  # nothing is in so many of them
            return result
        columns = self.vocabulary_
        new = np.array([place for place, term in enumerate(further_terms.decode()) if term not in columns], np.int64)
        free = None if self.max_features is None else max(0, self.max_features - len(fitted.terms))
        new = np.sort(new[np.argsort(-n_with_term[new], kind="stable")][:free])
        if not len(new):
            return result
        further = further_terms.some(new)
        weights = np.ones(len(new), np.float32)
        if fitted.idf is not None and self.use_idf:
            weights = self._idf_of(n_with_term[new], n_documents + counter.n_documents)
        if phrases.weight != 1:
            weights = weights * np.where(further.phrases(), np.float32(phrases.weight), np.float32(1))
        idf = None if fitted.idf is None else np.concatenate((fitted.idf, weights)).astype(np.float32)
        result.fitted_ = replace(fitted, terms=fitted.terms.followed_by(further), idf=idf)
        return result

    def _idf_of(self, n_with_term: npt.NDArray[np.int64], n_documents: int) -> npt.NDArray[np.float32]:
        smoothing = int(self.smooth_idf)
        idf = np.log((n_documents + smoothing) / (n_with_term + smoothing).astype(np.float64)) + 1.0
        return np.asarray(idf, dtype=np.float32)

    def _weigh(self, rows: list[counting.Rows], allocate: Callable[[int, Any], npt.NDArray[Any]] = np.empty) -> Csr:
        """One matrix of all chunks; each chunk's counts are let go as soon as it is weighed."""
        starts = np.cumsum([0, *(int(chunk.indptr[-1]) for chunk in rows)])
        indices, data = allocate(int(starts[-1]), np.int32), allocate(int(starts[-1]), np.float32)
        weights = self._weights(self._need_terms())
        n_terms = self.n_terms_

        def work(i: int) -> npt.NDArray[np.int64]:
            chunk, span = rows[i], slice(starts[i], starts[i + 1])
            entries = chunk.entries[: chunk.indptr[-1]]
            kernels.tfidf_weigh_rows(entries, chunk.indptr, *weights, n_terms, indices[span], data[span])
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
        return self._as_set(self.transform_rows(texts), texts)

    def transform_rows(self, texts: Iterable[str]) -> Csr:
        """As :meth:`transform`, without building a scipy matrix, which takes longer than a short text.

        Returns
        -------
        Csr
            The arrays of the matrix; models accept it like a matrix.
        """
        fitted = self._need_terms()
        self._check_once()
        documents, terms, forms = counting.as_documents(texts), fitted.terms, self.word_forms()
        scan = self._scan(fitted.phrases.ngrams if isinstance(self.ngrams, str) else self.ngrams, forms, fitted.rules)
        idf, use_idf, sublinear, norm = self._weights(fitted)

        def work(chunk: tuple[int, int]) -> tuple[Any, Any, Any]:
            return kernels.tfidf_transform(
                documents, chunk[0], chunk[1], scan.table, scan.settings,
                terms.data, terms.offsets, terms.slots, idf, use_idf, sublinear, norm, scan.forms(documents, *chunk),
            )  # fmt: skip

        ranges = counting.chunks(documents) or [(0, 0)]
        if len(ranges) == 1:
            indptr, indices, data = work(ranges[0])
        else:

            def part(chunk: tuple[int, int]) -> tuple[Any, Any, Any]:
                indptr, indices, data = work(chunk)
                return indptr, counting.apart(indices), counting.apart(data)

            parts = map_parallel(part, ranges, resolve_jobs(self.n_jobs), description="Transforming texts")
            indptr, indices, data = counting.stacked_rows(parts)
        return Csr(indptr, indices, data, (len(documents), len(terms)))

    def _check_once(self) -> None:
        """Check the parameters that matter here, unless nothing changed: one query is short."""
        values = _transform_params(self)
        if values != self._checked:
            self.check_params(_TRANSFORM_PARAMS)
            counting.need_one_form(type(self).__name__, self.analyzer, stem=self.stem, lemmatize=self.lemmatize)
            resolve_jobs(self.n_jobs)
            self._checked = copy.deepcopy(values)  # of a list, which may change

    def _scan(self, ngrams: tuple[int, int], forms: WordForms | None, rules: int) -> counting.Scan:
        (shortest, longest), least = ngrams, min(int(self.min_token_length), counting.MOST_CHARACTERS)
        lowercase = self.lowercase and not (forms is not None and forms.by_case)  # whose forms are in lower case
        return counting.Scan(
            character_table(lowercase, rules, keeps_unseen=forms is not None),  # which dictionaries know
            (_ANALYZERS.index(self.analyzer), _CJK.index(self.cjk), int(shortest), int(longest), least),
            forms,
        )

    def _weights(self, fitted: FittedTerms) -> tuple[npt.NDArray[np.float32], bool, bool, int]:
        idf = fitted.idf
        return (_NO_IDF if idf is None else idf), idf is not None, self.sublinear_tf, _NORMS.index(self.norm)

    # ---------------------------------------------------------------------------------- words' forms

    @property
    def library_(self) -> str | None:
        """The library, and its release, that said in fit what words are counted as; None where none was asked."""
        return None if self.fitted_ is None else self.fitted_.library

    def word_forms(self) -> WordForms | None:
        """What words are counted as: their stems or lemmas, or None for themselves.

        Raises
        ------
        ImportError
            When the library that knows them isn't installed, or doesn't know the language.
        """
        forms = self._own_forms()
        library = self.library_
        if forms is not None and library is not None and self._compared != (library, forms.library):
            self._compared = library, forms.library
            if not forms.agrees(library):
                warnings.warn(
                    f"This model's words were counted by {library}, and here they are by {forms.library}: some "
                    "may be other terms, and answers worse. Install the former, or train the model again.",
                    OtherReleaseWarning,
                    stacklevel=2,
                )
        return forms

    def _own_forms(self) -> WordForms | None:
        return forms_of_language(self.stem, self.lemmatize, self.lowercase)

    # ------------------------------------------------------------------------------------- columns

    def _need_terms(self) -> FittedTerms:
        if self.fitted_ is None:
            name = type(self).__name__
            raise NotFittedError(f"This {name} is not fitted yet: call fit or fit_transform before transform.")
        return self.fitted_

    @property
    def ngrams_(self) -> tuple[int, int]:
        """Shortest and longest n-gram; those that were chosen where ``ngrams`` is "auto"."""
        chosen = self._need_terms().phrases.ngrams
        return chosen if isinstance(self.ngrams, str) else self.ngrams

    def choice(self) -> str:
        """What ``ngrams="auto"`` took, in a sentence."""
        phrases = self._need_terms().phrases
        if phrases.ngrams == (1, 1):
            return "The texts are long: words are counted (--ngrams 1,1)."
        return (
            "The texts are short: words and, at half their weight, pairs of words are counted "
            f"({', '.join(f'{name}={value}' for name, value in phrases.parameters().items())})."
        )

    @property
    def n_terms_(self) -> int:
        """Number of terms, which is the number of columns."""
        return len(self._need_terms().terms)

    @property
    def idf_(self) -> npt.NDArray[np.float32]:
        """Inverse document frequency of each column; all ones when ``use_idf`` was False."""
        fitted = self._need_terms()
        return np.ones(len(fitted.terms), dtype=np.float32) if fitted.idf is None else fitted.idf

    def phrases(self) -> npt.NDArray[np.bool_]:
        """Which columns are terms of several words, shape (n_terms,)."""
        terms = self._need_terms().terms
        return terms.phrases() if self.analyzer == "word" else np.zeros(len(terms), dtype=bool)

    def term(self, column: int) -> str:
        """The term of a column, without building the whole vocabulary."""
        terms = self._need_terms().terms
        if not 0 <= column < len(terms):
            raise ParameterError(f"The 'column' of a term must be an int in [0, {len(terms)}). Got {column!r} instead.")
        return terms[column]

    @property
    def vocabulary_(self) -> dict[str, int]:
        """Each term's column."""
        return {term: column for column, term in enumerate(self._need_terms().terms.decode())}

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """The terms in the order of the columns, shape (n_terms,); the argument is for scikit-learn."""
        return np.array(self._need_terms().terms.decode(), dtype=object)

    def set_output(self, *, transform: Output | None = None) -> TfidfVectorizer:
        """Choose what ``transform`` and ``fit_transform`` return, as scikit-learn's transformers do.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            A sparse matrix; a ``pandas.DataFrame`` with sparse columns that are called by their terms; or a
            ``polars.DataFrame``, whose columns are dense. None changes nothing. As long as nothing is chosen,
            ``sklearn.set_config(transform_output=...)`` counts, where it was called.

        Returns
        -------
        the vectoriser

        Raises
        ------
        ParameterError
            For anything else.

        Examples
        --------
        >>> from sylvan import TfidfVectorizer
        >>> TfidfVectorizer().set_output(transform="pandas").fit_transform(["red tea", "tea"]).columns.tolist()
        ['red', 'tea']
        """
        check_value("transform", transform, Choice(_OUTPUTS, optional=True), "set_output")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # what scikit-learn's clone takes along
        return self

    def _as_set(self, rows: Csr, texts: Any) -> Any:
        """A matrix in the form that was chosen."""
        chosen = self.__dict__.get("_sklearn_output_config", {}).get("transform")
        return in_output(chosen, rows.to_scipy(), self.get_feature_names_out, texts)

    # --------------------------------------------------------------------------------------- saving

    def to_state(self) -> store.State:
        """The fitted vectoriser as plain values and arrays."""
        fitted = self._need_terms()
        arrays, meta = fitted.terms.arrays(), dict[str, store.JSON](n_terms=len(fitted.terms))
        if fitted.idf is not None:
            arrays["idf"] = fitted.idf
        values = self.get_params()
        if isinstance(self.ngrams, str):
            values |= fitted.phrases.parameters()
        params = {
            name: _plain(value) for name, value in values.items()
            if name != "n_jobs" and (value is not None or name not in _OPTIONAL)
        }  # fmt: skip
        layout, counts_forms = 1, self.stem is not None or self.lemmatize is not None
        if counts_forms:
            forms = None if fitted.library is not None else self._own_forms()
            layout, meta[_FORMS_BY] = _WITH_FORMS, fitted.library if forms is None else forms.library
        if fitted.rules != FIRST_RULES:
            layout = _WITH_RULES
        return store.State(KIND, layout, params, meta, arrays)

    @classmethod
    def from_state(cls, state: store.State) -> TfidfVectorizer:
        """The vectoriser of a loaded State."""
        store.need_kind(state, KIND, _WITH_RULES)
        names = [name for name in cls.parameter_names() if name != "n_jobs"]
        params = store.need_params(state, [name for name in names if name not in _OPTIONAL or name in state.params])
        if isinstance(params["ngrams"], list):
            params["ngrams"] = tuple(params["ngrams"])
        vectorizer = cls(**params)
        damaged = f"{state.where or 'The model'!r} is damaged"
        try:
            vectorizer.check_params()
        except ValueError as error:
            raise ModelError(f"{damaged}: {error}") from error
        terms = counting.Terms.from_state(state)
        n_terms = store.need_int(state, "n_terms", 1, 2**31 - 1)
        if len(terms) != n_terms:
            raise ModelError(
                f"{damaged}: it says that it has {counted(n_terms, 'term')}, but its arrays hold {len(terms)}."
            )
        library = None
        if vectorizer.stem is not None or vectorizer.lemmatize is not None:
            library = state.meta.get(_FORMS_BY)
            if not isinstance(library, str) or not library:
                raise ModelError(f"{damaged}: it doesn't say which library gave the forms of its words.")
        idf = None
        if "idf" in state.arrays:
            store.need_array(state, "idf", np.float32, (n_terms,))
            idf = store.need_finite(state, "idf")
        phrases, _ = vectorizer._phrases(())  # "auto" is never saved
        rules = RULES if state.version >= _WITH_RULES else FIRST_RULES
        vectorizer.fitted_ = FittedTerms(terms, idf, phrases, rules, library)
        return vectorizer

    def _is_fitted(self) -> bool:
        return self.fitted_ is not None


def _plain(value: Any) -> Any:
    """A parameter as JSON holds it."""
    if isinstance(value, tuple):
        return [int(n) for n in value]
    return value.item() if isinstance(value, np.generic) else value


store.register(KIND, TfidfVectorizer.from_state)
