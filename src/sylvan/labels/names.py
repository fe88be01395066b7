"""What a label is called: one form of its name, wherever it comes from."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+|urn:\S+")
# A scheme and a colon, but no two colons: <std::vector> is a word.
_BRACKETED = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]*:(?!:)[^<>\s]+>")
_EASILY_COMPARED = 20_000  # names; comparing a million takes seconds


def bare_uri(text: str) -> str:
    """A URI without the angle brackets around it."""
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def bare_label(text: str) -> str:
    """A label without the angle brackets around it, if it is a URI: the two are one label."""
    return bare_uri(text) if text.startswith("<") and _BRACKETED.fullmatch(text) else text


def looks_like_uri(text: str) -> bool:
    """Whether a label is a URI: a scheme and ``://``, or a URN."""
    return bool(_URI.fullmatch(text))


def composed(text: str) -> str:
    """``text`` in NFC: a letter and its combining accent become the one character that Unicode has for both."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def label_name(text: str) -> str:
    """A label's name in its one form: composed (NFC), without surrounding blanks; ``""`` is no label. A URI is without
    the angle brackets around it."""
    return bare_label(composed(text).strip())


def similar_names(name: str, names: Sequence[str], n: int = 3) -> list[str]:
    """Up to ``n`` of the names that are spelled like the one that isn't there."""
    wanted = label_name(name).casefold()
    by_folded = {known.casefold(): known for known in names}
    if wanted in by_folded:
        return [by_folded[wanted]]
    folded = list(by_folded)
    if len(folded) > _EASILY_COMPARED:
        folded = [known for known in folded if known[:1] == wanted[:1]][:_EASILY_COMPARED]
    return [by_folded[known] for known in difflib.get_close_matches(wanted, folded, n=n)]
