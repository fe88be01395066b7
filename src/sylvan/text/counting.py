"""From documents to a vocabulary and rows of counts, a chunk of documents at a time."""

from __future__ import annotations

import itertools
import mmap
import numbers
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels, store
from sylvan.arrays.canonical import runs_of
from sylvan.arrays.frames import texts_of
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.parallel import map_parallel
from sylvan.params.fields import Constraint
from sylvan.params.wording import counted, noun
from sylvan.text.characters import PADDING
from sylvan.text.word_forms import WordForms

Analyzer = Literal["word", "char", "char_wb"]
Cjk = Literal["word", "bigrams", "chars"]
AUTO = "auto"
_MAX_N = 1000


@dataclass(frozen=True)
class NgramRange(Constraint):
    """The shortest and the longest n-gram: a pair of ints, the first not above the second; or "auto"."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value == AUTO
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            return False
        if not all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in value):
            return False
        return 1 <= int(value[0]) <= int(value[1]) <= _MAX_N

    def describe(self) -> str:
        return f"a pair of ints (shortest, longest) with 1 <= shortest <= longest <= {_MAX_N}, or {AUTO!r}"

    def _parse(self, text: str) -> Any:
        if text.strip() == AUTO:
            return AUTO
        low, *high = map(int, text.strip("()[] ").replace("-", ",").split(","))
        if len(high) > 1:
            raise ValueError("not one or two ints")
        return (low, *high) if high else (low, low)


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


def need_phrases(owner: str, analyzer: str, ngrams: Any, **phrases: Any) -> None:
    """Refuse parameters for terms of several words where there are none, before any text is read."""
    named = [name for name, value in phrases.items() if value is not None]
    why = None
    if analyzer != "word":
        why = f"analyzer={analyzer!r} has none: it counts characters"
    elif ngrams != AUTO and ngrams[1] == 1:
        why = f"ngrams={tuple(ngrams)} has none: allow pairs with ngrams=(1, 2)"
    if named and why:
        raise ParameterError(
            f"The {named[0]!r} parameter of {owner} is for terms of several words, but {why}. Got "
            f"{phrases[named[0]]!r}."
        )


def need_one_form(owner: str, analyzer: str, **forms: str | None) -> None:
    """Refuse stems and lemmas that contradict each other or the analyser."""
    named = {name: value for name, value in forms.items() if value is not None}
    if len(named) > 1:
        raise ParameterError(
            f"A word of {owner} is counted as its stem or as its lemma: leave 'stem' or 'lemmatize' out. Got "
            f"{' and '.join(map(repr, named.values()))}."
        )
    if named and analyzer != "word":
        name, value = next(iter(named.items()))
        raise ParameterError(
            f"The {name!r} parameter of {owner} is for words, but analyzer={analyzer!r} counts characters. "
            f"Got {value!r}."
        )


_NONE, _FIRST = np.zeros(0, np.int64), np.zeros(1, np.int64)
_FAULTS = {
    1: ("term_offsets", "must rise from 0 to the end of the terms' bytes, each term at least one byte long"),
    2: ("term_bytes", "must hold the terms in rising order, each of them once"),
    3: ("slots", "must name every term once and nothing else"),
    4: ("slots", "must be a power of two many, and more than there are terms"),
}


@dataclass(frozen=True)
class Terms:
    """The terms of a vocabulary, sorted by code point; a term's place is its column. Terms that were added later stand
    behind the others, those of each time sorted."""

    # shape (bytes of all terms + PADDING,): UTF-8, one after the other; a lone surrogate is encoded as the three bytes
    # of its code point
    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]  # shape (n_terms + 1,): where each term begins and the last one ends
    # shape (a power of two,): hash table: the high half of a term's hash and its place plus one, or 0
    slots: npt.NDArray[np.uint64]
    # where each lot of added terms begins, rising
    runs: npt.NDArray[np.int64] = field(default_factory=lambda: _NONE)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def phrases(self) -> npt.NDArray[np.bool_]:
        """Which of the terms have several words, between which there is a space."""
        result = np.zeros(len(self), dtype=bool)
        result[np.searchsorted(self.offsets, np.flatnonzero(self.data[: self.offsets[-1]] == 32), "right") - 1] = True
        return result

    def decode(self) -> list[str]:
        """The terms as strings, in the order of their columns."""
        data = self.data.tobytes()
        try:
            return [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(self.offsets.tolist())]
        except UnicodeDecodeError as error:
            raise ModelError(f"A term of the vocabulary is not UTF-8 text: {error}.") from None

    def __getitem__(self, column: int) -> str:
        """The term of a column; bytes that are no UTF-8 are shown as replacement characters."""
        first, last = int(self.offsets[column]), int(self.offsets[column + 1])
        result = self.data[first:last].tobytes()
        try:
            return result.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return result.decode("utf-8", "replace")

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by the names that they are stored under."""
        runs = {"term_runs": self.runs} if len(self.runs) else {}
        return {"term_bytes": self.data, "term_offsets": self.offsets, "slots": self.slots.view(np.int64), **runs}

    def followed_by(self, further: Terms) -> Terms:
        """With sorted terms that aren't among these, behind these."""
        end, n_bytes = int(self.offsets[-1]), int(further.offsets[-1])
        data = np.concatenate((self.data[:end], further.data[:n_bytes], np.zeros(PADDING, np.uint8)))
        offsets = np.concatenate((self.offsets, further.offsets[1:] + end))
        runs = np.append(self.runs, len(self)).astype(np.int64)
        return Terms(data, offsets, kernels.tfidf_slots(data, offsets), runs)

    def some(self, places: npt.NDArray[np.integer[Any]]) -> Terms:
        """Those at some rising places, without the means to find them."""
        lengths = np.diff(self.offsets)[places]
        letters = self.data[runs_of(self.offsets[places], lengths)]
        data = np.concatenate((letters, np.zeros(PADDING, np.uint8)))
        return Terms(data, np.append(0, np.cumsum(lengths)), np.zeros(0, np.uint64))

    @classmethod
    def from_state(cls, state: store.State) -> Terms:
        """The terms of a loaded State, after verifying all that the kernels trust."""
        terms = cls(
            store.need_array(state, "term_bytes", np.uint8, (None,)),
            store.need_array(state, "term_offsets", np.int64, (None,)),
            store.need_array(state, "slots", np.int64, (None,)).view(np.uint64),
            store.need_array(state, "term_runs", np.int64, (None,)) if "term_runs" in state.arrays else _NONE,
        )
        fault = kernels.tfidf_check_terms(terms.data, terms.offsets, terms.slots, terms.runs)
        if fault:
            name, words = _FAULTS[fault]
            file = state.array_files.get(name, name)
            raise ModelError(f"{file!r} is damaged: array {name!r} of the {state.kind} {words}.")
        return terms


_Scalar = TypeVar("_Scalar", bound=np.generic)
MOST_CHARACTERS = 1 << 30  # of one document


def as_documents(texts: Iterable[str]) -> tuple[str, ...]:
    """The documents as a tuple of strings, which can't change while kernels read them."""
    if isinstance(texts, (str, bytes)):
        raise DataError(
            f"texts must be a list of strings, one a document, but is a single {type(texts).__name__}. "
            "Put it in a list."
        )
    texts = texts_of(texts)
    if sp.issparse(texts):
        raise DataError("texts must be a list of strings, one a document, but is a sparse matrix.")
    try:
        documents = tuple(texts)
    except TypeError:
        kind = type(texts).__name__
        raise DataError(f"texts must be a list of strings, one a document, but is of type {kind}.") from None
    bad = kernels.tfidf_first_non_text(documents)
    if bad >= 0:
        kind = type(documents[bad]).__name__
        hint = {"bytes": " Decode it first.", "NoneType": " Use '' for a text that is missing."}
        raise DataError(f"Document {bad} of texts must be a str, but is of type {kind}.{hint.get(kind, '')}")
    if documents:
        long = 0 if len(documents) == 1 else int(np.argmax(kernels.tfidf_text_lengths(documents)))
        if len(documents[long]) > MOST_CHARACTERS:
            raise DataError(
                f"Document {long} of texts has {counted(len(documents[long]), 'character')}; no more than "
                f"{MOST_CHARACTERS} are possible."
            )
    return documents


def apart(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """A copy in pages of its own, which go back to the system when it is let go; freed heap memory seldom does."""
    if not array.nbytes:
        return array
    pages = mmap.mmap(-1, array.nbytes)
    copy: npt.NDArray[_Scalar] = np.ndarray(array.shape, array.dtype, pages)
    copy[:] = array
    return copy


def stacked_rows(parts: list[tuple[Any, Any, Any]]) -> tuple[Any, Any, Any]:
    """One matrix of consecutive parts, which are let go one by one."""
    starts = np.cumsum([0, *(len(part[1]) for part in parts)])
    indices, data = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    indptr = np.concatenate([_FIRST, *(part[0][1:] + start for part, start in zip(parts, starts, strict=False))])
    for i, (start, stop) in enumerate(pairwise(starts)):
        indices[start:stop], data[start:stop] = parts[i][1], parts[i][2]
        parts[i] = (None, None, None)
    return indptr, indices, data


_LEAST_CHARACTERS = 1 << 16
_MOST_CHARACTERS = 1 << 21
_MOST_DOCUMENTS = 1 << 16


@dataclass(frozen=True)
class Scan:
    """How the kernels turn a document into n-grams."""

    table: npt.NDArray[np.uint32]
    settings: tuple[int, int, int, int, int]  # analyzer, cjk, shortest, longest, min_token_length
    word_forms: WordForms | None = None  # what words are counted as; None for themselves

    def forms(self, texts: tuple[str, ...], start: int, stop: int) -> kernels.TfidfForms | None:
        """What the words of some documents are counted as, each distinct word looked up once."""
        if self.word_forms is None:
            return None
        analyzer, cjk, _, _, least = self.settings
        words = kernels.TfidfTerms()
        words.add(texts, start, stop, self.table, (analyzer, cjk, 1, 1, least))
        return self.word_forms.table(*words.copy(np.arange(len(words), dtype=np.int32)))


@dataclass
class Rows:
    """Counts of one chunk of documents."""

    entries: npt.NDArray[np.uint64]  # number of a term or column in the high half, its count in the low half
    indptr: npt.NDArray[np.int64]  # shape (number of documents + 1,)
    table: int  # which vocabulary the numbers are of


def chunks(texts: tuple[str, ...]) -> list[tuple[int, int]]:
    """``texts`` cut into ranges of about equally many characters."""
    if len(texts) <= 1:
        return [(0, len(texts))] if texts else []
    ends = np.cumsum(kernels.tfidf_text_lengths(texts))
    size = min(max(int(ends[-1]) // 32, _LEAST_CHARACTERS), _MOST_CHARACTERS)
    ranges, start = [], 0
    while start < len(texts):
        done = int(ends[start - 1]) if start else 0
        stop = min(int(np.searchsorted(ends, done + size)) + 1, start + _MOST_DOCUMENTS, len(texts))
        ranges.append((start, stop))
        start = stop
    return ranges


class TermCounter:
    """Counts the terms of documents that come block by block. Every thread fills a vocabulary of its own; they are
    merged, and terms sorted, so that nothing in the result depends on which thread saw what, or where one block ends
    and the next begins."""

    def __init__(
        self, scan: Scan, keep_rows: bool, n_jobs: int, moved: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = apart
    ) -> None:
        self._scan, self._keep_rows, self._n_jobs, self._moved = scan, keep_rows, n_jobs, moved
        self._tables: list[kernels.TfidfTerms] = []
        self._rows: list[Rows] = []
        self.n_documents = 0

    def add(self, texts: tuple[str, ...], description: str | None = "Reading texts") -> None:
        """Count every chunk in whichever vocabulary no other thread is using."""
        ranges = chunks(texts)
        while len(self._tables) < max(1, min(self._n_jobs, len(ranges))):
            self._tables.append(kernels.TfidfTerms())
        free = deque(range(len(self._tables)))
        scan = self._scan

        def work(chunk: tuple[int, int]) -> Rows | None:
            forms = scan.forms(texts, *chunk)
            number = free.pop()
            entries, indptr = self._tables[number].add(texts, *chunk, scan.table, scan.settings, forms)
            free.append(number)
            return Rows(self._moved(entries), indptr, number) if self._keep_rows else None

        result = map_parallel(work, ranges, self._n_jobs, description=description)
        self._rows += [rows for rows in result if rows is not None]
        self.n_documents += len(texts)

    def finish(
        self, *, min_df: float, max_df: float, max_features: int | None, phrase_min_df: int = 1
    ) -> tuple[Terms, npt.NDArray[np.int64], list[Rows]]:
        """The vocabulary, its document frequencies, and each document's counts."""
        # Returns n_documents (n_terms,)
        tables, rows = self._tables, self._rows
        maps = _merge(tables)
        merged = tables[0]
        del tables[1:]
        frequencies = merged.document_frequencies()
        ids = _frequent(frequencies, self.n_documents, min_df, max_df)
        merged.sort(ids)
        if phrase_min_df > 1:
            ids = ids[(frequencies[ids] >= phrase_min_df) | ~_terms(merged, ids).phrases()]
            if not len(ids):
                raise DataError(
                    f"After pruning no terms remain: none of several words is in {counted(phrase_min_df, 'document')}. "
                    "Lower phrase_min_df or min_df."
                )
        if max_features is not None and len(ids) > max_features:
            totals = _totals(rows, maps, len(merged))[ids].astype(np.float64)
            ids = ids[np.sort((-totals).argsort()[:max_features])]  # ties are broken just as scikit-learn's are
        terms = _terms(merged, ids)
        terms = replace(terms, slots=kernels.tfidf_slots(terms.data, terms.offsets))
        column_of = np.full(len(merged), -1, dtype=np.int32)
        column_of[ids] = np.arange(len(ids), dtype=np.int32)
        columns = [column_of, *(column_of[of_table] for of_table in maps[1:])]

        def keep(chunk: Rows) -> None:
            kernels.tfidf_select_columns(chunk.entries, chunk.indptr, columns[chunk.table])

        map_parallel(keep, rows, self._n_jobs)
        return terms, frequencies[ids].astype(np.int64), rows


def _terms(table: kernels.TfidfTerms, ids: npt.NDArray[np.int32]) -> Terms:
    """Some terms of a table, without the means to find them."""
    return Terms(*table.copy(ids), np.zeros(0, np.uint64))


def _merge(tables: list[kernels.TfidfTerms]) -> list[npt.NDArray[np.int32]]:
    """Bring every vocabulary's terms into the first; where each term of each went (the first's stay)."""
    maps = [np.zeros(0, dtype=np.int32), *(tables[0].absorb(table) for table in tables[1:])]
    if any(table.overflowed for table in tables):
        raise DataError("The texts have more than 2147483647 different terms. Use fewer or shorter n-grams.")
    if not len(tables[0]):
        raise DataError(
            "The vocabulary is empty: no document has a single term. Lower min_token_length, or choose "
            "another analyzer or shorter ngrams."
        )
    return maps


def _frequent(
    frequencies: npt.NDArray[np.int32], n_documents: int, min_df: float, max_df: float
) -> npt.NDArray[np.int32]:
    """The terms in at least ``min_df`` and at most ``max_df`` documents (ints) or shares of them (floats)."""
    low = min_df if isinstance(min_df, numbers.Integral) else min_df * n_documents
    high = max_df if isinstance(max_df, numbers.Integral) else max_df * n_documents
    if high < low:
        raise DataError(
            f"max_df={max_df!r} allows {high:g} {noun(high, 'document')} at most, fewer than the {low:g} that "
            f"min_df={min_df!r} demands, of {counted(n_documents, 'document')}."
        )
    ids = np.flatnonzero((frequencies >= low) & (frequencies <= high)).astype(np.int32)
    if not len(ids):
        raise DataError(
            f"After pruning no terms remain: none of {counted(len(frequencies), 'term')} is in at least {low:g} and at "
            f"most {high:g} of {counted(n_documents, 'document')}. Lower min_df or raise max_df."
        )
    return ids


def _totals(rows: list[Rows], maps: list[npt.NDArray[np.int32]], n_terms: int) -> npt.NDArray[np.int64]:
    """How often each term of the merged vocabulary occurs in all documents."""
    totals = [np.zeros(n_terms, dtype=np.int64), *(np.zeros(len(of_table), dtype=np.int64) for of_table in maps[1:])]
    for chunk in rows:
        kernels.tfidf_add_totals(chunk.entries, totals[chunk.table])
    for of_table, total in zip(maps[1:], totals[1:], strict=True):
        totals[0][of_table] += total
    return totals[0]


FIRST_TEXTS = 1_000  # by which it is chosen
SHORT = 40  # words; the median of texts whose pairs are counted


class Phrases(NamedTuple):
    """Lengths of n-grams, the weight of those of several words, and how many texts they must occur in."""

    ngrams: tuple[int, int]
    weight: float = 1.0
    min_df: int = 1

    def parameters(self) -> dict[str, Any]:
        """The parameters of a vectoriser that say the same."""
        weight, min_df = None if self.weight == 1 else self.weight, None if self.min_df == 1 else self.min_df
        return {"ngrams": self.ngrams, "phrase_weight": weight, "phrase_min_df": min_df}


WORDS, PAIRS = Phrases((1, 1)), Phrases((1, 2), 0.5, 2)


def chosen_phrases(blocks: Iterable[tuple[str, ...]], scan: Scan) -> tuple[Phrases, Iterator[tuple[str, ...]]]:
    """What ``ngrams="auto"`` is for texts, by the first of them, and all of them again."""
    blocks, first = iter(blocks), list[tuple[str, ...]]()
    while sum(len(block) for block in first) < FIRST_TEXTS and (following := next(blocks, None)) is not None:
        first.append(following)
    texts = tuple(itertools.islice(itertools.chain.from_iterable(first), FIRST_TEXTS))
    counts = []  # how many words each has; as many as are counted
    for start, stop in chunks(texts):
        entries, indptr = kernels.TfidfTerms().add(texts, start, stop, scan.table, scan.settings)
        before = np.concatenate(([0], np.cumsum(entries[: indptr[-1]] & np.uint64(0xFFFFFFFF), dtype=np.int64)))
        counts.append(np.diff(before[indptr]))
    short = bool(texts) and float(np.median(np.concatenate(counts))) <= SHORT
    return PAIRS if short else WORDS, itertools.chain(first, blocks)
