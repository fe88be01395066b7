"""The vectors of many texts: batches of texts of about one length, no gradients, the order that was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sylvan.neural.text_encoder import TextEncoder
from sylvan.neural.token_rows import TokenRows
from sylvan.parallel import progress

__all__ = ["embed"]


def embed(
    encoder: TextEncoder,
    texts: Iterable[str] | TokenRows,
    *,
    engine: Any = None,
    batch_tokens: int = 8192,
    normalize: bool | None = None,
    cache: str | os.PathLike[str] | None = None,
    description: str = "Encoding texts",
) -> npt.NDArray[np.float32]:
    """The vectors of texts, shape (n, dim_out).

    Parameters
    ----------
    encoder : TextEncoder
    texts : iterable of str, or TokenRows
    engine : Engine, optional
        Where to compute; without one, where the encoder's weights lie.
    batch_tokens : int
        About so many tokens in a batch, padding included.
    normalize : bool, optional
        Whether to bring vectors to length 1; None does what the encoder says (``normalizes``).
    cache : path, optional
    description : str
        Title of the progress bar.

    Returns
    -------
    ndarray of float32, shape (n, dim_out)

    Examples
    --------
    >>> from sylvan.neural import BagTextEncoder, embed
    >>> embed(BagTextEncoder(dim=8), ["whales", "seas and whales"]).shape
    (2, 8)
    """
    encoder.load()
    rows = texts if isinstance(texts, TokenRows) else encoder.tokenize(texts)
    found = np.empty((len(rows), encoder.dim_out), dtype=np.float32)
    device = next((weight.device for weight in encoder.parameters()), torch.device("cpu"))
    was_training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode(), progress(description, len(rows)) as bar:
            for places in _batches(rows.lengths, batch_tokens):
                batch = encoder.collate(rows.take(places))
                if engine is not None:
                    with engine.autocast():
                        vectors = encoder(engine.batch(batch))
                else:
                    vectors = encoder({name: tensor.to(device) for name, tensor in batch.items()})
                found[places] = vectors.float().cpu().numpy()
                bar.update(len(places))
    finally:
        encoder.train(was_training)
    if encoder.normalizes if normalize is None else normalize:
        lengths = np.sqrt(np.einsum("ij,ij->i", found, found))
        found /= np.maximum(lengths, np.finfo(np.float32).tiny)[:, None]
    return found


def _batches(lengths: npt.NDArray[np.int64], batch_tokens: int) -> Iterator[npt.NDArray[np.int64]]:
    """Texts of about one length together, the longest first, so that too large a batch is known at once."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        stop = start + max(1, batch_tokens // longest)
        yield order[start:stop]
        start = stop
