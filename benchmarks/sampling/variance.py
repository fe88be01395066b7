"""How far losses and gradients with draws scatter around those of the full softmax, on a trained network; JSON out.

``python -m benchmarks.sampling.variance --data DATA`` trains an LSTM on Penn Treebank (DATA/ptb) for ``--steps`` steps
by the head and tail of the tasks' default with a unigram tail. For queries of validation text every loss is then
computed ``--repeats`` times with new draws. Adaptive samplers are refreshed on the network as it is; those that learn
from queries have seen as many of training text.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import RESULTS
from benchmarks.common import records
from sylvan.sampling import (
    ClassLoss,
    FullSoftmaxLoss,
    HeadAndTailLoss,
    SampledSoftmaxLoss,
    make_sampler,
    make_tail_sampler,
)
from sylvan.tasks import LanguageModel
from sylvan.tasks.language_model import read_corpus

SAMPLERS = ("uniform", "unigram", "midx-rq", "midx-aware-rq")
HEADS = (250, 500, 1000, 2000, 4000)
DRAWS, CODEWORDS, QUERIES = 20, 32, 140


def network(data: Path, steps: int, seed: int) -> LanguageModel:
    """The trained task."""
    job = LanguageModel(read_corpus(data / "ptb"), sampler="unigram", seed=seed)
    for step, batch in enumerate(islice(job.batches(0), steps)):
        for optimizer in job.optimizers:
            optimizer.zero_grad()
        job.step(batch, step).backward()
        for optimizer in job.optimizers:
            optimizer.step()
    return job


def queries_of(job: LanguageModel, ids: Any, n: int) -> tuple[Tensor, Tensor]:
    """Queries (n, dim) of a text and the words asked for (n,)."""
    text = torch.from_numpy(ids[: n + 1].astype("int64"))
    job.encoder_.eval()
    with torch.no_grad():
        queries = job.encoder_(text[None, :-1], None)[0][0]
    return queries, text[1:]


def contenders(counts: Any, n: int, dim: int) -> dict[str, Callable[[], ClassLoss]]:
    """Losses by name."""

    def settings(name: str) -> dict[str, Any]:
        return {"counts": counts, **({"n_codewords": CODEWORDS} if "midx" in name else {})}

    made: dict[str, Callable[[], ClassLoss]] = {}
    for name in SAMPLERS:
        for words, correction in (("Eq. (1)", "drawn"), ("both corrected", "all")):
            made[f"{words}, {name}"] = lambda name=name, correction=correction: SampledSoftmaxLoss(
                make_sampler(name, n, dim, **settings(name)), DRAWS, correction=correction
            )
    for size in HEADS:
        for name in SAMPLERS[1:]:
            made[f"head of {size:,}, {name}"] = lambda name=name, size=size: HeadAndTailLoss(
                make_tail_sampler(name, n, dim, n_head=size, **settings(name)), DRAWS
            )
    return made


def losses_and_gradients(loss: ClassLoss, queries: Tensor, table: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Of each query the loss (n,) and its gradient (n, dim)."""
    rows = queries.clone().requires_grad_()
    values = loss(rows, table, targets)
    values.sum().backward()
    assert rows.grad is not None
    return values.detach().double(), rows.grad.double()


def scatter(
    loss: ClassLoss, seen: Tensor, asked: tuple[Tensor, Tensor], table: Tensor, repeats: int
) -> dict[str, float]:
    """Deviations and errors of the mean, of the loss in nats and of the gradient in shares of the true one's length."""
    loss.reduction = "none"
    sampler: Any = getattr(loss, "sampler", None)
    if sampler.adaptive:
        sampler.refresh(table)
        for part in seen.split(70):
            sampler.sample(part, 1)
        sampler.refresh(table)
    whole = FullSoftmaxLoss(reduction="none")
    true, direction = losses_and_gradients(whole, asked[0], table, asked[1])
    values, gradients = [], []
    for _ in range(repeats):
        value, gradient = losses_and_gradients(loss, asked[0], table, asked[1])
        values.append(value)
        gradients.append(gradient)
    length = float(direction.square().sum(dim=1).mean()) ** 0.5
    stack = torch.stack(gradients)
    variance = float(stack.var(dim=0).sum(dim=1).mean())
    error = float((stack - direction).square().sum(dim=2).mean())
    found = {
        "loss_deviation": float(torch.stack(values).var(dim=0).mean()) ** 0.5,
        "gradient_deviation": variance**0.5 / length,
        "gradient_bias": max(error - variance, 0.0) ** 0.5 / length,
        "gradient_error": error**0.5 / length,
        "full": float(true.mean()),
    }
    return {name: round(value, 4) for name, value in found.items()}


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds ptb")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "loss_variance.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    job = network(options.data, options.steps, options.seed)
    torch.manual_seed(options.seed)
    seen, _ = queries_of(job, job.corpus.train[-2000:], 700)
    asked = queries_of(job, job.corpus.validation, QUERIES)
    table, counts = job.table_.detach(), torch.from_numpy(job.corpus.counts())
    rows = []
    for name, make in contenders(counts, *table.shape).items():
        rows.append({"contender": name, **scatter(make(), seen, asked, table, options.repeats)})
        print(rows[-1], flush=True)
    settings = {"steps": options.steps, "repeats": options.repeats, "queries": QUERIES, "draws": DRAWS}
    records.save(options.out, {**records.about(), **settings, "seed": options.seed, "runs": rows})


if __name__ == "__main__":
    main()
