"""CANE's candidates for language models: words in subsets by frequency, candidates from the subset that fits best."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.errors import DataError, ParameterError
from sylvan.params.fields import KW_ONLY, Range, attribute, parameterized
from sylvan.sampling.losses.cane import CandidateModel
from sylvan.sampling.losses.loss import Positives
from sylvan.sampling.samplers.counts import class_counts
from sylvan.sampling.tensors import need_floats

# Distinct offsets are found among this many times as many draws with repetition.
_SPARE = 4


@parameterized
class FrequencySubsets(CandidateModel):
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
    In trials (``benchmarks.sampling.cane``: an LSTM on Penn Treebank; docs/results has the figures) the paper's way,
    one subset of a hundred, covered a small part of the positives, and a beam over all subsets several times as many,
    which brought more than any other choice here; uniform noise was far behind unigram. With one subset,
    ``split="count"`` did better than ``"mass"``, whose frequent classes stand alone in theirs, so that a query has a
    single candidate.

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
        by_mass = self.split == "mass"
        starts = _starts_by_mass(weights[order], self.n_subsets) if by_mass else _starts_by_count(order, self.n_subsets)
        subset_of = torch.empty_like(order)
        subset_of[order] = torch.repeat_interleave(torch.arange(self.n_subsets, device=order.device), starts.diff())
        self.register_buffer("order", order)
        self.register_buffer("starts", starts)
        self.register_buffer("subset_of", subset_of)
        self.subset_vectors = nn.Parameter(torch.zeros(self.n_subsets, self.dim, device=order.device))

    def forward(self, queries: Tensor, class_embeddings: Tensor) -> Tensor:
        """Candidates of each query: int64 (batch, n_candidates), -1 where there is none."""
        self.check_table(class_embeddings)
        need_floats(queries, f"The queries given to {type(self).__name__}")
        if queries.dim() != 2 or queries.shape[1] != self.dim:
            raise DataError(
                f"The queries given to {type(self).__name__} must have the shape (batch, {self.dim}). "
                f"Got {tuple(queries.shape)} instead."
            )
        scores = queries @ self.subset_vectors.detach().to(queries.dtype).t()
        best = scores.topk(min(self.beam, self.n_subsets), dim=1).indices  # (batch, beam)
        sizes = self.starts.diff()[best]
        filled = sizes.cumsum(dim=1).clamp(max=self.n_candidates)  # (batch, beam), places taken up to each subset
        slots = torch.arange(self.n_candidates, device=queries.device).expand(len(queries), -1).contiguous()
        which = torch.searchsorted(filled, slots, right=True).clamp(max=best.shape[1] - 1)  # (batch, n_candidates)
        # At most one subset has more classes than there are places left: the last one used.
        last = which[:, -1:]
        before = F.pad(filled, (1, 0))[:, :-1]
        place = slots - before.gather(1, which)
        too_large = (sizes > filled - before).gather(1, which)
        drawn = distinct_offsets(sizes.gather(1, last).squeeze(1), self.n_candidates)
        offset = torch.where(too_large, drawn.gather(1, place), place)
        index = self.starts[best.gather(1, which)] + offset
        present = slots < filled[:, -1:]
        return self.order[index.where(present, 0)].where(present, -1)

    def path_scores(self, queries: Tensor, ids: Tensor) -> Tensor | None:
        """Scores of the subsets of ``ids`` (batch, m) when a class's score is a sum over its path; else None."""
        if self.learning != "path":
            return None
        with torch.autocast(queries.device.type, enabled=False):
            vectors = self.subset_vectors
            wide = queries.to(torch.promote_types(queries.dtype, vectors.dtype))
            return (wide @ vectors.to(wide.dtype).t()).gather(1, self.subset_of[ids])

    def selection_losses(self, queries: Tensor, positives: Positives) -> Tensor | None:
        """Cross-entropy (batch,) of the positives' subsets when the vectors are a classifier of them; else None."""
        if self.learning != "own":
            return None
        with torch.autocast(queries.device.type, enabled=False):
            log_p = F.log_softmax(queries.float() @ self.subset_vectors.float().t(), dim=1)
        return -(log_p.gather(1, self.subset_of[positives.ids]) * positives.shares).sum(dim=1)

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


def _starts_by_count(order: Tensor, n_subsets: int) -> Tensor:
    """Where subsets begin, and the end: int64 (n_subsets + 1,); sizes differ by one at most."""
    return torch.arange(n_subsets + 1, device=order.device) * len(order) // n_subsets


def _starts_by_mass(descending: Tensor, n_subsets: int) -> Tensor:
    """Where subsets of about equal weight begin, and the end: int64 (n_subsets + 1,); none is empty."""
    n_classes = len(descending)
    after = descending.double().flip(0).cumsum(0).flip(0)  # weight from each class on
    left = n_subsets - torch.arange(n_subsets, device=descending.device)
    # A class with more than the mean of what is left over the subsets left stands alone; these come first.
    alone = int((descending[:n_subsets] * left > after[:n_subsets]).long().cumprod(0).sum())
    alone = min(alone, n_subsets - 1)
    rest = n_subsets - alone
    middle = after[alone] - after[alone:] + 0.5 * descending[alone:]  # weight up to the middle of each other class
    cuts = torch.searchsorted(middle, after[alone] * torch.arange(rest, device=middle.device) / rest)
    starts = alone + torch.cat([cuts, cuts.new_tensor([n_classes - alone])])
    # Classes without any weight make cuts coincide: then each takes the next class, and leaves one for each after it.
    index = torch.arange(rest + 1, device=starts.device)
    starts = (starts - index).cummax(0).values.clamp(max=n_classes - rest) + index
    starts[0] = alone
    return torch.cat([torch.arange(alone, device=starts.device), starts])
