"""The vectors of many texts: batches of texts of about one length, no gradients, the order that was asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from sylvan.neural.loop.engine import Engine
from sylvan.neural.text.embedding_cache import EmbeddingCache
from sylvan.neural.text.text_encoder import TextEncoder
from sylvan.neural.text.token_rows import TokenRows
from sylvan.parallel import progress, quiet
from sylvan.runtime import Job, Runner
from sylvan.validate import count

__all__ = ["embed"]

_STORE_EVERY = 4096  # vectors computed before they are put into the cache
_BATCHES_OF_JOB = 8  # that other processes encode at a time: a job is sent the encoder's weights

Places = npt.NDArray[np.int64]
_Take = Callable[[Places, npt.NDArray[np.float32]], None]
_Encode = Callable[[TextEncoder, TokenRows, list[Places], _Take], None]


def embed(
    encoder: TextEncoder,
    texts: Iterable[str] | TokenRows,
    *,
    engine: Engine | None = None,
    batch_tokens: int = 8192,
    normalize: bool | None = None,
    cache: str | os.PathLike[str] | None = None,
    description: str = "Encoding texts",
    runner: Runner | None = None,
) -> npt.NDArray[np.float32]:
    """The vectors of texts, in evaluation mode and without gradients.

    Texts of about one length are encoded together, so that little is computed for padding. With whom a text shares
    a batch changes its vector by no more than rounding, some 1e-6 of its length in float32.

    Parameters
    ----------
    encoder : TextEncoder
    texts : iterable of str, or TokenRows
        Rows as ``encoder.tokenize`` gave them save the time of doing it again.
    engine : Engine, optional
        Where and in what precision to compute; without one in float32, where the encoder's weights lie. Of several
        processes each encodes a part, and all get the whole.
    batch_tokens : int, from 1
        About so many tokens in a batch, padding included; more needs more memory.
    normalize : bool, optional
        Whether to bring vectors to length 1; None does what the encoder says (``normalizes``).
    cache : path, optional
        A folder that stores vectors from one call to the next, by the content of the text and the encoder's
        weights. It may be deleted at any time, and used by several processes.
    description : str
        Title of the progress bar.
    runner : Runner, optional
        One whose jobs run in other processes encodes many texts, where they would be encoded on this one's processors
        in float32. The vectors are the same.

    Returns
    -------
    ndarray of float32, shape (n, dim_out)

    Raises
    ------
    DataError
        When ``texts`` is one string or holds anything but strings.
    ParameterError
        When the cache's folder can't be made.

    Examples
    --------
    >>> from sylvan.neural import BagTextEncoder, embed
    >>> embed(BagTextEncoder(dim=8), ["whales", "seas and whales"]).shape
    (2, 8)
    """
    batch_tokens = count(batch_tokens, "batch_tokens", owner="embed", high=2**62)
    encoder.load()
    rows = texts if isinstance(texts, TokenRows) else encoder.tokenize(texts)
    mine = rows if engine is None else engine.share(rows)  # of several processes each does a part
    vectors = np.zeros((len(mine), encoder.dim_out), dtype=np.float32)

    if engine is not None:
        encoder.to(engine.device)

    def compute(places: Places, store: Callable[[Places], None] | None) -> None:
        chosen = [places[some] for some in batches(mine.lengths[places], batch_tokens)]
        _compute(encoder, mine, chosen, vectors, store, _encoding(encoder, len(chosen), engine, description, runner))

    if cache is None:
        compute(np.arange(len(mine)), None)
    else:
        precision = "no" if engine is None else engine.precision  # vectors of one aren't those of another
        cached = EmbeddingCache(cache, {**encoder.identity(), "precision": precision}, encoder.dim_out)
        keys = cached.keys(mine)
        known, stored = cached.find(keys)
        vectors[known] = stored

        compute(np.flatnonzero(~known), lambda places: cached.add(keys[places], vectors[places]))
    if engine is not None:
        vectors = engine.gather(vectors)
    if encoder.normalizes if normalize is None else normalize:
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        vectors /= np.maximum(lengths, np.finfo(np.float32).tiny)[:, None]
    return vectors


def _compute(
    encoder: TextEncoder,
    rows: TokenRows,
    chosen: list[Places],
    vectors: npt.NDArray[np.float32],
    store: Callable[[Places], None] | None,
    encode: _Encode,
) -> None:
    """Fill in the vectors of batches of rows; ``store`` is called now and then with the places of new ones."""
    waiting: list[Places] = []

    def take(here: Places, found: npt.NDArray[np.float32]) -> None:
        vectors[here] = found
        waiting.append(here)
        if store is not None and sum(map(len, waiting)) >= _STORE_EVERY:
            store(np.concatenate(waiting))
            waiting.clear()

    try:
        encode(encoder, rows, chosen, take)
    finally:
        if store is not None and waiting:
            store(np.concatenate(waiting))


def _encoding(
    encoder: TextEncoder, n_batches: int, engine: Engine | None, description: str, runner: Runner | None
) -> _Encode:
    """Elsewhere, where there are processes for it and this one would use its processors alone; else here."""
    here = engine is not None and (engine.precision != "no" or engine.n_processes > 1)
    on_cpu = all(weight.device.type == "cpu" for weight in encoder.parameters())
    if runner is None or not runner.elsewhere or here or not on_cpu or n_batches <= _BATCHES_OF_JOB:
        return partial(_encode_here, engine, description)
    return partial(_encode_elsewhere, runner, description)


def _encode_here(
    engine: Engine | None, description: str, encoder: TextEncoder, rows: TokenRows, chosen: list[Places], take: _Take
) -> None:
    device = next((weight.device for weight in encoder.parameters()), torch.device("cpu"))
    was_training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode(), progress(description, sum(map(len, chosen)), "texts") as bar:
            for here in chosen:
                batch = {name: tensor.to(device) for name, tensor in encoder.collate(rows.take(here)).items()}
                with nullcontext() if engine is None else engine.autocast():
                    found = encoder(batch).float().cpu().numpy()
                take(here, found)
                bar.update(len(here))
    finally:
        encoder.train(was_training)


def _encode_elsewhere(
    runner: Runner, description: str, encoder: TextEncoder, rows: TokenRows, chosen: list[Places], take: _Take
) -> None:
    """Batches by jobs: the same as here, and so the same vectors."""
    parts = [chosen[at : at + _BATCHES_OF_JOB] for at in range(0, len(chosen), _BATCHES_OF_JOB)]
    jobs = []
    for number, part in enumerate(parts):
        inputs = {"encoder": encoder, "rows": rows.take(np.concatenate(part)), "sizes": tuple(map(len, part))}
        cost = sum(len(here) * int(rows.lengths[here].max(initial=1)) for here in part)
        size = sum(weight.nbytes for weight in encoder.parameters())
        jobs.append(Job(f"texts{number}", _encode_part, inputs, cost, size, title="encoding texts"))
    runner.stream(jobs, lambda at, found: take(np.concatenate(parts[at]), found), description)


def _encode_part(encoder: TextEncoder, rows: TokenRows, sizes: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The vectors of rows that stand in batches of these sizes."""
    vectors = np.zeros((len(rows), encoder.dim_out), dtype=np.float32)
    chosen = np.split(np.arange(len(rows)), np.cumsum(sizes)[:-1])
    with quiet():
        _encode_here(None, "", encoder, rows, chosen, vectors.__setitem__)
    return vectors


def batches(lengths: npt.NDArray[np.int64], batch_tokens: int) -> Iterator[Places]:
    """Places of texts of about one length together, the longest first: too large a batch is then known at once."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        stop = start + max(1, batch_tokens // longest)
        yield order[start:stop]
        start = stop
