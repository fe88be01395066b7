"""Texts to vectors without a pretrained network: the sum of vectors of hashed words and pairs of words."""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan import store
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError
from sylvan.labels.vocabulary import composed
from sylvan.neural.text.encoder_files import read_tensors, tensor_bytes
from sylvan.neural.text.text_encoder import TextEncoder, TokenRows, as_tensor, checksum_of_tensors
from sylvan.params.fields import KW_ONLY, Instance, Parameterized, Range, attribute, parameterized
from sylvan.text import TfidfVectorizer
from sylvan.text.characters import scan_words, without_unseen
from sylvan.text.counting import as_documents
from sylvan.text.encoder_folders import read_json, reason_of, written_beside

MODEL_TYPE = "sylvan-bag"
_FORMAT = 2
# The words of the first format, which encoders that have it keep: marks end them, and a Han or kana character is one.
_CJK = "[\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001aff0-\U0001b16f\U00020000-\U0003ffff]"
_WORDS = re.compile(rf"{_CJK}|\w+?(?={_CJK})|\w+")
_CHUNK = 10_000
_MIX = np.uint64(0x9E3779B97F4A7C15)


@parameterized
class BagEncoder(Parameterized, nn.Module):
    """A linear map of sparse rows, or with ``hidden`` a net of one hidden layer with ReLU.

    Only vectors of features that a batch holds are touched. A constant is added to every query, through which classes
    can be frequent or rare whatever the features.

    Parameters
    ----------
    n_features : int
    dim : int
        Dimensions of queries.
    hidden : int, optional
        Width of the hidden layer: the features' vectors then have this width, and a linear map of the rectified sum
        gives the query. Without it the sum is the query.
    dropout : float in [0, 1]
        Of the sum.

    Attributes
    ----------
    features : Parameter of shape (n_features, dim) or (n_features, hidden)
        Its gradient is sparse.

    References
    ----------
    Rawat, Chen, Yu, Suresh, Kumar: Sampled softmax with random Fourier features. NeurIPS 2019.

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural import BagEncoder
    >>> encoder = BagEncoder(1000, 8)
    >>> ids, offsets, values = torch.tensor([3, 17, 5]), torch.tensor([0, 2, 3]), torch.tensor([0.5, 0.5, 1.0])
    >>> encoder(ids, offsets, values).shape
    torch.Size([2, 8])
    """

    n_features: Annotated[int, Range(1)]
    dim: Annotated[int, Range(1)] = 128
    _: KW_ONLY
    hidden: Annotated[int | None, Range(1)] = None
    dropout: Annotated[float, Range(0, 1)] = 0.0

    def __post_init__(self) -> None:
        self.check_params()
        width = self.dim if self.hidden is None else self.hidden
        self.features = nn.Parameter(torch.randn(self.n_features, width) * 0.1)
        self.constant = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self._drop = nn.Dropout(self.dropout)
        self._map = None if self.hidden is None else nn.Linear(self.hidden, self.dim)

    def tables(self) -> list[nn.Parameter]:
        """The features' vectors, which want an optimiser for sparse gradients."""
        return [self.features]

    def inner_parameters(self) -> list[nn.Parameter]:
        """All other parameters."""
        return [parameter for parameter in self.parameters() if parameter is not self.features]

    def forward(self, ids: Tensor, offsets: Tensor, values: Tensor) -> Tensor:
        """Queries of rows in compressed form.

        Parameters
        ----------
        ids : Tensor of int64, shape (nnz,)
            Features, row after row.
        offsets : Tensor of int64, shape (n + 1,)
            Where each row begins, and where the last ends.
        values : Tensor of float, shape (nnz,)

        Returns
        -------
        Tensor of float, shape (n, dim)

        Raises
        ------
        DataError
            When the shapes don't fit together.
        """
        if ids.dim() != 1 or values.shape != ids.shape or offsets.dim() != 1 or len(offsets) < 1:
            raise DataError(
                "BagEncoder needs ids and values of one shape (nnz,), and offsets of the shape (n + 1,). Got "
                f"{tuple(ids.shape)}, {tuple(values.shape)} and {tuple(offsets.shape)} instead."
            )
        summed: Tensor = F.embedding_bag(
            ids, self.features, offsets, mode="sum", sparse=True, per_sample_weights=values, include_last_offset=True
        )
        queries: Tensor = self._drop(summed + self.constant)
        if self._map is not None:
            queries = self._map(F.relu(queries))
        return queries


@parameterized
class BagTextEncoder(TextEncoder):
    """The sum of vectors of a text's words and pairs of neighbouring words, or of a vectoriser's terms.

    Learns from nothing, needs no file, and encodes some ten thousand texts a second: for tests, for machines without
    weights, and as the floor that a pretrained encoder has to rise above.

    Parameters
    ----------
    dim : int
        Dimensions of the vectors.
    n_buckets : int
        Words and pairs are hashed into so many features; where two fall together they share a vector.
    vectorizer : TfidfVectorizer, optional
        A fitted one, whose columns are then the features instead of hashed words.
    hidden : int, optional
        Width of a hidden layer; without it vectors are a linear map of the features.
    dropout : float in [0, 1]
        Of the sum.
    max_length : int
        The most words of a text that are hashed. A vectoriser looks at whole texts.
    frozen : bool
        Whether the weights stay as they are in a training.
    seed : int
        Of the weights that a training begins with.

    Notes
    -----
    A text without any word is a bag with nothing in it: its vector is the constant that is added to all.

    Examples
    --------
    >>> from sylvan.neural import BagTextEncoder
    >>> encoder = BagTextEncoder(dim=8, n_buckets=1000)
    >>> rows = encoder.tokenize(["whales in the south seas", "whales"])
    >>> rows.lengths.tolist(), encoder(encoder.collate(rows)).shape
    ([9, 1], torch.Size([2, 8]))
    """

    dim: Annotated[int, Range(1)] = 128
    n_buckets: Annotated[int, Range(1, 2**31 - 1)] = 2**18
    vectorizer: Annotated[TfidfVectorizer | None, Instance(words="a fitted TfidfVectorizer")] = None
    hidden: Annotated[int | None, Range(1)] = None
    dropout: Annotated[float, Range(0, 1)] = 0.0
    max_length: Annotated[int, Range(1)] = 1024
    frozen: bool = False
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0

    _format: int = attribute(_FORMAT)
    _weights: Mapping[str, Tensor] | None = attribute(None)  # of a folder, until they are loaded

    def _load(self) -> None:
        n_features = self.n_buckets
        if self.vectorizer is not None:
            try:
                n_features = self.vectorizer.n_terms_
            except NotFittedError:
                raise ParameterError(
                    "The 'vectorizer' parameter of BagTextEncoder must be a fitted TfidfVectorizer. Call its fit first."
                ) from None
        weights, self._weights = self._weights, None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            # To draw a table that is written over takes longer than to read one.
            n_drawn = n_features if weights is None else 1
            self.bag = BagEncoder(n_drawn, self.dim, hidden=self.hidden, dropout=self.dropout)
        if weights is not None:
            self.bag.n_features, self.bag.features = n_features, nn.Parameter(torch.empty_like(weights["features"]))
            self.bag.load_state_dict(weights)
        self.bag.requires_grad_(not self.frozen)

    @property
    def dim_out(self) -> int:
        return self.dim

    # ------------------------------------------------------------------------------------ texts to vectors

    def tokenize(self, texts: Iterable[str]) -> TokenRows:
        self.load()
        documents = as_documents(texts)
        self.n_truncated = 0
        if self.vectorizer is not None:
            terms = self.vectorizer.transform_rows(documents)
            return TokenRows(terms.indices, terms.indptr, terms.data)
        hashes: dict[str, int] = {}
        return TokenRows.join(
            [self._hashed(documents[i : i + _CHUNK], hashes) for i in range(0, len(documents), _CHUNK)]
        )

    def _hashed(self, documents: tuple[str, ...], hashes: dict[str, int]) -> TokenRows:
        """Buckets of words and pairs, each text's rising, with 1 + log(count) brought to length 1."""
        words: list[int] = []
        lengths = np.zeros(len(documents), dtype=np.int64)
        for i, document in enumerate(documents):
            if self._format == 1:
                terms = _WORDS.findall(document.lower())
            else:
                scanned = scan_words((document,))
                distinct = [
                    without_unseen(composed(word.decode("utf-8", "surrogatepass"))) for word in scanned.distinct
                ]
                terms = [distinct[number] for number in scanned.words.tolist()]
            if len(terms) > self.max_length:
                self.n_truncated += 1
                terms = terms[: self.max_length]
            lengths[i] = len(terms)
            for word in terms:
                if (number := hashes.get(word)) is None:
                    number = hashes[word] = zlib.crc32(word.encode("utf-8", "surrogatepass"))
                words.append(number)
        single = np.asarray(words, dtype=np.uint64)
        row = np.repeat(np.arange(len(documents)), lengths)
        neighbours = row[:-1] == row[1:]
        pairs = single[:-1][neighbours] * np.uint64(31) + single[1:][neighbours] + np.uint64(1 << 40)
        # Every bit spread over all bits: Fibonacci hashing, and the high half folded into the low.
        with np.errstate(over="ignore"):
            spread: npt.NDArray[np.uint64] = np.concatenate([single, pairs]) * _MIX
        buckets = ((spread ^ (spread >> np.uint64(32))) % np.uint64(self.n_buckets)).astype(np.int64)
        rows = np.concatenate([row, row[:-1][neighbours]])
        keys, counts = np.unique(rows * self.n_buckets + buckets, return_counts=True)
        owner, ids = keys // self.n_buckets, keys % self.n_buckets
        values = 1 + np.log(counts)
        values /= np.sqrt(np.bincount(owner, values**2, len(documents)))[owner]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(documents)))])
        return TokenRows(ids.astype(np.int32), offsets.astype(np.int64), values.astype(np.float32))

    def collate(self, rows: TokenRows) -> dict[str, Tensor]:
        values = np.ones(len(rows.ids), dtype=np.float32) if rows.values is None else rows.values
        return {
            "ids": as_tensor(rows.ids.astype(np.int64)),
            "offsets": as_tensor(rows.offsets),
            "values": as_tensor(values),
        }

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        self.load()
        vectors: Tensor = self.bag(batch["ids"], batch["offsets"], batch["values"])
        return vectors.float()

    def tables(self) -> list[nn.Parameter]:
        self.load()
        return [] if self.frozen else self.bag.tables()

    # ------------------------------------------------------------------------------------ files

    def identity(self) -> dict[str, Any]:
        self.load()
        weights = self._of_weights(lambda: checksum_of_tensors(self.bag.state_dict().items()))
        identity: dict[str, Any] = {"kind": MODEL_TYPE, "dim": self.dim, "weights": weights}
        if self.vectorizer is None:
            words = {} if self._format == 1 else {"format": self._format}
            return {**identity, "n_buckets": self.n_buckets, "max_length": self.max_length, **words}
        state = self.vectorizer.to_state()
        checksum = checksum_of_tensors((name, as_tensor(array)) for name, array in state.arrays.items())
        return {**identity, "vectorizer": f"{checksum}:{json.dumps(state.params, sort_keys=True, default=list)}"}

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        self.load()
        names = ("dim", "n_buckets", "hidden", "dropout", "max_length", "frozen", "seed")
        config: dict[str, Any] = {"model_type": MODEL_TYPE, "format": self._format}
        values = ((name, getattr(self, name)) for name in names)
        config |= {name: value.item() if isinstance(value, np.generic) else value for name, value in values}
        config["vectorizer"] = self.vectorizer is not None
        with written_beside(folder) as place:
            with open(os.path.join(place, "model.safetensors"), "wb") as weights:
                weights.write(tensor_bytes(self.bag.state_dict()))
            with open(os.path.join(place, "config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file, indent=2)
            if self.vectorizer is not None:
                store.save(os.path.join(place, "vectorizer"), self.vectorizer.to_state())

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str], **changes: Any) -> BagTextEncoder:
        """The encoder that :meth:`save_pretrained` wrote.

        Parameters
        ----------
        folder : path
        **changes
            ``max_length``, ``dropout`` or ``frozen``, where these are to be others.

        Raises
        ------
        ModelError
            When files are missing or damaged.
        """
        path = os.fspath(folder)
        config = read_json(os.path.join(path, "config.json"))
        if config.pop("model_type", None) != MODEL_TYPE or (format_ := config.pop("format", None)) not in (1, _FORMAT):
            raise ModelError(f"{path!r} holds no BagTextEncoder that this release of Sylvan reads.")
        vectorizer = None
        if config.pop("vectorizer", False):
            vectorizer = TfidfVectorizer.from_state(store.load(os.path.join(path, "vectorizer")))
        try:
            encoder = cls(**{**config, **changes}, vectorizer=vectorizer)
            encoder._format, encoder._weights = format_, read_tensors(path)
            _check_shapes(encoder, encoder._weights)
            encoder.load()
        except (TypeError, ParameterError, RuntimeError) as error:
            raise ModelError(f"The encoder in {path!r} is damaged: {reason_of(error)}") from error
        return encoder


def _check_shapes(encoder: BagTextEncoder, weights: Mapping[str, Tensor]) -> None:
    """Compare the settings with the weights before a table is made that a false number would make huge."""
    encoder.check_params()
    n_features = encoder.n_buckets if encoder.vectorizer is None else encoder.vectorizer.n_terms_
    width = encoder.dim if encoder.hidden is None else encoder.hidden
    wanted: dict[str, tuple[int, ...]] = {"features": (n_features, width), "constant": (width,)}
    if encoder.hidden is not None:
        wanted |= {"_map.weight": (encoder.dim, width), "_map.bias": (encoder.dim,)}
    if (shapes := {name: tuple(tensor.shape) for name, tensor in weights.items()}) != wanted:
        raise ParameterError(f"its settings ask for weights of the shapes {wanted}, and they have {shapes}.")
    if not all(bool(torch.isfinite(torch.stack(torch.aminmax(tensor))).all()) for tensor in weights.values()):
        raise ParameterError("its weights are not finite.")
