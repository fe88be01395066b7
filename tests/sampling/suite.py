"""What tests of samplers and losses share: a table of samplers, draws that are known, and the largest new tensor."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sylvan.sampling import MIDX, ClassLoss, Draw, Sampler, Softmax, Subset, Unigram, by_name


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Numbers from the normal distribution."""
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Case:
    """A sampler under a name of :func:`sylvan.sampling.make_sampler`, with its parameters for so few classes."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    weighted: bool = True  # whether it is given counts
    n_classes: int = 60
    dim: int = 8

    @property
    def title(self) -> str:
        """What pytest calls it."""
        words = [self.name, *(f"{key}={value}" for key, value in self.parameters.items())]
        return " ".join(words if self.weighted else [*words, "without counts"])

    def counts(self) -> Tensor:
        """Zipf's law with a class that never occurs (but where there is no other)."""
        counts = (1000 / torch.arange(1, self.n_classes + 1)).round()
        counts[self.n_classes // 2] = 0 if self.n_classes > 1 else 1
        return counts

    def make(self, **more: Any) -> Sampler:
        """The sampler, fresh."""
        torch.manual_seed(1)  # random features may be drawn here
        counts = self.counts() if self.weighted else None
        return by_name.make_sampler(self.name, self.n_classes, self.dim, counts=counts, **{**self.parameters, **more})

    def table(self, seed: int = 1, scale: float = 0.7) -> Tensor:
        """Class embeddings."""
        return normal(self.n_classes, self.dim, seed=seed, scale=scale)

    def queries(self, n: int, seed: int = 2) -> Tensor:
        """Query vectors."""
        return normal(n, self.dim, seed=seed)

    def prepare(self, sampler: Sampler, table: Tensor | None = None) -> Sampler:
        """Show it the class embeddings, and the batch: each class as often as its count says.

        Twice, with draws between: some samplers learn at a refresh from the queries that they drew for.
        """
        table = self.table() if table is None else table
        torch.manual_seed(0)  # an index may be built at random
        sampler.refresh(table)
        self.observe(sampler)
        sampler.sample(self.queries(64, seed=4), 1)
        sampler.refresh(table)
        return sampler

    def observe(self, sampler: Sampler) -> Sampler:
        """Show it the batch."""
        sampler.observe(torch.repeat_interleave(torch.arange(self.n_classes), self.counts().long()))
        return sampler

    def ready(self, **more: Any) -> Sampler:
        """The sampler, made and prepared: a copy of one that is made once."""
        wanted = (self.title, self.n_classes, self.dim, *sorted(more.items()))
        if wanted not in _ready:
            _ready[wanted] = self.prepare(self.make(**more))
        torch.manual_seed(0)  # so that what is drawn doesn't depend on who came first
        return copy.deepcopy(_ready[wanted])

    def larger(self) -> Case:
        """The same with enough classes and dimensions that PyTorch's kernels use several threads."""
        return Case(self.name, self.parameters, self.weighted, n_classes=2500, dim=16)


_ready: dict[tuple[Any, ...], Sampler] = {}

CASES = [
    Case("uniform"), Case("log-uniform"), Case("unigram"), Case("unigram", {"power": 0.5}), Case("in-batch"),
    Case("in-batch", weighted=False), Case("softmax"), Case("softmax", {"chunk_size": 6000}), Case("lsh"),
    Case("lsh", {"n_tables": 3, "n_bits": 3}), Case("sphere"), Case("sphere", {"structure": "tree", "leaf_size": 4}),
    Case("rff"), Case("rff", {"structure": "tree", "leaf_size": 4}), Case("exact-midx-pq", {"n_codewords": 5}),
    Case("exact-midx-rq", {"n_codewords": 5}), Case("midx-pq", {"n_codewords": 5}), Case("midx-rq", {"n_codewords": 5}),
    Case("midx-rq", {"n_codewords": 5}, weighted=False), Case("midx-pq", {"n_codewords": 3, "n_codebooks": 4}),
    Case("midx-rq", {"n_codewords": 3, "n_codebooks": 3}), Case("midx-learned-pq", {"n_codewords": 5}),
    Case("midx-learned-rq", {"n_codewords": 5}), Case("midx-joint-pq", {"n_codewords": 5}),
    Case("midx-joint-rq", {"n_codewords": 5}), Case("midx-gumbel-pq", {"n_codewords": 5}),
    Case("midx-gumbel-rq", {"n_codewords": 5}), Case("midx-aware-pq", {"n_codewords": 5}),
    Case("midx-aware-rq", {"n_codewords": 5}),
]  # fmt: skip
# Empty buckets beside full ones; classes and leaves with a negative estimate (test_kernel_samplers.py sees to it).
EMPTY_BUCKETS = Case("lsh", {"n_tables": 3, "n_bits": 7, "uniform_share": 0.0}, n_classes=40, dim=6)
NEGATIVE_ESTIMATES = Case("rff", {"temperature": 3.0, "structure": "tree", "leaf_size": 3}, n_classes=500, dim=6)


def loss_by_name(name: str, n_classes: int, n_samples: int, *, counts: Any, dim: int, **parameters: Any) -> ClassLoss:
    """The loss of that name with uniform draws, of the tail where it has a head."""
    if name == "full":
        return by_name.make_loss(name, **parameters)
    sampler: Sampler = by_name.make_sampler("uniform", n_classes)
    if name == "head-and-tail":
        sampler = by_name.make_tail_sampler("uniform", n_classes, counts=counts, n_head=n_classes // 3)
    return by_name.make_loss(name, sampler, n_samples, counts=counts, dim=dim, **parameters)


class Recorded(Unigram):
    """Remembers what it drew, call by call."""

    def __init__(self, counts: Any) -> None:
        super().__init__(len(counts), counts)
        self.drawn: list[list[list[int]]] = []

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        draw = super()._draw(queries, n, generator)
        self.drawn.append(draw.ids.tolist())
        return draw


def noises_of(calls: list[list[list[int]]], candidates: list[list[int]], n: int) -> list[list[int]]:
    """CANE's noises: the first n draws outside the candidates, row by row; a later call is for rows that lack some."""
    found: list[list[int]] = [[] for _ in candidates]
    for call in calls:
        lacking = [row for row in range(len(candidates)) if len(found[row]) < n]
        assert len(call) == len(lacking)
        for row, drawn in zip(lacking, call, strict=True):
            found[row] += [j for j in drawn if j not in candidates[row]]
    return [row[:n] for row in found]


def same_when_compiled(
    call: Any, args: Sequence[Any], parameters: Sequence[Tensor], caplog: pytest.LogCaptureFixture
) -> list[Tensor]:
    """Fail unless ``torch.compile`` leaves a value, its gradients and draws as they are, without a word; the gradients
    of the parameters."""
    found = []
    torch._dynamo.reset()
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.filterwarnings("error", ".*[Gg]raph break.*")
        for called in (call, torch.compile(call, backend="aot_eager")):
            torch.manual_seed(1)
            value = called(*args)
            found.append([value, *torch.autograd.grad(value, parameters)])
    for plain, compiled in zip(*found, strict=True):
        assert plain.is_sparse == compiled.is_sparse
        torch.testing.assert_close(plain.to_dense(), compiled.to_dense(), atol=1e-6, rtol=1e-5)
    assert "Graph break" not in caplog.text
    return found[0][1:]


class LargestMade(TorchDispatchMode):
    """Watches every operation, those of backward too; views and changes in place make nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.by = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {storage for tensor in tensors((args, kwargs)) for storage in storages(tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in tensors(result):
            for storage, size in storages(tensor).items():
                if storage not in given and size > self.largest:
                    self.largest, self.by = size, str(func)
        return result


def tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def storages(tensor: Tensor) -> dict[int, int]:
    """Address and bytes of what a tensor is stored in; of a sparse one its indices and values."""
    if tensor.layout == torch.sparse_coo:
        return {**storages(tensor._indices()), **storages(tensor._values())}
    storage = tensor.untyped_storage()
    return {storage.data_ptr(): storage.nbytes()} if storage.nbytes() else {}


class Given(Sampler):
    """Draws from one distribution for every query, or from one tilted by the query's first number."""

    def __init__(self, probabilities: Tensor, tilted: bool = False) -> None:
        super().__init__(len(probabilities))
        self.probabilities = probabilities
        self.tilted = tilted
        self.adaptive = tilted  # type: ignore[misc]
        self._refreshed = True
        self.observed: Tensor | None = None

    def observe(self, targets: Tensor) -> None:
        self.observed = targets

    def shares(self, queries: Tensor) -> Tensor:
        """Every class's probability for every query."""
        logs = self.probabilities.log().expand(len(queries), -1)
        if self.tilted:
            logs = logs + queries[:, :1] * torch.linspace(-1, 1, self.n_classes)
        return logs.softmax(dim=1)

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        shares = self.shares(queries)
        ids = torch.multinomial(shares, n, replacement=True, generator=generator)
        return Draw(ids, shares.gather(1, ids).log())

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        return self.shares(queries).gather(1, ids).log()


class Scripted(Given):
    """Returns the same draws every time, again from the first where more are asked for."""

    def __init__(self, probabilities: Tensor, ids: Tensor) -> None:
        super().__init__(probabilities)
        self.ids = ids

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        ids = self.ids if self.ids.dim() == 2 else self.ids.expand(len(queries), -1)
        ids = ids.repeat(1, -(-n // ids.shape[1]))[:, :n]
        return Draw(ids, self.probabilities.log()[ids])


SOME = [7, 2, 9, 4]


def subset() -> tuple[Subset, Tensor]:
    """The softmax over some of ten classes, with the table of all of them."""
    table = normal(10, 6)
    sampler = Subset(10, Softmax(4, 6), SOME)
    sampler.refresh(table)
    return sampler, table


def flattened(spread: float = 40.0, **parameters: Any) -> tuple[MIDX, Tensor, Tensor]:
    """A query-aware index of scores that differ by about ``spread`` from class to class, with its queries and table.

    Of large ones it is sure of the wrong classes, and its scores are made flatter.
    """
    table, queries = normal(400, 8, scale=8**-0.5), normal(200, 8, seed=1, scale=spread)
    torch.manual_seed(1)
    sampler = MIDX(400, 8, **{"n_codewords": 4, "query_aware": True, **parameters})
    for _ in range(2):
        sampler.refresh(table)
        sampler.sample(queries, 1)
    sampler.refresh(table)
    return sampler, queries, table
