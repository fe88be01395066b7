"""Words in their order: beside a slow reading by the definition, and what languages ask for."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from word_reference import is_letter, is_mark, is_unspaced

from sylvan.errors import OtherReleaseWarning
from sylvan.text.characters import BEGINS_SENTENCE, CAPITAL, CODE_POINT, SIZE, character_table, scan_words
from sylvan.text.word_forms import LabelWords, folded, is_content

CHARACTERS = "aBcé鯨な1 .!\n,-'\u0301ΣİÅ\U0001f40b\u00ad?हिन्दी\u0e01\u0e31\u200b\u200c\U000e0101"
TEXTS = st.lists(st.text(st.sampled_from(CHARACTERS), max_size=30) | st.text(max_size=15), max_size=4)


def kind_of(c: str) -> tuple[bool, bool, bool]:
    """Whether a character is of a word, a word by itself, and part of the word that it stands in."""
    return is_letter(c), is_unspaced(c), is_mark(c)


def slowly(text: str) -> list[tuple[str, int, int, bool, bool]]:
    """Each word with its first character, the one behind it, whether it has a capital, and begins a sentence."""
    found: list[tuple[str, int, int, bool, bool]] = []
    at, breaks, period, lines = 0, True, False, 0
    while at < len(text):
        letter, lone, _ = kind_of(text[at])
        if not letter:
            breaks |= text[at] in "!?;\u037e。！？；…।॥؟؛\u2029\f"
            period |= text[at] in ".．｡" and bool(found) and found[-1][2] - found[-1][1] > 1
            lines += text[at] in "\n\u2028"
            breaks |= lines > 1
            at += 1
            continue
        start = at
        at += 1
        while at < len(text):
            letter, single, mark = kind_of(text[at])
            if not (mark or (letter and not lone and not single)):
                break
            at += 1
        first = text[start]
        if period and start > found[-1][2] + 1 and not (first.islower() or first.isdigit()):
            breaks = True
        low = "".join(chr(int(lowered(c)) & CODE_POINT) for c in text[start:at])
        capital = first in "Σİ" or int(lowered(first)) & CODE_POINT != ord(first)
        found.append((low, start, at, capital, breaks))
        breaks, period, lines = False, False, 0
    return found


def lowered(c: str) -> int:
    special = {"Σ": ord("σ"), "ς": ord("σ"), "İ": ord("i")}
    return special.get(c, int(character_table(True)[ord(c)]) if ord(c) < SIZE else ord(c))


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_words_are_those_of_the_slow_reading(texts: list[str]) -> None:
    read = scan_words(tuple(texts))
    assert len(read.offsets) == len(texts) + 1
    for row, text in enumerate(texts):
        own = range(read.offsets[row], read.offsets[row + 1])
        got = [
            (read.distinct[read.words[at]].decode("utf-8", "surrogatepass"), int(read.starts[at]), int(read.ends[at]),
             bool(read.kinds[at] & CAPITAL), bool(read.kinds[at] & BEGINS_SENTENCE))
            for at in own
        ]  # fmt: skip
        assert got == slowly(text)
    assert len(set(read.distinct)) == len(read.distinct)


def test_a_range_of_texts_and_thousands_of_words() -> None:
    texts = tuple(" ".join(f"word{at % n}" for at in range(n + 5)) for n in (1, 3000, 7))
    read = scan_words(texts, 1, 3)
    assert np.diff(read.offsets).tolist() == [3005, 12]
    assert [read.distinct[word] for word in read.words[-2:]] == [b"word3", b"word4"]
    assert read.distinct == [f"word{at}".encode() for at in range(3000)]


def sentences(text: str) -> int:
    return int((scan_words((text,)).kinds & BEGINS_SENTENCE).astype(bool).sum())


def test_where_sentences_end() -> None:
    assert sentences("One. Two! Three? Four; five") == 5
    assert sentences("Regulation No. 17 of the U.S. Congress, by J. Smith, e.g. this") == 1
    assert sentences("wrapped\nlines. and a\n\nblank one\n \nand another") == 3
    assert sentences("鯨。海。") == 2


def test_words_without_case_and_diacritics() -> None:
    assert [folded(word) for word in ("Élan", "ÅNGSTRÖM", "straße", "ﬁne", "co\u00adop", "हिन्दी")] == [
        "elan", "angstrom", "strasse", "fine", "coop", "हिनदी"
    ]  # fmt: skip
    assert [is_content(word) for word in ("sea", "at", "1999", "x25", "海", "کتب")] == [
        True, False, False, True, True, True
    ]  # fmt: skip


def test_words_that_no_label_has_are_minus_one() -> None:
    words, scanned, ids = LabelWords.of_texts(("Märchen", "the sea"), None, None)
    assert list(words.vocabulary) == ["marchen", "sea", "the"]
    assert ids[scanned.words].tolist() == [0, 2, 1]
    for _ in range(2):  # the second time from memory
        read = words.read(("A MARCHEN of the sea", "", "märchen"))
        assert read.words.tolist() == [-1, 0, -1, 2, 1, 0] and read.offsets.tolist() == [0, 5, 5, 6]


def test_stems_are_compared() -> None:
    words, _, _ = LabelWords.of_texts(("hunting of whales",), "en", None)
    assert "hunt" in words.vocabulary and (words.read(("hunts whale",)).words >= 0).all()
    assert words.library is not None and "tem" in words.library


def test_another_release_of_the_library_is_a_warning() -> None:
    known, _, _ = LabelWords.of_texts(("whales",), "en", None)
    other = LabelWords(known.vocabulary, "en", None, "snowballstemmer 0.1.2")
    with pytest.warns(OtherReleaseWarning):
        other.read(("whale",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.read(("sea",))
        known.read(("whale",))
