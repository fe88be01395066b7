"""TF-IDF: documents as sparse vectors of weighted words or characters."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels, store
from sylvan.canonical import Csr
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError
from sylvan.parallel import map_parallel, resolve_jobs
from sylvan.params import Choice, Constraint, Parameterized, Range, Threads, parameterized
from sylvan.text.characters import character_table
from sylvan.text.counting import Rows, Scan, TermCounter, chunks
from sylvan.text.documents import MOST_CHARACTERS, apart, as_documents, stacked_rows
from sylvan.text.terms import Terms

__all__ = ["DocumentShare", "NgramRange", "TfidfVectorizer"]

KIND = "tfidf-vectorizer"
_ANALYZERS = ("word", "char", "char_wb")
_CJK = ("word", "bigrams", "chars")
_NORMS = (None, "l1", "l2")
_TRANSFORM_PARAMS = (
    "ngrams", "analyzer", "sublinear_tf", "norm", "lowercase", "min_token_length", "cjk", "n_jobs"
)  # fmt: skip
_NO_IDF = np.zeros(0, dtype=np.float32)
_MAX_N = 1000


@dataclass(frozen=True)
class NgramRange(Constraint):
    """The shortest and the longest n-gram: a pair of ints, the first not above the second."""

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            return False
        if not all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in value):
            return False
        return 1 <= int(value[0]) <= int(value[1]) <= _MAX_N

    def describe(self) -> str:
        return f"a pair of ints (shortest, longest) with 1 <= shortest <= longest <= {_MAX_N}"

    def _parse(self, text: str) -> Any:
        parts = text.strip("()[] ").replace("-", ",").split(",")
        low, high = int(parts[0]), int(parts[-1])
        if len(parts) > 2:
            raise ValueError("not one or two ints")
        return (low, high)


@dataclass(frozen=True)
class DocumentShare(Constraint):
    """A number of documents as an int, or a share of all documents as a float."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, bool):
            return False
        if isinstance(value, numbers.Integral):
            return int(value) >= 1
        return isinstance(value, numbers.Real) and 0.0 <= float(value) <= 1.0

    def describe(self) -> str:
        return "an int in [1, inf), a number of documents, or a float in [0.0, 1.0], a share of them"

    def _parse(self, text: str) -> Any:
        try:
            return int(text)
        except ValueError:
            return float(text)


@parameterized
class TfidfVectorizer(Parameterized):
    """Converts texts to a sparse matrix of TF-IDF weights, in native code and on several threads.

    With the same settings the matrix is the same as scikit-learn's: the same columns in the same order, and the same
    values to float32 precision (Salton and Buckley 1988 for the weights; the variants are those of PECOS, Section 5).
    Lower case, word characters and white space are those of this Python's ``str.lower`` and ``re``, in every language.
    The result has the same bits with any number of threads.

    Parameters
    ----------
    ngrams : (int, int), default (1, 1)
        Shortest and longest n-gram, of words or of characters.
    analyzer : {"word", "char", "char_wb"}, default "word"
        Count words (runs of ``\\w``), characters, or characters within words, each padded with a space on
        both sides.
    min_df, max_df : int or float, default 1 and 1.0
        Minimum and maximum number of documents with a term; a float is a fraction of the documents.
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
    cjk : {"bigrams", "chars", "word"}, default "bigrams"
        What a run of Han, kana or Bopomofo characters becomes when words are counted. These scripts put no spaces
        between words, so a whole run taken as one word (``"word"``, as scikit-learn does) hardly ever occurs twice.
        Overlapping pairs of characters match as well as the words of a segmenter, at no cost (Nie, Gao, Zhang and Zhou
        2000); a single character remains as it is. For texts in other scripts, including Korean, all three give the
        same.
    n_jobs : int, optional
        Threads; None or -1 for every core.

    Attributes
    ----------
    n_terms_ : int
        Number of columns.
    vocabulary_ : dict of str to int
        Each term's column; built again for each call.
    idf_ : ndarray of float32, shape (n_terms,)
        Each column's inverse document frequency.

    Examples
    --------
    >>> from sylvan.text import TfidfVectorizer
    >>> vectorizer = TfidfVectorizer(ngrams=(1, 2), n_jobs=1)
    >>> X = vectorizer.fit_transform(["Grüße aus Köln", "Grüße aus Turku"])
    >>> X.shape, vectorizer.get_feature_names_out().tolist()
    ((2, 7), ['aus', 'aus köln', 'aus turku', 'grüße', 'grüße aus', 'köln', 'turku'])
    """

    ngrams: Annotated[tuple[int, int], NgramRange()] = (1, 1)
    analyzer: Annotated[str, Choice(_ANALYZERS)] = "word"
    min_df: Annotated[float, DocumentShare()] = 1
    max_df: Annotated[float, DocumentShare()] = 1.0
    max_features: Annotated[int | None, Range(1)] = None
    sublinear_tf: bool = False
    smooth_idf: bool = True
    use_idf: bool = True
    norm: Annotated[str | None, Choice(("l1", "l2"))] = "l2"
    lowercase: bool = True
    min_token_length: Annotated[int, Range(1)] = 2
    cjk: Annotated[str, Choice(_CJK)] = "bigrams"
    n_jobs: Threads = None

    # ------------------------------------------------------------------------------------------ fitting

    def fit(self, texts: Iterable[str], y: object = None) -> TfidfVectorizer:
        """Learn the vocabulary and the inverse document frequencies.

        Parameters
        ----------
        texts : iterable of str
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

    def fit_transform(self, texts: Iterable[str], y: object = None) -> sp.csr_matrix:
        """Learn the vocabulary and return the matrix of the documents, as fit followed by transform.

        Parameters
        ----------
        texts : iterable of str
            One string per document.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        csr_matrix of float32, shape (n_documents, n_terms)
            Rows are sorted by column.

        Raises
        ------
        ParameterError, DataError
            As :meth:`fit`.
        """
        return self._weigh(self._learn(texts, keep_rows=True)).to_scipy()

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
        counter = TermCounter(
            self._scan(), keep_rows or self.max_features is not None, resolve_jobs(self.n_jobs), moved
        )
        for block in blocks:
            counter.add(as_documents(block))
        if not counter.n_documents:
            raise DataError("texts has no documents to learn a vocabulary from.")
        terms, n_with_term, rows = counter.finish(
            min_df=self.min_df, max_df=self.max_df, max_features=self.max_features
        )
        self._idf = self._idf_of(n_with_term, counter.n_documents) if self.use_idf else None
        self._terms = terms
        return rows

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

    def transform(self, texts: Iterable[str]) -> sp.csr_matrix:
        """The matrix of documents over the learned vocabulary; other terms are skipped.

        Parameters
        ----------
        texts : iterable of str
            One string per document.

        Returns
        -------
        csr_matrix of float32, shape (n_documents, n_terms)
            Rows are sorted by column; a document without a known term is an empty row.

        Raises
        ------
        NotFittedError
            Before :meth:`fit`.
        DataError
            When ``texts`` is one string, or holds anything but strings.
        """
        return self.transform_rows(texts).to_scipy()

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
        scan, (idf, use_idf, sublinear, norm) = self._scan(), self._weights()

        def work(chunk: tuple[int, int]) -> tuple[Any, Any, Any]:
            return kernels.tfidf_transform(
                documents, chunk[0], chunk[1], scan.table, scan.lowercase, scan.settings,
                terms.data, terms.offsets, terms.slots, idf, use_idf, sublinear, norm,
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
            resolve_jobs(self.n_jobs)
            self._checked = [list(value) if isinstance(value, list) else value for value in values]

    def _scan(self) -> Scan:
        shortest, longest = self.ngrams
        return Scan(
            character_table(self.lowercase),
            self.lowercase,
            (
                _ANALYZERS.index(self.analyzer),
                _CJK.index(self.cjk),
                int(shortest),
                int(longest),
                min(int(self.min_token_length), MOST_CHARACTERS),
            ),
        )

    def _weights(self) -> tuple[npt.NDArray[np.float32], bool, bool, int]:
        idf = self._idf
        return (_NO_IDF if idf is None else idf), idf is not None, self.sublinear_tf, _NORMS.index(self.norm)

    # ----------------------------------------------------------------------------------- what was fitted

    def _fitted_terms(self) -> Terms:
        terms: Terms | None = getattr(self, "_terms", None)
        if terms is None:
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet: call fit or fit_transform before transform."
            )
        return terms

    @property
    def n_terms_(self) -> int:
        """Number of terms, which is the number of columns."""
        return len(self._fitted_terms())

    @property
    def idf_(self) -> npt.NDArray[np.float32]:
        """Inverse document frequency of each column; all ones when ``use_idf`` was False."""
        terms = self._fitted_terms()
        return np.ones(len(terms), dtype=np.float32) if self._idf is None else self._idf

    def term(self, column: int) -> str:
        """The term of a column, without building the whole vocabulary."""
        terms = self._fitted_terms()
        if not 0 <= column < len(terms):
            raise ParameterError(f"The 'column' of a term must be an int in [0, {len(terms)}). Got {column!r} instead.")
        return terms[column]

    @property
    def vocabulary_(self) -> dict[str, int]:
        """Each term's column."""
        return {term: column for column, term in enumerate(self._fitted_terms().decode())}

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """The terms in the order of the columns, shape (n_terms,); the argument is for scikit-learn."""
        return np.array(self._fitted_terms().decode(), dtype=object)

    # --------------------------------------------------------------------------------------- saving

    def to_state(self) -> store.State:
        """The fitted vectoriser as plain values and arrays."""
        terms = self._fitted_terms()
        arrays = terms.arrays()
        if self._idf is not None:
            arrays["idf"] = self._idf
        params = {name: _plain(value) for name, value in self.get_params().items() if name != "n_jobs"}
        return store.State(KIND, 1, params, {"n_terms": len(terms)}, arrays)

    @classmethod
    def from_state(cls, state: store.State) -> TfidfVectorizer:
        """The vectoriser of a loaded State.

        Raises
        ------
        ModelError
            When anything that the kernels rely on is wrong.
        """
        store.need_kind(state, KIND)
        params = store.need_params(state, [name for name in cls.parameter_names() if name != "n_jobs"])
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
                f"{state.where or 'The model'!r} is damaged: it says that it has {n_terms} terms, but its "
                f"arrays hold {len(terms)}."
            )
        vectorizer._idf = None
        if "idf" in state.arrays:
            store.need_array(state, "idf", np.float32, (n_terms,))
            vectorizer._idf = store.need_finite(state, "idf")
        return vectorizer

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save to a folder, which :func:`sylvan.load` opens again.

        Raises
        ------
        NotFittedError
            Before :meth:`fit`.
        """
        store.save(folder, self.to_state())


def _plain(value: Any) -> Any:
    """A parameter as JSON holds it."""
    if isinstance(value, tuple):
        return [int(n) for n in value]
    return value.item() if isinstance(value, np.generic) else value


store.register(KIND, TfidfVectorizer.from_state)
