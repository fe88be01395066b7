"""The kernels' table says what this Python says, of every character there is."""

from __future__ import annotations

import re
import sys

import numpy as np

from sylvan.text.characters import CODE_POINT, SIZE, SPACE, WORD, character_table

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
