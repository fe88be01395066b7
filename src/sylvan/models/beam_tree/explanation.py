"""What a trained tree of classes says of one class, for explanations."""

from __future__ import annotations

from sylvan.explain.classes import explain_class
from sylvan.explain.explanation import TreeVote
from sylvan.explain.paths import Names
from sylvan.matching.class_beam import ClassWeights
from sylvan.validate import Csr

__all__ = ["class_notes", "class_votes"]


def class_votes(
    weights: ClassWeights, row: Csr, label: int, beam: int, top: int, names: Names, *, loss: str, bias: float
) -> tuple[TreeVote, ...]:
    """The one tree's vote, whose score is the class's own: the sum of its path."""
    path, enough = explain_class(
        weights, row, label, beam=beam, bias=bias, log_probabilities=loss == "hsm", top=top, names=names
    )
    return (TreeVote(0, path.score, path.reached, beam, enough, (path,)),)


def class_notes(loss: str) -> tuple[str, ...]:
    """What to know when a path's score and the ranking's aren't the same."""
    if loss == "hsm":
        return ()
    return ("A path adds up to the class's score; the ranking's is the logarithm of its share among all reached.",)
