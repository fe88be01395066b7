"""What a server is told: its models, its limits and its keys, from Python, a command line or a TOML file."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sylvan import store
from sylvan.errors import DataError, ParameterError, SylvanError
from sylvan.params.fields import Constraint, Flag, Number, Tested, check_values

_T = TypeVar("_T")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHORTEST = 16  # characters of a key
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME_WORDS = "letters, digits, dots, dashes and underscores, at most 64, the first a letter or digit"
_RANGES: Mapping[str, Constraint] = {
    "port": Number(int, 0, 65535), "workers": Number(int, 1, 256), "watch": Number(float, 0.05, 86400),
    "drain": Number(float, 0, 3600), "threads": Number(int, 1, 1024), "log": Flag(), "wait": Flag(), "mmap": Flag(),
    "body": Number(int, 1024, 1 << 30), "texts": Number(int, 1, 100_000), "text_length": Number(int, 1, 1 << 30),
    "k": Number(int, 1, 1_000_000), "labels": Number(int, 1, 10_000_000), "queue": Number(int, 1, 1_000_000),
    "seconds": Number(float, 0.01, 86400), "slow": Number(float, 0.01, 86400), "host": Tested(bool, "an address"),
    "limits": Tested(lambda given: isinstance(given, Limits), "Limits"),
    "keys": Tested(lambda kinds: set(kinds) <= {ApiKey}, "ApiKeys, as ApiKey.of makes them"),
    "models": Tested(lambda given: isinstance(given, Sequence) and {*map(type, given)} <= {ServedFolder},
                     "folders by their names, or ServedFolders"),
    "folder": Tested(lambda given: isinstance(given, str | os.PathLike), "a path"),
}  # fmt: skip


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


class Keyring:
    """The keys of a server, and for each with a rate a token bucket: ten seconds' worth may come at once."""

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._keys = tuple(keys)
        self._left: dict[bytes, tuple[float, float]] = {}  # requests that a key had left when it last asked, and when

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, word: str) -> ApiKey | None:
        """The key that a client shows; every one is compared, in the same time whichever it is."""
        digest = hashlib.sha256(word.encode("utf-8", "surrogateescape")).digest()
        return next(iter([key for key in self._keys if hmac.compare_digest(digest, key.digest)]), None)

    def wait(self, key: ApiKey) -> float:
        """Seconds to wait before this key's next request; 0 takes one."""
        if key.rate is None:
            return 0.0
        now, most = time.monotonic(), max(1.0, 10 * key.rate)
        left, since = self._left.get(key.digest, (most, now))
        left = min(most, left + (now - since) * key.rate)
        self._left[key.digest] = (left - 1 if left >= 1 else left), now
        return 0.0 if left >= 1 else (1 - left) / key.rate


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, and how long it may take.

    Attributes
    ----------
    body : int
        Bytes of a request's body; of NDJSON, of a line.
    texts : int
        Texts, rows of features or vectors of one request.
    text_length : int
        Characters of a text.
    k : int
        Answers for each of them.
    labels : int
        Entries of ``allowed`` and of ``denied``.
    queue : int
        Requests that may wait for a model; the next is refused.
    seconds : float
        Time from a request's arrival to its answer.
    slow : float
        Seconds within which a client must have sent its headers, and a body that fits.
    """

    body: int = 8 << 20
    texts: int = 100
    text_length: int = 1_000_000
    k: int = 1000
    labels: int = 100_000
    queue: int = 64
    seconds: float = 30.0
    slow: float = 10.0


@dataclass(frozen=True)
class ServedFolder:
    """A model that is served, and what belongs to it.

    Attributes
    ----------
    name : str
        What it is called in addresses.
    folder : str
    title : str
        What people read; the name by default.
    examples : str, optional
        A file of training texts, of which explanations show the nearest; JSONL, CSV, TSV or one of Annif's corpora.
    vocabulary : str, optional
        A file of subjects (TSV, CSV or SKOS), for labels that are URIs.
    language : str, optional
        Of the texts and of the vocabulary's labels, such as "en".
    threads : int
        For one batch of requests.
    mmap : bool
        Whether workers share the files' pages; otherwise each reads the model into its own memory.
    """

    name: str
    folder: str
    title: str = ""
    examples: str | None = None
    vocabulary: str | None = None
    language: str | None = None
    threads: int = 1
    mmap: bool = True


@dataclass(frozen=True)
class Settings:
    """All that a server is told."""

    models: Sequence[ServedFolder]
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    limits: Limits = field(default_factory=Limits)
    keys: Sequence[ApiKey] = ()
    watch: float = 1.0  # seconds between two looks at a model's manifest
    drain: float = 0.0  # seconds for which a server that was told to end goes on accepting requests
    log: bool = True
    wait: bool = False  # whether startup ends once the models are open, and fails where none can be


def named_folders(words: Iterable[str]) -> list[ServedFolder]:
    """The models that a command line names, as FOLDER or NAME=FOLDER."""
    results = []
    for word in words:
        name, equals, folder = word.partition("=")
        if not equals or os.path.isdir(word):
            name, folder = "", word
        results.append(ServedFolder(name, folder))
    return results


def checked(settings: Settings) -> Settings:
    """The settings with every model named."""
    check_values(_RANGES, "Settings", **vars(settings) | {"keys": [*map(type, settings.keys)]})  # keys aren't shown
    if not settings.models:
        raise ParameterError("There is no model to serve: name a folder, or several.")
    digests = [key.digest for key in settings.keys]
    for key in settings.keys:
        if digests.count(key.digest) > 1:
            raise ParameterError(f"The API key {key.name!r} is that of another name too: each needs its own.")
    for part in (settings.limits, *settings.models):
        check_values(_RANGES, type(part).__name__, **vars(part))
    named: dict[str, ServedFolder] = {}
    wrong: list[SylvanError] = []
    for model in settings.models:
        name = model.name or os.path.basename(os.path.abspath(model.folder))
        if not _NAME.fullmatch(name):
            raise ParameterError(
                f"A model's name must be made of {_NAME_WORDS}. Got {name!r} instead: serve NAME={model.folder}."
            )
        if name in named:
            raise ParameterError(
                f"Two models are called {name!r}, {named[name].folder!r} and {model.folder!r}: "
                "serve one as NAME=FOLDER."
            )
        try:  # whether its folder and the files beside it are there; what is in them is seen when it is opened
            store.contents(model.folder)  # says so where there is none
            for field in ("examples", "vocabulary"):
                path = getattr(model, field)
                if path is not None and not os.path.isfile(path):
                    raise ParameterError(f"The {field!r} of the model {name!r} must be a file. There is none: {path}.")
        except SylvanError as error:
            wrong.append(error)
        named[name] = dataclasses.replace(model, name=name, folder=os.fspath(model.folder), title=model.title or name)
    if len(wrong) == len(named):
        raise wrong[0]
    return dataclasses.replace(settings, models=tuple(named.values()))


def read_toml(path: str) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    try:
        with open(path, "rb") as stream:
            return dict(tomllib.load(stream))
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror or error}.") from error
    except ValueError as error:  # so is bad UTF-8
        raise DataError(f"{path} is not TOML: {' '.join(str(error).split())}.") from error


def read_settings(path: str) -> Settings:
    """The settings of a TOML file. At its top stand ``host``, ``port``, ``workers``, ``watch``, ``drain`` and ``log``;
    ``[limits]`` holds those of :class:`Limits`; ``[models.NAME]`` has ``folder`` and the rest of :class:`ServedFolder`;
    each ``[[keys]]`` is an API key, with ``name``, one of ``key``, ``env`` and ``sha256``, and optionally ``rate`` and
    ``admin``."""
    table = read_toml(path)
    models = [_model(path, name, entry) for name, entry in _table(path, "[models]", table.pop("models", {})).items()]
    limits = _made(Limits, path, "[limits]", table.pop("limits", {}))
    keys = table.pop("keys", [])
    if not isinstance(keys, list):
        raise DataError(f"{path}: keys must be tables, each under [[keys]].")
    keys = tuple(ApiKey.of(_table(path, "[[keys]]", entry), path) for entry in keys)
    entries = ("host", "port", "workers", "watch", "drain", "log")
    return _made(Settings, path, "", table, entries, models=tuple(models), limits=limits, keys=keys)


def _model(path: str, name: str, value: Any) -> ServedFolder:
    """One model; its files are looked for beside the settings."""
    place, base = f"[models.{name}]", os.path.dirname(os.path.abspath(path))
    if "folder" not in _table(path, place, value):
        raise DataError(f"{path}, {place}: the model's folder is missing.")
    model = _made(ServedFolder, path, place, value, name=name)
    files = {entry: getattr(model, entry) for entry in ("folder", "examples", "vocabulary")}
    paths: Any = {entry: os.path.join(base, file) for entry, file in files.items() if file is not None}
    return dataclasses.replace(model, **paths)


def _table(path: str, place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{path}: {place} must be a table. Got {value!r:.60} instead.")
    return dict(value)


def _made(kind: Callable[..., _T], path: str, place: str, value: Any, names: Iterable[str] = (), **extra: Any) -> _T:
    """An object of one of the classes above, of a table that holds nothing else than its fields."""
    table, fields = _table(path, place, value), dataclasses.fields(kind)  # type: ignore[arg-type]
    types = {entry.name: entry.type for entry in fields if entry.name not in extra}
    allowed = list(names or types)
    for name, value in table.items():
        if name not in allowed:
            wanted = f"has no use for {name!r}. It takes {', '.join(allowed)}."
            raise DataError(f"{path}: {place} {wanted}" if place else f"{path}: the file's top {wanted}")
        if types[name] in ("str", "str | None") and not isinstance(value, str):
            wanted = f"{name} must be a string. Got {value!r} instead."
            raise DataError(f"{path}, {place}: {wanted}" if place else f"{path}: {wanted}")
    return kind(**table, **extra)
