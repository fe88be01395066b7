"""What a word is, again: written from the rules, character by character, by Unicode's names and categories.

A word is a run of letters, digits and underscores with the combining marks between and behind them. In a script without
spaces between words, a letter with its marks is a word by itself. What isn't seen neither ends a word nor counts in it.
"""

import re
import unicodedata

# By the beginnings of their characters' names.
SOUTHEAST_ASIAN = (
    "THAI CHARACTER", "LAO ", "KHMER ", "MYANMAR ", "TAI LE ", "NEW TAI LUE ", "TAI THAM ", "TAI VIET ", "AHOM "
)  # fmt: skip
HAN_AND_KANA = re.compile(
    "[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001aff0-\U0001b16f\U00020000-\U0003ffff]"
)
UNSEEN = (
    "SOFT HYPHEN", "COMBINING GRAPHEME JOINER", "ZERO WIDTH NON-JOINER", "ZERO WIDTH JOINER", "WORD JOINER",
    "ZERO WIDTH NO-BREAK SPACE", "ARABIC LETTER MARK", "LEFT-TO-RIGHT MARK", "RIGHT-TO-LEFT MARK",
    "MONGOLIAN VOWEL SEPARATOR",
)  # fmt: skip


def name_of(c: str) -> str:
    return unicodedata.name(c, "")


def is_letter(c: str) -> bool:
    """Of a word: a letter, a digit, an underscore."""
    return c == "_" or c.isalnum()


def is_unseen(c: str) -> bool:
    if unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"):
        return True
    name = name_of(c)
    return name in UNSEEN or "VARIATION SELECTOR" in name


def is_mark(c: str) -> bool:
    """Part of the word that it stands in."""
    return is_unseen(c) or unicodedata.category(c) in ("Mn", "Mc", "Me")


def is_unspaced(c: str) -> bool:
    """A word by itself."""
    if name_of(c).startswith(SOUTHEAST_ASIAN):
        return c.isalpha()
    return is_letter(c) and HAN_AND_KANA.fullmatch(c) is not None


def visible(text: str) -> str:
    """A text in NFC, without what isn't seen."""
    return "".join(c for c in unicodedata.normalize("NFC", text) if not is_unseen(c))


def words(text: str, least: int = 2, unspaced: str = "bigrams") -> list[str]:
    """The words of a text as a vectoriser counts them.

    Parameters
    ----------
    text : str
        As :func:`visible` gives it, in whichever case.
    least : int
        Characters of a word, at least; of scripts with spaces.
    unspaced : {"bigrams", "chars", "word"}
        What a run of a script without spaces becomes.
    """
    runs: list[tuple[bool, list[str]]] = []  # whether it is one without spaces, and its letters with their marks
    inside = False
    for c in text:
        if is_letter(c):
            alone = unspaced != "word" and is_unspaced(c)
            if not inside or runs[-1][0] != alone:
                runs.append((alone, []))
            runs[-1][1].append(c)
            inside = True
        elif is_mark(c) and inside:
            runs[-1][1][-1] += c
        else:
            inside = False
    found: list[str] = []
    for alone, letters in runs:
        n = 2 if unspaced == "bigrams" and len(letters) > 1 else 1
        if alone:
            found += ["".join(letters[at : at + n]) for at in range(len(letters) - n + 1)]
        elif len("".join(letters)) >= least:
            found.append("".join(letters))
    return found
