"""Vectors of texts on disk, found again by their content.

A folder of shards, each written once and never changed: keys, vectors, and in the file's name their number and
checksum. Two processes may use one folder: a shard appears at one stroke under a name that follows from what is in it,
and one that is damaged or has gone is passed over, so that its vectors are computed and written again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import warnings
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import ParameterError
from sylvan.neural.token_rows import TokenRows

__all__ = ["EmbeddingCache"]

_KEY_BYTES = 16
_SHARD = re.compile(r"(\d+)-([0-9a-f]{8})\.vectors")
_SMALL_SHARD = 4096  # rows
_MOST_SMALL_SHARDS = 32


class EmbeddingCache:
    """The vectors that one encoder has given, by what its tokenizer made of the texts.

    Parameters
    ----------
    folder : path
        Made when it isn't there; several encoders may share it.
    identity : mapping
        What the vectors depend on besides the text: ``encoder.identity()`` and how it computed.
    dim : int
        Dimensions of the vectors.

    Raises
    ------
    ParameterError
        When the folder can't be made.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from sylvan.neural import TokenRows
    >>> from sylvan.neural.embedding_cache import EmbeddingCache
    >>> cache = EmbeddingCache(tempfile.mkdtemp(), {"encoder": "mine"}, dim=2)
    >>> rows = TokenRows.from_lists([[1, 2], [3]])
    >>> cache.add(cache.keys(rows)[:1], np.ones((1, 2), dtype=np.float32))
    >>> known, vectors = cache.find(cache.keys(rows))
    >>> known.tolist(), vectors.tolist()
    ([True, False], [[1.0, 1.0]])
    """

    def __init__(self, folder: str | os.PathLike[str], identity: Mapping[str, Any], dim: int) -> None:
        plain = json.dumps(dict(identity), sort_keys=True, default=str)
        self._salt = hashlib.blake2b(plain.encode(), digest_size=_KEY_BYTES).digest()
        self._folder = os.path.join(os.path.expanduser(os.fspath(folder)), self._salt.hex())
        self._dim = dim
        try:
            os.makedirs(self._folder, exist_ok=True)
        except OSError as error:
            raise ParameterError(
                f"Vectors can't be kept in {os.fspath(folder)!r}: {error.strerror or error}. Give 'cache' a folder "
                "that can be written."
            ) from error

    def keys(self, rows: TokenRows) -> npt.NDArray[np.uint8]:
        """What each text is found by, shape (n, 16)."""
        found = np.empty((len(rows), _KEY_BYTES), dtype=np.uint8)
        values = rows.values
        ids = rows.ids.astype("<i4", copy=False)
        for i, (start, stop) in enumerate(zip(rows.offsets[:-1].tolist(), rows.offsets[1:].tolist(), strict=True)):
            digest = hashlib.blake2b(ids[start:stop].tobytes(), digest_size=_KEY_BYTES, key=self._salt)
            if values is not None:
                digest.update(values[start:stop].astype("<f4", copy=False).tobytes())
            found[i] = np.frombuffer(digest.digest(), dtype=np.uint8)
        return found

    def find(self, keys: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
        """Which texts are known, and their vectors.

        Parameters
        ----------
        keys : ndarray of uint8, shape (n, 16)

        Returns
        -------
        (known, vectors) : ndarray of bool, shape (n,); ndarray of float32, shape (known.sum(), dim)
        """
        known = np.zeros(len(keys), dtype=bool)
        vectors = np.zeros((len(keys), self._dim), dtype=np.float32)
        wanted = _as_numbers(keys)
        order = np.argsort(wanted["high"], kind="stable")
        for name in self._shards():
            if known.all():
                break
            shard = self._read(name)
            if shard is None:
                continue
            theirs = _as_numbers(shard[0])
            begin = np.searchsorted(wanted["high"][order], theirs["high"], "left")
            end = np.searchsorted(wanted["high"][order], theirs["high"], "right")
            for row in np.flatnonzero(end > begin):  # a text may be asked for several times
                places = order[begin[row] : end[row]]
                places = places[wanted["low"][places] == theirs["low"][row]]
                known[places], vectors[places] = True, shard[1][row]
        return known, vectors[known]

    def add(self, keys: npt.NDArray[np.uint8], vectors: npt.NDArray[np.float32]) -> None:
        """Keep vectors; a disk that is full or refuses is warned of and changes nothing else.

        Parameters
        ----------
        keys : ndarray of uint8, shape (n, 16)
        vectors : ndarray of float32, shape (n, dim)
        """
        if not len(keys):
            return
        try:
            self._write(keys, vectors)
            self._join_small()
        except OSError as error:
            warnings.warn(
                f"Vectors could not be kept in {self._folder!r}: {error.strerror or error}.",
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

    def _read(self, name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]] | None:
        """Keys and vectors of a shard; None when it is damaged, of another shape or gone."""
        found = _SHARD.fullmatch(name)
        assert found is not None
        n, checksum = int(found[1]), int(found[2], 16)
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


def _as_numbers(keys: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[np.uint64]]:
    pairs = np.ascontiguousarray(keys).view("<u8").reshape(-1, 2)
    return {"high": pairs[:, 0], "low": pairs[:, 1]}
