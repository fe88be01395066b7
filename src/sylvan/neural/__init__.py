"""Networks and their training (PyTorch): one training loop for every task, and the encoders that feed it.

Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't load this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, need_torch, typed_names

need_torch("sylvan.neural")

if TYPE_CHECKING:
    from sylvan.neural.loop.checkpoint import History as History
    from sylvan.neural.loop.checkpoint import draw_convergence as draw_convergence
    from sylvan.neural.loop.checkpoint import load_best as load_best
    from sylvan.neural.loop.checkpoint import load_tree as load_tree
    from sylvan.neural.loop.checkpoint import save_tree as save_tree
    from sylvan.neural.loop.engine import Engine as Engine
    from sylvan.neural.loop.gradients import clip_gradients as clip_gradients
    from sylvan.neural.loop.training import Job as Job
    from sylvan.neural.loop.training import RefreshSchedule as RefreshSchedule
    from sylvan.neural.loop.training import WarmupSchedule as WarmupSchedule
    from sylvan.neural.loop.training import train as train
    from sylvan.neural.sequence import CausalTransformer as CausalTransformer
    from sylvan.neural.sequence import GRU4Rec as GRU4Rec
    from sylvan.neural.sequence import LSTMEncoder as LSTMEncoder
    from sylvan.neural.sequence import SASRec as SASRec
    from sylvan.neural.sequence import SequenceEncoder as SequenceEncoder
    from sylvan.neural.text.bag_text_encoder import BagEncoder as BagEncoder
    from sylvan.neural.text.bag_text_encoder import BagTextEncoder as BagTextEncoder
    from sylvan.neural.text.embedding import embed as embed
    from sylvan.neural.text.network_encoder import SentenceEncoder as SentenceEncoder
    from sylvan.neural.text.network_encoder import TransformerEncoder as TransformerEncoder
    from sylvan.neural.text.network_encoder import open_encoder as open_encoder
    from sylvan.neural.text.text_encoder import TextEncoder as TextEncoder
    from sylvan.neural.text.text_encoder import TokenRows as TokenRows

_PLACES = typed_names(__name__)  # a module is loaded when a name of it is first asked for

__all__ = sorted(_PLACES)

__getattr__, __dir__ = lazy_names(__name__, _PLACES)
