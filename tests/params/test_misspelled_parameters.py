"""Misspelled parameters, of constructors and of what methods pass on, are errors that say what may have been meant."""

from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan import TextModel, TfidfVectorizer, XRLinear
from sylvan.errors import ParameterError, UnsupportedError

X, Y = np.eye(6, dtype=np.float32), np.arange(6) % 3
MODEL = XRLinear().fit(X, Y)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: XRLinear(bean=3), ("XRLinear.__init__", "bean", "beam")),
        (lambda: XRLinear(colour=3), "max_leaf"),
        (lambda: TfidfVectorizer(ngram=(1, 2)), "ngrams"),
        (lambda: TextModel().set_params(modle=3), ("modle", "model")),
        (lambda: XRLinear().set_params(bean=3), ("bean", "beam")),
        (lambda: MODEL.predict(X, treshold=0.1), "treshold"),
        (lambda: MODEL.predict_proba(X, bean=3), ("bean", "beam")),
        (lambda: XRLinear(2, branching=3), ("XRLinear.__init__", "branching")),
        (lambda: MODEL.rank(X, bean=3), "bean"),
        (lambda: XRLinear().fit(X, Y, beam=3), ("beam", "fit")),
        # What scikit-learn calls it.
        (lambda: XRLinear(random_state=0), ("random_state", "'seed'")),
        (lambda: XRLinear().set_params(C=0.1), ("'C'", "'cost'")),
        (lambda: XRLinear(class_weight="balanced"), ("'positive_cost'", "sample_weight")),
        (lambda: TfidfVectorizer(ngram_range=(1, 2)), "'ngrams'"),
        (lambda: TfidfVectorizer(stop_words="english"), "'max_df'"),
        (lambda: TfidfVectorizer(tokenizer=str.split), "'analyzer'"),
        (lambda: MODEL.decision_function(X), ("rank(X, k).scores", "predict_proba")),
    ],
)
def test_misspelled(call: Any, said: object) -> None:
    with raises((TypeError, ParameterError, UnsupportedError), said):
        call()
