"""The vectors of many texts: batches of texts of about one length, no gradients, the order that was asked for."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import sqlite3
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sylvan.arrays.validate import count
from sylvan.errors import ParameterError
from sylvan.neural.loop.engine import Engine
from sylvan.neural.text.text_encoder import TextEncoder, TokenRows
from sylvan.parallel import progress, quiet
from sylvan.runtime import Job, Runner

_KEY_BYTES = 16
_PATIENCE = 60.0  # seconds to wait for another process that writes
_BATCHES_OF_JOB = 8  # that other processes encode at a time: a job is sent the encoder's weights
Places = npt.NDArray[np.int64]
_Take = Callable[[Places, npt.NDArray[np.float32]], None]


class EmbeddingCache:
    """The vectors that one encoder has given, by what its tokenizer made of the texts: an SQLite file of the folder.
    What can't be read of it is computed again."""

    def __init__(self, folder: str | os.PathLike[str], identity: Mapping[str, Any], dim: int) -> None:
        plain = json.dumps(dict(identity), sort_keys=True, default=str)
        self._salt = hashlib.blake2b(plain.encode(), digest_size=_KEY_BYTES).digest()
        self._dim = dim
        place = os.path.expanduser(os.fspath(folder))
        self._path = os.path.join(place, f"{self._salt.hex()}.sqlite")
        try:
            os.makedirs(place, exist_ok=True)
        except OSError as error:
            raise ParameterError(
                f"Vectors can't be stored in {os.fspath(folder)!r}: {error.strerror or error}. Give 'cache' a folder "
                "that can be written."
            ) from error

    def keys(self, rows: TokenRows) -> list[bytes]:
        """The key of each text."""
        keys = []
        ids = rows.ids.astype("<i4", copy=False)
        for start, stop in itertools.pairwise(rows.offsets.tolist()):
            digest = hashlib.blake2b(ids[start:stop].tobytes(), digest_size=_KEY_BYTES, key=self._salt)
            if rows.values is not None:
                digest.update(rows.values[start:stop].astype("<f4", copy=False).tobytes())
            keys.append(digest.digest())
        return keys

    def find(self, keys: Sequence[bytes]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
        """Which of n texts are known, (n,), and the vectors of these."""
        is_cached = np.zeros(len(keys), dtype=bool)
        vectors = np.zeros((len(keys), self._dim), dtype=np.float32)
        with contextlib.suppress(sqlite3.Error), self._opened() as cache:
            for place, key in enumerate(keys):
                found = cache.execute("SELECT vector, checksum FROM vectors WHERE key = ?", (key,)).fetchone()
                vector, checksum = found or (None, None)
                if type(vector) is bytes and len(vector) == 4 * self._dim and _checksum(key, vector) == checksum:
                    is_cached[place], vectors[place] = True, np.frombuffer(vector, "<f4")
        return is_cached, vectors[is_cached]

    def add(self, keys: Iterable[bytes], vectors: npt.NDArray[np.float32]) -> None:
        """Store the vectors of texts; of a disk that is full or refuses there is a warning and nothing else."""
        stored = zip(keys, (vector.astype("<f4", copy=False).tobytes() for vector in vectors), strict=True)
        rows = ((key, vector, _checksum(key, vector)) for key, vector in stored)
        try:
            with self._opened() as cache:
                cache.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            warnings.warn(f"Vectors could not be stored in {self._path!r}: {error}.", RuntimeWarning, stacklevel=2)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The file, whose changes are written together at the end; a damaged one is removed."""
        try:
            with contextlib.closing(sqlite3.connect(self._path, timeout=_PATIENCE)) as cache, cache:
                cache.execute("PRAGMA synchronous = OFF")  # what a power cut damages is computed again
                cache.execute(
                    "CREATE TABLE IF NOT EXISTS vectors"
                    " (key BLOB PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER NOT NULL)"
                )
                yield cache
        except sqlite3.DatabaseError as error:
            if not isinstance(error, sqlite3.OperationalError):  # it isn't busy or full but no such file any more
                with contextlib.suppress(OSError):
                    os.remove(self._path)
            raise


def _checksum(key: bytes, vector: bytes) -> int:
    return zlib.crc32(vector, zlib.crc32(key))


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

    Texts of about one length are encoded together. With whom a text shares a batch changes its vector by no more than
    rounding, some 1e-6 of its length in float32.

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
    share = rows if engine is None else engine.share(rows)  # of several processes each does a part
    vectors = np.zeros((len(share), encoder.dim_out), dtype=np.float32)

    if engine is not None:
        encoder.to(engine.device)
    cached: EmbeddingCache | None = None
    cached_rows, keys = np.zeros(len(share), dtype=bool), list[bytes]()
    if cache is not None:
        precision = "no" if engine is None else engine.precision  # vectors of one aren't those of another
        cached = EmbeddingCache(cache, {**encoder.identity(), "precision": precision}, encoder.dim_out)
        keys = cached.keys(share)
        cached_rows, vectors_known = cached.find(keys)
        vectors[cached_rows] = vectors_known

    def take(places: Places, batch: npt.NDArray[np.float32]) -> None:
        vectors[places] = batch
        if cached is not None:
            cached.add([keys[place] for place in places], batch)

    wanted = np.flatnonzero(~cached_rows)
    chosen = [wanted[some] for some in batches(share.lengths[wanted], batch_tokens)]
    # Elsewhere, where there are processes for it and this one would use its processors alone.
    stays = engine is not None and (engine.precision != "no" or engine.n_processes > 1)
    on_cpu = all(weight.device.type == "cpu" for weight in encoder.parameters())
    if runner is None or not runner.elsewhere or stays or not on_cpu or len(chosen) <= _BATCHES_OF_JOB:
        _encode_here(engine, description, encoder, share, chosen, take)
    else:
        _encode_elsewhere(runner, description, encoder, share, chosen, take)
    if engine is not None:
        vectors = engine.gather(vectors)
    if encoder.normalizes if normalize is None else normalize:
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        vectors /= np.maximum(lengths, np.finfo(np.float32).tiny)[:, None]
    return vectors


def _encode_here(
    engine: Engine | None, description: str, encoder: TextEncoder, rows: TokenRows, chosen: list[Places], take: _Take
) -> None:
    device = next((weight.device for weight in encoder.parameters()), torch.device("cpu"))
    was_training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode(), progress(description, sum(map(len, chosen)), "texts") as bar:
            for places in chosen:
                batch = {name: tensor.to(device) for name, tensor in encoder.collate(rows.take(places)).items()}
                with contextlib.nullcontext() if engine is None else engine.autocast():
                    take(places, encoder(batch).float().cpu().numpy())
                bar.update(len(places))
    finally:
        encoder.train(was_training)


def _encode_elsewhere(
    runner: Runner, description: str, encoder: TextEncoder, rows: TokenRows, chosen: list[Places], take: _Take
) -> None:
    """Batches by jobs: the same as here, and so the same vectors."""
    parts = [chosen[start : start + _BATCHES_OF_JOB] for start in range(0, len(chosen), _BATCHES_OF_JOB)]
    jobs = []
    for number, part in enumerate(parts):
        inputs = {"encoder": encoder, "rows": rows.take(np.concatenate(part)), "sizes": tuple(map(len, part))}
        cost = sum(len(places) * int(rows.lengths[places].max(initial=1)) for places in part)
        size = sum(weight.nbytes for weight in encoder.parameters())
        jobs.append(Job(f"texts{number}", _encode_part, inputs, cost, size, title="encoding texts"))
    runner.stream(jobs, lambda number, vectors: take(np.concatenate(parts[number]), vectors), description)


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
