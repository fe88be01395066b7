"""The contract of every sampler: draw classes for queries, with the exact log-probability of each draw."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sylvan.errors import DataError, NotFittedError
from sylvan.params.fields import KW_ONLY, Number, Parameterized, Range, attribute, check_value, parameterized
from sylvan.sampling.tensors import need_floats, need_integers, need_shape, need_tensor, outsider, without_gradient


def class_counts(values: Any, n_classes: int | None, *, owner: str, name: str = "counts") -> Tensor:
    """One weight a class, checked."""
    # Shape: values (n_classes,); returns (n_classes,)
    many = "" if n_classes is None else f"{n_classes} "
    wanted = f"The {name!r} of {owner} must be {many}numbers in [0, inf), one a class, not all zero."
    if isinstance(values, Tensor):
        if values.is_complex():
            raise DataError(f"{wanted} Got {values.dtype} instead.")
        weights = values.detach().to(torch.float64)
    else:
        try:
            array = np.asarray(values)
            if array.dtype.kind not in "buif":
                raise TypeError
            weights = torch.from_numpy(array.astype(np.float64))
        except (TypeError, ValueError):
            raise DataError(f"{wanted} Got {type(values).__name__} that isn't an array of such.") from None
    if weights.dim() != 1 or len(weights) != (n_classes or max(1, len(weights))):
        raise DataError(f"{wanted} Got the shape {tuple(weights.shape)} instead.")
    if not bool(torch.isfinite(weights).all()):
        raise DataError(f"{wanted} There is a NaN or an infinity among them.")
    if (lowest := float(weights.min())) < 0:
        raise DataError(f"{wanted} Class {int(weights.argmin())} has {lowest:g}.")
    if not 0 < (total := float(weights.sum())) < math.inf:
        raise DataError(f"{wanted} Got a sum of {total:g}.")
    return weights


def _full_precision(tensor: Tensor) -> torch.autocast:
    """Out of any autocast: a probability from products in float16 wouldn't be that of the draw."""
    return torch.autocast(tensor.device.type, enabled=False)


class StaleSamplerWarning(UserWarning):
    """A sampler has drawn for many steps since it last saw the class embeddings."""


class Draw(NamedTuple):
    """Classes drawn, with repetition, and the log-probability of each.

    Attributes
    ----------
    ids : Tensor of int64, shape (..., n) like the queries, or (n,) when the draws are shared by the batch
        The classes.
    log_q : Tensor of float32, the shape of ``ids``
        Natural logarithm of the probability with which one draw gives that class, exact for what was drawn.
        For shared draws the probability is the mean of the batch's.
    """

    ids: Tensor
    log_q: Tensor


@parameterized
class Sampler(Parameterized, nn.Module):
    """Base of every sampler: the checks, shared draws and staleness; a sampler writes ``_draw`` and ``_log_prob``.

    Random numbers come from PyTorch's generator of the queries' device (``torch.manual_seed`` decides them), or
    from the one given. The index of an adaptive sampler lives in buffers: ``to(device)`` and ``state_dict`` carry it.

    Parameters
    ----------
    n_classes : int
        Number of classes, in [1, inf); ids lie in ``[0, n_classes)``.

    Attributes
    ----------
    adaptive : bool
        Whether the distribution depends on the query. An adaptive sampler must be refreshed before it draws.
    dim : int or None
        Number of dimensions of queries and class embeddings; None for samplers that look at neither.

    Raises
    ------
    ParameterError
        When a parameter is out of its range.
    """

    n_classes: Annotated[int, Range(1)]
    adaptive: ClassVar[bool] = False
    dim: int | None = attribute(None)
    stale_after: int | None = attribute(None)

    if TYPE_CHECKING:  # what isn't declared is a buffer

        def __getattr__(self, name: str) -> Tensor: ...

    def __post_init__(self) -> None:
        self.check_params()
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
        queries : Tensor of float, shape (..., dim)
            One vector a query, any number of leading dimensions. Samplers that aren't adaptive look at their number
            and device only.
        n : int
            Draws for each query, or in all when ``shared``.
        shared : bool
            Draw once for the whole batch, each time for a query of it chosen at random; ``log_q`` then belongs to
            that mixture.
        generator : torch.Generator, optional
            Where random numbers come from; PyTorch's default generator when None.

        Returns
        -------
        Draw
            ``ids`` and ``log_q`` of the shape (..., n), or (n,) when ``shared``.

        Raises
        ------
        ParameterError
            When ``n`` isn't an int in [1, inf).
        DataError
            When ``queries`` hasn't the shape (..., dim), holds no query or isn't of a floating dtype.
        NotFittedError
            When the sampler is adaptive and was never refreshed.
        """
        check_value("n", n, Number(int, 1), f"{type(self).__name__}.sample")
        self._check_queries(queries)
        self._check_refreshed()
        self._draws_since_refresh += self.adaptive and self.stale_after is not None
        if self.stale_after is not None and self._draws_since_refresh == self.stale_after + 1:
            warnings.warn(
                f"This {type(self).__name__} has drawn {self.stale_after:,} times since its last refresh; its "
                "probabilities may be far from the softmax's by now. Call refresh(class_embeddings) more often, or "
                "raise stale_after.",
                StaleSamplerWarning,
                stacklevel=4,
            )
        rows = queries.reshape(-1, queries.shape[-1])
        with _full_precision(rows):
            if shared:
                return self._draw_shared(rows, n, generator)
            ids, log_q = self._draw(rows, n, generator)
        outer = queries.shape[:-1]
        return Draw(ids.reshape(*outer, n), log_q.reshape(*outer, n))

    @without_gradient
    def log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        """Log-probability that one draw for each query gives each of ``ids``.

        Parameters
        ----------
        queries : Tensor of float, shape (..., dim)
        ids : Tensor of int, shape (..., m), or (m,) for the same classes for every query

        Returns
        -------
        Tensor of float32, shape (..., m)
            Minus infinity for a class that is never drawn.

        Raises
        ------
        DataError
            When the shapes or dtypes don't fit, or an id isn't in [0, n_classes).
        NotFittedError
            When the sampler is adaptive and was never refreshed.
        """
        self._check_queries(queries)
        self._check_refreshed()
        outer = queries.shape[:-1]
        name = f"The ids given to {type(self).__name__}.log_prob"
        ids = need_integers(ids, name)
        wanted = f"({', '.join(map(str, outer))}, m), like the queries, or (m,)"
        need_shape(ids.dim() == 1 or ids.shape[:-1] == outer, ids, name, wanted)
        # To look at ids on a GPU is to wait for it; there the kernels assert.
        if ids.device.type == "cpu" and ids.numel() and (wrong := outsider(ids, self.n_classes)) is not None:
            raise DataError(f"{name} must be in [0, {self.n_classes}). Got {wrong}.")
        rows = queries.reshape(-1, queries.shape[-1])
        wide = ids.expand(len(rows), -1) if ids.dim() == 1 else ids.reshape(len(rows), -1)
        with _full_precision(rows):
            return self._log_prob(rows, wide).reshape(*outer, ids.shape[-1])

    @without_gradient
    def shared_log_prob(self, queries: Tensor, ids: Tensor) -> Tensor:
        """Log of the batch's mean probability of each of ``ids`` (m,): what ``sample(shared=True)`` draws from.

        Parameters
        ----------
        queries : Tensor of float, shape (..., dim)
        ids : Tensor of int, shape (m,)

        Returns
        -------
        Tensor of float32, shape (m,)

        Raises
        ------
        DataError
            As :meth:`log_prob`, and when ``ids`` has more than one dimension.
        """
        name = f"The ids given to {type(self).__name__}.shared_log_prob"
        need_tensor(ids, name)
        need_shape(ids.dim() == 1, ids, name, "(m,)")
        self._check_queries(queries)
        rows = queries.reshape(-1, queries.shape[-1])
        if not self.adaptive:
            return self.log_prob(rows[:1], ids)[0]
        return torch.logsumexp(self.log_prob(rows, ids), dim=0) - math.log(len(rows))

    @without_gradient
    def refresh(self, class_embeddings: Tensor) -> None:
        """Take note of the class embeddings as they are now; samplers that aren't adaptive check the shape only.

        Parameters
        ----------
        class_embeddings : Tensor of float, shape (n_classes, dim)

        Raises
        ------
        DataError
            When it isn't a tensor, its shape, dtype or (of an adaptive sampler's) device doesn't fit, or a value isn't
            finite.
        """
        self._check_table(class_embeddings, "refresh")
        table = class_embeddings.detach()
        if self.adaptive:
            name = f"The class embeddings given to {type(self).__name__}.refresh"
            for buffer in self.buffers():
                if buffer.device != table.device:
                    raise DataError(
                        f"{name} are on {table.device}, its index on {buffer.device}: move it there with "
                        f"sampler.to({str(table.device)!r}), once."
                    )
            if not bool(torch.isfinite(table).all()):
                raise DataError(f"{name} must be finite; there is a NaN or an infinity among them.")
        with _full_precision(table):
            self._refresh(table)
        self._refreshed = True
        self._draws_since_refresh = 0

    def observe(self, targets: Tensor) -> None:
        """Take note of a batch's targets (batch,): losses call it before they draw, and most samplers ignore it."""

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
        name = f"The queries given to {type(self).__name__}"
        need_tensor(queries, name)
        fits = queries.dim() >= 2 and queries.shape[:-1].numel() > 0 and self.dim in (None, queries.shape[-1])
        need_shape(fits, queries, name, f"(..., {self.dim or 'dim'}), at least two dimensions and one query")
        need_floats(queries, name)

    def _check_table(self, table: Tensor, method: str) -> None:
        name = f"The class embeddings given to {type(self).__name__}.{method}"
        need_floats(table, name)
        fits = table.dim() == 2 and len(table) == self.n_classes and self.dim in (None, table.shape[1])
        need_shape(fits, table, name, f"({self.n_classes}, {self.dim or 'dim'})")

    def _check_refreshed(self) -> None:
        if self.adaptive and not self._refreshed:
            raise NotFittedError(
                f"This {type(self).__name__} has never seen the class embeddings. "
                "Call refresh(class_embeddings) before the first draw, and again as they change."
            )

    # What a module does to its buffers.

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Sampler:
        """Move to another device, but keep the precision: ``half()`` of a model mustn't bend the probabilities."""

        def moved(tensor: Tensor) -> Tensor:
            result = fn(tensor)
            return result if result.dtype == tensor.dtype else tensor.to(result.device)

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take back what ``state_dict`` gave (:meth:`torch.nn.Module.load_state_dict`).

        Raises
        ------
        DataError
            When the state is that of another sampler, or of one with other parameters.
        """
        try:
            return super().load_state_dict(state_dict, strict=strict, assign=assign)
        except RuntimeError as error:
            faults = " ".join(line.strip() for line in str(error).splitlines()[1:3])
            raise DataError(
                f"This state isn't one of {type(self).__name__} with these parameters (n_classes={self.n_classes}"
                f"{'' if self.dim is None else f', dim={self.dim}'}, ...): make it with the parameters of the sampler "
                f"that was saved. {faults}"
            ) from error

    # What state_dict holds beside the buffers.

    def get_extra_state(self) -> dict[str, Any]:
        """Whether and how long ago the sampler was refreshed (:meth:`torch.nn.Module.get_extra_state`)."""
        return {"refreshed": self._refreshed, "draws_since_refresh": self._draws_since_refresh}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`get_extra_state` gave."""
        self._refreshed = bool(state["refreshed"])
        self._draws_since_refresh = int(state["draws_since_refresh"])


@parameterized
class AdaptiveSampler(Sampler):
    """Base of samplers whose distribution depends on the query and on the class embeddings.
    Parameters
    ----------
    dim : int
        Number of dimensions of queries and class embeddings, in [1, inf).
    stale_after : int, optional
        Warn after that many draws without a refresh.
    """

    adaptive: ClassVar[bool] = True

    dim: Annotated[int, Range(1)]
    _: KW_ONLY
    stale_after: Annotated[int | None, Range(1)] = None  # warn after so many draws without a refresh
