"""The only importer of transformers, tokenizers, peft, safetensors and huggingface_hub; loads no code of models."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from torch import nn

from sylvan.errors import ModelError, ParameterError

__all__ = ["add_lora", "load_config", "load_model", "load_tokenizer", "merged", "need", "quietly"]

_EXTRAS = {"peft": "lora"}
# Encoders with a decoder behind them of which transformers can load the encoder alone, and what saves as such.
_HALVES = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "umt5": "UMT5EncoderModel"}


def need(module: str) -> Any:
    """Import a module of an extra, or say how to get it.

    Raises
    ------
    ImportError
        When it isn't installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        extra = _EXTRAS.get(package, "transformers")
        raise ImportError(
            f'Encoders of this kind need {package}. Install it with: pip install "sylvan[{extra}]"'
        ) from error


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """No progress bars and no warnings of transformers while the block runs; errors remain."""
    log = need("transformers").utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(log.CRITICAL)
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


@contextlib.contextmanager
def _explained(folder: str, what: str) -> Iterator[None]:
    """Whatever goes wrong in the block is a ModelError that names the folder."""
    try:
        with quietly():
            yield
    except (ModelError, ParameterError, MemoryError):
        raise
    except Exception as error:  # of transformers and what it stands on: any class at all
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"The {what} in {folder!r} can't be loaded: {reason}") from error


def load_config(folder: str) -> Any:
    """The configuration of the network in a local folder.

    Raises
    ------
    ModelError
        When it can't be read, or is of a network that only code of its own could make.
    """
    transformers = need("transformers")
    with _explained(folder, "configuration"):
        return transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def load_tokenizer(folder: str) -> Any:
    """The tokenizer of a local folder.

    Raises
    ------
    ModelError
        When it can't be loaded.
    """
    transformers = need("transformers")
    with _explained(folder, "tokenizer"):
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def load_model(folder: str, config: Any) -> tuple[nn.Module, list[str]]:
    """The network of a local folder in float32, and the names of weights that its files don't hold.

    Raises
    ------
    ModelError
        When it can't be loaded.
    """
    transformers = need("transformers")
    kind = transformers.AutoModel
    if getattr(config, "is_encoder_decoder", False):
        half = _HALVES.get(config.model_type)
        if half is None:
            raise ModelError(
                f"The network in {folder!r} is an encoder with a decoder ({config.model_type}), of which the encoder "
                f"can't be used alone. Those that can: {', '.join(_HALVES)}."
            )
        kind = getattr(transformers, half)
    with _explained(folder, "network"):
        model, report = kind.from_pretrained(
            folder, config=config, local_files_only=True, trust_remote_code=False, output_loading_info=True
        )
    network: nn.Module = model.float()
    network.eval()
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return network, sorted(report["missing_keys"])


def add_lora(model: nn.Module, rank: int) -> nn.Module:
    """The network with low-rank additions to its attention, of which alone a training changes anything."""
    peft = need("peft")
    settings = {"r": rank, "lora_alpha": 2 * rank, "lora_dropout": 0.0, "bias": "none"}
    try:
        found = peft.get_peft_model(model, peft.LoraConfig(**settings))
    except ValueError:  # peft knows no names of layers for this kind of network
        found = peft.get_peft_model(model, peft.LoraConfig(**settings, target_modules="all-linear"))
    network: nn.Module = found
    return network


def merged(model: Any) -> Any:
    """A copy of a network in which low-rank additions are added; a network without them itself."""
    if not hasattr(model, "merge_and_unload"):
        return model
    import copy

    return copy.deepcopy(model).merge_and_unload()
