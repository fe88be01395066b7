"""Text in Unicode's composed form (NFC): characters that look the same are the same."""

from __future__ import annotations

import unicodedata


def composed(text: str) -> str:
    """``text`` in NFC: a letter and its combining accent become the one character that Unicode has for both."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)
