"""What a label is called: one form of its name, wherever it comes from."""

from __future__ import annotations

from sylvan.labels.uris import bare_label
from sylvan.unicode_form import composed

__all__ = ["label_name"]


def label_name(text: str) -> str:
    """A label's name in its one form: composed (NFC), without surrounding blanks; ``""`` is no label.

    A URI is without the angle brackets around it.

    Examples
    --------
    >>> from sylvan.labels.names import label_name
    >>> label_name(" Ba\\u0308ume "), label_name("  "), label_name("<http://example.org/1>")
    ('Bäume', '', 'http://example.org/1')
    """
    return bare_label(composed(text).strip())
