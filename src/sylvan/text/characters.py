"""What Python says of every character, as a table that the kernels read: its lower case, word, space, CJK."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["CJK", "CODE_POINT", "SIZE", "SPACE", "WORD", "character_table"]

# No letter, digit or space lies beyond the first four planes, so the table ends there.
SIZE = 0x40000
CODE_POINT = 0x1FFFFF
SPACE = 1 << 29
CJK = 1 << 30
WORD = 1 << 31

# Scripts written without spaces whose characters are words or parts of few: Han, Bopomofo and kana. Hangul
# has spaces between words. First and last code point of each range; only word characters count.
_CJK_RANGES = (
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

# Their lower case depends on the neighbours, or is two characters: texts with them go through str.lower.
_SPECIAL = str.maketrans({"Σ": "x", "İ": "x"})


@lru_cache(maxsize=2)
def character_table(lowercase: bool) -> npt.NDArray[np.uint32]:
    """The table of this Python's ``str.lower``, ``\\w`` and ``\\s``; made in some 20 ms, once.

    Parameters
    ----------
    lowercase : bool
        Whether characters become lower case or stay what they are.

    Returns
    -------
    ndarray of uint32, shape (SIZE,)
        Entry c: the code point that c becomes, with the bits ``WORD``, ``SPACE`` and ``CJK`` of that one.

    Examples
    --------
    >>> entry = int(character_table(True)[ord("Ä")])
    >>> chr(entry & CODE_POINT), bool(entry & WORD), bool(entry & SPACE)
    ('ä', True, False)
    """
    codes = np.arange(SIZE, dtype="<u4")
    characters = codes.tobytes().decode("utf-32-le", "surrogatepass")
    bits = np.zeros(SIZE, dtype=np.uint32)
    for match in re.finditer(r"\w+", characters):
        bits[match.start() : match.end()] |= np.uint32(WORD)
    for match in re.finditer(r"\s+", characters):
        bits[match.start() : match.end()] |= np.uint32(SPACE)
    for first, last in _CJK_RANGES:
        bits[first : last + 1] |= np.uint32(CJK)
    if lowercase:
        lowered = characters.translate(_SPECIAL).lower()
        if len(lowered) != SIZE:  # a later Unicode with another character whose lower case is several
            lowered = "".join(low if len(low := c.lower()) == 1 else c for c in characters)
        codes = np.frombuffer(lowered.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    table = codes.astype(np.uint32) | bits[codes]
    table.flags.writeable = False
    return table
