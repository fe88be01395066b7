"""Annif's corpora and vocabularies as libraries have them: the bytes of files, a command, and the right value."""

from __future__ import annotations

import io
import json
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sylvan.cli import main

Files = Mapping[str, bytes | str]
BOM = b"\xef\xbb\xbf"


class Outcome(NamedTuple):
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def labels(self) -> list[list[str]]:
        """The labels of each row of an answer in JSON lines."""
        return [json.loads(line)["labels"] for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run a command in this process: ``call("predict model -", stdin="...")``."""

    def run(words: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin.encode()))))
        capsys.readouterr()
        code = main(words.split())
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err and "went wrong inside" not in captured.err
        return Outcome(code, captured.out, captured.err)

    return run


def write(files: Files) -> None:
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def read_rows(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


# ------------------------------------------------- URIs in angle brackets are bare URIs everywhere

CORPORA: dict[str, tuple[str, str, str]] = {  # name of the file, what is in it, further options
    "TSV": ("a.tsv", "whale sea\t<http://x/1> <http://x/2>\nbread\t<http://x/2>\n", ""),
    "TSV without brackets": ("a.tsv", "whale sea\thttp://x/1 <http://x/2>\nbread\thttp://x/2\n", "--format annif-tsv"),
    "Annif's CSV": ("a.csv", "text,subject_uris\nwhale sea,<http://x/1> <http://x/2>\nbread,<http://x/2>\n", ""),
    "CSV": ("a.csv", "text,labels\nwhale sea,<http://x/1>;http://x/2\nbread,<http://x/2>\n", ""),
    "JSON lines": ("a.jsonl", '{"text": "whale sea", "subjects": [{"uri": "<http://x/1>"}, {"uri": "http://x/2"}]}\n'
                   '{"text": "bread", "subjects": [{"uri": "<http://x/2>"}]}\n', ""),
    "JSON lines of labels": ("a.jsonl", '{"text": "whale sea", "labels": ["<http://x/1>", "http://x/2"]}\n'
                             '{"text": "bread", "labels": "<http://x/2>"}\n', ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", CORPORA)
def test_uris_have_no_brackets(kind: str, call: Callable[..., Outcome]) -> None:
    name, content, options = CORPORA[kind]
    write({name: content})
    assert call(f"convert {name} rows.jsonl {options}").code == 0
    assert [row["labels"] for row in read_rows("rows.jsonl")] == [["http://x/1", "http://x/2"], ["http://x/2"]]
    assert call(f"convert {name} out.tsv --to annif-tsv {options}").code == 0
    assert Path("out.tsv").read_text().splitlines()[1] == "bread\t<http://x/2>"
    assert call(f"train neighbors {name} --model m -q {options}").code == 0
    assert call(f"predict m {name} -k 1 {options}").labels[1] == ["http://x/2"]
    write({"bare.jsonl": '{"text": "bread", "labels": ["http://x/2"]}\n'})
    assert "P   100.00" in call("evaluate m bare.jsonl -k 1 -q").out.replace(" " * 7, " " * 3)


# ------------------------------------------------- vocabularies: what is a word of a label

NOTATIONS: dict[str, tuple[str, str]] = {
    "TSV": ("v.tsv", "<http://x/1>\twhales\t591\n<http://x/2>\tbread\t641\n"),
    "TSV, bare URIs": ("v.tsv", "http://x/1\twhales\t591\nhttp://x/2\tbread\t641\n"),
    "TSV, some without": ("v.tsv", "<http://x/1>\twhales\n<http://x/2>\tbread\t641\n"),
    "TSV, letters": ("v.tsv", "<http://x/1>\twhales\tQA 76.9\n<http://x/2>\tbread\tTX-641\n"),
    "TSV, packed": ("v.tsv", "<http://x/1>\twhales\t591\r\n<http://x/2>\tbread\t641\r\n"),
    "TSV with a header": ("v.tsv", "uri\tlabel_en\tnotation\n<http://x/1>\twhales\t591\n<http://x/2>\tbread\t641\n"),
    "CSV": ("v.csv", "uri,notation,label_en\nhttp://x/1,591,whales\n<http://x/2>,641,bread\n"),
    "CSV of Excel": ("v.csv", "URI;notation;label_en\nhttp://x/1;591;whales\n<http://x/2>;641;bread\n"),
    "JSON lines": ("v.jsonl", '{"uri": "http://x/1", "label": "whales", "notation": "591"}\n'
                   '{"uri": "<http://x/2>", "label": "bread", "notation": "641"}\n'),
    "SKOS": ("v.ttl", '@prefix s: <http://www.w3.org/2004/02/skos/core#> . @prefix x: <http://x/> .\n'
             'x:1 a s:Concept; s:prefLabel "whales"@en; s:notation "591" .\n'
             'x:2 a s:Concept; s:prefLabel "bread"@en; s:notation "641" .\n'),
}  # fmt: skip


@pytest.mark.parametrize("kind", NOTATIONS)
def test_notations_are_no_words(kind: str, call: Callable[..., Outcome]) -> None:
    name, content = NOTATIONS[kind]
    if name.endswith("ttl"):
        pytest.importorskip("rdflib")
    write({name: content})
    assert call(f"train lexical --label-texts {name} --model m").code == 0
    assert call("predict m", "641 TX 641 591 76.9 pages\nbread of 591 pages\n").labels == [[], ["http://x/2"]]
    assert call(f"predict m --vocabulary {name}", "bread\n").labels == [["bread"]]


def test_a_third_column_of_names_is_said(call: Callable[..., Outcome]) -> None:
    write({"v.tsv": "<http://x/1>\twhales\tcetaceans\n<http://x/2>\tbread\t\n"})
    write({"w.tsv": "Whaling\twhales\tcetaceans\n"})
    done = call("train lexical --label-texts v.tsv --model m")
    assert done.code == 0 and "the third column is read as further names" in done.err and "'cetaceans'" in done.err
    assert call("predict m", "cetaceans\n").labels == [["http://x/1"]]
    done = call("train lexical --label-texts w.tsv --model w")
    assert done.err == "" and call("predict w", "cetaceans\n").labels == [["Whaling"]]


WRONG_TABLES: dict[str, tuple[str, str]] = {
    "two columns of one name": ("uri,label_en,label_en\nu:1,a,b\n", "line 1: two columns are called 'label_en'"),
    "a comma without quotes": ("uri,label_en\nu:1,Smith, John\n", "line 2: the row has 3 cells, but the header has 2"),
    "no header": ("http://x/1,whales\n", "line 1: the header must name the columns uri and label"),
    "one URI twice": ("uri,label\n<u:1>,a\nu:1,b\n", "line 3: the URI 'u:1' stands there twice"),
}


@pytest.mark.parametrize("kind", WRONG_TABLES)
def test_tables_at_fault_are_refused(kind: str, call: Callable[..., Outcome]) -> None:
    content, words = WRONG_TABLES[kind]
    write({"v.csv": content})
    done = call("train lexical --label-texts v.csv --model m")
    assert done.code == 2 and words in done.err


# ------------------------------------------------- SKOS: bytes as they are, and nothing from elsewhere

SKOS = "@prefix s: <http://www.w3.org/2004/02/skos/core#> . @prefix x: <http://x/> .\n"
PREFIXES = SKOS + (
    "@prefix xl: <http://www.w3.org/2008/05/skos-xl#> . @prefix r: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    "@prefix o: <http://www.w3.org/2002/07/owl#> .\n"
)
BREAD = SKOS + 'x:1 a s:Concept; s:prefLabel "leipä"@fi .\n'
XML = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:s="http://www.w3.org/2004/02/skos/core#">'
    '<s:Concept rdf:about="http://x/1"><s:prefLabel xml:lang="fi">leipä</s:prefLabel></s:Concept></rdf:RDF>'
)
JSON_LD = (
    '{"@context": {"s": "http://www.w3.org/2004/02/skos/core#"}, "@id": "http://x/1", "@type": "s:Concept", '
    '"s:prefLabel": {"@value": "leipä", "@language": "fi"}}'
)
DOCTYPE = '<!DOCTYPE rdf:RDF [<!ENTITY b "leip&#228;">]>'

RDF: dict[str, tuple[str, bytes]] = {  # each has one concept, http://x/1, called leipä
    "Turtle": ("v.ttl", BREAD.encode()),
    "Turtle with a byte order mark": ("v.ttl", BOM + BREAD.encode()),
    "Turtle in UTF-16": ("v.ttl", BREAD.encode("utf-16")),
    "Turtle, decomposed": ("v.ttl", BREAD.replace("ä", "a\u0308").encode()),
    "N3 with a byte order mark": ("v.n3", BOM + BREAD.encode()),
    "N-Triples with a byte order mark": ("v.nt", BOM + (
        "<http://x/1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/2004/02/skos/core#Concept> "
        '.\n<http://x/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "leipä"@fi .\n').encode()),
    "JSON-LD with a byte order mark": ("v.jsonld", BOM + JSON_LD.encode()),
    "RDF/XML": ("v.rdf", XML.encode()),
    "RDF/XML with a byte order mark": ("v.rdf", BOM + XML.encode()),
    "RDF/XML in Latin-1": ("v.rdf", f'<?xml version="1.0" encoding="ISO-8859-1"?>{XML}'.encode("latin-1")),
    "RDF/XML in Windows-1252": ("v.rdf", f'<?xml version="1.0" encoding="windows-1252"?>{XML}'.encode("cp1252")),
    "RDF/XML in UTF-16": ("v.xml", f'<?xml version="1.0" encoding="UTF-16"?>{XML}'.encode("utf-16")),
    "RDF/XML with an entity": ("v.owl", (DOCTYPE + XML.replace("leipä", "&b;")).encode()),
    "SKOS-XL": ("v.ttl", (PREFIXES + 'x:1 a s:Concept; xl:prefLabel [xl:literalForm "leipä"@fi] .').encode()),
    "rdfs:label": ("v.ttl", (PREFIXES + 'x:1 a s:Concept; r:label "leipä"@fi .').encode()),
    "rdfs:label beside SKOS": (
        "v.ttl", (PREFIXES + 'x:1 a s:Concept; r:label "Leipä (1)"@fi; s:prefLabel "leipä"@fi .').encode()),
    "a class below skos:Concept": (
        "v.ttl", (PREFIXES + 'x:T r:subClassOf x:U. x:U r:subClassOf s:Concept. x:1 a x:T; s:prefLabel "leipä"@fi .')
        .encode()),
    "a deprecated concept": (
        "v.ttl", (BREAD + PREFIXES + "x:2 a s:Concept; o:deprecated true .").encode()),
    "something imported": (
        "v.ttl", (BREAD + PREFIXES + "<http://v> o:imports <http://other>.").encode()),
}  # fmt: skip


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any use of the network fails the test."""

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a vocabulary reached for the network")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("kind", RDF)
def test_skos_is_read_as_it_is(kind: str, call: Callable[..., Outcome]) -> None:
    pytest.importorskip("rdflib")
    name, content = RDF[kind]
    write({name: content})
    done = call(f"train lexical --label-texts {name} --model m")
    assert done.code == 0 and "knows 1 label" in done.out
    assert ("imports http://other, which isn't fetched" in done.err) == (kind == "something imported")
    assert call(f"predict m --vocabulary {name}", "leipä\nleipa\u0308\n").labels == [["leipä"], ["leipä"]]


REFUSED: dict[str, tuple[str, bytes, str]] = {
    "a context elsewhere": ("v.jsonld", b'{"@context": "https://x/c.jsonld", "@id": "http://x/1"}', "'https://x/c.jsonld'"),
    "a context in a list": ("v.jsonld", b'[{"@context": [{"a": "http://a"}, "c.json"], "@id": "u:1"}]', "'c.json'"),
    "a context in a context": (
        "v.jsonld", b'{"@context": {"a": {"@id": "u:a", "@context": "file:///etc/c"}}, "@id": "u:1"}', "'file:///etc/c'"),
    "a context that imports": ("v.jsonld", b'{"@context": {"@import": "http://x/c"}, "@id": "u:1"}', "'http://x/c'"),
    "an entity of a file": (
        "v.rdf", ('<!DOCTYPE r [<!ENTITY b SYSTEM "file:///etc/hostname">]>' + XML.replace("leipä", "&b;")).encode(),
        "'file:///etc/hostname'"),
    "entities from elsewhere": (
        "v.rdf", ('<!DOCTYPE rdf:RDF [<!ENTITY % b SYSTEM "http://x/e"> %b;]>' + XML).encode(), "'http://x/e'"),
    "a document type elsewhere": ("v.rdf", ('<!DOCTYPE rdf:RDF SYSTEM "http://x/d">' + XML).encode(), "'http://x/d'"),
    "relative URIs": ("v.ttl", BREAD.replace("x:1", "<bread>").encode(), "'bread' has no full URI"),
    "Turtle in Latin-1": ("v.ttl", BREAD.encode("latin-1"), "turtle must be UTF-8"),
    "no concepts": ("v.ttl", BREAD.replace("s:Concept", "x:Thing").encode(), "1 thing of the type http://x/Thing"),
    "no RDF": ("v.rdf", b"<collection/>", "holds no subjects"),
    "an entity within an entity, many times over": (
        "v.rdf", ('<!DOCTYPE r [<!ENTITY a "' + "b" * 999 + '">' + "".join(
            f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 50}">' for i in range(6)) + "]>"
            + XML.replace("leipä", "&g;")).encode(), "not xml"),
}  # fmt: skip


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("kind", REFUSED)
def test_what_belongs_to_a_vocabulary_from_elsewhere_is_refused(kind: str, call: Callable[..., Outcome]) -> None:
    pytest.importorskip("rdflib")
    name, content, words = REFUSED[kind]
    write({name: content})
    done = call(f"train lexical --label-texts {name} --model m")
    assert done.code == 2 and words in done.err and done.err.count("\n") == 1
