"""Every sampler draws each class as often as its ``log_prob`` says: one table of samplers and of ways to draw.

The contract's samplers with many draws at once, and what these don't reach: queries with a draw or two each, which walk
down trees by gathered sums; code that isn't compiled; indexes that hardly anything is right of. That ``log_prob`` is
what it should be is in each one's own file. ``kit.chance`` says how seldom a comparison fails by chance alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from kit.chance import FALSE_ALARM, assert_drawn_by, draws_needed, p_value
from sampling.suite import CASES, EMPTY_BUCKETS, NEGATIVE_ESTIMATES, Case, flattened, normal, subset
from torch import Tensor

from sylvan.sampling import Sampler


@dataclass(frozen=True)
class Way:
    """A sampler that is ready, with queries; what is noticed; among how many rows a query's draws are divided."""

    title: str
    make: Callable[[], tuple[Sampler, Tensor]]
    off_by: float = 0.05
    rows: int = 1


def of(case: Case, *, off_by: float = 0.05, rows: int = 1, dense_nodes: int | None = None) -> Way:
    def make() -> tuple[Sampler, Tensor]:
        sampler: Any = case.ready()
        if dense_nodes is not None:
            sampler.tree.dense_nodes = dense_nodes
        return sampler, case.queries(2)

    divided = f" in {rows} rows" if rows > 1 else ""
    return Way(f"{case.title} of {case.n_classes}{divided}", make, off_by, rows)


def trees(name: str, **parameters: Any) -> list[Way]:
    """Trees of which hardly a level is weighed whole, in all sizes."""
    return [
        of(
            Case(name, {**parameters, "structure": "tree", "leaf_size": leaf_size}, n_classes=n, dim=6),
            off_by=0.07, rows=rows, dense_nodes=2,
        )
        for n, leaf_size, rows in ((500, 3, 1), (500, 3, 40_000), (61, 100, 1), (33, 2, 9), (33, 2, 20_000))
    ]  # fmt: skip


WAYS = [
    *(of(case, off_by=0.03) for case in CASES),
    of(Case("lsh", n_classes=500, dim=6), off_by=0.07),
    of(Case("lsh", {"uniform_share": 0.0}, n_classes=500, dim=6), off_by=0.07, rows=100),
    of(EMPTY_BUCKETS),
    of(Case("lsh", {"n_tables": 3, "n_bits": 2, "augment": True}, n_classes=40, dim=6)),
    of(Case("rff", {"temperature": 3.0, "structure": "scan"}, n_classes=500, dim=6), off_by=0.07),
    of(Case("sphere", {"alpha": 5.0, "structure": "scan"}, n_classes=500, dim=6), off_by=0.07),
    *trees("rff", temperature=NEGATIVE_ESTIMATES.parameters["temperature"]),
    *trees("sphere", alpha=5.0),
    of(Case("midx-rq", {"n_codewords": 5, "native": False}, weighted=False, n_classes=150, dim=6), rows=200),
    of(Case("midx-rq", {"n_codewords": 5, "n_codebooks": 1}, weighted=False, n_classes=150, dim=6), rows=200),
    of(Case("exact-midx-pq", {"n_codewords": 5, "n_codebooks": 3}, n_classes=150, dim=6), rows=200),
    *(of(Case("midx-aware-rq", {"n_codewords": 3, "n_codebooks": n_codebooks, "native": native}, n_classes=40))
      for n_codebooks, native in ((1, True), (2, False), (3, False))),
    Way("a subset", lambda: (subset()[0], normal(2, 6, seed=3))),
    Way("a flattened index", lambda: flattened()[:2], off_by=0.07),
]  # fmt: skip


@pytest.mark.parametrize("shared", [False, True], ids=["each", "shared"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.title)
def test_draws_are_as_frequent_as_log_prob_says(way: Way, shared: bool) -> None:
    sampler, queries = way.make()
    queries = queries[:2]
    everything, n = torch.arange(sampler.n_classes), draws_needed(sampler.n_classes, way.off_by)
    generator = torch.Generator().manual_seed(7)
    if shared:
        draw = sampler.sample(queries, n, shared=True, generator=generator)
        log_prob = sampler.shared_log_prob(queries, everything)
        torch.testing.assert_close(draw.log_q, log_prob[draw.ids], atol=2e-5, rtol=1e-5)
        assert_drawn_by(draw.ids, log_prob.exp(), way.off_by)
        return
    log_prob = sampler.log_prob(queries, everything)
    for query, wanted in zip(queries, log_prob, strict=True):
        draw = sampler.sample(query.expand(way.rows, -1), -(-n // way.rows), generator=generator)
        torch.testing.assert_close(draw.log_q, wanted[draw.ids], atol=2e-5, rtol=1e-5)
        assert_drawn_by(draw.ids, wanted.exp(), way.off_by)
    if sampler.adaptive:
        assert p_value(draw.ids, log_prob[0].exp()) < FALSE_ALARM, "these are the draws of another query"
