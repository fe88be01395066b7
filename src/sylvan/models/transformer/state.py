"""The parts of XRTransformer and XTransformer in a saved model: parameters in the manifest, the encoder in files."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from sylvan import store
from sylvan.errors import ModelError
from sylvan.params import Parameterized
from sylvan.store import JSON
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder

__all__ = [
    "SavedEncoder", "described_encoder", "described_part", "encoder_files", "made_encoder", "made_part",
    "need_dense_scale", "need_history", "need_term_scale",
]  # fmt: skip

_FOLDER = "encoder"  # what the folder of an encoder's files is called
_NEEDED = f"{_FOLDER}/config.json"


# ---------------------------------------- parameters


def described_part(part: Parameterized | None) -> JSON:
    """A part's parameters in plain values; None where there is none. A ranker's tree is among what it has learned."""
    if part is None:
        return None
    return {name: value for name, value in part.get_params(deep=False).items() if name != "tree"}


def described_encoder(encoder: Any) -> JSON:
    """The parameter ``encoder`` in plain values: an object by its class and parameters."""
    if encoder is None or isinstance(encoder, (str, os.PathLike)):
        return None if encoder is None else os.fspath(encoder)
    params = encoder.get_params(deep=False)
    plain = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in params.items()}
    if plain.get("vectorizer") is not None:
        plain["vectorizer"] = dict(plain["vectorizer"].get_params())
    return {"class": type(encoder).__name__, "params": plain}


def made_part(state: store.State, name: str, kind: type[Parameterized], params: Any) -> Any:
    """A part of the parameters that the manifest holds.

    Raises
    ------
    ModelError
        When they are none of that class.
    """
    if params is None:
        return None
    try:
        plain = dict(params)
        if isinstance(plain.get("ngrams"), list):
            plain["ngrams"] = tuple(plain["ngrams"])
        made = kind(**plain)
        made.check_params()
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ModelError(f"{state.where!r} is damaged: its {name!r} can't be made: {reason}.") from error
    return made


def made_encoder(state: store.State, described: Any) -> Any:
    """What :func:`described_encoder` described: a word, or a new encoder, not opened, for which PyTorch is needed.

    Raises
    ------
    ModelError
        When it is no encoder of Sylvan's.
    """
    if not isinstance(described, dict):
        return described
    from sylvan import neural

    kinds = ("BagTextEncoder", "SentenceEncoder", "TransformerEncoder")
    name, params = described.get("class"), described.get("params")
    if name not in kinds or not isinstance(params, dict):
        raise ModelError(f"{state.where!r} is damaged: it has no encoder of the class {name!r:.60}.")
    if isinstance(params.get("vectorizer"), dict):
        params = {**params, "vectorizer": made_part(state, "encoder", TfidfVectorizer, params["vectorizer"])}
    return made_part(state, "encoder", getattr(neural, str(name)), params)


def need_dense_scale(state: store.State) -> float:
    """The length of the encoder's vectors that the rankers have learned, which the parameter may say otherwise."""
    if "dense_scale" not in state.meta:
        raise ModelError(f"{state.where!r} is damaged: it doesn't say how long its encoder's vectors are.")
    return store.need_float(state, "dense_scale", np.finfo(np.float32).tiny, np.finfo(np.float32).max)


def need_term_scale(state: store.State) -> float:
    """The length of TF-IDF's part of a row; 1 in a model that was saved before it could be anything else."""
    if "term_scale" not in state.meta:
        return 1.0
    return store.need_float(state, "term_scale", np.finfo(np.float32).tiny, 1.0)


def need_history(state: store.State) -> list[dict[str, Any]]:
    """What the training of each layer went like."""
    history = state.meta.get("history")
    if not isinstance(history, list) or not all(isinstance(layer, dict) for layer in history):
        raise ModelError(
            f"{state.where!r} is damaged: 'history' must be a list of layers. Got {history!r:.60} instead."
        )
    return history


# ---------------------------------------- files


class _TemporaryFile:
    """The path of a file that lies in a temporary folder, which is there as long as this object."""

    def __init__(self, path: str, folder: _TemporaryFolder) -> None:
        self.path, self._folder = path, folder

    def __fspath__(self) -> str:
        return self.path


class _TemporaryFolder:
    """A folder that goes with its last reference."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="sylvan-encoder-")
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def files(self) -> dict[str, Any]:
        """The files in it by what a model calls them."""
        files = {}
        for place, folders, names in os.walk(self.path):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(place, name)
                relative = os.path.relpath(path, self.path).replace(os.sep, "/")
                files[f"{_FOLDER}/{relative}"] = _TemporaryFile(path, self)
        return files


def encoder_files(encoder: TextEncoder) -> dict[str, Any]:
    """An encoder as the files of a State."""
    folder = _TemporaryFolder()
    encoder.save_pretrained(folder.path)
    return folder.files()


class SavedEncoder:
    """The files of a loaded model's encoder.

    They are mapped at once, which takes no time and preserves their contents although a save replaces them, and read
    when the encoder is first asked for: only that loads PyTorch.

    Parameters
    ----------
    state : State
        Of the model, loaded.

    Raises
    ------
    ModelError
        When the model has no encoder.
    """

    def __init__(self, state: store.State) -> None:
        if _NEEDED not in state.files:
            raise ModelError(f"{state.where!r} is damaged: the {state.kind} needs the file {_NEEDED!r}.")
        self._state = store.State(
            state.kind, state.version, where=state.where, files=dict(state.files), file_entries=state.file_entries
        )
        self._maps = {name: _mapped(os.fspath(path)) for name, path in state.files.items()}  # type: ignore[arg-type]

    def __deepcopy__(self, memo: Any) -> SavedEncoder:
        return self  # nothing in it changes

    def open(self) -> TextEncoder:
        """The encoder with its weights.

        Raises
        ------
        ModelError
            When a file was altered or holds no encoder.
        ImportError
            When PyTorch or transformers isn't installed.
        """
        from sylvan.neural import open_encoder

        if self._there():
            return open_encoder(store.need_files(self._state, _FOLDER))
        copy = self._copied()
        return open_encoder(copy.path)

    def files(self) -> dict[str, Any]:
        """The same files, for a State."""
        return dict(self._state.files) if self._there() else self._copied().files()

    def _there(self) -> bool:
        return all(os.path.isfile(path) for path in self._state.files.values())

    def _copied(self) -> _TemporaryFolder:
        """The contents in files of their own, when a save has taken the others away."""
        folder = _TemporaryFolder()
        for name, content in self._maps.items():
            path = os.path.join(folder.path, name.partition("/")[2])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        return folder


def _mapped(path: str) -> Any:
    """The bytes of a file, which stay although it is removed."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
