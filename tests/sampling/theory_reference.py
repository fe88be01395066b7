"""The theory of the MIDX paper, written down naively in NumPy's float64, and a small trained softmax to hold it to.

Chen et al., "Adaptive Sampled Softmax with Inverted Multi-Index" (arXiv 2501.08563); equations and theorems are its.
Nothing here calls a sampler.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Trained:
    """A bigram model trained with full softmax on a made language."""

    contexts: Array  # (n_classes, dim): the query after each word
    classes: Array  # (n_classes, dim)
    transitions: Array  # (n_classes, n_classes): the true probabilities of the next word
    frequency: Array  # (n_classes,): of the words as targets


def make_language(n_classes: int, n_topics: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Probabilities of a word (Zipf's), and of a word after each word, which favours three topics."""
    words = 1 / np.arange(1, n_classes + 1)
    words /= words.sum()
    topic = rng.integers(0, n_topics, n_classes)
    favoured = rng.integers(0, n_topics, (n_classes, 3))
    likes = 1 + 12 * (topic == favoured[:, :, None]).sum(axis=1)
    after = words * likes * np.exp(0.7 * rng.normal(size=(n_classes, n_classes)))
    return words, after / after.sum(axis=1, keepdims=True)


def train(n_classes: int = 500, dim: int = 16, steps: int = 400, seed: int = 0) -> Trained:
    """Minimises the exact cross-entropy to the true probabilities; takes a second or two."""
    words, after = make_language(n_classes, 20, np.random.default_rng(seed))
    generator = torch.Generator().manual_seed(seed)
    contexts = torch.nn.Parameter(0.1 * torch.randn(n_classes, dim, generator=generator))
    classes = torch.nn.Parameter(0.1 * torch.randn(n_classes, dim, generator=generator))
    weights = torch.from_numpy(words[:, None] * after).float()
    optimizer = torch.optim.Adam([contexts, classes], lr=0.05)
    for _ in range(steps):
        loss = -(weights * torch.log_softmax(contexts @ classes.t(), dim=1)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    entropy = -(words[:, None] * after * np.log(after)).sum()
    assert entropy < loss.item() < entropy + 0.2, "the model has not learned the language"
    done = [parameter.detach().double().numpy() for parameter in (contexts, classes)]
    return Trained(*done, transitions=after, frequency=words @ after)


def softmax(scores: Array) -> Array:
    """Along the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def kl(of: Array, to: Array) -> Array:
    """KL(of ‖ to) of each row."""
    return np.asarray((of * (np.log(of) - np.log(to))).sum(axis=-1))


def d2(p: Array, q: Array) -> Array:
    """The exponential of the Rényi divergence of order two, the mean of p/q under p, of each row (Theorem 6)."""
    return np.asarray((p * p / q).sum(axis=-1))


def equation_6(query: Array, codebooks: list[Array], codes: Ids, quantizer: str) -> Array:
    """Probability of every class by Eqs. (3)-(5) with Theorem 2's weights: codeword by codeword, then within a cell.

    ``codebooks`` are (K, width) each; ``codes`` (n_classes, B) name each class's codewords. A class's cell is the set
    of classes with the same codes. All paths through all codebooks are gone through one by one.
    """
    widths = np.cumsum([0, *(len(book[0]) for book in codebooks)])
    parts = [query[a:b] if quantizer == "pq" else query for a, b in itertools.pairwise(widths)]
    grade = [[math.exp(part @ word) for word in book] for part, book in zip(parts, codebooks, strict=True)]
    cells: dict[tuple[int, ...], list[int]] = {}
    for label, path in enumerate(codes.tolist()):
        cells.setdefault(tuple(path), []).append(label)

    def weight(prefix: tuple[int, ...]) -> float:
        """Σ over the paths that begin so, of the cell's size times the grades of the codewords still to choose."""
        if len(prefix) == len(codebooks):
            return float(len(cells.get(prefix, [])))
        book = grade[len(prefix)]
        return sum(book[word] * weight((*prefix, word)) for word in range(len(book)))

    probabilities = np.zeros(len(codes))
    for path, members in cells.items():
        chance = 1.0
        for depth in range(len(codebooks)):
            book = grade[depth]
            chosen = book[path[depth]] * weight(path[: depth + 1])
            chance *= chosen / weight(path[:depth])
        probabilities[members] = chance / len(members)
    return probabilities


def reconstruct(codebooks: list[Array], codes: Ids, quantizer: str) -> Array:
    """Each class's codewords put together: side by side for product quantisation, summed for residual."""
    chosen = [book[codes[:, at]] for at, book in enumerate(codebooks)]
    return np.concatenate(chosen, axis=1) if quantizer == "pq" else np.asarray(sum(chosen))
