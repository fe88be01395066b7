"""The encoder that a few words, a folder or a name on the Hugging Face hub stand for."""

from __future__ import annotations

import os
from typing import Any

from sylvan.errors import ParameterError
from sylvan.neural.text.bag_text_encoder import MODEL_TYPE, BagTextEncoder
from sylvan.neural.text.encoder_files import find_folder, read_json
from sylvan.neural.text.network_encoder import Pooling, SentenceEncoder, TransformerEncoder
from sylvan.neural.text.text_encoder import TextEncoder


def open_encoder(
    source: str | os.PathLike[str] | TextEncoder,
    *,
    max_length: int | None = None,
    pooling: Pooling | None = None,
    lora_rank: int | None = None,
    gradient_checkpointing: bool = False,
    frozen: bool = False,
    seed: int = 0,
) -> TextEncoder:
    """An encoder with its weights read.

    Parameters
    ----------
    source : "bag", path, str or TextEncoder
        "bag" is a new :class:`BagTextEncoder`; a folder or a name on the Hugging Face hub is what lies there; an
        encoder is itself.
    max_length : int, optional
        The most tokens of a text that are looked at; None for what the encoder says, or its class's default.
    pooling : str, optional
        See :class:`TransformerEncoder`; None for what the folder says, or "mean".
    lora_rank, gradient_checkpointing, frozen, seed
        As for :class:`TransformerEncoder`.

    Returns
    -------
    TextEncoder

    Examples
    --------
    >>> from sylvan.neural import open_encoder
    >>> open_encoder("bag", max_length=50).dim_out
    128
    """
    training: dict[str, Any] = {
        "lora_rank": lora_rank,
        "gradient_checkpointing": gradient_checkpointing,
        "frozen": frozen,
    }
    if isinstance(source, TextEncoder):
        refuse_beside(source, max_length, pooling, lora_rank, gradient_checkpointing, frozen)
        return source.load()
    if not isinstance(source, (str, os.PathLike)):
        raise ParameterError(
            "An encoder must be 'bag', the path of a folder, a name on the Hugging Face hub or a TextEncoder. "
            f"Got {source!r} instead."
        )
    length: dict[str, Any] = {} if max_length is None else {"max_length": max_length}
    if source == "bag":
        refuse_of_bags(pooling, lora_rank, gradient_checkpointing)
        return BagTextEncoder(**length, frozen=frozen, seed=seed).load()
    folder = find_folder(source)
    kind = _kind_of_folder(folder)
    if kind == "bag":
        refuse_of_bags(pooling, lora_rank, gradient_checkpointing)
        return BagTextEncoder.from_folder(folder, **length, frozen=frozen)
    if pooling is None and kind == "sentence":
        return SentenceEncoder(source, **length, **training, seed=seed).load()
    return TransformerEncoder(source, pooling=pooling or "mean", **length, **training, seed=seed).load()


def encoder_kind(source: str | os.PathLike[str]) -> str:
    """What a word, a folder or a name on the hub stands for: "bag", "sentence" or "network"."""
    return "bag" if source == "bag" else _kind_of_folder(find_folder(source))


def architecture(source: str | os.PathLike[str]) -> str | None:
    """What the configuration of a network calls its kind, such as "bert"; None where it doesn't say."""
    config = os.path.join(find_folder(source), "config.json")
    found = read_json(config).get("model_type") if os.path.isfile(config) else None
    return found if isinstance(found, str) else None


def _kind_of_folder(folder: str) -> str:
    config = os.path.join(folder, "config.json")
    if os.path.isfile(config) and read_json(config).get("model_type") == MODEL_TYPE:
        return "bag"
    return "sentence" if os.path.isfile(os.path.join(folder, "modules.json")) else "network"


def refuse_beside(
    encoder: Any,
    max_length: int | None,
    pooling: Pooling | None,
    lora_rank: int | None,
    gradient_checkpointing: bool,
    frozen: bool = False,
) -> None:
    """Raise a ParameterError where anything is set beside an encoder that is given as an object."""
    if max_length is not None or pooling is not None or lora_rank is not None or gradient_checkpointing or frozen:
        raise ParameterError(
            f"An encoder that is given as a {type(encoder).__name__} has its own parameters: max_length, pooling "
            "and the like must be set there."
        )


def refuse_of_bags(pooling: Pooling | None, lora_rank: int | None, gradient_checkpointing: bool) -> None:
    """Raise a ParameterError where a bag is given what only networks have."""
    if pooling is not None or lora_rank is not None or gradient_checkpointing:
        raise ParameterError("A bag of words takes no pooling, no lora_rank and no gradient_checkpointing.")
