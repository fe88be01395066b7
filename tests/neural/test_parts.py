"""Clipping, the refresh schedule, the encoders, the picture of a training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sylvan.errors import DataError, ParameterError
from sylvan.neural import (
    CausalTransformer,
    History,
    LSTMEncoder,
    RefreshSchedule,
    clip_gradients,
    draw_convergence,
)


@pytest.mark.parametrize("limit", [0.5, 1e6])
def test_clipping_is_that_of_dense_gradients(limit: float) -> None:
    torch.manual_seed(0)
    ids = torch.tensor([1, 1, 4, 0])

    def gradients(sparse: bool) -> tuple[list[torch.Tensor], torch.nn.Embedding, torch.nn.Linear]:
        torch.manual_seed(1)
        table, line = torch.nn.Embedding(6, 3, sparse=sparse), torch.nn.Linear(3, 2)
        (line(table(ids)) ** 2).sum().backward()
        return [table.weight, *line.parameters(), torch.nn.Parameter(torch.ones(2))], table, line

    mine, table, _ = gradients(sparse=True)
    theirs, dense, _ = gradients(sparse=False)
    norm = clip_gradients(mine, limit)
    expected = torch.nn.utils.clip_grad_norm_(theirs, limit)
    assert table.weight.grad is not None and table.weight.grad.is_sparse
    torch.testing.assert_close(norm, expected)
    torch.testing.assert_close(table.weight.grad.to_dense(), dense.weight.grad)
    for a, b in zip(mine[1:3], theirs[1:3], strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_nothing_to_clip() -> None:
    assert float(clip_gradients([torch.ones(2)], 1.0)) == 0


def test_the_schedule() -> None:
    schedule = RefreshSchedule(every=50)
    due = [step for step in range(400) if schedule.due(step)]
    assert due == [*range(0, 200, 10), 200, 250, 300, 350]
    with pytest.raises(ParameterError, match="'every' parameter of RefreshSchedule"):
        RefreshSchedule(every=0)


def test_the_lstm_carries_its_state() -> None:
    torch.manual_seed(0)
    encoder = LSTMEncoder(20, embedding=6, hidden=5, dropout=0.5).eval()
    ids = torch.randint(20, (3, 8))
    whole, _ = encoder(ids)
    first, state = encoder(ids[:, :5], encoder.zero_state(3))
    second, _ = encoder(ids[:, 5:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    assert whole.shape == (3, 8, encoder.dim_out)


def test_the_transformer_looks_back_only() -> None:
    torch.manual_seed(0)
    encoder = CausalTransformer(20, dim=8, n_heads=2, feed_forward=16, max_length=6)
    ids = torch.randint(20, (3, 6))
    changed = ids.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 20
    for module in (encoder.train(), encoder.eval()):
        a, b = module(ids), module(changed)
        torch.testing.assert_close(a[:, :4], b[:, :4])
        assert not torch.allclose(a[:, 4:], b[:, 4:])
    swapped = ids[:, [1, 0, 2, 3, 4, 5]]
    assert not torch.allclose(encoder(ids)[:, 5], encoder(swapped)[:, 5])  # positions matter


def test_wrong_encoders() -> None:
    with pytest.raises(ParameterError, match="multiple of 'n_heads', 3"):
        CausalTransformer(20, dim=8, n_heads=3)
    with pytest.raises(ParameterError, match="'hidden' parameter of LSTMEncoder"):
        LSTMEncoder(20, hidden=0)
    with pytest.raises(DataError, match="up to 4 ids"):
        CausalTransformer(20, dim=8, n_heads=2, feed_forward=8, max_length=4)(torch.zeros(1, 5, dtype=torch.int64))


@pytest.fixture
def history() -> History:
    entries: list[dict[str, Any]] = [
        {"epoch": e, "step": 10 * e, "seconds": 1.0 * e, "loss": 5.0 / e, "perplexity": 100.0 / e} for e in (1, 2, 3)
    ]
    entries.append({"epoch": 4, "step": 40, "seconds": 4.0, "loss": float("nan"), "perplexity": float("inf")})
    return History("perplexity", False, entries, entries[2], "epochs")


def test_the_picture_is_the_same_every_time(history: History, tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw_convergence(history, [tmp_path / f"{name}.png", tmp_path / f"{name}.svg"], "a training")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "validation perplexity" in (tmp_path / "a.svg").read_text()
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_no_picture(history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="nothing to draw"):
        draw_convergence(History("perplexity", False), [tmp_path / "a.png"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataError, match="needs matplotlib"):
        draw_convergence(history, [tmp_path / "a.png"])


def test_what_encoders_need_is_loaded_with_an_encoder() -> None:
    code = (
        "import sys; from sylvan.neural import BagTextEncoder, SentenceEncoder, TransformerEncoder, embed, train;"
        "embed(BagTextEncoder(dim=2), ['a']); TransformerEncoder('bert'); SentenceEncoder('bert');"
        "print(sorted({'sentence_transformers', 'transformers', 'accelerate', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
