"""What kinds ask of a State: the right answer, or a sentence that names the file; each kind by its one module."""

import importlib
import json
import pkgutil
from collections.abc import Callable
from pathlib import Path

import child_processes
import numpy as np
import pytest
from kit.errors import raises

import sylvan
from sylvan import TextModel, XRLinear, store
from sylvan.errors import ModelError
from sylvan.store import State
from sylvan.store.registry import KINDS


@pytest.fixture
def state(tmp_path: Path) -> State:
    arrays = {
        "offsets": np.array([0, 2, 2, 5], np.int64), "falling": np.array([0, 3, 2, 5], np.int64),
        "late": np.array([1, 2], np.int64), "none": np.zeros(0, np.int64), "ids": np.array([[0, 3], [1, 2]], np.int32),
        "nan": np.array([0.5, np.nan], np.float32), "inf": np.array([0.5, -np.inf], np.float16), "scalar": np.array(3),
        "rows.indptr": np.array([0, 1, 3], np.int64), "rows.indices": np.array([2, 0, 1], np.int32),
        "rows.data": np.array([0.5, 2, 3], np.float32),
    }  # fmt: skip
    values = {"n": 3, "x": 0.5, "flag": True, "word": "tfn", "nothing": None}
    part = State("inner", 1)
    store.save(tmp_path / "m", State("outer", 2, {"cost": 1.0, "beam": 10}, values, arrays, {"inner": part}))
    return store.load(tmp_path / "m")


def test_what_is_right_is_given(state: State) -> None:
    store.need_kind(state, "outer", 2)
    store.need_kind(state, "outer", 3)
    assert store.need_array(state, "ids", np.int32, (2, None)).tolist() == [[0, 3], [1, 2]]
    assert store.need_array(state, "ids", ("u1", "<i4"), (None, 2)).shape == (2, 2)
    assert store.need_array(state, "scalar", np.int64, ()) == 3
    assert store.need_offsets(state, "offsets", total=5, length=4).tolist() == [0, 2, 2, 5]
    assert store.need_offsets(state, "offsets")[-1] == 5
    assert store.need_range(state, "ids", 0, 3).shape == (2, 2)
    assert store.need_range(state, "none", 0, 0, np.int64, (None,)).size == 0
    assert store.need_rising(state, "late", 1, 2, np.int64).tolist() == [1, 2]
    assert store.need_finite(state, "ids").size == 4
    assert store.need_csr(state, "rows", (2, 3)).to_scipy().toarray().tolist() == [[0, 0, 0.5], [2, 3, 0]]
    assert store.need_int(state, "n", 1, 3) == 3
    assert store.need_int(state, "beam") == 10
    assert store.need_float(state, "n") == 3.0 and store.need_float(state, "x", 0, 1) == 0.5
    assert store.need_bool(state, "flag") is True
    assert store.need_choice(state, "word", ("tfn", "man")) == "tfn"
    assert store.need_params(state, ("beam", "cost")) == {"cost": 1.0, "beam": 10}
    assert store.need_part(state, "inner", "inner").kind == "inner"


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda s: store.need_kind(s, "inner"), ("outer", "inner")),
        (lambda s: store.need_kind(s, "outer", 1), ("layouts", 2, 1)),
        (lambda s: store.need_array(s, "gone", np.int32, (2,)), ("manifest.json", "gone")),
        (lambda s: store.need_array(s, "ids", np.float32, (2, 2)), ("ids", "float32", "int32")),
        (lambda s: store.need_array(s, "ids", ("f4", "f2"), (2, 2)), ("float32", "float16", "int32")),
        (lambda s: store.need_array(s, "ids", np.int32, (None,)), "(2, 2)"),
        (lambda s: store.need_array(s, "ids", np.int32, (3, None)), (3, "ids")),
        (lambda s: store.need_offsets(s, "falling"), "position 2"),
        (lambda s: store.need_offsets(s, "late"), (0, 1)),
        (lambda s: store.need_offsets(s, "none"), "offset"),
        (lambda s: store.need_offsets(s, "offsets", total=6), ("end", 6, 5)),
        (lambda s: store.need_offsets(s, "offsets", length=5), (5, "offsets")),
        (lambda s: store.need_offsets(s, "ids"), ("int64", "ids")),
        (lambda s: store.need_range(s, "ids", 0, 2), ("[0, 2]", 3)),
        (lambda s: store.need_range(s, "ids", 1, 3), ("[1, 3]", 0)),
        (lambda s: store.need_range(s, "nan", -1, 1), ("[-1, 1]", "nan")),
        (lambda s: store.need_rising(s, "offsets", 0, 5, np.int64), "position 2"),
        (lambda s: store.need_rising(s, "late", 0, 1, np.int64), ("[0, 1]", 2)),
        (lambda s: store.need_range(s, "gone", -1, 1), "gone"),
        (lambda s: store.need_range(s, "ids", 0, 9, np.int64), ("int64", "ids")),
        (lambda s: store.need_range(s, "ids", 0, 9, np.int32, (4,)), (4, "'ids'")),
        (lambda s: store.need_csr(s, "rows", (3, 3)), (4, "rows.indptr")),
        (lambda s: store.need_csr(s, "rows", (2, 2)), ("row 0", "[0, 1]")),
        (lambda s: store.need_finite(s, "nan"), "NaN"),
        (lambda s: store.need_finite(s, "inf"), "NaN"),
        (lambda s: store.need_finite(s, "gone"), "gone"),
        (lambda s: store.need_int(s, "gone"), ("manifest.json", "gone")),
        (lambda s: store.need_int(s, "x"), ("'x'", "0.5")),
        (lambda s: store.need_int(s, "flag"), ("True", "flag")),
        (lambda s: store.need_int(s, "n", 4), ("[4, inf)", 3)),
        (lambda s: store.need_int(s, "n", None, 2), ("inf", 2, 3)),
        (lambda s: store.need_float(s, "word"), "float"),
        (lambda s: store.need_float(s, "x", 1, 2), ("[1, 2]", "0.5")),
        (lambda s: store.need_bool(s, "n"), ("True", "False", 3)),
        (lambda s: store.need_choice(s, "word", ("a", "b")), ("'a'", "'b'", "tfn")),
        (lambda s: store.need_choice(s, "nothing", ("a",)), ("None", "nothing")),
        (lambda s: store.need_params(s, ("beam",)), "cost"),
        (lambda s: store.need_params(s, ("beam", "cost", "seed")), "seed"),
        (lambda s: store.need_part(s, "gone"), "gone"),
        (lambda s: store.need_part(s, "inner", "vocabulary"), ("vocabulary", "inner")),
    ],
)
def test_what_is_wrong_is_a_sentence(state: State, ask: Callable[[State], object], sentence: object) -> None:
    with raises(ModelError, sentence) as caught:
        ask(state)
    assert state.where in str(caught.value) and str(caught.value).endswith(".")


ROOMS = ("data", "text", "indexing", "ranking", "models")


def test_every_kind_is_in_the_table_under_the_module_that_registers_it() -> None:
    for room in ROOMS:
        package = importlib.import_module(f"sylvan.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    registered = {}
    for kind in store.loaders:
        owner = getattr(store.loaders[kind], "__self__", None)
        if owner is not None and owner.__module__.startswith("sylvan."):
            registered[kind] = owner.__module__.removeprefix("sylvan.")
    assert registered == {name: kind.module for name, kind in KINDS.items()}
    encoding = {name for name, kind in KINDS.items() if kind.texts_alone}
    assert encoding == {"lexical-matcher", "xr-transformer", "x-transformer"}


def loaded_to_open(folder: Path) -> set[str]:
    code = "import json, sys, sylvan; sylvan.load(sys.argv[1]); print(json.dumps(sorted(sys.modules)))"
    done = child_processes.python("-c", code, folder, check=True)
    return set(json.loads(done.stdout))


def test_a_model_is_opened_without_the_other_families(tmp_path: Path) -> None:
    model = TextModel(model=XRLinear()).fit(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]])
    model.save(tmp_path / "m")
    loaded = loaded_to_open(tmp_path / "m")
    assert {"sylvan.models.text", "sylvan.models.xr.xr_linear", "sylvan.text.tfidf"} <= loaded
    others = {f"sylvan.models.{family}" for family in ("transformer", "irli", "beam_tree")}
    assert not {name for name in loaded if any(name.startswith(other) for other in others)}


@pytest.mark.parametrize("name", sylvan.__all__)
def test_public_names_are_found_and_listed(name: str) -> None:
    assert name in dir(sylvan)
    assert getattr(sylvan, name) is not None


def test_tune_is_the_function_in_whatever_order_its_package_is_loaded() -> None:
    code = (
        "import importlib, sylvan; importlib.import_module('sylvan.tune.result'); assert callable(sylvan.tune); "
        "importlib.import_module('sylvan.tune.tuner'); assert callable(sylvan.tune)"
    )
    child_processes.python("-c", code, check=True)


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with raises(AttributeError, "sylvan", "nothing"):
        sylvan.nothing  # noqa: B018
