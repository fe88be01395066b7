"""What updates of trees are tested by: what every label scores for every row, and whether clusters are split."""

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np

from sylvan import LabelTree
from sylvan.models.xr.updates import ROOM


def label_scores(model: Any, X: Any) -> np.ndarray:
    """(n, n_labels), NaN where a label isn't answered."""
    top = model.rank(X, k=model.n_labels_, **({"beam": 10_000} if hasattr(model, "beam") else {}))
    found = np.full((X.shape[0], model.n_labels_), np.nan)
    rows, places = np.nonzero(top.labels >= 0)
    found[rows, top.labels[rows, places]] = top.scores[rows, places]
    return found


def of_one_tree(model: Any, ranker: Any) -> Any:
    """The model that has this one of its trees alone."""
    alone = copy.copy(model)
    alone.fitted_ = replace(model.fitted_, rankers=[ranker])
    return alone


def assert_split(model: Any, tree: LabelTree) -> None:
    """No cluster has much more than ``max_leaf`` labels, unless many lie beside it, and no more than that do."""
    if tree.depth > 1:
        sizes, beside = (np.diff(offsets) for offsets in (tree.child_offsets[-1], tree.child_offsets[-2]))
        most = ROOM * model.branching
        assert (sizes[np.repeat(beside, beside) < most] <= ROOM * model.max_leaf).all()
        assert beside.max() <= math.ceil(most)
