"""What books of finished rows say of where these were measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.common import measure, records


def test_rows_and_books_name_the_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "book.json"
    for at, cpu in enumerate(("first", "second", "first")):
        monkeypatch.setattr(measure, "processor", lambda cpu=cpu: {"cpu": cpu, "cores": 2})
        records.Book(path).add({"row": at})
    written = json.loads(path.read_text())
    assert written["machine"] == {"cpu": "first and second", "cores": 2}
    assert [(run["row"], run["cpu"]) for run in written["runs"]] == [(0, "first"), (1, "second"), (2, "first")]
    assert records.Book(path).find({"row": 1}) == {"row": 1, "cpu": "second"}
