"""One training of an XRTransformer or XTransformer: index, encoder, embeddings, rankers; and what it will take."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sylvan import validate
from sylvan.canonical import Csr
from sylvan.data import Vocabulary
from sylvan.errors import DataError
from sylvan.indexing import LabelTree
from sylvan.indexing.shape import layer_plan
from sylvan.models.text_estimator import check_texts
from sylvan.models.text_labels import encode_labels
from sylvan.models.transformer import presets
from sylvan.models.transformer.features import dense_features, engine_of, joined, torch_threads, unit_terms
from sylvan.models.transformer.kept_parts import KeptParts, kept_parts
from sylvan.models.transformer.plan import estimate, memory_words, on_gpu, plan_of, refuse_beyond_memory
from sylvan.models.transformer.words import spoken_of
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.parallel import resolve_jobs
from sylvan.runtime.checkpoint import Checkpoint, checksum, identity_of
from sylvan.runtime.plan import Plan
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from sylvan.models.transformer.matcher import DeepMatcher
    from sylvan.neural.text.text_encoder import TextEncoder

__all__ = ["Learned", "TextsWarning", "TransformerTraining"]

_REMEDY = (
    "Lower batch_size (and raise accumulate as much), max_length or {}, or set gradient_checkpointing=True, "
    "lora_rank=8 or precision='bf16'."
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
    dense_scale: float


class TransformerTraining:
    """A model's parameters and the texts that it is to learn from, checked.

    Parameters
    ----------
    model : XRTransformer or XTransformer
        Its parameters are what is trained; nothing of it changes.
    texts, label_lists, sample_weight
        As its ``fit`` takes them.
    """

    def __init__(self, model: Any, texts: Any, label_lists: Any, sample_weight: Any) -> None:
        model.check_params()
        self.model, self.jobs = model, resolve_jobs(model.n_jobs)
        self.name = type(model).__name__
        self.vectorizer, self.plain = presets.vectorizer_of(model), presets.ranker_of(model)
        with spoken_of(model):
            if not model.frozen:
                presets.deep_settings(model, "network").check(0)  # of any kind; check_layers counts the layers
            self.vectorizer.check_params()
            self.plain.check_params()
        self.texts = check_texts(texts, self.name)
        self.vocabulary, Y = encode_labels(label_lists)
        if len(self.texts) != Y.shape[0]:
            raise DataError(f"There are {len(self.texts)} texts, but the labels of {Y.shape[0]}.")
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
            raise DataError(f"All {empty:,} texts that have labels are empty: there is nothing to learn from.")
        if empty:
            self._warn(
                f"{empty:,} of {int(labelled.sum()):,} texts with labels are empty: nothing can be learned from them."
            )

    def _warn(self, words: str) -> None:
        warnings.warn(words, TextsWarning, stacklevel=2)

    # ---------------------------------------- the work

    def run(
        self, checkpoint: Checkpoint | str | os.PathLike[str] | None, force: bool,
        report: Callable[[str], None] | None = None,
    ) -> Learned:  # fmt: skip
        """Train; parameters as those of ``fit``."""
        model = self.model
        encoder = presets.encoder_of(model)  # before all else, because it is what fails most
        if report is not None or not force:
            sizes = estimate(self, encoder)
            if report is not None:
                report(memory_words(sizes, on_gpu(model)))
            if not force:
                refuse_beyond_memory(self, encoder, sizes)
        engine = engine_of(model)
        writes = os.environ.get("RANK", "0") in ("", "0")  # the first of several processes that were launched together
        everyone = None if engine is None else engine.everyone
        with kept_parts(checkpoint, lambda: self._identity(encoder), writes, everyone) as kept:
            terms = self._terms()
            learns = not (model.frozen and model._own_trees)
            tree = model._shaped(kept.tree(lambda: self._index(terms))) if learns else None
            self.check_layers(tree, encoder)
            rows = encoder.tokenize(self.texts)
            self._warn_of_long_texts(encoder)
            if engine is not None:
                engine.place(encoder)
            matcher = None if model.frozen or tree is None else self._fine_tuned(encoder, rows, tree, engine, kept)
            dense = kept.array("embeddings", lambda: dense_features(model, encoder, rows, engine))
            scale = float(presets.value_of(model, "dense_scale", presets.kind_of(encoder)))
            ranker = model._ranked(self, tree, joined(terms, dense, scale), matcher, scale, kept, force)
            history = [] if matcher is None else matcher.history()
            return Learned(self.vectorizer, encoder, ranker, self.vocabulary, history, dense.shape[1], scale)

    def _terms(self) -> Csr:
        """TF-IDF of all texts, rows of length 1."""
        found = validate.features(self.vectorizer.fit_transform(self.texts))
        return unit_terms(self.vectorizer, found)

    def _index(self, terms: Csr) -> LabelTree:
        """The tree by the labels' texts, before anything is known of the encoder's vectors."""
        one = XRLinear(**{**self.plain.get_params(deep=False), "n_trees": 1})
        return one.index(terms, self.labels)[0]

    def check_layers(self, tree: LabelTree | None, encoder: TextEncoder) -> None:
        """See that what was given layer by layer has as many as the tree: before, not after, hours of work.

        The rankers' own trees have as many as their labels, ``branching`` and ``max_leaf`` make, as this one has.

        Raises
        ------
        ParameterError
        """
        ranker = self.ranker(tree)
        given = ranker.tree
        sizes = layer_plan(self.labels.shape[1], ranker.branching, ranker.max_leaf)
        depth = len(sizes) if given is None else given.depth
        for name in ("negatives", "combine"):
            ranker.per_layer(name, depth)
        if not self.model.frozen and tree is not None:
            settings = presets.deep_settings(self.model, presets.kind_of(encoder))
            settings.check(len(self.model._trained_layers(tree)))

    def _warn_of_long_texts(self, encoder: TextEncoder) -> None:
        if encoder.n_truncated:
            self._warn(
                f"{encoder.n_truncated:,} of {len(self.texts):,} texts are longer than max_length={encoder.max_length} "
                "tokens: the encoder sees their beginnings only (TF-IDF sees them whole)."
            )

    def _fine_tuned(
        self, encoder: TextEncoder, rows: Any, tree: LabelTree, engine: Any, kept: KeptParts
    ) -> DeepMatcher:
        from sylvan.models.transformer.matcher import fine_tune
        from sylvan.neural.loop.memory import memory_sentences
        from sylvan.neural.loop.randomness import untouched_randomness

        settings = presets.deep_settings(self.model, presets.kind_of(encoder))
        candidates = "max_nodes" if isinstance(self.model.constraints["deep_beam"], presets.Unused) else "deep_beam"
        remedy = _REMEDY.format(candidates)  # what decides how many a step has
        told = memory_sentences("Fine-tuning", self.model.device, remedy)
        with untouched_randomness(), torch_threads(self.model.n_jobs), told:  # the caller's draws are its own
            return fine_tune(
                encoder, rows, self.labels, tree, self.model._trained_layers(tree), settings,
                row_weight=self.weight, engine=engine, checkpoint=kept.folder("encoder"), n_jobs=self.jobs,
            )  # fmt: skip

    def ranker(self, tree: LabelTree | None = None) -> XRLinear:
        """The ranker to be trained over the features, on this tree or on those that it will make of them."""
        params = self.plain.get_params(deep=False)
        return XRLinear(**params) if tree is None else XRLinear(**{**params, "tree": tree, "n_trees": 1})

    def _identity(self, encoder: TextEncoder) -> dict[str, Any]:
        """What tells this training from others, for its checkpoint."""
        parts = ("vectorizer", "ranker", "encoder", "n_jobs", "device", "cache")
        parameters = {name: v for name, v in self.model.get_params(deep=False).items() if name not in parts}
        plain = {name: v for name, v in self.plain.get_params(deep=False).items() if name != "n_jobs"}
        vectorizer = {name: v for name, v in self.vectorizer.get_params().items() if name != "n_jobs"}
        found = identity_of(self.name, parameters, Y=self.labels, sample_weight=self.weight)
        return {
            **found, "the texts": _checksum_of(self.texts), "the encoder": encoder.identity(),
            "the encoder's parameters": _own(encoder), "the ranker": _plain(plain),
            "the vectorizer": _plain(vectorizer), "the names of labels": _checksum_of(list(self.vocabulary)),
        }  # fmt: skip

    # ---------------------------------------- what it will take

    def plan(self) -> Plan:
        """What :meth:`run` will take."""
        return plan_of(self)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters as a manifest holds them; a tree by its checksum."""
    found = {}
    for name, value in values.items():
        if isinstance(value, LabelTree):
            value = checksum(*value.child_offsets, value.leaf_labels)
        found[name] = list(value) if isinstance(value, tuple) else value
    return found


def _own(encoder: TextEncoder) -> dict[str, Any]:
    """The parameters of an encoder that say how it is trained, which its identity leaves out."""
    names = ("dropout", "frozen", "gradient_checkpointing", "lora_rank")
    params = encoder.get_params(deep=False)
    return {name: np.asarray(params[name]).item() for name in names if name in params}


def _checksum_of(texts: list[str]) -> str:
    """A checksum of texts and of where each ends: they may hold any character."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return checksum(np.frombuffer("".join(texts).encode("utf-8", "surrogatepass"), np.uint8), lengths)
