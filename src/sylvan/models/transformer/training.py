"""One training of an XRTransformer or XTransformer: index, encoder, embeddings, rankers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.data import Vocabulary
from sylvan.errors import DataError
from sylvan.indexing import LabelTree
from sylvan.indexing.clustering import layer_plan
from sylvan.labels.targets import encode_labels, need_as_many
from sylvan.models.encoders.dense_features import dense_features, torch_threads
from sylvan.models.text_estimator import check_texts
from sylvan.models.transformer import presets
from sylvan.models.transformer.features import Lengths, engine_of, joined, unit_terms
from sylvan.models.transformer.memory import (
    EncoderSizes,
    estimated_terms,
    memory_words,
    on_gpu,
    refuse_beyond_memory,
    sizes_of,
)
from sylvan.models.transformer.transformer_matcher import TransformerMatcher
from sylvan.models.xr.params import layer_words
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.parallel import resolve_jobs
from sylvan.params.fields import Parameterized
from sylvan.params.wording import are, counted
from sylvan.runtime import ARRAY, Checkpoint, Job, Runner, opened_runner
from sylvan.runtime.checkpoint import checksum, identity_of
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.models.transformer.fine_tuning import FineTuned
    from sylvan.neural.text.text_encoder import TextEncoder

_REMEDY = (
    "Lower the matcher's batch_size (and raise its accumulate as much) or {}, or max_length, or set "
    "matcher__gradient_checkpointing=True, matcher__lora_rank=8 or matcher__precision='bf16'."
)


class TextsWarning(UserWarning):
    """Something of the texts that a training goes on without: how many are empty, how many are cut."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What a training gives."""

    vectorizer: TfidfVectorizer
    encoder: TextEncoder
    ranker: XRLinear
    vocabulary: Vocabulary
    history: list[dict[str, Any]]
    n_dense: int
    lengths: Lengths


class TransformerTraining:
    """A model's parameters and the texts that it is to learn from, checked. A concrete one says which tree and which of
    its layers the encoder learns, and how the rankers follow from it."""

    own_trees: ClassVar[bool] = False  # whether the rankers' trees are their own, not the one that the encoder learns

    def __init__(self, model: Any, texts: Any, label_lists: Any, sample_weight: Any) -> None:
        model.check_params()
        self.model, self.jobs = model, resolve_jobs(model.n_jobs)
        self.name = type(model).__name__
        self.vectorizer, self.matcher = presets.vectorizer_of(model), None if model.frozen else model.part("matcher")
        self.max_nodes: int = model.part("matcher").max_nodes
        self.texts = check_texts(texts, self.name)  # texts, label_lists, sample_weight: as its `fit` takes them
        self.vocabulary, Y = encode_labels(label_lists)
        need_as_many(len(self.texts), Y.shape[0])
        self.labels = validate.labels(Y)
        self.weight = validate.sample_weight(sample_weight, len(self.texts))
        if self.labels.nnz == 0:
            raise DataError("No text has a label: there is nothing to learn.")
        self._warn_of_empty_texts()

    def _warn_of_empty_texts(self) -> None:
        """Say once how many labelled texts say nothing."""
        labelled = np.diff(self.labels.indptr) > 0
        empty = sum(1 for text, has in zip(self.texts, labelled.tolist(), strict=True) if has and not text.strip())
        if empty == int(labelled.sum()):
            raise DataError("Every text that has labels is empty: there is nothing to learn from.")
        if empty:
            self._warn(
                f"{empty:,} of {counted(int(labelled.sum()), 'text')} with labels {are(empty)} empty: nothing can be "
                "learned from them."
            )

    def _warn_of_long_texts(self, encoder: TextEncoder) -> None:
        if encoder.n_truncated:
            self._warn(
                f"{encoder.n_truncated:,} of {counted(len(self.texts), 'text')} {are(encoder.n_truncated)} longer than "
                f"max_length={encoder.max_length} tokens: the encoder sees their beginnings only (TF-IDF sees them "
                "whole)."
            )

    def _warn(self, words: str) -> None:
        warnings.warn(words, TextsWarning, stacklevel=2)

    # ---------------------------------------- what the concrete ones decide

    def encoder_tree(self, tree: LabelTree) -> LabelTree:
        """The tree that the encoder learns, of the one that the index gives."""
        return tree

    def tuned_layers(self, tree: LabelTree) -> list[int]:
        """The layers of that tree that the encoder is fine-tuned on, from coarse to fine."""
        raise TypeError(f"{type(self).__name__} is abstract: it trains nothing.")

    def tuned_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """How many nodes those layers have, by the sizes of all layers that the index will have."""
        raise TypeError(f"{type(self).__name__} is abstract: it trains nothing.")

    def rank(
        self, tree: LabelTree | None, features: Csr, tuned: FineTuned | None, length: float, runner: Runner, force: bool
    ) -> XRLinear:
        """The fitted rankers over the features of texts, in which the encoder's vectors have the length ``length``.
        ``tree`` is the one that the encoder has learned; None where it has learned none, and rankers have their own."""
        raise TypeError(f"{type(self).__name__} is abstract: it trains nothing.")

    @property
    def unit_vectors(self) -> bool:
        """Whether the rankers see the encoder's vectors at length 1, or as they are."""
        return True

    # ---------------------------------------- the work

    def run(
        self, checkpoint: Checkpoint | str | os.PathLike[str] | None, force: bool,
        report: Callable[[str], None] | None = None,
    ) -> Learned:  # fmt: skip
        """Train; parameters as those of ``fit``."""
        encoder = presets.encoder_of(self.model)  # before all else, because it is what fails most
        if report is not None or not force:
            self._estimate_memory(encoder, force, report)
        engine = engine_of(self.model.device, self.matcher)
        with opened_runner(
            self.jobs, checkpoint=checkpoint, identity=lambda: self._identity(encoder),
            writes=os.environ.get("RANK", "0") in ("", "0"),  # the first of several that were launched together
        ) as run:  # fmt: skip
            terms = self.terms()
            learns = self.matcher is not None or not self.own_trees
            tree = self.encoder_tree(self.index(terms, run.within("index"))) if learns else None
            self.check_layers(tree)
            rows = encoder.tokenize(self.texts)
            self._warn_of_long_texts(encoder)
            if engine is not None:
                engine.place(encoder)
            tuned = None
            if tree is not None and self.matcher is not None:
                tuned = self._fine_tune(encoder, rows, tree, engine, run.within("encoder"))
            job = self.embedding_job(encoder, rows, engine, self.model.cache, run)
            dense = run.one(job, bool if engine is None else lambda stored: all(engine.everyone(stored)))
            scale = float(presets.value_of(self.model, "dense_scale", presets.kind_of(encoder)))
            lengths = Lengths.of(scale, presets.ranker_of(self.model).normalize)
            features = joined(terms, dense, lengths)
            ranker = self.rank(tree, features, tuned, lengths.dense, run.within("ranker"), force)
            history = [] if tuned is None else tuned.history()
            return Learned(self.vectorizer, encoder, ranker, self.vocabulary, history, dense.shape[1], lengths)

    def terms(self) -> Csr:
        """TF-IDF of all texts, rows of length 1."""
        terms = self.vectorizer.fit_transform_rows(self.texts)
        return unit_terms(self.vectorizer, terms)

    def index(self, terms: Csr, runner: Runner | None = None) -> LabelTree:
        """The tree by the labels' texts, before anything is known of the encoder's vectors."""
        one = presets.ranker_of(self.model).set_params(n_trees=1)
        return one.index(terms, self.labels, runner=runner)[0]

    def embedding_job(
        self, encoder: TextEncoder, texts: Any, engine: Any = None, cache: Any = None, runner: Runner | None = None
    ) -> Job[npt.NDArray[np.float32]]:
        """The encoder's vectors of texts or of their ids; ``runner`` runs parts of it, where it does so elsewhere."""
        inputs = {
            "encoder": encoder, "texts": texts, "device": self.model.device, "n_jobs": self.model.n_jobs,
            "cache": cache, "engine": engine, "normalize": self.unit_vectors, "runner": runner,
        }  # fmt: skip
        size = 4 * len(texts) * encoder.dim_out
        return Job("embeddings", dense_features, inputs, peak_bytes=size, packing=ARRAY, title="embedding the texts")

    def ranker(self, tree: LabelTree | None = None) -> XRLinear:
        """The ranker to be trained over the features, on this tree or on those that it will make of them. What its
        ``normalize`` asks for is done where the features are made."""
        ranker = presets.ranker_of(self.model).set_params(normalize=False)
        return ranker if tree is None else ranker.set_params(tree=tree, n_trees=1)

    def suited_matcher(self, encoder: TextEncoder) -> TransformerMatcher | None:
        """The matcher with the rates that suit the encoder."""
        return None if self.matcher is None else presets.matcher_of(self.model, presets.kind_of(encoder))

    def check_layers(self, tree: LabelTree | None) -> None:
        """See that what was given layer by layer has as many as the tree: before, not after, hours of work. The
        rankers' own trees have as many as their labels, ``branching`` and ``max_leaf`` make, as this one has."""
        ranker = self.ranker(tree)
        depth = len(self._layer_sizes(ranker))
        for name in ("negatives", "combine"):
            layer_words(ranker, name, depth)
        if self.matcher is not None and tree is not None:
            self.matcher.check_layers(len(self.tuned_layers(tree)))

    def _layer_sizes(self, ranker: XRLinear) -> tuple[int, ...]:
        """The sizes of all layers of a ranker's tree, which needn't be there yet."""
        if ranker.tree is not None:
            return ranker.tree.layer_sizes
        return layer_plan(self.labels.shape[1], ranker.branching, ranker.max_leaf)

    def _fine_tune(self, encoder: TextEncoder, rows: Any, tree: LabelTree, engine: Any, runner: Runner) -> FineTuned:
        from sylvan.models.transformer.fine_tuning import fine_tune
        from sylvan.neural.loop.engine import memory_sentences, untouched_randomness

        model, layers = self.model, self.tuned_layers(tree)
        most = "beam" if layers[-1] > 0 else "max_nodes"  # what decides how many candidates a step has
        sentences = memory_sentences("Fine-tuning", model.device, _REMEDY.format(most))
        with untouched_randomness(), torch_threads(model.n_jobs), sentences:  # the caller's draws are its own
            return fine_tune(
                encoder, rows, self.labels, tree, layers, self.suited_matcher(encoder), row_weight=self.weight,
                engine=engine, runner=runner, seed=int(model.seed),
            )  # fmt: skip

    def _estimate_memory(self, encoder: TextEncoder, force: bool, report: Callable[[str], None] | None) -> None:
        """Say what memory the encoder will take, and refuse to go on where it isn't there."""
        sizes = self.estimate(encoder)
        if report is not None:
            report(memory_words(sizes, on_gpu(self.model.device)))
        if not force:
            refuse_beyond_memory(encoder, sizes, self.suited_matcher(encoder), self.model.device)

    def estimate(self, encoder: TextEncoder) -> EncoderSizes:
        """The sizes that the memory follows from, before anything is made."""
        layers = self.tuned_sizes(self._layer_sizes(self.ranker()))
        n_terms = estimated_terms(self.vectorizer, self.texts)
        return sizes_of(encoder, self.texts, self.suited_matcher(encoder), layers, n_terms)

    def _identity(self, encoder: TextEncoder) -> dict[str, Any]:
        """What distinguishes this training from others, for its checkpoint."""
        parts = (*presets.PARTS, "encoder", "n_jobs", "device", "cache")
        parameters = {name: v for name, v in self.model.get_params(deep=False).items() if name not in parts}
        return {
            **identity_of(self.name, parameters, Y=self.labels, sample_weight=self.weight),
            "the texts": _checksum_of(self.texts), "the encoder": encoder.identity(),
            "the encoder's parameters": _own(encoder), **_plain("matcher", self.matcher),
            **_plain("ranker", presets.ranker_of(self.model)), **_plain("vectorizer", self.vectorizer),
            "the names of labels": _checksum_of(list(self.vocabulary)),
        }  # fmt: skip


def _plain(name: str, part: Parameterized | None) -> dict[str, Any]:
    """A part's parameters as a checkpoint holds them, but for its threads; a tree by its checksum."""
    plain: dict[str, Any] = {}
    for parameter, value in ({} if part is None else part.get_params(deep=False)).items():
        if isinstance(value, LabelTree):
            value = checksum(*value.child_offsets, value.leaf_labels)
        value = value.item() if isinstance(value, np.generic) else value
        plain[f"the {name}'s {parameter!r}"] = list(value) if isinstance(value, tuple) else value
    plain.pop(f"the {name}'s 'n_jobs'", None)
    return plain


def _own(encoder: TextEncoder) -> dict[str, Any]:
    """The parameters of an encoder that say how it is trained, which its identity doesn't hold."""
    names = ("dropout", "frozen", "gradient_checkpointing", "lora_rank")
    params = encoder.get_params(deep=False)
    return {name: np.asarray(params[name]).item() for name in names if name in params}


def _checksum_of(texts: list[str]) -> str:
    """A checksum of texts and of where each ends: they may hold any character."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return checksum(np.frombuffer("".join(texts).encode("utf-8", "surrogatepass"), np.uint8), lengths)
