"""Candidates against noises: a few competitive classes in full, one or a few others for all the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from sylvan.errors import DataError
from sylvan.params.fields import KW_ONLY, Instance, Parameterized, Range, parameterized
from sylvan.sampling.losses.logits import class_logits
from sylvan.sampling.losses.loss import ClassLoss, Positives
from sylvan.sampling.losses.outside import Selection, cane_losses, select
from sylvan.sampling.samplers.base import Sampler
from sylvan.sampling.tensors import need_floats, without_gradient


class CandidateModel(Parameterized, nn.Module):
    """Base of selectors with parameters of their own. A selector without any may be a plain function instead. Called as
    ``candidates(queries, class_embeddings) -> ids``, int64 (batch, c), places that hold none being -1."""

    n_classes: int | None = None  # n_classes, dim: which class embeddings it is for; None for any
    dim: int | None = None

    def check_table(self, class_embeddings: Tensor) -> None:
        """Hold that class embeddings are those that this was made for.

        Raises
        ------
        DataError
            When they aren't a tensor of floats, or of another shape.
        """
        name = type(self).__name__
        need_floats(class_embeddings, f"The class embeddings given to {name}")
        rows, dim = self.n_classes, self.dim
        shape = tuple(class_embeddings.shape)
        if len(shape) != 2 or shape[0] != (rows or shape[0]) or shape[1] != (dim or shape[1]):
            raise DataError(
                f"The class embeddings given to {name} must have the shape ({rows or 'n_classes'}, {dim or 'dim'}), "
                f"which it was made for. Got {shape} instead."
            )

    def forward(self, queries: Tensor, class_embeddings: Tensor) -> Tensor:
        """Candidates of each query: int64 (batch, c), -1 where there is none."""
        raise NotImplementedError

    def path_scores(self, queries: Tensor, ids: Tensor) -> Tensor | None:
        """What this selector's parameters add to the scores of ``ids`` (batch, m), (batch, m); None for nothing."""
        return None

    def selection_losses(self, queries: Tensor, positives: Positives) -> Tensor | None:
        """A loss (batch,) that trains the selector beside the model, not through it; None for none."""
        return None

    def output_embeddings(self, class_embeddings: Tensor) -> Tensor:
        """Class embeddings (n_classes, dim) whose inner products with queries are the whole scores."""
        return class_embeddings


@parameterized
class CANELoss(ClassLoss):
    r"""Softmax over candidates :math:`C_x` that the query alone selects, and a noise class that stands for the others.

    With scores :math:`s`, and noises :math:`T_x` drawn from :math:`q_x`, the noise sampler's distribution over the
    classes that aren't candidates, the loss of a query with the positive :math:`y` is, by Eqs. (2) and (3),

    .. math::
       -\frac{1}{|T_x|} \sum_{j \in T_x} \ln \frac{e^{s_y}}{\sum_{k \in C_x} e^{s_k} + e^{s_j} / q_x(j)}
       \quad (y \in C_x), \qquad
       -\ln \frac{e^{s_y}}{\sum_{k \in C_x} e^{s_k} + e^{s_y} / q_x(y)} \quad (y \notin C_x).

    Its expectation over noises is Eq. (5), its gradients are Eqs. (7) and (8). The optimum of Eq. (4) is the log-odds
    :math:`s_k = \ln p(k \mid x)`, up to a number for each query, for any candidates and any :math:`q_x` that gives
    every class some probability (Theorem 1); the estimator's variance approaches the full softmax's as the candidates
    come to hold the positive (Corollary 1).

    Parameters
    ----------
    candidates : callable
        ``candidates(queries, class_embeddings) -> ids``, int64 (batch, c): the candidates of each query, places
        without one being -1; a class that is repeated in a row counts once. It must not look at the targets. Called
        without gradients, with the queries detached. A :class:`~sylvan.sampling.FrequencySubsets`, or a function:
        the classes that a sampler drew, the best of an index, an n-gram model's.
    noise : Sampler
        Where noises come from. With its distribution :math:`q` over all classes, :math:`q_x(j) = q(j) / (1 - \sum_{k
        \in C_x} q(k))`: draws that are candidates are drawn again, which gives exactly that.
    n_noises : int
        :math:`|T_x|` for each query.
    together : bool
        An extension; see the notes. Put all noises of a query into one sum, :math:`\sum_{k \in C_x} e^{s_k} +
        \frac{1}{|T_x|} \sum_{j \in T_x} e^{s_j} / q_x(j)`, instead of averaging the losses that each would give; a
        positive that is no candidate takes the place of one of the noises. With one noise it is the same.
    sparse : bool
        Whether the gradient of a class table that is a leaf is sparse. False makes it dense, which
        ``DistributedDataParallel`` needs unless the table is the weight of an ``nn.Embedding(sparse=True)``.
    reduction : {"mean", "sum", "none"}
        Over the queries that aren't ignored.
    ignore_index : int
        The target of queries to ignore, and the filling of rows with fewer positives than others.

    Attributes
    ----------
    coverage : Tensor of float32, scalar
        Share of the last batch's positives that were among their candidates: what Corollary 1 is about.

    Raises
    ------
    ParameterError
        When a parameter is out of its range.
    DataError
        When the candidates' shape, dtype or range is wrong.

    Notes
    -----
    A query with several positives has the mean of the losses that each distinct one would have alone, with the same
    candidates and noises; a noise may then be another positive, as the theory, for which labels are drawn one by one,
    wants it.

    With ``together=True``, candidates and noises are the classes of a multinomial choice: the label is drawn from
    :math:`p`, noises are added to it (or one fewer, when it is itself in a noise's place) and shuffled, and which of
    them is the label has the probabilities that the sum above gives. Maximising their likelihood has the optimum of
    Theorem 1, for the same reason as the ranking form of noise-contrastive estimation has. The sum varies less than
    with one noise, and positives outside the candidates, which in Eq. (3) stand against candidates alone, stand
    against noises too.

    What to choose, after an epoch of an LSTM on Penn Treebank with three seeds (``benchmarks.sampling.cane``,
    docs/results): with one noise, or the losses of several averaged, perplexity stays well behind NCE and BlackOut
    with as many classes; with 20 candidates and 20 unigram noises together it is level with them. The 20 most frequent
    classes then serve as well as learned candidates.

    Where the candidates hold all but a millionth of :math:`q`, there is no noise and the sum is the candidates' alone;
    likewise in the rare case that thousands of draws all hit candidates. A positive outside the candidates that the
    sampler never draws counts as one of probability e^-80: its loss has no gradient, so give every class some noise.
    Scores and sums are float32 (float64 for float64 inputs) under autocast too, and the gradient of a class table that
    is a leaf is sparse.

    A selector that adds to the scores (``FrequencySubsets(learning="path")``) makes the model's output
    ``queries @ loss.output_embeddings(class_embeddings).T``; use that for evaluation and prediction. Selectors with
    parameters are a part of this module: give ``loss.parameters()`` to the optimizer.

    References
    ----------
    L. Han, Y. Huang and T. Zhang, "Candidates vs. Noises Estimation for Large Multi-Class Classification Problem",
    ICML 2018.

    Examples
    --------
    The candidates are eight draws from an adaptive sampler's distribution:

    >>> import torch
    >>> from sylvan.sampling import CANELoss, Softmax, Uniform
    >>> _ = torch.manual_seed(0)
    >>> table = torch.nn.Parameter(torch.randn(1000, 16))
    >>> near = Softmax(1000, 16)
    >>> near.refresh(table)
    >>> loss = CANELoss(lambda queries, table: near.sample(queries, 8).ids, Uniform(1000), n_noises=2)
    >>> value = loss(torch.randn(4, 16), table, torch.randint(1000, (4,)))
    >>> value.backward()
    >>> value.shape, table.grad.is_sparse
    (torch.Size([]), True)
    """

    candidates: Annotated[
        Callable[[Tensor, Tensor], Tensor], Instance(words="a callable (queries, class_embeddings) -> ids")
    ]
    noise: Annotated[Sampler, Instance(words="a sampler of sylvan.sampling")]
    _: KW_ONLY
    n_noises: Annotated[int, Range(1)] = 1
    together: bool = False
    sparse: bool = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.coverage = torch.tensor(float("nan"))

    @property
    def sampler(self) -> Sampler:
        """The noise's sampler, by the name that it has in other losses."""
        return self.noise

    def output_embeddings(self, class_embeddings: Tensor) -> Tensor:
        """Class embeddings (n_classes, dim) whose inner products with queries are the model's whole scores."""
        if isinstance(self.candidates, CandidateModel):
            return self.candidates.output_embeddings(class_embeddings)
        return class_embeddings

    def _losses(self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None) -> Tensor:
        chosen = self._select(queries, table, wanted)
        # Places that hold nothing read a positive's row, so that no other row of the table gets a gradient.
        anything = wanted.ids[:, :1]
        ids = torch.cat([chosen.candidates.where(chosen.is_candidate, anything), chosen.noises, wanted.ids], dim=1)
        scores = self._scores(queries, table, ids, bias)
        self.coverage = chosen.covered[wanted.present].float().mean()
        losses = cane_losses(chosen, scores, wanted, together=self.together)
        own = None
        if isinstance(self.candidates, CandidateModel):
            own = self.candidates.selection_losses(queries.detach(), wanted)
        return losses if own is None else losses + own

    def _scores(self, queries: Tensor, table: Tensor, ids: Tensor, bias: Tensor | None) -> Tensor:
        scores = class_logits(queries, table, ids, bias)
        if isinstance(self.candidates, CandidateModel):
            path = self.candidates.path_scores(queries, ids)
            return scores if path is None else scores + path
        return scores

    @without_gradient
    def _select(self, queries: Tensor, table: Tensor, wanted: Positives) -> Selection:
        wide = queries.detach().float()
        with torch.autocast(queries.device.type, enabled=False):
            ids = self.candidates(wide, table.detach())
            self._check_candidates(ids, wide, len(table))
            self.noise.observe(wanted.ids[wanted.present])
            return select(self.noise, self.n_noises, wide, ids, wanted.ids)

    def _check(self, queries: Tensor, table: Tensor, targets: Tensor, bias: Tensor | None) -> Tensor:
        targets = super()._check(queries, table, targets, bias)
        if len(table) != self.noise.n_classes:
            raise DataError(
                f"The class embeddings given to {type(self).__name__} have {len(table)} rows, but its noise, "
                f"{type(self.noise).__name__}, draws from {self.noise.n_classes} classes. Make the sampler for as many "
                "classes as the table has rows."
            )
        if isinstance(self.candidates, CandidateModel):
            self.candidates.check_table(table)
        return targets

    def _check_candidates(self, ids: Any, queries: Tensor, n_classes: int) -> None:
        if not isinstance(ids, Tensor) or ids.dtype != torch.int64 or ids.dim() != 2 or len(ids) != len(queries):
            got = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
            raise DataError(
                f"The candidates of {type(self).__name__} must be an int64 tensor of the shape ({len(queries)}, c), "
                f"one row a query. Got {got} instead."
            )
        if ids.shape[1] == 0:
            raise DataError(f"The candidates of {type(self).__name__} must have at least one place a query. Got none.")
        # On other devices looking would mean waiting; a class out of range fails there when its row is read.
        if ids.device.type == "cpu" and (int(ids.max()) >= n_classes or int(ids.min()) < -1):
            wrong = ids[(ids < -1) | (ids >= n_classes)]
            raise DataError(
                f"The candidates of {type(self).__name__} must lie in [0, {n_classes}), or be -1 where there is none. "
                f"Got {int(wrong[0])} instead."
            )
