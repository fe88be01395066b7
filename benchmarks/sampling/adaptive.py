"""A language model whose output layer is PyTorch's adaptive softmax: a rival in tables of time against quality."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from sylvan.tasks import LanguageModel
from sylvan.tasks.base import table_optimizer

HEAD = 1000  # words that are scored exactly, as in our own heads
SHARE = 4  # one in so many words is in the first cluster or the head; the others have a sixteenth of the dimensions


class AdaptiveSoftmax(LanguageModel):
    """The same network, trained and measured by ``torch.nn.AdaptiveLogSoftmaxWithLoss`` (Grave and others, 2017).

    All its weights are trained as the class table of the others is: by Adagrad with ``table_learning_rate``.
    """

    def _prepare(self) -> None:
        super()._prepare()
        n_words, dim = self.table_.shape
        self._layer = nn.AdaptiveLogSoftmaxWithLoss(dim, n_words, [HEAD, n_words // SHARE]).to(self.device)
        del self.module.table
        self.module.add_module("layer", self._layer)
        weights = list(self._layer.parameters())
        self.optimizers[-1] = table_optimizer(self.optimizer, weights, self.table_learning_rate_, sparse=False)

    def step(self, batch: tuple[Tensor, Tensor], step: int) -> Tensor:
        """The mean loss of the batch's words."""
        loss: Tensor = self._layer(self._encode(batch[0]).flatten(0, 1), batch[1].flatten()).loss
        return loss

    @torch.no_grad()
    def evaluate(self, split: str) -> dict[str, float]:
        """Perplexity over the whole vocabulary: the layer's probabilities add up to one."""
        ids = {"validation": self.corpus.validation, "test": self.corpus.test}[split]
        carried, self._state = self._state, None
        total = 0.0
        for inputs, targets in self._in_order(ids):
            queries, wanted = self._encode(inputs).flatten(0, 1), targets.flatten()
            counted = wanted >= 0
            total -= float(self._layer(queries[counted], wanted[counted]).output.double().sum())
        self._state = carried
        return {"perplexity": math.exp(total / len(ids))}

    def settings(self) -> dict[str, Any]:
        """As of a language model, with the loss that it has in truth."""
        return {**super().settings(), "loss": "adaptive"}
