"""How close MIDX's ways to its codewords come to the softmax, on a language model trained with it; JSON out.

``python -m benchmarks.sampling.codeword_learning --data DIR`` trains an LSTM on Penn Treebank (DIR/ptb) with the full
softmax for ``--steps`` steps. Codewords are then learned from queries of training text; KL(Q||P), KL(P||Q) and ln d2
are means over queries of validation text.
"""

from __future__ import annotations

import argparse
import collections
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import RESULTS
from benchmarks.common import records
from sylvan.neural import LSTMEncoder
from sylvan.sampling import MIDX, Sampler, Uniform, Unigram

DIM, LENGTH, BATCH = 128, 35, 20
WAYS: dict[bool | str, list[str]] = {  # of learning codewords, in words
    False: [], True: ["learned"], "joint": ["joint"], "joint-gumbel": ["joint, as in the authors' code"],
}  # fmt: skip


def texts(folder: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Ids of training and validation words by falling frequency, and the frequencies."""
    words = {}
    for part in ("train", "valid"):
        with lzma.open(folder / f"{part}.txt.xz", "rt", encoding="utf-8") as file:
            words[part] = file.read().replace("\n", " <eos> ").split()
    frequent = collections.Counter(words["train"]).most_common()
    number = {word: place for place, (word, _) in enumerate(frequent)}
    train, valid = (torch.tensor([number.get(word, 0) for word in words[part]]) for part in ("train", "valid"))
    return train, valid, torch.tensor([count for _, count in frequent])


def columns(ids: Tensor) -> Tensor:
    """The text as so many texts side by side."""
    return ids[: len(ids) // BATCH * BATCH].view(BATCH, -1)


def train(encoder: LSTMEncoder, table: Tensor, ids: Tensor, steps: int) -> None:
    """Full softmax; Adam on the LSTM, Adagrad on both tables."""
    words = encoder.inputs.weight
    others = [parameter for parameter in encoder.parameters() if parameter is not words]
    optimizers = [torch.optim.Adam(others, lr=2e-3), torch.optim.Adagrad([words, table], lr=0.1)]
    state = None
    text = columns(ids)
    for step in range(steps):
        begin = step * LENGTH % (text.shape[1] - LENGTH - 1)
        queries, state = encoder(text[:, begin : begin + LENGTH], state)
        state = tuple(part.detach() for part in state)
        wanted = text[:, begin + 1 : begin + LENGTH + 1].flatten()
        loss = F.cross_entropy(queries.flatten(0, 1) @ table.t(), wanted)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()


@torch.no_grad()
def queries_of(encoder: LSTMEncoder, ids: Tensor, n: int) -> Tensor:
    """Queries at the first places of all columns."""
    encoder.eval()
    queries, _ = encoder(columns(ids)[:, : n // BATCH])
    return queries.flatten(0, 1)


def distances(sampler: Sampler, queries: Tensor, table: Tensor) -> dict[str, float]:
    """Means over queries, in nats."""
    log_p = torch.log_softmax(queries @ table.t(), dim=1).double()
    log_q = sampler.log_prob(queries, torch.arange(len(table))).double()
    return {
        "kl_q_p": float((log_q.exp() * (log_q - log_p)).sum(dim=1).mean()),
        "kl_p_q": float((log_p.exp() * (log_p - log_q)).sum(dim=1).mean()),
        "ln_d2": float(torch.logsumexp(2 * log_p - log_q, dim=1).mean()),
    }


def learned(sampler: MIDX, queries: Tensor, table: Tensor, steps: int) -> MIDX:
    """Codewords learned from queries: by refreshes, or beside a model that stands still."""
    sampler.refresh(table)
    batches = queries[torch.randperm(len(queries))].split(64)
    if sampler.learnable in ("joint", "joint-gumbel"):
        optimizer = torch.optim.Adam(sampler.parameters(), lr=1e-2)
        for step in range(steps):
            optimizer.zero_grad()
            sampler.learning_loss(batches[step % len(batches)], table).backward()
            optimizer.step()
        sampler.refresh(table)
        return sampler
    for _ in range(3):
        for batch in batches:
            sampler.sample(batch, 1)
        sampler.refresh(table)
    return sampler


def cases(counts: Tensor, n_codewords: tuple[int, ...]) -> Iterator[tuple[str, Sampler]]:
    """Samplers by name."""
    n = len(counts)
    yield "uniform", Uniform(n)
    yield "unigram", Unigram(n, counts)
    for size in n_codewords:
        for quantizer in ("pq", "rq"):
            for weights in (None, counts.sqrt()):
                for learnable in WAYS:
                    if learnable == "joint-gumbel" and weights is not None:
                        continue  # it has no k-means
                    words = [quantizer, f"K={size}", "plain" if weights is None else "weighted"]
                    words += WAYS[learnable]
                    settings: dict[str, Any] = {"n_codewords": size, "quantizer": quantizer, "learnable": learnable}
                    yield " ".join(words), MIDX(n, DIM, class_weights=weights, **settings)
                    if not isinstance(learnable, str):
                        aware = MIDX(n, DIM, class_weights=weights, query_aware=True, **settings)
                        yield " ".join([*words, "query-aware"]), aware


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds ptb")
    parser.add_argument("--out", type=Path, default=RESULTS / "codeword-learning.json")
    parser.add_argument("--steps", type=int, default=400, help="of the language model")
    parser.add_argument("--joint-steps", type=int, default=200, help="of codewords trained by learning_loss")
    parser.add_argument("--codewords", default="16,32")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    ids, valid, counts = texts(options.data / "ptb")
    encoder = LSTMEncoder(len(counts), embedding=200, hidden=DIM, n_layers=2, dropout=0.2)
    table = (torch.randn(len(counts), DIM) * 0.05).requires_grad_()
    train(encoder, table, ids, options.steps)
    classes = table.detach()
    seen, held_out = queries_of(encoder, ids, 4000), queries_of(encoder, valid, 700)
    found = {}
    for name, sampler in cases(counts, tuple(int(word) for word in options.codewords.split(","))):
        torch.manual_seed(options.seed)
        if isinstance(sampler, MIDX):
            learned(sampler, seen, classes, options.joint_steps)
        found[name] = distances(sampler, held_out, classes)
        print(f"{name:40}", "  ".join(f"{key} {value:6.3f}" for key, value in found[name].items()), flush=True)
    settings = {"steps": options.steps, "joint_steps": options.joint_steps, "seed": options.seed}
    records.save(options.out, {**settings, "queries": len(held_out), "samplers": found})


if __name__ == "__main__":
    main()
