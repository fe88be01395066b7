"""One training of an XRTransformer or XTransformer: index, encoder, embeddings, rankers."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, beside, take_rows
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.indexing.clustering import layer_plan
from sylvan.indexing.embeddings import embedding_bytes
from sylvan.labels.targets import encode_labels, need_as_many
from sylvan.matching.negatives import csr_bytes
from sylvan.models.encoders import ModelEncoder, dense_features, torch_threads
from sylvan.models.text_estimator import check_texts
from sylvan.models.transformer import memory, presets
from sylvan.models.transformer.presets import TransformerMatcher
from sylvan.models.xr.params import layer_words
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.parallel import resolve_jobs
from sylvan.params.fields import Parameterized
from sylvan.params.wording import are, counted
from sylvan.runtime import ARRAY, Checkpoint, Job, Runner, opened_runner
from sylvan.runtime.checkpoint import checksum, identity_of
from sylvan.runtime.memory import available_bytes, resident_bytes
from sylvan.runtime.plan import Phase, Plan, state_bytes, timed
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.models.transformer.fine_tuning import FineTuned
    from sylvan.neural.text.text_encoder import TextEncoder

_REMEDY = (
    "Lower the matcher's batch_size (and raise its accumulate as much) or {}, or max_length, or set "
    "matcher__gradient_checkpointing=True, matcher__lora_rank=8 or matcher__precision='bf16'."
)
_TIMED_TEXTS = 64  # that go through the encoder to see how long it takes
_MOST_DIMENSIONS = 1 << 20
_TINY = float(np.finfo(np.float32).tiny)
_PLANNED_ROWS = 20_000  # among which the rankers are solved in part
_BACKWARD = 3.0  # a step of training, in passes forward


def unit_terms(vectorizer: Any, terms: Csr) -> Csr:
    """TF-IDF rows of length 1, whatever the vectoriser's own norm."""
    return terms if vectorizer.norm == "l2" else terms.unit_rows()


class Lengths(NamedTuple):
    """How long TF-IDF's part of a row is, and the encoder's. They are the same for all rows, those without a word among
    them: what the encoder has learned of clusters holds for its part of a row whatever stands beside it."""

    terms: float
    dense: float

    @classmethod
    def of(cls, scale: float, unit: bool) -> Lengths:
        """Vectors of the length ``scale`` beside TF-IDF's 1; with ``unit`` both together have the length 1."""
        factor = 1 / math.hypot(1, scale) if unit else 1.0
        return cls(factor, scale * factor)


def joined(terms: Csr, dense: npt.NDArray[np.float32], lengths: Lengths) -> Csr:
    """TF-IDF and vectors side by side, each times its length: they are of length 1, or vectors as they are."""
    if lengths.terms != 1:
        terms = terms._replace(data=terms.data * np.float32(lengths.terms))
    return beside(terms, dense if lengths.dense == 1 else dense * np.float32(lengths.dense))


def engine_of(device: str, matcher: TransformerMatcher | None, owner: str) -> Any:
    """Where the encoder of a model of class ``owner`` is trained; None for this process alone, on processors and
    without rounding. ``matcher`` is None where it isn't trained at all."""
    import torch

    if matcher is None:
        return None
    if device.partition(":")[0] in ("mps", "xpu"):
        raise ParameterError(
            f"The 'device' parameter of {owner} must be 'auto', 'cpu' or 'cuda' where the encoder is trained: on "
            f"{device!r} texts are only encoded, by frozen=True and in ranking. Got {device!r} instead."
        )
    on_cpu = device == "cpu" or (device == "auto" and not torch.cuda.is_available())
    if on_cpu and matcher.precision == "fp16":
        raise ParameterError(
            "The 'precision' parameter of TransformerMatcher is 'fp16', which needs a CUDA device; this one is 'cpu'. "
            "Take 'bf16' or 'no'."
        )
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1 and matcher.accumulate == 1
    if on_cpu and alone and matcher.precision in ("auto", "no"):
        return None
    from sylvan.neural.loop.engine import Engine, wanted_device

    wanted_device(device, owner)
    return Engine(device, matcher.precision, matcher.accumulate)


class TextsWarning(UserWarning):
    """Something of the texts that a training goes on without: how many are empty, how many are cut."""


@dataclass(frozen=True, eq=False)
class FittedTransformer:
    """What a training gives: what makes features of texts, and what ranks these."""

    vectorizer: TfidfVectorizer
    encoder: ModelEncoder
    ranker: XRLinear
    history: list[dict[str, Any]]  # what the training of each layer went like
    n_dense: int  # dimensions of the encoder's vectors, which are the last of the features
    lengths: Lengths
    unit_vectors: bool  # whether the rankers see the encoder's vectors at length 1, or as they are

    def to_state(self) -> tuple[dict[str, Any], dict[str, store.State]]:
        """Values and parts for a saved model; the encoder's files are its own."""
        meta = {
            "n_dense": self.n_dense, "dense_scale": self.lengths.dense, "term_scale": self.lengths.terms,
            "unit_vectors": self.unit_vectors, "history": self.history,
        }  # fmt: skip
        return meta, {"vectorizer": self.vectorizer.to_state(), "ranker": self.ranker.to_state()}

    @classmethod
    def from_state(cls, state: store.State, n_names: int) -> FittedTransformer:
        """What :meth:`to_state` gave, verified; the encoder stays in its files until it is used."""
        vectorizer = TfidfVectorizer.from_state(store.need_part(state, "vectorizer", "tfidf-vectorizer"))
        ranker = XRLinear.from_state(store.need_part(state, "ranker", "xr-linear"))
        n_dense, history = store.need_int(state, "n_dense", 1, _MOST_DIMENSIONS), state.meta.get("history")
        if "dense_scale" not in state.meta:  # what the parameter of this name says isn't it
            raise ModelError(f"{state.where!r} is damaged: it doesn't say how long its encoder's vectors are.")
        dense = store.need_float(state, "dense_scale", _TINY, np.finfo(np.float32).max)
        terms, unit_vectors = store.need_float(state, "term_scale", _TINY, 1.0), store.need_bool(state, "unit_vectors")
        if not isinstance(history, list) or not all(isinstance(layer, dict) for layer in history):
            raise ModelError(
                f"{state.where!r} is damaged: 'history' must be a list of layers. Got {history!r:.60} instead."
            )
        if vectorizer.n_terms_ + n_dense != ranker.n_features_:
            raise DataError(
                f"{counted(vectorizer.n_terms_, 'term')} and {counted(n_dense, 'dimension')} don't make the ranker's "
                f"{counted(ranker.n_features_, 'feature')}."
            )
        if n_names != ranker.n_labels_:
            raise DataError(f"it has {counted(n_names, 'name')}, but {counted(ranker.n_labels_, 'label')}.")
        encoder = ModelEncoder.of_state(state, n_dense, "its rankers have learned from")
        return cls(vectorizer, encoder, ranker, history, n_dense, Lengths(terms, dense), unit_vectors)


class TransformerTraining:
    """A model's parameters and the texts that it is to learn from, checked. The encoder learns the layers of the words'
    tree; then rankers learn trees of their own, over both features."""

    own_trees: ClassVar[bool] = True  # whether the rankers' trees are their own, not the one that the encoder learns

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
        labelled = np.diff(self.labels.indptr) > 0
        empty = sum(1 for text, has in zip(self.texts, labelled.tolist(), strict=True) if has and not text.strip())
        if empty == int(labelled.sum()):
            raise DataError("Every text that has labels is empty: there is nothing to learn from.")
        if empty:
            words = (
                f"{empty:,} of {counted(int(labelled.sum()), 'text')} with labels {are(empty)} empty: nothing can be"
            )
            warnings.warn(f"{words} learned from them.", TextsWarning, stacklevel=2)

    # ---------------------------------------- which tree the encoder learns, and how rankers follow from it

    def encoder_tree(self, tree: LabelTree) -> LabelTree:
        """The tree that the encoder learns, made from the index's tree."""
        return tree

    def tuned_layers(self, sizes: Sequence[int]) -> list[int]:
        """The layers of that tree that the encoder is fine-tuned on, from coarse to fine, by the sizes of all: those of
        at most ``max_nodes`` nodes, and the first in any case."""
        return [t for t, size in enumerate(sizes) if t == 0 or size <= self.max_nodes]

    def tuned_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """How many nodes those layers have, by the sizes of all layers that the index will have."""
        return tuple(sizes[t] for t in self.tuned_layers(sizes))

    def rank(
        self, tree: LabelTree | None, features: Csr, tuned: FineTuned | None, length: float, runner: Runner, force: bool
    ) -> XRLinear:
        """The fitted rankers over the features of texts, in which the encoder's vectors have the length ``length``.
        ``tree`` is the one that the encoder has learned; None where it has learned none, and rankers have their own."""
        labels = self.labels.to_scipy()
        return self.ranker().fit(features, labels, self.weight, runner=runner, force=force)

    @property
    def unit_vectors(self) -> bool:
        """Whether the rankers see the encoder's vectors at length 1, or as they are."""
        return True

    # ---------------------------------------- the work

    def run(
        self, checkpoint: Checkpoint | str | os.PathLike[str] | None, force: bool,
        report: Callable[[str], None] | None = None,
    ) -> FittedTransformer:  # fmt: skip
        """Train; parameters as those of ``fit``."""
        encoder = presets.encoder_of(self.model)  # before all else, because it is what fails most
        if report is not None or not force:
            sizes = self.estimate(encoder)
            if report is not None:
                report(memory.memory_words(sizes, memory.on_gpu(self.model.device)))
            if not force:
                memory.refuse_beyond_memory(encoder, sizes, self.suited_matcher(encoder), self.model.device)
        engine = engine_of(self.model.device, self.matcher, self.name)
        with opened_runner(
            self.jobs, checkpoint=checkpoint, identity=lambda: self._identity(encoder),
            writes=os.environ.get("RANK", "0") in ("", "0"),  # the first of several that were launched together
        ) as run:  # fmt: skip
            terms = self.terms()
            learns = self.matcher is not None or not self.own_trees
            tree = self.encoder_tree(self.index(terms, run.within("index"))) if learns else None
            self.check_layers(tree)
            rows = encoder.tokenize(self.texts)
            if encoder.n_truncated:
                warnings.warn(
                    f"{encoder.n_truncated:,} of {counted(len(self.texts), 'text')} {are(encoder.n_truncated)} longer "
                    f"than max_length={encoder.max_length} tokens: the encoder sees their beginnings only (TF-IDF sees "
                    "them whole).", TextsWarning, stacklevel=2,
                )  # fmt: skip
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
            return FittedTransformer(
                self.vectorizer, ModelEncoder(encoder), ranker, history, dense.shape[1], lengths, self.unit_vectors
            )

    def terms(self) -> Csr:
        """TF-IDF of all texts, rows of length 1."""
        return unit_terms(self.vectorizer, self.vectorizer.fit_transform_rows(self.texts))

    def index(self, terms: Csr, runner: Runner | None = None) -> LabelTree:
        """The tree by the labels' texts, before anything is known of the encoder's vectors."""
        return presets.ranker_of(self.model).set_params(n_trees=1).index(terms, self.labels, runner=runner)[0]

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
            self.matcher.check_layers(len(self.tuned_layers(tree.layer_sizes)))

    def _layer_sizes(self, ranker: XRLinear) -> tuple[int, ...]:
        """The sizes of all layers of a ranker's tree, which needn't be there yet."""
        if ranker.tree is not None:
            return ranker.tree.layer_sizes
        return layer_plan(self.labels.shape[1], ranker.branching, ranker.max_leaf)

    def _fine_tune(self, encoder: TextEncoder, rows: Any, tree: LabelTree, engine: Any, runner: Runner) -> FineTuned:
        from sylvan.models.transformer.fine_tuning import FineTuning
        from sylvan.neural.loop.engine import memory_sentences, untouched_randomness

        model, layers, matcher = self.model, self.tuned_layers(tree.layer_sizes), self.suited_matcher(encoder)
        assert matcher is not None
        most = "beam" if layers[-1] > 0 else "max_nodes"  # what decides how many candidates a step has
        sentences = memory_sentences("Fine-tuning", model.device, _REMEDY.format(most))
        with untouched_randomness(), torch_threads(model.n_jobs), sentences:  # the caller's draws are its own
            return FineTuning(
                encoder, rows, self.labels, tree, layers, matcher, row_weight=self.weight,
                engine=engine, runner=runner, seed=int(model.seed),
            ).run()  # fmt: skip

    def estimate(self, encoder: TextEncoder) -> memory.EncoderSizes:
        """The sizes that the memory follows from, before anything is made."""
        layers = self.tuned_sizes(self._layer_sizes(self.ranker()))
        n_terms = memory.estimated_terms(self.vectorizer, self.texts)
        return memory.sizes_of(encoder, self.texts, self.suited_matcher(encoder), layers, n_terms)

    def _identity(self, encoder: TextEncoder) -> dict[str, Any]:
        """What distinguishes this training from others, for its checkpoint."""
        parts = (*presets.PARTS, "encoder", "n_jobs", "device", "cache")
        parameters = {name: v for name, v in self.model.get_params(deep=False).items() if name not in parts}
        params, trains = encoder.get_params(deep=False), ("dropout", "frozen", "gradient_checkpointing", "lora_rank")
        return {
            **identity_of(self.name, parameters, Y=self.labels, sample_weight=self.weight),
            "the texts": _checksum_of(self.texts), "the encoder": encoder.identity(),
            # those that say how it is trained, which its identity doesn't hold
            "the encoder's parameters": {name: np.asarray(params[name]).item() for name in trains if name in params},
            **_plain("matcher", self.matcher),
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


def _checksum_of(texts: list[str]) -> str:
    """A checksum of texts and of where each ends: they may hold any character."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return checksum(np.frombuffer("".join(texts).encode("utf-8", "surrogatepass"), np.uint8), lengths)


def plan_of(training: TransformerTraining) -> Plan:
    """What a training will take; see :meth:`XRTransformer.plan`."""
    model, n_rows = training.model, len(training.texts)
    resident, available = resident_bytes(), available_bytes()
    with timed() as opening:
        encoder = presets.encoder_of(model)
    # What PyTorch itself takes once it is loaded is there all the time; the weights are counted among the parts.
    weights = sum(weight.numel() for weight in encoder.parameters())
    base = max(resident, resident_bytes() - 4 * weights)
    with timed(training.jobs) as making:
        terms = training.terms()
    with timed(training.jobs) as clustering:
        tree = training.encoder_tree(training.index(terms))
    training.check_layers(tree)
    sample = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _TIMED_TEXTS)).astype(np.int64))
    training.embedding_job(encoder, [training.texts[int(row)] for row in sample[:8]])()  # what happens once
    with timed() as embedding:
        training.embedding_job(encoder, [training.texts[int(row)] for row in sample])()
    matcher, gpu = training.suited_matcher(encoder), memory.on_gpu(model.device)
    # The clock counted all threads of a processor, as a process's time sums over them.
    each = embedding.seconds / len(sample) / (1 if gpu else max(1, training.jobs))
    layers = () if matcher is None else tuple(tree.layer_sizes[t] for t in training.tuned_layers(tree.layer_sizes))
    sizes = memory.sizes_of(encoder, training.texts, matcher, layers, len(terms.indices))
    rankers, share = _rankers(training, tree, terms, encoder.dim_out)
    n_trees, index = _trees_made(training, terms, encoder.dim_out)
    parts = sizes.bytes()
    learned, embedded = _texts_seen(matcher, n_rows, len(layers))
    where = " (on the GPU)" if gpu else ""
    phases: tuple[Phase, ...] = (
        Phase("features", making.seconds, terms.nbytes),
        Phase("tree" if n_trees == 1 else "trees", clustering.seconds * n_trees, index),
        Phase(f"encoder{where}", opening.seconds, parts["encoder"]),
        Phase(f"its training{where}", learned * each * _BACKWARD, parts["its training"]),
        Phase(f"node vectors{where}", 0.0, parts["node vectors"]),
        Phase("embeddings", embedded * each, parts["embeddings"]),
        *(replace(p, seconds=p.seconds / share, peak_bytes=round(p.peak_bytes / share)) for p in rankers.phases),
    )
    phases = tuple(phase for phase in phases if phase.seconds or phase.peak_bytes)
    tuning = sizes.training - (sizes.gpu if gpu else 0)
    vectors = n_rows * encoder.dim_out
    ranking = sizes.ranking - parts["rankers"] - (parts["encoder"] if gpu else 0)
    solved = round(max(phase.peak_bytes for phase in rankers.phases) / share)
    ranking += csr_bytes(n_rows, sizes.n_terms + vectors) + max(index, solved)
    model_bytes = parts["encoder"] + state_bytes(training.vectorizer.to_state()) + round(rankers.model_bytes / share)
    model_bytes += state_bytes(training.vocabulary.to_state())
    plan = Plan(
        sum(phase.seconds for phase in phases), base + max(tuning, ranking), model_bytes,
        None if available is None else resident + available, phases,
    )  # fmt: skip
    if plan.fits:
        return plan
    return replace(
        plan, offers=(*memory.memory_offers(encoder, sizes, matcher), *(f"ranker: {o}" for o in rankers.offers))
    )


def _trees_made(training: TransformerTraining, terms: Any, n_dense: int) -> tuple[int, int]:
    """How many trees are clustered, and the bytes of the labels' vectors where that is by both kinds of features."""
    ranker, labels = training.ranker(), training.labels
    if not training.own_trees or ranker.tree is not None or labels.shape[1] <= ranker.max_leaf:
        return 1, 0
    lengths = np.repeat(np.diff(terms.indptr) + n_dense, np.diff(labels.indptr))
    index = embedding_bytes(labels.shape[1], int(lengths.sum()), len(labels.indices))
    return ranker.n_trees + (training.matcher is not None), index


def _texts_seen(matcher: TransformerMatcher | None, n_rows: int, n_layers: int) -> tuple[int, int]:
    """How often a text goes through the encoder to be learned from, and how often for its vector alone."""
    if matcher is None or not n_layers:
        return 0, n_rows
    steps = [matcher.steps(n_rows, number, matcher.accumulate) for number in range(n_layers)]
    # All of them before each layer, whenever its candidates are found again (there is nothing above the first), and for
    # the rankers; the holdout whenever a layer is measured.
    times = 1 + n_layers + (0 if matcher.refresh is None else sum((n - 1) // matcher.refresh for n in steps[1:]))
    between = [max(1, -(-n // matcher.evaluations)) for n in steps]
    measured = sum(1 - (-n // each) for n, each in zip(steps, between, strict=True))
    seen = times * n_rows + min(matcher.holdout, n_rows // 10) * measured
    return sum(steps) * matcher.batch_size * matcher.accumulate, seen


def _rankers(training: TransformerTraining, tree: Any, terms: Any, n_dense: int) -> tuple[Plan, float]:
    """The plan of the rankers on a part of the rows, and which share that is; what they see of the encoder is noise.
    Trees of their own are taken to be like the one that the words make."""
    n_rows = terms.shape[0]
    rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _PLANNED_ROWS)).astype(np.int64))
    labels = take_rows(training.labels, rows)
    noise = np.random.default_rng(0).standard_normal((len(rows), n_dense), np.float32) / np.float32(np.sqrt(n_dense))
    features = beside(take_rows(terms, rows), noise)
    ranker = training.ranker(None if training.own_trees else tree)
    weight = None if training.weight is None else validate.sample_weight(training.weight[rows], len(rows))
    plan = ranker.plan(features, labels, weight, trees=[tree] * ranker.n_trees)
    return plan, len(rows) / max(n_rows, 1)
