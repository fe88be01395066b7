"""Encoders of texts that know what each word means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.neural import BagTextEncoder


def encoder_of_words(words: Sequence[str], vector_of: Callable[[str], np.ndarray[Any, Any]]) -> BagTextEncoder:
    """A text's vector is the sum of its words' vectors, at length 1."""
    import torch

    from sylvan.neural import BagTextEncoder

    encoder = BagTextEncoder(dim=len(vector_of(words[0])), vectorizer=TfidfVectorizer(min_df=1).fit(words)).load()
    assert encoder.vectorizer is not None
    with torch.no_grad():
        encoder.bag.constant.zero_()
        for column in range(encoder.vectorizer.n_terms_):
            encoder.bag.features[column] = torch.from_numpy(vector_of(encoder.vectorizer.term(column)))
    return encoder
