"""Networks and their training (PyTorch): one training loop for every task, and the encoders that feed it.

Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't load this package.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError('sylvan.neural needs PyTorch. Install it with: pip install "sylvan[neural]"') from error

# Where each public name lives; a module is loaded when a name of it is first asked for.
_PLACES = {
    "BagEncoder": "bag_encoder",
    "GRU4Rec": "gru4rec",
    "History": "history",
    "Job": "training",
    "RefreshSchedule": "refresh",
    "LSTMEncoder": "lstm",
    "SASRec": "sasrec",
    "SequenceEncoder": "sequence_encoder",
    "TransformerEncoder": "transformer",
    "clip_gradients": "clip",
    "draw_convergence": "convergence",
    "load_tree": "checkpoint",
    "save_tree": "checkpoint",
    "train": "training",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'sylvan.neural' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"sylvan.neural.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
