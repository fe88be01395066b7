"""A small training, children of this process that are killed in the midst of it, and what models are compared by."""

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from child_processes import exit_code, forked
from kit.bits import bits

from sylvan import XRLinear

SETTINGS: dict[str, dict[str, Any]] = {
    "tfn": {"branching": 3, "max_leaf": 4, "negatives": "tfn"},
    "man": {"branching": 3, "max_leaf": 4, "negatives": "tfn+man", "beam": 2},
    "two trees": {"branching": 4, "max_leaf": 8, "n_trees": 2, "weight_dtype": "float32", "loss": "hinge"},
    "one layer": {"max_leaf": 100, "weight_dtype": "float16"},
    "overlap": {"branching": 3, "max_leaf": 6, "overlap": 2, "negatives": ["tfn", "man", "tfn", "tfn+man"]},
}


def training_set(n: int = 150, n_labels: int = 40, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Rows whose features tell their labels, with noise; some labels without rows."""
    rng = np.random.default_rng(seed)
    Y = sp.random(n, n_labels, 0.05, "csr", np.float32, rng)
    Y.data[:] = rng.integers(1, 3, Y.nnz)
    means = sp.random(n_labels, 60, 0.1, "csr", np.float32, rng)
    return sp.csr_matrix(Y @ means + sp.random(n, 60, 0.05, "csr", np.float32, rng)), Y


def outcome(model: XRLinear) -> Any:
    """What a saved model would hold, and its parameters but for the number of threads."""
    state = model.to_state()
    return bits(state), repr({**state.params, "n_jobs": None})


def killed(work: Callable[[], object]) -> bool:
    """Run ``work`` in a child; whether it was killed by SIGKILL rather than finishing."""
    code = exit_code(forked(work))
    assert code in (0, -signal.SIGKILL)
    return code != 0
