"""How far samplers' distributions are from the softmax, and how long drawing takes."""

from __future__ import annotations

import math
import statistics
import time
from typing import Any

from benchmarks.sampling.contenders import Contender

__all__ = ["curves", "divergences", "drawing_time", "of_job", "validation_queries"]

QUERIES = 400
REPEATS = 10
RANKS = 60  # points of a curve, on a logarithmic scale


def validation_queries(job: Any, n: int = QUERIES) -> Any:
    """Query vectors (n, dim) of the validation part, evenly spread over it."""
    import torch

    seen = []

    def note(module: Any, given: Any, output: Any) -> None:
        queries = output[0] if isinstance(output, tuple) else output
        seen.append(queries.detach().reshape(-1, queries.shape[-1]))

    hook = job.encoder_.register_forward_hook(note)
    try:
        job.module.eval()
        with torch.no_grad():
            job.evaluate("validation")
    finally:
        hook.remove()
    queries = torch.cat(seen)
    return queries[torch.linspace(0, len(queries) - 1, min(n, len(queries))).long()]


def divergences(log_q: Any, log_p: Any) -> dict[str, float | None]:
    """KL(Q‖P), KL(P‖Q) and ln d₂(P‖Q), each the mean over queries; None where one is infinite.

    Parameters are float64 (queries, classes). d₂(P‖Q) = Σ p² / q is what bounds the gradient's bias (Theorem 6).
    """
    import torch

    p, q = log_p.exp(), log_q.exp()
    zero = torch.zeros_like(p)
    found = {
        "kl_q_p": torch.where(q > 0, q * (log_q - log_p), zero).sum(1).mean(),
        "kl_p_q": torch.where(p > 0, p * (log_p - log_q), zero).sum(1).mean(),
        "ln_d2": torch.logsumexp(2 * log_p - log_q, 1).mean(),
    }
    return {name: round(float(value), 4) + 0.0 if math.isfinite(value) else None for name, value in found.items()}


def log_softmax(queries: Any, table: Any) -> Any:
    """The softmax's log-probabilities, float64 (queries, classes)."""
    return (queries.double() @ table.detach().double().t()).log_softmax(1)


def log_sampled(sampler: Any, queries: Any, shared: bool = False) -> Any:
    """A sampler's log-probabilities, float64 (queries, classes)."""
    import torch

    ids = torch.arange(sampler.n_classes, device=queries.device)
    if shared:
        return sampler.shared_log_prob(queries, ids).double().expand(len(queries), -1)
    return sampler.log_prob(queries, ids).double()


def of_job(job: Any, contender: Contender) -> dict[str, float | None] | None:
    """What :func:`divergences` says of the sampler that a language model was trained with, on the trained model."""
    loss = job._objective.loss
    sampler = getattr(loss, "sampler", None)
    if sampler is None or contender.loss not in ("sampled-softmax", "sampled-softmax-eq1"):
        return None
    queries = validation_queries(job)
    sampler.refresh(job.table_)
    return divergences(log_sampled(sampler, queries, contender.shared), log_softmax(queries, job.table_))


def curves(contenders: dict[str, Contender], queries: Any, table: Any, counts: Any, codewords: int) -> dict[str, Any]:
    """For each sampler its divergences and its mean probability at each rank of the softmax, on one set of vectors."""
    import torch

    log_p = log_softmax(queries, table)
    order = log_p.argsort(dim=1, descending=True)
    ranks = torch.logspace(0, math.log10(len(table)), RANKS).long().unique().clamp(max=len(table))
    result: dict[str, Any] = {"ranks": ranks.tolist(), "samplers": {}}
    for name, contender in contenders.items():
        log_q = log_p
        if contender.loss != "full":
            sampler = built(contender, len(table), table.shape[1], counts, codewords)
            sampler.refresh(table)
            log_q = log_sampled(sampler, queries, contender.shared)
        sorted_q = log_q.exp().gather(1, order).mean(0)
        # The mean over the ranks from the last point to this one: single classes are noise.
        sums = torch.cat([sorted_q.new_zeros(1), sorted_q.cumsum(0)])[torch.cat([ranks.new_zeros(1), ranks])]
        heights = sums.diff() / torch.cat([ranks.new_zeros(1), ranks]).diff()
        result["samplers"][name] = {**divergences(log_q, log_p), "probability": [float(f"{h:.4g}") for h in heights]}
    return result


def built(contender: Contender, n_classes: int, dim: int, counts: Any, codewords: int) -> Any:
    """A contender's sampler."""
    from sylvan.sampling import make_sampler

    parameters = dict(contender.sampler_parameters)
    if "midx" in contender.sampler:
        parameters["n_codewords"] = codewords
    return make_sampler(contender.sampler, n_classes, dim, counts=counts, **parameters)


def drawing_time(
    contender: Contender, n_classes: int, *, dim: int, batch: int, n: int, codewords: int
) -> dict[str, float]:
    """Milliseconds of a refresh, and of drawing ``n`` classes for each of ``batch`` queries: median of some rounds."""
    import torch

    generator = torch.Generator().manual_seed(0)
    table = torch.randn(n_classes, dim, generator=generator) * dim**-0.5
    queries = torch.randn(batch, dim, generator=generator)
    counts = 1e6 / torch.arange(1, n_classes + 1)
    torch.manual_seed(0)
    sampler = built(contender, n_classes, dim, counts, codewords)
    begun = time.perf_counter()
    sampler.refresh(table)
    refresh = time.perf_counter() - begun
    took = []
    for _ in range(REPEATS + 2):
        begun = time.perf_counter()
        sampler.sample(queries, n, shared=contender.shared)
        took.append((time.perf_counter() - begun) * 1e3)
        if sum(took) > 60_000:
            break
    return {"draw_ms": round(statistics.median(took[2:] or took), 3), "refresh_ms": round(refresh * 1e3, 1)}
