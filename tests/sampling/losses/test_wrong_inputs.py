"""What losses are given by mistake: an empty batch is none, all else ends in a sentence that says what to give."""

from typing import Any

import numpy as np
import pytest
import torch
from kit.errors import raises
from sampling.suite import loss_by_name
from torch import Tensor, nn

from sylvan.errors import DataError, ParameterError
from sylvan.sampling import CANELoss, ClassLoss, FrequencySubsets, InBatch, Uniform, make_loss, make_sampler
from sylvan.sampling.by_name import LOSSES, make_head

N, DIM = 30, 6
COUNTS = torch.arange(1.0, N + 1)


def made(name: str, **parameters: Any) -> ClassLoss:
    return loss_by_name(name, N, 5, counts=COUNTS, dim=DIM, **parameters)


def problem(dtype: torch.dtype = torch.float32) -> tuple[Tensor, nn.Parameter, Tensor]:
    torch.manual_seed(0)
    queries = torch.randn(4, DIM, dtype=dtype, requires_grad=True)
    return queries, nn.Parameter(torch.randn(N, DIM, dtype=dtype)), torch.tensor([3, 0, 29, 3])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("reduction", "dtype"), [("mean", torch.float64), ("none", torch.float32)])
def test_an_empty_batch_has_no_loss(name: str, reduction: str, dtype: torch.dtype) -> None:
    _, table, _ = problem(dtype)
    loss = made(name, reduction=reduction)
    for outer, more in [((0,), ()), ((0,), (3,)), ((2, 0), ()), ((0, 5), (2,)), ((0,), (0,))]:
        queries = torch.zeros(*outer, DIM, dtype=dtype, requires_grad=True)
        value = loss(queries, table, torch.zeros(*outer, *more, dtype=torch.int64))
        assert value.shape == (outer if reduction == "none" else ())
        assert value.dtype == dtype and value.sum() == 0
        value.sum().backward()
        assert queries.grad is not None and queries.grad.shape == queries.shape


@pytest.mark.parametrize("name", LOSSES)
def test_called_like_cross_entropy(name: str) -> None:
    queries, table, targets = problem()
    with raises(DataError, "class_embeddings"):
        made(name)(queries @ table.T, targets)


@pytest.mark.parametrize("name", LOSSES)
def test_wrong_kinds_of_things(name: str) -> None:
    queries, table, targets = problem()
    loss: Any = made(name)
    bias = torch.zeros(N)
    embedding, linear = nn.Embedding(N, DIM), nn.Linear(DIM, N)
    array = queries.detach().numpy()
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((array, table, targets), ("torch.Tensor", "NumPy", "torch.from_numpy")),
        ((array.tolist(), table, targets), ("torch.tensor", "tensor")),
        ((queries, embedding, targets), "module"),
        ((queries, linear, targets), "module"),
        ((queries, nn.Sequential(linear), targets), "returns"),
        ((queries, np.zeros((N, DIM)), targets), ("NumPy", "embeddings")),
        ((queries, table, [3, 0, 29, 3]), ("torch.Tensor", "targets")),
        ((queries, table, np.zeros(4, dtype=int)), ("NumPy", "targets")),
        ((queries, table, 3), ("targets", 3, "int")),
        ((queries, table, targets, 0.5), ("torch.Tensor", "0.5")),
        ((queries, table, targets, bias.numpy()), ("NumPy", "bias")),
        ((queries, table, targets, bias.long()), ("torch.int64", "floating")),
        ((queries.long(), table, targets), ("torch.int64", "floating")),
        ((queries + 0j, table, targets), ("torch.complex64", "floating")),
        ((queries, table.long(), targets), ("torch.int64", "floating")),
        ((queries, table, torch.tensor([3, N, 0, 1])), ("[0, 30)", 30)),
        ((queries, table, torch.tensor([3, -1, 0, 1])), (-1, "[0, 30)")),
        ((queries, table, torch.ones(4)), "integer"),
        ((queries, table, targets[:3]), "(4,)"),
        ((queries[:, :3], table, targets), "dim"),
        ((queries, table[0], targets), "(6,)"),
        ((queries, table, targets, bias[:5]), "(30,)"),
        ((queries, table, targets.to("meta")), "meta"),
        ((queries, table, targets, bias.to("meta")), "meta"),
    ]
    if name not in ("full", "cane"):  # of the latter: test_cane.py
        wrong.append(((queries, table[1:], torch.zeros(4).long()), ("classes", 29)))
    for given, message in wrong:
        with raises(DataError, message):
            loss(*given)


def test_a_nan_in_a_query_shows_in_its_loss() -> None:
    queries, table, targets = problem()
    broken = queries.detach().clone()
    broken[1, 2] = torch.nan
    for name in LOSSES:
        found = made(name, reduction="none")(broken, table, targets)
        assert torch.isnan(found).tolist() == [False, True, False, False], name


def subsets(**parameters: Any) -> FrequencySubsets:
    return FrequencySubsets(COUNTS, 5, 6, DIM, **parameters)


@pytest.mark.parametrize("counts", [5, None, 3.5, "abc", [], [[1, 2], [3, 4]], [-1, 2]])
def test_counts_that_are_none(counts: Any) -> None:
    with raises(DataError, "counts", "FrequencySubsets", "[0, inf)"):
        FrequencySubsets(counts, 1, 1, DIM)
    if counts is not None:
        with raises(DataError, "counts", "FrequencySubsets"):
            make_loss("cane", Uniform(N), 3, counts=counts, dim=DIM)


@pytest.mark.parametrize("learning", ["path", "own"])
def test_candidates_for_other_classes_or_dimensions(learning: str) -> None:
    queries, table, targets = problem()
    for rows, dim, message in [(N, DIM + 1, "(30, 7)"), (N - 5, DIM, "(25, 6)"), (N + 5, DIM, "(35, 6)")]:
        loss = CANELoss(subsets(learning=learning), Uniform(rows))
        with raises(DataError, "FrequencySubsets", "(30, 6)", message):
            loss(torch.zeros(4, dim), torch.zeros(rows, dim), torch.zeros(4, dtype=torch.int64))
        with raises(DataError, "FrequencySubsets", "(30, 6)", message):
            loss.output_embeddings(torch.zeros(rows, dim))
    with raises(DataError, "FrequencySubsets", 6):
        subsets()(queries[:, :3], table)
    with raises(DataError, "FrequencySubsets", "torch.Tensor"):
        subsets()(queries, nn.Embedding(N, DIM))  # type: ignore[arg-type]
    assert CANELoss(subsets(learning=learning), Uniform(N))(queries, table, targets).isfinite()


@pytest.mark.parametrize("split", ["mass", "count"])
def test_subsets_are_made_where_the_counts_are(split: str) -> None:
    with torch.device("meta"):  # what makes a tensor without saying where would now mix devices
        found = FrequencySubsets(torch.arange(1.0, N + 1, device="cpu"), 5, 6, DIM, split=split)
    devices = {name: tensor.device.type for name, tensor in found.state_dict().items()}
    assert set(devices.values()) == {"cpu"}, devices


def test_joint_learning_looks_at_its_table() -> None:
    sampler: Any = make_sampler("midx-joint-rq", N, DIM, n_codewords=4)
    queries, table, _ = problem()
    sampler.refresh(table)
    assert sampler.learning_loss(queries, table).isfinite()
    for wrong, message in [
        (table[:10], ("MIDX.learning_loss", "(30, 6)", "(10, 6)")),
        (table[:, :3], ("(30, 6)", "(30, 3)")),
        (table.long(), "floating"),
        (nn.Embedding(N, DIM), ("MIDX.learning_loss", "weight")),
    ]:
        with raises(DataError, message):
            sampler.learning_loss(queries, wrong)


def test_targets_told_to_in_batch() -> None:
    sampler: Any = InBatch(N)
    with raises(DataError, "InBatch", "torch.Tensor"):
        sampler.observe([1, 2])
    with raises(DataError, "InBatch", "integer"):
        sampler.observe(torch.tensor([1.0]))


def test_names_that_are_none() -> None:
    for name in (["midx-rq"], None, 3):
        with raises(ParameterError, "sampler"):
            make_sampler(name, 10)  # type: ignore[arg-type]
        with raises(ParameterError, "loss"):
            make_loss(name)  # type: ignore[arg-type]


def test_trees_that_are_none() -> None:
    for tree in (["kmeans"], np.zeros(3), None, "oak"):
        with raises(ParameterError, "'tree'", "beam-tree"):
            make_head("beam-tree", 10, 4, tree=tree)  # type: ignore[arg-type]
