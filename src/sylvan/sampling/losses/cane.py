"""Candidates against noises: a few classes in full, a few for all the rest; candidates by subsets of frequency."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.errors import DataError, ParameterError
from sylvan.params.fields import KW_ONLY, Instance, Parameterized, Range, attribute, parameterized
from sylvan.sampling.losses.logits import class_logits
from sylvan.sampling.losses.loss import ClassLoss, Positives, Selection, cane_losses, select
from sylvan.sampling.samplers.base import Sampler, class_counts
from sylvan.sampling.tensors import eagerly, need_floats, need_shape, without_gradient

# Distinct offsets are found among this many times as many draws with repetition.
_SPARE = 4


@parameterized
class CANELoss(ClassLoss):
    r"""Softmax over candidates :math:`C_x` that the query alone selects, and a noise class that stands for the others.

    With scores :math:`s`, and noises :math:`T_x` drawn from :math:`q_x`, the noise sampler's distribution over the
    classes that aren't candidates, the loss of a query with the positive :math:`y` is, by Eqs. (2) and (3),

    .. math::
       -\frac{1}{|T_x|} \sum_{j \in T_x} \ln \frac{e^{s_y}}{\sum_{k \in C_x} e^{s_k} + e^{s_j} / q_x(j)}
       \quad (y \in C_x), \qquad
       -\ln \frac{e^{s_y}}{\sum_{k \in C_x} e^{s_k} + e^{s_y} / q_x(y)} \quad (y \notin C_x).

    Its optimum is :math:`s_k = \ln p(k \mid x)`, up to a number for each query, for any candidates and any :math:`q_x`
    that gives every class some probability (Theorem 1); its variance approaches the full softmax's as the candidates
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

    Attributes
    ----------
    coverage : Tensor of float32, scalar
        Share of the last batch's positives that were among their candidates: what Corollary 1 is about.

    Raises
    ------
    DataError
        When the candidates' shape, dtype or range is wrong.

    Notes
    -----
    A query with several positives has the mean of the losses that each distinct one would have alone, with the same
    candidates and noises; a noise may then be another positive.

    With ``together=True`` the optimum is that of Theorem 1 as well, for the same reason as with the ranking form of
    noise-contrastive estimation. The sum varies less, and positives outside the candidates stand against noises too.
    In trials 20 candidates and 20 unigram noises together were level with NCE and BlackOut; one noise stayed behind.

    Where the candidates hold all but a millionth of :math:`q`, or thousands of draws all hit candidates, there is no
    noise and the sum is the candidates' alone. A positive outside the candidates that the sampler never draws counts
    as one of probability e^-80: its loss has no gradient, so give every class some noise.

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
    >>> table = torch.nn.Parameter(torch.randn(1000, 16))
    >>> near = Softmax(1000, 16)
    >>> near.refresh(table)
    >>> loss = CANELoss(lambda queries, table: near.sample(queries, 8).ids, Uniform(1000), n_noises=2)
    >>> loss(torch.randn(4, 16), table, torch.randint(1000, (4,))).backward()
    >>> table.grad.is_sparse
    True
    """

    candidates: Annotated[
        Callable[[Tensor, Tensor], Tensor], Instance(words="a callable (queries, class_embeddings) -> ids")
    ]
    noise: Annotated[Sampler, Instance(words="a sampler of sylvan.sampling")]
    _: KW_ONLY
    n_noises: Annotated[int, Range(1)] = 1
    together: bool = False
    sparse: bool = True  # type: ignore[misc]

    _words_for_sampler: ClassVar[str] = "noise, {},"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.coverage = torch.tensor(float("nan"))

    @property
    def sampler(self) -> Sampler:
        """The noise's sampler, by the name that it has in other losses."""
        return self.noise

    def output_embeddings(self, class_embeddings: Tensor) -> Tensor:
        """Class embeddings (n_classes, dim) whose inner products with queries are the model's whole scores."""
        if isinstance(self.candidates, FrequencySubsets):
            return self.candidates.output_embeddings(class_embeddings)
        return class_embeddings

    def _losses(self, queries: Tensor, table: Tensor, wanted: Positives, bias: Tensor | None) -> Tensor:
        subsets = self.candidates if isinstance(self.candidates, FrequencySubsets) else None
        chosen = self._select(queries, table, wanted)
        # Places that hold nothing read a positive's row, so that no other row of the table gets a gradient.
        anything = wanted.ids[:, :1]
        ids = torch.cat([chosen.candidates.where(chosen.is_candidate, anything), chosen.noises, wanted.ids], dim=1)
        scores = class_logits(queries, table, ids, bias)
        if subsets is not None and subsets.learning == "path":
            scores = scores + subsets.path_scores(queries, ids)
        self.coverage = chosen.covered[wanted.present].float().mean()
        losses = cane_losses(chosen, scores, wanted, together=self.together)
        if subsets is not None and subsets.learning == "own":
            losses = losses + subsets.selection_losses(queries.detach(), wanted)
        return losses

    @without_gradient
    def _select(self, queries: Tensor, table: Tensor, wanted: Positives) -> Selection:
        wide = queries.detach().float()
        with torch.autocast(queries.device.type, enabled=False):
            ids = self.candidates(wide, table.detach())
            self._check_candidates(ids, wide, len(table))
            self.noise.observe(wanted.ids[wanted.present])
            return select(self.noise, self.n_noises, wide, ids, wanted.ids)

    @eagerly
    def _check(self, queries: Tensor, table: Tensor, targets: Tensor | None, bias: Tensor | None) -> Tensor:
        checked = super()._check(queries, table, targets, bias)
        if isinstance(self.candidates, FrequencySubsets):
            self.candidates.check_table(table)
        return checked

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


@parameterized
class FrequencySubsets(Parameterized, nn.Module):
    r"""Classes sorted by frequency, cut into a layer of subsets; candidates are drawn from the best-scoring subset.

    The tree of Section 5 has one layer under the root. Each subset :math:`n` has a vector :math:`\theta_n`, its score
    for a query :math:`h` is :math:`\theta_n \cdot h`, and the candidates are classes of the subset with the largest
    score, chosen alike and without repetition. The paper leaves open how those vectors come about; two ways are here.

    Parameters
    ----------
    counts : sequence, array or Tensor of real numbers, shape (n_classes,)
        How often each class occurs. Where they are a tensor, the subsets are made on its device.
    n_subsets : int
        Number of subsets, no more than there are classes.
    n_candidates : int
        Candidates of a query; fewer where the chosen subsets hold fewer, the other places being -1.
    dim : int
        Number of dimensions of the queries.
    split : {"mass", "count"}
        Each subset holds about the same share of all occurrences ("averaging over the word frequencies"; a class with
        more than that has a subset of its own), or the same number of classes.
    learning : {"path", "own"}
        ``"path"``, the paper's Eq. (9) taken to this tree: a class's score is the sum over its path,
        :math:`s_y = \theta_{n(y)} \cdot h + \theta_y \cdot h`, and CANE's own gradient trains both parts. The model's
        output is then that sum: see :meth:`output_embeddings`. ``"own"``: the vectors are a softmax classifier of the
        positive's subset, trained beside the model by its own cross-entropy, which is added to the loss; queries get
        no gradient from it, and scores of classes are left as they are.
    beam : int
        How many of the best subsets candidates may come from: the best one's classes first, the second's when there
        are places left, and so on; the last is drawn from. 1 is the paper's; more make up for small subsets.

    Attributes
    ----------
    subset_vectors : Parameter of float32, shape (n_subsets, dim)
        Zeros at first: the subset of the most frequent classes is then the best.
    subset_of : Tensor of int64, shape (n_classes,)
        Each class's subset, numbered from the most frequent classes on.

    Raises
    ------
    ParameterError
        When a parameter is out of its range, or ``n_subsets`` above the number of classes.
    DataError
        When the counts are no numbers, negative, not finite or all zero; later, when queries or class embeddings don't
        have the dimensions or the number of classes that it was made for.

    Notes
    -----
    In trials the paper's way, one subset of a hundred, covered a small part of the positives, and a beam over all
    subsets several times as many. With one subset, ``split="count"`` did better than ``"mass"``, whose frequent classes
    stand alone in theirs, so that a query has a single candidate.

    References
    ----------
    L. Han, Y. Huang and T. Zhang, "Candidates vs. Noises Estimation for Large Multi-Class Classification Problem",
    ICML 2018, Section 5 and Algorithm 2.

    Examples
    --------
    >>> import torch
    >>> from sylvan.sampling import CANELoss, FrequencySubsets, Unigram
    >>> _ = torch.manual_seed(0)
    >>> counts = 1000 / torch.arange(1, 1001)
    >>> candidates = FrequencySubsets(counts, 10, 20, dim=16)
    >>> loss = CANELoss(candidates, Unigram(1000, counts, power=0.75))
    >>> table = torch.nn.Parameter(torch.randn(1000, 16))
    >>> loss(torch.randn(4, 16), table, torch.randint(1000, (4,))).backward()
    >>> torch.bincount(candidates.subset_of).tolist()
    [1, 2, 3, 7, 14, 29, 59, 121, 250, 514]
    """

    counts: Any
    n_subsets: Annotated[int, Range(1)]
    n_candidates: Annotated[int, Range(1)]
    dim: Annotated[int, Range(1)]
    _: KW_ONLY
    split: Literal["mass", "count"] = "mass"
    learning: Literal["path", "own"] = "path"
    beam: Annotated[int, Range(1)] = 1
    order: Tensor = attribute()
    starts: Tensor = attribute()
    subset_of: Tensor = attribute()

    def __post_init__(self) -> None:
        self.check_params()
        weights = class_counts(self.counts, None, owner=type(self).__name__)
        self.n_classes = len(weights)
        if self.n_subsets > len(weights):
            raise ParameterError(
                f"The 'n_subsets' parameter of FrequencySubsets must be an int in [1, {len(weights)}], there being so "
                f"many classes. Got {self.n_subsets} instead."
            )
        order = torch.argsort(weights, descending=True, stable=True)
        if self.split == "mass":
            starts = _starts_by_mass(weights[order], self.n_subsets)
        else:  # sizes differ by one at most
            starts = torch.arange(self.n_subsets + 1, device=order.device) * len(order) // self.n_subsets
        subset_of = torch.empty_like(order)
        subset_of[order] = torch.repeat_interleave(torch.arange(self.n_subsets, device=order.device), starts.diff())
        for name, buffer in (("order", order), ("starts", starts), ("subset_of", subset_of)):
            self.register_buffer(name, buffer)
        self.subset_vectors = nn.Parameter(torch.zeros(self.n_subsets, self.dim, device=order.device))

    def check_table(self, class_embeddings: Tensor) -> None:
        """Hold that class embeddings are those that this was made for.

        Raises
        ------
        DataError
            When they aren't a tensor of floats, or of another shape.
        """
        name, shape = f"The class embeddings given to {type(self).__name__}", (self.n_classes, self.dim)
        need_floats(class_embeddings, name)
        need_shape(class_embeddings.shape == shape, class_embeddings, name, f"{shape}, which it was made for")

    def forward(self, queries: Tensor, class_embeddings: Tensor) -> Tensor:
        """Candidates of each query: int64 (batch, n_candidates), -1 where there is none."""
        self.check_table(class_embeddings)
        name = f"The queries given to {type(self).__name__}"
        need_floats(queries, name)
        need_shape(queries.dim() == 2 and queries.shape[1] == self.dim, queries, name, f"(batch, {self.dim})")
        scores = queries @ self.subset_vectors.detach().to(queries.dtype).t()
        best = scores.topk(min(self.beam, self.n_subsets), dim=1).indices  # (batch, beam)
        sizes = self.starts.diff()[best]
        filled = sizes.cumsum(dim=1).clamp(max=self.n_candidates)  # (batch, beam), places taken up to each subset
        slots = torch.arange(self.n_candidates, device=queries.device).expand(len(queries), -1).contiguous()
        subset = torch.searchsorted(filled, slots, right=True).clamp(max=best.shape[1] - 1)  # (batch, n_candidates)
        # At most one subset has more classes than there are places left: the last one used.
        last = subset[:, -1:]
        before = F.pad(filled, (1, 0))[:, :-1]
        place = slots - before.gather(1, subset)
        too_large = (sizes > filled - before).gather(1, subset)
        drawn = distinct_offsets(sizes.gather(1, last).squeeze(1), self.n_candidates)
        offset = torch.where(too_large, drawn.gather(1, place), place)
        index = self.starts[best.gather(1, subset)] + offset
        present = slots < filled[:, -1:]
        return self.order[index.where(present, 0)].where(present, -1)

    def path_scores(self, queries: Tensor, ids: Tensor) -> Tensor:
        """Scores of the subsets of ``ids`` (batch, m), which a class's score has in it where it's a sum over a path."""
        with torch.autocast(queries.device.type, enabled=False):
            vectors = self.subset_vectors
            wide = queries.to(torch.promote_types(queries.dtype, vectors.dtype))
            return (wide @ vectors.to(wide.dtype).t()).gather(1, self.subset_of[ids])

    def selection_losses(self, queries: Tensor, positives: Positives) -> Tensor:
        """Cross-entropy (batch,) of the positives' subsets, of which the vectors are a classifier."""
        with torch.autocast(queries.device.type, enabled=False):
            log_p = F.log_softmax(queries.float() @ self.subset_vectors.float().t(), dim=1)
        return -(log_p.gather(1, self.subset_of[positives.ids]) * positives.shares()).sum(dim=1)

    def output_embeddings(self, class_embeddings: Tensor) -> Tensor:
        """Class embeddings (n_classes, dim) whose inner products with queries are the whole scores."""
        self.check_table(class_embeddings)
        if self.learning != "path":
            return class_embeddings
        return class_embeddings + self.subset_vectors[self.subset_of].to(class_embeddings.dtype)


def distinct_offsets(sizes: Tensor, n: int) -> Tensor:
    """For each of ``sizes`` (batch,), ``n`` distinct numbers below it, chosen alike: int64 (batch, n). Where there are
    fewer than ``n``, the rest of the row is meaningless. The cost doesn't depend on the sizes: a small range is
    shuffled whole, and of a large one more numbers than needed are drawn with repetition, of which the first of each
    kind are used (a choice that treats all numbers alike, so that every set of them is as probable)."""
    width = _SPARE * n
    size = sizes.unsqueeze(1)
    small = size <= width
    slots = torch.arange(width, device=sizes.device)
    uniform = torch.rand(len(sizes), width, dtype=torch.float64, device=sizes.device)
    values = torch.where(small, slots, (uniform * size).long().clamp(max=size - 1))
    ascending, places = values.sort(dim=1, stable=True)
    seen = F.pad(ascending[:, 1:] == ascending[:, :-1], (1, 0))
    useless = torch.zeros_like(seen).scatter(1, places, seen) | (values >= size)
    rank = torch.where(small, uniform * width, slots.double()) + width * useless.double()
    return values.gather(1, rank.argsort(dim=1)[:, :n])


def _starts_by_mass(descending: Tensor, n_subsets: int) -> Tensor:
    """Where subsets of about equal weight begin, and the end: int64 (n_subsets + 1,); none is empty."""
    n_classes = len(descending)
    after = descending.double().flip(0).cumsum(0).flip(0)  # weight from each class on
    left = n_subsets - torch.arange(n_subsets, device=descending.device)
    # A class with more than the mean of what is left over the subsets left stands alone; these come first.
    alone = int((descending[:n_subsets] * left > after[:n_subsets]).long().cumprod(0).sum())
    alone = min(alone, n_subsets - 1)
    n_shared = n_subsets - alone
    middle = after[alone] - after[alone:] + 0.5 * descending[alone:]  # weight up to the middle of each other class
    cuts = torch.searchsorted(middle, after[alone] * torch.arange(n_shared, device=middle.device) / n_shared)
    starts = alone + torch.cat([cuts, cuts.new_tensor([n_classes - alone])])
    # Classes without any weight make cuts coincide: then each takes the next class, and leaves one for each after it.
    index = torch.arange(n_shared + 1, device=starts.device)
    starts = (starts - index).cummax(0).values.clamp(max=n_classes - n_shared) + index
    starts[0] = alone
    return torch.cat([torch.arange(alone, device=starts.device), starts])
