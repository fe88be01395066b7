"""Clipping, the refresh schedule, the picture of a training."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from kit.errors import raises

from sylvan.errors import DataError, ParameterError
from sylvan.neural import History, RefreshSchedule, clip_gradients, draw_convergence


@pytest.mark.parametrize("limit", [0.5, 1e6])
def test_clipping_is_that_of_dense_gradients(limit: float) -> None:
    torch.manual_seed(0)
    ids = torch.tensor([1, 1, 4, 0])

    def gradients(sparse: bool) -> tuple[list[torch.Tensor], torch.nn.Embedding, torch.nn.Linear]:
        torch.manual_seed(1)
        table, line = torch.nn.Embedding(6, 3, sparse=sparse), torch.nn.Linear(3, 2)
        (line(table(ids)) ** 2).sum().backward()
        return [torch.nn.Parameter(torch.ones(2)), table.weight, *line.parameters()], table, line

    mine, table, _ = gradients(sparse=True)
    theirs, dense, _ = gradients(sparse=False)
    norm = clip_gradients(mine, limit)
    expected = torch.nn.utils.clip_grad_norm_(theirs, limit)
    assert table.weight.grad is not None and table.weight.grad.is_sparse
    torch.testing.assert_close(norm, expected)
    torch.testing.assert_close(table.weight.grad.to_dense(), dense.weight.grad)
    for a, b in zip(mine[2:], theirs[2:], strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_a_tensor_alone_is_clipped() -> None:
    table = torch.nn.Parameter(torch.zeros(2, 2))
    table.grad = torch.full((2, 2), 3.0)
    assert float(clip_gradients(table, 1.0)) == 6
    torch.testing.assert_close(table.grad, torch.full((2, 2), 0.5))


def test_nothing_to_clip() -> None:
    assert float(clip_gradients([torch.ones(2)], 1.0)) == 0


def test_a_norm_below_zero_would_turn_the_gradients_round() -> None:
    for wrong in (-1.0, 0, float("nan")):
        with raises(ParameterError, "max_norm", "clip_gradients"):
            clip_gradients([torch.ones(2)], wrong)
    assert float(clip_gradients([torch.ones(2)], float("inf"))) == 0  # asks for the norm alone


def test_the_schedule() -> None:
    schedule = RefreshSchedule(every=50)
    due = [step for step in range(400) if schedule.due(step)]
    assert due == [*range(0, 200, 10), 200, 250, 300, 350]


@pytest.mark.parametrize(("larger", "value", "order"), [
    (True, 0.6, 1), (True, 0.5, 0), (True, 0.4, -1), (False, 0.6, -1), (False, 0.5, 0), (False, 0.4, 1),
    (True, float("nan"), -1), (False, float("nan"), -1),
])  # fmt: skip
def test_entries_are_compared_with_the_best(larger: bool, value: float, order: int) -> None:
    assert History("measure", larger, best={"measure": 0.5}).compare(value) == order
    assert History("measure", larger).compare(value) == (1 if value == value else -1)


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
    with raises(DataError, "draw"):
        draw_convergence(History("perplexity", False), [tmp_path / "a.png"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with raises(DataError, "matplotlib"):
        draw_convergence(history, [tmp_path / "a.png"])
