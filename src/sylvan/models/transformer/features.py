"""The features of texts with an encoder: TF-IDF and the encoder's vectors side by side, each of a length of its own."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.canonical import Csr, beside
from sylvan.errors import ParameterError
from sylvan.models.transformer.transformer_matcher import TransformerMatcher
from sylvan.parallel import resolve_jobs

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder

__all__ = ["Lengths", "dense_features", "engine_of", "joined", "place", "torch_threads", "unit_terms"]

_REMEDY = "Lower max_length, or take a smaller encoder."
_started_in = os.getpid()


def unit_terms(vectorizer: Any, terms: Csr) -> Csr:
    """TF-IDF rows of length 1, whatever the vectoriser's own norm."""
    return terms if vectorizer.norm == "l2" else terms.unit_rows()


class Lengths(NamedTuple):
    """How long TF-IDF's part of a row is, and the encoder's.

    They are the same for all rows, those without a word among them: what the encoder has learned of clusters holds for
    its part of a row whatever stands beside it.
    """

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


def dense_features(
    encoder: TextEncoder, texts: Any, *, device: str, n_jobs: int | None,
    cache: str | os.PathLike[str] | None = None, engine: Any = None, normalize: bool = True,
) -> npt.NDArray[np.float32]:  # fmt: skip
    """The encoder's vectors of texts (or of their ids), of length 1 or, without ``normalize``, as they are.

    In float32 whatever the engine trains in: rankers learn from the same vectors that they are asked with.
    """
    from sylvan.neural.loop.memory import memory_sentences
    from sylvan.neural.text.embedding import embed

    with torch_threads(n_jobs), memory_sentences("Encoding texts", device, _REMEDY):
        if engine is None:
            place(encoder, device)
        else:
            engine = engine.without_rounding()
        return embed(encoder, texts, engine=engine, normalize=normalize, cache=cache)


def place(encoder: TextEncoder, device: str) -> None:
    """Bring an encoder's weights to a device; "auto" is a GPU where there is one.

    Raises
    ------
    ParameterError
        When there is no such device.
    """
    import torch

    from sylvan.neural.loop.memory import out_of_memory

    encoder.load()
    weight = next(iter(encoder.parameters()), None)
    try:
        wanted = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
        if weight is not None and wanted not in (weight.device, torch.device(weight.device.type)):
            encoder.to(wanted)
    except (RuntimeError, AssertionError) as error:  # what PyTorch raises, by the kind of device
        if out_of_memory(error):
            raise
        reason = " ".join(str(error).split())[:100].rstrip(".")
        raise ParameterError(
            f"The 'device' parameter must be a device that this PyTorch sees. Got {device!r} instead ({reason})."
        ) from error


def engine_of(device: str, matcher: TransformerMatcher | None) -> Any:
    """Where an encoder is trained; None for this process alone, on processors and without rounding.

    ``matcher`` is None where it isn't trained at all.

    Raises
    ------
    ParameterError
        For a device on which encoders are asked, but not trained, or one that hasn't got the precision.
    """
    import torch

    if matcher is None:
        return None
    if device.partition(":")[0] in ("mps", "xpu"):
        raise ParameterError(
            f"The 'device' parameter must be 'auto', 'cpu' or 'cuda' where the encoder is trained: on {device!r} texts "
            f"are only encoded, by frozen=True and in ranking. Got {device!r} instead."
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
    from sylvan.neural.loop.engine import Engine

    return Engine(device, matcher.precision, matcher.accumulate)


@contextmanager
def torch_threads(n_jobs: int | None) -> Iterator[None]:
    """PyTorch computes with so many threads; in a forked child with one, as its threads don't survive a fork."""
    import torch

    before = torch.get_num_threads()
    # A number beyond any machine's cores, which a damaged manifest may hold, would overflow there.
    most = max(64, os.cpu_count() or 1)
    wanted = min(resolve_jobs(n_jobs), most) if os.getpid() == _started_in else 1
    if wanted == before:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
