"""The files of an encoder in a saved model."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from sylvan import store
from sylvan.errors import ModelError
from sylvan.params.wording import counted

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder

_FOLDER = "encoder"  # what the folder of an encoder's files is called
_NEEDED = f"{_FOLDER}/config.json"


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


def encoder_extra(state: store.State) -> str | None:
    """The extra of Sylvan that the encoder of a loaded model, or of a part of it, needs; None without any encoder."""
    if any(name.startswith(f"{_FOLDER}/") for name in state.files):
        return "transformers"
    return next((extra for part in state.parts.values() if (extra := encoder_extra(part))), None)


class SavedEncoder:
    """The files of a loaded model's encoder. They are mapped at once, which takes no time and preserves their contents
    although a save replaces them, and read when the encoder is first asked for: only that loads PyTorch."""

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
        """The encoder with its weights."""
        from sylvan.neural import open_encoder

        if self._there():
            return open_encoder(store.need_files(self._state, _FOLDER))
        copy = self._copied()
        return open_encoder(copy.path)

    def open_beside(self, vectors: npt.NDArray[Any]) -> TextEncoder:
        """The encoder with its weights, whose vectors are as long as those stored of labels' texts."""
        encoder, dim = self.open(), vectors.shape[1]
        if encoder.dim_out != dim:
            raise ModelError(
                f"The {self._state.kind} is damaged: its encoder's vectors have "
                f"{counted(encoder.dim_out, 'dimension')}, but those of its labels' texts {dim}."
            )
        return encoder

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
