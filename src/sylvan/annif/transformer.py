"""Annif's backend ``sylvan_transformer``: texts as they are, read by a fine-tuned encoder, ranked by linear models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from sylvan.annif.model_backend import ModelBackend, read_blocks
from sylvan.annif.parameters import plain_value
from sylvan.models import XRLinear, XRTransformer
from sylvan.runtime.checkpoint import Checkpoint

_OWN = ("encoder", "frozen", "max_length", "pooling", "device", "seed")
_RANKER = ("n_trees", "branching", "max_leaf", "beam", "calibration", "keep_rows")
_PRESET = "preset"  # stands for what the preset has


class SylvanTransformerBackend(ModelBackend):
    """An XRTransformer: needs PyTorch, and transformers for any encoder but "bag"; the project needs no analyser."""

    name = "sylvan_transformer"
    model_type = XRTransformer

    DEFAULT_PARAMETERS: ClassVar[dict[str, Any]] = {
        "preset": XRTransformer().preset,
        **{name: getattr(XRTransformer(), name) for name in _OWN},
        **dict.fromkeys(_RANKER, _PRESET),
    }

    def words(self, text: str) -> str:
        """The whole text, on one line."""
        return " ".join(text.split())

    def rows_of(self, documents: Iterator[tuple[list[str], str]], jobs: int) -> Iterator[tuple[list[str], str]]:
        """URIs and words of URIs and texts; there is too little to do for other processes."""
        return ((uris, self.words(text)) for uris, text in documents)

    def model_of(self, params: Mapping[str, Any], n_jobs: int | None) -> XRTransformer:
        """The model that the parameters describe."""
        own = {name: plain_value(params[name], self.DEFAULT_PARAMETERS[name]) for name in ("preset", *_OWN)}
        usual = XRLinear()
        ranker = {
            f"ranker__{name}": plain_value(params[name], getattr(usual, name))
            for name in _RANKER if params[name] != _PRESET
        }  # fmt: skip
        model = XRTransformer(**own, n_jobs=n_jobs)
        model.check_params()  # before parts are made of the preset
        model.set_params(**ranker)
        model.check_params()
        return model

    def fit(self, model: XRTransformer, path: Path, checkpoint: Checkpoint) -> None:
        """Train it with all documents in memory, as the encoder reads them several times."""
        texts: list[str] = []
        label_lists: list[list[str]] = []
        for block, labels in read_blocks(path):
            texts += block
            label_lists += labels
        model.fit(texts, label_lists, checkpoint=checkpoint)
