"""What XRTransformer and XTransformer share: texts to TF-IDF and an encoder's vectors, ranked by linear rankers."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.errors import ModelError, ParameterError
from sylvan.explain.dense import MEANING, gathered
from sylvan.explain.explanation import Explanation
from sylvan.indexing import LabelTree
from sylvan.models.base import Estimator
from sylvan.models.ensembles.ensemble import Ensemble
from sylvan.models.text_estimator import TextEstimator, check_texts
from sylvan.models.transformer import state as transformer_state
from sylvan.models.transformer.features import dense_features, features_of
from sylvan.models.transformer.held_encoder import HeldEncoder
from sylvan.models.transformer.kept_parts import KeptParts
from sylvan.models.transformer.presets import CONSTRAINTS
from sylvan.models.transformer.training import TransformerTraining
from sylvan.models.transformer.words import spoken_of
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.parallel import resolve_jobs
from sylvan.params import Constraint
from sylvan.runtime.checkpoint import Checkpoint
from sylvan.runtime.plan import Plan
from sylvan.text import TfidfVectorizer
from sylvan.validate import Csr

if TYPE_CHECKING:
    from sylvan.models.transformer.matcher import DeepMatcher
    from sylvan.neural.text.text_encoder import TextEncoder

__all__ = ["TransformerEstimator"]

_Self = TypeVar("_Self", bound="TransformerEstimator")
_opening = threading.RLock()  # not a model's own: locks can't be copied
_AT_RANKING = ("beam", "combine", "tail", "n_jobs")  # parameters that count whenever they are changed


class TransformerEstimator(TextEstimator):
    """Base of the models with a text encoder; a concrete one says which layers of which tree it is fine-tuned on."""

    constraints: ClassVar[Mapping[str, Constraint]] = CONSTRAINTS
    kind: ClassVar[str]
    _own_trees: ClassVar[bool] = False  # whether the rankers' trees are their own, not the one that the encoder learns

    vectorizer_: TfidfVectorizer
    ranker_: XRLinear
    history_: list[dict[str, Any]]
    n_dense_: int
    dense_scale_: float
    _encoder: TextEncoder | None
    _as_fitted: dict[str, Any]
    _held: HeldEncoder | None

    def __init__(
        self,
        encoder: str | os.PathLike[str] | TextEncoder | None = None,
        preset: str = "base",
        vectorizer: TfidfVectorizer | None = None,
        ranker: XRLinear | None = None,
        frozen: bool = False,
        max_length: int | None = None,
        pooling: str | None = None,
        lora_rank: int | None = None,
        gradient_checkpointing: bool = False,
        max_nodes: int = 32768,
        learning_rate: float | None = None,
        row_learning_rate: float | None = None,
        label_learning_rate: float | None = None,
        batch_size: int | None = None,
        epochs: float | Sequence[float] | None = None,
        max_steps: int | Sequence[int] | None = None,
        warmup: float | None = None,
        deep_beam: int | None = None,
        relevance: str | None = None,
        negative_cost: float | None = None,
        bootstrap: bool = True,
        refresh: int | None = None,
        held_out: int | None = None,
        patience: int | None = None,
        dense_scale: float | None = None,
        branching: int | None = None,
        max_leaf: int | None = None,
        embedding: str | None = None,
        n_trees: int | None = None,
        beam: int | None = None,
        negatives: str | list[str] | None = None,
        combine: str | list[str] | None = None,
        threshold: float | None = None,
        tail: str | None = None,
        calibration: str | None = None,
        device: str = "auto",
        precision: str = "auto",
        accumulate: int = 1,
        cache: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        seed: int = 0,
    ) -> None:
        self.encoder = encoder
        self.preset = preset
        self.vectorizer = vectorizer
        self.ranker = ranker
        self.frozen = frozen
        self.max_length = max_length
        self.pooling = pooling
        self.lora_rank = lora_rank
        self.gradient_checkpointing = gradient_checkpointing
        self.max_nodes = max_nodes
        self.learning_rate = learning_rate
        self.row_learning_rate = row_learning_rate
        self.label_learning_rate = label_learning_rate
        self.batch_size = batch_size
        self.epochs = epochs
        self.max_steps = max_steps
        self.warmup = warmup
        self.deep_beam = deep_beam
        self.relevance = relevance
        self.negative_cost = negative_cost
        self.bootstrap = bootstrap
        self.refresh = refresh
        self.held_out = held_out
        self.patience = patience
        self.dense_scale = dense_scale
        self.branching = branching
        self.max_leaf = max_leaf
        self.embedding = embedding
        self.n_trees = n_trees
        self.beam = beam
        self.negatives = negatives
        self.combine = combine
        self.threshold = threshold
        self.tail = tail
        self.calibration = calibration
        self.device = device
        self.precision = precision
        self.accumulate = accumulate
        self.cache = cache
        self.n_jobs = n_jobs
        self.seed = seed

    # ---------------------------------------- what the concrete ones decide

    def _shaped(self, tree: LabelTree) -> LabelTree:
        """The tree that labels are found by, of the one that the index gives."""
        return tree

    def _trained_layers(self, tree: LabelTree) -> list[int]:
        """The layers of that tree that the encoder is fine-tuned on, from coarse to fine."""
        raise TypeError(f"{type(self).__name__} is abstract: it trains nothing.")

    def _planned_sizes(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of those layers, of all layers' sizes, before there is a tree."""
        raise TypeError(f"{type(self).__name__} is abstract: it trains nothing.")

    def _ranked(
        self, training: TransformerTraining, tree: LabelTree | None, features: Csr, matcher: DeepMatcher | None,
        scale: float, kept: KeptParts, force: bool,
    ) -> XRLinear:  # fmt: skip
        """The fitted ranker over the features of texts, in which the encoder's vectors have the length ``scale``.

        ``tree`` is the one that the encoder has learned; None where it has learned none, and rankers have their own.
        """
        raise TypeError(f"{type(self).__name__} is abstract: it trains nothing.")

    # ---------------------------------------- training

    def fit(  # texts and label lists are what X and Y are here
        self: _Self,
        texts: Iterable[str],
        label_lists: Any,
        sample_weight: Any = None,
        *,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        force: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> _Self:
        """Learn from texts and their labels: the index, the encoder layer by layer, and the rankers.

        Parameters
        ----------
        texts : iterable of str, length n
        label_lists : sequence of length n
            Each text's labels: a list of strings, or of pairs (name, relevance above 0). One string a text is
            allowed too. A matrix of shape (n, L) or lists of ints are label ids, named by their numbers.
        sample_weight : array-like of shape (n,), optional
            The weight of each text, to the encoder and to the rankers.
        checkpoint : path or Checkpoint, optional
            A folder for the layers that are done, from which the same call goes on after an interruption, to the same
            bits. A path is removed when ``fit`` is done.
        force : bool, default False
            Train even where the machine hasn't got the memory.
        report : callable, optional
            Told, before anything is learned, what memory the encoder will take, as one line; ``print`` will do.

        Raises
        ------
        ImportError
            When PyTorch, or what the encoder needs, isn't installed.
        DataError
            For texts or labels of another type, not as many of the one as of the other, or nothing to learn from.
        ParameterError
            When a parameter is out of its range, or a learning rate so high that the training diverges.
        ModelError
            When the encoder can't be opened, or ``checkpoint`` is another training's or can't be written.
        MemoryLimitError
            When the machine clearly has too little memory, or there was too little on the way; with what to lower.
        """
        training = TransformerTraining(self, texts, label_lists, sample_weight)
        with spoken_of(self):
            learned = training.run(checkpoint, force, report)
        self.vectorizer_, self._encoder, self._held = learned.vectorizer, learned.encoder, None
        self.ranker_, self.history_ = learned.ranker, learned.history
        self.n_dense_, self.dense_scale_ = learned.n_dense, learned.dense_scale
        self._join(learned.vocabulary)
        return self

    def _join(self, vocabulary: Any) -> None:
        ranker = self.ranker_
        self._as_fitted = {name: getattr(ranker, name) for name in _AT_RANKING}
        self.vocabulary_, self.calibrator_ = vocabulary, ranker.calibrator_
        self.n_rows_, self.label_counts_ = ranker.n_rows_, ranker.label_counts_
        self.n_features_, self.n_labels_ = ranker.n_features_, ranker.n_labels_

    def plan(self, texts: Iterable[str], label_lists: Any, sample_weight: Any = None) -> Plan:
        """What ``fit`` with the same arguments would take: time, memory and the size of the model.

        Features and tree are made as ``fit`` makes them; a few texts go through the encoder, from which the time of
        its training is estimated. Nothing of this object changes. Parameters and errors as in :meth:`fit`.

        Returns
        -------
        Plan
            Its phases name the encoder, its training (with the vectors of the largest layer's nodes and what the
            optimiser keeps of them), the embeddings and the rankers. What a GPU holds counts as the machine's memory
            where there is none.
        """
        training = TransformerTraining(self, texts, label_lists, sample_weight)
        with spoken_of(self):
            return training.plan()

    # ---------------------------------------- asking

    @property
    def encoder_(self) -> TextEncoder:
        """The encoder, fine-tuned unless it was frozen; of a loaded model, read when it is first asked for.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        ModelError
            When its files were altered, or its vectors aren't those that the rankers have learned from.
        """
        self._need_fit("encoder_")
        with _opening:
            if self._encoder is None:
                assert self._held is not None
                self._encoder = self._opened(self._held)
            return self._encoder

    def _opened(self, held: HeldEncoder) -> TextEncoder:
        found = held.open()
        if found.dim_out != self.n_dense_:
            raise ModelError(
                f"The {self.kind} is damaged: its encoder's vectors have {found.dim_out} dimensions, but its rankers "
                f"have learned from {self.n_dense_}."
            )
        return found

    @property
    def tree_(self) -> LabelTree:
        """The tree over the labels; of several, the first."""
        self._need_fit("tree_")
        return self.ranker_.tree_

    def embed(self, texts: Iterable[str]) -> npt.NDArray[np.float32]:
        """The encoder's vectors of texts, of length 1.

        Parameters
        ----------
        texts : iterable of str, length n

        Returns
        -------
        ndarray of float32, shape (n, n_dense_)

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            When ``texts`` is anything but strings.
        """
        self._need_fit("embed")
        return dense_features(self, self.encoder_, check_texts(texts, type(self).__name__))

    def inner(self) -> Estimator:
        """The linear rankers, with what was set since they were trained."""
        resolve_jobs(self.n_jobs)
        for name in _AT_RANKING:
            value = getattr(self, name)
            if value is None and name != "n_jobs":
                value = self._as_fitted[name]
            if getattr(self.ranker_, name) != value:
                self.check_params([name])
                setattr(self.ranker_, name, value)
        return self.ranker_

    def _ranker_as_fitted(self) -> XRLinear:
        """The rankers without what was set since they were trained."""
        made = copy.copy(self.ranker_)
        for name, value in self._as_fitted.items():
            setattr(made, name, value)
        return made

    def _text_features(self, texts: list[str]) -> Csr:
        if self.vectorizer_.n_jobs != self.n_jobs:
            self.vectorizer_.n_jobs = self.n_jobs
        return features_of(self, self.vectorizer_.transform_rows(texts), lambda: self.encoder_, texts)

    def _feature_name(self, column: int) -> str:
        n_terms = self.vectorizer_.n_terms_
        return self.vectorizer_.term(column) if column < n_terms else MEANING

    def explain(self, text: str | list[str], label: str | int, top: int = 10, **options: Any) -> Explanation:  # type: ignore[override]
        """Why the model gives ``label`` to a text: words by name, and all of the encoder's dimensions as one entry.

        Parameters, result and errors as in :meth:`TextModel.explain`.
        """
        self._need_fit("explain")
        return gathered(super().explain(text, label, 10_000, **options), top, self.vectorizer_.n_terms_)

    # ---------------------------------------- several

    @classmethod
    def ensemble(cls, encoders: Sequence[Any], seeds: Sequence[int] = (0,), **params: Any) -> Ensemble:
        """An ensemble of one model for each encoder and each seed, to be fitted.

        Parameters
        ----------
        encoders : sequence of str, path or TextEncoder
        seeds : sequence of int
            Each also makes another tree.
        **params
            Others of the class, the same for all.

        Returns
        -------
        Ensemble
            Of ``len(encoders) * len(seeds)`` members, whose probabilities are averaged.

        Raises
        ------
        ParameterError
            When ``encoders`` is one encoder.
        """
        if isinstance(encoders, (str, os.PathLike)) or hasattr(encoders, "tokenize"):
            raise ParameterError(
                "The 'encoders' parameter of ensemble must be a list of encoders. Got "
                f"{encoders!r} instead: put it into a list."
            )
        members = [cls(encoder, seed=seed, **params) for encoder in encoders for seed in seeds]
        return Ensemble(members, n_jobs=params.get("n_jobs"))

    # ---------------------------------------- copies and files

    def __getstate__(self) -> dict[str, Any]:
        found = dict(self.__dict__)
        if found.get("_held") is not None:
            found["_encoder"], found["_held"] = self.encoder_, None
        return found

    def __deepcopy__(self: _Self, memo: dict[int, Any]) -> _Self:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in self.__dict__.items():
            made.__dict__[name] = copy.deepcopy(value, memo)
        return made

    def to_state(self) -> store.State:
        """The parts of the model and the files of its encoder, for :func:`sylvan.store.save`."""
        self._need_fit("to_state")
        return transformer_state.pack(self)

    @classmethod
    def from_state(cls: type[_Self], state: store.State) -> _Self:
        """A model from what :meth:`to_state` gave; the encoder stays in its files until it is used.

        Raises
        ------
        ModelError
            When something is missing, of a wrong kind, or the parts do not fit each other.
        """
        return transformer_state.unpack(cls, state)
