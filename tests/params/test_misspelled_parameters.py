"""Misspelled parameters, of constructors and of what methods pass on, are errors that say what may have been meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sylvan import TextModel, TfidfVectorizer, XRLinear
from sylvan.errors import ParameterError

X, Y = np.eye(6, dtype=np.float32), np.arange(6) % 3
MODEL = XRLinear().fit(X, Y)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: XRLinear(bean=3), r"XRLinear\.__init__\(\) .*'bean'\. Did you mean 'beam'\?"),
        (lambda: XRLinear(colour=3), r"Known names: branching, max_leaf"),
        (lambda: TfidfVectorizer(ngram=(1, 2)), r"Did you mean 'ngrams'\?"),
        (lambda: TextModel().set_params(modle=3), r"no parameter 'modle'\. Did you mean 'model'\?"),
        (lambda: XRLinear().set_params(bean=3), r"no parameter 'bean'\. Did you mean 'beam'\?"),
        (lambda: MODEL.predict(X, treshold=0.1), "no option 'treshold'"),
        (lambda: MODEL.predict_proba(X, bean=3), r"no option 'bean'\. Did you mean 'beam'\?"),
        (lambda: XRLinear(2, branching=3), r"XRLinear\.__init__\(\) multiple values for argument 'branching'$"),
        (lambda: MODEL.rank(X, bean=3), r"rank\(\) got an unexpected keyword argument 'bean'"),
        (lambda: XRLinear().fit(X, Y, beam=3), r"fit\(\) got an unexpected keyword argument 'beam'"),
    ],
)
def test_misspelled(call: Any, said: str) -> None:
    with pytest.raises((TypeError, ParameterError), match=said):
        call()
