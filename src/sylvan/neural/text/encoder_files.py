"""What the files of a network's folder say: its tensors, its pooling, the layers behind it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sylvan.errors import ModelError
from sylvan.neural.text.hugging_face import TOKEN_VECTORS, explained, need, need_modules, shapes_in
from sylvan.text.encoder_folders import WEIGHTS, inside, network_folder, read_json, read_prompts, reason_of

_ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")


def read_tensors(folder: str) -> dict[str, Tensor]:
    """The tensors of a folder's ``model.safetensors``."""
    path = os.path.join(folder, WEIGHTS)
    try:
        tensors = need("safetensors.torch").load_file(path)
    except (ImportError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise ModelError(f"{path!r} is missing.") from error
    except Exception as error:  # of safetensors
        raise ModelError(f"{path!r} can't be read: {reason_of(error)}") from error
    return {str(name): tensor.float() for name, tensor in tensors.items()}


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file."""
    plain = {name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in tensors.items()}
    data: bytes = need("safetensors.torch").save(plain, metadata={"format": "pt"})
    return data


@dataclass
class Recipe:
    """What an encoder does besides its network."""

    folder: str  # of the network and its tokenizer
    # ways of pooling by sentence-transformers' names; or "pooler" alone, the network's own, until it is loaded
    modes: tuple[str, ...] = ("mean",)
    dense: Sequence[Any] = ()  # layers behind the pooling
    normalizes: bool = False
    max_length: int | None = None
    lowercase: bool = False  # whether texts are brought to lower case before the tokenizer sees them
    prompts: dict[str, str] | None = None  # what may be put before a text, by name
    prompt: str = ""  # what is put before every text


def read_recipe(folder: str) -> Recipe:
    """What the files of a folder with ``modules.json`` say. No class is imported by a name that stands in a file: the
    steps are those that this module knows."""
    path = os.path.join(folder, "modules.json")
    if not os.path.isfile(path):
        raise ModelError(f"{folder!r} is not the folder of a SentenceEncoder: modules.json is missing.")
    recipe = Recipe(network_folder(folder), modes=())
    dense: list[Any] = []
    for place, module in enumerate(read_json(path, list)):
        if not isinstance(module, dict) or not isinstance(module.get("type"), str):
            raise ModelError(f"{path!r} is damaged: entry {place} must be an object with a type and a path.")
        kind = module["type"].rsplit(".", 1)[-1]
        folder_of_step = inside(folder, module.get("path", ""))
        if (kind == "Transformer") != (place == 0) or recipe.normalizes:
            raise ModelError(f"{path!r} names the step {module['type']!r} at place {place}, where Sylvan knows none.")
        if kind == "Pooling" and not recipe.modes:
            settings = os.path.join(folder_of_step, "config.json")
            read_json(settings)
            with explained(folder_of_step, "pooling"):
                pooling = need_modules().Pooling.load(folder_of_step, local_files_only=True)
            if pooling.include_prompt is not True:
                raise ModelError(
                    f"{settings!r} pools without the prompt's tokens (include_prompt), which Sylvan doesn't."
                )
            modes = pooling.pooling_mode
            recipe.modes = (modes,) if isinstance(modes, str) else tuple(modes)
        elif kind == "Dense" and recipe.modes:
            dense.append(_read_dense(folder_of_step))
        elif kind == "Normalize" and recipe.modes:
            recipe.normalizes = True
        elif kind not in ("Transformer", "Dropout"):
            raise ModelError(
                f"{path!r} names the step {module['type']!r} at place {place}, which Sylvan doesn't know there. "
                "It knows Transformer, Pooling, Dense, Dropout and Normalize, in this order."
            )
    if not recipe.modes:
        raise ModelError(f"{path!r} names no Pooling, so that there would be no vector of a text.")
    recipe.dense = dense
    _read_texts(recipe)
    recipe.prompts, recipe.prompt = read_prompts(folder)
    return recipe


def _read_dense(folder: str) -> Any:
    path, weights = (os.path.join(folder, name) for name in ("config.json", "model.safetensors"))
    config = read_json(path)
    sizes = [config.get("in_features"), config.get("out_features")]
    activation = str(config.get("activation_function", "torch.nn.Tanh"))
    activates = activation.startswith("torch.nn.") and activation.rsplit(".", 1)[-1] in _ACTIVATIONS
    plain = config.get("module_input_name", "sentence_embedding") == "sentence_embedding"
    if not all(isinstance(size, int) and size > 0 for size in sizes) or not activates or not plain:
        raise ModelError(
            f"{path!r} describes a layer that Sylvan doesn't know: it takes in_features, out_features, bias and an "
            f"activation_function among {', '.join(_ACTIVATIONS)}."
        )
    if not os.path.isfile(weights):
        raise ModelError(f"{weights!r} is missing.")
    dense = need_modules().Dense
    with explained(folder, "layer"):
        with torch.device("meta"):  # a false number in the settings makes nothing huge
            empty = dense(*sizes, bias=bool(config.get("bias", True)), use_residual=bool(config.get("use_residual")))
        wanted = {name: tuple(tensor.shape) for name, tensor in empty.state_dict().items()}
        if wanted != shapes_in(weights):
            raise ModelError(f"The weights in {folder!r} are not those of its config.json, which asks for {wanted}.")
        return dense.load(folder, local_files_only=True).float()


def _read_texts(recipe: Recipe) -> None:
    """What is done to texts before the network, and what is taken of what it gives."""
    with explained(recipe.folder, "settings"):
        config = need_modules().Transformer.load_config(recipe.folder, local_files_only=True)
        length, texts = config.get("max_seq_length"), config["modality_config"].get("text")
        recipe.max_length = length if isinstance(length, int) and length > 0 else None
        recipe.lowercase = bool(config.get("do_lower_case"))
    if config.get("module_output_name", "token_embeddings") != "token_embeddings" or texts != TOKEN_VECTORS:
        raise ModelError(
            f"The network in {recipe.folder!r} is asked for {texts!r}; Sylvan pools the vectors of a text's tokens, "
            f"{TOKEN_VECTORS!r}."
        )


def pooler_as_dense(network: Any) -> Any:
    """BERT's own pooling, a linear map and tanh of the first token's vector, as a layer; None where it is another. The
    layer shares the pooler's weights."""
    pooler = getattr(network, "pooler", None)
    linear, activation = getattr(pooler, "dense", None), getattr(pooler, "activation", None)
    if not isinstance(linear, nn.Linear) or not isinstance(activation, nn.Tanh):
        return None
    layer = need_modules().Dense(linear.in_features, linear.out_features, bias=linear.bias is not None)
    layer.linear = linear
    n_rows = network.get_input_embeddings().weight.shape[0]
    with torch.inference_mode():
        ids = torch.arange(3).unsqueeze(0) % n_rows
        output = network(input_ids=ids, attention_mask=torch.ones_like(ids))
        pooled = layer({"sentence_embedding": output.last_hidden_state[:, 0]})["sentence_embedding"]
        return layer if torch.allclose(pooled, output.pooler_output, atol=1e-5) else None
