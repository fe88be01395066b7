"""What training an encoder and its rankers takes, told beforehand: memory from sizes alone, time from a few texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sylvan import validate
from sylvan.canonical import beside, take_rows
from sylvan.errors import DataError, MemoryLimitError
from sylvan.indexing.embeddings import embedding_bytes
from sylvan.matching.negatives import csr_bytes
from sylvan.models.transformer import presets
from sylvan.models.transformer.features import dense_features
from sylvan.ranking.linear import solver_bytes
from sylvan.runtime.machine import available_bytes, resident_bytes
from sylvan.runtime.memory import shown_bytes
from sylvan.runtime.plan import Phase, Plan, state_bytes, timed
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.models.transformer.training import TransformerTraining
    from sylvan.neural.text.text_encoder import TextEncoder

__all__ = ["EncoderSizes", "estimate", "memory_words", "on_gpu", "plan_of", "refuse_beyond_memory", "sizes_of"]

_TIMED_TEXTS = 64  # that go through the encoder to see how long it takes
_PLANNED_ROWS = 20_000  # among which the rankers are solved in part
_COUNTED_TEXTS = 256  # whose terms are counted
_BACKWARD = 3.0  # a step of training, in passes forward
_SPARED = 4.0  # of activations, by checkpointing


@dataclass(frozen=True)
class EncoderSizes:
    """What the memory of an encoder's training follows from.

    Attributes
    ----------
    n_rows, n_tokens : int
        Texts, and tokens of all of them, none longer than the encoder looks at; of a bag the numbers that words and
        pairs of them leave.
    n_weights : int
        Of the encoder.
    n_trained : int
        Those of them that are trained, tables with sparse gradients apart.
    n_table : int
        Those in such tables.
    n_wide : int
        Values that one token leaves behind on its way through the network, for the way back.
    n_dense : int
        Dimensions of a text's vector.
    batch_tokens : int
        Tokens of one batch.
    layer_sizes : tuple of int
        Nodes of the layers that are trained.
    n_terms : int
        TF-IDF's values of all texts.
    """

    n_rows: int
    n_tokens: int
    n_weights: int
    n_trained: int
    n_table: int
    n_wide: int
    n_dense: int
    batch_tokens: int
    layer_sizes: tuple[int, ...]
    n_terms: int = 0

    def bytes(self) -> dict[str, int]:
        """What each part takes, in the order in which a training needs them.

        "TF-IDF": of all texts. "encoder": its weights. "its training": gradients, both moments of Adam and the best
        weights so far, and what a batch leaves behind for the way back. "node vectors": of the layers trained, with
        the optimiser's moments and the best so far of the largest. "embeddings": of all texts, and where an encoder is
        trained as the sparse rows from which a layer begins, of which a solver takes a copy. "rankers": both kinds of
        features side by side, and the solver's room for a cluster of all texts, weights apart.
        """
        trains = bool(self.layer_sizes)
        moments = 4 * (4 * self.n_trained + 3 * self.n_table) + 4 * self.batch_tokens * self.n_wide
        largest, together = max(self.layer_sizes, default=0), sum(self.layer_sizes)
        vectors = self.n_rows * self.n_dense
        joined = csr_bytes(self.n_rows, self.n_terms + vectors)
        solver = solver_bytes(self.n_rows, self.n_terms + vectors, self.n_dense, self.n_dense, 0, weighted=True)
        return {
            "TF-IDF": csr_bytes(self.n_rows, self.n_terms),
            "encoder": 4 * self.n_weights,
            "its training": moments if trains else 0,
            "node vectors": 4 * self.n_dense * (together + 3 * largest),
            "embeddings": vectors * (16 if trains else 4) + 4 * self.n_tokens,
            "rankers": joined + max(4 * vectors, solver),  # 4: the vectors at the length that they get
        }

    @property
    def training(self) -> int:
        """All that is there when an embedding is taken while the encoder is trained."""
        return sum(size for name, size in self.bytes().items() if name != "rankers")

    @property
    def ranking(self) -> int:
        """All that is there when the rankers are solved."""
        parts = self.bytes()
        tables = 4 * self.n_dense * sum(self.layer_sizes)
        vectors = 4 * self.n_rows * self.n_dense + 4 * self.n_tokens
        return parts["TF-IDF"] + parts["encoder"] + tables + vectors + parts["rankers"]

    @property
    def total(self) -> int:
        """The more of the two, which follow each other."""
        return max(self.training, self.ranking)

    @property
    def gpu(self) -> int:
        """What of it lies on a GPU, where there is one: weights, their training, and the largest layer's vectors."""
        parts = self.bytes()
        return parts["encoder"] + parts["its training"] + 16 * self.n_dense * max(self.layer_sizes, default=0)


def sizes_of(
    training: TransformerTraining, encoder: TextEncoder, layer_sizes: tuple[int, ...], n_terms: int
) -> EncoderSizes:
    """The sizes of one training; the tokens of texts that aren't cut yet are guessed from their characters."""
    model = training.model
    settings = None if model.frozen else presets.deep_settings(model, presets.kind_of(encoder))
    tables = {id(table) for table in encoder.tables()}
    weights = list(encoder.parameters())
    trained = [weight for weight in weights if weight.requires_grad]
    parts: list[Any] = [part for part in encoder.modules() if type(part).__name__ == "Linear"]
    wide = sum(int(part.in_features + part.out_features) for part in parts)
    characters = np.fromiter(map(len, training.texts), np.int64, len(training.texts))
    lengths = np.minimum(characters // 4 + 2, encoder.max_length)
    batch = 0 if settings is None else settings.batch_size
    longest = int(lengths.max(initial=1))
    return EncoderSizes(
        n_rows=len(training.texts),
        n_tokens=int(lengths.sum()) * (4 if presets.kind_of(encoder) == "bag" else 1),
        n_weights=sum(weight.numel() for weight in weights),
        n_trained=sum(weight.numel() for weight in trained if id(weight) not in tables),
        n_table=sum(weight.numel() for weight in trained if id(weight) in tables),
        n_wide=round(wide * 1.5 / (_SPARED if model.gradient_checkpointing else 1)),
        n_dense=encoder.dim_out,
        batch_tokens=batch * longest,
        layer_sizes=() if model.frozen else layer_sizes,
        n_terms=n_terms,
    )


def memory_words(sizes: EncoderSizes, gpu: bool = False) -> str:
    """The estimate as one line."""
    parts = ", ".join(f"{name} {shown_bytes(n)}" for name, n in sizes.bytes().items() if n and name != "rankers")
    words = f"The encoder needs about {shown_bytes(sizes.training)} of memory: {parts}; about "
    words += f"{shown_bytes(sizes.ranking)} when the rankers are solved."
    return words if not gpu else f"{words} The GPU holds about {shown_bytes(sizes.gpu)} of the encoder's."


def _layers_guessed(training: TransformerTraining) -> tuple[int, ...]:
    """The sizes of the layers that will be trained, before there is a tree."""
    n_labels, plain = training.labels.shape[1], training.plain
    sizes = [n_labels]
    if plain.tree is not None:
        sizes = list(reversed(plain.tree.layer_sizes))
    elif n_labels > plain.max_leaf:
        sizes.append(-(-n_labels // plain.max_leaf))
        while sizes[-1] > plain.branching:
            sizes.append(-(-sizes[-1] // plain.branching))
    found: tuple[int, ...] = training.model._planned_sizes(tuple(reversed(sizes)))
    return found


def _terms_guessed(training: TransformerTraining) -> int:
    """How many values TF-IDF will have, by a few of the texts."""
    n_rows = len(training.texts)
    rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _COUNTED_TEXTS)).astype(np.int64))
    told = {**training.vectorizer.get_params(), "min_df": 1, "max_df": 1.0, "n_jobs": 1}
    try:
        found = TfidfVectorizer(**told).fit_transform([training.texts[int(row)] for row in rows])
    except DataError:  # not one term in these
        return 0
    return round(found.nnz * n_rows / len(rows))


def estimate(training: TransformerTraining, encoder: TextEncoder) -> EncoderSizes:
    """The sizes before anything is made."""
    return sizes_of(training, encoder, _layers_guessed(training), _terms_guessed(training))


def refuse_beyond_memory(training: TransformerTraining, encoder: TextEncoder, sizes: EncoderSizes) -> None:
    """Raise a MemoryLimitError where the machine, or its GPU, clearly hasn't got the memory."""
    gpu, available, now = on_gpu(training.model), available_bytes(), resident_bytes()
    free = _free_on_gpu(training.model) if gpu else None
    if free is not None and sizes.gpu > free:
        offers = _offers(training.model, encoder, sizes, lambda smaller: smaller.gpu)
        raise MemoryLimitError(
            f"Training the encoder would take about {shown_bytes(sizes.gpu)} of the GPU's memory, of which only "
            f"{shown_bytes(free)} are free. What takes less: {'; '.join(offers)}. "
            "Or go on regardless with force=True (--force)."
        )
    here = max(sizes.training - sizes.gpu, sizes.ranking - sizes.bytes()["encoder"]) if gpu else sizes.total
    if available is not None and here > available:
        Plan(0.0, now + here, 0, now + available, (), tuple(_offers(training.model, encoder, sizes))).check()


def on_gpu(model: Any) -> bool:
    """Whether a model's encoder is trained on a GPU of CUDA's."""
    import torch

    return str(model.device).startswith("cuda") or (model.device == "auto" and torch.cuda.is_available())


def _free_on_gpu(model: Any) -> int | None:
    """Bytes that nobody holds on the model's GPU; None where it isn't there, which is said elsewhere."""
    import torch

    try:
        device = torch.device("cuda" if model.device == "auto" else model.device)
        return int(torch.cuda.mem_get_info(device)[0])
    except (RuntimeError, AssertionError, ValueError):
        return None


def _offers(
    model: Any, encoder: TextEncoder, sizes: EncoderSizes, of: Callable[[EncoderSizes], int] | None = None
) -> list[str]:
    """What takes less, the most harmless first; ``of`` says which memory is short, by default the machine's."""
    offers = []
    needed = (lambda given: given.total) if of is None else of

    def offer(words: str, smaller: EncoderSizes) -> None:
        if needed(smaller) < 0.98 * needed(sizes):
            offers.append(f"{words} (about {shown_bytes(needed(smaller))})")

    half = replace(sizes, batch_tokens=sizes.batch_tokens // 2)
    if not model.frozen:
        batch = presets.deep_settings(model, presets.kind_of(encoder)).batch_size
        offer(f"batch_size={max(1, batch // 2)} with accumulate={2 * model.accumulate}", half)
        if not model.gradient_checkpointing:
            offer("gradient_checkpointing=True", replace(sizes, n_wide=round(sizes.n_wide / _SPARED)))
        offer("half the max_length", replace(half, n_tokens=sizes.n_tokens // 2))
        if model.lora_rank is None:
            offer("lora_rank=8", replace(sizes, n_trained=sizes.n_trained // 50))
        smaller = tuple(size for size in sizes.layer_sizes if size < max(sizes.layer_sizes))
        if smaller:
            offer(f"max_nodes={max(smaller)}", replace(sizes, layer_sizes=smaller))
        offer("frozen=True", replace(sizes, layer_sizes=()))
    if of is None and sizes.ranking >= sizes.training:
        offers.append("fewer terms (a vectorizer with max_features or a higher min_df)")
    offers.append("a smaller encoder")
    return offers


def plan_of(training: TransformerTraining) -> Plan:
    """What a training will take; see :meth:`TransformerEstimator.plan`."""
    model, n_rows = training.model, len(training.texts)
    now, available = resident_bytes(), available_bytes()
    with timed() as opening:
        encoder = presets.encoder_of(model)
    # What PyTorch itself takes once it is loaded is there all the time; the weights are counted among the parts.
    weights = sum(weight.numel() for weight in encoder.parameters())
    base = max(now, resident_bytes() - 4 * weights)
    with timed(training.jobs) as making:
        terms = training._terms()
    with timed(training.jobs) as clustering:
        tree = model._shaped(training._index(terms))
    training.check_layers(tree, encoder)
    sample = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _TIMED_TEXTS)).astype(np.int64))
    dense_features(model, encoder, [training.texts[int(row)] for row in sample[:8]], anew=True)  # what happens once
    with timed() as embedding:
        dense_features(model, encoder, [training.texts[int(row)] for row in sample], anew=True)
    each = embedding.seconds / len(sample) / _cores(training)
    layers = () if model.frozen else tuple(tree.layer_sizes[t] for t in model._trained_layers(tree))
    sizes = sizes_of(training, encoder, layers, len(terms.indices))
    rankers, share = _rankers(training, tree, terms, encoder.dim_out)
    n_trees, index = _trees_made(training, terms, encoder.dim_out)
    parts, gpu = sizes.bytes(), on_gpu(model)
    learned, embedded = _texts_seen(training, encoder, len(layers))
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
    held = sizes.training - (sizes.gpu if gpu else 0)
    vectors = n_rows * encoder.dim_out
    ranking = sizes.ranking - parts["rankers"] - (parts["encoder"] if gpu else 0)
    solved = round(max(phase.peak_bytes for phase in rankers.phases) / share)
    ranking += csr_bytes(n_rows, sizes.n_terms + vectors) + max(index, solved)
    model_bytes = parts["encoder"] + state_bytes(training.vectorizer.to_state()) + round(rankers.model_bytes / share)
    model_bytes += state_bytes(training.vocabulary.to_state())
    found = Plan(
        sum(phase.seconds for phase in phases), base + max(held, ranking), model_bytes,
        None if available is None else now + available, phases,
    )  # fmt: skip
    return found if found.fits else replace(found, offers=(*_offers(model, encoder, sizes), *rankers.offers))


def _trees_made(training: TransformerTraining, terms: Any, n_dense: int) -> tuple[int, int]:
    """How many trees are clustered, and the bytes of the labels' vectors where that is by both kinds of features."""
    model, plain, labels = training.model, training.plain, training.labels
    if not model._own_trees or plain.tree is not None or labels.shape[1] <= plain.max_leaf:
        return 1, 0
    lengths = np.repeat(np.diff(terms.indptr) + n_dense, np.diff(labels.indptr))
    index = embedding_bytes(labels.shape[1], int(lengths.sum()), len(labels.indices))
    return plain.n_trees + (not model.frozen), index


def _texts_seen(training: TransformerTraining, encoder: TextEncoder, n_layers: int) -> tuple[int, int]:
    """How often a text goes through the encoder to be learned from, and how often for its vector alone."""
    n_rows, model = len(training.texts), training.model
    if not n_layers:
        return 0, n_rows
    settings = presets.deep_settings(model, presets.kind_of(encoder))
    steps = [settings.steps(n_rows, at, n_layers, model.accumulate) for at in range(n_layers)]
    # All of them before each layer, whenever its candidates are found anew (there is nothing above the first), and for
    # the rankers; those that are held out whenever a layer is measured.
    times = 1 + n_layers + (0 if settings.refresh is None else sum((n - 1) // settings.refresh for n in steps[1:]))
    between = [max(1, -(-n // settings.evaluations)) for n in steps]
    judged = min(settings.held_out, n_rows // 10) * sum(
        1 - (-n // each) for n, each in zip(steps, between, strict=True)
    )
    return sum(steps) * settings.batch_size * model.accumulate, times * n_rows + judged


def _cores(training: TransformerTraining) -> int:
    """How many threads the encoder's clock counted; a process's time sums over them."""
    return 1 if on_gpu(training.model) else max(1, training.jobs)


def _rankers(training: TransformerTraining, tree: Any, terms: Any, n_dense: int) -> tuple[Plan, float]:
    """The plan of the rankers on a part of the rows, and which share that is; what they see of the encoder is noise.

    Trees of their own are taken to be like the one that the words make.
    """
    n_rows = terms.shape[0]
    rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _PLANNED_ROWS)).astype(np.int64))
    labels = take_rows(training.labels, rows)
    noise = np.random.default_rng(0).standard_normal((len(rows), n_dense), np.float32) / np.float32(np.sqrt(n_dense))
    features = beside(take_rows(terms, rows), noise)
    ranker = training.ranker(None if training.model._own_trees else tree)
    weight = None if training.weight is None else validate.sample_weight(training.weight[rows], len(rows))
    plan = ranker.plan(features, labels, weight, trees=[tree] * ranker.n_trees)
    return plan, len(rows) / max(n_rows, 1)
