"""Files as people have them: the bytes of one, what is done with it, and the right value or a message."""

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import shutil
import sys
import tarfile
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from kit.errors import raises, says

import sylvan
from sylvan import data
from sylvan.cli import main
from sylvan.data.formats.columnar import read_feature_columns
from sylvan.errors import DataError, DataWarning

# A column of labels, how many different labels it holds, and the words of the warning, "" for none.
CELLS: dict[str, tuple[list[str], int, str]] = {
    "Python lists": (["['cs.LG']", "['cs.LG', 'cs.CV']", '["cs.CV"]'], 2, ""),
    "JSON lists": (['["a", "b"]', "[]", '["b"]'], 2, ""),
    "NumPy's lists": (["['a' 'b']", "['b'  'c']"], 3, ""),
    "sets and tuples": (["{'a', 'b'}", "('a',)", "('a', 'c')"], 3, ""),
    "numbers in lists": (["[1, 2]", "[2]"], 2, ""),
    "bare lists": (["[a, b]", "[b]"], 2, "looks like a list"),
    "PostgreSQL's arrays": (["{a,b}", "b"], 2, "looks like a list"),
    "a list that isn't read among lists": (["['a', 'b']", "['b', None]", "['a', 'b']"], 3, "looks like a list"),
    "a late list that isn't read": ([*["['a', 'b']"] * 5000, "['b', None]"], 3, "looks like a list"),
    "bars": (["a|b", "b", "c"], 3, '--label-separator "|"'),
    "lines": (["a\nb", "c", "b"], 3, '--label-separator "newline"'),
    "tabs": (["a\tb", "c", "b"], 3, '--label-separator "tab"'),
    "commas": (["red, green", "green", "blue, red", "blue"], 4, '--label-separator ","'),
    "commas, all of several": (["a, b, c", "b, c", "c, a", "b, a"], 4, '--label-separator ","'),
    "blanks": (["ECAT GCAT", "GCAT", "MCAT ECAT", "ECAT"], 4, '--label-separator " "'),
    "slashes": (["a/b", "b/c", "c", "a"], 4, '--label-separator "/"'),
    "URIs": (["http://a/b http://a/c", "http://a/b", "http://a/c"], 3, '--label-separator " "'),
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
        n_labels, words = len(set(cells)), '--label-separator ";"'
        if "bars" in kind:
            words = '--label-separator "|"'
    path = tmp_path / f"train{suffix}"
    _write(path, ["whales"] * len(cells), cells)
    labels, said = _read(path)
    assert len({label for row in labels for label in row}) == n_labels
    assert (words in said) if words else not said
    doubted = (cell for cell in cells if any(mark in cell for mark in "|;, \t\n/") and "['a'" not in cell)
    assert not words or repr(next(doubted))[:20] in said


def test_a_list_of_numpy_s_over_two_lines(tmp_path: Path):
    _write(path := tmp_path / "train.jsonl", ["whales"] * 2, ["['a' 'b']", "['b'\n 'c']"])
    assert _read(path) == ([["a", "b"], ["b", "c"]], "")


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


_TEXTS = ["whale ship harpoon", "oven flour bread", "whale harbour ship", "flour yeast oven"] * 5
_LABELS = [["Sea"], ["Baking"], ["Sea", "Ships"], ["Baking"]] * 5
_JSONL = "".join(json.dumps({"text": t, "labels": row}) + "\n" for t, row in zip(_TEXTS, _LABELS, strict=True))
_CSV = "text,labels\n" + "".join(f"{t},{';'.join(row)}\n" for t, row in zip(_TEXTS, _LABELS, strict=True))
_PECOS = "".join(f"{len(row)}\t{t}\n" for t, row in zip(_TEXTS, _LABELS, strict=True))
_SVM = "".join(f"{i % 2} {1 + i % 4}:1 {5 + i % 3}:0.5\n" for i in range(20))


def _zip(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return stream.getvalue()


def _tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
    return stream.getvalue()


_MARC = b"00714cam a2200205 a 4500001001200000\x1e000000\x1e\x1d"
_MARCXML = b'<?xml version="1.0"?>\n<collection xmlns="http://www.loc.gov/MARC21/slim"><record><leader>0'
# The name of a file, its bytes, options of "train xr-linear", and the words on stderr: what it was read as, or the
# way out where the last is True.
FILES: list[tuple[str, bytes, list[str], str, bool]] = [
    ("a.csv", _CSV.encode(), [], "Read 20 rows from a.csv: a table in CSV, columns text and labels.", False),
    ("a.jsonl", _JSONL.encode(), [], "JSON lines of text, fields text and labels.", False),
    ("a.txt", _JSONL.encode(), [], "JSON lines of text, fields text and labels.", False),
    ("a.csv", codecs.BOM_UTF8 + _CSV.encode(), [], "a table in CSV, columns text and labels.", False),
    ("a.csv.gz", gzip.compress(_CSV.encode(), mtime=0), [], "a table in CSV", False),
    ("a.CSV.XZ", lzma.compress(_CSV.encode()), [], "a table in CSV", False),
    ("a.csv.bz2", bz2.compress(_CSV.encode()), [], "a table in CSV", False),
    ("a.jsonl", bz2.compress(_JSONL.encode()), [], "JSON lines", False),
    ("a.svm.bz2", bz2.compress(_SVM.encode()), [], "svmlight format, features counted from 1", False),
    ("a.csv", _CSV.encode("utf-16"), [], "a table in CSV, in utf-16, columns text and labels", False),
    ("a.csv.gz", gzip.compress(_CSV.encode("utf-16"), mtime=0), [], "a table in CSV", False),
    ("a.jsonl", _JSONL.encode("utf-16-le"), ["--encoding", "UTF-16LE"], "in utf-16-le", False),
    ("a.jsonl", _JSONL.encode("utf-32"), [], "in utf-32", False),
    ("a.csv", _CSV.replace("bread", "Bröt").encode("latin-1"), ["--encoding", "latin-1"], "in iso8859-1", False),
    ("a.json", json.dumps([json.loads(line) for line in _JSONL.splitlines()]).encode(), [], "Read 20 rows", False),
    ("a.json", json.dumps([json.loads(line) for line in _JSONL.splitlines()], indent=2).encode(), [], "20 rows", False),
    ("a.txt", _PECOS.encode(), [], "Read 20 rows from a.txt: PECOS's lines of label ids and text.", False),
    ("a.tsv", _PECOS.encode(), [], "PECOS's lines", False),
    # What is guessed is doubted.
    ("a.txt", "".join(f"{i}\tSea\t{t}\n" for i, t in enumerate(_TEXTS)).encode(), [], "--text-field", True),
    ("a.tsv", "".join(f"{i}\tSea\t{t}\n" for i, t in enumerate(_TEXTS)).encode(), [], "--text-field", True),
    ("a.txt", "".join(f"{i}\tSea\t{t}\n" for i, t in enumerate(_TEXTS)).encode(),
     ["--text-field", "3", "--labels-field", "2"], "a table in TSV, columns 3 and 2", False),
    ("a.tsv", "".join(f"{2286 + i}\t{t}\n" for i, t in enumerate(_TEXTS)).encode(), [], "look like ids", True),
    ("a.tsv", "".join(f"{7 * i * i}\t{t}\n" for i, t in enumerate(_TEXTS)).encode(), [], "--format pecos", True),
    ("a.tsv", "".join(f"00{i % 7}\t{t}\n" for i, t in enumerate(_TEXTS)).encode(), [], "--labels-field 1", True),
    ("a.tsv", ("".join(f"{t}\t<http://e/w>\n" for t in [*_TEXTS, *_TEXTS]) + "boats\tSea stories\n").encode(), [],
     "line 41: behind the tab stand URIs alone, <in angle brackets>. Got 'Sea'", True),
    ("a.jsonl", _JSONL.encode() + b'{"text": "a", "labels": ["Sea"], "labels": ["Ice"]}\n', [],
     "line 21: an object has the name 'labels' twice", True),
    ("a.json", b'[{"text": "a", "text": "b", "labels": ["Ice"]}]', [], "the name 'text' twice", True),
    ("a.csv", _CSV.encode() + _CSV.encode(), [], "line 22: the header stands here again", True),
    ("a.csv", _CSV.encode() + b"\xef\xbb\xbflabels,text\nSea,whales\n", [], "the header stands here again", True),
    ("a.txt", "".join(f"{t}\n" for t in _TEXTS).encode(), [], "holds no labels", True),
    ("trn_X_Y.txt", b"20 9\n" + b"".join(b"%d:1.0 8:1.0\n" % (i % 7) for i in range(20)), [], "two numbers", True),
    ("a.csv", _CSV.replace("bread", "Bröt").encode("latin-1"), [], "--encoding cp1252", True),
    ("a.jsonl", _JSONL.replace("bread", "Bröt").encode("cp1252"), [], "--encoding cp1252", True),
    ("a.jsonl", _JSONL.encode("utf-16-le"), [], "--encoding utf-16-le", True),
    ("a.csv", _CSV.encode("utf-16-be"), [], "--encoding utf-16-be", True),
    ("a.csv", _CSV.encode(), ["--encoding", "utf-23"], "no encoding", True),
    ("a.csv", _CSV.encode(), ["--encoding", "base64"], "no encoding", True),
    ("a.csv", _CSV.encode() + b"\xff\n", ["--encoding", "ascii"], "not in its encoding", True),
    ("a.csv.bz2", _CSV.encode(), [], "not bzip2 data", True),
    ("a.csv.bz2", bz2.compress(_CSV.encode())[:-20], [], "damaged or cut short", True),
    # Files of other kinds are refused by their names.
    ("a.xlsx", _zip("[Content_Types].xml", "xl/workbook.xml"), [], ".xlsx", True),
    ("a.csv", _zip("[Content_Types].xml", "xl/workbook.xml"), [], ".xlsx", True),
    ("a.xlsx", b"PK\x03\x04" + bytes(90), [], "zip archive", True),
    ("a.xlsx", _CSV.encode(), [], "not a spreadsheet", True),
    ("a.ods", _zip("mimetype").replace(b"x", b"application/vnd.oasis.opendocument.spreadsheet"), [], ".xlsx", True),
    ("a.docx", _zip("[Content_Types].xml", "word/document.xml"), [], ".docx", True),
    ("a.zip", _zip("a.csv"), [], "unpack it", True),
    ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), [], ".xls", True),
    ("a.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), [], "password", True),
    ("a.pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3", [], "PDF", True),
    ("a.txt", b"{\\rtf1\\ansi whales}", [], "RTF", True),
    ("a.tar", _tar(), [], "tar archive", True),
    ("a.7z", b"7z\xbc\xaf\x27\x1c" + bytes(50), [], "7z archive", True),
    ("a.feather", b"ARROW1\x00\x00" + bytes(50), [], "Parquet", True),
    ("a.db", b"SQLite format 3\x00" + bytes(50), [], "SQLite", True),
    ("a.pkl", b"\x80\x04\x95" + bytes(50), [], "pickle", True),
    ("a.xml", _MARCXML, [], "MARCXML", True),
    ("a.xml", b"<record xmlns:marc='x'>\n<datafield tag='245'/></record>", [], "MARCXML", True),
    ("a.xml", b'<?xml version="1.0"?>\n<books><book/></books>', [], "XML", True),
    ("a.rdf", b'<?xml version="1.0"?>\n<rdf:RDF/>', [], "RDF", True),
    ("a.html", b"<!DOCTYPE html>\n<html><body>whales</body></html>", [], "HTML", True),
    ("a.xml", _MARCXML, ["--text-field", "245a", "--labels-field", "650a"], "cut short", True),
    ("a.txt", _MARCXML, [], "--text-field", True),
    ("a.mrc", _MARC, [], "yaz-marcdump", True),
    ("a.bin", bytes(range(256)) * 4, [], "binary", True),
    ("a.jsonl", b'{\n  "text": "whales",\n  "labels": ["Sea"]\n}\n', [], "One object stands on one line", True),
    ("a.jsonl", b"\n \n\n", [], "the input is empty", True),
    ("a.csv", b"\r\n\r\n", [], "the input is empty", True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "options", "words", "is_refused"), FILES)
def test_what_a_file_is(name: str, content: bytes, options: list[str], words: str, is_refused: bool, call: Any) -> None:
    Path(name).write_bytes(content)
    train = ("train", "xr-linear", name, "--threads", "1", *options, "--model")
    said = call(*train, "m", code=2 if is_refused else 0).err
    assert words in said and (name in said or "no encoding" in said)
    if not is_refused:
        assert call(*train, "n", "-q") == (0, "", "")


def test_parquet_under_another_name(call: Any) -> None:
    pytest.importorskip("pyarrow")
    data.write_parquet("a.parquet", _TEXTS, _LABELS)
    Path("a.parquet").rename("a.csv")
    assert "a.csv: a Parquet file, columns text and labels" in call("train xr-linear a.csv --model m").err


@pytest.mark.parametrize("header", ["text labels text", "text labels labels", "text labels n n"])
def test_repeated_columns_of_parquet_are_refused(header: str, refused: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def write(columns: dict[str, Any], names: list[str]) -> None:
        parquet.write_table(pa.Table.from_arrays([pa.array(columns[name]) for name in names], names=names), "a.parquet")

    names = header.split()
    write({"text": _TEXTS, "labels": _LABELS, "n": list(range(20))}, names)
    number = names.index(names[-1]) + 1
    with raises(DataError, number, len(names), repr(names[-1])):
        data.read_parquet("a.parquet")
    said = refused(repr(names[-1]), "train xr-linear a.parquet --model m")
    assert says(said, number) and says(said, len(names))
    features = {"indices": [[1], [2]], "values": [[1.0], [1.0]], "labels": [["a"], ["b"]]}
    write(features, [*features, "values"])
    with raises(DataError, 2, 4, "values"):
        read_feature_columns("a.parquet")


def _zst(content: bytes) -> bytes:
    """A frame of zstd, with its content as it is."""
    assert len(content) < 1 << 17
    head = b"\x28\xb5\x2f\xfd\xa0" + len(content).to_bytes(4, "little")
    return head + (len(content) << 3 | 1).to_bytes(3, "little") + content


@pytest.mark.parametrize("name", ["a.csv.zst", "a.csv"])
def test_zstd_is_refused_where_it_can_not_be_unpacked(name: str, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    Path(name).write_bytes(_zst(_CSV.encode()))
    said = f"{name} is packed by zstd, which this Python can't unpack: pip install zstandard"
    refused(said, f"train xr-linear {name} --model m")
    with raises(DataError, "b.jsonl.zst is packed by zstd, which this Python can't write"):
        data.write_jsonl("b.jsonl.zst", ["a"], [["b"]])


def test_zstd_is_read_whole_or_refused(tmp_path: Path) -> None:
    if sys.version_info < (3, 14):
        pytest.importorskip("zstandard")
    half = len(_CSV) // 2
    right = data.read_table(_written(tmp_path / "a.csv", _CSV.encode()))
    for content in (_zst(_CSV.encode()), _zst(_CSV[:half].encode()) + _zst(_CSV[half:].encode())):
        assert data.read_table(_written(tmp_path / "a.csv.zst", content)) == right
        for length in (len(content) - 1, len(content) - 20, half):
            with raises(DataError, "zstd"):
                data.read_table(_written(tmp_path / "cut.csv.zst", content[:length]))
    data.write_jsonl(tmp_path / "b.jsonl.zst", right.texts, right.labels)
    assert (tmp_path / "b.jsonl.zst").read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    assert data.read_jsonl(tmp_path / "b.jsonl.zst") == right


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


READ = "Read 20 rows from a.csv: a table in CSV, column"
COMMANDS = {
    "evaluate m a.csv": "s text and labels.", "predict m a.csv -o top.jsonl": " text.",
    "convert a.csv a.jsonl": "s text and labels.", "update m a.csv --rows a.csv --plan": "s text and labels.",
    "plan xr-linear a.csv": "s text and labels.",
}  # fmt: skip


@pytest.fixture
def model(call: Any) -> None:
    """The folder m has a model of what is in a.jsonl and a.csv."""
    Path("a.jsonl").write_text(_JSONL)
    Path("a.csv").write_text(_CSV)
    call("train xr-linear a.jsonl --model m -q")


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_says_what_it_read(line: str, call: Any, model: None) -> None:
    assert READ + COMMANDS[line] in call(line).err
    assert READ not in call(f"{line} -q").err


@pytest.mark.parametrize(("line", "right"), [
    ("predict m a.csv -o top.xlsx", ".csv"), ("predict m a.csv -o top.txt", ".jsonl"),
    ("predict m a.csv -o top.xls.gz", ".csv"), ("predict m a.csv -o top.npz.gz", "packed already"),
    ("convert a.csv a.xlsx", "--to"), ("convert a.csv a.docx", "--to"), ("predict m a.csv -o top.jsonl", ""),
    ("predict m a.csv -o top", ""), ("predict m a.csv -o top.CSV.bz2", ""), ("predict m a.csv -o top.tab", ""),
])  # fmt: skip
def test_the_ending_of_an_output(line: str, right: str, call: Any, model: None) -> None:
    said = call(line, code=2 if right else 0).err
    assert right in said and Path(line.split()[-1]).exists() == (not right)


# What features are counted from in the training file (of features 1 to 7, so that it doesn't show), and in the test
# file, the options of train, and what is warned of.
BASES: list[tuple[str, str, str, str]] = [
    ("as it is", _SVM, "", ""),
    ("a 0 in the test file", _SVM.replace(" 1:1", " 0:9 1:1"), "", "has a feature 0"),
    ("both from 0", _SVM.replace(" 1:1", " 0:9 1:1"), "--first-feature 0", ""),
    ("without the last feature", "".join(f"{i % 2} {1 + i % 4}:1\n" for i in range(8)), "", ""),
    ("without the first feature", "1 2:1 6:0.5\n1 4:1 5:0.5\n0 3:1 7:1\n", "", ""),
]


@pytest.mark.parametrize("model", [
    "xr-linear", "neighbors", "ensemble --set member0__model=xr-linear --set member1__model=neighbors",
])  # fmt: skip
@pytest.mark.parametrize(("kind", "test", "options", "warned"), BASES)
def test_the_first_feature_stays_with_the_model(
    model: str, kind: str, test: str, options: str, warned: str, call: Any
) -> None:
    Path("train.svm").write_text(_SVM)
    Path("test.svm").write_text(test)
    said = call(f"train {model} train.svm --model m --test test.svm {options}").err
    assert f"features counted from {0 if options else 1}" in said
    assert (warned in said) if warned else "Warning" not in said
    call("convert m n", code=2)  # a model is no matrix
    shutil.copytree("m", "copy")
    outcome = call("evaluate copy test.svm -k 1 --json -")
    assert outcome.json["measures"]["P"]["1"] == 1.0
    assert (warned in outcome.err) if warned else "Warning" not in outcome.err
    if not warned and model == "xr-linear":
        X, Y = data.load_svmlight("test.svm", zero_based=bool(options), n_features=9)
        top = sylvan.load("m").rank(X[:, : 8 if options else 7], k=1)
        assert top.labels[:, 0].tolist() == Y.argmax(1).ravel().tolist()[0]


def test_the_first_feature_through_updates_and_conversions(call: Any) -> None:
    Path("train.svm").write_text(_SVM)
    call("train neighbors train.svm --model m -q")
    call("update m train.svm")
    assert sylvan.load("m").first_feature_ == 1
    assert "Wrote a.svm: features counted from 1." in call("convert train.svm a.svm").err
    call("convert train.svm a.xmc")
    assert Path("a.svm").read_text().split() == _SVM.split()
    assert (data.load_xmc("a.xmc")[0] != data.load_svmlight("a.svm")[0]).nnz == 0


@pytest.mark.parametrize("highest", [3_000_000, 1_900_000_133, 2**31 - 2])
def test_features_of_high_ids_cost_what_their_columns_cost(highest: int, call: Any) -> None:
    rows = [(i % 2, 1 + i % 4, 5 + i % 3) for i in range(20)]
    for name, scale in (("low", 1), ("high", highest // 7)):
        Path(f"{name}.svm").write_text("".join(f"{y} {a * scale}:1 {b * scale}:0.5\n" for y, a, b in rows))
        call(f"train xr-linear {name}.svm --model {name} --threads 1")
        call(f"predict {name} {name}.svm -o {name}.jsonl -q")
        assert " GB" not in call(f"plan xr-linear {name}.svm").out.split("rankers")[1].split("\n")[0]
    assert Path("low.jsonl").read_text() == Path("high.jsonl").read_text()
    X, Y = data.load_svmlight("high.svm")
    tracemalloc.start()
    sylvan.XRLinear(n_jobs=1).fit(X, Y)
    assert tracemalloc.get_traced_memory()[1] < 60_000_000
    tracemalloc.stop()
    pytest.importorskip("torch")
    if highest > 10**9:
        said = call("train irli high.svm --model i", code=1).err
        assert "features would take" in said and " GB of memory, but" in said


_ROWS = "text\tlabels\nwhale\tSea\n{0}\tSea\nflour\tBaking\noven {1}\tBaking\n"
# A table, its name, what read_table is given, its texts, and the words of the warning or error; None is an error.
TABLES: list[tuple[str, str, dict[str, Any], list[str] | None, str]] = [
    ("a.tsv", _ROWS.format('"Elections', "bread"), {}, ["whale", '"Elections', "flour", "oven bread"], "line 3"),
    ("a.tsv", _ROWS.format('"Elections', 'bread"'), {}, ["whale", '"Elections', "flour", 'oven bread"'], "line 3"),
    ("a.tsv", _ROWS.format('"12" vinyl', "bread"), {}, ["whale", '"12" vinyl', "flour", "oven bread"], "--no-quoting"),
    ("a.tsv", _ROWS.format('12" vinyl', 'bread"'), {}, ["whale", '12" vinyl', "flour", 'oven bread"'], ""),
    ("a.tsv", _ROWS.format('"a ""b"" c"', "x"), {}, ["whale", 'a "b" c', "flour", "oven x"], ""),
    ("a.tsv", _ROWS.format('"a\tb"', "x"), {}, ["whale", "a\tb", "flour", "oven x"], ""),
    ("a.tsv", _ROWS.format('"a\nb"', "x"), {}, ["whale", "a\nb", "flour", "oven x"], "line 3, 'a\\nb'"),
    ("a.tsv", _ROWS.format('"a ""b"" c"', "x"), {"quoting": False}, ["whale", '"a ""b"" c"', "flour", "oven x"], ""),
    ("a.csv", _ROWS.format('"a\n\nb"', "x").replace("\t", ","), {}, ["whale", "a\n\nb", "flour", "oven x"], "1 row "),
    ("a.csv", _ROWS.format('12" vinyl', "x").replace("\t", ","), {}, ["whale", '12" vinyl', "flour", "oven x"], ""),
    ("a.csv", _ROWS.format('"12" vinyl', "x").replace("\t", ","), {}, None, "line 3: not a row of CSV"),
    ("a.csv", _ROWS.format('"12 vinyl', "x").replace("\t", ","), {}, None, "--no-quoting"),
    ("a.csv", _ROWS.format('"12 vinyl', "x").replace("\t", ","), {"quoting": False},
     ["whale", '"12 vinyl', "flour", "oven x"], ""),
    ("a.tsv", 'text\tlabels\n"a\tb\nc"\tSea\n', {"quoting": True}, ["a\tb\nc"], "over several lines"),
    ("a.tsv", 'text\tlabels\n"a\tb\nc"\tSea\n', {}, ['"a', 'c"'], "--quoting"),
    ("a.csv", "sep=;\ntext;labels\nwhale, blue;Sea\n", {}, ["whale, blue"], ""),
    ("a.csv", "\ufeffSEP=\t\r\ntext\tlabels\r\nwhale\tSea\r\n", {}, ["whale"], ""),
    ("a.csv", "text,labels,text\nwhale,Sea,more\n", {}, None, "columns 1 and 3 are both called 'text'"),
    ("a.csv", "text,labels,n,n\nwhale,Sea,1,2\n", {}, None, "both called 'n'"),
    ("a.csv", "text,labels,,\nwhale,Sea,1,2\n", {}, ["whale"], ""),
    ("a.csv", "a,b,a\nwhale,Sea,more\n", {"text_columns": 1, "labels_columns": 2, "header": True}, ["whale"], ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "options", "texts", "words"), TABLES)
def test_tables(name: str, content: str, options: dict[str, Any], texts: list[str] | None, words: str, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes(content.encode())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if texts is None:
            with raises(DataError, words):
                data.read_table(path, **options)
            return
        assert data.read_table(path, **options).texts == texts
    message = " ".join(str(one.message) for one in said)
    assert (words in message) if words else not message


def test_tables_from_the_command_line(call: Any, refused: Any, model: None) -> None:
    Path("b.csv").write_text('sep=;\ntext;labels\n"whale;Sea\nflour;Baking\n')
    rows = call("convert b.csv - --to jsonl --no-quoting").rows
    assert [row["text"] for row in rows] == ['"whale', "flour"]
    refused("--no-quoting", "convert b.csv c.jsonl --to jsonl")
    refused("--quoting is for tables", "convert a.jsonl c.csv --no-quoting")


def cells(name: str) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table."""
    with open(name, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter="\t" if name.endswith("tsv") else ",")
    return header, rows


WRITTEN = ("predict m b.jsonl -o x.{}", "convert b.jsonl x.{}")


@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize("text", ["a\rb", "a\r", "a\nb", 'a "b"', "a,b\tc", "a"])
def test_all_tables_are_written_alike(text: str, ending: str, call: Any, model: None) -> None:
    data.write_records("b.jsonl", [{"id": text, "text": "whale", "labels": ["Sea"]}])
    for line in WRITTEN:
        call(line.format(ending) + " -q")
        header, rows = cells(f"x.{ending}")
        assert dict(zip(header, rows[0], strict=True))["id"] == text


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@a", "\tx", "\rx", "a=1"])
def test_formulas_are_guarded_on_request(text: str, call: Any, model: None) -> None:
    data.write_records("b.jsonl", [{"id": text, "text": "whale", "labels": ["Sea"]}])
    for line in WRITTEN:
        for options, right in (("", text), ("--guard-formulas", text if text == "a=1" else f"'{text}")):
            call(f"{line.format('csv')} -q {options}")
            header, rows = cells("x.csv")
            assert dict(zip(header, rows[0], strict=True))["id"] == right
            assert "score" not in header or all(float(row[header.index("score")]) < 1e9 for row in rows)


@pytest.mark.parametrize(("stream", "line", "words"), [
    ("stdin", "predict m -", "stdin is closed"), ("stdin", "predict m", "stdin is closed"),
    ("stdin", "evaluate m -", "stdin is closed"), ("stdin", "convert - b.csv", "stdin is closed"),
    ("stdout", "predict m a.jsonl", "stdout is closed"), ("stdout", "convert a.jsonl - --to csv", "stdout is closed"),
    ("stdin", "predict m a.jsonl -o top.csv", ""), ("stdout", "predict m a.jsonl -o top.csv", ""),
    ("stdout", "evaluate m a.jsonl", ""),
])  # fmt: skip
@pytest.mark.parametrize("how", ["none", "closed"])
def test_closed_streams(
    stream: str, line: str, words: str, how: str, model: None, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    capsys.readouterr()
    monkeypatch.setattr(sys, stream, None if how == "none" else closed)
    if stream == "stdout" and how == "closed" and not words:
        return  # what a command says at its end goes to the terminal, which Python itself has closed then
    code = main(line.split())
    said = capsys.readouterr().err
    assert (code, "Traceback" in said, "inside Sylvan" in said) == (2 if words else 0, False, False), said
    assert words in said
