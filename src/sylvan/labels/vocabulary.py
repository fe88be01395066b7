"""Names of labels and their ids."""

from __future__ import annotations

import difflib
import itertools
import numbers
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays.topk import LabelNames, Library, TopK
from sylvan.errors import DataError, ModelError, ParameterError, warn_data
from sylvan.params.wording import counted
from sylvan.store import State, need_array, need_kind, need_offsets, register

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+|urn:\S+")
# A scheme and a colon, but no two colons: <std::vector> is a word.
_BRACKETED = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]*:(?!:)[^<>\s]+>")
_EASILY_COMPARED = 20_000  # names; comparing a million takes seconds


def bare_uri(text: str) -> str:
    """A URI without the angle brackets around it."""
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def bare_label(text: str) -> str:
    """A label without the angle brackets around it, if it is a URI: the two are one label."""
    return bare_uri(text) if text.startswith("<") and _BRACKETED.fullmatch(text) else text


REMOVED = "(removed "  # how the stand-in for the name of a removed label begins


def looks_like_uri(text: str) -> bool:
    """Whether a label is a URI: a scheme and ``://``, or a URN."""
    return bool(_URI.fullmatch(text))


def composed(text: str) -> str:
    """``text`` in NFC: a letter and its combining accent become the one character that Unicode has for both."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def label_name(text: str) -> str:
    """A label's name in its one form: composed (NFC), without surrounding blanks; ``""`` is no label. A URI is without
    the angle brackets around it."""
    return bare_label(composed(text).strip())


def similar_names(name: str, names: Sequence[str], n: int = 3) -> list[str]:
    """Up to ``n`` of the names that are spelled like the one that isn't there."""
    wanted = label_name(name).casefold()
    by_folded = {candidate.casefold(): candidate for candidate in names}
    if wanted in by_folded:
        return [by_folded[wanted]]
    folded = list(by_folded)
    if len(folded) > _EASILY_COMPARED:
        folded = [candidate for candidate in folded if candidate[:1] == wanted[:1]][:_EASILY_COMPARED]
    return [by_folded[candidate] for candidate in difflib.get_close_matches(wanted, folded, n=n)]


_KIND = "vocabulary"


class Vocabulary(Sequence[str]):
    """An immutable list of distinct names; a name's place is its id.

    Names are composed (NFC) and lose surrounding blanks, here and wherever one is looked up. Stored as one array of
    UTF-8 bytes and one of offsets, so that a memory-mapped one of any size opens at once; the table from names to ids
    is built when it is first asked.

    Parameters
    ----------
    names : iterable of str
        The name of id 0, of id 1, and so on.

    Raises
    ------
    DataError
        When a name is no string, is blank or repeated, or can't be written as UTF-8.

    Examples
    --------
    >>> from sylvan.data import Vocabulary
    >>> names = Vocabulary.from_labels([["whaling", "sea"], ["sea"]])
    >>> list(names), names.id("whaling"), names[0]
    (['sea', 'whaling'], 1, 'sea')
    >>> names.encode([["whaling"], []]).toarray().tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """

    _kind = "strings"  # what the names were given as
    _bytes: npt.NDArray[np.uint8]
    _offsets: npt.NDArray[np.int64]
    _ids: dict[str, int] | None
    _source: str

    def __init__(self, names: Iterable[str]) -> None:
        listed = list(names)
        for i, name in enumerate(listed):
            if not isinstance(name, str):
                raise DataError(f"A label's name must be a string. Got {name!r} for id {i} instead.")
            listed[i] = label_name(name)
            if not listed[i]:
                raise DataError(f"A label's name must not be blank. Got {name!r} for id {i} instead.")
        self._take(listed)

    @classmethod
    def verbatim(cls, names: Iterable[str]) -> Vocabulary:
        """Of distinct strings as they are, which name something else than labels, or are names already."""
        vocabulary = cls.__new__(cls)
        vocabulary._take(list(names))
        return vocabulary

    def _take(self, listed: list[str]) -> None:
        ids = {name: i for i, name in enumerate(listed)}
        if len(ids) < len(listed):
            i = next(i for i, name in enumerate(listed) if ids[name] != i)
            raise DataError(f"The name {listed[i]!r} stands for two ids, {i} and {ids[listed[i]]}.")
        try:
            encoded = [name.encode("utf-8") for name in listed]
        except UnicodeEncodeError as error:
            raise DataError(
                f"The name {error.object!r} holds half a character, which UTF-8 has no form for."
            ) from error
        self._bytes = np.frombuffer(b"".join(encoded), np.uint8)
        self._offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        self._ids = ids
        self._source = ""

    @classmethod
    def from_labels(cls, labels: Iterable[Iterable[str | int]]) -> Vocabulary:
        """The distinct labels of all rows, in alphabetical order of their names (ints: in rising order).

        Parameters
        ----------
        labels : iterable of iterable of str, or of int
            Ints get their decimal digits as names. A blank string is no label.

        Raises
        ------
        DataError
            When a row is a string, a label is neither string nor int, or both kinds occur.
        """
        distinct: set[str | int] = set()
        for row in labels:
            if isinstance(row, str):
                raise DataError(f"Each row must be a list of labels, such as [{row!r:.60}]. Got the string instead.")
            distinct.update(row)
        kinds = {type(label) for label in distinct}
        if all(issubclass(kind, str) for kind in kinds):  # NumPy's strings too
            return cls(sorted({label_name(str(label)) for label in distinct} - {""}))
        if all(isinstance(label, (int, np.integer)) and not isinstance(label, bool) for label in distinct):
            return Numbers.of(sorted({int(label) for label in distinct}))
        words = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DataError(f"Labels must be all strings or all ints. Got {words} instead.")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """The name of an id, or the names of a range of ids."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        label = int(index)
        if not -len(self) <= label < len(self):
            raise IndexError(f"Label ids must be in [0, {len(self) - 1}]. Got {label} instead.")
        label %= len(self)
        return self._decode(self._bytes[self._offsets[label] : self._offsets[label + 1]].tobytes(), label)

    def _decode(self, text: bytes, label: int) -> str:
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelError(f"{self._source or 'The vocabulary'}: the name of label {label} is not UTF-8.") from error

    def __iter__(self) -> Iterator[str]:
        content, offsets = self._bytes.tobytes(), self._offsets.tolist()
        for i in range(len(self)):
            yield self._decode(content[offsets[i] : offsets[i + 1]], i)

    def _table(self) -> dict[str, int]:
        if self._ids is None:
            table = {name: i for i, name in enumerate(self)}
            if len(table) < len(self):
                raise ModelError(f"{self._source or 'The vocabulary'}: a name stands for two labels.")
            for name, i in list(table.items()):  # of a model saved before names had one form
                if (formed := label_name(name)) is not name and formed != name:
                    table.setdefault(formed, i)
            self._ids = table
        return self._ids

    def __contains__(self, name: object) -> bool:
        return isinstance(name, (str, int)) and self.get(name) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return np.array_equal(self._offsets, other._offsets) and np.array_equal(self._bytes, other._bytes)

    def __hash__(self) -> int:
        return hash((len(self), self._bytes[:256].tobytes()))

    def __repr__(self) -> str:
        names = ", ".join(repr(name) for name in self[:3])
        return f"Vocabulary({counted(len(self), 'name')}: {names}{', …' if len(self) > 3 else ''})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ids": None, "_bytes": np.array(self._bytes), "_offsets": np.array(self._offsets)}

    def id(self, name: str | int) -> int:
        """The id of ``name``.

        Raises
        ------
        DataError
            When there is no such name.
        """
        result = self.get(name)
        if result is None:
            raise DataError(f"There is no label {name!r} among the {len(self)} of this vocabulary.")
        return result

    def get(self, name: str | int) -> int | None:
        """The id of ``name``, or None."""
        label = self._table().get(str(name))
        return label if label is not None or not isinstance(name, str) else self._table().get(label_name(name))

    def ids(self, names: Iterable[str | int]) -> npt.NDArray[np.int64]:
        """The id of each of some names, -1 for one that isn't here."""
        return np.array([-1 if (label := self.get(name)) is None else label for name in names], np.int64)

    def value(self, label: int) -> str | int:
        """What a label is called, of the type that ``fit`` was given: a string, or an int of :class:`Numbers`."""
        return self[label]

    def extended(self, names: Iterable[str]) -> Vocabulary:
        """These names with others behind them that are new."""
        new = list(names)
        return type(self).verbatim([*self, *new]) if new else self

    def encode(
        self, labels: Iterable[Iterable[str | int]], weights: Iterable[Iterable[float]] | None = None, *,
        unknown: Literal["error", "ignore"] = "error",
    ) -> sp.csr_matrix:  # fmt: skip
        """Rows of names as a label matrix.

        Parameters
        ----------
        labels : iterable of iterable of str, or of int
            A repeated name counts once, or with ``weights`` its weights are summed. A blank one is no label, which a
            :class:`~sylvan.errors.DataWarning` counts.
        weights : iterable of iterable of float, optional
            Relevance of each, at least 0; labels of weight 0 are dropped.
        unknown : {"error", "ignore"}
            Refuse names that are not in the vocabulary, or skip them.

        Returns
        -------
        csr_matrix of float32, shape (n, len(self))

        Raises
        ------
        DataError
            For an unknown name, a weight that is negative or not finite, or rows of different lengths.
        """
        if unknown not in ("error", "ignore"):
            raise ParameterError(f"The 'unknown' parameter must be 'error' or 'ignore'. Got {unknown!r} instead.")
        rows = [list(row) for row in labels]
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        row_of, flat, table = np.repeat(np.arange(len(rows)), counts), list(itertools.chain(*rows)), self._table()
        looked_up = (table.get(name if type(name) is str else str(name), -1) for name in flat)
        ids, blank = np.fromiter(looked_up, np.int64, len(flat)), np.zeros(len(flat), bool)
        for place in np.flatnonzero(ids < 0).tolist():  # perhaps a name in another form
            if isinstance(flat[place], str):
                name = label_name(str(flat[place]))
                ids[place], blank[place] = table.get(name, -1), not name
        warn_of_blanks(int(np.count_nonzero(blank)))
        if unknown == "error" and (absent := (ids < 0) & ~blank).any():
            place = int(np.argmax(absent))
            raise DataError(
                f"Row {row_of[place]}: there is no label {flat[place]!r} among the {len(self)} of this vocabulary."
            )
        values = np.ones(len(ids), np.float32)
        if weights is not None:
            listed = [list(row) for row in weights]
            if [len(row) for row in listed] != counts.tolist():
                raise DataError("labels and weights must have as many rows, and as many items in each.")
            values = np.array(list(itertools.chain(*listed)), np.float32)
            if (len(values) and not (values >= 0).all()) or not np.isfinite(values).all():
                raise DataError("A label's weight must be a finite number of at least 0.")
        valid = ids >= 0
        entries = values[valid], (row_of[valid], ids[valid])
        csr = sp.csr_matrix(entries, shape=(len(rows), len(self)), dtype=np.float32)
        csr.sum_duplicates()
        if weights is None:
            csr.data[:] = 1
        csr.eliminate_zeros()
        return csr

    def decode(self, matrix: sp.csr_matrix) -> list[list[str]]:
        """The names of each row's entries, in the order of their ids.

        Raises
        ------
        DataError
            When the matrix has another number of columns than there are names.
        """
        csr = sp.csr_matrix(matrix)
        if csr.shape[1] != len(self):
            raise DataError(
                f"The matrix must have {counted(len(self), 'column')}, one a name. Got shape {csr.shape} instead."
            )
        csr.sort_indices()
        names = [self[label] for label in csr.indices.tolist()]
        return [names[first:last] for first, last in itertools.pairwise(csr.indptr.tolist())]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the names into ``folder``, whole or not at all; :func:`sylvan.load` reads them back."""
        store.save(folder, self.to_state())

    def to_state(self) -> State:
        """What :func:`sylvan.store.save` writes."""
        arrays: dict[str, npt.NDArray[Any]] = {"names": np.asarray(self._bytes), "offsets": np.asarray(self._offsets)}
        return State(kind=_KIND, version=1, arrays=arrays, meta={"numbers": True} if isinstance(self, Numbers) else {})

    @classmethod
    def from_state(cls, state: State) -> Vocabulary:
        """The vocabulary of a State; its arrays are used as they are, memory-mapped ones too."""
        need_kind(state, _KIND)
        text = need_array(state, "names", np.uint8, (None,))
        kind = Numbers if state.meta.get("numbers") is True else cls
        vocabulary = kind.__new__(kind)
        vocabulary._bytes = text
        vocabulary._offsets = need_offsets(state, "offsets", total=len(text))
        vocabulary._ids = None
        vocabulary._source = state.array_files.get("names", "")
        return vocabulary


class Numbers(Vocabulary):
    """The names of labels that are numbers, in digits: an int is a name too, never a label's place."""

    _kind = "ints"

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Numbers:
        """The names of different ints, in their order."""
        vocabulary = cls.__new__(cls)
        vocabulary._take(list(map(str, numbers)))
        return vocabulary

    def value(self, label: int) -> str | int:
        name = self[label]
        return int(name) if name.removeprefix("-").isdecimal() else name  # one that was renamed, or removed


def warn_of_blanks(n_blank: int) -> None:
    """Say how many labels were blank, and so are none."""
    if n_blank:
        were = "label is blank and was" if n_blank == 1 else "labels are blank and were"
        warn_data(f"{n_blank:,} {were} left out: a blank string is no label.", 3)


register(_KIND, Vocabulary.from_state)


@dataclass(frozen=True)
class NamedTopK(TopK):
    """A :class:`~sylvan.TopK` whose labels have names."""

    vocabulary: Vocabulary

    @cached_property
    def names(self) -> LabelNames:
        return LabelNames(self.labels, self.vocabulary.value)

    def to_frame(self, library: Library = "pandas", *, rows: Any = None, names: Any = None) -> Any:
        """As :meth:`sylvan.TopK.to_frame`; labels are called by their names."""
        return super().to_frame(library, rows=rows, names=self.vocabulary if names is None else names)


def ids_of_names(labels: Any, vocabulary: Vocabulary, name: str) -> Any:
    """``labels`` with every string replaced by its id in ``vocabulary``; ids and masks are left as they are. Where the
    labels are :class:`Numbers`, an int is a name too."""
    if labels is None or isinstance(labels, str | bytes) or sp.issparse(labels) or not isinstance(labels, Iterable):
        return labels
    kinds = "OUSiu" if isinstance(vocabulary, Numbers) else "OUS"
    if hasattr(labels, "dtype") and getattr(labels.dtype, "kind", "O") not in kinds:
        return labels

    def refusal(item: str) -> str:
        return f"{name} holds {item!r}, but none of the model's {counted(len(vocabulary), 'label')} has that name."

    listed = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    return [
        [_id(item, vocabulary, refusal) for item in row] if isinstance(row, list | tuple | set | np.ndarray)
        else _id(row, vocabulary, refusal)
        for row in listed
    ]  # fmt: skip


def find_label(label: Any, n_labels: int, names: Any = None) -> int:
    """The id of a label that is given by name or id."""
    if names is not None and not callable(names):
        vocabulary = names if isinstance(names, Vocabulary) else Vocabulary.verbatim(map(str, names))
        label = _id(label, vocabulary, lambda name: f"There is no label {name!r} among the {n_labels} of this model.")
    elif isinstance(label, str):
        raise DataError(f"The label must be an id in [0, {n_labels}), as this model knows no names. Got {label!r}.")
    is_integer = isinstance(label, numbers.Integral) and not isinstance(label, bool)
    if not is_integer or not 0 <= int(label) < n_labels:
        raise DataError(f"The label must be an id in [0, {n_labels}). Got {label!r} instead.")
    return int(label)


def _id(item: Any, vocabulary: Vocabulary, refusal: Callable[[str], str]) -> Any:
    """The id of a name; anything else as it is. Of a name that no label has, ``refusal`` is said, and similar ones."""
    if isinstance(vocabulary, Numbers) and isinstance(item, numbers.Integral) and not isinstance(item, bool):
        item = str(item)
    if not isinstance(item, str):
        return item
    result = vocabulary.get(item)
    if result is None:
        near = similar_names(item, vocabulary)
        guess = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise DataError(f"{refusal(item)}{guess}")
    return result
