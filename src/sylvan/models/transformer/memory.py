"""The memory that training an encoder and its rankers takes, from sizes alone; a refusal where it isn't there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sylvan.errors import DataError, MemoryLimitError
from sylvan.matching.negatives import csr_bytes
from sylvan.models.transformer.presets import TransformerMatcher, kind_of
from sylvan.params.wording import shown_bytes
from sylvan.ranking.linear import solver_bytes
from sylvan.runtime.memory import available_bytes, resident_bytes
from sylvan.runtime.plan import Plan
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder

_COUNTED_TEXTS = 256  # whose terms are counted
_SPARED = 4.0  # of activations, by checkpointing


@dataclass(frozen=True)
class EncoderSizes:
    """What the memory of an encoder's training follows from."""

    n_rows: int  # n_rows, n_tokens: texts, and tokens of all of them, none longer than the encoder looks at
    n_tokens: int
    n_weights: int  # of the encoder
    n_trained: int  # those of them that are trained, tables with sparse gradients apart
    n_table: int  # those in such tables
    n_wide: int  # values that one token leaves behind on its way through the network, for the way back
    n_dense: int  # dimensions of a text's vector
    batch_tokens: int  # tokens of one batch
    layer_sizes: tuple[int, ...]  # nodes of the layers that are trained
    n_terms: int = 0  # TF-IDF's values of all texts

    def bytes(self) -> dict[str, int]:
        """What each part takes, in the order in which a training needs them."""
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
    encoder: TextEncoder, texts: Sequence[str], matcher: TransformerMatcher | None, layer_sizes: tuple[int, ...],
    n_terms: int,
) -> EncoderSizes:  # fmt: skip
    """The sizes of one training; the tokens of texts that aren't cut yet are estimated from their characters."""
    tables = {id(table) for table in encoder.tables()}
    weights = list(encoder.parameters())
    trained = [weight for weight in weights if weight.requires_grad]
    parts: list[Any] = [part for part in encoder.modules() if type(part).__name__ == "Linear"]
    wide = sum(int(part.in_features + part.out_features) for part in parts)
    characters = np.fromiter(map(len, texts), np.int64, len(texts))
    lengths = np.minimum(characters // 4 + 2, encoder.max_length)
    batch = 0 if matcher is None else matcher.batch_size
    longest = int(lengths.max(initial=1))
    return EncoderSizes(
        n_rows=len(texts), n_tokens=int(lengths.sum()) * (4 if kind_of(encoder) == "bag" else 1),
        n_weights=sum(weight.numel() for weight in weights),
        n_trained=sum(weight.numel() for weight in trained if id(weight) not in tables),
        n_table=sum(weight.numel() for weight in trained if id(weight) in tables),
        n_wide=round(wide * 1.5 / (_SPARED if _checkpoints(encoder) else 1)), n_dense=encoder.dim_out,
        batch_tokens=batch * longest, layer_sizes=() if matcher is None else layer_sizes, n_terms=n_terms,
    )  # fmt: skip


def _checkpoints(encoder: TextEncoder) -> bool:
    """Whether an encoder computes activations again in place of storing them."""
    return bool(getattr(encoder, "gradient_checkpointing", False))


def memory_words(sizes: EncoderSizes, gpu: bool = False) -> str:
    """The estimate as one line."""
    parts = ", ".join(f"{name} {shown_bytes(n)}" for name, n in sizes.bytes().items() if n and name != "rankers")
    words = f"The encoder needs about {shown_bytes(sizes.training)} of memory: {parts}; about "
    words += f"{shown_bytes(sizes.ranking)} when the rankers are solved."
    return words if not gpu else f"{words} The GPU holds about {shown_bytes(sizes.gpu)} of the encoder's."


def estimated_terms(vectorizer: TfidfVectorizer, texts: Sequence[str]) -> int:
    """How many values TF-IDF will have, by a few of the texts."""
    n_rows = len(texts)
    rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _COUNTED_TEXTS)).astype(np.int64))
    params = {**vectorizer.get_params(), "min_df": 1, "max_df": 1.0, "n_jobs": 1}
    try:
        terms = TfidfVectorizer(**params).fit_transform_rows([texts[int(row)] for row in rows])
    except DataError:  # not one term in these
        return 0
    return round(terms.nnz * n_rows / len(rows))


def refuse_beyond_memory(
    encoder: TextEncoder, sizes: EncoderSizes, matcher: TransformerMatcher | None, device: str
) -> None:
    """Raise a MemoryLimitError where the machine, or its GPU, clearly hasn't got the memory."""
    gpu, available, resident = on_gpu(device), available_bytes(), resident_bytes()
    free = _free_on_gpu(device) if gpu else None
    if free is not None and sizes.gpu > free:
        offers = memory_offers(encoder, sizes, matcher, lambda smaller: smaller.gpu)
        raise MemoryLimitError(
            f"Training the encoder would take about {shown_bytes(sizes.gpu)} of the GPU's memory, of which only "
            f"{shown_bytes(free)} are free. What takes less: {'; '.join(offers)}. "
            "Or go on regardless with force=True (--force)."
        )
    needed = max(sizes.training - sizes.gpu, sizes.ranking - sizes.bytes()["encoder"]) if gpu else sizes.total
    if available is not None and needed > available:
        Plan(0.0, resident + needed, 0, resident + available, (), tuple(memory_offers(encoder, sizes, matcher))).check()


def on_gpu(device: str) -> bool:
    """Whether an encoder is trained on a GPU of CUDA's."""
    import torch

    return device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())


def _free_on_gpu(device: str) -> int | None:
    """Bytes that nobody uses on a GPU; None where it isn't there, which is said elsewhere."""
    import torch

    try:
        return int(torch.cuda.mem_get_info(torch.device("cuda" if device == "auto" else device))[0])
    except (RuntimeError, AssertionError, ValueError):
        return None


def memory_offers(
    encoder: TextEncoder, sizes: EncoderSizes, matcher: TransformerMatcher | None,
    of: Callable[[EncoderSizes], int] | None = None,
) -> list[str]:  # fmt: skip
    """What takes less, the most harmless first; ``of`` says which memory is short, by default the machine's."""
    offers = []
    needed = (lambda need: need.total) if of is None else of

    def offer(words: str, smaller: EncoderSizes) -> None:
        if needed(smaller) < 0.98 * needed(sizes):
            offers.append(f"{words} (about {shown_bytes(needed(smaller))})")

    half = replace(sizes, batch_tokens=sizes.batch_tokens // 2)
    if matcher is not None:
        size, accumulate = max(1, matcher.batch_size // 2), 2 * matcher.accumulate
        offer(f"matcher__batch_size={size} with matcher__accumulate={accumulate}", half)
        if not _checkpoints(encoder):
            offer("matcher__gradient_checkpointing=True", replace(sizes, n_wide=round(sizes.n_wide / _SPARED)))
        offer("half the max_length", replace(half, n_tokens=sizes.n_tokens // 2))
        if matcher.lora_rank is None:
            offer("matcher__lora_rank=8", replace(sizes, n_trained=sizes.n_trained // 50))
        smaller = tuple(size for size in sizes.layer_sizes if size < max(sizes.layer_sizes))
        if smaller:
            offer(f"matcher__max_nodes={max(smaller)}", replace(sizes, layer_sizes=smaller))
        offer("frozen=True", replace(sizes, layer_sizes=()))
    if of is None and sizes.ranking >= sizes.training:
        offers.append("fewer terms (a vectorizer with max_features or a higher min_df)")
    offers.append("a smaller encoder")
    return offers
