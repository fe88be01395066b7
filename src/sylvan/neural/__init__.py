"""Networks and their training (PyTorch): one training loop for every task, and the encoders that feed it.

Needs the extra ``neural`` (``pip install "sylvan[neural]"``); ``import sylvan`` doesn't load this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, need_torch

need_torch("sylvan.neural")

if TYPE_CHECKING:
    from sylvan.neural.bag_encoder import BagEncoder as BagEncoder
    from sylvan.neural.bag_text_encoder import BagTextEncoder as BagTextEncoder
    from sylvan.neural.causal_transformer import CausalTransformer as CausalTransformer
    from sylvan.neural.checkpoint import load_tree as load_tree
    from sylvan.neural.checkpoint import save_tree as save_tree
    from sylvan.neural.clip import clip_gradients as clip_gradients
    from sylvan.neural.convergence import draw_convergence as draw_convergence
    from sylvan.neural.embedding import embed as embed
    from sylvan.neural.encoder_source import open_encoder as open_encoder
    from sylvan.neural.engine import Engine as Engine
    from sylvan.neural.gru4rec import GRU4Rec as GRU4Rec
    from sylvan.neural.history import History as History
    from sylvan.neural.keeping import load_best as load_best
    from sylvan.neural.lstm import LSTMEncoder as LSTMEncoder
    from sylvan.neural.refresh import RefreshSchedule as RefreshSchedule
    from sylvan.neural.sasrec import SASRec as SASRec
    from sylvan.neural.schedule import WarmupSchedule as WarmupSchedule
    from sylvan.neural.sentence_encoder import SentenceEncoder as SentenceEncoder
    from sylvan.neural.sequence_encoder import SequenceEncoder as SequenceEncoder
    from sylvan.neural.text_encoder import TextEncoder as TextEncoder
    from sylvan.neural.token_rows import TokenRows as TokenRows
    from sylvan.neural.training import Job as Job
    from sylvan.neural.training import train as train
    from sylvan.neural.transformer_encoder import TransformerEncoder as TransformerEncoder

# Where each public name lives; a module is loaded when a name of it is first asked for.
_PLACES = {
    "BagEncoder": "bag_encoder",
    "BagTextEncoder": "bag_text_encoder",
    "CausalTransformer": "causal_transformer",
    "clip_gradients": "clip",
    "draw_convergence": "convergence",
    "embed": "embedding",
    "Engine": "engine",
    "GRU4Rec": "gru4rec",
    "History": "history",
    "Job": "training",
    "load_best": "keeping",
    "load_tree": "checkpoint",
    "LSTMEncoder": "lstm",
    "open_encoder": "encoder_source",
    "RefreshSchedule": "refresh",
    "SASRec": "sasrec",
    "save_tree": "checkpoint",
    "SentenceEncoder": "sentence_encoder",
    "SequenceEncoder": "sequence_encoder",
    "TextEncoder": "text_encoder",
    "TokenRows": "token_rows",
    "train": "training",
    "TransformerEncoder": "transformer_encoder",
    "WarmupSchedule": "schedule",
}

__all__ = sorted(_PLACES)

__getattr__, __dir__ = lazy_names("sylvan.neural", _PLACES)
