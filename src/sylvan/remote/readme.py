"""README.md of a model's folder: whether it is a card of Sylvan's, and the metadata before it that the Hub reads."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from sylvan.errors import DataError

NAME = "README.md"
_MOST = 4 << 20  # bytes of it that are looked at
_MARK = re.compile(r"<!-- card of (crc32:[0-9a-f]{8}), written by sylvan inspect -->")
_METADATA = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def mark(checksum: str) -> str:
    """The line by which a card is known as Sylvan's, and as that of a model by its manifest's checksum."""
    return f"<!-- card of {checksum}, written by sylvan inspect -->"


def read(folder: str) -> str | None:
    """The README.md in a folder; None where there is none."""
    path = os.path.join(folder, NAME)
    try:
        if not os.path.lexists(path):
            return None
        if not os.path.isfile(path):
            raise DataError(f"{path!r} is not a file.")
        with open(path, encoding="utf-8", errors="replace", newline="") as stream:
            return stream.read(_MOST)
    except OSError as error:
        raise DataError(f"{path!r} can't be read ({error.strerror or error}).") from error


def card_checksum(text: str) -> str:
    """The checksum of the model that a card describes; empty for a README.md that somebody else wrote."""
    match = _MARK.match(text, _body_start(text))
    return match[1] if match else ""


def remarked(text: str, checksum: str) -> str:
    """A card that describes the same model under another checksum; any other text as it is."""
    start = _body_start(text)
    return text[:start] + _MARK.sub(mark(checksum), text[start:], count=1) if card_checksum(text) else text


def metadata_text(text: str) -> str:
    """What stands before a README.md for the Hub, as it is; empty where nothing does."""
    return text[: _body_start(text)]


def _body_start(text: str) -> int:
    match = _METADATA.match(text)
    return match.end() if match else 0


def metadata_of(text: str, path: str = NAME) -> dict[str, Any]:
    """What stands in YAML before a README.md, which the Hub reads; empty where nothing does."""
    match = _METADATA.match(text)
    if match is None:
        return {}
    import yaml

    try:
        metadata = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = " ".join(str(error).split())[:200]
        raise DataError(f"The metadata before {path!r} isn't YAML: {line}.") from error
    if metadata is not None and not isinstance(metadata, dict):
        raise DataError(f"The metadata before {path!r} must be a mapping. Got {type(metadata).__name__} instead.")
    return metadata or {}


def with_metadata(text: str, metadata: Mapping[str, Any]) -> str:
    """A README.md with this metadata before it, instead of what was there."""
    import yaml

    words = yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=True, width=110)
    return f"---\n{words}---\n{text[_body_start(text) :]}"
