"""The words of texts in their order: where they stand, where sentences begin, and each distinct word once."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.text.characters import CJK, CODE_POINT, SIZE, WORD, character_table

__all__ = ["BEGINS_SENTENCE", "CAPITAL", "ScannedWords", "scan_words", "word_table"]

# The bits of the kernel's table, native/lexical/words.hpp.
_STOP, _PERIOD, _LINE, _LOWER, _UPPER, _MARK, _SINGLE, _LETTER = (1 << bit for bit in range(24, 32))
CAPITAL, BEGINS_SENTENCE = 1, 2

_STOPS = "!?;。！？；…।॥؟؛\u2029\f"
_PERIODS = ".．｡"
_INSIDE = (0xAD, 0x200C, 0x200D)  # characters that aren't seen, inside of words


class ScannedWords(NamedTuple):
    """The words of some texts.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_texts + 1,)
        Where each text's places begin.
    words : ndarray of int32, shape (n_places,)
        The number of a distinct word at each place.
    starts, ends : ndarray of int32, shape (n_places,)
        The characters of the text that the word is: from ``starts`` to before ``ends``.
    kinds : ndarray of uint8, shape (n_places,)
        The bits ``CAPITAL`` and ``BEGINS_SENTENCE``.
    distinct : list of bytes
        The distinct words in lower case, as UTF-8.
    """

    offsets: npt.NDArray[np.int64]
    words: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint8]
    distinct: list[bytes]


@lru_cache(maxsize=1)
def word_table() -> npt.NDArray[np.uint32]:
    """What each character is to the kernel that reads words; made in some 100 ms, once.

    Words are runs of what Python's ``\\w`` is, with combining marks; a Han or kana character is a word by itself, as
    these scripts put no spaces between words. Lower case is one character for one, so that places are the text's own.

    Returns
    -------
    ndarray of uint32, shape (SIZE,)
    """
    known = character_table(True)
    characters = [chr(code) for code in range(SIZE)]
    table: npt.NDArray[np.uint32] = known & np.uint32(CODE_POINT)
    lowered = table != np.arange(SIZE, dtype=np.uint32)
    table[[ord("Σ"), ord("ς"), ord("İ")]] = ord("σ"), ord("σ"), ord("i")
    letter = (known & np.uint32(WORD)) != 0
    letter[[ord("Σ"), ord("İ")]] = lowered[[ord("Σ"), ord("İ")]] = True
    small = np.fromiter((c.islower() or c.isdigit() for c in characters), bool, SIZE)
    mark = np.fromiter((unicodedata.category(c)[0] == "M" for c in characters), bool, SIZE) & ~letter
    mark[list(_INSIDE)] = True
    single = letter & ((known & np.uint32(CJK)) != 0)
    kinds = ((_LETTER, letter), (_SINGLE, single), (_UPPER, letter & lowered), (_LOWER, small), (_MARK, mark))
    for bit, where in kinds:
        table[where] |= np.uint32(bit)
    for bit, listed in ((_STOP, _STOPS), (_PERIOD, _PERIODS), (_LINE, "\n\u2028")):
        table[[ord(c) for c in listed]] |= np.uint32(bit)
    table.flags.writeable = False
    return table


def scan_words(texts: tuple[str, ...], first: int = 0, last: int | None = None) -> ScannedWords:
    """The words of ``texts[first:last]``.

    A sentence ends at ``!``, ``?``, ``;`` and their like in other scripts, at a blank line, and at a period that is
    followed by a space and then not by a lower-case letter or a digit, unless it stands behind a single character.

    Examples
    --------
    >>> from sylvan.text.words import scan_words
    >>> found = scan_words(("The whale. A Whale!",))
    >>> [found.distinct[word] for word in found.words], found.kinds.tolist()
    ([b'the', b'whale', b'a', b'whale'], [3, 0, 3, 1])
    """
    last = len(texts) if last is None else last
    offsets, words, starts, ends, kinds, data = kernels.scan_words(texts, first, last, word_table())
    return ScannedWords(offsets, words, starts, ends, kinds, data.tobytes().split(b"\0")[:-1])
