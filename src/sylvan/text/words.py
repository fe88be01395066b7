"""The words of texts in their order: where they stand, where sentences begin, and each distinct word once."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.text.characters import CODE_POINT, FIRST_RULES, MARK, RULES, SIZE, UNSEEN, UNSPACED, WORD, character_table

# The bits of the kernel's table, native/lexical/words.hpp.
_STOP, _PERIOD, _LINE, _LOWER, _UPPER, _MARK, _SINGLE, _LETTER = (1 << bit for bit in range(24, 32))
CAPITAL, BEGINS_SENTENCE = 1, 2

_STOPS = "!?;\u037e。！？；…।॥؟؛\u2029\f"
_PERIODS = ".．｡"
_FIRST_UNSEEN = (0xAD, 0x200C, 0x200D)  # of the characters that aren't seen, those that continued words from the first


class ScannedWords(NamedTuple):
    """The words of some texts."""

    offsets: npt.NDArray[np.int64]  # shape (n_texts + 1,): where each text's places begin
    words: npt.NDArray[np.int32]  # shape (n_places,): the number of a distinct word at each place
    # starts, ends: shape (n_places,): the characters of the text that the word is: from `starts` to before `ends`
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint8]  # shape (n_places,): the bits `CAPITAL` and `BEGINS_SENTENCE`
    distinct: list[bytes]  # the distinct words in lower case, as UTF-8


@lru_cache(maxsize=2)
def word_table(rules: int = RULES) -> npt.NDArray[np.uint32]:
    """What each character is to the kernel that reads words; made in some 100 ms, once. Words are those of
    :mod:`sylvan.text.characters`. Lower case is one character for one, so that places are the text's own."""
    # Returns shape (SIZE,)
    known = character_table(True)
    characters = [chr(code) for code in range(SIZE)]
    table: npt.NDArray[np.uint32] = known & np.uint32(CODE_POINT)
    lowered = table != np.arange(SIZE, dtype=np.uint32)
    table[[ord("Σ"), ord("ς"), ord("İ")]] = ord("σ"), ord("σ"), ord("i")
    letter = (known & np.uint32(WORD)) != 0
    letter[[ord("Σ"), ord("İ")]] = lowered[[ord("Σ"), ord("İ")]] = True
    small = np.fromiter((c.islower() or c.isdigit() for c in characters), bool, SIZE)
    mark = (known & np.uint32(MARK)) != 0
    single = letter & ((known & np.uint32(UNSPACED)) != 0)
    if rules == FIRST_RULES:
        mark &= (known & np.uint32(UNSEEN)) == 0
        mark[list(_FIRST_UNSEEN)] = True
        single = letter & ((character_table(True, FIRST_RULES) & np.uint32(UNSPACED)) != 0)
    kinds = ((_LETTER, letter), (_SINGLE, single), (_UPPER, letter & lowered), (_LOWER, small), (_MARK, mark))
    for bit, where in kinds:
        table[where] |= np.uint32(bit)
    for bit, listed in ((_STOP, _STOPS), (_PERIOD, _PERIODS), (_LINE, "\n\u2028")):
        table[[ord(c) for c in listed]] |= np.uint32(bit)
    table.flags.writeable = False
    return table


def scan_words(
    texts: tuple[str, ...], first: int = 0, last: int | None = None, rules: int = RULES
) -> ScannedWords:  # fmt: skip
    """The words of ``texts[first:last]``, which stay as they are: a word may be in any form of Unicode. A sentence ends
    at ``!``, ``?``, ``;`` and their like in other scripts, at a blank line, and at a period that is followed by a space
    and then not by a lower-case letter or a digit, unless it stands behind a single character."""
    last = len(texts) if last is None else last
    offsets, words, starts, ends, kinds, data = kernels.scan_words(texts, first, last, word_table(rules))
    return ScannedWords(offsets, words, starts, ends, kinds, data.tobytes().split(b"\0")[:-1])
