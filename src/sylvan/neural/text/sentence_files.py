"""The files by which sentence-transformers knows what happens to a text before and after the network."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sylvan.errors import ModelError
from sylvan.neural.text.encoder_files import inside, network_folder, read_json, read_tensors, tensor_bytes
from sylvan.neural.text.hugging_face import reason_of
from sylvan.neural.text.pooling import ACTIVATIONS, POOLINGS, Dense

__all__ = ["Recipe", "pooler_as_dense", "read_recipe", "write_recipe"]

# How each way of pooling is called in the files of releases before 6, which later ones read too.
_KEYS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_KINDS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
_TEXT_CONFIGS = [f"sentence_{kind}_config.json" for kind in _KINDS]


@dataclass
class Recipe:
    """What an encoder does besides its network.

    Attributes
    ----------
    folder : str
        Of the network and its tokenizer.
    modes : tuple of str
        Ways of pooling, names of ``POOLINGS``; or "pooler" alone, the network's own, until it is loaded.
    dense : list of Dense
        Layers behind the pooling.
    normalizes : bool
    max_length : int, optional
    lowercase : bool
        Whether texts are brought to lower case before the tokenizer sees them.
    prompts : dict of str to str
        What may be put before a text, by name.
    prompt : str
        What is put before every text.
    """

    folder: str
    modes: tuple[str, ...] = ("mean",)
    dense: Sequence[Dense] = ()
    normalizes: bool = False
    max_length: int | None = None
    lowercase: bool = False
    prompts: dict[str, str] | None = None
    prompt: str = ""


def read_recipe(folder: str) -> Recipe:
    """What the files of a folder with ``modules.json`` say.

    Raises
    ------
    ModelError
        When they are missing or damaged, or name a step that Sylvan doesn't know.
    """
    path = os.path.join(folder, "modules.json")
    if not os.path.isfile(path):
        raise ModelError(f"{folder!r} is not the folder of a SentenceEncoder: modules.json is missing.")
    found = Recipe(network_folder(folder), modes=())
    dense: list[Dense] = []
    for place, module in enumerate(read_json(path, list)):
        if not isinstance(module, dict) or not isinstance(module.get("type"), str):
            raise ModelError(f"{path!r} is damaged: entry {place} must be an object with a type and a path.")
        kind = module["type"].rsplit(".", 1)[-1]
        here = inside(folder, module.get("path", ""))
        if (kind == "Transformer") != (place == 0) or found.normalizes:
            raise ModelError(f"{path!r} names the step {module['type']!r} at place {place}, where Sylvan knows none.")
        if kind == "Pooling" and not found.modes:
            found.modes = _read_modes(os.path.join(here, "config.json"))
        elif kind == "Dense" and found.modes:
            dense.append(_read_dense(here))
        elif kind == "Normalize" and found.modes:
            found.normalizes = True
        elif kind not in ("Transformer", "Dropout"):
            raise ModelError(
                f"{path!r} names the step {module['type']!r} at place {place}, which Sylvan doesn't know there. "
                "It knows Transformer, Pooling, Dense, Dropout and Normalize, in this order."
            )
    if not found.modes:
        raise ModelError(f"{path!r} names no Pooling, so that there would be no vector of a text.")
    found.dense = dense
    _read_texts(folder, found)
    return found


def _read_modes(path: str) -> tuple[str, ...]:
    config = read_json(path)
    if config.get("include_prompt", True) is not True:
        raise ModelError(f"{path!r} pools without the prompt's tokens (include_prompt), which Sylvan doesn't.")
    given = config.get("pooling_mode")
    if given is None:
        given = [mode for mode, key in _KEYS.items() if config.get(key)] or ["mean"]
    modes = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else ()
    if not modes or any(not isinstance(mode, str) or mode not in POOLINGS for mode in modes):
        raise ModelError(f"{path!r} pools by {given!r}; Sylvan knows {', '.join(POOLINGS)}.")
    return modes


def _read_dense(folder: str) -> Dense:
    path = os.path.join(folder, "config.json")
    config = read_json(path)
    sizes = [config.get("in_features"), config.get("out_features")]
    activation = str(config.get("activation_function", "Tanh")).rsplit(".", 1)[-1]
    plain = (
        not config.get("use_residual") and config.get("module_input_name", "sentence_embedding") == "sentence_embedding"
    )
    if not all(isinstance(size, int) and size > 0 for size in sizes) or activation not in ACTIVATIONS or not plain:
        raise ModelError(
            f"{path!r} describes a layer that Sylvan doesn't know: it takes in_features, out_features, bias and an "
            f"activation_function among {', '.join(ACTIVATIONS)}."
        )
    try:
        with torch.device("meta"):  # a false number in the settings makes nothing huge
            layer = Dense(sizes[0], sizes[1], bool(config.get("bias", True)), activation)
        layer.load_state_dict(read_tensors(folder), assign=True)
    except RuntimeError as error:
        raise ModelError(f"The weights in {folder!r} are not those of its config.json: {reason_of(error)}") from error
    return layer


def _read_texts(folder: str, recipe: Recipe) -> None:
    """What is done to texts: lengths, lower case, prompts."""
    for name in _TEXT_CONFIGS:
        path = os.path.join(recipe.folder, name)
        if os.path.isfile(path):
            config = read_json(path)
            length = config.get("max_seq_length")
            recipe.max_length = length if isinstance(length, int) and length > 0 else None
            recipe.lowercase = bool(config.get("do_lower_case"))
            break
    path = os.path.join(folder, "config_sentence_transformers.json")
    if not os.path.isfile(path):
        return
    config = read_json(path)
    prompts, name = config.get("prompts") or {}, config.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise ModelError(f"{path!r} is damaged: prompts must be texts by their names.")
    if name is not None and (not isinstance(name, str) or name not in prompts):
        raise ModelError(f"{path!r} is damaged: its default prompt {name!r} is not among its prompts.")
    recipe.prompts, recipe.prompt = prompts, prompts.get(name, "") if name is not None else ""


def write_recipe(folder: str, recipe: Recipe, dim: int) -> None:
    """Write the files of what an encoder does besides its network, beside the network's own.

    Parameters
    ----------
    folder : str
    recipe : Recipe
        With ``max_length``.
    dim : int
        Dimensions of a token's vector.
    """
    modes, dense = recipe.modes, list(recipe.dense)
    pooling: dict[str, Any] = {"word_embedding_dimension": dim}
    if modes == tuple(mode for mode in _KEYS if mode in modes):
        pooling.update({key: mode in modes for mode, key in _KEYS.items()})
    else:  # an order of one's own, which only later releases know
        pooling["pooling_mode"] = list(modes)
    steps = [("", "Transformer", None), ("Pooling", "Pooling", pooling)]
    steps += [("Dense", "Dense", _describe(layer)) for layer in dense]
    steps += [("Normalize", "Normalize", {})] if recipe.normalizes else []
    modules = []
    for place, (name, kind, config) in enumerate(steps):
        path = f"{place}_{name}" if name else ""
        kind = f"sentence_transformers.models.{kind}"
        modules.append({"idx": place, "name": str(place), "path": path, "type": kind})
        if config is not None:
            os.makedirs(os.path.join(folder, path))
            _write(os.path.join(folder, path, "config.json"), config)
        if name == "Dense":
            with open(os.path.join(folder, path, "model.safetensors"), "wb") as file:
                file.write(tensor_bytes(dense[place - 2].state_dict()))
    _write(os.path.join(folder, "modules.json"), modules)
    length = {"max_seq_length": recipe.max_length, "do_lower_case": recipe.lowercase}
    _write(os.path.join(folder, "sentence_bert_config.json"), length)
    prompts = dict(recipe.prompts or {})
    default = None
    if recipe.prompt:
        default = next((name for name, prompt in prompts.items() if prompt == recipe.prompt), "default")
        prompts[default] = recipe.prompt
    about = {"__version__": {}, "prompts": prompts, "default_prompt_name": default, "similarity_fn_name": "cosine"}
    _write(os.path.join(folder, "config_sentence_transformers.json"), about)


def _describe(layer: Dense) -> dict[str, Any]:
    kind = type(layer.activation)
    return {
        "in_features": layer.linear.in_features,
        "out_features": layer.linear.out_features,
        "bias": layer.linear.bias is not None,
        "activation_function": f"torch.nn.modules.{'linear' if kind is nn.Identity else 'activation'}.{kind.__name__}",
    }


def _write(path: str, value: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def pooler_as_dense(network: Any) -> Dense | None:
    """BERT's own pooling, a linear map and tanh of the first token's vector, as a layer; None where it is another.

    The layer shares the pooler's weights.
    """
    pooler = getattr(network, "pooler", None)
    linear, activation = getattr(pooler, "dense", None), getattr(pooler, "activation", None)
    if not isinstance(linear, nn.Linear) or not isinstance(activation, nn.Tanh):
        return None
    layer = Dense(linear.in_features, linear.out_features, linear.bias is not None, "Tanh")
    layer.linear = linear
    n_rows = network.get_input_embeddings().weight.shape[0]
    with torch.inference_mode():
        ids = torch.arange(3).unsqueeze(0) % n_rows
        output = network(input_ids=ids, attention_mask=torch.ones_like(ids))
        same = torch.allclose(layer(output.last_hidden_state[:, 0]), output.pooler_output, atol=1e-5)
    return layer if same else None
