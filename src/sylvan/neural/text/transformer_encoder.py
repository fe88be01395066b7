"""Texts to vectors by any pretrained Transformer of Hugging Face's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from sylvan.neural.text.network_encoder import NetworkEncoder
from sylvan.neural.text.sentence_files import Recipe
from sylvan.params.fields import Choice, Constraint, Flag, Instance, Number

Pooling = Literal["mean", "cls", "pooler", "max", "last"]
_MODES: dict[Pooling, str] = {
    "mean": "mean", "cls": "cls", "max": "max", "last": "lasttoken", "pooler": "pooler",
}  # fmt: skip


class TransformerEncoder(NetworkEncoder):
    """Any network that ``AutoModel`` loads, and one vector a text from the vectors of its tokens.

    Weights are read as float32, whatever they were saved as; code that comes with a model is never run.

    Parameters
    ----------
    source : path or str
        A folder with ``config.json``, the weights and the tokenizer, or a name on the Hugging Face hub. Of a name the
        files that an earlier download left are used where they are complete, without asking the hub.
    pooling : {"mean", "cls", "pooler", "max", "last"}
        The tokens' mean, the first token's vector, what the network's own pooler makes of that, the largest value of
        each dimension, or the last token's vector (for networks whose tokens see only those before them).
    max_length : int
        The most tokens of a text that are looked at, special ones included.
    lora_rank : int, optional
        Train low-rank additions to the attention's weights instead of the weights (LoRA, through peft).
    gradient_checkpointing : bool
        Compute activations again in the backward pass instead of keeping them: less memory, about a third more time.
    frozen : bool
        Whether the weights stay as they are in a training.
    seed : int
        Of what LoRA begins with.

    Attributes
    ----------
    network : transformers.PreTrainedModel
    tokenizer : transformers.PreTrainedTokenizer

    Notes
    -----
    An empty text is the tokenizer's special tokens alone, or where there are none its token for the beginning or end
    of a text. Padding changes vectors by no more than rounding: some 1e-6 of their length in float32.

    Of networks with a decoder behind the encoder (T5 and its kin) only the encoder is loaded.

    Examples
    --------
    >>> from sylvan.neural import TransformerEncoder
    >>> TransformerEncoder("no/such/folder", pooling="cls").load()
    Traceback (most recent call last):
    ...
    sylvan.errors.ModelError: There is no folder 'no/such/folder'.
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "source": Instance((str, os.PathLike), "the path of a folder or a name on the Hugging Face hub"),
        "pooling": Choice(get_args(Pooling)),
        "max_length": Number(int, 1),
        "lora_rank": Number(int, 1, optional=True),
        "gradient_checkpointing": Flag(),
        "frozen": Flag(),
        "seed": Number(int, 0, 2**63 - 1),
    }

    def __init__(
        self,
        source: str | os.PathLike[str],
        pooling: Pooling = "mean",
        max_length: int = 128,
        lora_rank: int | None = None,
        gradient_checkpointing: bool = False,
        frozen: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.source, self.pooling, self.max_length, self.lora_rank = source, pooling, max_length, lora_rank
        self.gradient_checkpointing, self.frozen, self.seed = gradient_checkpointing, frozen, seed

    def _read_recipe(self, folder: str) -> Recipe:
        return Recipe(folder, modes=(_MODES[self.pooling],))
