"""The vectors that encoders give, on the device and with the threads that a model has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import ParameterError
from sylvan.parallel import resolve_jobs

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder
    from sylvan.runtime import Runner

FEW_TEXTS = 8
_REMEDY = "Lower max_length, or take a smaller encoder."
_started_in = os.getpid()


def dense_features(
    encoder: TextEncoder, texts: Any, *, device: str, n_jobs: int | None,
    cache: str | os.PathLike[str] | None = None, engine: Any = None, normalize: bool = True,
    description: str = "Encoding texts", runner: Runner | None = None,
) -> npt.NDArray[np.float32]:  # fmt: skip
    """The encoder's vectors of texts (or of their ids), of length 1 or, without ``normalize``, as they are. In float32
    whatever the engine trains in: rankers learn from the same vectors that they are asked with. A ``runner`` is given
    what :func:`~sylvan.neural.text.embedding.embed` gives it."""
    from sylvan.neural.loop.engine import memory_sentences
    from sylvan.neural.text.embedding import embed

    with torch_threads(n_jobs), memory_sentences("Encoding texts", device, _REMEDY):
        if engine is None:
            place(encoder, device)
        else:
            engine = engine.without_rounding()
        return embed(
            encoder, texts, engine=engine, normalize=normalize, cache=cache, description=description, runner=runner
        )


def encoded(
    encoder: TextEncoder, texts: list[str], n_jobs: int | None, description: str = "Encoding texts"
) -> npt.NDArray[np.float32]:
    """Vectors of length 1, or of zeros for texts with nothing in them; computed on a GPU where there is one. A few
    texts are encoded on one thread: on a busy machine, threads that wait for one another take far longer."""
    n_jobs = 1 if len(texts) < FEW_TEXTS else n_jobs
    vectors = dense_features(encoder, texts, device="auto", n_jobs=n_jobs, description=description)
    vectors[[not text.strip() for text in texts]] = 0
    return vectors


def place(encoder: TextEncoder, device: str) -> None:
    """Bring an encoder's weights to a device; "auto" is a GPU where there is one."""
    import torch

    from sylvan.neural.loop.engine import out_of_memory

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
