"""What training an encoder and its rankers takes, told beforehand: memory from sizes alone, time from a few texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sylvan import validate
from sylvan.canonical import beside, take_rows
from sylvan.models import transformer_presets as presets
from sylvan.models.plan import Phase, Plan, rankers_plan, state_bytes, timed
from sylvan.models.transformer_features import dense_features
from sylvan.ranking.machine import available_bytes, resident_bytes
from sylvan.ranking.memory import shown_bytes

if TYPE_CHECKING:
    from sylvan.models.transformer_training import TransformerTraining
    from sylvan.neural.text_encoder import TextEncoder

__all__ = ["EncoderSizes", "memory_words", "plan_of", "refuse_beyond_memory", "sizes_of"]

_TIMED_TEXTS = 64  # that go through the encoder to see how long it takes
_PLANNED_ROWS = 20_000  # among which the rankers are solved in part
_BACKWARD = 3.0  # a step of training, in passes forward
_SPARED = 4.0  # of activations, by checkpointing


@dataclass(frozen=True)
class EncoderSizes:
    """What the memory of an encoder's training follows from.

    Attributes
    ----------
    n_rows, n_tokens : int
        Texts, and tokens of all of them, none longer than the encoder looks at.
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

    def bytes(self) -> dict[str, int]:
        """What each part takes, in the order in which a training needs them.

        "encoder": its weights. "its training": gradients, both moments of Adam and the best weights so far, and what a
        batch leaves behind for the way back. "node vectors": of the layers trained, with the optimiser's moments and
        the best so far of the largest. "embeddings": of all texts, as they are and as sparse rows.
        """
        trains = bool(self.layer_sizes)
        moments = 4 * (4 * self.n_trained + 3 * self.n_table) + 4 * self.batch_tokens * self.n_wide
        largest, together = max(self.layer_sizes, default=0), sum(self.layer_sizes)
        return {
            "encoder": 4 * self.n_weights,
            "its training": moments if trains else 0,
            "node vectors": 4 * self.n_dense * (together + 3 * largest),
            "embeddings": self.n_rows * self.n_dense * 12 + 4 * self.n_tokens,
        }

    @property
    def total(self) -> int:
        """All parts together, which is when an embedding is taken while the encoder is trained."""
        return sum(self.bytes().values())


def sizes_of(training: TransformerTraining, encoder: TextEncoder, layer_sizes: tuple[int, ...]) -> EncoderSizes:
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
        n_tokens=int(lengths.sum()),
        n_weights=sum(weight.numel() for weight in weights),
        n_trained=sum(weight.numel() for weight in trained if id(weight) not in tables),
        n_table=sum(weight.numel() for weight in trained if id(weight) in tables),
        n_wide=round(wide * 1.5 / (_SPARED if model.gradient_checkpointing else 1)),
        n_dense=encoder.dim_out,
        batch_tokens=batch * longest,
        layer_sizes=() if model.frozen else layer_sizes,
    )


def memory_words(sizes: EncoderSizes) -> str:
    """The estimate as one line."""
    parts = ", ".join(f"{name} {shown_bytes(size)}" for name, size in sizes.bytes().items() if size)
    return f"The encoder needs about {shown_bytes(sizes.total)} of memory: {parts}; the rankers come after it."


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


def estimate(training: TransformerTraining, encoder: TextEncoder) -> EncoderSizes:
    """The sizes before anything is made."""
    return sizes_of(training, encoder, _layers_guessed(training))


def refuse_beyond_memory(training: TransformerTraining, encoder: TextEncoder) -> None:
    """Raise a MemoryLimitError where the machine clearly hasn't got the memory for the encoder."""
    available, now = available_bytes(), resident_bytes()
    sizes = estimate(training, encoder)
    if available is None or sizes.total <= available or _on_gpu(training.model):
        return
    Plan(0.0, now + sizes.total, 0, now + available, (), tuple(_offers(training.model, encoder, sizes))).check()


def _on_gpu(model: Any) -> bool:
    import torch

    return str(model.device).startswith("cuda") or (model.device == "auto" and torch.cuda.is_available())


def _offers(model: Any, encoder: TextEncoder, sizes: EncoderSizes) -> list[str]:
    """What takes less, the most harmless first."""
    offers = []

    def offer(words: str, smaller: EncoderSizes) -> None:
        if smaller.total < 0.98 * sizes.total:
            offers.append(f"{words} (about {shown_bytes(smaller.total)})")

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
    offers.append("a smaller encoder")
    return offers


def plan_of(training: TransformerTraining) -> Plan:
    """What a training will take; see :meth:`TransformerEstimator.plan`."""
    model, n_rows = training.model, len(training.texts)
    now, available = resident_bytes(), available_bytes()
    with timed() as opening:
        encoder = presets.encoder_of(model)
    with timed(training.jobs) as making:
        terms = training._terms()
    with timed(training.jobs) as clustering:
        tree = model._shaped(training._index(terms))
    sample = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _TIMED_TEXTS)).astype(np.int64))
    dense_features(model, encoder, [training.texts[int(row)] for row in sample[:8]])  # what happens once
    with timed() as embedding:
        dense_features(model, encoder, [training.texts[int(row)] for row in sample])
    each = embedding.seconds / len(sample) / _cores(training)
    layers = () if model.frozen else tuple(tree.layer_sizes[t] for t in model._trained_layers(tree))
    sizes = sizes_of(training, encoder, layers)
    rankers, share = _rankers(training, tree, terms, encoder.dim_out)
    parts, gpu = sizes.bytes(), _on_gpu(model)
    steps = 0
    if layers:
        settings = presets.deep_settings(model, presets.kind_of(encoder))
        steps = sum(settings.steps(n_rows, at, len(layers), model.accumulate) for at in range(len(layers)))
        steps *= settings.batch_size * model.accumulate
    where = " (on the GPU)" if gpu else ""
    phases: tuple[Phase, ...] = (
        Phase("features", making.seconds, terms.nbytes),
        Phase("tree", clustering.seconds, 0),
        Phase(f"encoder{where}", opening.seconds, parts["encoder"]),
        Phase(f"its training{where}", steps * each * _BACKWARD, parts["its training"]),
        Phase(f"node vectors{where}", 0.0, parts["node vectors"]),
        Phase("embeddings", n_rows * each * (1 + len(layers)), parts["embeddings"]),
        *(replace(p, seconds=p.seconds / share, peak_bytes=round(p.peak_bytes / share)) for p in rankers.phases),
    )
    phases = tuple(phase for phase in phases if phase.seconds or phase.peak_bytes)
    on_gpu = ("encoder", "its training", "node vectors") if gpu else ()
    held = terms.nbytes + sum(size for name, size in parts.items() if name not in on_gpu)
    ranking = terms.nbytes + (0 if gpu else parts["encoder"]) + n_rows * encoder.dim_out * 8
    ranking += round(max(phase.peak_bytes for phase in rankers.phases) / share)
    model_bytes = parts["encoder"] + state_bytes(training.vectorizer.to_state()) + round(rankers.model_bytes / share)
    model_bytes += state_bytes(training.vocabulary.to_state())
    found = Plan(
        sum(phase.seconds for phase in phases), now + max(held, ranking), model_bytes,
        None if available is None else now + available, phases,
    )  # fmt: skip
    return found if found.fits else replace(found, offers=(*_offers(model, encoder, sizes), *rankers.offers))


def _cores(training: TransformerTraining) -> int:
    """How many threads the encoder's clock counted; a process's time sums over them."""
    return 1 if _on_gpu(training.model) else max(1, training.jobs)


def _rankers(training: TransformerTraining, tree: Any, terms: Any, n_dense: int) -> tuple[Plan, float]:
    """The plan of the rankers on a part of the rows, and which share that is; what they see of the encoder is noise."""
    n_rows = terms.shape[0]
    rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _PLANNED_ROWS)).astype(np.int64))
    labels = take_rows(training.labels, rows)
    noise = np.random.default_rng(0).standard_normal((len(rows), n_dense), np.float32) / np.float32(np.sqrt(n_dense))
    features = beside(take_rows(terms, rows), noise)
    ranker = training.ranker(tree)
    weight = None if training.weight is None else validate.sample_weight(training.weight[rows], len(rows))
    folds = 0 if ranker.calibration is None else ranker.calibration_folds
    plan = rankers_plan(ranker, features, labels, [(tree, ranker.seed)], weight, training.jobs, (), folds)
    return plan, len(rows) / max(n_rows, 1)
