"""API keys: who may ask, how often, and who may change models."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sylvan.errors import DataError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHORTEST = 16  # characters of a key


@dataclass(frozen=True)
class ApiKey:
    """A key by its SHA-256 alone: the key itself isn't stored anywhere.

    Attributes
    ----------
    name : str
        Whose it is, in the log.
    digest : bytes
    rate : float, optional
        Requests a second, on average, of a worker process; ten seconds' worth may come at once.
    admin : bool
        Whether it may update and reload models.
    """

    name: str
    digest: bytes
    rate: float | None = None
    admin: bool = False

    @classmethod
    def of(cls, table: Mapping[str, Any], path: str) -> ApiKey:
        """The key of a table in a file.

        Raises
        ------
        DataError
            When it isn't given in exactly one way, is short, or its rate is no positive number.
        """
        place = f"{path}, [[keys]]"
        for entry in table:
            if entry not in ("name", "key", "env", "sha256", "rate", "admin"):
                raise DataError(f"{place} has no use for {entry!r}. It takes name, key, env, sha256, rate and admin.")
        name, rate, admin = table.get("name"), table.get("rate"), table.get("admin", False)
        if not isinstance(name, str) or not name:
            raise DataError(f"{place}: each key needs a name.")
        ways = [entry for entry in ("key", "env", "sha256") if entry in table]
        if len(ways) != 1 or not isinstance(table[ways[0]], str):
            raise DataError(f"{place}: the key {name!r} must be given as one of key, env and sha256, a string.")
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float) or not rate > 0):
            raise DataError(f"{place}: the rate of {name!r} must be a number above 0. Got {rate!r} instead.")
        if not isinstance(admin, bool):
            raise DataError(f"{place}: admin of {name!r} must be true or false. Got {admin!r} instead.")
        return cls(name, _digest(table[ways[0]], ways[0], name, place), None if rate is None else float(rate), admin)


def _digest(word: str, way: str, name: str, place: str) -> bytes:
    if way == "sha256":
        word = word.lower()
        if not _SHA256.fullmatch(word):
            raise DataError(f"{place}: sha256 of {name!r} must be 64 hexadecimal digits.")
        return bytes.fromhex(word)
    if way == "env":
        if word not in os.environ:
            raise DataError(f"{place}: the environment has no {word}, which is to hold the key {name!r}.")
        word = os.environ[word]
    if not word.isascii() or not word.isprintable() or word != word.strip():
        raise DataError(f"{place}: the key {name!r} must be of ASCII characters without blanks around, as headers are.")
    if len(word) < _SHORTEST:
        raise DataError(f"{place}: the key {name!r} must have at least {_SHORTEST} characters. Got {len(word)}.")
    return hashlib.sha256(word.encode("utf-8", "surrogateescape")).digest()


class Rate:
    """So many requests a second; ten seconds' worth may come at once (a token bucket)."""

    def __init__(self, rate: float) -> None:
        self._rate, self._most = rate, max(1.0, 10 * rate)
        self._left, self._at = self._most, time.monotonic()

    def take(self) -> float:
        """Take one request: 0 where it is allowed, else the seconds to wait for it."""
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) / self._rate


class Keyring:
    """The keys of a server."""

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._keys = tuple(keys)
        self._rates = {key.digest: Rate(key.rate) for key in keys if key.rate is not None}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, word: str) -> ApiKey | None:
        """The key that a client shows; every one is compared, in the same time whichever it is."""
        digest = hashlib.sha256(word.encode("utf-8", "surrogateescape")).digest()
        result = None
        for key in self._keys:
            if hmac.compare_digest(digest, key.digest):
                result = key
        return result

    def wait(self, key: ApiKey) -> float:
        """Seconds to wait before this key's next request; 0 takes one."""
        rate = self._rates.get(key.digest)
        return 0.0 if rate is None else rate.take()
