"""Networks and their training (PyTorch): one training loop for every task, and the encoders that feed it.

Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't load this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, need_torch, typed_names

need_torch("sylvan.neural")

if TYPE_CHECKING:
    from sylvan.neural.loop.checkpoint import History, draw_convergence, load_best, load_tree, save_tree
    from sylvan.neural.loop.engine import Engine, clip_gradients
    from sylvan.neural.loop.training import Job, RefreshSchedule, WarmupSchedule, train
    from sylvan.neural.sequence import CausalTransformer, GRU4Rec, LSTMEncoder, SASRec, SequenceEncoder
    from sylvan.neural.text.bag_text_encoder import BagEncoder, BagTextEncoder
    from sylvan.neural.text.embedding import embed
    from sylvan.neural.text.network_encoder import SentenceEncoder, TransformerEncoder, open_encoder
    from sylvan.neural.text.text_encoder import TextEncoder, TokenRows

__all__ = [
    "BagEncoder", "BagTextEncoder", "CausalTransformer", "Engine", "GRU4Rec", "History", "Job", "LSTMEncoder",
    "RefreshSchedule", "SASRec", "SentenceEncoder", "SequenceEncoder", "TextEncoder", "TokenRows",
    "TransformerEncoder", "WarmupSchedule", "clip_gradients", "draw_convergence", "embed", "load_best", "load_tree",
    "open_encoder", "save_tree", "train",
]  # fmt: skip

# A module is loaded when a name of it is first asked for.
__getattr__, __dir__ = lazy_names(__name__, typed_names(__name__))
