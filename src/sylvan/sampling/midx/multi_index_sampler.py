"""What the samplers that draw through an inverted multi-index have in common."""

from __future__ import annotations

from typing import Annotated, Any

from torch import Tensor

from sylvan.errors import ParameterError
from sylvan.params import KW_ONLY, Choice, Range, attribute, parameterized
from sylvan.sampling.samplers.base import AdaptiveSampler
from sylvan.sampling.samplers.counts import class_counts

__all__ = ["MultiIndexSampler"]

_MOST_CELLS = 1 << 28  # some GiB of offsets and codes


@parameterized
class MultiIndexSampler(AdaptiveSampler):
    """Base of the samplers with codebooks: the parameters of these, and the classes' weights in the k-means."""

    _: KW_ONLY
    n_codewords: Annotated[int, Range(1)] = 64
    quantizer: Annotated[str, Choice(("rq", "pq"))] = "rq"
    n_codebooks: Annotated[int, Range(1, 10)] = 2
    class_weights: Any = None
    n_iterations: Annotated[int, Range(1)] = 10
    warm_iterations: Annotated[int, Range(1)] = 2
    sample_size: Annotated[int | None, Range(1)] = 65_536

    weights: Tensor | None = attribute()

    def __post_init__(self) -> None:
        super().__post_init__()
        owner, weights = type(self).__name__, None
        _check_books(owner, self.dim, self.n_codewords, self.n_codebooks, self.quantizer)
        if self.class_weights is not None:
            weights = class_counts(self.class_weights, self.n_classes, owner=owner, name="class_weights").float()
        self.register_buffer("weights", weights, persistent=False)


    @property
    def _iterations(self) -> int:
        """Lloyd iterations of the refresh to come: fewer when there are codebooks to start from."""
        return self.warm_iterations if self._refreshed else self.n_iterations


def _check_books(name: str, dim: int, n_codewords: int, n_codebooks: int, quantizer: str) -> None:
    """What the numbers of codebooks and codewords must hold together."""
    if quantizer == "pq" and n_codebooks > dim:
        raise ParameterError(
            f"The 'n_codebooks' parameter of {name} must be an int in [1, {dim}], the number of dimensions, for the "
            f"quantizer 'pq'. Got {n_codebooks!r} instead."
        )
    if n_codebooks <= 2 and n_codewords**n_codebooks > _MOST_CELLS:
        raise ParameterError(
            f"{name} lists every cell of up to two codebooks, of which there may be {_MOST_CELLS:,} at most: "
            f"n_codewords ** n_codebooks. Got {n_codewords!r} ** {n_codebooks!r} instead."
        )
    if n_codewords**n_codebooks >= 2**62:
        raise ParameterError(
            f"{name} needs n_codewords ** n_codebooks below 2 ** 62. Got {n_codewords!r} ** {n_codebooks!r} instead."
        )
