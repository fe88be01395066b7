"""What a word is: every character's part in words, its lower case and more, as a table that the kernels read. A word is
a run of letters, digits and underscores (Python's ``\\w``) with the combining marks between and behind them. Where a
script puts no spaces between words, a character with its marks is a word by itself. Characters that aren't seen (soft
hyphens, joiners, variation selectors) neither end a word nor count in it. Texts are in NFC first."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import numpy as np
import numpy.typing as npt

# No letter, digit or space lies beyond the first four planes, so the table ends there.
SIZE = 0x40000
# The bits of native/text/ngrams.hpp.
CODE_POINT = 0x1FFFFF
COMPOSES, LOWERS = 1 << 24, 1 << 25
UNSEEN = 1 << 26
SPACE = 1 << 28
MARK = 1 << 29
UNSPACED = 1 << 30
WORD = 1 << 31

# By the first rules, which models of earlier releases were trained with, marks and what isn't seen ended a word, texts
# were taken as they came, and Han and kana alone were without spaces.
FIRST_RULES, RULES = 1, 2

# Scripts written without spaces, whose characters are words or parts of few; of those of Southeast Asia only
# letters, as their digits are words as everywhere. First Han, Bopomofo and kana (Hangul has spaces between words).
_HAN_AND_KANA = (
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3021, 0x3029),  # Hangzhou numerals
    (0x3031, 0x3035),  # kana repeat marks
    (0x3038, 0x303C),
    (0x3041, 0x312F),  # hiragana, katakana, Bopomofo
    (0x31A0, 0x31BF),  # Bopomofo extended
    (0x31F0, 0x31FF),  # katakana extensions
    (0x3400, 0x4DBF),  # Han extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han compatibility
    (0xFF66, 0xFF9F),  # halfwidth katakana
    (0x1AFF0, 0x1B16F),  # kana supplement and extensions
    (0x20000, 0x3FFFF),  # Han extensions B and later
)
_SOUTHEAST_ASIAN = (
    (0x0E01, 0x0E4E),  # Thai
    (0x0E81, 0x0ECD),  # Lao
    (0x0EDC, 0x0EDF),
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17DD),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0xA9E0, 0xA9FF),  # Myanmar extended
    (0xAA60, 0xAADF),  # Myanmar extended, Tai Viet
    (0x11700, 0x1174F),  # Ahom
)
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
    own = np.zeros(SIZE, dtype=np.uint32)  # what a character is itself, whatever it becomes
    if rules != FIRST_RULES:
        _mark(bits, characters, keeps_unseen)
        own[_composing(bits, characters)] = COMPOSES
    if lowercase:
        own[list(_SPECIAL)] |= np.uint32(LOWERS)
        lowered = characters.translate(_SPECIAL).lower()
        if len(lowered) != SIZE:  # a later Unicode with another character whose lower case is several
            lowered = "".join(low if len(low := c.lower()) == 1 else c for c in characters)
        codes = np.frombuffer(lowered.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    table = codes.astype(np.uint32) | bits[codes] | own
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
    others = np.flatnonzero(bits[:_LAST_MARK] & np.uint32(WORD) == 0).tolist()
    bits[[code for code in others if unicodedata.category(characters[code])[0] == "M"]] |= np.uint32(MARK)
    for first, last in _UNSEEN:
        bits[first : last + 1] |= np.uint32(MARK if keeps_unseen else MARK | UNSEEN)
    for first, last in _SOUTHEAST_ASIAN:
        bits[[code for code in range(first, last + 1) if characters[code].isalpha()]] |= np.uint32(UNSPACED)


def _composing(bits: npt.NDArray[np.uint32], characters: str) -> npt.NDArray[np.bool_]:
    """Which characters NFC may change: those that it replaces, and those that it may join to what precedes."""
    found: npt.NDArray[np.bool_] = (bits & np.uint32(MARK)) != 0
    for start in range(0, SIZE, _BLOCK):
        block = characters[start : start + _BLOCK]
        if found[start : start + _BLOCK].any() or not unicodedata.is_normalized("NFC", block):
            found[start : start + _BLOCK] |= [unicodedata.normalize("NFC", c) != c for c in block]
    for first, last in _UNSEEN:
        found[first : last + 1] = False
    for first, last in _HANGUL:
        found[first : last + 1] = True
    return found
