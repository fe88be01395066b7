"""The vectors of many texts: batches of texts of about one length, no gradients, the order that was asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext

import numpy as np
import numpy.typing as npt
import torch

from sylvan.neural.loop.engine import Engine
from sylvan.neural.text.embedding_cache import EmbeddingCache
from sylvan.neural.text.text_encoder import TextEncoder
from sylvan.neural.text.token_rows import TokenRows
from sylvan.parallel import progress
from sylvan.validate import count

__all__ = ["embed"]

_STORE_EVERY = 4096  # vectors computed before they are put into the cache


def embed(
    encoder: TextEncoder,
    texts: Iterable[str] | TokenRows,
    *,
    engine: Engine | None = None,
    batch_tokens: int = 8192,
    normalize: bool | None = None,
    cache: str | os.PathLike[str] | None = None,
    description: str = "Encoding texts",
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
    if cache is None:
        _compute(encoder, mine, np.arange(len(mine)), engine, batch_tokens, description, vectors, None)
    else:
        precision = "no" if engine is None else engine.precision  # vectors of one aren't those of another
        cached = EmbeddingCache(cache, {**encoder.identity(), "precision": precision}, encoder.dim_out)
        keys = cached.keys(mine)
        known, stored = cached.find(keys)
        vectors[known] = stored

        def store(places: npt.NDArray[np.int64]) -> None:
            cached.add(keys[places], vectors[places])

        _compute(encoder, mine, np.flatnonzero(~known), engine, batch_tokens, description, vectors, store)
    if engine is not None:
        vectors = engine.gather(vectors)
    if encoder.normalizes if normalize is None else normalize:
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        vectors /= np.maximum(lengths, np.finfo(np.float32).tiny)[:, None]
    return vectors


def _compute(
    encoder: TextEncoder,
    rows: TokenRows,
    places: npt.NDArray[np.int64],
    engine: Engine | None,
    batch_tokens: int,
    description: str,
    vectors: npt.NDArray[np.float32],
    store: Callable[[npt.NDArray[np.int64]], None] | None,
) -> None:
    """Fill in the vectors of some of the rows; ``store`` is called now and then with the places of new ones."""
    if engine is not None:
        encoder.to(engine.device)
    device = next((weight.device for weight in encoder.parameters()), torch.device("cpu"))
    was_training = encoder.training
    encoder.eval()
    waiting: list[npt.NDArray[np.int64]] = []
    try:
        with torch.inference_mode(), progress(description, len(places), "texts") as bar:
            for some in batches(rows.lengths[places], batch_tokens):
                here = places[some]
                batch = {name: tensor.to(device) for name, tensor in encoder.collate(rows.take(here)).items()}
                with nullcontext() if engine is None else engine.autocast():
                    vectors[here] = encoder(batch).float().cpu().numpy()
                bar.update(len(here))
                waiting.append(here)
                if store is not None and sum(map(len, waiting)) >= _STORE_EVERY:
                    store(np.concatenate(waiting))
                    waiting.clear()
    finally:
        encoder.train(was_training)
        if store is not None and waiting:
            store(np.concatenate(waiting))


def batches(lengths: npt.NDArray[np.int64], batch_tokens: int) -> Iterator[npt.NDArray[np.int64]]:
    """Places of texts of about one length together, the longest first: too large a batch is then known at once."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        stop = start + max(1, batch_tokens // longest)
        yield order[start:stop]
        start = stop
