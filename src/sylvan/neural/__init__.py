"""Networks and their training (PyTorch): one training loop for every task, and the encoders that feed it.

Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't load this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, need_torch

need_torch("sylvan.neural")

if TYPE_CHECKING:
    from sylvan.neural.loop.checkpoint import load_best as load_best
    from sylvan.neural.loop.engine import Engine as Engine
    from sylvan.neural.loop.gradients import clip_gradients as clip_gradients
    from sylvan.neural.loop.history import History as History
    from sylvan.neural.loop.history import draw_convergence as draw_convergence
    from sylvan.neural.loop.schedule import RefreshSchedule as RefreshSchedule
    from sylvan.neural.loop.schedule import WarmupSchedule as WarmupSchedule
    from sylvan.neural.loop.state_tree import load_tree as load_tree
    from sylvan.neural.loop.state_tree import save_tree as save_tree
    from sylvan.neural.loop.training import Job as Job
    from sylvan.neural.loop.training import train as train
    from sylvan.neural.sequence.causal_transformer import CausalTransformer as CausalTransformer
    from sylvan.neural.sequence.gru4rec import GRU4Rec as GRU4Rec
    from sylvan.neural.sequence.lstm import LSTMEncoder as LSTMEncoder
    from sylvan.neural.sequence.sasrec import SASRec as SASRec
    from sylvan.neural.sequence.sequence_encoder import SequenceEncoder as SequenceEncoder
    from sylvan.neural.text.bag_encoder import BagEncoder as BagEncoder
    from sylvan.neural.text.bag_text_encoder import BagTextEncoder as BagTextEncoder
    from sylvan.neural.text.embedding import embed as embed
    from sylvan.neural.text.encoder_source import open_encoder as open_encoder
    from sylvan.neural.text.sentence_encoder import SentenceEncoder as SentenceEncoder
    from sylvan.neural.text.text_encoder import TextEncoder as TextEncoder
    from sylvan.neural.text.token_rows import TokenRows as TokenRows
    from sylvan.neural.text.transformer_encoder import TransformerEncoder as TransformerEncoder

# Where each public name lives; a module is loaded when a name of it is first asked for.
_PLACES = {
    "BagEncoder": "text.bag_encoder",
    "BagTextEncoder": "text.bag_text_encoder",
    "CausalTransformer": "sequence.causal_transformer",
    "clip_gradients": "loop.gradients",
    "draw_convergence": "loop.history",
    "embed": "text.embedding",
    "Engine": "loop.engine",
    "GRU4Rec": "sequence.gru4rec",
    "History": "loop.history",
    "Job": "loop.training",
    "load_best": "loop.checkpoint",
    "load_tree": "loop.state_tree",
    "LSTMEncoder": "sequence.lstm",
    "open_encoder": "text.encoder_source",
    "RefreshSchedule": "loop.schedule",
    "SASRec": "sequence.sasrec",
    "save_tree": "loop.state_tree",
    "SentenceEncoder": "text.sentence_encoder",
    "SequenceEncoder": "sequence.sequence_encoder",
    "TextEncoder": "text.text_encoder",
    "TokenRows": "text.token_rows",
    "train": "loop.training",
    "TransformerEncoder": "text.transformer_encoder",
    "WarmupSchedule": "loop.schedule",
}

__all__ = sorted(_PLACES)

__getattr__, __dir__ = lazy_names("sylvan.neural", _PLACES)
