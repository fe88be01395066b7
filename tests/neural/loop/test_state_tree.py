"""Nested values through a folder and back, bit for bit."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kit.errors import raises

from sylvan import store
from sylvan.errors import ModelError, ParameterError
from sylvan.neural import load_tree, save_tree

TENSORS = {
    "scalar": torch.tensor(3.5), "empty": torch.zeros(0, 4), "bool": torch.tensor([True, False]),
    "bool scalar": torch.tensor(True), "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
    "bfloat": torch.tensor([[1.5, 3e38]], dtype=torch.bfloat16),
    "bfloat scalar": torch.tensor(2.0, dtype=torch.bfloat16), "int": torch.arange(5),
    "bytes": torch.arange(5, dtype=torch.uint8), "nan": torch.tensor([float("nan"), float("inf")]),
    "transposed": torch.arange(6.0).reshape(2, 3).t(), "parameter": torch.nn.Parameter(torch.ones(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name: str, tmp_path: Path) -> None:
    save_tree(tmp_path / "t", {"x": [TENSORS[name]]}, kind="test")
    back = load_tree(tmp_path / "t", kind="test")["x"][0]
    was = TENSORS[name].detach()
    assert back.dtype == was.dtype and back.shape == was.shape
    assert torch.equal(back.contiguous().view(-1).view(torch.uint8), was.contiguous().view(-1).view(torch.uint8))
    back.zero_()  # it may be written to


def test_plain_values(tmp_path: Path) -> None:
    tree = {
        "none": None, "yes": True, "n": -3, "huge": 2**127, "x": 0.1, "inf": -math.inf, "text": "ağaç",
        "list": [1, [2.5, "a"]], "tuple": (1, (2,)), "numbers": {0: "a", 7: {"$x": 1}},
        "empty": {}, "dollar": {"$int": 5},
    }  # fmt: skip
    save_tree(tmp_path / "t", tree, kind="test")
    assert load_tree(tmp_path / "t", kind="test") == tree


def test_nan_and_arrays(tmp_path: Path) -> None:
    save_tree(tmp_path / "t", {"a": float("nan"), "b": np.arange(3)}, kind="test")
    back = load_tree(tmp_path / "t", kind="test")
    assert math.isnan(back["a"]) and back["b"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [object(), {1.5: 2}, torch.eye(2).to_sparse(), 1j, torch.zeros(1) * 1j])
def test_what_it_cannot_hold_is_refused(value: Any, tmp_path: Path) -> None:
    with raises(ParameterError, "'x'"):
        save_tree(tmp_path / "t", {"x": value}, kind="test")
    assert not (tmp_path / "t").exists()


def test_another_kind_is_refused(tmp_path: Path) -> None:
    save_tree(tmp_path / "t", {}, kind="test")
    with pytest.raises(ModelError):
        load_tree(tmp_path / "t", kind="other")


@pytest.mark.parametrize("tree", [{"$tensor": ["a7", "float32"]}, {"$tensor": 3}, {"$float": "x"}, {"$what": 1}])
def test_a_tree_that_means_nothing_is_refused(tree: Any, tmp_path: Path) -> None:
    store.save(tmp_path / "t", store.State("test", 1, meta={"tree": tree}))
    with raises(ModelError, "damaged"):
        load_tree(tmp_path / "t", kind="test")
