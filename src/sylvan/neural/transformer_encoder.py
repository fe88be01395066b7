"""Texts to vectors by a pretrained Transformer of Hugging Face's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from sylvan.neural import hugging_face
from sylvan.neural.pooling import pool
from sylvan.neural.text_encoder import TextEncoder, as_tensor, checksum_of_tensors
from sylvan.neural.token_rows import TokenRows
from sylvan.parallel import progress
from sylvan.params import Choice, Constraint, Flag, Instance, Number
from sylvan.text.documents import as_documents

__all__ = ["TransformerEncoder"]

_CHUNK = 1000


class TransformerEncoder(TextEncoder):
    """Any network that ``AutoModel`` loads, and one vector a text of the vectors of its tokens."""

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "source": Instance((str, os.PathLike), "the path of a folder or a name on the Hugging Face hub"),
        "pooling": Choice(("mean", "cls", "pooler", "max", "last")),
        "max_length": Number(int, 1),
        "lora_rank": Number(int, 1, optional=True),
        "gradient_checkpointing": Flag(),
        "frozen": Flag(),
        "seed": Number(int, 0, 2**63 - 1),
    }

    model: Any
    tokenizer: Any

    def __init__(
        self,
        source: str | os.PathLike[str],
        pooling: str = "mean",
        max_length: int = 128,
        lora_rank: int | None = None,
        gradient_checkpointing: bool = False,
        frozen: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.source, self.pooling, self.max_length, self.lora_rank = source, pooling, max_length, lora_rank
        self.gradient_checkpointing, self.frozen, self.seed = gradient_checkpointing, frozen, seed

    def _load(self) -> None:
        folder = os.fspath(self.source)
        config = hugging_face.load_config(folder)
        self.tokenizer = hugging_face.load_tokenizer(folder)
        self.model, _ = hugging_face.load_model(folder, config)
        self._padding = int(self.tokenizer.pad_token_id or 0)
        if self.frozen:
            self.model.requires_grad_(False)
        elif self.lora_rank is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                self.model = hugging_face.add_lora(self.model, self.lora_rank)
        if self.gradient_checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        self._dim_out = int(config.hidden_size)

    @property
    def dim_out(self) -> int:
        self.load()
        return self._dim_out

    def tokenize(self, texts: Iterable[str]) -> TokenRows:
        self.load()
        documents = as_documents(texts)
        self.n_truncated = 0
        parts = []
        with progress("Tokenising texts", len(documents)) as bar:
            for start in range(0, len(documents), _CHUNK):
                some = list(documents[start : start + _CHUNK])
                found = self.tokenizer(some, truncation=True, max_length=self.max_length, verbose=False)
                parts.append(TokenRows.from_lists(found["input_ids"]))
                bar.update(len(some))
        return TokenRows.join(parts)

    def collate(self, rows: TokenRows) -> dict[str, Tensor]:
        self.load()
        ids, mask = rows.dense(self._padding)
        return {"input_ids": as_tensor(ids), "attention_mask": as_tensor(mask)}

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        self.load()
        mask = batch["attention_mask"]
        output = self.model(input_ids=batch["input_ids"], attention_mask=mask)
        if self.pooling == "pooler":
            found: Tensor = output.pooler_output.float()
            return found
        return pool(output.last_hidden_state, mask, (self.pooling,))

    def identity(self) -> dict[str, Any]:
        self.load()
        return {
            "kind": "transformer",
            "pooling": self.pooling,
            "max_length": self.max_length,
            "weights": checksum_of_tensors(self.model.state_dict().items()),
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        self.load()
        network: Any = hugging_face.merged(self.model)
        with hugging_face.quietly():
            network.save_pretrained(os.fspath(folder))
            self.tokenizer.save_pretrained(os.fspath(folder))
