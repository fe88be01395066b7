"""``sylvan convert`` and training, predicting and evaluating on every format of text."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.commands import start
from waiting import PATIENCE

from sylvan import data
from sylvan.cli.io.formats import detect

TEXTS = ["whales harpoon ship", 'bread, "flour"\toven', "stars & planets"]
LABELS = [["whaling", "sea"], ["baking"], []]
URIS = [[f"http://example.org/{label}" for label in row] for row in LABELS]
WAYS = ["a.csv", "a.tsv.gz", "a.txt --to fasttext", "a.parquet", "a.jsonl.xz --to annif-jsonl",
        "corpus --to annif-folder"]  # fmt: skip


@pytest.fixture
def source(in_folder: Path) -> None:
    data.write_jsonl("source.jsonl", TEXTS, LABELS)


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("way", WAYS)
def test_there_and_back(way: str, call: Any) -> None:
    if way == "a.parquet":
        pytest.importorskip("pyarrow")
    assert call(f"convert source.jsonl {way}").out == ""
    call(f"convert {way.split()[0]} back.jsonl")
    assert data.read_jsonl("back.jsonl") == (TEXTS, LABELS, None)


@pytest.mark.usefixtures("source")
def test_pecos_with_its_items(call: Any, refused: Any) -> None:
    convert = "convert source.jsonl a.txt --to pecos --output-items items.txt"
    refused("holds a line break or tab", convert)
    assert not Path("a.txt").exists() and not Path("items.txt").exists()
    call(f"{convert} --one-line")
    assert detect("a.txt", None) == "pecos"
    assert call("convert a.txt - --to jsonl --items items.txt").labels == LABELS


@pytest.mark.usefixtures("source")
def test_labels_become_uris_through_a_vocabulary(call: Any) -> None:
    subjects = Path("subjects.tsv")
    subjects.write_text("".join(f"<{uri}>\t{uri[19:]}\n" for row in URIS for uri in row))
    for name, form in (("a.tsv", "annif-tsv"), ("a.csv", "annif-csv")):
        call(f"convert source.jsonl {name} --to {form} --vocabulary subjects.tsv --one-line")
        assert detect(name, None) == form
        assert call(f"convert {name} - --to jsonl").labels == URIS
    subjects.write_text("<http://example.org/sea>\tsea\n")
    said = call("convert source.jsonl b.tsv --to annif-tsv --vocabulary subjects.tsv --one-line").err
    assert "not in the vocabulary and left out, such as 'whaling'" in said


def test_a_pipe_and_stdin(call: Any) -> None:
    found = call("convert - - --from csv --to fasttext", stdin=b"text,labels\na b,x;y\n")
    assert found.out == "__label__x __label__y a b\n"


def test_a_pipe_that_ends_early() -> None:
    data.write_jsonl("a.jsonl", ["some words"] * 20_000, [["x"]] * 20_000)
    process = start("convert", "a.jsonl", "-", "--to", "csv")
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == b"text,labels\n"
    process.stdout.close()
    assert (process.wait(PATIENCE), process.stderr.read()) == (0, b"")


def test_matrices(call: Any) -> None:
    call("convert {test.xmc} pair/")
    X, Y = data.load_npz_pair("pair/")
    call("convert pair/ b.svm")
    call("convert b.svm c.xmc")
    X2, Y2 = data.load_xmc("c.xmc")
    np.testing.assert_array_equal(X2.toarray(), X.toarray()[:, : X2.shape[1]])
    np.testing.assert_array_equal(Y2.toarray(), Y.toarray())
    call("convert {test.xmc} x.npy --output-labels y.npz")
    np.testing.assert_array_equal(data.load_npy("x.npy"), X.toarray())
    np.testing.assert_array_equal(data.load_npz("y.npz").toarray(), Y.toarray())
    call("convert x.npy mapped --to csr")
    call("convert mapped back.npz --to npz")
    np.testing.assert_array_equal(data.load_npz("back.npz").toarray(), X.toarray())


def test_weights_are_dropped_when_asked(call: Any, refused: Any) -> None:
    data.write_jsonl("a.jsonl", ["a"], [["x"]], [[2.0]])
    refused("Row 0 weighs its labels, and a table holds no weights", "convert a.jsonl b.csv --to csv")
    assert call("convert a.jsonl - --to csv --drop-weights").out.endswith("a,x\n")
    assert call("convert a.jsonl - --to lines --texts-only").out == "a\n"


def test_train_predict_and_evaluate_on_a_table(call: Any) -> None:
    call("convert {train.jsonl} train.csv")
    call("train xr-linear train.csv --model m --ngrams 1,1 -q")
    same = [call(f"evaluate {model} {{test.jsonl}} --json -").out for model in ("m", "{text-model}")]
    assert same[0] == same[1]
    Path("subjects.tsv").write_text("<Whaling>\tthe catching of whales\n")
    columns = "--text-field 1 --labels-field 2 --header"
    answers = call(f"predict m train.csv -k 1 --vocabulary subjects.tsv {columns} -q").rows
    assert {"Whaling": "the catching of whales"}.items() <= {a["uris"][0]: a["labels"][0] for a in answers}.items()


def test_evaluate_leaves_pairs_out(call: Any, refused: Any, files: Any) -> None:
    X, Y = data.load_xmc(files("test.xmc"))
    evaluate = "evaluate {matrix-model} {test.xmc} --json -"
    data.save_filter_labels("pairs.txt", Y)
    found = call(f"{evaluate} --filter-labels pairs.txt").json
    assert set(found["measures"]["P"].values()) == {0.0}  # every true label was filtered from the answers
    Path("pairs.txt").write_text("")
    assert call(f"{evaluate} --filter-labels pairs.txt").out == call(evaluate).out
    Path("pairs.txt").write_text(f"{X.shape[0]} 0\n")
    refused("names row 60, but there are 60 rows", f"{evaluate} --filter-labels pairs.txt")


def test_folders_that_hold_nothing_known(refused: Any) -> None:
    Path("set", "train").mkdir(parents=True)
    refused("is a folder, not a file, and holds neither", "convert set a.csv")
    Path("set", "dataset_dict.json").write_text("{}")
    refused("holds several datasets: give the path of one of train", "convert set a.csv")


def test_parts_are_trained_on_as_the_matrix_is(call: Any, refused: Any) -> None:
    X = sp.random(60, 20, 0.3, "csr", np.float32, np.random.default_rng(0))
    Y = sp.csr_matrix(np.arange(60)[:, None] % 5 <= np.arange(5)).astype(np.float32)
    data.save_xmc("train.txt", X, Y)
    call("convert train.txt parts --to parts")
    for name, source in (("one", "train.txt"), ("two", "parts")):
        call(f"train xr-linear {source} --model {name} --quiet")
        call(f"predict {name} {source} -o {name}.jsonl --quiet")
        call(f"evaluate {name} {source} --json {name}.json --quiet")
    assert Path("one.jsonl").read_bytes() == Path("two.jsonl").read_bytes()
    one, two = (json.loads(Path(name).read_text()) for name in ("one.json", "two.json"))
    assert one["measures"] == two["measures"]
    call("convert parts again.txt --to xmc")
    assert Path("again.txt").read_bytes() == Path("train.txt").read_bytes()
    refused("holds the labels itself", "convert train.txt p --to parts --output-labels Y.npz")
    data.save_parts("bare", X)
    refused("holds no labels: give them with --labels", "train xr-linear bare --model m")
