"""Static vectors: a text's vector is the mean of its tokens' vectors, looked up in a table. PyTorch isn't needed."""

from __future__ import annotations

import contextlib
import copy
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.errors import ModelError, SylvanError
from sylvan.lazy import need_extra
from sylvan.parallel import progress
from sylvan.params.fields import Instance, Parameterized, attribute, parameterized
from sylvan.params.wording import counted
from sylvan.text.counting import as_documents
from sylvan.text.encoder_folders import (
    MODEL2VEC,
    WEIGHTS,
    find_folder,
    model_type,
    read_json,
    read_prompts,
    reason_of,
    static_modules,
    static_place,
    written_beside,
)

_Self = TypeVar("_Self", bound="StaticEncoder")
_CHUNK = 1000  # texts that are tokenised at once
_FEW = 8  # texts that are tokenised without the threads of tokenizers
_MOST_TOKENS = 512  # of a text that model2vec looks at
_LARGEST = 1e15  # what a value of the table may be, so that sums and squares are finite
_TABLES = ("embedding.weight", "embeddings")  # what sentence-transformers and model2vec call the table
_DTYPES = ("float16", "float32", "float64", "int8")


@dataclass(frozen=True, eq=False)
class StaticTable:
    """What a folder of static vectors holds."""

    tokenizer: Any  # of tokenizers, which pads nothing
    vectors: npt.NDArray[Any]  # shape (n_vectors, dim), of one of _DTYPES
    mapping: npt.NDArray[np.int64] | None  # shape (n_tokens,): the vector of each token; None where it is its number
    weights: npt.NDArray[np.float32] | None  # shape (n_tokens,): factor of each token's vector; None where all are 1
    normalizes: bool  # whether vectors are meant to be brought to length 1
    prompts: dict[str, str]  # what may be put before a text, by name
    prompt: str  # what is put before every text
    config: dict[str, Any] | None  # model2vec's, by whose rules texts are read then; None for sentence-transformers'
    unknown: int | None  # the token that isn't counted, by model2vec's rules
    most_characters: int | None  # of a text that are looked at, by model2vec's rules

    @property
    def n_tokens(self) -> int:
        """How many tokens the table has a vector for."""
        return len(self.vectors if self.mapping is None else self.mapping)

    @classmethod
    def read(cls, folder: str) -> StaticTable:
        """From the files of a folder, verified."""
        config, place = None, static_place(folder)
        prompts, prompt = dict[str, str](), ""
        if model_type(folder) == MODEL2VEC:
            config = read_json(os.path.join(folder, "config.json"))
            normalizes = config.get("normalize", False)
            if not isinstance(normalizes, bool):
                raise ModelError(f"{folder!r} is damaged: 'normalize' of its config.json must be true or false.")
        else:
            normalizes, (prompts, prompt) = _normalizes(folder), read_prompts(folder)
        vectors, mapping, weights = _read_tensors(os.path.join(place, WEIGHTS))
        path = os.path.join(place, "tokenizer.json")
        tokenizer, longest_id, unknown, usual_length = _read_tokenizer(path)
        by_model2vec = config is not None
        table = cls(
            tokenizer, vectors, mapping, weights, normalizes, prompts, prompt, config,
            unknown if by_model2vec else None, _MOST_TOKENS * usual_length if by_model2vec else None,
        )  # fmt: skip
        if longest_id >= table.n_tokens:
            raise ModelError(
                f"The tokenizer and the vectors in {folder!r} don't belong together: the tokenizer has ids up to "
                f"{longest_id}, the table has {counted(table.n_tokens, 'token')}."
            )
        return table

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text's tokens that count."""
        begun = [self.prompt + text for text in texts]
        if self.most_characters is not None:
            begun = [text[: self.most_characters] for text in begun]
        ids = [encoding.ids for encoding in self._encodings(begun)]
        if self.unknown is not None:
            ids = [[token for token in row if token != self.unknown] for row in ids]
        return ids if self.config is None else [row[:_MOST_TOKENS] for row in ids]

    def _encodings(self, texts: list[str]) -> list[Any]:
        with _explained("The tokenizer of static vectors can't read a text"):
            try:
                return self._tokenised(texts)
            except (TypeError, UnicodeError):  # half a character, as a text cut in UTF-16 ends with
                whole = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
                return self._tokenised(whole)

    def _tokenised(self, texts: list[str]) -> list[Any]:
        if len(texts) < _FEW:
            return [self.tokenizer.encode(text, add_special_tokens=False) for text in texts]
        encodings: list[Any] = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return encodings

    def means(self, ids: list[list[int]]) -> npt.NDArray[np.float32]:
        """The mean of each text's vectors; zeros for a text without tokens."""
        offsets = np.cumsum([0, *map(len, ids)])
        tokens = np.fromiter(chain.from_iterable(ids), np.int64, int(offsets[-1]))
        if len(tokens) and tokens.max() >= self.n_tokens:
            raise ModelError(
                f"The tokenizer and the vectors of an encoder don't belong together: a text has the token "
                f"{tokens.max()}, the table has {counted(self.n_tokens, 'token')}."
            )
        factors = np.ones(len(tokens)) if self.weights is None else self.weights[tokens].astype(np.float64)
        used, places = np.unique(tokens if self.mapping is None else self.mapping[tokens], return_inverse=True)
        rows = sp.csr_matrix((factors, places.reshape(-1), offsets), shape=(len(ids), len(used)))
        # A sparse product adds up a row's vectors one after another, whatever rows are beside it; hundreds of them in
        # float32 would be some 1e-6 off.
        sums = rows @ self.vectors[used].astype(np.float64)
        return np.asarray((sums / np.maximum(np.diff(offsets), 1)[:, None]).astype(np.float32))

    def save(self, folder: str) -> None:
        """Write the files into an empty folder."""
        steps = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}]
        if self.normalizes:
            step = {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"}
            steps.append(step)
        name = next((name for name, prompt in self.prompts.items() if prompt == self.prompt), None)
        of_prompts = {"prompts": self.prompts, "default_prompt_name": name if self.prompt else None}
        config: tuple[str, dict[str, Any]] = ("config_sentence_transformers.json", of_prompts)
        if self.config is not None:
            config = ("config.json", self.config)
        for file_name, value in (("modules.json", steps), config):
            with open(os.path.join(folder, file_name), "w", encoding="utf-8") as file:
                json.dump(value, file, indent=2)
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
            file.write(self.tokenizer.to_str())
        tensors = {_TABLES[self.config is not None]: self.vectors, "mapping": self.mapping, "weights": self.weights}
        with open(os.path.join(folder, WEIGHTS), "wb") as file:
            present = {name: np.ascontiguousarray(array) for name, array in tensors.items() if array is not None}
            file.write(need_static("safetensors.numpy").save(present))


@parameterized
class StaticEncoder(Parameterized):
    """A sentence encoder without a network: a text's vector is the mean of its tokens' vectors, looked up in a table.

    Such tables are made of a sentence encoder's vectors of single tokens, by model2vec, or trained, by
    sentence-transformers' StaticEmbedding. A text takes some microseconds, and neither PyTorch nor these libraries are
    needed, only ``pip install "sylvan[static]"`` (tokenizers and safetensors).

    Parameters
    ----------
    source : path or str
        A folder that model2vec or sentence-transformers wrote, or a name on the Hugging Face hub.

    Notes
    -----
    Vectors are those of ``StaticModel.encode`` for a folder whose ``config.json`` names model2vec, and of
    ``SentenceTransformer.encode`` for others; but texts are never padded, as those are by model2vec whose tokenizer was
    saved with padding. model2vec skips unknown tokens and looks at no more than 512 tokens of a text.

    Examples
    --------
    >>> from sylvan.text import StaticEncoder
    >>> StaticEncoder("no/such/folder").load()
    Traceback (most recent call last):
    ...
    sylvan.errors.ModelError: There is no folder 'no/such/folder'.
    """

    source: Annotated[
        str | os.PathLike[str], Instance((str, os.PathLike), "the path of a folder or a name on the Hugging Face hub")
    ]

    _table: StaticTable | None = attribute(None)

    def load(self: _Self) -> _Self:
        """Read the files, unless that has been done; the encoder itself.

        Raises
        ------
        ModelError
            When files are missing, damaged or don't fit together, or a hub's name can't be reached.
        """
        if self._table is None:
            self.check_params()
            self._table = StaticTable.read(find_folder(self.source))
        return self

    @property
    def table(self) -> StaticTable:
        """What the files hold."""
        self.load()
        assert self._table is not None
        return self._table

    @property
    def dim_out(self) -> int:
        """Dimensions of the vectors."""
        return int(self.table.vectors.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        table = self.table
        return sum(array.nbytes for array in (table.vectors, table.mapping, table.weights) if array is not None)

    def encode(
        self, texts: Iterable[str], *, normalize: bool | None = None, description: str = "Encoding texts"
    ) -> npt.NDArray[np.float32]:
        """The vectors of texts.

        Parameters
        ----------
        texts : iterable of str
        normalize : bool, optional
            Whether to bring vectors to length 1; None does what the folder says.
        description : str
            Title of the progress bar.

        Returns
        -------
        ndarray of float32, shape (n, dim_out)
            Zeros for a text without tokens.

        Raises
        ------
        DataError
            When ``texts`` is one string or holds anything but strings.
        ModelError
            When the tokenizer can't read a text.
        """
        table, documents = self.table, as_documents(texts)
        vectors = np.zeros((len(documents), self.dim_out), np.float32)
        with progress(description, len(documents), "texts") as bar:
            for start in range(0, len(documents), _CHUNK):
                some = documents[start : start + _CHUNK]
                vectors[start : start + len(some)] = table.means(table.token_ids(some))
                bar.update(len(some))
        if table.normalizes if normalize is None else normalize:
            lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
            vectors /= np.maximum(lengths, np.finfo(np.float32).tiny)[:, None]
        return vectors

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the files, which ``StaticEncoder``, sentence-transformers and, where they came from it, model2vec read.

        Parameters
        ----------
        folder : path
            Made when it isn't there. Files of the same names are replaced, each at one stroke.

        Raises
        ------
        ModelError
            When the folder can't be written.
        """
        table = self.table
        with written_beside(folder) as place:
            table.save(place)

    def copy(self: _Self) -> _Self:
        """An encoder of its own with the same table."""
        return copy.copy(self)


def need_static(module: str) -> Any:
    """Import a module that static vectors need, or say how to get it."""
    return need_extra("Static vectors need {}", "static", module)


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Whatever a library doesn't accept is a ModelError that begins with ``what``."""
    try:
        yield
    except (SylvanError, ImportError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of tokenizers, in Rust
            raise
        raise ModelError(f"{what}: {reason_of(error)}") from error


def _normalizes(folder: str) -> bool:
    """Whether vectors are normalised, by the steps of a folder of sentence-transformers."""
    steps, path = static_modules(folder) or [], os.path.join(folder, "modules.json")
    kinds = [str(step.get("type") if isinstance(step, dict) else step).rsplit(".", 1)[-1] for step in steps]
    if kinds[1:] not in ([], ["Normalize"]):
        raise ModelError(
            f"{path!r} names the steps {', '.join(kinds)}; behind a StaticEmbedding, Sylvan knows Normalize alone."
        )
    return len(kinds) > 1


def _read_tensors(
    path: str,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64] | None, npt.NDArray[np.float32] | None]:
    """The vectors, the mapping and the weights of a file of tensors."""
    library = need_static("safetensors.numpy")
    with _explained(f"{path!r} can't be read"):
        tensors = library.load_file(path)
    present = [name for name in _TABLES if name in tensors]
    if len(present) != 1:
        raise ModelError(
            f"{path!r} must hold one table of vectors, called {' or '.join(map(repr, _TABLES))}. "
            f"It holds {', '.join(sorted(map(repr, tensors))) or 'nothing'}."
        )
    vectors, mapping, weights = tensors[present[0]], tensors.get("mapping"), tensors.get("weights")

    def need(fits: bool, name: str, wanted: str) -> None:
        if not fits:
            shape, dtype = tensors[name].shape, tensors[name].dtype
            raise ModelError(f"{path!r} is damaged: {name!r} must be {wanted}. It has the shape {shape} of {dtype}.")

    table = f"a matrix of {', '.join(_DTYPES)} with a row and a column at least, of finite values"
    need(vectors.ndim == 2 and vectors.size > 0 and vectors.dtype.name in _DTYPES, present[0], table)
    need(_largest(vectors) <= _LARGEST, present[0], table)
    n_tokens = len(vectors)
    if mapping is not None:
        each = f"one number of a row below {len(vectors)} for each token"
        need(mapping.ndim == 1 and len(mapping) > 0 and mapping.dtype.kind in "iu", "mapping", each)
        need(int(mapping.min()) >= 0 and int(mapping.max()) < len(vectors), "mapping", each)
        mapping, n_tokens = mapping.astype(np.int64), len(mapping)
    if weights is not None:
        each = f"{n_tokens} finite numbers, one for each token"
        need(weights.shape == (n_tokens,) and weights.dtype.kind == "f", "weights", each)
        need(_largest(weights) * max(1.0, _largest(vectors)) <= _LARGEST, "weights", each)
        weights = weights.astype(np.float32)
    return vectors, mapping, weights


def _largest(values: npt.NDArray[Any]) -> float:
    """The largest absolute value; infinity where one isn't finite."""
    low, high = float(values.min()), float(values.max())
    return max(-low, high) if np.isfinite(low) and np.isfinite(high) else np.inf


def _read_tokenizer(path: str) -> tuple[Any, int, int | None, int]:
    """The tokenizer of a file, which pads nothing; its highest id, the id of what it doesn't know, and how many
    characters a token usually has."""
    library = need_static("tokenizers")
    with _explained(f"{path!r} can't be read"):
        with open(path, encoding="utf-8") as file:
            tokenizer = library.Tokenizer.from_str(file.read())
        tokenizer.no_padding()
        ids = tokenizer.get_vocab()
        unknown = ids.get(getattr(tokenizer.model, "unk_token", None))
        tokenizer.encode("a", add_special_tokens=False)
    if not ids:
        raise ModelError(f"{path!r} is damaged: the tokenizer knows no tokens.")
    return tokenizer, max(ids.values()), unknown, int(np.median([len(token) for token in ids]))
