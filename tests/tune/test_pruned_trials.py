"""What a trial under a limit of size is judged by."""

from __future__ import annotations

import numpy as np

from sylvan import XRLinear, store
from sylvan.tune.workbench import Workbench


def test_a_model_without_room_for_weights_is_judged_without_them() -> None:
    X, Y = np.eye(8, dtype=np.float32).repeat(4, axis=0), np.arange(8).repeat(4)
    model = XRLinear(max_leaf=2, n_jobs=1).fit(X, Y)
    whole = store.saved_bytes(model.to_state())
    bench = Workbench.__new__(Workbench)
    for room in (-5, 1, 100):
        small, n_bytes = bench._pruned(model, whole, room)
        assert n_bytes < whole
        assert sum(layer.n_entries for layer in small.layers_) == 0
    assert bench._pruned(model, whole, whole) == (model, whole)
