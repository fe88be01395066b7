"""Annif's corpora and vocabularies as libraries have them: the bytes of files, a command, and the right value."""

import bz2
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kit.errors import raises

from sylvan import data
from sylvan.errors import DataError

Files = Mapping[str, bytes | str]
BOM = b"\xef\xbb\xbf"


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
def test_uris_have_no_brackets(kind: str, call: Any) -> None:
    name, content, options = CORPORA[kind]
    write({name: content})
    call(f"convert {name} rows.jsonl {options}")
    assert [row["labels"] for row in read_rows("rows.jsonl")] == [["http://x/1", "http://x/2"], ["http://x/2"]]
    call(f"convert {name} out.tsv --to annif-tsv {options}")
    assert Path("out.tsv").read_text().splitlines()[1] == "bread\t<http://x/2>"
    call(f"train neighbors {name} --model m -q {options}")
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
def test_notations_are_no_words(kind: str, call: Any) -> None:
    name, content = NOTATIONS[kind]
    if name.endswith("ttl"):
        pytest.importorskip("rdflib")
    write({name: content})
    call(f"train lexical --label-texts {name} --model m")
    assert call("predict m", stdin=b"641 TX 641 591 76.9 pages\nbread of 591 pages\n").labels == [[], ["http://x/2"]]
    assert call(f"predict m --vocabulary {name}", stdin=b"bread\n").labels == [["bread"]]


def test_a_third_column_of_names_is_said(call: Any) -> None:
    write({"v.tsv": "<http://x/1>\twhales\tcetaceans\n<http://x/2>\tbread\t\n"})
    write({"w.tsv": "Whaling\twhales\tcetaceans\n"})
    done = call("train lexical --label-texts v.tsv --model m")
    assert "the third column is read as further names" in done.err and "'cetaceans'" in done.err
    assert call("predict m", stdin=b"cetaceans\n").labels == [["http://x/1"]]
    done = call("train lexical --label-texts w.tsv --model w")
    assert done.err == "" and call("predict w", stdin=b"cetaceans\n").labels == [["Whaling"]]


WRONG_TABLES: dict[str, tuple[str, str]] = {
    "two columns of one name": (
        "uri,label_en,label_en\nu:1,a,b\n",
        "line 1: the columns 2 and 3 are both called 'label_en'",
    ),
    "lines that end in CR": ("uri,label\ru:1,whales\ru:2,bread\r", "line 1: lines must end in LF or CRLF, not CR"),
    "a comma without quotes": ("uri,label_en\nu:1,Smith, John\n", "line 2: the row has 3 cells, but the header has 2"),
    "no header": ("http://x/1,whales\n", "line 1: the header must name the columns uri and label"),
    "one URI twice": ("uri,label\n<u:1>,a\nu:1,b\n", "line 3: the URI 'u:1' stands there twice"),
}


@pytest.mark.parametrize("kind", WRONG_TABLES)
def test_tables_at_fault_are_refused(kind: str, refused: Any) -> None:
    content, words = WRONG_TABLES[kind]
    write({"v.csv": content})
    refused(words, "train lexical --label-texts v.csv --model m")


@pytest.mark.parametrize("header", ["", "uri\tlabel\r"])
def test_lines_that_end_in_cr_are_refused(header: str, refused: Any, call: Any) -> None:
    write({"v.tsv": f"{header}y\tWhy\rz\tZed\r", "c/a.txt": "whale", "c/a.key": "whales\rsea\r"})
    said = refused("v.tsv, line 1: ", "train lexical --label-texts v.tsv --model m")
    assert "LF or CRLF" in said or "not a row of CSV (new-line" in said
    refused("a.key, line 1: lines must end in LF or CRLF", "train neighbors c --model m")


@pytest.mark.parametrize("content", ["<u:1>\tKöln\n", '{"uri": "u:1", "label": "Köln"}\n', "uri,label\nu:1,Köln\n"])
def test_a_vocabulary_in_another_encoding_has_a_way_out(content: str, refused: Any, call: Any) -> None:
    name = "v.tsv" if "<" in content else "v.jsonl" if "{" in content else "v.csv"
    write({"t.jsonl": '{"text": "whale", "labels": ["u:1"]}\n', name: content.encode("cp1252")})
    call("train neighbors t.jsonl --model m -q")
    for option in ("", " --encoding utf-8"):
        refused("iconv -f cp1252 -t utf-8", f"predict m t.jsonl --vocabulary {name}{option}")
    assert data.read_subjects(data.EncodedPath(name, "cp1252")).label("u:1") == "Köln"
    write({name: Path(name).read_bytes().decode("cp1252")})
    assert call(f"predict m t.jsonl -k 1 --vocabulary {name}").labels == [["Köln"]]


@pytest.mark.parametrize("form", ["v.nt.bz2", "v.jsonl.bz2", "texts.jsonl.bz2"])
def test_a_packed_vocabulary_is_what_its_name_says(form: str, call: Any) -> None:
    if "nt" in form:
        pytest.importorskip("rdflib")
    content = {
        "v.nt.bz2": RDF["N-Triples with a byte order mark"][1].replace("leipä".encode(), b"bread"),
        "v.jsonl.bz2": b'{"uri": "http://x/1", "label": "bread"}\n',
        "texts.jsonl.bz2": b'{"label": "http://x/1", "text": "bread"}\n',
    }[form]  # fmt: skip
    write({form: bz2.compress(content)})
    call(f"train lexical --label-texts {form} --model m")
    assert call(f"predict m --vocabulary {form}", stdin=b"bread\n").labels == [["bread"]]


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
def test_skos_is_read_as_it_is(kind: str, call: Any) -> None:
    pytest.importorskip("rdflib")
    name, content = RDF[kind]
    write({name: content})
    done = call(f"train lexical --label-texts {name} --model m")
    assert "knows 1 label" in done.out
    assert ("imports http://other, which isn't fetched" in done.err) == (kind == "something imported")
    found = call(f"predict m --vocabulary {name}", stdin="leipä\nleipa\u0308\n".encode()).labels
    assert found == [["leipä"], ["leipä"]]


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
        "v.rdf", ('<!DOCTYPE r [<!ENTITY a "' + "b" * 99_999 + '">' + "".join(
            f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 50}">' for i in range(6)) + "]>"
            + XML.replace("leipä", "&g;")).encode(), "not xml"),
}  # fmt: skip


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("kind", REFUSED)
def test_what_belongs_to_a_vocabulary_from_elsewhere_is_refused(kind: str, refused: Any) -> None:
    pytest.importorskip("rdflib")
    name, content, words = REFUSED[kind]
    write({name: content})
    assert refused(words, f"train lexical --label-texts {name} --model m").count("\n") == 1


# ------------------------------------------------- languages

TIE = SKOS + (
    'x:1 a s:Concept ; s:prefLabel "roads"@en, "tie"@fi .\n'
    'x:2 a s:Concept ; s:prefLabel "neckwear"@en, "solmio"@fi ; s:altLabel "tie"@en .\n'
    'x:3 a s:Concept ; s:prefLabel "snow"@en, "lumi"@fi .\n'
)
LANGUAGES: dict[str, tuple[str, str]] = {
    "SKOS": ("v.ttl", TIE),
    "SKOS of other kinds of a language": ("v.ttl", TIE.replace("@en", "@en-GB")),
    "SKOS in capitals": ("v.ttl", TIE.replace("@en", "@EN")),
    "CSV": ("v.csv", "uri,label_en,label_fi,alternative_en\nhttp://x/1,roads,tie,\nhttp://x/2,neckwear,solmio,tie\n"
            "http://x/3,snow,lumi,\n"),
    "CSV, with a script": ("v.csv", "uri,label_en_GB,label_fi,alternative_en_GB\nhttp://x/1,roads,tie,\n"
                           "http://x/2,neckwear,solmio,tie\nhttp://x/3,snow,lumi,\n"),
    "JSON lines": ("v.jsonl", '{"uri": "http://x/1", "label_en": "roads", "label_fi": "tie"}\n'
                   '{"uri": "http://x/2", "label_en": ["neckwear", "tie"], "label_fi": "solmio"}\n'
                   '{"uri": "http://x/3", "label_en": "snow", "label_fi": "lumi"}\n'),
}  # fmt: skip


@pytest.mark.parametrize("kind", LANGUAGES)
def test_the_language_that_is_asked_for_counts(kind: str, call: Any, refused: Any) -> None:
    name, content = LANGUAGES[kind]
    if name.endswith("ttl"):
        pytest.importorskip("rdflib")
    write({name: content})
    for language, uri, title in (("en", "http://x/2", "neckwear"), ("fi", "http://x/1", "tie")):
        done = call(f"train lexical --label-texts {name} --model m-{language} --language {language}")
        assert done.err == ""
        assert call(f"predict m-{language}", stdin=b"a tie\n").labels == [[uri]]
        done = call(f"predict m-{language} --vocabulary {name} --language {language.upper()}", stdin=b"a tie\n")
        assert done.labels == [[title]] and "Warning" not in done.err
    done = call(f"train lexical --label-texts {name} --model m")
    assert "in several languages (en" in done.err.lower() and "--language" in done.err
    assert "'tie' names http://x/1 and http://x/2" in done.err
    done = call(f"predict m --vocabulary {name}", stdin=b"snow\n")
    assert done.labels == [["snow"]] and ", fi)" in done.err and "--language" in done.err
    for command in (f"train lexical --label-texts {name} --model n", f"predict m --vocabulary {name}"):
        refused("has no labels in the language 'sv': its languages are ", f"{command} --language sv")


def test_one_language_needs_none_to_be_asked_for(call: Any, refused: Any) -> None:
    write({"v.csv": "uri,label_en,label_en-GB\nu:1,color,colour\n", "v.tsv": "<u:1>\tcolor\n"})
    assert call("train lexical --label-texts v.csv --model m").err == ""
    assert call("train lexical --label-texts v.csv --model n --language en-gb").err == ""
    assert call("predict n --vocabulary v.csv --language en-GB", stdin=b"colour\n").labels == [["colour"]]
    assert call("predict n --vocabulary v.tsv --language en", stdin=b"colour\n").labels == [["color"]]
    write({"t.jsonl": '{"text": "colour", "labels": ["color"]}\n'})
    lexical = "train lexical t.jsonl --label-texts names --model o --language en"
    refused("--language is for the names of a vocabulary", lexical)


# ------------------------------------------------- folders

FOLDERS: dict[str, Files] = {  # two texts each, "whale ship" of http://x/1 and "bread" of http://x/2
    "as Annif has it": {"a.txt": "whale ship", "a.tsv": "<http://x/1>\tw\n", "b.txt": "bread", "b.tsv": "<http://x/2>\tb"},
    "suffixes in capitals": {"a.TXT": "whale ship", "a.TSV": "<http://x/1>\tw", "b.Txt": "bread", "b.tsv": "http://x/2\tb"},
    "stems in capitals": {"A.TXT": "whale ship", "a.tsv": "<http://x/1>\tw", "b.txt": "bread", "B.TSV": "<http://x/2>\tb"},
    "a byte order mark": {"a.txt": BOM + b"whale ship", "a.tsv": BOM + b"<http://x/1>\tw", "b.txt": "bread",
                          "b.tsv": "http://x/2\r\n"},
    "JSON": {"a.json": '{"text": "whale ship", "subjects": [{"uri": "<http://x/1>"}]}', "b.txt": "bread",
             "b.tsv": "<http://x/2>"},
    "hidden files": {"a.txt": "whale ship", "a.tsv": "<http://x/1>\tw", "b.txt": "bread", "b.tsv": "<http://x/2>\tb",
                     "._a.txt": b"\x00\xff", ".DS_Store": b"\x00"},
}  # fmt: skip


@pytest.mark.parametrize("kind", FOLDERS)
def test_folders_and_the_names_of_their_files(kind: str, call: Any) -> None:
    files = FOLDERS[kind]
    write({f"corpus/{name}": content for name, content in files.items()})
    names = sorted(name for name in files if name.lower().endswith((".txt", ".json")) and not name.startswith("."))
    done = call("train neighbors corpus --model m")
    assert "Read 2 rows from corpus" in done.err and "passed over" not in done.err
    done = call("predict m corpus -k 1")
    assert [json.loads(line)["file"] for line in done.out.splitlines()] == names
    assert done.labels == [["http://x/1"], ["http://x/2"]]
    call("predict m corpus -k 1 -o top.csv")
    table = [line.split(",")[:4] for line in Path("top.csv").read_text().splitlines()]
    assert table == [
        ["row", "file", "rank", "label"],
        ["0", names[0], "1", "http://x/1"],
        ["1", names[1], "1", "http://x/2"],
    ]
    call("convert corpus rows.jsonl")
    assert read_rows("rows.jsonl") == [
        {"text": "whale ship", "labels": ["http://x/1"], "file": names[0]},
        {"text": "bread", "labels": ["http://x/2"], "file": names[1]},
    ]
    call("evaluate m corpus -k 1 -q")


def test_a_folder_of_texts_alone_is_answered(call: Any, refused: Any) -> None:
    write({"t.jsonl": '{"text": "whale ship", "labels": ["w"]}\n{"text": "bread", "labels": ["b"]}\n'})
    write({"new/one.txt": "the whale\n\nand its\tship\n", "new/two.TXT": "bread", "new/notes.pdf": b"%PDF"})
    call("train neighbors t.jsonl --model m -q")
    done = call("predict m new -k 1")
    assert [json.loads(line)["file"] for line in done.out.splitlines()] == ["one.txt", "two.TXT"]
    assert done.labels == [["w"], ["b"]]
    assert "1 file passed over, such as notes.pdf" in done.err
    write({"new/one.pdf": b"%PDF", "new/two.top.csv": "x", "new/one-more.rtf": "x", "new/on.csv": "x"})
    assert "3 files passed over, such as notes.pdf" in call("predict m new -k 1").err
    refused("one.txt: the text has no file of subjects, one.tsv or one.key", "train neighbors new --model n")


@pytest.mark.parametrize("options", ["", "--texts-only"])
def test_a_folder_of_a_folder_has_the_names_of_its_files(options: str, call: Any) -> None:
    files = {"b.1.txt": "whale", "b.1.key": "whales\n", "Ä b.TXT": "bread", "Ä b.key": "bread\n",
             "c.json": '{"text": "sea", "subjects": [{"label": "whales"}]}'}  # fmt: skip
    write({f"corpus/{name}": content for name, content in files.items()})
    call(f"convert corpus out --to annif-folder {options}")
    assert sorted(path.name for path in Path("out").glob("*.txt")) == ["b.1.txt", "c.txt", "Ä b.txt"]
    assert Path("out/Ä b.key").read_text("utf-8") == ("" if options else "bread\n")
    call("convert out again.jsonl")
    assert [row["text"] for row in map(json.loads, Path("again.jsonl").read_text("utf-8").splitlines())] == [
        "whale", "sea", "bread",
    ]  # fmt: skip


@pytest.mark.parametrize("names", [["a.txt", "a.json"], ["../a.txt"], ["sub/a.txt"]])
def test_names_of_files_lie_in_the_folder(names: list[str], tmp_path: Path) -> None:
    others = [{"file": name} for name in names]
    with raises(DataError, "file"):
        data.write_annif_folder(tmp_path / "out", ["x"] * len(names), others=others)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("n", [1, 3])
def test_names_of_files_are_those_of_all_texts(n: int, tmp_path: Path) -> None:
    with raises(DataError, "fields"):
        data.write_annif_folder(tmp_path / "out", ["x", "y"], others=[{"file": f"{i}.txt"} for i in range(n)])
    assert not list(tmp_path.iterdir())


def test_one_text_in_two_files_is_refused(refused: Any) -> None:
    write({"corpus/a.txt": "whale", "corpus/a.TXT": "bread", "corpus/a.key": "w"})
    refused("the folder holds both a.TXT and a.txt", "train neighbors corpus --model m")


VOCABULARY = "<http://x/1>\twhales\n<http://x/2>\tbread\n"
UNKNOWN: dict[str, tuple[Files, str]] = {  # a corpus whose third subject the vocabulary lacks
    "labels": ({"a.txt": "whale", "a.key": "whales\n", "b.txt": "bread", "b.key": "bread\nunicorns\n"},
               "1 subject (in 1 of the rows' labels) is not in the vocabulary and left out, such as 'unicorns'"),
    "both kinds": ({"a.txt": "whale", "a.tsv": "<http://x/1>\n", "b.txt": "bread",
                    "b.key": "bread\nunicorns\ndragons\n"},
                   "2 subjects (in 2 of the rows' labels) are not in the vocabulary and left out"),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNKNOWN)
def test_subjects_that_the_vocabulary_lacks_are_counted(kind: str, call: Any) -> None:
    files, words = UNKNOWN[kind]
    write({"v.tsv": VOCABULARY, **{f"corpus/{name}": content for name, content in files.items()}})
    done = call("train neighbors corpus --model m --vocabulary v.tsv")
    assert words in done.err
    assert call("predict m corpus -k 1 --vocabulary v.tsv").labels == [["whales"], ["bread"]]
    call("convert corpus out.tsv --to annif-tsv --vocabulary v.tsv")
    assert Path("out.tsv").read_text() == "whale\t<http://x/1>\nbread\t<http://x/2>\n"
    call("evaluate m corpus -k 1 -q --vocabulary v.tsv")


def test_uris_that_the_vocabulary_lacks_stay_and_are_counted(call: Any) -> None:
    write({"v.tsv": VOCABULARY, "a.tsv": "whale\t<http://x/1> <http://x/9>\nbread\t<http://x/2>\n"})
    done = call("convert a.tsv b.jsonl --vocabulary v.tsv")
    assert "kept by URI, such as 'http://x/9'" in done.err
    assert read_rows("b.jsonl")[0]["labels"] == ["http://x/1", "http://x/9"]
    write({"c.jsonl": '{"text": "whale", "labels": [["whales", 0.5], ["unicorns", 1]]}\n'})
    done = call("convert c.jsonl d.jsonl --vocabulary v.tsv")
    assert read_rows("d.jsonl")[0]["labels"] == [["http://x/1", 0.5]] and "left out, such as 'unicorns'" in done.err


# ------------------------------------------------- one file of text is one text


def test_a_file_of_text_is_one_text_unless_lines_are_asked_for(call: Any, refused: Any) -> None:
    write({"t.jsonl": '{"text": "whale ship", "labels": ["w"]}\n{"text": "bread", "labels": ["b"]}\n'})
    call("train neighbors t.jsonl --model m -q")
    write({"one.txt": "The whale.\n\nThe ship.\n", "line.txt": "bread\n", "no-suffix": "whale\nship\n"})
    done = call("predict m one.txt -k 1")
    assert done.labels == [["w"]] and json.loads(done.out)["file"] == "one.txt"
    assert "one.txt: all lines are read as one text (--format lines reads a text a line)" in done.err
    done = call("predict m line.txt -k 1")
    assert done.labels == [["b"]] and "--format lines" not in done.err
    assert len(call("predict m no-suffix -k 1").labels) == 1
    assert len(call("predict m one.txt -k 1 --format lines").labels) == 3
    write({"one.lines": "The whale.\nbread\n"})
    assert call("predict m one.lines -k 1").labels == [["w"], ["b"]]
    assert call("predict m -k 1", stdin=b"whale\nbread\n").labels == [["w"], ["b"]], "lines of stdin are texts"
    assert call("predict m - -k 1 --format text", stdin=b"whale\nship\n").labels == [["w"]]
    call("convert one.txt one.jsonl")
    assert read_rows("one.jsonl") == [{"text": "The whale.\n\nThe ship.\n", "labels": [], "file": "one.txt"}]
    refused("one.txt is one text and holds no labels", "train neighbors one.txt --model n")
