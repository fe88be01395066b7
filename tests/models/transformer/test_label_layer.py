"""The label layer: loss and gradients against a slow double loop, and nothing of the table's size is ever made."""

import numpy as np
import pytest
import torch
from sampling.suite import LargestMade

from sylvan import LabelTree
from sylvan.models.transformer.layer_job import LabelLayer, dense_table, squared_hinge, table_weights
from sylvan.sampling import RowwiseAdagrad

N, NODES, DIM = 5, 12, 4


def made(
    dtype: torch.dtype = torch.float32,
) -> tuple[LabelLayer, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    layer = LabelLayer(NODES, DIM).to(dtype)
    with torch.no_grad():
        layer.table.copy_(torch.randn(NODES, DIM, generator=random))
        layer.bias.copy_(torch.randn(NODES, 1, generator=random))
    embeddings = torch.randn(N, DIM, generator=random, dtype=dtype).requires_grad_()
    nodes = torch.tensor([1, 3, 4, 7, 11])
    positive = torch.rand(N, 5, generator=random) < 0.4
    weights = torch.rand(N, 5, generator=random, dtype=dtype) * (torch.rand(N, 5, generator=random) < 0.7)
    return layer, embeddings, nodes, positive, weights


def slow_loss(
    layer: LabelLayer, embeddings: torch.Tensor, nodes: torch.Tensor, positive: torch.Tensor, weights: torch.Tensor
) -> float:
    table, bias, x = (t.detach().double().numpy() for t in (layer.table, layer.bias, embeddings))
    total = 0.0
    for i in range(len(x)):
        for place, node in enumerate(nodes.tolist()):
            score = sum(x[i][d] * table[node][d] for d in range(x.shape[1])) + bias[node][0]
            margin = max(0.0, 1 - score if positive[i, place] else 1 + score)
            total += float(weights[i, place]) * margin**2
    return total / len(x)


def test_the_loss_is_the_slow_double_loop() -> None:
    layer, embeddings, nodes, positive, weights = made()
    loss = squared_hinge(layer(embeddings, nodes), positive, weights)
    assert loss.item() == pytest.approx(slow_loss(layer, embeddings, nodes, positive, weights), rel=1e-5)
    assert loss.item() > 0.1


def test_gradients_are_the_differences_of_the_loss() -> None:
    """In single precision, as the layer computes; a step of 1/64 leaves three digits of a central difference."""
    layer, embeddings, nodes, positive, weights = made()
    squared_hinge(layer(embeddings, nodes), positive, weights).backward()
    assert layer.table.grad is not None and layer.table.grad.is_sparse
    assert layer.bias.grad is not None and layer.bias.grad.is_sparse
    assert embeddings.grad is not None
    for parameter, gradient in (
        (layer.table, layer.table.grad.to_dense()),
        (layer.bias, layer.bias.grad.to_dense()),
        (embeddings, embeddings.grad),
    ):
        for place in np.ndindex(*parameter.shape):
            found = []
            for step in (1 / 64, -1 / 64):
                with torch.no_grad():
                    parameter[place] += step
                found.append(slow_loss(layer, embeddings, nodes, positive, weights))
                with torch.no_grad():
                    parameter[place] -= step
            difference = (found[0] - found[1]) * 32
            assert float(gradient[place]) == pytest.approx(difference, abs=0.02, rel=0.02)
    missing = sorted(set(range(NODES)) - set(nodes.tolist()))
    assert not layer.table.grad.to_dense()[missing].any()


@pytest.mark.parametrize("kind", ["sparse-adam", "rowwise-adagrad"])
def test_a_step_makes_nothing_of_the_tables_size(kind: str) -> None:
    """Five million nodes: forward, backward and step make nothing larger than the candidates' vectors."""
    n_nodes, dim = 5_000_000, 4
    layer = LabelLayer(n_nodes, dim)
    parameters = list(layer.parameters())
    optimizer = torch.optim.SparseAdam(parameters) if kind == "sparse-adam" else RowwiseAdagrad(parameters)
    embeddings = torch.randn(8, dim, generator=torch.Generator().manual_seed(0)).requires_grad_()
    nodes = torch.arange(60) * 80_000
    positive = torch.zeros(8, 60, dtype=torch.bool)
    for step in range(2):  # the first step of an optimiser may make its state
        optimizer.zero_grad()
        with LargestMade() as watch:
            squared_hinge(layer(embeddings, nodes), positive, torch.ones(8, 60)).backward()
        with watch if step else LargestMade():
            optimizer.step()
        assert 0 < watch.largest <= 8 * 60 * 8, watch.by  # the table has 80,000,000 bytes
    assert int((layer.bias != -1).sum()) <= 60


def test_under_autocast_scores_stay_in_single_precision() -> None:
    layer, embeddings, nodes, *_ = made()
    exact = layer(embeddings, nodes)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(embeddings, nodes), exact)
        assert layer(embeddings.bfloat16(), nodes).dtype == torch.float32


def test_a_table_and_the_weights_of_the_beam_search_are_the_same() -> None:
    random = np.random.default_rng(0)
    table, bias = (
        random.standard_normal((NODES, DIM)).astype(np.float32),
        random.standard_normal(NODES).astype(np.float32),
    )
    table[2, 1] = table[5] = 0
    tree = LabelTree((np.array([0, 3]), np.array([0, 4, 5, NODES])), np.arange(NODES), NODES)
    weights = table_weights(table, bias, tree.child_offsets[1])
    for found, expected in zip(dense_table(weights), (table, bias), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_embeddings_may_stand_behind_other_features() -> None:
    table, bias = np.ones((2, DIM), np.float32), np.zeros(2, np.float32)
    weights = table_weights(table, bias, np.array([0, 2]), n_features=10, first=6)
    wide = np.zeros((2, 10), np.float32)
    wide[:, 6:] = 1
    np.testing.assert_array_equal(dense_table(weights)[0], wide)
