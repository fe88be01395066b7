"""What a word is: every character's part in words, its lower case and more, as a table that the kernels read. A word is
a run of letters, digits and underscores (Python's ``\\w``) with the combining marks between and behind them. Where a
script puts no spaces between words, a character with its marks is a word by itself. Characters that aren't seen (soft
hyphens, joiners, variation selectors) neither end a word nor count in it. Texts are in NFC first."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.labels.vocabulary import composed

# No letter, digit or space lies beyond the first four planes, so the table ends there.
SIZE = 0x40000
PADDING = 16  # bytes after the last term or word that a kernel may read
# The bits of native/text/ngrams.hpp.
CODE_POINT = 0x1FFFFF
COMPOSES, LOWERS = 1 << 24, 1 << 25
UNSEEN, SPACE, MARK, UNSPACED, WORD = 1 << 26, 1 << 28, 1 << 29, 1 << 30, 1 << 31
# By the first rules, which models of earlier releases were trained with, marks and what isn't seen ended a word, texts
# were taken as they came, and Han and kana alone were without spaces.
FIRST_RULES, RULES = 1, 2
# Scripts written without spaces, whose characters are words or parts of few; of those of Southeast Asia only
# letters, as their digits are words as everywhere. First Han, Bopomofo and kana (Hangul has spaces between words).
_HAN_AND_KANA = (
    # radicals; iteration mark, closing mark, zero; Hangzhou numerals; kana repeat marks
    (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3031, 0x3035), (0x3038, 0x303C),
    # hiragana, katakana, Bopomofo; Bopomofo extended; katakana extensions; Han extension A; Han
    (0x3041, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    # Han compatibility; halfwidth katakana; kana supplement and extensions; Han extensions B and later
    (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x1AFF0, 0x1B16F), (0x20000, 0x3FFFF),
)  # fmt: skip
_SOUTHEAST_ASIAN = (
    # Thai; Lao; Myanmar; Khmer; Tai Le and New Tai Lue
    (0x0E01, 0x0E4E), (0x0E81, 0x0ECD), (0x0EDC, 0x0EDF), (0x1000, 0x109F), (0x1780, 0x17DD), (0x1950, 0x19DF),
    # Tai Tham; Myanmar extended; Myanmar extended and Tai Viet; Ahom
    (0x1A20, 0x1AAF), (0xA9E0, 0xA9FF), (0xAA60, 0xAADF), (0x11700, 0x1174F),
)  # fmt: skip
# Soft hyphen, grapheme joiner, joiners, variation selectors, and what sets a direction of writing. The zero width space
# is none of them: it parts words. Selectors beyond the table are in native/text/ngrams.hpp.
_UNSEEN = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x180B, 0x180F), (0x200C, 0x200F), (0x202A, 0x202E),
    (0x2060, 0x2060), (0x2066, 0x2069), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xE0100, 0xE01EF),
)  # fmt: skip
_LAST_MARK = 0x20000  # marks lie below, but for those selectors
_BLOCK = 256  # characters that are looked at together, as most blocks have none that NFC changes
_HANGUL = ((0x1161, 0x1175), (0x11A8, 0x11C2))  # vowels and finals, which become one character with what precedes
_REMOVED = {code: None for first, last in _UNSEEN for code in range(first, last + 1)}
# Their lower case depends on the neighbours, or is two characters: texts with them go through str.lower.
_SPECIAL = str.maketrans({"Σ": "x", "İ": "x"})


@lru_cache(maxsize=4)
def character_table(lowercase: bool, rules: int = RULES, keeps_unseen: bool = False) -> npt.NDArray[np.uint32]:
    """The table of this Python's ``str.lower``, ``\\w``, ``\\s``, categories and NFC; made in some 50 ms, once."""
    # Returns shape (SIZE,)
    codes = np.arange(SIZE, dtype="<u4")
    characters = codes.tobytes().decode("utf-32-le", "surrogatepass")
    bits = np.zeros(SIZE, dtype=np.uint32)
    for match in re.finditer(r"\w+", characters):
        bits[match.start() : match.end()] |= np.uint32(WORD)
    for match in re.finditer(r"\s+", characters):
        bits[match.start() : match.end()] |= np.uint32(SPACE)
    for first, last in _HAN_AND_KANA:
        bits[first : last + 1] |= np.uint32(UNSPACED)
    itself = np.zeros(SIZE, dtype=np.uint32)  # what a character is itself, whatever it becomes
    if rules != FIRST_RULES:
        _mark(bits, characters, keeps_unseen)
        itself[_composing(bits, characters)] = COMPOSES
    if lowercase:
        itself[list(_SPECIAL)] |= np.uint32(LOWERS)
        lowered = characters.translate(_SPECIAL).lower()
        if len(lowered) != SIZE:  # a later Unicode with another character whose lower case is several
            lowered = "".join(low if len(low := c.lower()) == 1 else c for c in characters)
        codes = np.frombuffer(lowered.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    table = codes.astype(np.uint32) | bits[codes] | itself
    table.flags.writeable = False
    return table


def is_unspaced(term: str) -> bool:
    """Whether a term is of a script without spaces between words, so that it may begin and end anywhere."""
    bits = character_table(False)
    return all(ord(c) < SIZE and bits[ord(c)] & np.uint32(UNSPACED | MARK) for c in term)


def without_unseen(text: str) -> str:
    """A text without the characters that aren't seen."""
    return text if text.isascii() else text.translate(_REMOVED)


def word_class() -> str:
    """What regular expressions call a character of a word: a class of ``\\w`` and marks, without its brackets."""
    return r"\w" + mark_class()


@lru_cache(maxsize=1)
def mark_class() -> str:
    """As :func:`word_class`, of marks alone."""
    marks = np.flatnonzero(character_table(False) & np.uint32(MARK))
    runs = np.split(marks, np.flatnonzero(np.diff(marks) > 1) + 1)
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs) + "\U000e0100-\U000e01ef"


def _mark(bits: npt.NDArray[np.uint32], characters: str, keeps_unseen: bool) -> None:
    """Note marks, what isn't seen, and the scripts of Southeast Asia."""
    codes = np.flatnonzero(bits[:_LAST_MARK] & np.uint32(WORD) == 0).tolist()
    bits[[code for code in codes if unicodedata.category(characters[code])[0] == "M"]] |= np.uint32(MARK)
    for first, last in _UNSEEN:
        bits[first : last + 1] |= np.uint32(MARK if keeps_unseen else MARK | UNSEEN)
    for first, last in _SOUTHEAST_ASIAN:
        bits[[code for code in range(first, last + 1) if characters[code].isalpha()]] |= np.uint32(UNSPACED)


def _composing(bits: npt.NDArray[np.uint32], characters: str) -> npt.NDArray[np.bool_]:
    """Which characters NFC may change: those that it replaces, and those that it may join to what precedes."""
    changes: npt.NDArray[np.bool_] = (bits & np.uint32(MARK)) != 0
    for start in range(0, SIZE, _BLOCK):
        block = characters[start : start + _BLOCK]
        if changes[start : start + _BLOCK].any() or not unicodedata.is_normalized("NFC", block):
            changes[start : start + _BLOCK] |= [unicodedata.normalize("NFC", c) != c for c in block]
    for first, last in _UNSEEN:
        changes[first : last + 1] = False
    for first, last in _HANGUL:
        changes[first : last + 1] = True
    return changes


class ReadText(NamedTuple):
    """The composed text without what isn't seen; character i is that from ``starts[i]`` to before ``ends[i]``."""

    text: str
    starts: list[int]
    ends: list[int]


@lru_cache(maxsize=1)
def _clusters() -> re.Pattern[str]:
    """A character with what may become one with it: marks, and the vowels and finals of Hangul."""
    return re.compile(rf"(?s:.)[{mark_class()}\u1161-\u11ff]*")


def read_text(text: str) -> ReadText:
    """How a text is read."""
    if text.isascii():
        return ReadText(text, list(range(len(text))), list(range(1, len(text) + 1)))
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for match in _clusters().finditer(text):
        part, (first, last) = without_unseen(composed(match[0])), match.span()
        parts.append(part)
        is_whole = part == match[0]
        starts += range(first, last) if is_whole else [first] * len(part)
        ends += range(first + 1, last + 1) if is_whole else [last] * len(part)
    return ReadText("".join(parts), starts, ends)


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
    characters_of = character_table(True)
    characters = [chr(code) for code in range(SIZE)]
    table: npt.NDArray[np.uint32] = characters_of & np.uint32(CODE_POINT)
    lowered = table != np.arange(SIZE, dtype=np.uint32)
    table[[ord("Σ"), ord("ς"), ord("İ")]] = ord("σ"), ord("σ"), ord("i")
    letter = (characters_of & np.uint32(WORD)) != 0
    letter[[ord("Σ"), ord("İ")]] = lowered[[ord("Σ"), ord("İ")]] = True
    small = np.fromiter((c.islower() or c.isdigit() for c in characters), bool, SIZE)
    mark = (characters_of & np.uint32(MARK)) != 0
    single = letter & ((characters_of & np.uint32(UNSPACED)) != 0)
    if rules == FIRST_RULES:
        mark &= (characters_of & np.uint32(UNSEEN)) == 0
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
