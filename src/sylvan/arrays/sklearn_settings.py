"""What the user set in scikit-learn, where it is loaded: sparse arrays or matrices, and frames from transformers."""

from __future__ import annotations

import sys
from typing import Any

import scipy.sparse as sp


def setting(name: str) -> Any:
    """What ``sklearn.get_config()`` has under a name; None where scikit-learn isn't loaded, or is too old for it."""
    sklearn: Any = sys.modules.get("sklearn")
    return sklearn.get_config().get(name) if hasattr(sklearn, "get_config") else None


def sparse_as_set(matrix: sp.csr_matrix) -> sp.csr_matrix | sp.csr_array:
    """A sparse matrix, or a ``csr_array`` of its arrays after ``sklearn.set_config(sparse_interface="sparray")``."""
    return sp.csr_array(matrix) if setting("sparse_interface") == "sparray" else matrix
