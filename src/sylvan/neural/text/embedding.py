"""The vectors of many texts: batches of texts of about one length, no gradients, the order that was asked for."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import threading
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
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
_SHARD = re.compile(r"(\d+)-([0-9a-f]{8})\.vectors")
_SMALL_SHARD = 4096  # rows
_MOST_SMALL_SHARDS = 32
_FEW = 16  # vectors are read one by one where they are fewer than a shard's over this
_MOST_KEYS = 1 << 22  # that a process remembers: some 100 MB
_STORE_EVERY = 4096  # vectors computed before they are put into the cache
_BATCHES_OF_JOB = 8  # that other processes encode at a time: a job is sent the encoder's weights
Places = npt.NDArray[np.int64]
_Take = Callable[[Places, npt.NDArray[np.float32]], None]


class EmbeddingCache:
    """The vectors that one encoder has given, by what its tokenizer made of the texts."""

    def __init__(self, folder: str | os.PathLike[str], identity: Mapping[str, Any], dim: int) -> None:
        plain = json.dumps(dict(identity), sort_keys=True, default=str)
        self._salt = hashlib.blake2b(plain.encode(), digest_size=_KEY_BYTES).digest()
        self._folder = os.path.join(os.path.expanduser(os.fspath(folder)), self._salt.hex())
        self._dim = dim
        try:
            os.makedirs(self._folder, exist_ok=True)
        except OSError as error:
            raise ParameterError(
                f"Vectors can't be stored in {os.fspath(folder)!r}: {error.strerror or error}. Give 'cache' a folder "
                "that can be written."
            ) from error

    def keys(self, rows: TokenRows) -> npt.NDArray[np.uint8]:
        """The key of each text, shape (n, 16)."""
        keys = np.empty((len(rows), _KEY_BYTES), dtype=np.uint8)
        values = rows.values
        ids = rows.ids.astype("<i4", copy=False)
        for i, (start, stop) in enumerate(zip(rows.offsets[:-1].tolist(), rows.offsets[1:].tolist(), strict=True)):
            digest = hashlib.blake2b(ids[start:stop].tobytes(), digest_size=_KEY_BYTES, key=self._salt)
            if values is not None:
                digest.update(values[start:stop].astype("<f4", copy=False).tobytes())
            keys[i] = np.frombuffer(digest.digest(), dtype=np.uint8)
        return keys

    def find(self, keys: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
        """Which texts are known, and their vectors."""
        # Shape: keys (n, 16); returns (is_cached, vectors) (n,)
        is_cached = np.zeros(len(keys), dtype=bool)
        vectors = np.zeros((len(keys), self._dim), dtype=np.float32)
        for name in self._shards():
            missing = np.flatnonzero(~is_cached)
            if not len(missing):
                break
            if (hits := self._look_up(name, keys[missing])) is not None:
                hit, theirs = hits
                is_cached[missing[hit]], vectors[missing[hit]] = True, theirs
        return is_cached, vectors[is_cached]

    def add(self, keys: npt.NDArray[np.uint8], vectors: npt.NDArray[np.float32]) -> None:
        """Store vectors; of a disk that is full or refuses there is a warning and nothing else."""
        # Shapes: keys (n, 16); vectors (n, dim)
        if not len(keys):
            return
        try:
            self._write(keys, vectors)
            self._join_small()
        except OSError as error:
            warnings.warn(
                f"Vectors could not be stored in {self._folder!r}: {error.strerror or error}.",
                RuntimeWarning,
                stacklevel=2,
            )

    # ------------------------------------------------------------------------------------ shards

    def _shards(self) -> list[str]:
        return sorted(name for name in os.listdir(self._folder) if _SHARD.fullmatch(name))

    def _write(self, keys: npt.NDArray[np.uint8], vectors: npt.NDArray[np.float32]) -> str:
        parts = [np.ascontiguousarray(keys), np.ascontiguousarray(vectors, dtype="<f4")]
        checksum = 0
        for part in parts:
            checksum = zlib.crc32(part.data.cast("B"), checksum)
        name = f"{len(keys)}-{checksum:08x}.vectors"
        waiting = os.path.join(self._folder, f".{name}.{secrets.token_hex(4)}")
        try:
            with open(waiting, "wb") as file:
                for part in parts:
                    file.write(part.data.cast("B"))
            os.replace(waiting, os.path.join(self._folder, name))
        finally:
            if os.path.exists(waiting):
                os.remove(waiting)
        return name

    def _look_up(
        self, name: str, keys: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float32]] | None:
        """Which keys a shard has, and their vectors; None for a damaged one. A shard is read whole and verified the
        first time that a process looks into it. Its keys are remembered as long as the file stays as it is, so that a
        text asked for alone costs no more than reading its vector."""
        path = os.path.join(self._folder, name)
        try:
            status = os.stat(path)
            state = (status.st_ino, status.st_size, status.st_mtime_ns)
            with _lock:
                entry = _indexes.get(path)
            index = entry[1] if entry is not None and entry[0] == state else None
            if index is not None:
                rows = index.rows_of(keys)
                hit, n = rows >= 0, len(index.rows)
                if hit.sum() * _FEW < n:
                    vectors = np.empty((int(hit.sum()), self._dim), dtype="<f4")
                    with open(path, "rb", buffering=0) as file:
                        for vector, row in zip(vectors, rows[hit].tolist(), strict=True):
                            file.seek(n * _KEY_BYTES + row * vector.nbytes)
                            if file.readinto(vector.data.cast("B")) != vector.nbytes:
                                raise OSError("the shard has been cut")
                    return hit, vectors
        except OSError:
            return None
        shard = self._read(name)
        if shard is None:
            return None
        if index is None:
            index = _Index(shard[0])
            with _lock:
                _indexes.pop(path, None)
                _indexes[path] = (state, index)
                while len(_indexes) > 1 and sum(len(each.rows) for _, each in _indexes.values()) > _MOST_KEYS:
                    del _indexes[next(iter(_indexes))]  # the oldest
        rows = index.rows_of(keys)
        return rows >= 0, shard[1][rows[rows >= 0]]

    def _read(self, name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]] | None:
        """Keys and vectors of a shard; None when it is damaged, of another shape or gone."""
        parts = _SHARD.fullmatch(name)
        assert parts is not None
        n, checksum = int(parts[1]), int(parts[2], 16)
        try:
            data = np.fromfile(os.path.join(self._folder, name), dtype=np.uint8)
        except OSError:
            return None
        if len(data) != n * (_KEY_BYTES + 4 * self._dim) or zlib.crc32(data.data) != checksum:
            return None
        keys = data[: n * _KEY_BYTES].reshape(n, _KEY_BYTES)
        return keys, data[n * _KEY_BYTES :].view("<f4").reshape(n, self._dim)

    def _join_small(self) -> None:
        """One shard of many small ones, as single texts leave them."""
        small = [name for name in self._shards() if int(name.split("-")[0]) < _SMALL_SHARD]
        if len(small) <= _MOST_SMALL_SHARDS:
            return
        read = [shard for name in small if (shard := self._read(name)) is not None]
        joined = ""
        if read:
            joined = self._write(np.concatenate([keys for keys, _ in read]), np.concatenate([each for _, each in read]))
        for name in small:
            if name != joined:
                try:
                    os.remove(os.path.join(self._folder, name))
                except FileNotFoundError:  # another process has joined them too
                    continue


class _Index:
    """The keys of a verified shard in an order in which they are found by halving."""

    def __init__(self, keys: npt.NDArray[np.uint8]) -> None:
        numbers = _as_numbers(keys)
        self.rows = np.argsort(numbers[:, 0], kind="stable")
        self.numbers = numbers[self.rows]

    def rows_of(self, keys: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """The row of each key in the shard; -1 for one that it hasn't got. Of two keys that agree in their first half,
        which chance makes of none, the second isn't found and is computed again."""
        wanted = _as_numbers(keys)
        nearest = np.minimum(np.searchsorted(self.numbers[:, 0], wanted[:, 0]), len(self.numbers) - 1)
        rows: npt.NDArray[np.int64] = np.where((self.numbers[nearest] == wanted).all(axis=1), self.rows[nearest], -1)
        return rows


# What this process knows of shards, by their path and the state that they were read in.
_indexes: dict[str, tuple[tuple[int, ...], _Index]] = {}
_lock = threading.Lock()


def _as_numbers(keys: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Keys of 16 bytes as two numbers each."""
    return np.ascontiguousarray(keys).view("<u8").reshape(-1, 2)


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
    share = rows if engine is None else engine.share(rows)  # of several processes each does a part
    vectors = np.zeros((len(share), encoder.dim_out), dtype=np.float32)

    if engine is not None:
        encoder.to(engine.device)
    waiting: list[Places] = []
    cached: EmbeddingCache | None = None
    cached_rows, keys = np.zeros(len(share), dtype=bool), np.empty(0, np.uint8)
    if cache is not None:
        precision = "no" if engine is None else engine.precision  # vectors of one aren't those of another
        cached = EmbeddingCache(cache, {**encoder.identity(), "precision": precision}, encoder.dim_out)
        keys = cached.keys(share)
        cached_rows, vectors_known = cached.find(keys)
        vectors[cached_rows] = vectors_known

    def store(least: int) -> None:
        if cached is not None and sum(map(len, waiting)) >= least:
            places = np.concatenate(waiting)
            cached.add(keys[places], vectors[places])
            waiting.clear()

    def take(places: Places, batch: npt.NDArray[np.float32]) -> None:
        vectors[places] = batch
        waiting.append(places)
        store(_STORE_EVERY)

    wanted = np.flatnonzero(~cached_rows)
    chosen = [wanted[some] for some in batches(share.lengths[wanted], batch_tokens)]
    # Elsewhere, where there are processes for it and this one would use its processors alone.
    stays = engine is not None and (engine.precision != "no" or engine.n_processes > 1)
    on_cpu = all(weight.device.type == "cpu" for weight in encoder.parameters())
    try:
        if runner is None or not runner.elsewhere or stays or not on_cpu or len(chosen) <= _BATCHES_OF_JOB:
            _encode_here(engine, description, encoder, share, chosen, take)
        else:
            _encode_elsewhere(runner, description, encoder, share, chosen, take)
    finally:
        store(1)
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
                with nullcontext() if engine is None else engine.autocast():
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
