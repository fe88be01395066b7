"""What vocabularies, files and callers say of subjects and labels beside their names: texts, other names, relations."""

import bz2
import csv
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from kit.errors import raises

from sylvan import data
from sylvan.data import LabelTerms, SubjectVocabulary
from sylvan.data.formats.subjects import by_uris
from sylvan.data.label_terms import label_terms
from sylvan.errors import DataError, DataWarning

SKOS = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<urn:x:1> a skos:Concept ; skos:prefLabel "whaling"@en, "valaanpyynti"@fi ;
  skos:altLabel "whale hunting"@en, "hunting of whales"@en, "Walfang"@de ; skos:hiddenLabel "whalling"@en ;
  skos:definition "The hunting of whales."@en ; skos:broader <urn:x:2> ; skos:related <urn:x:3> .
<urn:x:2> a skos:Concept ; skos:prefLabel "hunting" ; skos:narrower <urn:x:4> .
<urn:x:3> a skos:Concept ; skos:prefLabel "ships"@en .
<urn:x:4> a skos:Concept ; skos:prefLabel "falconry"@en ; skos:broader <urn:x:9> .
"""

ROWS = [
    {"uri": "<urn:x:1>", "label_en": "whaling", "label_fi": "valaanpyynti",
     "alternative_en": "hunting of whales|whale hunting", "alternative_de": "Walfang", "hidden_en": "whalling",
     "definition_en": "The hunting of whales.", "broader": "urn:x:2", "related": "urn:x:3"},
    {"uri": "urn:x:2", "label": "hunting", "narrower": "urn:x:4"},
    {"uri": "urn:x:3", "label_en": "ships", "related": "urn:x:1"},
    {"uri": "urn:x:4", "label_en": "falconry"},
]  # fmt: skip


def written(folder: Path, form: str) -> Path:
    """The same vocabulary in one of the formats."""
    path = folder / f"subjects.{form}"
    if form == "ttl":
        path.write_text(SKOS)
    elif form == "csv":
        names = list(dict.fromkeys(name for row in ROWS for name in row))
        with open(path, "w", newline="") as file:
            table = csv.DictWriter(file, names)
            table.writeheader()
            table.writerows(ROWS)
    else:
        lists = ("alternative_en", "broader")
        path.write_text("\n".join(
            json.dumps({name: text.split("|") if name in lists else text for name, text in row.items()}) for row in ROWS
        ))  # fmt: skip
    return path


@pytest.mark.parametrize("form", ["ttl", "csv", "jsonl"])
def test_all_that_is_known_of_subjects_is_read(tmp_path: Path, form: str) -> None:
    if form == "ttl":
        pytest.importorskip("rdflib")
    found = data.read_subjects(written(tmp_path, form))
    assert found.labels["urn:x:1"] == {"en": "whaling", "fi": "valaanpyynti"}
    assert found.alternative == {"urn:x:1": {"en": ("hunting of whales", "whale hunting"), "de": ("Walfang",)}}
    assert found.hidden == {"urn:x:1": {"en": ("whalling",)}}
    assert found.definitions == {"urn:x:1": {"en": ("The hunting of whales.",)}}
    assert found.broader == {"urn:x:1": ("urn:x:2",), "urn:x:4": ("urn:x:2",)}
    assert found.related == {"urn:x:1": ("urn:x:3",), "urn:x:3": ("urn:x:1",)}


def test_terms_of_one_language_and_of_all(tmp_path: Path) -> None:
    found = data.read_subjects(written(tmp_path, "csv"))
    assert found.terms("en")["urn:x:1"] == LabelTerms(
        ("whaling",), ("hunting of whales", "whale hunting"), ("whalling",), ("The hunting of whales.",), ("urn:x:2",),
        ("urn:x:3",),
    )  # fmt: skip
    assert found.terms("fi")["urn:x:1"].names == ("valaanpyynti",)
    assert found.terms("fi")["urn:x:2"].preferred == ("hunting",), "a text without a language is one in any"
    assert set(found.terms()["urn:x:1"].names) == {
        "whaling", "valaanpyynti", "hunting of whales", "whale hunting", "Walfang", "whalling"
    }  # fmt: skip


def test_subjects_by_their_labels() -> None:
    subjects = SubjectVocabulary(
        {"u:1": {"en": "whaling"}, "u:2": {"en": "hunting"}, "u:3": {"en": "whaling"}, "u:4": {}},
        {"u:1": ["u:2", "u:4"], "u:3": ["u:4"]}, alternative={"u:1": {"en": ["hunt"]}}, related={"u:2": ["u:3"]},
    )  # fmt: skip
    found = subjects.by_label()
    assert list(found) == ["whaling", "hunting"], "of two with one label the first, and none without"
    assert found.broader == {"whaling": ("hunting",)} and found.related == {"hunting": ("whaling",)}
    assert found.terms()["whaling"].alternative == ("hunt",)


def test_several_labels_of_one_language_are_other_names(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"uri": "u:1", "label": ["whaling", "whale hunting"], "alternative": "hunt", "note": 3}\n\n')
    assert data.read_subjects(path).terms()["u:1"] == LabelTerms(("whaling",), ("whale hunting", "hunt"))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_cells_over_two_lines_keep_their_line_breaks(tmp_path: Path, end: str) -> None:
    table, objects = tmp_path / "a.csv", tmp_path / "a.jsonl"
    rows = ["uri,label,definition", 'u:1,"marine', 'mammals","of', 'the sea"', "u:2,bread,"]
    table.write_bytes(end.join(rows).encode() + end.encode())
    objects.write_text(
        '{"uri": "u:1", "label": "marine\\nmammals", "definition": "of\\nthe sea"}\n{"uri": "u:2", "label": "bread"}\n'
    )
    found = data.read_subjects(table).terms()
    assert found["u:1"] == LabelTerms(("marine\nmammals",), definitions=("of\nthe sea",))
    assert found == data.read_subjects(objects).terms()
    table.write_bytes(end.join([*rows, "u:3,a,b,c"]).encode())
    with raises(DataError, "line 6"):
        data.read_subjects(table)


@pytest.mark.parametrize(("name", "content"), [
    ("v.jsonl", '{"uri": "u:1", "prefLabel": "bread"}\n'), ("v.ttl", SKOS.replace("prefLabel", "notation")),
])  # fmt: skip
def test_a_vocabulary_without_names_says_so(tmp_path: Path, name: str, content: str) -> None:
    (path := tmp_path / name).write_text(content, "utf-8")
    with pytest.warns(DataWarning, match=f"{name}.*: no subject has a name"):
        assert data.read_subjects(path).label("u:1") is None


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "b.tsv", "names.tsv"])
def test_lines_that_end_in_cr_alone_are_refused(tmp_path: Path, name: str) -> None:
    header = ["uri,label" if name == "a.csv" else "uri\tlabel"] if name.startswith("a.") else []
    rows = [*header, *("u:1\twhales", "u:2\tbread")] if name != "a.csv" else [*header, "u:1,whales", "u:2,bread"]
    (path := tmp_path / name).write_bytes("".join(f"{row}\r" for row in rows).encode())
    with raises(DataError, name, "line 1"):
        data.read_subjects(path)
    with raises(DataError, name, "line 1"):
        data.read_label_texts(path)
    path.write_bytes("".join(f"{row}\r\n" for row in rows).encode())
    assert list(data.read_subjects(path)) == ["u:1", "u:2"]


def test_of_several_preferred_labels_in_skos_all_count(tmp_path: Path) -> None:
    pytest.importorskip("rdflib")
    path = tmp_path / "a.ttl"
    path.write_text(
        SKOS + '<urn:x:1> skos:prefLabel "cetaceans"@en, "Walfang"@fi . '
        """<urn:x:3> skos:prefLabel "boats"@en, "ship's boats"@en ."""
    )
    found = data.read_subjects(path)
    assert found.labels["urn:x:1"] == {"en": "cetaceans", "fi": "Walfang"}
    assert found.alternative == {
        "urn:x:1": {
            "en": ("whaling", "hunting of whales", "whale hunting"), "fi": ("valaanpyynti",), "de": ("Walfang",),
        },
        "urn:x:3": {"en": ("ship's boats", "ships")},
    }  # fmt: skip
    other = tmp_path / "a.jsonl"
    other.write_text('{"uri": "urn:x:3", "label_en": ["boats", "ship\'s boats", "ships"]}\n')
    assert found.terms()["urn:x:3"].names == data.read_subjects(other).terms()["urn:x:3"].names


@pytest.mark.parametrize("label", ["skos:prefLabel", "rdfs:label", "skos:notation"])
def test_concepts_without_uris_are_counted(tmp_path: Path, label: str) -> None:
    pytest.importorskip("rdflib")
    prefix = SKOS + "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    path = tmp_path / "a.ttl"
    path.write_text(prefix + f'[] a skos:Concept ; {label} "whales"@en .\n[] a skos:Concept ; {label} "bread"@en .\n')
    with pytest.warns(DataWarning) as caught:
        assert len(data.read_subjects(path)) == 4
    (warned,) = [str(each.message) for each in caught]
    assert "2 concepts without a URI" in warned and ("'bread'" in warned) == ("notation" not in label)
    path.write_text(prefix.split("<urn:x:1>")[0] + '[] a skos:Concept ; skos:prefLabel "bread"@en .\n')
    with raises(DataError, "a.ttl", "URI", "1 thing"):
        data.read_subjects(path)


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("form", ["ttl", "csv", "jsonl"])
def test_packed_vocabularies_are_what_their_names_say(tmp_path: Path, form: str, ending: str) -> None:
    if form == "ttl":
        pytest.importorskip("rdflib")
    path = written(tmp_path, form)
    packed = path.with_name(path.name + ending)
    packed.write_bytes({".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}[ending](path.read_bytes()))
    assert data.read_subjects(packed).terms() == data.read_subjects(path).terms()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[1]", ("line 2", "JSON", "[1]")), ('{"uri": 3}', ("line 2", "uri")), ('{"uri": " "}', ("line 2", "URI")),
        ('{"uri": "u:0"}', ("line 2", "URI", "u:0")), ('{"uri": "u:1", "alternative": [3]}', ("line 2", "alternative")),
        ('{"uri": "u:1", "broader": {"a": 1}}', ("line 2", "broader")), ("{", ("line 2", "JSON")),
    ],
)  # fmt: skip
def test_the_first_line_at_fault_is_named(tmp_path: Path, line: str, why: object) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"uri": "<u:0>", "label": "zero"}\n' + line + "\n")
    with raises(DataError, why):
        data.read_subjects(path)


def test_labels_of_rows_become_their_uris() -> None:
    vocabulary = SubjectVocabulary({"urn:x:1": {"en": "whaling"}, "urn:x:2": {"en": "hunting"}})
    rows = [("a", ["whaling", "urn:x:2"], None), ("b", ["urn:x:1", "whaling"], [0.5, 2]), ("c", ["urn:9", "sea"], None)]
    with pytest.warns(DataWarning) as caught:
        found = list(by_uris(rows, vocabulary, "a.csv"))
    assert found == [("a", ["urn:x:1", "urn:x:2"], None), ("b", ["urn:x:1"], [2.5]), ("c", ["urn:9"], None)]
    assert all(name in str(warned.message) for name, warned in zip(("'sea'", "'urn:9'"), caught, strict=True))


def test_a_label_of_two_subjects_is_said() -> None:
    names = {"urn:x:planet": {"en": "Mercury"}, "urn:x:metal": {"en": "Mercury"}, "urn:x:3": {"en": "Sea", "fr": "Sea"}}
    rows = [("a", ["Mercury", "Sea", "urn:x:metal"], None), ("b", ["Mercury"], None)]
    with pytest.warns(DataWarning) as caught:
        found = list(by_uris(rows, SubjectVocabulary(names), "a.csv"))
    assert found == [("a", ["urn:x:planet", "urn:x:3", "urn:x:metal"], None), ("b", ["urn:x:planet"], None)]
    (said,) = (str(warned.message) for warned in caught)
    assert "1 label (in 2 of the rows' labels)" in said and "'Mercury' (urn:x:planet and urn:x:metal)" in said


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
        ("a.jsonl", '{"label": " ", "text": "b"}\n', "object 1: must have a label, and a text that is"),
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


SUBJECTS = SubjectVocabulary({"u:1": {"en": "whaling"}, "u:2": {"en": "ships"}}, {"u:1": ["u:2"]})


def test_names_are_their_own_terms() -> None:
    assert label_terms(None, ["a", "b"]) == label_terms("names", ["a", "b"]) == {n: LabelTerms((n,)) for n in "ab"}


def test_of_a_list_the_first_is_preferred() -> None:
    terms = LabelTerms(("c",), hidden=("d",))
    found = label_terms({"1": "a", 2: ["a", "b"], "3": terms, "4": []}, ["9"])
    assert found == {"1": LabelTerms(("a",)), "2": LabelTerms(("a",), ("b",)), "3": terms, "4": LabelTerms()}


def test_a_vocabulary_s_labels_are_called_as_the_rows_call_them() -> None:
    assert label_terms(SUBJECTS, ["u:2", "other"])["u:1"].broader == ("u:2",)
    assert label_terms(SUBJECTS, [])["u:1"].preferred == ("whaling",)
    assert label_terms(SUBJECTS, ["ships", "other"])["whaling"].broader == ("ships",)
    assert list(label_terms(SUBJECTS, ["other"])) == ["u:1", "u:2"]


@pytest.mark.filterwarnings("ignore::sylvan.errors.DataWarning")
def test_of_several_languages_the_rows_choose_what_subjects_are_called() -> None:
    english, finnish = ["whales", "bread", "sea"], ["valaat", "leipä", "meri"]
    labels = {f"u:{n + 1}": {"en": english[n], "fi": finnish[n]} for n in range(3)}
    subjects = SubjectVocabulary(labels, broader={"u:1": ["u:3"]})
    for names, called in (
        (finnish[:2], finnish), (english[1:2], english),
        (["valaat", "leipä", "sea"], ["valaat", "leipä", "sea"]), (["u:1", "leipä"], ["u:1", "leipä", "u:3"]),
    ):  # fmt: skip
        terms = label_terms(subjects, names)
        assert list(terms) == called and terms[called[0]].broader == (called[2],)
        assert [each.preferred for each in terms.values()] == [tuple(by.values()) for by in labels.values()]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("other", ("SubjectVocabulary", "names")),
        ([("a", "b")], ("label_texts", "list")),
        ({True: "a"}, ("True", "label_texts")),
        ({"a": 3}, (3, "'a'")),
        ({"a": ["b", 3]}, ("LabelTerms", "label_texts")),
    ],
)
def test_anything_else_is_refused(given: Any, why: object) -> None:
    with raises(DataError, why):
        label_terms(given, [])
