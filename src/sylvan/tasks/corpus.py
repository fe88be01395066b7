"""Text as one stream of word ids for each of training, validation and test."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.data.streams import PathLike, open_read
from sylvan.errors import DataError
from sylvan.params.wording import counted

END, UNKNOWN = "<eos>", "<unk>"
_NAMES = {"train": ("train",), "validation": ("valid", "validation", "dev"), "test": ("test",)}
_SUFFIXES = (".txt", ".txt.xz", ".txt.gz")


@dataclass(frozen=True, repr=False)
class Corpus:
    """Word ids of three texts, :data:`END` after every sentence."""

    words: list[str]  # the word of each id, the most frequent first
    train: npt.NDArray[np.int32]
    validation: npt.NDArray[np.int32]
    test: npt.NDArray[np.int32]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(getattr(self, name)):,}" for name in _NAMES)
        return f"Corpus({counted(len(self.words), 'word')}; {sizes} tokens)"

    def counts(self) -> npt.NDArray[np.int64]:
        """How often each word occurs in training, int64 (n_words,)."""
        return np.bincount(self.train, minlength=len(self.words))

    def describe(self) -> dict[str, Any]:
        """Sizes and checksums: enough to tell one corpus from another."""
        results: dict[str, Any] = {"words": len(self.words)}
        for name in _NAMES:
            ids = getattr(self, name)
            results[name] = {"tokens": len(ids), "crc32": f"{zlib.crc32(ids.tobytes()):08x}"}
        return results


def read_corpus(
    train: PathLike,
    validation: PathLike | None = None,
    test: PathLike | None = None,
    *,
    vocabulary: PathLike | None = None,
) -> Corpus:
    """Read three plain texts, a sentence a line, words parted by blanks; ``.gz`` and ``.xz`` are unpacked.

    Parameters
    ----------
    train : path
        The training text; or, alone, a folder with ``train.txt``, ``valid.txt`` and ``test.txt``, packed or not.
    validation, test : path
    vocabulary : path, optional
        The words to know, one a line; by default those of the training text. Others are read as :data:`UNKNOWN`.

    Raises
    ------
    DataError
        When a file is missing, empty or no UTF-8 text.
    """
    if validation is None and test is None:
        train, validation, test = _in_folder(train)
    if validation is None or test is None:
        raise DataError(
            "A language model needs three texts: to train on, to validate on and to test on, or a folder of them."
        )
    words = None
    if vocabulary is not None:
        words = [word for sentence in _sentences(vocabulary) for word in sentence]
    return build_corpus(_sentences(train), _sentences(validation), _sentences(test), vocabulary=words)


def build_corpus(
    train: Iterable[Sequence[str]],
    validation: Iterable[Sequence[str]],
    test: Iterable[Sequence[str]],
    *,
    vocabulary: Iterable[str] | None = None,
) -> Corpus:
    """A corpus of sentences, each a list of words.

    Parameters
    ----------
    train, validation, test : iterable of sequences of str
    vocabulary : iterable of str, optional
        The words to know; by default those of ``train``. :data:`END` always belongs to them, and :data:`UNKNOWN`
        when another word occurs.

    Raises
    ------
    DataError
        When one of the texts has no word.

    Examples
    --------
    >>> from sylvan.tasks.corpus import build_corpus
    >>> corpus = build_corpus([["a", "b", "a"], ["a"]], [["b", "c"]], [["a"]])
    >>> corpus.words
    ['a', '<eos>', 'b', '<unk>']
    >>> corpus.validation
    array([2, 3, 1], dtype=int32)
    """
    texts = {"train": _stream(train), "validation": _stream(validation), "test": _stream(test)}
    for name, text in texts.items():
        if not text:
            raise DataError(f"The {name} text holds no word.")
    counts = Counter(texts["train"])
    known = dict.fromkeys([*vocabulary, END] if vocabulary is not None else counts)
    if any(word not in known for text in texts.values() for word in text):
        known.setdefault(UNKNOWN)
        counts[UNKNOWN] += sum(count for word, count in counts.items() if word not in known)
    words = sorted(known, key=lambda word: -counts[word])
    ids = {word: i for i, word in enumerate(words)}
    other = ids.get(UNKNOWN, -1)
    arrays = {name: np.array([ids.get(word, other) for word in text], np.int32) for name, text in texts.items()}
    return Corpus(words, **arrays)


def _stream(sentences: Iterable[Sequence[str]]) -> list[str]:
    return [word for sentence in sentences if len(sentence) for word in (*sentence, END)]


def _sentences(path: PathLike) -> Iterator[list[str]]:
    with open_read(path) as stream:
        empty = True
        for number, line in stream.lines():
            try:
                words = line.decode("utf-8").split()
            except UnicodeDecodeError:
                raise DataError(f"{stream.name}, line {number}: the text is not UTF-8.") from None
            if words:
                empty = False
                yield words
        if empty:
            raise DataError(f"{stream.name} is empty: it holds no word.")


def _in_folder(folder: PathLike) -> tuple[str, str, str]:
    path = os.fspath(folder)
    if not os.path.isdir(path):
        raise DataError(
            f"{path!r} is no folder: give the texts to train on, to validate on and to test on, or a folder."
        )
    results = []
    for part, names in _NAMES.items():
        places = [os.path.join(path, name + suffix) for name in names for suffix in _SUFFIXES]
        there = [place for place in places if os.path.isfile(place)]
        if not there:
            raise DataError(f"The folder {path!r} holds no {names[0]}.txt (or .txt.xz, .txt.gz): the {part} text.")
        results.append(there[0])
    return results[0], results[1], results[2]
