"""Files of labels' texts: both forms, packed and from stdin, and what is wrong with a line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sylvan import data
from sylvan.errors import DataError


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    lines, objects = tmp_path / "labels.tsv", tmp_path / "labels.jsonl.gz"
    lines.write_text("<urn:1>\twhale hunting\t catching of whales \n\nurn:2\tbread\t\nurn:1\tblubber\n", "utf-8")
    records = [
        {"label": "urn:1", "text": ["whale hunting", "catching of whales"]}, {"label": "urn:2", "text": "bread"},
        {"label": "urn:1", "text": "blubber"},
    ]  # fmt: skip
    objects.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))
    wanted = {"urn:1": ["whale hunting", "catching of whales", "blubber"], "urn:2": ["bread"]}
    assert data.read_label_texts(lines) == wanted == data.read_label_texts(objects)


def test_labels_may_be_numbers(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"label": 7, "text": "bread"}\n')
    assert data.read_label_texts(path) == {"7": ["bread"]}


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.tsv", "Whaling\n", "line 1: a line must be a label, a tab and its text. Got 'Whaling' instead."),
        ("a.tsv", "Whaling\twhales\n\tbread\n", "line 2: a line must be a label, a tab and its text."),
        ("a.tsv", "Whaling\t\t\n", "line 1: a line must be a label, a tab and its text."),
        ("a.tsv", "", "the file holds no rows."),
        ("a.jsonl", '{"label": "a", "text": "b"}\n{"label": "a"}\n', "object 2: must have a label, and a text that is"),
        ("a.jsonl", '{"label": true, "text": "b"}\n', "object 1: must have a label"),
        ("a.jsonl", '{"label": "a", "text": ["b", 1]}\n', "object 1: must have a label"),
        ("a.jsonl", "[]\n", "the file holds no rows."),
    ],
)
def test_faults_are_sentences(tmp_path: Path, name: str, content: str, fault: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError) as raised:
        data.read_label_texts(path)
    assert fault in str(raised.value) and str(path) in str(raised.value)
