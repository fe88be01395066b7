"""Explanation: why a model gives a label to a row, as data, as text, as a page and as a file."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from dataclasses import dataclass
from typing import Any

from sylvan.data.streams import check_ending, open_write
from sylvan.explain.page import as_page, as_text
from sylvan.explain.records import Findings


@dataclass(frozen=True)
class Explanation(Findings):
    """Why a model gives a label to a row, or doesn't."""

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON has words for; a number that isn't finite becomes None."""
        result: dict[str, Any] = _plain(self)
        return result

    def text(self, width: int = 100) -> str:
        """Lines for a terminal of ``width`` columns."""
        return as_text(self, width)

    def html(self) -> str:
        """A page of its own, without script and without anything from elsewhere."""
        return as_page([self])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explanation to a file: a page for ``.html``, data for ``.json``, text for anything else."""
        name = os.fspath(path).lower()
        check_ending(path, (".html", ".htm", ".json", ".txt", ".md", ""))
        if name.endswith((".html", ".htm")):
            content = self.html()
        elif name.endswith(".json"):
            content = json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"
        else:
            content = self.text() + "\n"
        with open_write(path) as stream:
            stream.write(content.encode("utf-8", "replace"))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        properties = [name for name, member in vars(type(value)).items() if isinstance(member, property)]
        return {name: _plain(getattr(value, name)) for name in [*vars(value), *properties]}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
