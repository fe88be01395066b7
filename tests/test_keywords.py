"""Misspelled keywords of public methods and constructors are errors that say what may have been meant."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import sylvan
from sylvan import TextModel, TfidfVectorizer, XRLinear
from sylvan.errors import ParameterError
from sylvan.keywords import suggest_keywords
from sylvan.models.base import Estimator

X, Y = np.eye(6, dtype=np.float32), np.arange(6) % 3
MODEL = XRLinear().fit(X, Y)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: MODEL.rank(X, bean=3), r"XRLinear\.rank\(\) .*'bean'\. Did you mean 'beam'\?"),
        (lambda: MODEL.rank(X, 3, alowed=[1]), r"Did you mean 'allowed'\?"),
        (lambda: MODEL.predict(X, treshold=0.1), "no option 'treshold'"),
        (lambda: XRLinear().fit(X, Y, sample_weights=Y), r"Did you mean 'sample_weight'\?"),
        (lambda: XRLinear().fit(X, Y, beam=3), r"is a parameter of the object, which set_params\(beam=\.\.\.\) sets"),
        (lambda: XRLinear(bean=3), r"XRLinear\.__init__\(\) .*'bean'\. Did you mean 'beam'\?"),
        (lambda: TfidfVectorizer(ngram=(1, 2)), r"Did you mean 'ngrams'\?"),
        (lambda: TextModel().fit(["aa bb"], [["x"]], label_feature=X), r"Did you mean 'label_features'\?"),
        (lambda: XRLinear().set_params(bean=3), r"no parameter 'bean'\. Did you mean 'beam'\?"),
        (lambda: MODEL.predict_proba(X, bean=3), r"no option 'bean'\. Did you mean 'beam'\?"),
        (lambda: XRLinear(colour=3), r"Known names: branching, max_leaf"),
    ],
)
def test_misspelled(call: Any, said: str) -> None:
    with pytest.raises((TypeError, ParameterError), match=said):
        call()


def test_every_model_says_so() -> None:
    """Also methods that are added later: it is derived, not written beside each."""
    for name in sylvan.__all__:
        cls = getattr(sylvan, name)
        if not (inspect.isclass(cls) and issubclass(cls, Estimator)):
            continue
        bare = cls.__new__(cls)
        for method in ("rank", "fit", "update", "choose", "explain"):
            function = getattr(bare, method)
            parameters = inspect.signature(function).parameters
            if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
                continue
            near = next(one for one in reversed(parameters) if parameters[one].default is not inspect.Parameter.empty)
            required = [None for one in parameters.values() if one.default is one.empty]
            with pytest.raises(TypeError, match=rf"unexpected keyword argument '{near}_'\. Did you mean '{near}'\?"):
                function(*required, **{f"{near}_": None})


def test_errors_from_inside_stay_what_they_are() -> None:
    class Inner(XRLinear):
        def rank(self, X: Any, k: int = 10, **more: Any) -> Any:
            return 0

        def helped(self, k: int = 10) -> Any:
            return XRLinear.rank(self, X, bean=k)  # type: ignore[call-arg]

        def wrong(self, k: int = 10) -> Any:
            raise TypeError("got an unexpected keyword argument 'kk'")

    with pytest.raises(TypeError) as raised:
        Inner().wrong(3)
    assert str(raised.value) == "got an unexpected keyword argument 'kk'"
    assert Inner().rank(X, bean=3) == 0  # it takes any name itself
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'X'"):
        MODEL.rank()
    with pytest.raises(TypeError, match="multiple values for argument 'X'"):
        MODEL.rank(X, X=X)


def test_signatures_and_pickles_stay_what_they_are() -> None:
    assert list(inspect.signature(XRLinear.rank).parameters)[:3] == ["self", "X", "k"]
    assert XRLinear.rank.__name__ == "rank" and XRLinear.rank.__doc__ == inspect.unwrap(XRLinear.rank).__doc__
    assert (pickle.loads(pickle.dumps(MODEL.rank))(X, 2).labels == MODEL.rank(X, 2).labels).all()


def test_only_what_needs_it_is_wrapped() -> None:
    class Plain:
        value = 3

        def none(self, X: Any) -> None: ...
        def any(self, X: Any = None, **options: Any) -> None: ...
        def _private(self, k: int = 1) -> None: ...
        def public(self, k: int = 1) -> None: ...

        @property
        def shown(self) -> int:
            return 1

    before = dict(vars(Plain))
    suggest_keywords(Plain)
    assert {name for name in before if vars(Plain)[name] is not before[name]} == {"public"}


def test_modules_of_pytorch_are_left_alone() -> None:
    pytest.importorskip("torch")
    from sylvan.sampling import SampledSoftmaxLoss

    assert not hasattr(SampledSoftmaxLoss.forward, "__wrapped__")
