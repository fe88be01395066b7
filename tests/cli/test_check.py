"""``sylvan check``: every kind of fault with an example, equal to a slow look at all pairs, and the exit codes."""

import tracemalloc
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sylvan import data
from sylvan.cli.io.findings import Records, script_of

SOUND = [
    {"text": f"{word} {number}", "labels": [label]}
    for label, word in (("Whaling", "whales"), ("Baking", "bread"))
    for number in range(3)
]


def found(call: Any, rows: list[dict[str, Any]], options: str = "", code: int = 1) -> dict[str, dict[str, Any]]:
    """The findings of a file by their kind."""
    data.write_records("rows.jsonl", rows)
    outcome = call(f"check rows.jsonl --json - -q {options}", code=code)
    return {each["kind"]: each for each in outcome.json["findings"]}


def test_a_sound_file_has_no_fault(call: Any) -> None:
    assert found(call, SOUND, code=0) == {}


FAULTS: dict[str, tuple[str, list[dict[str, Any]], int, int, int | None, str]] = {
    "no text": ("empty", [{"text": " \t", "labels": ["Whaling"]}], 1, 7, None, " \t"),
    "no subject": ("unlabelled", [{"text": "rye", "labels": []}], 1, 7, None, "rye"),
    "repeated": ("duplicates", [{"text": "WHALES  0", "labels": ["Whaling"]}] * 3, 3, 7, 1, "WHALES  0"),
    "contradictory": ("contradictions", [{"text": "whales 1", "labels": ["Baking"]}] * 3, 1, 7, 2, "whales 1"),
    "delimiter": ("delimiters", [{"text": f"t{i}", "labels": ["Baking|Whaling"]} for i in range(3)], 1, 7, None,
                  "Baking|Whaling"),
    "comma": ("delimiters", [{"text": f"t{i}", "labels": ["Baking, Whaling"]} for i in range(3)], 1, 7, None,
              "Baking, Whaling"),
    "case": ("near-duplicates", [{"text": f"t{i}", "labels": ["BAKING"]} for i in range(2)], 1, 7, None,
             "'Baking' (3) and 'BAKING' (2)"),
    "plural": ("near-duplicates", [{"text": f"t{i}", "labels": ["Whalings"]} for i in range(3)], 1, 7, None,
               "'Whaling' (3) and 'Whalings' (3)"),
    "unseen": ("near-duplicates", [{"text": "t", "labels": ["Bak\xading\u200b"]}], 1, 7, None,
               "'Baking' (3) and 'Bak\\xading\\u200b' (1)"),
    "width": ("near-duplicates", [{"text": "t", "labels": ["Ｂaking"]}], 1, 7, None, "'Baking' (3) and 'Ｂaking' (1)"),
    "blank": ("reading", [{"text": "t", "labels": ["Baking", " "]}], 1, 0, None, ""),
    "rare": ("rare", [{"text": "t", "labels": ["Chess"]}], 1, 7, None, "Chess"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_with_an_example(name: str, call: Any) -> None:
    kind, rows, count, record, other, value = FAULTS[name]
    each = found(call, SOUND + rows, code=0 if kind == "rare" else 1)[kind]
    assert (each["count"], each["record"] or 0, each["other_record"]) == (count, record, other)
    assert (each["value"] or "") == value
    assert each["fault"] == (kind != "rare")
    if kind == "reading":
        assert "empty label" in each["words"] and "line 7" in each["words"]


@pytest.mark.parametrize(("kind", "labels"), [("duplicates", ["Whaling"]), ("contradictions", ["Baking"])])
@pytest.mark.parametrize(("n", "n_others", "is_fault"), [(2, 0, False), (3, 0, True), (3, 21, False), (3, 20, True)])
def test_few_titles_that_come_again_are_no_fault(
    kind: str, labels: list[str], n: int, n_others: int, is_fault: bool, call: Any, tmp_path: Path
) -> None:
    """Two of a few records, or a tenth of many: a catalogue has such, and a nightly job goes on."""
    repeated = [{"text": f"whales {number}", "labels": labels} for number in range(n)]
    others = [{"text": f"other {number}", "labels": ["Baking"]} for number in range(n_others)]
    result = found(call, SOUND + repeated + others, code=int(is_fault))
    assert result[kind]["fault"] == is_fault and result[kind]["found"] == list(range(7, 7 + n))


@pytest.mark.parametrize("labels", [
    ["C", "C++", "C#"], ["bus", "glass", "axis", "Bu"], ["किताब", "कतब"], ["sää", "saa"], ["1990", "199O"],
    ["http://x.org/a", "http://x.org/as"],
])  # fmt: skip
def test_subjects_that_only_look_alike(labels: list[str], call: Any) -> None:
    rows = [{"text": f"text {label} {i}", "labels": [label]} for label in labels for i in range(3)]
    assert "near-duplicates" not in found(call, rows, code=0)


def test_one_uri_written_in_two_ways(call: Any) -> None:
    rows = [{"text": f"{uri} {i}", "labels": [uri]} for uri in ("http://x.org/a", "https://x.org/a") for i in range(3)]
    assert found(call, rows)["near-duplicates"]["found"] == [["http://x.org/a", "https://x.org/a"]]


def test_test_records_among_those_to_learn_from(call: Any) -> None:
    rows = [{"text": "new", "labels": ["Baking"]}, {"text": "Bread 1", "labels": []}]
    data.write_records("test.jsonl", rows)
    each = found(call, SOUND, "--test test.jsonl")["leakage"]
    assert (each["count"], each["record"], each["other_record"], each["value"]) == (1, 2, 5, "Bread 1")
    data.write_records("test.jsonl", [{"text": "new", "labels": ["Baking"]}])
    assert found(call, SOUND, "--test test.jsonl", code=0) == {}


def test_subjects_beside_a_vocabulary(call: Any) -> None:
    """By URI or name; deprecated ones with what replaces them."""
    pytest.importorskip("rdflib")
    head = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
    Path("subjects.ttl").write_text(
        head
        + """
        <urn:x:1> a skos:Concept ; skos:prefLabel "Whaling"@en . <urn:x:2> a skos:Concept ; skos:prefLabel "Baking"@en .
        <urn:x:3> a skos:Concept ; owl:deprecated true ; <http://purl.org/dc/terms/isReplacedBy> <urn:x:2> .
    """
    )
    rows = [{"text": f"{uri} {i}", "labels": [uri]} for uri in ("urn:x:3", "urn:x:1", "urn:x:9") for i in range(3)]
    result = found(call, SOUND + rows, "--vocabulary subjects.ttl")
    assert result["deprecated"]["found"] == ["urn:x:3"] and "urn:x:2" in result["deprecated"]["advice"]
    assert result["unknown"]["found"] == ["urn:x:9"] and result["unknown"]["record"] == 13
    assert found(call, SOUND, "--vocabulary subjects.ttl", code=0) == {}
    outcome = call("check rows.jsonl --vocabulary subjects.ttl -q")
    assert "2 subjects" in outcome.out and outcome.err == ""


def test_subjects_whose_name_several_have_in_the_vocabulary(call: Any) -> None:
    Path("subjects.tsv").write_text("urn:x:1\tWhaling\nurn:x:2\tBaking\nurn:x:3\tBaking\n")
    each = found(call, SOUND, "--vocabulary subjects.tsv")["ambiguous"]
    assert (each["count"], each["found"], each["fault"]) == (1, ["Baking"], True)
    assert "urn:x:2 and urn:x:3" in each["advice"]
    rows = [{"text": f"bread {i}", "labels": [f"urn:x:{2 + i % 2}"]} for i in range(6)]
    assert found(call, rows, "--vocabulary subjects.tsv", code=0) == {}


def test_examples_are_named_in_the_language(call: Any, refused: Any) -> None:
    """And a language that the vocabulary lacks, or one of other labels, is refused."""
    Path("subjects.csv").write_text("uri,label_en,label_fi\nurn:1,Baking,Leipominen\nurn:2,Whaling,Valaanpyynti\n")
    Path("other.tsv").write_text("urn:x\tOther\n")
    rows = [{"text": f"bread {number}", "labels": ["urn:1"]} for number in range(3)]
    data.write_records("rows.jsonl", [*rows, {"text": "bread 1", "labels": ["urn:2"]}])
    check = "check rows.jsonl -q --vocabulary"
    assert "Valaanpyynti (urn:2)" in call(f"{check} subjects.csv --language fi").out
    assert "Whaling (urn:2)" in call(f"{check} subjects.csv --language en").out
    refused("'sv': its languages are en, fi", f"{check} subjects.csv --language sv")
    refused("urn:x", f"{check} other.tsv")


def test_labels_are_those_of_the_language(call: Any) -> None:
    """As ``train --language`` looks them up: no other language's are subjects, or make one of several."""
    Path("subjects.csv").write_text("uri,label_en,label_fi\nurn:1,roads,tie\nurn:2,tie,solmio\nurn:3,snow,lumi\n")
    rows = [{"text": f"{name} {i}", "labels": [name]} for name in ("tie", "solmio", "snow") for i in range(3)]
    for language, kind, name in (("", "ambiguous", "tie"), ("en", "unknown", "solmio"), ("fi", "unknown", "snow")):
        fault, options = {kind: [name]}, f"--language {language}" if language else ""
        faults = found(call, rows, f"--vocabulary subjects.csv {options}")
        assert {kind: each["found"] for kind, each in faults.items()} == fault


def test_repetitions_are_those_of_a_look_at_all_pairs() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        texts = [" ".join(rng.choice(["a", "B", "ä"], 2)) for _ in range(25)]
        labels = [[str(label) for label in rng.choice(3, int(rng.integers(1, 3)), replace=False)] for _ in texts]
        records = Records()
        records.take(texts[:10], labels[:10])
        records.take(texts[10:], labels[10:])
        result = {each.kind: each for each in records.findings(None)}
        rows = [(text.casefold(), frozenset(row)) for text, row in zip(texts, labels, strict=True)]
        repeated = [j + 1 for j, row in enumerate(rows) if row in rows[:j]]
        contrary = {a[0] for a, b in combinations(rows, 2) if a[0] == b[0] and a[1] != b[1]}
        assert list(result["duplicates"].everything) == repeated
        assert result["contradictions"].count == len(contrary)


def test_a_record_takes_a_few_bytes() -> None:
    records = Records()
    tracemalloc.start()
    for part in range(2):
        records.take([f"{part} {'text ' * 200} {number}" for number in range(250)], [["a"]] * 250)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 100 * records.n_rows


@pytest.mark.parametrize(("text", "script"), [
    ("Whales", "Latin"), ("Straße", "Latin"), ("Война и мир", "Cyrillic"), ("Ἰλιάς", "Greek"), ("किताब", "Devanagari"),
    ("鯨 of the sea 鯨", "Latin"), ("白鯨", "CJK"), ("1984 !", ""),
])  # fmt: skip
def test_the_script_of_a_text(text: str, script: str) -> None:
    assert script_of(text) == script


def test_what_is_printed(call: Any) -> None:
    data.write_records("rows.jsonl", [*SOUND, {"text": "whales 1", "labels": ["Baking"]}])
    lines = call("check rows.jsonl -q").out.splitlines()
    assert lines[0] == "rows.jsonl: 7 records with 2 subjects, 1.00 a record."
    assert lines[2] == (
        "Note: 1 text stands there again with other subjects. Record 7, 'whales 1': 'Baking'; record 2: 'Whaling'. Say "
        "which are right, or join them."
    )
    assert "records without text" in lines[-1] and "vocabulary" not in lines[-1] and len(lines) == 4
