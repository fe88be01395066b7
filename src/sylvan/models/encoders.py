"""Text encoders as parts of models: as parameters, in a saved model's files, and the vectors that they give."""

from __future__ import annotations

import copy
import mmap
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sylvan import store
from sylvan.arrays.types import Array, Float16, Float32, Int32
from sylvan.data.label_terms import LabelTerms, label_terms
from sylvan.errors import ModelError, ParameterError
from sylvan.parallel import resolve_jobs
from sylvan.params.fields import Parameterized, Tested
from sylvan.params.wording import counted
from sylvan.store import JSON
from sylvan.text import StaticEncoder, TfidfVectorizer
from sylvan.text.encoder_folders import find_folder, is_static

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder
    from sylvan.runtime import Runner

    AnyEncoder = TextEncoder | StaticEncoder

_FOLDER = "encoder"  # what the folder of an encoder's files is called
_NEEDED = (f"{_FOLDER}/config.json", f"{_FOLDER}/modules.json")  # one of which every encoder has


OF_LABELS = "those of its labels' texts"  # what an encoder's vectors must be as long as
_opening = threading.RLock()  # not an object's own: locks can't be copied


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


def encoder_extra(state: store.State) -> str | None:
    """The extra of Sylvan that the encoder of a loaded model, or of a part of it, needs; None without any encoder."""
    if (path := next((state.files[name] for name in _NEEDED if name in state.files), None)) is not None:
        return "static" if is_static(os.path.dirname(os.fspath(path))) else "transformers"  # type: ignore[arg-type]
    return next((extra for part in state.parts.values() if (extra := encoder_extra(part))), None)


def words_of_extra(extra: str) -> str:
    """What :func:`encoder_extra` found, as a sentence."""
    needs = "Its static vectors need tokenizers" if extra == "static" else "Its text encoder needs PyTorch"
    return f'{needs}: pip install "sylvan[{extra}]".'


class ModelEncoder:
    """A model's own encoder. That of a loaded model is read from its files when it is first used, as only that loads
    its libraries; they are mapped at once, which takes no time and preserves their contents although a save replaces
    them."""

    dim: int
    beside: str

    def __init__(self, opened: AnyEncoder | None, state: store.State | None = None) -> None:
        self.opened = opened  # None until it is read
        if state is not None:
            if not any(name in state.files for name in _NEEDED):
                raise ModelError(f"{state.where!r} is damaged: the {state.kind} needs the file {_NEEDED[0]!r}.")
            self._state = store.State(
                state.kind, state.version, where=state.where, files=dict(state.files), file_entries=state.file_entries
            )
            self._maps = {name: _mapped(os.fspath(path)) for name, path in state.files.items()}  # type: ignore[arg-type]

    @classmethod
    def of_state(cls, state: store.State, dim: int, beside: str) -> ModelEncoder:
        """That of a loaded model, whose vectors must have ``dim`` dimensions, as those ``beside`` them have."""
        encoder = cls(None, state)
        encoder.dim, encoder.beside = dim, beside
        return encoder

    def open(self) -> AnyEncoder:
        """The encoder with its weights."""
        with _opening:
            if self.opened is None:
                files = None if self._has_files() else self._copied()
                encoder = opened_encoder(store.need_files(self._state, _FOLDER) if files is None else files.path)
                if encoder.dim_out != self.dim:
                    raise ModelError(
                        f"The {self._state.kind} is damaged: its encoder's vectors have "
                        f"{counted(encoder.dim_out, 'dimension')}, but {self.beside} {self.dim}."
                    )
                self.opened, self._maps = encoder, {}
            return self.opened

    def files(self) -> dict[str, Any]:
        """Its files, for a State."""
        if self.opened is None:
            return dict(self._state.files) if self._has_files() else self._copied().files()
        folder = _TemporaryFolder()
        self.opened.save_pretrained(folder.path)
        return folder.files()

    def __getstate__(self) -> dict[str, Any]:
        return {"opened": self.open()}

    def __deepcopy__(self, memo: Any) -> ModelEncoder:
        encoder = ModelEncoder(copy.deepcopy(self.opened, memo))
        encoder.__dict__ |= {name: value for name, value in self.__dict__.items() if name != "opened"}
        return encoder  # what is still in its files stays there

    def _has_files(self) -> bool:
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


def is_path(value: Any) -> bool:
    """Whether it is a path that isn't empty."""
    return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value))


def _is_source(value: Any) -> bool:
    """Whether an encoder can be opened from it; a TextEncoder is known by its methods lest PyTorch be loaded to ask."""
    if isinstance(value, (str, os.PathLike, type)):
        return is_path(value)
    if isinstance(value, StaticEncoder):
        return True
    return all(hasattr(value, name) for name in ("tokenize", "collate", "save_pretrained"))


ENCODER_SOURCE = Tested(
    _is_source, "'bag', the path of a folder, a name on the Hugging Face hub, a TextEncoder or StaticEncoder"
)


def opened_encoder(source: Any) -> AnyEncoder:
    """The encoder that a source names, its weights read. One of static vectors is opened without PyTorch."""
    if isinstance(source, StaticEncoder):
        return source.load()
    if isinstance(source, (str, os.PathLike)) and source != "bag" and is_static(find_folder(source)):
        return StaticEncoder(source).load()
    from sylvan.neural import open_encoder

    return open_encoder(source)


def own_encoder(source: Any) -> AnyEncoder | None:
    """A copy of an encoder for a model, which later changes to the original don't reach; None for None."""
    if source is None:
        return None
    encoder = opened_encoder(source)
    return encoder.copy() if encoder is source else encoder


def encoder_bytes(encoder: AnyEncoder) -> int:
    """Bytes of an encoder's weights."""
    if isinstance(encoder, StaticEncoder):
        return encoder.nbytes
    return sum(weight.numel() * weight.element_size() for weight in encoder.parameters())


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
    """A part of the parameters that the manifest holds."""
    if params is None:
        return None
    try:
        plain = dict(params)
        if isinstance(plain.get("ngrams"), list):
            plain["ngrams"] = tuple(plain["ngrams"])
        part = kind(**plain)
        part.check_params()
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ModelError(f"{state.where!r} is damaged: its {name!r} can't be made: {reason}.") from error
    return part


def made_encoder(state: store.State, described: Any) -> Any:
    """What :func:`described_encoder` described: a word, or a new encoder, not opened, for which PyTorch is needed."""
    if not isinstance(described, dict):
        return described
    kinds = ("BagTextEncoder", "SentenceEncoder", "TransformerEncoder", StaticEncoder.__name__)
    name, params = described.get("class"), described.get("params")
    if name not in kinds or not isinstance(params, dict):
        raise ModelError(f"{state.where!r} is damaged: it has no encoder of the class {name!r:.60}.")
    if name == StaticEncoder.__name__:
        return made_part(state, "encoder", StaticEncoder, params)
    from sylvan import neural

    if isinstance(params.get("vectorizer"), dict):
        params = {**params, "vectorizer": made_part(state, "encoder", TfidfVectorizer, params["vectorizer"])}
    return made_part(state, "encoder", getattr(neural, str(name)), params)


FEW_TEXTS = 8
_REMEDY = "Lower max_length, or take a smaller encoder."
_started_in = os.getpid()


def dense_features(
    encoder: AnyEncoder, texts: Any, *, device: str, n_jobs: int | None,
    cache: str | os.PathLike[str] | None = None, engine: Any = None, normalize: bool = True,
    description: str = "Encoding texts", runner: Runner | None = None,
) -> Float32:  # fmt: skip
    """The encoder's vectors of texts (or of their ids), of length 1 or, without ``normalize``, as they are. In float32
    whatever the engine trains in: rankers learn from the same vectors that they are asked with. A ``runner`` is given
    what :func:`~sylvan.neural.text.embedding.embed` gives it."""
    if isinstance(encoder, StaticEncoder):
        return encoder.encode(texts, normalize=normalize, description=description)
    from sylvan.neural.loop.engine import memory_sentences
    from sylvan.neural.text.embedding import embed

    with torch_threads(n_jobs), memory_sentences("Encoding texts", device, _REMEDY):
        if engine is None:
            place(encoder, device)
        else:
            engine = engine.without_rounding()
        return embed(
            encoder, texts, engine=engine, normalize=normalize, cache=cache, description=description, runner=runner
        )


def encoded(
    encoder: AnyEncoder, texts: list[str], n_jobs: int | None, description: str = "Encoding texts"
) -> Float32:
    """Vectors of length 1, or of zeros for texts with nothing in them; computed on a GPU where there is one. A few
    texts are encoded on one thread: on a busy machine, threads that wait for one another take far longer."""
    n_jobs = 1 if len(texts) < FEW_TEXTS else n_jobs
    vectors = dense_features(encoder, texts, device="auto", n_jobs=n_jobs, description=description)
    vectors[[not text.strip() for text in texts]] = 0
    return vectors


def place(encoder: TextEncoder, device: str) -> None:
    """Bring an encoder's weights to a device; "auto" is a GPU where there is one."""
    import torch

    from sylvan.neural.loop.engine import out_of_memory

    encoder.load()
    weight = next(iter(encoder.parameters()), None)
    try:
        wanted = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
        if weight is not None and wanted not in (weight.device, torch.device(weight.device.type)):
            encoder.to(wanted)
    except (RuntimeError, AssertionError) as error:  # what PyTorch raises, by the kind of device
        if out_of_memory(error):
            raise
        reason = " ".join(str(error).split())[:100].rstrip(".")
        raise ParameterError(
            f"The 'device' parameter must be a device that this PyTorch sees. Got {device!r} instead ({reason})."
        ) from error


@contextmanager
def torch_threads(n_jobs: int | None) -> Iterator[None]:
    """PyTorch computes with so many threads; in a forked child with one, as its threads don't survive a fork."""
    import torch

    before = torch.get_num_threads()
    # A number beyond any machine's cores, which a damaged manifest may hold, would overflow there.
    most = max(64, os.cpu_count() or 1)
    wanted = min(resolve_jobs(n_jobs), most) if os.getpid() == _started_in else 1
    if wanted == before:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


OF_ENCODER = ("cosine", "below_best")


def first_terms(label_texts: Any, names: Iterable[str]) -> list[str]:
    """The first term of each label, by ``label_texts`` as :meth:`LexicalMatcher.fit` takes them; "" without any."""
    listed = list(names)
    terms = label_terms(label_texts, listed)
    of_labels = (terms.get(name, LabelTerms()) for name in listed)
    return [next(iter((*label.names, *label.definitions)), "") for label in of_labels]


@dataclass(frozen=True, eq=False)
class EncodedLabels:
    """A text encoder, and its vectors of labels' texts, of length 1 in half precision."""

    encoder: ModelEncoder
    vectors: Float16  # shape (n_labels, dim): of each label's text; zeros where it has none
    by_name: bool = True  # whether labels that come are encoded by their names

    @classmethod
    def of(cls, encoder: AnyEncoder, label_texts: Any, names: Iterable[str], n_jobs: int | None) -> EncodedLabels:
        """Of labels, by the first of their terms in ``label_texts``, as :meth:`LexicalMatcher.fit` takes them."""
        texts = first_terms(label_texts, names)
        vectors = encoded(encoder, texts, n_jobs, "Encoding labels' texts").astype(np.float16)
        return cls(ModelEncoder(encoder), vectors, label_texts is None or isinstance(label_texts, str))

    def encode(self, texts: list[str], n_jobs: int | None) -> Float32:
        """The vectors of texts, of shape (n, dim)."""
        if not texts:
            return np.zeros((0, self.vectors.shape[1]), np.float32)
        return encoded(self.encoder.open(), texts, n_jobs)

    def columns(self, vectors: Float32, labels: Int32) -> Float32:
        """Of every candidate, how near its text is to the row."""
        # Shapes: vectors (n, dim); labels (n, k); returns (n, k, 2)
        of_labels = self.vectors[np.maximum(labels, 0)].astype(np.float32)
        # An einsum adds up in one order, whatever the number of rows; a product by BLAS doesn't.
        cosines = np.einsum("nd,nkd->nk", vectors, of_labels, optimize=False)
        is_label = labels >= 0
        best = np.where(is_label, cosines, np.float32(-np.inf)).max(axis=1, initial=-np.inf, keepdims=True)
        below = np.subtract(best, cosines, out=np.zeros_like(cosines), where=is_label)
        return np.stack((np.where(is_label, cosines, np.float32(0)), below), axis=2)

    def moved(self, ids: Int32, names: list[str], n_jobs: int | None) -> EncodedLabels:
        """By other ids, those in ``names``, among which there may be new labels."""
        vectors = np.zeros((len(names), self.vectors.shape[1]), np.float16)
        vectors[ids] = self.vectors
        new = np.setdiff1d(np.arange(len(names)), ids)
        if self.by_name and len(new):
            vectors[new] = self.encode([names[label] for label in new.tolist()], n_jobs)
        return replace(self, vectors=vectors)

    def grown(self, n_labels: int) -> EncodedLabels:
        """With more labels, without texts."""
        return replace(self, vectors=np.pad(self.vectors, ((0, n_labels - len(self.vectors)), (0, 0))))

    def with_labels(self, labels: Array, vectors: Any = 0) -> EncodedLabels:
        """With other vectors for some labels, or with none."""
        changed = self.vectors.copy()
        changed[labels] = vectors
        return replace(self, vectors=changed)

    def to_arrays(self) -> dict[str, Array]:
        """The arrays by the names that they are stored under."""
        return {"encoded.vectors": self.vectors, "encoded.by_name": np.array([self.by_name], np.int64)}

    @classmethod
    def from_state(cls, state: store.State, n_labels: int) -> EncodedLabels | None:
        """From the arrays and files of a model, verified; None where there is no encoder."""
        if "encoded.vectors" not in state.arrays:
            return None
        vectors = store.need_range(state, "encoded.vectors", -1.01, 1.01, np.float16, (n_labels, None))
        by_name = store.need_range(state, "encoded.by_name", 0, 1, np.int64, (1,))
        return cls(ModelEncoder.of_state(state, vectors.shape[1], OF_LABELS), vectors, bool(by_name[0]))
