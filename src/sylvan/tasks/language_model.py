"""Language models: which word comes next, over the whole vocabulary; and the texts they learn from."""

from __future__ import annotations

import math
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.data.streams import PathLike, open_read
from sylvan.errors import DataError
from sylvan.neural.sequence import CausalTransformer, LSTMEncoder
from sylvan.params.fields import KW_ONLY, Range, parameterized
from sylvan.params.wording import counted
from sylvan.sampling import Sampler
from sylvan.sampling.tensors import slices
from sylvan.tasks.base import TableOptimizer, Task, context_centers, part_of

END, UNKNOWN = "<eos>", "<unk>"
_NAMES = {"train": ("train",), "validation": ("valid", "validation", "dev"), "test": ("test",)}
_SUFFIXES = (".txt", ".txt.xz", ".txt.gz", ".txt.bz2", ".txt.zst")
_IGNORED = -100
_CELLS = 1 << 24  # scores in memory at once in evaluation
_COLUMNS = 20  # of a text that is evaluated
_BEFORE = 2  # words before a word by which it is likened to others


@dataclass(frozen=True, repr=False)
class Corpus:
    """Word ids of three texts, :data:`END` after every sentence."""

    words: list[str]  # the word of each id, the most frequent first
    train: npt.NDArray[np.int32]
    validation: npt.NDArray[np.int32]
    test: npt.NDArray[np.int32]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(getattr(self, name)):,}" for name in _NAMES)
        return f"Corpus({counted(len(self.words), 'word')}; {sizes} tokens)"

    def counts(self) -> npt.NDArray[np.int64]:
        """How often each word occurs in training, int64 (n_words,)."""
        return np.bincount(self.train, minlength=len(self.words))

    def describe(self) -> dict[str, Any]:
        """Sizes and checksums: enough to tell one corpus from another."""
        results: dict[str, Any] = {"words": len(self.words)}
        for name in _NAMES:
            ids = getattr(self, name)
            results[name] = {"tokens": len(ids), "crc32": f"{zlib.crc32(ids.tobytes()):08x}"}
        return results


def read_corpus(
    train: PathLike,
    validation: PathLike | None = None,
    test: PathLike | None = None,
    *,
    vocabulary: PathLike | None = None,
) -> Corpus:
    """Read three plain texts, a sentence a line, words parted by blanks; gzip, xz, bzip2 and zstd are unpacked.

    Parameters
    ----------
    train : path
        The training text; or, alone, a folder with ``train.txt``, ``valid.txt`` and ``test.txt``, packed or not.
    validation, test : path
    vocabulary : path, optional
        The words to know, one a line; by default those of the training text. Others are read as :data:`UNKNOWN`.

    Raises
    ------
    DataError
        When a file is missing, empty or no UTF-8 text.
    """
    if validation is None and test is None:
        train, validation, test = _in_folder(train)
    if validation is None or test is None:
        raise DataError(
            "A language model needs three texts: to train on, to validate on and to test on, or a folder of them."
        )
    words = None
    if vocabulary is not None:
        words = [word for sentence in _sentences(vocabulary) for word in sentence]
    return build_corpus(_sentences(train), _sentences(validation), _sentences(test), vocabulary=words)


def build_corpus(
    train: Iterable[Sequence[str]],
    validation: Iterable[Sequence[str]],
    test: Iterable[Sequence[str]],
    *,
    vocabulary: Iterable[str] | None = None,
) -> Corpus:
    """A corpus of sentences, each a list of words.

    Parameters
    ----------
    train, validation, test : iterable of sequences of str
    vocabulary : iterable of str, optional
        The words to know; by default those of ``train``. :data:`END` always belongs to them, and :data:`UNKNOWN`
        when another word occurs.

    Raises
    ------
    DataError
        When one of the texts has no word, or a sentence is a string.

    Examples
    --------
    >>> from sylvan.tasks.language_model import build_corpus
    >>> corpus = build_corpus([["a", "b", "a"], ["a"]], [["b", "c"]], [["a"]])
    >>> corpus.words
    ['a', '<eos>', 'b', '<unk>']
    >>> corpus.validation
    array([2, 3, 1], dtype=int32)
    """
    texts = {"train": _stream(train), "validation": _stream(validation), "test": _stream(test)}
    for name, text in texts.items():
        if not text:
            raise DataError(f"The {name} text holds no word.")
    counts = Counter(texts["train"])
    distinct = dict.fromkeys([*vocabulary, END] if vocabulary is not None else counts)
    if any(word not in distinct for text in texts.values() for word in text):
        distinct.setdefault(UNKNOWN)
        counts[UNKNOWN] += sum(count for word, count in counts.items() if word not in distinct)
    words = sorted(distinct, key=lambda word: -counts[word])
    ids = {word: i for i, word in enumerate(words)}
    other = ids.get(UNKNOWN, -1)
    arrays = {name: np.array([ids.get(word, other) for word in text], np.int32) for name, text in texts.items()}
    return Corpus(words, **arrays)


def _stream(sentences: Iterable[Sequence[str]]) -> list[str]:
    words: list[str] = []
    for sentence in sentences:
        if isinstance(sentence, str):
            raise DataError(f"A sentence must be a list of words. Got {sentence!r:.60} instead: split it into words.")
        words += (*sentence, END) if len(sentence) else ()
    return words


def _sentences(path: PathLike) -> Iterator[list[str]]:
    with open_read(path) as stream:
        empty = True
        for number, line in stream.lines():
            try:
                words = line.decode("utf-8").split()
            except UnicodeDecodeError:
                raise DataError(f"{stream.name}, line {number}: the text is not UTF-8.") from None
            if words:
                empty = False
                yield words
        if empty:
            raise DataError(f"{stream.name} is empty: it holds no word.")


def _in_folder(folder: PathLike) -> tuple[str, str, str]:
    path = os.fspath(folder)
    if not os.path.isdir(path):
        raise DataError(
            f"{path!r} is no folder: give the texts to train on, to validate on and to test on, or a folder."
        )
    results, packed = [], ", ".join(_SUFFIXES[1:])
    for part, names in _NAMES.items():
        places = (os.path.join(path, name + suffix) for name in names for suffix in _SUFFIXES)
        place = next(filter(os.path.isfile, places), "")
        if not place:
            raise DataError(f"The folder {path!r} holds no {names[0]}.txt (or {packed}): the {part} text.")
        results.append(place)
    return results[0], results[1], results[2]


@parameterized
class LanguageModel(Task):
    """Train an LSTM or a Transformer to predict the next word, with any sampler and loss.

    By default the 1,000 most frequent words are scored exactly, and a batch shares 1,000 draws of the others, by
    frequency; ``sampler="midx-aware-rq", shared=False`` draws for each word what is near its context.

    Give it to :func:`sylvan.neural.train`. The LSTM reads ``batch_size`` columns of the training text from top to
    bottom and carries its state along; the Transformer takes windows of ``length`` words in a new order each
    epoch. Adam trains the encoder's layers; the embeddings and the class table, which have no bias, have an optimiser
    of their own.

    Parameters
    ----------
    corpus : Corpus
        From :func:`sylvan.tasks.read_corpus`.
    model : {"lstm", "transformer"}
    embedding : int
        Dimensions of words' embeddings, and of all the Transformer's layers.
    hidden : int
        Dimensions of the LSTM's layers and of its class table; not looked at by the Transformer.
    n_layers, n_heads, feed_forward : int
    length, batch_size : int
        Words of a sequence, and sequences of a batch.
    n_samples : int, optional
        Negatives for each word, or for all words of a batch where ``shared``; candidates of "cane" and "beam-tree". By
        default 1,000 for a batch, 20 for each word where ``loss`` is given or ``shared`` is False, and at most half of
        the words.
    learning_rate, embedding_learning_rate, table_learning_rate : float
        Of Adam on the encoder's layers, and of ``optimizer`` on the embeddings and on the class table, whose rate is by
        default 0.4 with an LSTM and 0.05 with a Transformer, as its queries are longer. Samplers far from the softmax
        want a smaller one.

    Attributes
    ----------
    encoder_ : LSTMEncoder or CausalTransformer
    table_ : nn.Parameter, shape (n_words, dim)
        Of a head its edges' weights, (n_edges, dim).

    Notes
    -----
    The measure is perplexity over the whole vocabulary, ``exp`` of the mean of ``-log p(word)`` under the full softmax;
    every word and every end of a sentence counts. The LSTM reads the text in 20 columns, its state carried along; the
    Transformer sees the words before in windows of ``length`` side by side. The two words before make a word's place in
    a tree by k-means, which ``loss_parameters`` choose for the head "beam-tree".

    References
    ----------
    Chen and others: Adaptive sampled softmax with inverted multi-index. Section 6.2.

    Examples
    --------
    >>> from sylvan.neural import train
    >>> from sylvan.tasks import LanguageModel
    >>> from sylvan.tasks.language_model import build_corpus
    >>> text = [["the", "cat", "sat"], ["the", "dog", "ran"]] * 40
    >>> corpus = build_corpus(text, text[:4], text[:4])
    >>> job = LanguageModel(corpus, sampler="uniform", n_samples=3, embedding=8, hidden=8, length=5, batch_size=4)
    >>> history = train(job, epochs=10)
    >>> history.test["perplexity"] < 3
    True
    """

    corpus: Corpus
    _: KW_ONLY
    model: Literal["lstm", "transformer"] = "lstm"
    embedding: Annotated[int, Range(1)] = 200
    hidden: Annotated[int, Range(1)] = 128
    n_layers: Annotated[int, Range(1)] = 2
    n_heads: Annotated[int, Range(1)] = 4
    feed_forward: Annotated[int, Range(1)] = 1024
    length: Annotated[int, Range(1)] = 35
    batch_size: int = 20
    sampler: str | Sampler = "unigram"
    codewords: int = 32
    optimizer: TableOptimizer = "adagrad"
    learning_rate: float = 0.002
    embedding_learning_rate: Annotated[float, Range(0, open_low=True)] = 0.4

    metric = "perplexity"
    larger_is_better = False
    usual_negatives = 20
    usual_shared = 1000
    data_names = ("corpus", "device")

    def _prepare(self) -> None:
        self.usual_table_rate = 0.4 if self.model == "lstm" else 0.05
        n_words = len(self.corpus.words)
        self.encoder_ = self._make_encoder(n_words)
        dim = self.encoder_.dim_out
        table = nn.Parameter(torch.randn(n_words, dim) * dim**-0.5)
        self.make_objective(n_words, dim, self.corpus.counts(), self._contexts)
        self.table_ = self.make_module(self.encoder_, "table", table)
        words = cast(nn.Parameter, self.encoder_.inputs.weight)
        inner = [parameter for parameter in self.encoder_.parameters() if parameter is not words]
        self.make_optimizers(inner, [(words, self.embedding_learning_rate)], self.table_)
        first = np.int32(self.corpus.words.index(END))
        stream = np.concatenate([[first], self.corpus.train])  # every word is predicted from the one before
        self._stream = torch.from_numpy(stream.astype(np.int64)).to(self.device)
        self._state: tuple[Tensor, Tensor] | None = None

    def _contexts(self) -> np.ndarray[Any, Any]:
        """What words are like by those before them, for a tree by k-means."""
        ids = self.corpus.train
        padded = np.concatenate([np.full(_BEFORE, -1), ids])
        before = np.stack([padded[_BEFORE - gap :][: len(ids)] for gap in range(1, _BEFORE + 1)], axis=1)
        return context_centers(before, ids, len(self.corpus.words))

    def _make_encoder(self, n_words: int) -> LSTMEncoder | CausalTransformer:
        if self.model == "lstm":
            return LSTMEncoder(n_words, self.embedding, self.hidden, self.n_layers, self.dropout, sparse=True)
        return CausalTransformer(
            n_words, self.embedding, self.n_heads, self.n_layers, self.feed_forward, self.length, self.dropout,
            sparse=True,
        )  # fmt: skip

    # What the training loop asks.

    def steps_per_epoch(self) -> int:
        return (len(self._stream) - 1) // (self.batch_size * self.length)

    def batches(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        self._state = None
        if self.model == "lstm":
            size = (len(self._stream) - 1) // self.batch_size  # columns that follow on one another; the rest is dropped
            last = size * self.batch_size
            inputs, targets = (self._stream[i : last + i].view(self.batch_size, size) for i in (0, 1))
            for start in range(0, self.steps_per_epoch() * self.length, self.length):
                yield inputs[:, start : start + self.length], targets[:, start : start + self.length]
            return
        places = torch.arange(self.length + 1, device=self._stream.device)
        windows = self.shuffled((len(self._stream) - 1) // self.length, epoch)
        for rows in islice(windows, self.steps_per_epoch()):
            first = torch.from_numpy(rows).to(self._stream.device).unsqueeze(1) * self.length
            window = self._stream[first + places]
            yield window[:, :-1], window[:, 1:]

    def step(self, batch: tuple[Tensor, Tensor], step: int) -> Tensor:
        loss: Tensor = self._objective(self._encode(batch[0]), self.table_, batch[1], step)
        return loss

    def _encode(self, inputs: Tensor) -> Tensor:
        """Queries for a batch; the LSTM's state is carried over, the gradient isn't."""
        if isinstance(self.encoder_, CausalTransformer):
            queries: Tensor = self.encoder_(inputs)
            return queries
        queries, (hidden, cell) = self.encoder_(inputs, self._state)
        self._state = hidden.detach(), cell.detach()
        return queries

    def state(self) -> dict[str, Any]:
        return {"lstm": self._state}

    def load_state(self, state: dict[str, Any]) -> None:
        carried = state["lstm"]
        self._state = None if carried is None else (carried[0].to(self.device), carried[1].to(self.device))

    def settings(self) -> dict[str, Any]:
        return {"task": "language-model", "data": self.corpus.describe(), **self.plain_settings()}

    # Evaluation.

    @torch.no_grad()
    def evaluate(self, split: str) -> dict[str, float]:
        ids = {"validation": self.corpus.validation, "test": self.corpus.test}[part_of(split)]
        self.module.eval()  # for those who ask outside of a training, too
        carried, self._state = self._state, None
        total = torch.zeros((), dtype=torch.float64, device=self._stream.device)
        table = self._objective.output_embeddings(self.table_)
        for inputs, targets in self._in_order(ids):
            queries, wanted = self._encode(inputs).flatten(0, 1), targets.flatten()
            total += sum(
                F.cross_entropy(
                    (queries[rows] @ table.t()).float(), wanted[rows], ignore_index=_IGNORED, reduction="sum"
                ).double()
                for rows in slices(len(queries), len(table), _CELLS)
            )
        self._state = carried
        mean = float(total) / len(ids)
        return {"perplexity": math.exp(mean) if mean < 700 else math.inf}

    def _in_order(self, ids: np.ndarray[Any, Any]) -> Iterator[tuple[Tensor, Tensor]]:
        """All words of a text, each once: columns for the LSTM, windows for the Transformer, with padding ignored."""
        first = self.corpus.words.index(END)
        rows = -(-len(ids) // self.length) if self.model == "transformer" else min(_COLUMNS, len(ids))
        size = -(-len(ids) // rows)
        inputs = np.full(rows * size, first, np.int64)
        targets = np.full(rows * size, _IGNORED, np.int64)
        inputs[1 : len(ids)], targets[: len(ids)] = ids[:-1], ids
        batches = [torch.from_numpy(array.reshape(rows, size)).to(self.device) for array in (inputs, targets)]
        size, dim = (_COLUMNS, 0) if self.model == "transformer" else (self.length, 1)
        return zip(*(torch.split(part, size, dim) for part in batches), strict=True)

    @torch.no_grad()
    def log_probabilities(self, sentence: list[str]) -> Tensor:
        """Log-probability of each word of a sentence and of its end, float32 (n + 1,), read from the beginning.

        Raises
        ------
        DataError
            When a word isn't known, the sentence isn't a list of words, or it is longer than a Transformer's windows.
        """
        if isinstance(sentence, str):
            raise DataError(f"log_probabilities takes a list of words. Got {sentence!r} instead: split it into words.")
        ids = {word: i for i, word in enumerate(self.corpus.words)}
        for word in sentence:
            if word not in ids:
                raise DataError(f"The language model doesn't know the word {word!r}.")
        if self.model == "transformer" and len(sentence) >= self.length:
            raise DataError(f"This model reads fewer words than length={self.length}. Got {len(sentence)} instead.")
        wanted = torch.tensor([[ids[word] for word in (*sentence, END)]], device=self.device)
        inputs = F.pad(wanted[:, :-1], (1, 0), value=ids[END])
        self.module.eval()
        carried, self._state = self._state, None
        queries = self._encode(inputs)[0]
        self._state = carried
        table = self._objective.output_embeddings(self.table_)
        return (queries @ table.t()).float().log_softmax(1).gather(1, wanted.t()).squeeze(1)
