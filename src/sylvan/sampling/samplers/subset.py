"""A sampler of some of the classes only, such as all but the frequent ones."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from sylvan.errors import DataError
from sylvan.params.fields import Instance, attribute, parameterized
from sylvan.sampling.samplers.base import Draw, Sampler
from sylvan.sampling.tensors import need_integers


@parameterized
class Subset(Sampler):
    """Draws from some classes with a sampler that was made for so many, and never from the others.

    Parameters
    ----------
    n_classes : int
        Number of all classes.
    sampler : Sampler
        For as many classes as are drawn from; it numbers them in the order of ``classes`` and, if it is adaptive, sees
        their embeddings alone.
    classes : sequence, array or Tensor of int, shape (n,)
        The classes that are drawn from, each once.

    Raises
    ------
    ParameterError
        When a parameter is out of its range.
    DataError
        When ``classes`` aren't distinct classes, as many as the sampler has.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import Subset, Uniform
    >>> sampler = Subset(5, Uniform(2), [1, 4])
    >>> sampler.log_prob(torch.zeros(1, 8), torch.arange(5)).exp().tolist()
    [[0.0, 0.5, 0.0, 0.0, 0.5]]
    """

    sampler: Annotated[Sampler, Instance(words="a sampler of sylvan.sampling")]
    classes: Any
    drawn: Tensor = attribute()
    places: Tensor = attribute()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.adaptive = self.sampler.adaptive  # type: ignore[misc]
        self.dim = self.sampler.dim
        ids = torch.as_tensor(np.asarray(self.classes.cpu() if isinstance(self.classes, Tensor) else self.classes))
        self._check_classes(ids)
        places = torch.full((self.n_classes,), -1)
        places[ids] = torch.arange(len(ids))
        self.register_buffer("drawn", ids.long())
        self.register_buffer("places", places)

    def _check_classes(self, ids: Tensor) -> None:
        if ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype == torch.bool or ids.dim() != 1:
            raise DataError(
                f"The classes of Subset must be a list of class numbers. Got {ids.dtype} of the shape "
                f"{tuple(ids.shape)} instead."
            )
        if len(ids) != self.sampler.n_classes:
            raise DataError(
                f"The classes of Subset must be as many as its {type(self.sampler).__name__} draws from, "
                f"{self.sampler.n_classes}. Got {len(ids)} instead."
            )
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= self.n_classes:
            raise DataError(
                f"The classes of Subset must lie in [0, {self.n_classes}). Got {low if low < 0 else high} instead."
            )
        if len(torch.unique(ids)) < len(ids):
            raise DataError("The classes of Subset must be distinct; at least one is there twice.")

    @property
    def learnable(self) -> Any:
        """As the inner sampler's: whether its codewords are learned, and how."""
        return getattr(self.sampler, "learnable", False)

    def learning_loss(self, queries: Tensor, class_embeddings: Tensor) -> Tensor:
        """The inner sampler's loss for its codewords, on the embeddings of the classes that it draws from."""
        result: Tensor = self.sampler.learning_loss(queries, class_embeddings[self.drawn])  # type: ignore[operator]
        return result

    def observe(self, targets: Tensor) -> None:
        """Let the inner sampler see those targets that it draws from."""
        places = self.places[need_integers(targets, "The targets given to Subset")]
        self.sampler.observe(places[places >= 0])

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        draw = self.sampler.sample(queries, n, generator=generator)
        return Draw(self.drawn[draw.ids], draw.log_q)

    def _draw_shared(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        draw = self.sampler.sample(queries, n, shared=True, generator=generator)
        return Draw(self.drawn[draw.ids], draw.log_q)

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        places = self.places[ids]
        log_q = self.sampler.log_prob(queries, places.clamp(min=0))
        return log_q.masked_fill(places < 0, -torch.inf)

    def _refresh(self, table: Tensor) -> None:
        self.sampler.refresh(table[self.drawn])
