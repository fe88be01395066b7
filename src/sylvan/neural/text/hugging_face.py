"""The only importer of sentence_transformers, transformers, peft and safetensors. It never runs code that comes with a
model, reads no pickled weights, and asks nobody on the network for a local folder."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import logging
import math
import os
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from sylvan.errors import ModelError, ParameterError
from sylvan.lazy import need_extra
from sylvan.text.encoder_folders import reason_of

Shapes = dict[str, tuple[str, tuple[int, ...]]]  # of each tensor: the file it is in, and its shape
_WEIGHTS = "model.safetensors"
_LAYERS = "num_hidden_layers"
_COUNT = re.compile(r"(layers?|groups)$")
_FEW = 256  # layers that any network may have: ALBERT's kin use the same weights for many
_SPARE = 2**26  # elements of what files don't hold: poolers, masks, tables of sines
# What of a network's answer is meant, in the words of sentence-transformers' files.
TOKEN_VECTORS = {"method": "forward", "method_output_name": "last_hidden_state"}
_EXTRAS = {"peft": "lora"}
# Encoders with a decoder behind them of which transformers loads and saves the encoder alone.
_HALVES = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "umt5": "UMT5EncoderModel"}
_CHARACTERS_A_TOKEN = 8  # about twice what most languages have; where it isn't enough, the whole is tokenised
_MARGIN = 16  # tokens: where a text ends may change the last few


def stored_shapes(folder: str) -> Shapes:
    """What the files that transformers would read hold, by their headers alone."""
    path = os.path.join(folder, _WEIGHTS)
    paths = [path]
    if not os.path.isfile(path):
        with open(f"{path}.index.json", "rb") as file:
            paths = [os.path.join(folder, shard) for shard in sorted(set(json.load(file)["weight_map"].values()))]
    return {tensor: (path, shape) for path in paths for tensor, shape in shapes_in(path).items()}


def shapes_in(path: str) -> dict[str, tuple[int, ...]]:
    """The shapes of a safetensors file's tensors by their names, of its header alone."""
    with open(path, "rb") as file:
        n_bytes = int.from_bytes(file.read(8), "little")
        if n_bytes > os.path.getsize(path) - 8:
            raise ValueError(f"{os.path.basename(path)} is damaged: it ends within its header.")
        header = json.loads(file.read(n_bytes))
    return {name: tuple(map(int, entry["shape"])) for name, entry in header.items() if name != "__metadata__"}


def check_counts(folder: str, stored: Shapes) -> None:
    """Check that config.json asks for no more layers than there are tensors: even their list could fill the memory."""
    path = os.path.join(folder, "config.json")
    with open(path, "rb") as file:
        config = json.load(file)
    most = max(_FEW, len(stored))
    for name, count in config.items() if isinstance(config, dict) else ():
        if _COUNT.search(name) and isinstance(count, int | float) and (count > most or (name == _LAYERS and count < 0)):
            raise ModelError(
                f"The weights in {folder!r} are not those of its config.json: {name!r} must be in [0, {most}] where "
                f"the files hold {len(stored)} tensors. Got {count} instead."
            )


def check_network(kind: Any, folder: str, stored: Shapes, **settings: Any) -> list[str]:
    """Have the network loaded without memory behind its weights, and check what it reports."""
    limit = 4 * len(stored) + 1000  # files may have one tensor where the network has the three of an attention
    thread, n_made = threading.get_ident(), 0

    def count(*_: Any) -> None:
        nonlocal n_made
        n_made += threading.get_ident() == thread
        if n_made > limit:
            raise ModelError(
                f"The weights in {folder!r} are not those of its config.json, which asks for a network of more than "
                f"{limit} parameters, where the files hold {len(stored)} tensors."
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"):  # whatever the network computes of its settings takes no memory either
            settings.update(device_map="meta", output_loading_info=True, ignore_mismatched_sizes=True)
            model, report = kind.from_pretrained(folder, **settings)
    finally:
        hook.remove()
    differing = {name: (tuple(shape), tuple(wanted)) for name, shape, wanted in report["mismatched_keys"]}
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    shapes = {name: tuple(tensor.shape) for name, tensor in named}
    for name in sorted(differing, key=list(shapes).index):
        shape, wanted = differing[name]
        file = next((file for key, (file, _) in stored.items() if key.endswith(name)), folder)
        raise ModelError(
            f"The weights in {file!r} are not those of its config.json: {name!r} has the shape {shape}, where "
            f"config.json asks for {wanted}."
        )
    missing = sorted(report["missing_keys"])
    if absent := [name for name in missing if name.split(".")[0] != "pooler"]:
        raise incomplete(folder, absent, shapes)
    # What the files don't have mustn't be far larger than what they have.
    unset = {name: shapes[name] for name in [*missing, *dict(model.named_buffers())]}
    if sum(map(math.prod, unset.values())) > sum(math.prod(shape) for _, shape in stored.values()) + _SPARE:
        name, wanted = max(unset.items(), key=lambda item: math.prod(item[1]))
        raise ModelError(
            f"The weights in {folder!r} are not those of its config.json: it asks for {name!r} of the shape {wanted}, "
            "which the files don't hold."
        )
    _check_layers(model, report["unexpected_keys"], folder)
    return missing


def incomplete(folder: str, names: Sequence[str], shapes: Mapping[str, tuple[int, ...]] | None = None) -> ModelError:
    """The error that says which weights the files lack."""
    shape = "" if shapes is None else f" of the shape {shapes[names[0]]}"
    return ModelError(
        f"The encoder in {folder!r} is incomplete: its files hold no weights for {len(names)} of the network's "
        f"parameters, {names[0]!r}{shape} among them."
    )


def _check_layers(model: Any, unexpected: Iterable[str], folder: str) -> None:
    """Check that the network has all layers that its files have; what else they hold may be a task's head."""
    lists = {name: len(module) for name, module in model.named_modules() if isinstance(module, nn.ModuleList)}
    for key in sorted(unexpected):
        parts = key.removeprefix(f"{model.base_model_prefix}.").split(".")
        for i in range(1, len(parts)):
            n_layers = lists.get(".".join(parts[:i]))
            if n_layers is not None and parts[i].isdecimal() and int(parts[i]) >= n_layers:
                raise ModelError(
                    f"The weights in {folder!r} are not those of its config.json, which asks for {n_layers} of the "
                    f"layers {'.'.join(parts[:i])!r}, where the files have more: {key!r}."
                )


def need(module: str) -> Any:
    """Import a module of an extra, or say how to get it."""
    package = module.split(".")[0]
    return need_extra(f"Encoders of this kind need {package}", _EXTRAS.get(package, "transformers"), module)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """No progress bars, reports and deprecations of the libraries while the block runs; errors remain."""
    log, other = need("transformers").utils.logging, logging.getLogger("sentence_transformers")
    level, bars, other_level = log.get_verbosity(), log.is_progress_bar_enabled(), other.level
    log.set_verbosity(log.CRITICAL)
    other.setLevel(logging.CRITICAL)
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            for category in (FutureWarning, DeprecationWarning, UserWarning):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        log.set_verbosity(level)
        other.setLevel(other_level)
        if bars:
            log.enable_progress_bar()


def need_modules() -> Any:
    """The modules that a SentenceTransformer is made of; errors as :func:`need`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return need("sentence_transformers.sentence_transformer.modules")


@contextlib.contextmanager
def explained(folder: str, part: str) -> Iterator[None]:
    """Whatever goes wrong in the block is a ModelError that names the folder."""
    try:
        with quietly():
            yield
    except (ModelError, ParameterError, MemoryError):
        raise
    except Exception as error:  # of transformers and what it stands on: any class at all
        reason = reason_of(error)
        if "trust_remote_code" in reason:
            reason = "it needs code that comes with the model, which Sylvan doesn't run."
        raise ModelError(f"The {part} in {folder!r} can't be loaded: {reason}") from error


# ---------------------------------------------------------------------------------------- from files
def load_network(folder: str) -> tuple[Any, list[str]]:
    """The network and the tokenizer of a local folder as the first module of a SentenceTransformer, in float32."""
    transformers, modules = need("transformers"), need_modules()
    settings: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    # A configuration may name other files than those that were looked at.
    own_files = {**settings, "transformers_weights": None}
    with explained(folder, "network"):
        stored = stored_shapes(folder)
    with explained(folder, "configuration"):
        check_counts(folder, stored)
        config = transformers.AutoConfig.from_pretrained(folder, **own_files)
    kind = transformers.AutoModel
    if config.model_type in _HALVES:
        kind = getattr(transformers, _HALVES[config.model_type])
    elif getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"The network in {folder!r} is an encoder with a decoder ({config.model_type}), of which the encoder "
            f"can't be used alone. Those that can: {', '.join(_HALVES)}."
        )
    if getattr(config, "quantization_config", None) is not None:
        raise ModelError(
            f"The weights in {folder!r} are quantised (quantization_config), where Sylvan reads float32, float16 and "
            "bfloat16. Take the model that they were made of."
        )
    weights = {**settings, "use_safetensors": True}
    with explained(folder, "network"):
        missing = check_network(kind, folder, stored, config=config, **weights)
    try:
        with explained(folder, "network"):
            module = modules.Transformer(
                folder, model_kwargs={**weights, "dtype": torch.float32}, config_kwargs=own_files,
                processor_kwargs=settings,
                modality_config={"text": TOKEN_VECTORS}, module_output_name="token_embeddings",
            )  # fmt: skip
    except ModelError:
        with explained(folder, "tokenizer"):  # which was loaded at once; if it is to blame, it says so
            transformers.AutoTokenizer.from_pretrained(folder, **settings)
        raise
    if module.tokenizer is None:
        raise ModelError(f"The tokenizer in {folder!r} can't be loaded: it isn't one of texts.")
    _forget_lengths(module.tokenizer)
    return module.eval(), missing


def _forget_lengths(tokenizer: Any) -> None:
    """Take back the lengths that a tokenizer was last set to cut and pad to; some folders hold what a training used."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()


def longest_input(model: Any) -> int | None:
    """The most tokens that a network has positions for; None where there is no limit."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its kin count positions from behind the padding's.
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    limit = getattr(model.config, "max_position_embeddings", None)
    return int(limit) if isinstance(limit, int) and limit > 0 else None


def save(
    modules: Sequence[Any], folder: str, *, prompts: dict[str, str], prompt_name: str | None, lowercase: bool
) -> None:
    """Write modules as a SentenceTransformer, what a training of few of its weights added included."""
    library = need("sentence_transformers")
    with quietly():
        if hasattr(modules[0].model, "merge_and_unload"):
            modules = copy.deepcopy(list(modules))
            modules[0].model = modules[0].model.merge_and_unload()
        device = str(modules[0].model.device)
        sentence_model = library.SentenceTransformer(
            modules=list(modules), device=device, prompts=prompts, default_prompt_name=prompt_name
        )
        sentence_model.save_pretrained(folder, create_model_card=False)
        tokenizer = copy.deepcopy(modules[0].tokenizer)  # others may be using it
        _forget_lengths(tokenizer)
        for name in ("local_files_only", "is_local", "trust_remote_code"):  # of how it was loaded, not of what it is
            tokenizer.init_kwargs.pop(name, None)
        tokenizer.save_pretrained(folder)
    if lowercase:  # which the library reads, but doesn't write
        path = os.path.join(folder, modules[0].config_file_name)
        with open(path, "r+", encoding="utf-8") as file:
            settings = {**json.load(file), "do_lower_case": True}
            file.seek(0)
            json.dump(settings, file, indent=4)
    for place, _, names in os.walk(folder):  # safetensors gives its files to their owner alone
        for name in names:
            shutil.copymode(os.path.join(folder, "config.json"), os.path.join(place, name))


def tokenizer_checksum(tokenizer: Any) -> str:
    """A checksum of all that a tokenizer does to texts, whatever length it last cut them to."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        text = json.dumps(tokenizer.get_vocab(), sort_keys=True) + type(tokenizer).__name__
    else:
        described = json.loads(backend.to_str())
        described["truncation"] = described["padding"] = None
        text = json.dumps(described, sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def token_ids(tokenizer: Any, texts: list[str], max_length: int) -> tuple[list[list[int]], int]:
    """The ids of texts, special tokens included, and how many texts had to be cut at ``max_length``. Of a long text
    only the beginning is tokenised, up to a space that lies well behind the last token that counts."""
    limit = _CHARACTERS_A_TOKEN * max_length
    if not tokenizer.is_fast or tokenizer.truncation_side != "right":
        limit = sys.maxsize
    begun = [_beginning(text, limit) for text in texts]
    ids, n_behind = _encode(tokenizer, begun, max_length)
    again = [i for i, text in enumerate(texts) if len(begun[i]) < len(text) and n_behind[i] < _MARGIN]
    if again:
        for i, row, behind in zip(again, *_encode(tokenizer, [texts[i] for i in again], max_length), strict=True):
            ids[i], n_behind[i] = row, behind
    return ids, sum(behind > 0 for behind in n_behind)


def _beginning(text: str, limit: int) -> str:
    """The text up to a space soon after ``limit`` characters; the whole where there is none between two words."""
    if len(text) <= 2 * limit:
        return text
    space = text.find(" ", limit, 2 * limit)
    return text[:space] if space > 0 and not text[space - 1].isspace() and not text[space + 1].isspace() else text


def _encode(tokenizer: Any, texts: list[str], max_length: int) -> tuple[list[list[int]], list[int]]:
    """The ids of texts, and how many tokens of each lie behind the place where it was cut."""
    settings = {"truncation": True, "max_length": max_length, "add_special_tokens": True, "verbose": False}
    settings.update(padding=False, return_attention_mask=False, return_token_type_ids=False)
    try:
        encoded = tokenizer(texts, **settings)
    except (TypeError, UnicodeError):  # half a character, as a text cut in UTF-16 ends with
        texts = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
        encoded = tokenizer(texts, **settings)
    ids: list[list[int]] = encoded["input_ids"]
    if encoded.encodings is not None:
        return ids, [sum(len(part) for part in encoding.overflowing) for encoding in encoded.encodings]
    most = max_length - int(tokenizer.num_special_tokens_to_add())
    behind = [0] * len(ids)
    for i, row in enumerate(ids):
        if len(row) == max_length:
            behind[i] = len(tokenizer.tokenize(texts[i])) - most
    return ids, behind


# ---------------------------------------------------------------------------------------- for training
def add_lora(model: Any, rank: int) -> Any:
    """The network with low-rank additions to its layers, of which alone a training changes anything."""
    peft = need("peft")
    settings = {"r": rank, "lora_alpha": 2 * rank, "lora_dropout": 0.0, "bias": "none"}
    with quietly():
        try:
            wrapped = peft.get_peft_model(model, peft.LoraConfig(**settings))
        except ValueError:  # peft knows no names of layers for this kind of network
            wrapped = peft.get_peft_model(model, peft.LoraConfig(**settings, target_modules="all-linear"))
    _without_hooks(model)
    return wrapped


def fold_lora(model: Any) -> None:
    """Add what LoRA has learned to the weights beneath; the additions are zero then, and may learn on from there."""
    for layer in model.modules():
        additions = getattr(layer, "lora_B", None)
        if additions:
            layer.merge()
            layer.merged_adapters.clear()  # as peft sees it, nothing has been merged: there is nothing to take back
            for addition in additions.values():
                nn.init.zeros_(addition.weight)


def recompute_activations(model: Any) -> bool:
    """Have the backward pass compute layers again instead of keeping what they gave: less memory, more time."""
    if not getattr(model, "supports_gradient_checkpointing", False):
        return False
    with quietly():
        model.gradient_checkpointing_enable({"use_reentrant": False})
    _without_hooks(model)
    return True


def _without_hooks(model: Any) -> None:
    """Take back the functions that reentrant checkpointing needs on a network's tables: they can't be pickled."""
    if hasattr(model, "disable_input_require_grads"):
        model.disable_input_require_grads()
