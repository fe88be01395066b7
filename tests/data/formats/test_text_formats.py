"""Tables, fastText, PECOS, Annif and Parquet: what is written is read back equal, every fault is a sentence."""

import csv
import io
import json
import sys
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises, warns

from sylvan import data
from sylvan.errors import DataError, DataWarning, ParameterError
from sylvan.labels.vocabulary import label_name

URI = "http://example.org/"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
any_text = st.text(characters | st.sampled_from('\t"\n\r,; _'), max_size=12)
line = any_text.map(lambda t: t.replace("\n", "").replace("\r", ""))
cell_label = any_text.map(lambda t: label_name(t.replace(";", ""))).filter(bool)
any_name = any_text.map(label_name).filter(bool)
word = any_text.map(lambda t: "".join(t.split()).replace("<", "").replace(">", "")).filter(bool)


def rows_of(texts, labels):
    return st.lists(st.tuples(texts, st.lists(labels, max_size=3, unique=True)), min_size=1, max_size=4)


def both(rows):
    return [text for text, _ in rows], [labels for _, labels in rows]


def whole(blocks):
    """The blocks of a stream as one."""
    blocks = list(blocks)
    return [t for b in blocks for t in b.texts], [row for b in blocks for row in b.labels]


@pytest.mark.filterwarnings("ignore::sylvan.errors.DataWarning")
@settings(max_examples=40, deadline=None)
@given(rows_of(any_text, cell_label), st.sampled_from(["csv", "tsv", "csv.gz"]), st.booleans())
def test_tables_round_trip(place, rows, suffix, header):
    path = place / f"a.{suffix}"
    texts, labels = both(rows)
    data.write_table(path, texts, labels, header=header)
    columns = {"quoting": True, **({} if header else {"text_columns": 1, "labels_columns": 2})}
    assert data.read_table(path, **columns) == (texts, labels, None)
    assert whole(data.stream_table(path, rows=2, **columns)) == (texts, labels)


@pytest.mark.filterwarnings("ignore::sylvan.errors.DataWarning")
@settings(max_examples=30, deadline=None)
@given(rows_of(any_text, cell_label))
def test_python_reads_the_tables_too(place, rows):
    path = place / "b.csv"
    texts, labels = both(rows)
    data.write_table(path, texts, labels)
    with open(path, newline="", encoding="utf-8") as stream:
        assert list(csv.reader(stream)) == [["text", "labels"], *([t, ";".join(row)] for t, row in rows)]
    written = io.StringIO(newline="")
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows([["labels", "text"], *([";".join(r), t] for t, r in rows)])
    path.write_bytes(written.getvalue().encode())
    assert data.read_table(path) == (texts, labels, None)


@pytest.mark.filterwarnings("ignore::sylvan.errors.DataWarning")
@settings(max_examples=40, deadline=None)
@given(rows_of(line.filter(lambda t: "__label__" not in t), word), st.sampled_from(["txt", "txt.xz"]))
def test_fasttext_round_trips(place, rows, suffix):
    path = place / f"fast.{suffix}"
    texts, labels = both(rows)
    labels = [[label for label in row if not set(label) & set("\v\f")] for row in labels]
    data.write_fasttext(path, texts, labels)
    assert data.read_fasttext(path) == (texts, labels, None)
    assert whole(data.stream_fasttext(path, rows=2)) == (texts, labels)


def fasttext_reference(line, prefix="__label__"):
    """What fastText sees of a line: the words that are labels, and those that aren't."""
    words = [word for word in line.replace("\t", " ").split(" ") if word]
    return [w for w in words if not w.startswith(prefix)], [w[len(prefix) :] for w in words if w.startswith(prefix)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["__label__a", "__label__b", "x", "y", "  ", "\t", "z__label__q"]), min_size=1))
def test_fasttext_takes_labels_anywhere(place, words):
    path = place / "fast.txt"
    path.write_text(" ".join(words) + "\n")
    got = data.read_fasttext(path)
    expected_words, expected = fasttext_reference(" ".join(words))
    assert (got.texts[0].split(), got.labels[0]) == (expected_words, list(dict.fromkeys(expected)))


@settings(max_examples=30, deadline=None)
@given(rows_of(line.map(lambda t: t.replace("\t", "")), line.filter(lambda t: "\n" not in t)))
def test_pecos_round_trips_with_names(place, rows):
    path, items = place / "p.txt", place / "items.txt"
    texts, labels = both(rows)
    data.write_pecos(path, texts, labels, items=items)
    assert data.read_pecos(path, items=items) == (texts, labels, None)
    ids = data.read_pecos(path).labels
    names = items.read_text("utf-8").split("\n")[:-1]
    assert [[names[id_] for id_ in row] for row in ids] == labels
    assert whole(data.stream_pecos(path, items=items, rows=2)) == (texts, labels)


def test_pecos_holds_relevance(place):
    data.write_pecos(place / "p.txt", ["a", "b"], [[3, 1], []], [[0.5, 1.0], []])
    assert (place / "p.txt").read_text() == "3::0.5,1::1.0\ta\n\tb\n"
    assert data.read_pecos(place / "p.txt") == (["a", "b"], [[3, 1], []], [[0.5, 1.0], []])


@settings(max_examples=30, deadline=None)
@given(rows_of(line.map(lambda t: t.replace("\t", "").removeprefix("\ufeff")), word))
def test_annif_tsv_round_trips(place, rows):
    texts, labels = both(rows)
    data.write_annif_tsv(place / "a.tsv.gz", texts, labels)
    assert data.read_annif_tsv(place / "a.tsv.gz") == (texts, labels, None)
    assert whole(data.stream_annif_tsv(place / "a.tsv.gz", rows=1)) == (texts, labels)


@settings(max_examples=20, deadline=None)
@given(rows_of(any_text, word.filter(lambda w: "://" not in w and "urn:" not in w)), st.booleans())
def test_annif_folders_round_trip(tmp_path_factory, rows, uris):
    folder = tmp_path_factory.mktemp("annif") / "corpus"
    texts, labels = both(rows)
    texts = [text.removeprefix("\ufeff") for text in texts]
    labels = [[URI + label if uris else label for label in row] for row in labels]
    data.write_annif_folder(folder, texts, labels)
    assert data.read_annif_folder(folder) == (texts, labels, None)
    assert whole(data.stream_annif_folder(folder, rows=1)) == (texts, labels)


@settings(max_examples=40, deadline=None)
@given(rows_of(any_text, any_name))
def test_annif_json_lines_round_trip(place, rows):
    texts, labels = both(rows)
    data.write_annif_jsonl(place / "a.jsonl", texts, labels)
    assert data.read_jsonl(place / "a.jsonl") == (texts, labels, None)


@settings(max_examples=30, deadline=None)
@given(rows_of(any_text, any_name) | rows_of(any_text, st.integers(-(2**63), 2**63 - 1)), st.booleans())
def test_parquet_round_trips(place, rows, weighted):
    pytest.importorskip("pyarrow")
    texts, labels = both(rows)
    weights = [[0.5 * i for i in range(len(row))] for row in labels] if weighted else None
    data.write_parquet(place / "a.parquet", texts, labels, weights)
    assert data.read_parquet(place / "a.parquet") == (texts, labels, weights)
    assert whole(data.stream_parquet(place / "a.parquet", rows=2)) == (texts, labels)


def test_parquet_of_many_groups_and_late_labels(place):
    pytest.importorskip("pyarrow")
    texts, labels = [str(i) for i in range(9000)], [[] for _ in range(8999)] + [[7]]
    data.write_parquet(place / "a.parquet", iter(texts), iter(labels))
    assert data.read_parquet(place / "a.parquet") == (texts, labels, None)
    assert [len(block.texts) for block in data.stream_parquet(place / "a.parquet", rows=5000)] == [5000, 4000]


def test_columns_of_tables_by_name_and_number(place):
    path = place / "c.csv"
    path.write_bytes('\ufeffid,title,abstract,a,b\r\n1,T,"x, y",p| q,r\r\n\r\n2,,z,,\r\n'.encode())
    by_name = data.read_table(path, text_columns=("title", "abstract"), labels_columns=["a", "b"], label_separator="|")
    assert by_name == (["T x, y", "z"], [["p", "q", "r"], []], None)
    by_number = data.read_table(path, text_columns=3, labels_columns=[4], label_separator=None, header=True)
    assert by_number == (["x, y", "z"], [["p| q"], []], None)
    assert data.read_table(path, text_columns=2, labels_columns=None).texts == ["title", "T", ""]


def test_annif_csv_is_a_table(place):
    path = place / "annif.csv"
    path.write_text(f"document_id,text,subject_uris\n1,Moby Dick,{URI}a {URI}b\n2,Typee,\n")
    assert data.read_table(path, label_separator=" ").labels == [[URI + "a", URI + "b"], []]


def test_annif_json_lines_with_uris_and_labels(place):
    path = place / "annif.jsonl"
    records = [{"text": "a", "subjects": [{"uri": URI, "label": "x"}], "metadata": {}}, {"text": "b", "subjects": []}]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert data.read_jsonl(path) == (["a", "b"], [[URI], []], None)


def test_annif_folders_of_every_kind(tmp_path):
    (tmp_path / "a.txt").write_text("A")
    (tmp_path / "a.tsv").write_text(f"<{URI}1>\tone\tmore\n\n{URI}2\ttwo\n")
    (tmp_path / "b.json").write_text(json.dumps({"text": "B", "subjects": [{"uri": URI + "2"}]}))
    (tmp_path / "notes.md").write_text("not a text of the corpus")
    with warns(DataWarning, 1, "notes.md"):
        assert data.read_annif_folder(tmp_path) == (["A", "B"], [[URI + "1", URI + "2"], [URI + "2"]], None)
    (tmp_path / "notes.md").unlink()
    (tmp_path / "c.txt").write_text("C")
    with raises(DataError, "c.txt", "c.tsv", "c.key"):
        data.read_annif_folder(tmp_path)
    assert data.read_annif_folder(tmp_path, require_labels=False).labels[2] == []
    (tmp_path / "c.key").write_text("two\n")
    with raises(DataError, "URIs", "c.txt"):
        data.read_annif_folder(tmp_path)
    subjects = data.SubjectVocabulary({URI + "1": {"en": "one"}, URI + "2": {"en": "two"}})
    assert data.read_annif_folder(tmp_path, vocabulary=subjects).labels[2] == [URI + "2"]
    (tmp_path / "c.key").write_text("three\ntwo\n")
    with warns(DataWarning, 1, "three"):
        assert data.read_annif_folder(tmp_path, vocabulary=subjects).labels[2] == [URI + "2"]


FAULTS = [
    (data.read_table, b"text;labels\n", {}, "line 1: there is no column 'text'. The first row names: 'text;labels'"),
    (data.read_table, b"text,labels\n", {}, "the file holds no rows"),
    (data.read_table, b"text,labels\ra,b\r", {}, "line 1: lines must end in LF or CRLF, not CR"),
    (data.read_table, b"a\tb\rc\td\r", {"delimiter": "\t", "text_columns": 1, "labels_columns": 2}, "not CR: save"),
    (data.read_table, b"text,labels\na,b\n\na\n", {}, "line 4: the row has 1 cells, but the first has 2"),
    (data.read_table, b'text,labels\n"a"b,c\n', {}, "line 2: not a row of CSV"),
    (data.read_table, b'text,labels\n"a\nb,c\n', {}, "line 2: not a row of CSV (unexpected end of data)"),
    (data.read_table, b"text,labels\na,b\n\xff,b\n", {}, "line 3: the text is not UTF-8 (byte 1 of the line)"),
    (data.read_table, b"a,b\n", {"text_columns": 3, "labels_columns": 1}, "line 1: there is no column 3"),
    (data.read_fasttext, b"__label__a b\n__label__ c\n", {}, "line 2: a label must have a name after '__label__'"),
    (data.read_fasttext, b"__label__a b\r__label__a c\r", {}, "line 1: lines must end in LF or CRLF, not CR"),
    (data.read_pecos, b"1\ta\r2\tb", {}, "line 1: lines must end in LF or CRLF, not CR"),
    (data.read_fasttext, b"\xff\n", {}, "line 1: the text is not UTF-8"),
    (data.read_fasttext, b"", {}, "the file holds no lines"),
    (data.read_pecos, b"1,2\ta\nb\n", {}, "line 2: a line must be label ids, a tab and the text. Got 'b' instead"),
    (data.read_pecos, b"1,x\ta\n", {}, "line 1: label ids must be ints in [0, 2147483646]. Got 'x' instead"),
    (data.read_pecos, b"1,\ta\n", {}, "line 1: label ids must be ints"),
    (data.read_pecos, b"1::-2\ta\n", {}, "line 1: a label's relevance must be a finite number of at least 0"),
    (data.read_pecos, b"1::x\ta\n", {}, "line 1: a label's relevance must be a finite number of at least 0"),
    (data.read_pecos, b"", {}, "the file holds no lines"),
    (data.read_annif_tsv, b"a\t<u:1>\nb\n", {}, "line 2: a line must be a text, a tab and URIs. Got 'b' instead"),
    (data.read_annif_tsv, b"", {}, "the file holds no lines"),
    (data.load_filter_labels, b"1 2\n1\n", {}, "line 2: a line must be a row and a label, both ints from 0"),
    (data.load_filter_labels, b"1 -2\n", {}, "line 1: a line must be a row and a label, both ints from 0"),
    (data.load_filter_labels, b"1 2\n", {"shape": (1, 9)}, "line 1: a row must be in [0, 0]. Got 1 instead"),
    (data.load_filter_labels, b"0 9\n", {"shape": (1, 9)}, "line 1: a label must be in [0, 8]. Got 9 instead"),
    (data.load_filter_labels, b"3 1\n", {"shape": (3, 9)}, "line 1: a row must be in [0, 2]. Got 3 instead"),
    (data.read_subjects, b"<u:1>\ta\nb\n", {}, "line 2: a line must be a URI, a tab and a label. Got 'b' instead"),
    (data.read_subjects, b"<u:1>\ta\nu:1\tb\n", {}, "line 2: the URI 'u:1' stands there twice"),
    (data.read_subjects, b"\n", {}, "the file holds no subjects"),
]


@pytest.mark.parametrize(("read", "content", "given", "message"), FAULTS)
def test_every_fault_is_a_sentence(tmp_path, read, content, given, message):
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(path, **given)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).endswith(".")


def test_items_of_pecos_are_checked(tmp_path):
    (tmp_path / "a").write_text("0,2\ta\n")
    (tmp_path / "items").write_text("x\ny\nx\n")
    with raises(DataError, "line 3", "'x'", 0, 2):
        data.read_pecos(tmp_path / "a", items=tmp_path / "items")
    (tmp_path / "items").write_text("x\ny\n")
    with raises(DataError, "[0, 1]", "'2'"):
        data.read_pecos(tmp_path / "a", items=tmp_path / "items")


UNWRITABLE = [
    (data.write_table, ["a"], [["x;y"]], None, "Row 0: the label 'x;y' holds ';', which parts the labels"),
    (data.write_table, ["a"], [[" x"]], None, "Row 0: a label of a table must not be empty or have blanks around it"),
    (data.write_table, ["a"], [[""]], None, "Row 0: a label of a table must not be empty"),
    (data.write_table, ["a"], [["x"]], [[2.0]], "Row 0 weighs its labels, and a table holds no weights"),
    (data.write_table, ["a", "b"], [["x"]], None, "texts, labels and weights must be of one length"),
    (data.write_table, ["\ud800"], [["x"]], None, "Row 0 holds half a character"),
    (partial(data.write_table, text_column="\ud800"), ["a"], [["x"]], None, "The header holds half a character"),
    (data.write_fasttext, ["a"], [["x y"]], None, "Row 0: a label of fastText's must not be empty or hold blanks"),
    (data.write_fasttext, ["a\nb"], [["x"]], None, "The text of row 0 holds a line break"),
    (data.write_fasttext, ["a __label__b"], [["x"]], None, "holds a word that begins with '__label__'"),
    (data.write_pecos, ["a"], [["x"]], None, "Row 0: PECOS's format holds the ids of labels, and 'x' is a name"),
    (data.write_pecos, ["a"], [[-1]], None, "Row 0: label ids must be ints in [0, 2147483646]. Got -1 instead"),
    (data.write_pecos, ["a\tb"], [[1]], None, "The text of row 0 holds a line break or tab"),
    (data.write_annif_tsv, ["a"], [["x y"]], None, "Row 0: Annif's TSV names subjects by URIs"),
    (data.write_annif_tsv, ["a\tb"], [["x"]], None, "The text of row 0 holds a line break or tab"),
    (data.write_annif_folder, ["a"], [["u://x", "y"]], None, "Row 0: the label 'y' looks like no URI, unlike those"),
    (data.write_annif_folder, ["a"], [["y\n"]], None, "Row 0: a subject must stand on one line"),
    (data.write_annif_jsonl, ["a"], [["y"]], [[3.0]], "Row 0 weighs its labels"),
]


@pytest.mark.parametrize(("write", "texts", "labels", "weights", "message"), UNWRITABLE)
def test_what_a_format_has_no_form_for_is_refused(tmp_path, write, texts, labels, weights, message):
    path = tmp_path / "a"
    with pytest.raises(DataError) as caught:
        write(path, texts, labels, weights)
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_line_breaks_and_blanks_are_replaced_when_asked(place):
    data.write_fasttext(place / "a", ["x\r\ny\nz"], [["two words"]], blanks="_", one_line=True)
    assert (place / "a").read_bytes() == b"__label__two_words x y z\n"
    data.write_pecos(place / "a", ["x\ty"], [[1]], one_line=True)
    assert (place / "a").read_bytes() == b"1\tx y\n"


PARAMETERS = [
    (lambda p: data.read_table(p, text_columns="t", header=False), "A table without a header has numbers for columns"),
    (lambda p: data.read_table(p, text_columns=0), "The 'text_columns' parameter must name columns or number them"),
    (lambda p: data.read_table(p, labels_columns=[]), "The 'labels_columns' parameter must name columns"),
    (lambda p: data.read_table(p, label_separator=""), "The 'label_separator' parameter must be a non-empty string or"),
    (lambda p: data.read_table(p, delimiter="::"), "The 'delimiter' parameter must be one character"),
    (lambda p: data.write_table(p, [], [], label_separator=None), "The 'label_separator' parameter must be a string"),
    (lambda p: data.read_fasttext(p, prefix=""), "The 'prefix' parameter must be a string without blanks"),
    (lambda p: data.write_fasttext(p, [], blanks=" "), "The 'blanks' parameter must be a string without blanks"),
    (lambda p: data.stream_pecos(p, rows=0), "The 'rows' parameter must be an int"),
]


@pytest.mark.parametrize(("use", "message"), PARAMETERS)
def test_parameters_out_of_range(tmp_path, use, message):
    with pytest.raises(ParameterError) as caught:
        use(tmp_path / "a")
    assert message in str(caught.value)


def test_parquet_faults(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    def reads(columns, message, **given):
        pq.write_table(pa.table(columns), tmp_path / "a")
        with pytest.raises(DataError) as caught:
            data.read_parquet(tmp_path / "a", **given)
        assert message in str(caught.value)

    reads({"t": ["x"]}, "there is no column 'text'. Its columns are: t")
    reads({"text": [1], "labels": [["a"]]}, "row 0: the column 'text' must hold strings. Got 1 instead")
    reads({"text": ["a"], "labels": [[0.5]]}, "row 0: a label must be a string or an int. Got 0.5")
    reads({"text": ["a"], "labels": [["x"]], "weights": [[-1.0]]}, "row 0: a label's weight must be a finite number")
    reads({"text": ["a"], "labels": [["x"]], "weights": [[]]}, "row 0: there must be a weight for each of the 1 label")
    reads({"text": pa.array([], pa.string()), "labels": pa.array([], pa.string())}, "the file holds no rows")
    pq.write_table(pa.table({"text": ["a", None], "label": ["x", None]}), tmp_path / "a")
    assert data.read_parquet(tmp_path / "a") == (["a", ""], [["x"], []], None)
    (tmp_path / "a").write_bytes(b"PAR1 and no more")
    with raises(DataError, "file"):
        data.read_parquet(tmp_path / "a")
    with raises(DataError, "strings", 1):
        data.write_parquet(tmp_path / "b", ["a"], [["x", 1]])
    assert not (tmp_path / "b").exists()
    with raises(DataError, "b.gz"):
        data.write_parquet(tmp_path / "b.gz", ["a"], [["x"]])


@pytest.mark.parametrize("records", [None, []])
def test_parquet_of_values_that_python_lacks(tmp_path, records):
    """A string that is no UTF-8, and a date beyond the year 9999 in a column of its own."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    pq.write_table(pa.table({"text": ["whaling"], "when": pa.array([2**55], pa.timestamp("ms"))}), tmp_path / "a")
    if records is None:
        (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes().replace(b"whaling", b"whal\xefng"))
    with raises(DataError, "a", "damaged"):
        list(data.stream_parquet(tmp_path / "a", labels_field=None, records=records))


@pytest.mark.parametrize(("module", "extra", "use"), [
    ("pyarrow", "parquet", lambda path: data.read_parquet(path)),
    ("rdflib", "rdf", lambda path: data.read_subjects(path)),
    ("datasets", "datasets", lambda path: data.read_dataset(path)),
    ("pymarc", "marc", lambda path: data.read_marc(path)),
    ("openpyxl", "spreadsheet", lambda path: data.read_spreadsheet(path)),
])  # fmt: skip
def test_missing_extras_are_named(tmp_path, monkeypatch, module, extra, use):
    monkeypatch.setitem(sys.modules, module, None)
    path = tmp_path / "a.ttl"
    path.write_text("x")
    with raises(DataError, f"sylvan[{extra}]"):
        use(path)


class FakeDataset(list):
    """What is used of a ``datasets.Dataset``."""

    def __init__(self, records, features=None):
        super().__init__(records)
        self.column_names, self.features = list(records[0]), features


def test_datasets():
    records = [{"text": "a", "labels": ["x"]}, {"text": None, "labels": None}]
    assert data.read_dataset(FakeDataset(records)) == (["a", ""], [["x"], []], None)
    assert whole(data.stream_dataset(FakeDataset(records), rows=1)) == (["a", ""], [["x"], []])

    class Classes:
        @staticmethod
        def int2str(number):
            return ["zero", "one"][number]

    found = data.read_dataset(FakeDataset([{"text": "a", "label": 1}], {"label": Classes}))
    assert found.labels == [["one"]]
    with raises(DataError, "dictionary"):
        data.read_dataset({"train": [], "test": []})
    with raises(DataError, "datasets.Dataset", "int"):
        data.read_dataset(3)


def test_saved_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"text": ["a"], "labels": [["x"]]}).save_to_disk(tmp_path / "d")
    assert data.read_dataset(tmp_path / "d") == (["a"], [["x"]], None)


TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix : <http://example.org/> .
:animal a skos:Concept ; skos:prefLabel "animals"@en ; skos:narrower :whale .
:whale a skos:Concept ; skos:prefLabel "whales"@en, "valaat"@fi .
:seal a skos:Concept ; skos:broader :animal ; skos:prefLabel "seals" .
:unicorn a skos:Concept ; skos:prefLabel "unicorns"@en ; owl:deprecated true ; skos:broader :animal .
"""


def test_subjects_of_skos(tmp_path):
    rdflib = pytest.importorskip("rdflib")
    (tmp_path / "a.ttl").write_text(TURTLE)
    found = data.read_subjects(tmp_path / "a.ttl")
    assert list(found) == [URI + "animal", URI + "seal", URI + "whale"]
    assert found.labels[URI + "whale"] == {"en": "whales", "fi": "valaat"}
    assert found.broader == {URI + "whale": (URI + "animal",), URI + "seal": (URI + "animal",)}
    assert found.languages == ["", "en", "fi"]
    rdflib.Graph().parse(data=TURTLE, format="turtle").serialize(tmp_path / "a.rdf", "xml")
    assert data.read_subjects(tmp_path / "a.rdf").broader == found.broader
    from sylvan import indexing

    tree = indexing.LabelTree.from_taxonomy([URI + "whale", URI + "seal"], found.broader)
    assert tree.n_labels == 2
    (tmp_path / "a.ttl").write_text("no turtle")
    with raises(DataError, "a.ttl", "turtle"):
        data.read_subjects(tmp_path / "a.ttl")


def test_subjects_of_tables(tmp_path):
    (tmp_path / "a.csv").write_text(f"uri,label_en,label_fi,notation\n<{URI}1>,whales,valaat,5\n{URI}2,seals,,\n")
    found = data.read_subjects(tmp_path / "a.csv")
    assert [found.label(uri, "fi") for uri in (URI + "1", URI + "2", "none")] == ["valaat", "seals", None]
    assert (found.uri("valaat"), found.uri("?"), URI + "2" in found) == (URI + "1", None, True)
    data.write_subjects(tmp_path / "a.tsv.gz", found, language="fi")
    assert data.read_subjects(tmp_path / "a.tsv.gz").labels == {URI + "1": {"": "valaat"}, URI + "2": {"": "seals"}}
    for content, message in [
        ("a,b\n", "line 1: the header must name the columns uri and label"),
        ("uri,label\n,x\n", "line 2: the cell of the URI is empty"),
        ('uri,label\nu:1,"x\n', "line 2: not a row of CSV"),
    ]:
        (tmp_path / "a.csv").write_text(content)
        with pytest.raises(DataError) as caught:
            data.read_subjects(tmp_path / "a.csv")
        assert message in str(caught.value)
    with raises(DataError, "break"):
        data.write_subjects(tmp_path / "b.tsv", data.SubjectVocabulary({"u:1": {"": "a\tb"}}))


def test_filter_labels_round_trip(tmp_path):
    (tmp_path / "a").write_text("0 3\n2 1\n0 3\n\n2 0\n")
    pairs = data.load_filter_labels(tmp_path / "a")
    assert pairs.toarray().tolist() == [[0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]]
    data.save_filter_labels(tmp_path / "b", pairs)
    assert (tmp_path / "b").read_text() == "0 3\n2 0\n2 1\n"
    (tmp_path / "a").write_text("")
    assert data.load_filter_labels(tmp_path / "a", (3, 4)).nnz == 0


def test_weights_of_hundreds_of_labels(tmp_path):
    rows = ["a"], [list(map(str, range(300)))], [[0.5] * 300]
    data.write_jsonl(tmp_path / "a.jsonl", *rows)
    assert data.read_jsonl(tmp_path / "a.jsonl") == rows
