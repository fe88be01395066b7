"""The best classes of all: what a full sort gives, whatever the chunks."""

from typing import Any

import pytest
from kit.errors import raises

torch = pytest.importorskip("torch")

from sylvan.errors import DataError, ParameterError  # noqa: E402
from sylvan.sampling import best_classes, topk  # noqa: E402


@pytest.mark.parametrize("chunk_size", [1, 3, 11, None])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_against_a_full_sort(chunk_size: int | None, dtype: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(best_classes, "_ROWS", 4)
    torch.manual_seed(1)
    kind = getattr(torch, dtype)
    queries, table, bias = (torch.randn(*shape).to(kind) for shape in ((3, 3, 4), (11, 4), (11,)))
    bias[5] = -torch.inf
    wide = torch.float64 if dtype == "float64" else torch.float32
    right = (queries.to(wide) @ table.to(wide).T + bias.to(wide)).sort(dim=-1, descending=True)
    found = topk(queries, table, 4, bias, chunk_size=chunk_size)
    assert torch.equal(found.classes, right.indices[..., :4]) and found.scores.dtype == wide
    torch.testing.assert_close(found.scores, right.values[..., :4])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(topk(queries, table, 4, bias, chunk_size=chunk_size).scores, found.scores)
    every = topk(queries[0], table, 13, bias, chunk_size=chunk_size)
    assert every.classes[:, 10:].eq(-1).all() and every.scores[:, 10:].eq(-torch.inf).all(), "the masked, and none"
    assert every.classes[:, :10].sort(dim=1).values.tolist() == [[0, 1, 2, 3, 4, 6, 7, 8, 9, 10]] * 3


def test_one_query_and_none() -> None:
    table = torch.eye(3)
    assert topk(torch.tensor([0.0, 1.0, 0.5]), table, 2).classes.tolist() == [1, 2]
    assert topk(torch.zeros(0, 3), table, 2).classes.shape == (0, 2)
    assert not topk(table, torch.nn.Parameter(table), 1).scores.requires_grad


@pytest.mark.parametrize(("options", "kind", "values"), [
    ({"k": 0}, ParameterError, ("'k'",)), ({"chunk_size": 0}, ParameterError, ("'chunk_size'",)),
    ({"queries": torch.ones(2, 4)}, DataError, ("class embeddings", "(n_classes, 4)", "(5, 3)")),
    ({"queries": torch.ones(2, 3, dtype=torch.int64)}, DataError, ("queries", "int64")),
    ({"class_embeddings": torch.nn.Linear(3, 5)}, DataError, (".weight",)),
    ({"bias": torch.ones(4)}, DataError, ("bias", "(5,)")),
])  # fmt: skip
def test_what_does_not_fit(options: Any, kind: type[Exception], values: Any) -> None:
    with raises(kind, *values):
        topk(**{"queries": torch.ones(2, 3), "class_embeddings": torch.ones(5, 3), "k": 1, **options})
