"""What a selector of candidate classes may do for :class:`~sylvan.sampling.CANELoss` beside selecting."""

from __future__ import annotations

from torch import Tensor, nn

from sylvan.params import Parameterized
from sylvan.sampling.loss import Positives

__all__ = ["CandidateModel"]


class CandidateModel(Parameterized, nn.Module):
    """Base of selectors with parameters of their own. A selector without any may be a plain function instead.

    Called as ``candidates(queries, class_embeddings) -> ids``, int64 (batch, c), places that hold none being -1.
    """

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
