"""Files as people have them: the bytes of one, what is done with it, and the right value or a message."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from sylvan import data
from sylvan.errors import DataWarning

# A column of labels, how many different labels it holds, and the words of the warning, "" for none.
CELLS: dict[str, tuple[list[str], int, str]] = {
    "Python lists": (["['cs.LG']", "['cs.LG', 'cs.CV']", '["cs.CV"]'], 2, ""),
    "JSON lists": (['["a", "b"]', "[]", '["b"]'], 2, ""),
    "NumPy's lists": (["['a' 'b']", "['b'\\n 'c']"], 3, ""),
    "sets and tuples": (["{'a', 'b'}", "('a',)", "('a', 'c')"], 3, ""),
    "numbers in lists": (["[1, 2]", "[2]"], 2, ""),
    "bare lists": (["[a, b]", "[b]"], 2, "looks like a list"),
    "PostgreSQL's arrays": (["{a,b}", "b"], 2, "looks like a list"),
    "bars": (["a|b", "b", "c"], 3, "--label-separator \"|\""),
    "lines": (["a\nb", "c", "b"], 3, "--label-separator \"newline\""),
    "tabs": (["a\tb", "c", "b"], 3, "--label-separator \"tab\""),
    "commas": (["red, green", "green", "blue, red", "blue"], 4, "--label-separator \",\""),
    "commas, all of several": (["a, b, c", "b, c", "c, a", "b, a"], 4, "--label-separator \",\""),
    "blanks": (["ECAT GCAT", "GCAT", "MCAT ECAT", "ECAT"], 4, "--label-separator \" \""),
    "slashes": (["a/b", "b/c", "c", "a"], 4, "--label-separator \"/\""),
    "URIs": (["http://a/b http://a/c", "http://a/b", "http://a/c"], 3, "--label-separator \" \""),
    "semicolons": (["a;b", "b", "c ;; a"], 3, ""),
    "semicolons, and names with bars": (["a;b|c", "b", "c;a"], 4, ""),
    "names of people": (["Smith, John", "Doe, Jane", "Smith, Jane", "Doe, John"], 4, ""),
    "headings": (["Whales -- History", "Whales", "History", "Sports/Football", "Sports/Tennis", "Sports"], 6, ""),
    "long names": (["Agriculture, Forestry and Fisheries", "Mining, Quarrying, and Oil", "Retail"], 3, ""),
    "languages": (["C#", "F#", "R&D", "A/B testing"], 4, ""),
    "single URIs": (["http://a/b", "http://a/c#d"], 2, ""),
}


def _write(path: Path, texts: list[str], cells: list[Any]) -> None:
    """A table, JSON lines or Parquet with one cell or string of labels a row."""
    if path.suffix == ".jsonl":
        data.write_records(path, [{"text": text, "labels": cell} for text, cell in zip(texts, cells, strict=True)])
    elif path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.table({"text": texts, "labels": cells}), path)
    else:
        data.write_table(path, texts, [[cell] for cell in cells], label_separator="\0")


def _read(path: Path, **options: Any) -> tuple[list[list[Any]], str]:
    """The labels of a file, and what was warned of."""
    readers: dict[str, Any] = {".jsonl": data.read_jsonl, ".parquet": data.read_parquet}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        labels = readers.get(path.suffix, data.read_table)(path, **options).labels
    assert all(issubclass(one.category, DataWarning) for one in said)
    return labels, " ".join(str(one.message) for one in said)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("kind", CELLS)
def test_cells_of_several_labels(kind: str, suffix: str, tmp_path: Path):
    cells, n_labels, words = CELLS[kind]
    if suffix in (".jsonl", ".parquet") and "semicolons" in kind:
        n_labels, words = len(set(cells)), "--label-separator \";\""
        if "bars" in kind:
            words = "--label-separator \"|\""
    path = tmp_path / f"train{suffix}"
    _write(path, ["whales"] * len(cells), cells)
    labels, said = _read(path)
    assert len({label for row in labels for label in row}) == n_labels
    assert (words in said) if words else not said
    assert not words or repr(next(cell for cell in cells if any(mark in cell for mark in "|;, \t\n/")))[:20] in said


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize(("separator", "cells", "right"), [
    ("|", ["a|b", "b |", "c"], [["a", "b"], ["b"], ["c"]]),
    (", ", ["a, b", "b", "c"], [["a", "b"], ["b"], ["c"]]),
    (" ", ["a  b", "b", "c"], [["a", "b"], ["b"], ["c"]]),
    (None, ["a|b", "['b']", "a;c"], [["a|b"], ["['b']"], ["a;c"]]),
])  # fmt: skip
def test_a_separator_that_is_said(
    separator: str | None, cells: list[str], right: list[list[str]], suffix: str, tmp_path: Path
):
    path = tmp_path / f"train{suffix}"
    _write(path, ["whales"] * len(cells), cells)
    assert _read(path, label_separator=separator) == (right, "")


@pytest.mark.parametrize(("labels", "right"), [
    ([[""], ["a"], [" "]], [[], ["a"], []]),
    ([["a", ""], [" a "], None], [["a"], ["a"], []]),
    ([[["", 1], ["a", 2]], [["a ", 3]], {"": 1.0}], [["a"], ["a"], []]),
    (["", "a", "\t"], [[], ["a"], []]),
])  # fmt: skip
def test_an_empty_name_is_no_label(labels: list[Any], right: list[list[str]], tmp_path: Path):
    path = tmp_path / "train.jsonl"
    data.write_records(path, [{"text": "whales", "labels": row} for row in labels])
    found, said = _read(path, require_labels=False)
    assert found == right
    n_empty = json.dumps(labels).count('""') + json.dumps(labels).count('" "')
    assert ("empty label" in said) == (n_empty > 0 and isinstance(labels[0], list))
