"""Models of libpecos rank as there, and folders that are none are refused with a sentence."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises, warns

from sylvan import TopK
from sylvan.errors import DataWarning, ModelError, ParameterError
from sylvan.importers import from_libpecos

from .answers import FIXTURES, copy_of, expected, need_no_crash, need_same, rows

COMBINES = {
    "noop": "ranker", "sigmoid": "sigmoid", "log-sigmoid": "sigmoid", "l1-hinge": "l1_hinge", "l2-hinge": "l2_hinge",
    "l4-hinge": "l4_hinge", "log-l3-hinge": "l3_hinge",
}  # fmt: skip


def change(folder: Path, edit: Callable[[dict[str, Any]], None], layers: tuple[int, ...] = (0, 1, 2)) -> Path:
    """Edits the parameters of some layers."""
    for t in layers:
        path = folder / "ranker" / f"{t}.model" / "param.json"
        param = json.loads(path.read_text())
        edit(param)
        path.write_text(json.dumps(param))
    return folder


def with_word(folder: Path, word: str, layers: tuple[int, ...] = (0, 1, 2)) -> Path:
    return change(folder, lambda param: param["pred_kwargs"].update(post_processor=word), layers)


@pytest.mark.parametrize("name", ["libpecos", "libpecos-flat", "libpecos-some"])
def test_ranks_as_libpecos(name: str) -> None:
    model = from_libpecos(FIXTURES / name)
    need_same(model.rank(rows(), 6), expected("libpecos")[name])
    assert model.combine == "l3_hinge" and model.n_labels_ == 24 and model.n_features_ == 40
    assert model.bias == 0.5 and (model.beam == 4 or name == "libpecos-flat")


@pytest.mark.parametrize("word", COMBINES)
def test_every_post_processor(word: str, tmp_path: Path) -> None:
    model = from_libpecos(with_word(copy_of("libpecos", tmp_path), word))
    assert model.combine == COMBINES[word]
    top = model.rank(rows(), 6)
    if word.startswith("log-"):
        top = TopK(top.labels, np.log(top.scores))
    need_same(top, expected("libpecos")[word], 2e-5)


def test_the_ranker_folder_itself_will_do() -> None:
    whole, inner = from_libpecos(FIXTURES / "libpecos"), from_libpecos(str(FIXTURES / "libpecos" / "ranker"))
    np.testing.assert_array_equal(whole.rank(rows(), 6).scores, inner.rank(rows(), 6).scores)


def test_a_label_that_may_not_be_named_has_no_chance() -> None:
    top = from_libpecos(FIXTURES / "libpecos-some").rank(rows(), 24, beam=24)
    allowed = np.isin(top.labels, [0, 1, 2, 5, 8, 13, 21])
    assert (top.scores[~allowed & (top.labels >= 0)] == 0).all() and (top.scores[allowed] > 0).any()


def test_small_weights_are_nearly_as_good() -> None:
    exact, small = from_libpecos(FIXTURES / "libpecos"), from_libpecos(FIXTURES / "libpecos", weight_dtype="uint8")
    assert small.layers_[0].values.dtype == np.uint8
    np.testing.assert_allclose(exact.rank(rows(), 1).scores, small.rank(rows(), 1).scores, atol=0.1)


def test_different_words_for_different_layers(tmp_path: Path) -> None:
    folder = with_word(copy_of("libpecos", tmp_path), "noop", (2,))
    assert from_libpecos(folder).combine == ["l3_hinge", "l3_hinge", "ranker"]
    change(folder, lambda param: param["pred_kwargs"].update(only_topk=9), (1,))
    with warns(DataWarning, "4, 9", "only_topk", "the largest, 9"):
        assert from_libpecos(folder).beam == 9


@pytest.mark.parametrize(
    ("layers", "word", "sentence"),
    [
        ((0,), "l5-hinge", ("layer 0", "l5-hinge")),
        ((1,), "noop", ("layer 2", "layer 1")),
        ((1,), "log-l3-hinge", "logarithms"),
        ((1,), "l2-hinge", ("l2_hinge", "l3_hinge")),
    ],
)
def test_words_that_sylvan_lacks(layers: tuple[int, ...], word: str, sentence: object, tmp_path: Path) -> None:
    with raises(ModelError, sentence):
        from_libpecos(with_word(copy_of("libpecos", tmp_path), word, layers))


def test_not_a_model(tmp_path: Path) -> None:
    with raises(ModelError, "param.json", "missing"):
        from_libpecos(tmp_path)
    (tmp_path / "param.json").write_text("[")
    with raises(ModelError, "JSON", "line 1"):
        from_libpecos(tmp_path)
    (tmp_path / "param.json").write_text('{"model": "XTransformer"}')
    with raises(ModelError, "XTransformer", "XLinearModel"):
        from_libpecos(tmp_path)
    (tmp_path / "param.json").write_text('{"model": "XLinearModel", "depth": 65}')
    with raises(ModelError, "depth", "[1, 64]", 65):
        from_libpecos(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [("depth", 2, ("depth=2", 3)), ("nr_labels", 7, ("nr_labels=7", 24)), ("nr_labels", "24", ("='24'", 24))],
)
def test_sizes_that_the_layers_do_not_have(name: str, value: Any, sentence: object, tmp_path: Path) -> None:
    path = copy_of("libpecos", tmp_path) / "ranker" / "param.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with raises(ModelError, sentence):
        from_libpecos(path.parent)


def test_parameters(tmp_path: Path) -> None:
    with raises(ParameterError, "weight_dtype"):
        from_libpecos(FIXTURES / "libpecos", weight_dtype="int4")
    folder = change(copy_of("libpecos", tmp_path), lambda param: param.update(bias="one"))
    with raises(ModelError, "bias", "[-1, 1000000000]", "one"):
        from_libpecos(folder)
    change(folder, lambda param: param.update(bias=-1.0))
    assert from_libpecos(folder).n_features_ == 41, "without a bias the last row of W is a feature like any other"
    change(folder, lambda param: param.update(is_mmap=True))
    with raises(ModelError, "compiled"):
        from_libpecos(folder)


def test_matrices_that_do_not_fit(tmp_path: Path) -> None:
    folder = copy_of("libpecos", tmp_path)
    layer = folder / "ranker" / "1.model"
    W, C = sp.load_npz(layer / "W.npz"), sp.load_npz(layer / "C.npz")
    sp.save_npz(layer / "W.npz", W[:, 1:])
    with raises(ModelError, "W.npz", 7, "C.npz", 8):
        from_libpecos(folder)
    sp.save_npz(layer / "W.npz", W[1:])
    with raises(ModelError, "layer 1", 39, "layer 0", 40):
        from_libpecos(folder)
    sp.save_npz(layer / "W.npz", W)
    sp.save_npz(layer / "C.npz", C[:, 1:].tocsc())
    with raises(ModelError, "C.npz", "layer 1", 2, 3):
        from_libpecos(folder)
    sp.save_npz(layer / "C.npz", sp.csc_matrix(np.ones(C.shape, np.float32)))
    with raises(ModelError, "node 0", 3):
        from_libpecos(folder)
    np.save(layer / "W.npz.npy", W.toarray())
    (layer / "W.npz.npy").replace(layer / "W.npz")
    with raises(ModelError, "W.npz"):
        from_libpecos(folder)


def test_a_tree_without_anything(tmp_path: Path) -> None:
    folder = copy_of("libpecos", tmp_path)
    C = sp.load_npz(folder / "ranker" / "0.model" / "C.npz")
    sp.save_npz(folder / "ranker" / "0.model" / "C.npz", sp.csc_matrix(C.shape, dtype=np.float32))
    with raises(ModelError, "[-1, -1]"):
        from_libpecos(folder)


def test_too_many_features(tmp_path: Path) -> None:
    folder = copy_of("libpecos", tmp_path)
    for t in range(3):
        path = folder / "ranker" / f"{t}.model" / "W.npz"
        W = sp.load_npz(path)
        W = sp.csc_matrix((W.data, W.indices, W.indptr), shape=(2**31 - 1, W.shape[1]))
        sp.save_npz(path, W)
    model = from_libpecos(folder)  # an index of a few megabytes
    assert model.n_features_ == 2**31 - 2


def test_spoiled_folders(tmp_path: Path) -> None:
    folder = copy_of("libpecos-some", tmp_path)
    assert need_no_crash(from_libpecos, folder, 0) > 30


def test_a_text2text_application(tmp_path: Path) -> None:
    several = tmp_path / "xlinear_ensemble"
    several.mkdir()
    shutil.copytree(FIXTURES / "libpecos", several / "0")
    (several / "config.json").write_text('{"nr_ensembles": 1}')
    need_same(from_libpecos(tmp_path).rank(rows(), 6), expected("libpecos")["libpecos"])
    (several / "config.json").write_text('{"nr_ensembles": 2}')
    with raises(ModelError, "import", 2):
        from_libpecos(tmp_path)
