"""``sylvan train lexical``: from rows, from words alone, with vocabularies; wrong uses are sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import data

TEXTS = ["Whale hunting in the south seas", "On the baking of bread", "Verses of the sea"]
LABELS = [["n1"], ["n2"], ["n3"]]
SUBJECTS = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<urn:x:1> a skos:Concept ; skos:prefLabel "whaling"@en ; skos:altLabel "whale hunting"@en .
<urn:x:2> a skos:Concept ; skos:prefLabel "bread"@en .
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    data.write_jsonl(tmp_path / "rows.jsonl", TEXTS, LABELS)
    (tmp_path / "names.tsv").write_text("n1\twhaling\twhale hunting\nn2\tbread baking\nn3\tverse\nn4\tsteam engines\n")
    return tmp_path


def test_rows_and_words(call: Any, rows: Path) -> None:
    model = str(rows / "m")
    options = ("--label-texts", str(rows / "names.tsv"), "--set", "stem=en", "--threads", "1")
    outcome = call("train", "lexical", str(rows / "rows.jsonl"), "--model", model, *options)
    assert outcome.code == 0 and "Trained LexicalMatcher with 4 labels" in outcome.out, outcome.err
    (rows / "new.jsonl").write_text(json.dumps({"text": "A steam engine"}) + "\n")
    outcome = call("predict", model, str(rows / "new.jsonl"), "-k", "1")
    assert outcome.code == 0 and "n4" in outcome.out
    explained = call("explain", model, "--text", "Steam engines", "--label", "n4")
    assert "The preferred form 'steam engines' stands there once" in explained.out.replace("\n", " ")
    assert call("inspect", model).code == 0
    (rows / "more.csv").write_text("uri,label\nn5,airships\n")
    outcome = call("update", model, "--label-texts", str(rows / "more.csv"))
    assert (outcome.code, outcome.err) == (0, f"Updated {model}: 1 label added, 1 described.\n")
    (rows / "ids.txt").write_text("0\n")
    outcome = call("update", model, "--forget", str(rows / "ids.txt"))
    assert outcome.code != 0 and "it stores no rows for 'forget'" in outcome.err


@pytest.mark.parametrize("form", ["ttl", "csv", "jsonl", "tsv"])
def test_words_alone(call: Any, tmp_path: Path, form: str) -> None:
    contents = {
        "ttl": SUBJECTS, "csv": "uri,label,alternative\nurn:x:1,whaling,whale hunting\nurn:x:2,bread,\n",
        "jsonl": '{"uri": "urn:x:1", "label": ["whaling", "whale hunting"]}\n{"uri": "urn:x:2", "label": "bread"}\n',
        "tsv": "urn:x:1\twhaling\twhale hunting\nurn:x:2\tbread\n",
    }  # fmt: skip
    if form == "ttl":
        pytest.importorskip("rdflib")
    path = tmp_path / f"subjects.{form}"
    path.write_text(contents[form])
    outcome = call("train", "lexical", "--label-texts", str(path), "--model", str(tmp_path / "m"))
    assert (outcome.code, outcome.err) == (0, ""), outcome.err
    assert outcome.out.startswith("LexicalMatcher knows 2 labels by their texts alone. Saved it in")
    assert sylvan.load(tmp_path / "m").rank(["Whale hunting"], k=1).names == [["urn:x:1"]]


def test_a_vocabulary_is_texts_to_other_models_too(call: Any, rows: Path) -> None:
    (rows / "subjects.csv").write_text("uri,label,alternative\nn1,whaling,whale hunting|whales\nn9,steam engines,\n")
    arguments = (
        "--label-texts",
        str(rows / "subjects.csv"),
        "--model",
        str(rows / "m"),
        "-q",
        "--set",
        "unlearned=answer",
    )
    outcome = call("train", "xr-linear", str(rows / "rows.jsonl"), *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    assert "n9" in sylvan.load(rows / "m").vocabulary_


def test_a_member_of_an_ensemble(call: Any, rows: Path) -> None:
    data.write_jsonl(rows / "more.jsonl", TEXTS * 8, [["whale"], ["bread"], ["verses"]] * 8)
    members = ("--set", "member0__model=xr-linear", "--set", "member1__model=lexical", "--set", "member1__n_trees=3")
    outcome = call("train", "ensemble", str(rows / "more.jsonl"), "--model", str(rows / "m"), *members, "-q")
    assert (outcome.code, outcome.err) == (0, "")
    model = sylvan.load(rows / "m")
    assert [type(member).__name__ for member in model.members] == ["TextModel", "LexicalMatcher"]
    assert model.rank(["bread and wine"], k=1).names == [["bread"]]
