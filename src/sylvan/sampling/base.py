"""The contract of every sampler: draw classes for queries, with the exact log-probability of each draw."""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from sylvan.errors import DataError, NotFittedError, ParameterError
from sylvan.params import Parameterized
from sylvan.sampling.eager import without_gradient

__all__ = ["Draw", "Sampler", "StaleSamplerWarning"]


class StaleSamplerWarning(UserWarning):
    """A sampler has drawn for many steps since it last saw the class embeddings."""


class Draw(NamedTuple):
    """Classes drawn, with repetition, and the log-probability of each.

    Attributes
    ----------
    ids : Tensor of int64, shape (batch, n), or (n,) when the draws are shared by the batch
        The classes.
    log_q : Tensor of float32, the shape of ``ids``
        Natural logarithm of the probability with which one draw gives that class, exact for what was drawn.
        For shared draws the probability is the mean of the batch's.
    """

    ids: Tensor
    log_q: Tensor


class Sampler(Parameterized, nn.Module):
    """Base of every sampler: the checks, shared draws and staleness; a sampler writes ``_draw`` and ``_log_prob``.

    Random numbers come from PyTorch's generator of the queries' device (``torch.manual_seed`` decides them), or
    from the one given. The index of an adaptive sampler lives in buffers: ``to(device)`` and ``state_dict`` carry it.

    Attributes
    ----------
    n_classes : int
        How many classes there are; ids lie in ``[0, n_classes)``.
    adaptive : bool
        Whether the distribution depends on the query. An adaptive sampler must be refreshed before it draws.
    dim : int or None
        Number of dimensions of queries and class embeddings; None for samplers that look at neither.
    """

    adaptive: ClassVar[bool] = False
    dim: int | None = None
    n_classes: int
    stale_after: int | None

    def __init__(self, n_classes: int, *, stale_after: int | None = None) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.stale_after = stale_after
        self._refreshed = False
        self._draws_since_refresh = 0

    # What users call.

    @without_gradient
    def sample(
        self, queries: Tensor, n: int, *, shared: bool = False, generator: torch.Generator | None = None
    ) -> Draw:
        """Draw ``n`` classes, with repetition, for every query or once for all of them.

        Parameters
        ----------
        queries : Tensor of float, shape (batch, dim)
            One row a query. Samplers that aren't adaptive look at its first size and device only.
        n : int
            Draws for each query, or in all when ``shared``.
        shared : bool
            Draw once for the whole batch, each time for a query of it chosen at random; ``log_q`` then belongs to
            that mixture.
        generator : torch.Generator, optional
            Where random numbers come from; PyTorch's default generator when None.

        Raises
        ------
        ParameterError
            When ``n`` isn't an int in [1, inf).
        DataError
            When ``queries`` hasn't the shape (batch, dim), or no row.
        NotFittedError
            When the sampler is adaptive and was never refreshed.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ParameterError(
                f"The number of draws of {type(self).__name__}.sample must be an int in [1, inf). Got {n!r} instead."
            )
        self._check_queries(queries)
        self._check_fresh()
        if not shared:
            return self._draw(queries, n, generator)
        return self._draw_shared(queries, n, generator)

    @without_gradient
    def log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        """Log-probability that one draw for each query gives each of ``ids``.

        Parameters
        ----------
        queries : Tensor of float, shape (batch, dim)
        ids : Tensor of int64, shape (batch, m), or (m,) for the same classes for every query

        Returns
        -------
        Tensor of float32, shape (batch, m)
            Minus infinity for a class that is never drawn.
        """
        self._check_queries(queries)
        self._check_refreshed()
        if ids.dim() == 1:
            ids = ids.expand(len(queries), -1)
        if ids.dim() != 2 or len(ids) != len(queries):
            raise DataError(
                f"The ids given to {type(self).__name__}.log_prob must have the shape ({len(queries)}, m) or (m,), "
                f"like the queries. Got {tuple(ids.shape)} instead."
            )
        return self._log_prob(queries, ids)

    @without_gradient
    def shared_log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        """Log of the batch's mean probability of each of ``ids`` (m,): what ``sample(shared=True)`` draws from."""
        return torch.logsumexp(self.log_prob(queries, ids), dim=0) - math.log(len(queries))

    @without_gradient
    def refresh(self, class_embeddings: Tensor) -> None:
        """Take note of the class embeddings as they are now; samplers that aren't adaptive check the shape only.

        Parameters
        ----------
        class_embeddings : Tensor of float, shape (n_classes, dim)

        Raises
        ------
        DataError
            When the shape doesn't fit, or a value isn't finite.
        """
        table = class_embeddings.detach()
        if table.dim() != 2 or len(table) != self.n_classes or (self.dim is not None and table.shape[1] != self.dim):
            raise DataError(
                f"The class embeddings given to {type(self).__name__}.refresh must have the shape "
                f"({self.n_classes}, {self.dim or 'dim'}). Got {tuple(table.shape)} instead."
            )
        if self.adaptive and not bool(torch.isfinite(table).all()):
            raise DataError(
                f"The class embeddings given to {type(self).__name__}.refresh must be finite; "
                "there is a NaN or an infinity among them."
            )
        self._refresh(table)
        self._refreshed = True
        self._draws_since_refresh = 0

    def observe(self, targets: Tensor) -> None:
        """Told by a loss, before it draws, which classes the batch is about, shape (batch,); most don't listen."""

    # What a sampler writes. Queries are checked; ids have the shape (batch, m).

    def _draw(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        raise NotImplementedError

    def _log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        raise NotImplementedError

    def _refresh(self, table: Tensor) -> None:
        """Rebuild the index from the class embeddings; called under ``no_grad`` with a detached table."""

    def _draw_shared(self, queries: Tensor, n: int, generator: torch.Generator | None) -> Draw:
        if not self.adaptive:
            ids, log_q = self._draw(queries[:1], n, generator)
            return Draw(ids[0], log_q[0])
        rows = torch.randint(len(queries), (n,), generator=generator, device=queries.device)
        ids = self._draw(queries[rows], 1, generator).ids[:, 0]
        return Draw(ids, self.shared_log_prob(queries, ids))

    # Checks.

    def _check_queries(self, queries: Tensor) -> None:
        wrong = queries.dim() != 2 or len(queries) == 0
        if wrong or (self.dim is not None and queries.shape[1] != self.dim):
            raise DataError(
                f"The queries given to {type(self).__name__} must have the shape (batch, {self.dim or 'dim'}) with at "
                f"least one row. Got {tuple(queries.shape)} instead."
            )

    def _check_refreshed(self) -> None:
        if self.adaptive and not self._refreshed:
            raise NotFittedError(
                f"This {type(self).__name__} has never seen the class embeddings. "
                "Call refresh(class_embeddings) before the first draw, and again as they change."
            )

    def _check_fresh(self) -> None:
        self._check_refreshed()
        if not self.adaptive or self.stale_after is None:
            return
        self._draws_since_refresh += 1
        if self._draws_since_refresh == self.stale_after + 1:
            warnings.warn(
                f"This {type(self).__name__} has drawn {self.stale_after:,} times since its last refresh; its "
                "probabilities may be far from the softmax's by now. Call refresh(class_embeddings) more often, or "
                "raise stale_after.",
                StaleSamplerWarning,
                stacklevel=6,
            )

    # What state_dict holds beside the buffers.

    def get_extra_state(self) -> dict[str, Any]:
        """Whether and how long ago the sampler was refreshed (:meth:`torch.nn.Module.get_extra_state`)."""
        return {"refreshed": self._refreshed, "draws_since_refresh": self._draws_since_refresh}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """What :meth:`get_extra_state` told, taken back."""
        self._refreshed = bool(state["refreshed"])
        self._draws_since_refresh = int(state["draws_since_refresh"])
