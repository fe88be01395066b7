"""The kernels' table says what this Python says, of every character there is."""

import re
import sys
import unicodedata

import numpy as np
from word_reference import is_letter, is_mark, is_unseen, is_unspaced

from sylvan.text.characters import (
    CODE_POINT,
    COMPOSES,
    MARK,
    SIZE,
    SPACE,
    UNSEEN,
    UNSPACED,
    WORD,
    character_table,
    without_unseen,
)

EVERY = [chr(c) for c in range(sys.maxunicode + 1)]
SPECIAL = {"Σ", "İ"}


def test_word_and_space_are_res():
    table = character_table(False)
    word, space = re.compile(r"\w"), re.compile(r"\s")
    np.testing.assert_array_equal(table & CODE_POINT, np.arange(SIZE))
    np.testing.assert_array_equal((table & WORD) != 0, [bool(word.match(c)) for c in EVERY[:SIZE]])
    np.testing.assert_array_equal((table & SPACE) != 0, [bool(space.match(c)) for c in EVERY[:SIZE]])
    assert not any(word.match(c) or space.match(c) or c.lower() != c for c in EVERY[SIZE:])


def test_lower_case_is_strs():
    table = character_table(True)
    low = [c.lower() for c in EVERY[:SIZE]]
    assert {c for c, one in zip(EVERY, low, strict=False) if len(one) != 1} == {"İ"}
    for c, one in zip(EVERY, low, strict=False):
        if c not in SPECIAL:
            assert table[ord(c)] & CODE_POINT == ord(one)
    assert all(one.lower() == one for one in low), "lower-casing twice is lower-casing once"


def test_only_sigma_looks_at_its_neighbours():
    for before, after in (("", ""), ("a", ""), ("", "a"), ("a", "a")):
        joined = [f"{before}{c}{after}".lower() for c in EVERY[:SIZE] if c not in SPECIAL]
        apart = [before + c.lower() + after for c in EVERY[:SIZE] if c not in SPECIAL]
        assert joined == apart


def test_words_are_those_of_the_rules():
    """By Unicode's names and categories, of every character."""
    table = character_table(False)
    pad = np.zeros(len(EVERY) - SIZE, np.uint32)
    unseen = set(filter(is_unseen, EVERY))
    kinds = {WORD: is_letter, MARK: lambda c: not is_letter(c) and is_mark(c), UNSEEN: unseen.__contains__}
    for bit, rule in kinds.items():
        wrong = [hex(ord(c)) for c, entry in zip(EVERY, [*table.tolist(), *pad.tolist()], strict=True)
                 if bool(entry & bit) != rule(c) and not 0xE0100 <= ord(c) <= 0xE01EF]  # fmt: skip
        assert not wrong
    wrong = [hex(code) for code in range(SIZE)
             if (table[code] & WORD and table[code] & UNSPACED != 0) != is_unspaced(EVERY[code])]  # fmt: skip
    assert not wrong
    assert without_unseen("".join(EVERY)) == "".join(c for c in EVERY if c not in unseen)


def test_what_may_change_in_nfc_is_noted():
    table = character_table(False)
    second = {part[1] for c in EVERY if len(part := unicodedata.decomposition(c).split()) == 2 and part[0][0] != "<"}
    for code in range(SIZE):
        c = chr(code)
        if unicodedata.normalize("NFC", c) != c or unicodedata.combining(c):
            assert table[code] & COMPOSES, hex(code)
    assert all(table[int(code, 16)] & COMPOSES for code in second)
    assert not (table[:0x300] & COMPOSES).any(), "the kernel doesn't look below"
