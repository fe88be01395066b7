"""Parameters are declared once: what `@parameterized` derives from the fields of a class."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from kit.errors import raises
from torch import nn

from sylvan import XRLinear
from sylvan.errors import ParameterError
from sylvan.params.fields import (
    KW_ONLY,
    Choice,
    Flag,
    Instance,
    Parameterized,
    PerLabel,
    Range,
    Seed,
    Threads,
    attribute,
    fresh,
    parameterized,
)


@parameterized
class Base(Parameterized):
    width: Annotated[int, Range(1)]
    share: Annotated[float | None, Range(0, 1, open_low=True)] = None
    way: Annotated[str, Choice(("up", "down"))] = "up"
    fast: bool = False
    seed: Seed = 0
    _: KW_ONLY
    anything: Any = None

    weights_: list[float] = attribute()
    name_: str = attribute("none")


@parameterized
class Derived(Base):
    way: Annotated[str, Choice(("down", "left"))] = "down"
    share: float = 0.5
    base: Base | None = None
    rounds: Annotated[int | str, Range(1, word="auto")] = "auto"
    inner: Base = fresh(factory=lambda: Base(7))
    n_jobs: Threads = None


@parameterized
class Network(Parameterized, nn.Module):
    layer: nn.Module
    dim: Annotated[int, Range(1)] = 2

    def __post_init__(self) -> None:
        self.check_params()
        self.further = nn.Linear(self.dim, self.dim)


def test_the_constructor_assigns_and_its_signature_says_types_and_defaults() -> None:
    made = Base(3, 0.5, fast=True)
    assert (made.width, made.share, made.way, made.fast, made.seed, made.anything) == (3, 0.5, "up", True, 0, None)
    assert not hasattr(made, "weights_")
    assert made.name_ == "none"
    assert str(inspect.signature(Base)).replace("'", "") == (
        "(width: int, share: float | None = None, way: str = up, fast: bool = False, seed: int = 0, *, "
        "anything: Any = None) -> None"
    )
    with raises(TypeError, "Base.__init__", "depth"):
        Base(3, depth=1)  # type: ignore[call-arg]
    with raises(TypeError, "Base.__init__", "width"):
        Base()  # type: ignore[call-arg]


def test_a_subclass_has_its_bases_parameters_first_and_may_override_them() -> None:
    assert Derived.parameter_names() == [
        "width", "share", "way", "fast", "seed", "base", "rounds", "inner", "n_jobs", "anything",
    ]  # fmt: skip
    assert Derived(1).way == "down"
    assert Derived.constraints["way"] == Choice(("down", "left"))
    assert Base.constraints["way"] == Choice(("up", "down"))
    assert Derived(1).inner.width == 7
    assert Derived(1, inner=None).inner is not Derived(1).inner  # type: ignore[arg-type]
    Derived(1).check_params()


def test_ranges_follow_from_types() -> None:
    known = Derived.constraints
    assert known["width"] == Range(1, kind=int)
    assert Base.constraints["share"] == Range(0, 1, open_low=True, kind=float, optional=True)
    assert known["share"] == Range(0, 1, open_low=True, kind=float)  # only a default of its own, and None no more
    assert known["fast"] == Flag()
    assert known["base"] == Instance((Base,), "a Base", optional=True)
    assert known["rounds"].describe() == "an int in [1, inf), or 'auto'"
    assert known["n_jobs"].describe() == "an int in [1, inf), or -1 or None for every core"
    assert "anything" not in known
    with raises(ParameterError, "width", "[1, inf)", 0):
        Base(0).check_params()
    with raises(ParameterError, "seed", "[0, 2147483647]", "None"):
        Base(1, seed=None).check_params()  # type: ignore[arg-type]


def test_a_number_for_all_labels_or_one_for_each() -> None:
    known = PerLabel(0, 1).of_types([float], optional=False)
    for value in (0, 0.5, 1, [0.5], (0.0, 1), np.array([0, 1]), np.array([0.5], np.float32)):
        assert known.accepts(value), value
    for value in (True, "0.5", -0.1, 1.5, np.nan, [], [0.5, 1.5], [-1, 0.5], [[0.5]], ["a"], [True], np.array(0.5),
                  np.array([0.5, np.nan]), np.array([True])):  # fmt: skip
        assert not known.accepts(value), value
    assert (known.parse("0.5"), known.parse("0.5,1")) == (0.5, [0.5, 1.0])
    with raises(ValueError, "convert"):
        known.parse("0.5,x")


def test_copies_and_pickles_are_as_of_any_object() -> None:
    made = Derived(2, inner=Base(5))
    made.weights_ = [1.0]
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert repr(again) == repr(made) == "Derived(width=2, inner=Base(width=5))"
        assert again.weights_ == [1.0]
        assert again != made


def test_a_module_takes_modules_as_parameters() -> None:
    layer = nn.Linear(1, 1)
    network = Network(layer, dim=3)
    assert [name for name, _ in network.named_children()] == ["layer", "further"]
    assert network.get_params() == {"layer": layer, "dim": 3}
    assert isinstance(network.further.weight, torch.Tensor)


def test_misuse_says_what_to_write() -> None:
    with raises(TypeError, "Bare.width", "range"):

        @parameterized
        class Bare(Parameterized):
            width: int = 1

        Bare.constraints  # noqa: B018

    with raises(TypeError, "Fit.rows_", "rows_: int = attribute()"):

        @parameterized
        class Fit(Parameterized):
            rows_: int

    with raises(TypeError, "Own.__init__", "run"):

        @parameterized
        class Own(Parameterized):
            def __init__(self) -> None:
                pass

    with raises(TypeError, "Late.depth", "default"):

        @parameterized
        class Late(Base):
            fast: bool = False
            width: Annotated[int, Range(1)] = 1
            depth: Annotated[int, Range(1)]  # type: ignore[misc]

    with raises(TypeError, "Word.way", "float"):

        @parameterized
        class Word(Parameterized):
            way: Annotated[str, Range(1)] = "up"

        Word.constraints  # noqa: B018

    with raises(TypeError, "subclasses"):
        parameterized(dict)  # type: ignore[type-var]


def test_a_subclass_may_have_a_constructor_of_its_own() -> None:
    class Own(Base):
        def __init__(self, scale: float) -> None:
            super().__init__(int(3 * scale))

    Own(1.0).check_params()
    with raises(ParameterError, "width", -3):
        Own(-1.0).check_params(["width"])


@pytest.mark.parametrize("name", ["beam", "max_iterations", "max_weights_per_label", "seed"])
def test_numbers_that_kernels_take_fit_their_ints(name: str) -> None:
    with raises(ParameterError, name, "XRLinear", 2147483647):
        XRLinear(**{name: 2**63}).check_params()


def test_docstrings_have_what_only_a_base_says() -> None:
    @parameterized
    class Wide(Parameterized):
        """Of some width.

        Parameters
        ----------
        width, height : int
            Of everything.

        Raises
        ------
        ParameterError
            When it doesn't fit.
        """

        width: Annotated[int, Range(1)] = 1
        height: Annotated[int, Range(1)] = 1

    @parameterized
    class Deep(Wide):
        """Of some depth.

        Notes
        -----
        None.

        Raises
        ------
        DataError
            When it's too dark.
        """

        depth: Annotated[int, Range(1)] = 1

    @parameterized
    class Deeper(Deep):
        """Of more depth.

        Parameters
        ----------
        depth : int
        """

    assert Deep.__doc__ == (
        "Of some depth.\n\nParameters\n----------\nwidth, height : int\n    Of everything.\n\n"
        "Raises\n------\nParameterError\n    When it doesn't fit.\nDataError\n    When it's too dark.\n\n"
        "Notes\n-----\nNone."
    )
    assert "height : int\n    Of everything.\ndepth : int\n\nRaises\n------\nParameterError" in (Deeper.__doc__ or "")
