"""Folders of static vectors, written from the formats' descriptions: random vectors, and a tokenizer of words.

``from kit.static_folders import model2vec_folder, static_embedding_folder``, which skips a test without the libraries.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DIM = 6
_TYPES = {"float16": "F16", "float32": "F32", "float64": "F64", "int8": "I8", "int32": "I32", "int64": "I64"}


def safetensors(tensors: Mapping[str, np.ndarray[Any, Any]], **header: Any) -> bytes:
    """The bytes of a file of tensors; ``header`` replaces what it says of some."""
    entries, data = dict[str, Any](), b""
    for name, array in tensors.items():
        place = [len(data), len(data) + array.nbytes]
        entries[name] = {"dtype": _TYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": place}
        data += array.tobytes()
    written = json.dumps({**entries, **header}).encode()
    return struct.pack("<Q", len(written)) + written + data


def tokenizer(words: Sequence[str], unknown: str = "[UNK]") -> dict[str, Any]:
    """What tokenizer.json holds: whole words in lower case, parted at blanks."""
    ids = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *words])}
    return {
        "version": "1.0", "truncation": None, "added_tokens": [], "post_processor": None, "decoder": None,
        "padding": {
            "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": unknown},
    }  # fmt: skip


def table(n: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """A table of n random vectors."""
    values = np.random.default_rng(n).normal(size=(n, DIM)) * (20 if dtype == "int8" else 1)
    return values.astype(dtype)


def model2vec_folder(
    folder: Path, words: Sequence[str], *, n_vectors: int | None = None, dtype: str = "float32", normalize: bool = True
) -> str:
    """As model2vec writes it; with ``n_vectors``, several tokens have one vector, each with its own weight."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("safetensors")
    n_tokens = len(words) + 2
    tensors = {"embeddings": table(n_vectors or n_tokens, dtype)}
    if n_vectors is not None:
        tensors["mapping"] = np.arange(n_tokens) % n_vectors
        tensors["weights"] = np.linspace(0.1, 1, n_tokens)
    folder.mkdir(exist_ok=True)
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": normalize, "hidden_dim": DIM}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(words)))
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    return str(folder)


def static_embedding_folder(folder: Path, words: Sequence[str], *, normalize: bool = False) -> str:
    """As sentence-transformers writes it."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("safetensors")
    (folder / "0_StaticEmbedding").mkdir(parents=True, exist_ok=True)
    steps = [("0_StaticEmbedding", "StaticEmbedding"), *([("1_Normalize", "Normalize")] if normalize else [])]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (path, name) in enumerate(steps)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    prompts = {"prompts": {"query": "the "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    (folder / "0_StaticEmbedding" / "tokenizer.json").write_text(json.dumps(tokenizer(words)))
    tensors = {"embedding.weight": table(len(words) + 2)}
    (folder / "0_StaticEmbedding" / "model.safetensors").write_bytes(safetensors(tensors))
    return str(folder)
