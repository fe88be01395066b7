"""What XRTransformer and XTransformer say of texts, labels and encoders that they can't learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from encoded_texts import LABELS, TEXTS, small

from sylvan.errors import DataError, ModelError, NotFittedError

pytest.importorskip("torch")


def test_what_is_no_text_is_refused(frozen: Any) -> None:
    for call in (lambda X: small().fit(X, LABELS), frozen.rank, frozen.embed):
        with pytest.raises(DataError, match=r"XRTransformer takes a list of strings\. Got a matrix of numbers instead"):
            call(np.eye(48))
        with pytest.raises(DataError, match=r"XRTransformer takes a list of strings\. Got a matrix of numbers instead"):
            call(sp.eye(48).tocsr())
        with pytest.raises(DataError, match=r"texts must be strings\. Got int in row 1 instead"):
            call(["one", 2] + ["three"] * 46)
        with pytest.raises(DataError, match="Got one string instead"):
            call("one text")


def test_labels_with_no_text() -> None:
    with pytest.raises(DataError, match="X has 46 texts, but Y has labels for 48"):
        small().fit(TEXTS[:-2], LABELS)
    with pytest.raises(DataError, match="No text has a label: there is nothing to learn"):
        small().fit(TEXTS, [[]] * 48)


def test_empty_texts(frozen: Any) -> None:
    texts = ["", "  \n", *TEXTS[2:]]
    with pytest.warns(UserWarning, match="2 of 48 texts with labels are empty"):
        model = small(frozen=True).fit(texts, LABELS)
    assert np.isfinite(model.rank(["", "whale"], k=2, unknown="prior").scores).all()
    top = model.rank(["", "whale"], k=2)
    assert top.labels[0].tolist() == [-1, -1] and np.isfinite(top.scores[1]).all()
    with pytest.raises(DataError, match="Every text that has labels is empty"):
        small().fit([""] * 48, LABELS)


def test_texts_past_the_length_limit_are_reported_once() -> None:
    from sylvan.neural import BagTextEncoder

    texts = ["whale " * 40, "sea " * 30, *TEXTS[2:]]
    with pytest.warns(UserWarning) as caught:
        small(frozen=True, encoder=BagTextEncoder(dim=8, n_buckets=64, max_length=20)).fit(texts, LABELS)
    words = [str(warning.message) for warning in caught]
    assert words == [
        "2 of 48 texts are longer than max_length=20 tokens: the encoder sees their beginnings only (TF-IDF sees them "
        "whole)."
    ]


def test_an_encoder_that_is_not_there_or_not_whole(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"local folder|no folder|not.*folder|can't be"):
        small(encoder=str(tmp_path / "nowhere")).fit(TEXTS, LABELS)
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="encoder"):
        small(encoder=folder).fit(TEXTS, LABELS)


def test_a_failed_fit_leaves_no_half_model() -> None:
    model = small()
    with pytest.raises(DataError):
        model.fit(TEXTS, LABELS[:-1])
    with pytest.raises(NotFittedError):
        _ = model.encoder_
