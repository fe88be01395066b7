"""Texts to ids: the beginnings of long texts give what the whole gives, with every kind of tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from neural.text.tiny_bert import tiny_bert

from sylvan.neural import TransformerEncoder
from sylvan.neural.text import hugging_face

WORDS = "the of and whales in south seas Astronomy für Anfänger l'été it's 1,984 北京 www.example.org/a-b_c?d=e ---"
WORDS_APART = WORDS.split()


def texts() -> list[str]:
    """Texts long and short, with spaces of all kinds, and such as have none."""
    rng = np.random.default_rng(0)
    spaces = [" "] * 8 + ["  ", "\n", "\t ", "\u3000"]
    found = ["", " ", "a" * 5000, "北京" * 3000, " " * 5000 + "whale", "whale" + " " * 5000 + "seas", "a " * 3000]
    for n in (1, 5, 20, 60, 100, 300, 1000):
        for _ in range(2):
            found.append("".join(str(rng.choice(WORDS_APART)) + str(rng.choice(spaces)) for _ in range(n)))
    return found


def trained(kind: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<unk>", "<s>", "</s>"]
    trainer: Any
    if kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=special, unk_token="<unk>")
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=350, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([WORDS] * 20, trainer)
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ids)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_beginnings_are_enough(kind: str, tmp_path: Path) -> None:
    if kind == "wordpiece":
        tokenizer = TransformerEncoder(tiny_bert(tmp_path / "bert", [WORDS]), max_length=40).load().tokenizer
    else:
        tokenizer = trained(kind)
    given = texts()
    whole = [tokenizer(text, verbose=False)["input_ids"] for text in given]
    for max_length in (3, 10, 40):
        ids, n_truncated = hugging_face.token_ids(tokenizer, given, max_length)
        assert ids == [tokenizer(text, truncation=True, max_length=max_length)["input_ids"] for text in given]
        assert n_truncated == sum(len(row) > max_length for row in whole)
        assert {len(row) for row in ids} >= {2, max_length}


def test_only_beginnings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = trained("bpe")
    read: list[int] = []
    real = hugging_face._encode

    def counting(tokenizer: Any, texts: list[str], max_length: int) -> Any:
        read.extend(len(text) for text in texts)
        return real(tokenizer, texts, max_length)

    monkeypatch.setattr(hugging_face, "_encode", counting)
    long = "whales in the south seas " * 10_000
    tokenizer.truncation_side = "left"
    left, _ = hugging_face.token_ids(tokenizer, [long], 20)
    assert read == [len(long)]  # only its end is used
    tokenizer.truncation_side = "right"
    right, n_truncated = hugging_face.token_ids(tokenizer, [long, "whales"], 20)
    assert sum(read[1:]) < 500 and n_truncated == 1 and right[0] != left[0]


def test_tokenizers_in_python() -> None:
    from transformers import ByT5Tokenizer

    tokenizer = ByT5Tokenizer()
    given = ["whale", "", "a whale at sea", "1234567"]
    ids, n_truncated = hugging_face.token_ids(tokenizer, given, 8)
    assert [len(row) for row in ids] == [6, 1, 8, 8] and n_truncated == 1
    assert ids[0] == tokenizer("whale")["input_ids"]
