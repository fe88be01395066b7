"""What the tests of the theory share: a trained model, its queries, and samplers turned into arrays."""

import functools

import numpy as np
import sampling.theory_reference as theory
import torch

from sylvan.sampling import MIDX, Sampler

N_CONTEXTS = 64


@functools.cache
def trained() -> theory.Trained:
    """The trained model, once for all tests of a process."""
    torch.set_num_threads(1)
    return theory.train()


def contexts() -> theory.Array:
    """Queries as often as they occur, so that their means are those of a training."""
    model = trained()
    return model.contexts[np.random.default_rng(5).choice(len(model.contexts), N_CONTEXTS, p=model.frequency)]


def tensor(array: theory.Array) -> torch.Tensor:
    return torch.from_numpy(array).float()


def refreshed(sampler: Sampler, classes: theory.Array) -> Sampler:
    sampler.refresh(tensor(classes))
    return sampler


def midx(n_codewords: int, quantizer: str = "rq", seed: int = 0) -> MIDX:
    """MIDX on the trained classes."""
    classes = trained().classes
    torch.manual_seed(seed)
    sampler = MIDX(*classes.shape, n_codewords=n_codewords, quantizer=quantizer)
    sampler.refresh(tensor(classes))
    return sampler


def distribution(sampler: Sampler, queries: theory.Array) -> theory.Array:
    """Every class's probability, by the sampler's own account; they must be one in all."""
    found = sampler.log_prob(tensor(queries), torch.arange(sampler.n_classes)).double().exp().numpy()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=2e-5)
    return found / found.sum(axis=1, keepdims=True)


def index_of(sampler: MIDX) -> tuple[list[theory.Array], theory.Ids]:
    """Codebooks (K, width) and codes (n_classes, B) of a sampler."""
    index = sampler.index
    return [words.double().numpy() for words in index.codewords], index.cell_codes[index.class_cells.long()].numpy()
