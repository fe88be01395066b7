"""Models of omikuji rank as there, whatever the length of the rows, and damaged ones are refused with a sentence."""

import json
import struct
import sys
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

from sylvan.errors import ModelError, ParameterError
from sylvan.importers import from_omikuji
from sylvan.importers.omikuji import read_cbor

from .answers import FIXTURES, copy_of, expected, need_no_crash, need_same, rows


def sparse(**changes: Any) -> dict[str, Any]:
    return {"Sparse": {**SPARSE["Sparse"], **changes}}


DENSE = {"Dense": {"v": 1, "dim": [3, 2], "data": [1.5, 0, 0, -2.25, 0.1, 0]}}
SPARSE = {
    "Sparse": {
        "outer_dim": 3, "inner_dim": 2, "indptr": [0, 1, 2, 3], "outer_inds": [0, 1, 2], "inner_inds": [0, 1, 0],
        "data": [1.5, -2.25, 0.1],
    }
}  # fmt: skip


def folder_of(tree: Any, folder: Path, **settings: Any) -> Path:
    """A model of two features and one tree."""
    content = {"n_features": 2, "classifier_loss_type": "Hinge", **settings}
    (folder / "settings.json").write_text(json.dumps(content))
    (folder / "tree0.cbor").write_bytes(tree if isinstance(tree, bytes) else cbor2.dumps(tree))
    return folder


def leaf(weights: Any = DENSE, labels: Any = (0, 1)) -> dict[str, Any]:
    return {"Leaf": {"weights": weights, "labels": list(labels)}}


@pytest.mark.parametrize("name", ["omikuji", "omikuji-uneven"])
def test_ranks_as_omikuji(name: str) -> None:
    model = from_omikuji(FIXTURES / name)
    assert model.beam == 10 and model.normalize and len(model.rankers_) == (2 if name == "omikuji" else 1)
    for scale in (1, 3, 0.01):
        need_same(model.rank(rows() * scale, 6, beam=30), expected("omikuji")[name])


def test_a_label_that_was_never_seen_has_no_chance() -> None:
    model = from_omikuji(FIXTURES / "omikuji")
    top = model.rank(rows(), 24, beam=24)
    assert model.n_labels_ == 24 and (top.scores[top.labels == 3] == 0).all() and (top.labels == 3).any()
    assert (top.scores[:, :3] > 0).all()


def test_labels_beyond_the_last() -> None:
    model = from_omikuji(FIXTURES / "omikuji", n_labels=30)
    need_same(model.rank(rows(), 6, beam=30), expected("omikuji")["omikuji"])
    assert model.n_labels_ == 30
    with raises(ParameterError, "n_labels", 24, "label 23", 12):
        from_omikuji(FIXTURES / "omikuji", n_labels=12)
    with raises(ParameterError, "n_labels"):
        from_omikuji(FIXTURES / "omikuji", n_labels=0)


def test_dense_and_sparse_weights_are_the_same(tmp_path: Path) -> None:
    X = np.array([[3.0, 4.0], [1.0, 0.0]])
    scores = from_omikuji(folder_of(leaf(), tmp_path)).rank(X, 2).scores
    np.testing.assert_array_equal(from_omikuji(folder_of(leaf(SPARSE), tmp_path)).rank(X, 2).scores, scores)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    margins = np.column_stack((1.5 * unit[:, 0] + 0.1, -2.25 * unit[:, 1]))
    np.testing.assert_allclose(scores, -np.sort(-np.exp(-(np.maximum(0, 1 - margins) ** 2)), axis=1), rtol=1e-5)


def test_labels_at_different_depths(tmp_path: Path) -> None:
    inner = {"Branch": {"weights": DENSE, "children": [leaf(labels=(4, 1)), leaf(labels=(0, 2))]}}
    tree = {"Branch": {"weights": DENSE, "children": [inner, leaf(labels=(3, 5))]}}
    model = from_omikuji(folder_of(tree, tmp_path))
    assert model.tree_.depth == 3 and sorted(model.tree_.leaf_labels.tolist()) == list(range(6))
    h = np.exp(-(np.maximum(0, 1 - np.array([1.5 * 0.6 + 0.1, -2.25 * 0.8])) ** 2))
    by_label = {4: h[0] * h[0] * h[0], 1: h[0] * h[0] * h[1], 0: h[0] * h[1] * h[0], 2: h[0] * h[1] * h[1],
                3: h[1] * h[0], 5: h[1] * h[1]}  # fmt: skip
    top = model.rank(np.array([[3.0, 4.0]]), 6)
    np.testing.assert_allclose(top.scores[0], [by_label[label] for label in top.labels[0].tolist()], rtol=1e-5)
    # The leaf that lies higher takes one place in the beam, not one for each of its labels.
    assert [len(weights.intercepts) for weights in model.layers_] == [2, 3, 6]
    assert set(model.rank(np.array([[0.0, -1.0]]), 4, beam=2).labels[0].tolist()) == {5, 3, 2, 0}


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ({"Twig": {}}, "node"),
        ([1], "node"),
        ({"Branch": {"weights": DENSE, "children": 2}}, ("children", "node")),
        (leaf(None), ("weights", "Dense")),
        (leaf(labels=(0, -1)), ("labels", "[0, 2147483646]")),
        (leaf(labels=(0, 1.5)), "labels"),
        (leaf(labels=(0, 1, 2)), (3, "[3, 2]", 6)),
        (leaf({"Dense": {**DENSE["Dense"], "data": [1.0] * 5}}), ("[3, 2]", 5)),
        (leaf({"Dense": {**DENSE["Dense"], "data": "many"}}), "data"),
        (leaf({"Dense": {**DENSE["Dense"], "data": [1e300] * 6}}), "finite"),
        (leaf(sparse(outer_dim=4)), ("dimensions", 4, 2)),
        (leaf(sparse(outer_inds=[0, 1, 3])), ("outer_inds", "[0, 2]")),
        (leaf(sparse(inner_inds=[0, 1, 2])), ("inner_inds", "[0, 1]")),
        (leaf(sparse(indptr=[0, 2, 1, 3])), "places"),
        (leaf(sparse(data=[1.0])), "places"),
        (leaf(sparse(outer_inds=[0, 0, 2], inner_inds=[1, 1, 0])), "twice"),
        (leaf(labels=(0, 2**31 - 2)), (2147483646, 2)),
        (leaf(labels=(1, 1)), ("label 1", "cluster 0")),
    ],
)  # fmt: skip
def test_trees_that_are_none(tree: Any, sentence: object, tmp_path: Path) -> None:
    with raises(ModelError, sentence):
        from_omikuji(folder_of(tree, tmp_path))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", ("premature", 0)), (b"\x01\x01", ("end", 1)), (b"\x9f", ("indefinite", 1)),
        (b"\xbb" + b"\xff" * 8, ("premature", 9)), (b"\x9a\xff\xff\xff\xff" * 200, 1000),
        (b"\x7b\x00\x00\x00\xff\xff\xff\xff\xffLeaf", ("premature", 13)), (b"\x41a", ("Branch", "Leaf")),
        (b"\xa1\x41a\xa0", ("Branch", "Leaf")), (b"\xa1\x01\x01", "map"), (b"\xa2\x61a\x01\x61a\x01", "map"),
        (b"\xa1\x61\xff\x01", "decoding"), (b"\x81" * 100_000 + b"\x60", 220), (b"\xc1" * 100_000 + b"\x60", 220),
        (b"\x82\x01\x61a", ("Branch", "Leaf")), (b"\x82\xfa\x00", "premature"),
        (b"\x79\xff\xff" + b"a" * 0xFFFF, ("Branch", "Leaf")),
        (b"\x7a\x00\x02\x00\x00" + b"a" * 0x20000, ("Branch", "Leaf")),
    ],
)  # fmt: skip
def test_files_that_are_no_cbor(content: bytes, sentence: object, tmp_path: Path) -> None:
    with raises(ModelError, sentence):
        from_omikuji(folder_of(content, tmp_path))


def test_settings(tmp_path: Path) -> None:
    with raises(ModelError, "settings.json", "missing"):
        from_omikuji(tmp_path)
    with raises(ModelError, "classifier_loss_type", "Cubic"):
        from_omikuji(folder_of(leaf(), tmp_path, classifier_loss_type="Cubic"))
    with raises(ModelError, "n_features"):
        from_omikuji(folder_of(leaf(), tmp_path, n_features=-1))
    (folder_of(leaf(), tmp_path) / "tree0.cbor").unlink()
    with raises(ModelError, "tree0.cbor", "missing"):
        from_omikuji(tmp_path)


def test_a_tree_that_is_missing(tmp_path: Path) -> None:
    folder = copy_of("omikuji", tmp_path)
    (folder / "tree1.cbor").rename(folder / "tree2.cbor")
    with raises(ModelError, "lacks", "tree1.cbor", "tree2.cbor"):
        from_omikuji(folder)
    (folder / "tree2.cbor").rename(folder / "tree0.old.cbor")
    assert len(from_omikuji(folder).rankers_) == 1


def test_a_tree_too_deep(tmp_path: Path) -> None:
    tree: Any = leaf()
    for label in range(66):
        tree = {"Branch": {"weights": DENSE, "children": [tree, leaf(labels=(2 * label + 2, 2 * label + 3))]}}
    with raises(ModelError, "layers", 64):
        from_omikuji(folder_of(tree, tmp_path))


def test_lists_of_numbers_are_arrays(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    halves = [struct.pack(">BH", 0xF9, int(bits)) for bits in random.integers(0, 1 << 16, 300)]
    values = random.normal(size=200)
    singles = [struct.pack(">Bf", 0xFA, value) for value in values[:100]]
    doubles = [struct.pack(">Bd", 0xFB, value) for value in values[100:]]
    whole = [*range(30), *(1 << np.arange(8, 64)).tolist(), 2**64 - 1, -1, -24, -25, -(1 << 40), -(2**64)]
    items = [*halves, *singles, *doubles, *map(cbor2.dumps, whole)]
    content = b"\xa1\x64data" + struct.pack(">BH", 0x99, len(items)) + b"".join(items)
    (tmp_path / "numbers").write_bytes(content)
    numbers = read_cbor(tmp_path / "numbers")["data"]
    expected = [struct.unpack(">e", half[1:])[0] for half in halves]
    expected += [*values[:100].astype(np.float32).tolist(), *values[100:].tolist(), *map(float, whole)]
    assert numbers.dtype == np.float64
    np.testing.assert_array_equal(numbers, expected)


@pytest.mark.parametrize("values", [[1.5, "2"], [True, 1], [None], [[1]], [{"a": 1}], "12", 7])
def test_what_is_no_list_of_numbers_stays_what_it_is(values: Any, tmp_path: Path) -> None:
    (tmp_path / "values").write_bytes(cbor2.dumps({"data": values}))
    assert read_cbor(tmp_path / "values") == {"data": values}


@pytest.mark.parametrize("tag", [0, 1, 2, 4, 5, 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 43000, 55799, 65535])
def test_tags_are_refused(tag: int, tmp_path: Path) -> None:
    for value in (1, "a", b"a", [1, 1], {}):
        (tmp_path / "tag").write_bytes(cbor2.dumps({"data": [cbor2.CBORTag(tag, value)]}))
        with raises(ModelError, tag, "semantic"):
            read_cbor(tmp_path / "tag")


def test_without_cbor2_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cbor2", None)
    with raises(ModelError, "tree0.cbor", "CBOR", "cbor2", "sylvan[cbor]"):
        from_omikuji(FIXTURES / "omikuji")


def test_spoiled_folders(tmp_path: Path) -> None:
    for name in ("omikuji", "omikuji-uneven"):
        assert need_no_crash(from_omikuji, copy_of(name, tmp_path), 1) > 10


def test_rows_of_nothing() -> None:
    model = from_omikuji(FIXTURES / "omikuji")
    assert np.isfinite(model.rank(sp.csr_matrix((2, 40)), 3).scores).all()
