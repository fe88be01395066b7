"""Encoders of texts: the same vectors as by the obvious way, whatever the batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from neural.tiny_bert import tiny_bert

from sylvan.neural import BagTextEncoder, TokenRows, embed, open_encoder

TEXTS = ["Whales in the south seas", "", "A history of the law", "astronomy " * 100, "love"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_bert(tmp_path_factory.mktemp("encoders") / "bert", TEXTS)


@pytest.mark.parametrize("kind", ["bag", "bert"])
def test_one_text_at_a_time(kind: str, folder: str) -> None:
    encoder = open_encoder("bag" if kind == "bag" else folder, max_length=32)
    together = embed(encoder, TEXTS, batch_tokens=64)
    alone = np.concatenate([embed(encoder, [text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert together.shape == (len(TEXTS), encoder.dim_out) and together.dtype == np.float32
    assert len(np.unique(together.round(3), axis=0)) == len(TEXTS)


def test_rows() -> None:
    rows = TokenRows.from_lists([[1, 2], [], [3]])
    assert rows.take([2, 0, 0]).ids.tolist() == [3, 1, 2, 1, 2]
    assert TokenRows.join([rows, rows]).offsets.tolist() == [0, 2, 2, 3, 5, 5, 6]
    ids, mask = rows.dense(9)
    assert ids.tolist() == [[1, 2], [9, 9], [3, 9]] and mask.tolist() == [[1, 1], [0, 0], [1, 0]]


def test_a_bag_is_itself_after_saving(tmp_path: Path) -> None:
    encoder = BagTextEncoder(dim=8, n_buckets=100, seed=3).load()
    encoder.save_pretrained(tmp_path / "bag")
    again = open_encoder(tmp_path / "bag")
    assert again.identity() == encoder.identity()
    np.testing.assert_array_equal(embed(again, TEXTS), embed(encoder, TEXTS))
