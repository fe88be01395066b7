"""URIs as labels: with angle brackets around them in some files, without in others."""

from __future__ import annotations

import re

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+|urn:\S+")
# A scheme and a colon, but no two colons: <std::vector> is a word.
_BRACKETED = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]*:(?!:)[^<>\s]+>")


def bare_uri(text: str) -> str:
    """A URI without the angle brackets around it."""
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def bare_label(text: str) -> str:
    """A label without the angle brackets around it, if it is a URI: the two are one label."""
    return bare_uri(text) if text.startswith("<") and _BRACKETED.fullmatch(text) else text


def looks_like_uri(text: str) -> bool:
    """Whether a label is a URI: a scheme and ``://``, or a URN."""
    return bool(_URI.fullmatch(text))
