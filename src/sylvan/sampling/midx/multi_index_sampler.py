"""What the samplers that draw through an inverted multi-index have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from sylvan.errors import ParameterError
from sylvan.params import Choice, Constraint, Number
from sylvan.sampling.samplers.base import Sampler
from sylvan.sampling.samplers.counts import class_counts

__all__ = ["MultiIndexSampler"]

_MOST_CELLS = 1 << 28  # some GiB of offsets and codes


class MultiIndexSampler(Sampler):
    """Base of the samplers with codebooks: the parameters of these, and the classes' weights in the k-means."""

    constraints: ClassVar[dict[str, Constraint]] = {
        **Sampler.constraints,
        "n_codewords": Number(int, 1),
        "quantizer": Choice(("rq", "pq")),
        "n_codebooks": Number(int, 1, 10),
        "n_iterations": Number(int, 1),
        "warm_iterations": Number(int, 1),
        "sample_size": Number(int, 1, optional=True),
    }
    adaptive: ClassVar[bool] = True
    dim: int
    weights: Tensor | None

    def __init__(
        self,
        n_classes: int,
        dim: int,
        *,
        n_codewords: int,
        quantizer: str,
        n_codebooks: int,
        class_weights: Any,
        n_iterations: int,
        warm_iterations: int,
        sample_size: int | None,
        stale_after: int | None,
    ) -> None:
        super().__init__(n_classes, stale_after=stale_after)
        self.dim = dim
        self.n_codewords = n_codewords
        self.quantizer = quantizer
        self.n_codebooks = n_codebooks
        self.class_weights = class_weights
        self.n_iterations = n_iterations
        self.warm_iterations = warm_iterations
        self.sample_size = sample_size
        self.check_params(tuple(MultiIndexSampler.constraints))
        _check_books(type(self).__name__, dim, n_codewords, n_codebooks, quantizer)
        weights = None
        if class_weights is not None:
            weights = class_counts(class_weights, n_classes, owner=type(self).__name__, name="class_weights").float()
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
