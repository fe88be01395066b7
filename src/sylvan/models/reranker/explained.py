"""Why a reranker puts a label where it does, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sylvan.arrays.topk import TopK
from sylvan.models.reranker.tree_contributions import contributions
from sylvan.params.wording import counted
from sylvan.ranking.boosted_trees import BoostedTrees


def candidate_notes(
    candidates: TopK,
    columns: npt.NDArray[np.float32],
    label: int,
    scorer: BoostedTrees | None,
    names: Sequence[str],
    top: int,
) -> tuple[str, ...]:
    """Where a label stands among one row's candidates, and which columns move it."""
    # Shapes: candidates (1, k); columns (1, k, n_features)
    places = np.flatnonzero(candidates.labels[0] == label)
    n_there = int((candidates.labels[0] >= 0).sum())
    if not len(places):
        return (f"It is none of the {counted(n_there, 'candidate')} of the highest mean probability.",)
    at = int(places[0])
    first = f"By its mean probability of {candidates.scores[0, at]:.3g} it is number {at + 1} of {n_there}."
    if scorer is None:
        return (f"{first} Candidates are in that order: nothing better could be learned.",)
    row = columns[0, at]
    if scorer.covers is None:
        return (first,)
    expected, added = contributions(scorer, row)
    order = np.argsort(-np.abs(added), kind="stable")[:top]
    moved = [f"{names[one]} = {row[one]:.3g} ({added[one]:+.2f})" for one in order.tolist() if added[one] != 0]
    total = expected + float(added.sum())
    return (first, f"Its log odds are {total:.2f}, of which {expected:.2f} are any candidate's: {', '.join(moved)}.")
