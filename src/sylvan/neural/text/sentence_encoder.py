"""Texts to vectors as a folder of sentence-transformers says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

from sylvan.neural.text.network_encoder import NetworkEncoder
from sylvan.neural.text.sentence_files import Recipe, read_recipe
from sylvan.params.fields import Constraint, Flag, Instance, Number


class SentenceEncoder(NetworkEncoder):
    """The network, pooling, further layers and normalisation that a folder's ``modules.json`` names.

    The vectors are those of ``SentenceTransformer(folder).encode``. Whether they are brought to length 1 is said by
    ``normalizes`` and done by :func:`~sylvan.neural.embed`; ``forward`` gives them as they come, for a training.

    Parameters
    ----------
    source : path or str
        A folder that sentence-transformers or :meth:`save_pretrained` wrote, or a name on the Hugging Face hub.
    max_length : int, optional
        The most tokens of a text that are looked at, special ones included; None for what the folder says.
    lora_rank, gradient_checkpointing, frozen, seed
        As for :class:`~sylvan.neural.TransformerEncoder`.
    prompt : str, optional
        What is put before every text, or the name of one of the folder's prompts; None for the folder's default.

    Examples
    --------
    >>> from sylvan.neural import SentenceEncoder
    >>> SentenceEncoder("no/such/folder").load()
    Traceback (most recent call last):
    ...
    sylvan.errors.ModelError: There is no folder 'no/such/folder'.
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "source": Instance((str, os.PathLike), "the path of a folder or a name on the Hugging Face hub"),
        "max_length": Number(int, 1, optional=True),
        "lora_rank": Number(int, 1, optional=True),
        "gradient_checkpointing": Flag(),
        "frozen": Flag(),
        "seed": Number(int, 0, 2**63 - 1),
        "prompt": Instance((str,), "a text or the name of a prompt", optional=True),
    }

    def __init__(
        self,
        source: str | os.PathLike[str],
        max_length: int | None = None,
        lora_rank: int | None = None,
        gradient_checkpointing: bool = False,
        frozen: bool = False,
        seed: int = 0,
        prompt: str | None = None,
    ) -> None:
        super().__init__()
        self.source, self.lora_rank, self.prompt = source, lora_rank, prompt
        self.max_length = max_length  # type: ignore[assignment]  # an int once the folder has been read
        self.gradient_checkpointing, self.frozen, self.seed = gradient_checkpointing, frozen, seed

    def _read_recipe(self, folder: str) -> Recipe:
        recipe = read_recipe(folder)
        if self.prompt is not None:
            recipe.prompt = (recipe.prompts or {}).get(self.prompt, self.prompt)
        return recipe
