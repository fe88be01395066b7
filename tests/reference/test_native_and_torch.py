"""The kernel's steps are those that PyTorch's losses take: the same scores, the same noises, the same gradients."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from reference.class_reference import ReferenceTraining  # noqa: E402
from reference.test_class_training import rows, uneven_tree  # noqa: E402
from sylvan import LabelTree  # noqa: E402
from sylvan.matching.class_beam import ClassWeights  # noqa: E402
from sylvan.models.beam_tree.solver import LOSSES, ClassNoise, ClassTrainer, ClassTraining  # noqa: E402
from sylvan.sampling import (  # noqa: E402
    BeamTreeHead,
    BlackOutLoss,
    FullSoftmaxLoss,
    NCELoss,
    NegativeSamplingLoss,
    Unigram,
)

TOO_CLOSE = 1e-4
D, RATE = 5, 0.3


class Given(Unigram):
    """Draws the given classes."""

    def __init__(self, masses: np.ndarray, ids: list[int]) -> None:
        super().__init__(len(masses), torch.from_numpy(masses))
        self.ids = ids

    def _draw(self, queries: Any, n: int, generator: Any) -> Any:
        ids = torch.tensor(self.ids * (n // len(self.ids) + 1))[:n].expand(len(queries), -1)
        return ids, self._log_prob(queries, ids)


def begun(seed: int, loss: str, n_candidates: int, n_noises: int, masses: np.ndarray | None) -> tuple[Any, ...]:
    """Random weights, the reference that knows which noises the kernel draws, a row, its class, what is selected."""
    rng = np.random.default_rng(seed)
    tree = uneven_tree(rng, 1 + seed % 3, 5) if loss in ("cane", "hsm") else LabelTree.flat(2 + seed % 9)
    weights = ClassWeights.zeros(tree, D)
    weights.weights[:] = rng.normal(size=weights.weights.shape)
    training = ClassTraining(loss, n_candidates, min(n_noises, tree.n_labels), "sgd", RATE, seed=seed, bias=1.0)
    reference = ReferenceTraining(tree, weights.weights.astype(np.float64), training)
    if masses is not None:
        masses = masses[: tree.n_labels]
        reference.q = masses / masses.sum()
    x, y = rows(seed, 1, D)[0], int(rng.integers(tree.n_labels))
    return weights, reference, x, y, reference.select(x, y, 0)


def loss_of(reference: ReferenceTraining, table: Any, x: Any, y: int, chosen: Any) -> tuple[Any, list[Any]]:
    """PyTorch's loss of the row, and the parameters that it depends on, in the kernel's order of edges."""
    training, n_classes = reference.training, reference.tree.n_labels
    features, targets = torch.from_numpy(x)[None], torch.tensor([y])
    sampler = Given(np.full(n_classes, 1.0) if reference.q is None else reference.q, chosen.noises or [0])
    if training.loss == "cane":
        head = BeamTreeHead(D, reference.tree, training.n_candidates, training.n_noises, sampler)
        with torch.no_grad():
            head.edge_weights.copy_(table[:, :-1])
            head.edge_biases.copy_(table[:, -1])
        return head(features, targets), [head.edge_weights, head.edge_biases]
    edges = torch.nn.Parameter(table.clone())
    queries = torch.cat([features, torch.ones(1, 1)], dim=1)
    if training.loss == "hsm":
        scores, loss = (queries @ edges.t())[0], torch.zeros(())
        for layer, edge in enumerate(reference.paths[y]):
            siblings = reference.siblings(layer, edge)
            loss = loss - scores[list(siblings)].log_softmax(dim=0)[edge - siblings.start]
        return loss, [edges]
    made: Any
    if training.loss == "softmax":
        made = FullSoftmaxLoss()
    elif training.loss == "nce":
        made = NCELoss(sampler, training.n_noises, log_normalizer=training.log_normalizer)
    else:
        kind = {"blackout": BlackOutLoss, "negative_sampling": NegativeSamplingLoss}[training.loss]
        made = kind(sampler, training.n_noises)
    return made(queries, edges, targets), [edges]


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**30), st.integers(1, 8), st.integers(1, 5), st.booleans())
def test_a_step_is_that_of_autograd(loss: str, seed: int, n_candidates: int, n_noises: int, even: bool) -> None:
    masses = None if even else np.random.default_rng(seed).uniform(0.2, 1.0, 200)
    weights, reference, x, y, chosen = begun(seed, loss, n_candidates, n_noises, masses)
    assume(reference.gap > TOO_CLOSE)
    before = torch.from_numpy(weights.weights.copy())
    value, parameters = loss_of(reference, before, x, y, chosen)
    if value.requires_grad:
        value.backward()
    slopes = [p.grad.to_dense() if p.grad is not None else torch.zeros_like(p) for p in parameters]
    slope = torch.cat([part.reshape(len(before), -1) for part in slopes], dim=1)
    order = np.array([0])
    labels = np.array([y], np.int32)
    noise = None if reference.q is None else ClassNoise.of(reference.q)
    mean_loss, _ = ClassTrainer(weights, x[None], labels, reference.training, noise=noise).run(order)
    np.testing.assert_allclose(weights.weights, (before - RATE * slope).numpy(), rtol=1e-4, atol=2e-5)
    assert mean_loss == pytest.approx(float(value.detach()), rel=1e-4, abs=1e-4)
    assert math.isfinite(mean_loss)
