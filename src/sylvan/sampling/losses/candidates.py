"""What a selector of candidate classes may do for :class:`~sylvan.sampling.CANELoss` beside selecting."""

from __future__ import annotations

from torch import Tensor, nn

from sylvan.errors import DataError
from sylvan.params import Parameterized
from sylvan.sampling.losses.loss import Positives
from sylvan.sampling.tensors import need_floats

__all__ = ["CandidateModel"]


class CandidateModel(Parameterized, nn.Module):
    """Base of selectors with parameters of their own. A selector without any may be a plain function instead.

    Called as ``candidates(queries, class_embeddings) -> ids``, int64 (batch, c), places that hold none being -1.

    Attributes
    ----------
    n_classes, dim : int or None
        Which class embeddings it is for; None for any.
    """

    n_classes: int | None = None
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
