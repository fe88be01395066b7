"""Files of encoders: checked and read with sentences, written so that a reader never meets half of one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sylvan.errors import ModelError
from sylvan.neural.text.hugging_face import TOKEN_VECTORS, explained, need, need_modules, reason_of, shapes_in
from sylvan.remote.client import PATIENCE, need_library, quiet, unreachable

_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "tekken.json", "bpe.codes")
_TOKENIZER_ENDINGS = (".model", ".spm", ".tiktoken")
_WEIGHTS = "model.safetensors"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_PATTERNS = ["*.json", "*.txt", "*.model", "*.spm", "*.tiktoken", "*.codes", "*.safetensors"]
_OTHERS = ["onnx/*", "openvino/*", "coreml/*", "original/*", "consolidated*", "*.fp16.safetensors"]
_ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")


def network_folder(folder: str) -> str:
    """Where the network's own files lie: the folder, or the one in it that its ``modules.json`` names first."""
    if not os.path.isfile(os.path.join(folder, "modules.json")):
        return folder
    first: Any = next(iter(read_json(os.path.join(folder, "modules.json"), list)), None)
    return inside(folder, first.get("path", "") if isinstance(first, dict) else "")


def inside(folder: str, name: Any) -> str:
    """A path of a folder that stays in it."""
    parts = re.split(r"[\\/]", name) if isinstance(name, str) else [".."]
    if ".." in parts or os.path.isabs(name) or ":" in name:
        raise ModelError(f"{os.path.join(folder, 'modules.json')!r} names the path {name!r}, which leads elsewhere.")
    return os.path.join(folder, name) if name else folder


def check_files(folder: str) -> None:
    """Check that a folder has the files of a network and of its tokenizer."""
    names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if "config.json" not in names:
        hint = ""
        if "adapter_config.json" in names:
            hint = " It holds only what was added to another network: merge the two, and save the whole."
        raise ModelError(f"{folder!r} is not the folder of an encoder: config.json is missing.{hint}")
    if "adapter_config.json" in names:
        raise ModelError(
            f"The encoder in {folder!r} has an adapter beside it (adapter_config.json), as LoRA leaves one: merge it "
            "into the weights first (peft's merge_and_unload), and save the whole to a folder of its own."
        )
    if _WEIGHTS not in names:
        index = f"{_WEIGHTS}.index.json"
        if index not in names:
            pickled = sorted(name for name in names if name.startswith("pytorch_model") and ".bin" in name)
            reason = f"its weights ({_WEIGHTS}) are missing; Sylvan reads no others."
            if pickled:
                reason = (
                    f"its weights are pickled ({pickled[0]}), and Sylvan reads {_WEIGHTS} alone. Where you trust them, "
                    "transformers' AutoModel.from_pretrained(folder).save_pretrained(folder) writes that file."
                )
            raise ModelError(f"The encoder in {folder!r} is incomplete: {reason}")
        places = read_json(os.path.join(folder, index)).get("weight_map")
        shards = set(places.values()) if isinstance(places, dict) else {"weight_map"}
        if missing := sorted(str(shard) for shard in shards if shard not in names):
            raise ModelError(f"The encoder in {folder!r} is incomplete: {', '.join(missing)} of {index} is missing.")
    if not names & set(_TOKENIZERS) and not any(name.endswith(_TOKENIZER_ENDINGS) for name in names):
        raise ModelError(
            f"The encoder in {folder!r} is incomplete: its tokenizer (tokenizer.json, vocab.txt or the like) is "
            "missing."
        )


def read_json(path: str, kind: type = dict) -> Any:
    """A JSON file that holds an object, or a list."""
    try:
        with open(path, "rb") as file:
            value = json.load(file)
    except OSError as error:
        raise ModelError(f"{path!r} can't be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path!r} is damaged: it is no JSON.") from error
    if not isinstance(value, kind):
        wanted = "an object" if kind is dict else "a list"
        raise ModelError(f"{path!r} is damaged: it must hold {wanted}, but holds a {type(value).__name__}.")
    return value


def read_tensors(folder: str) -> dict[str, Tensor]:
    """The tensors of a folder's ``model.safetensors``."""
    path = os.path.join(folder, _WEIGHTS)
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


@contextlib.contextmanager
def written_beside(folder: str | os.PathLike[str]) -> Iterator[str]:
    """An empty folder to write into, whose files are then moved into ``folder``, each at one stroke."""
    path = os.path.realpath(os.path.expanduser(os.fspath(folder)))
    waiting = ""
    try:
        if os.path.exists(path) and not os.path.isdir(path):
            raise NotADirectoryError(0, "it is a file, not a folder")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        waiting = tempfile.mkdtemp(prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path))
        yield waiting
        for place, _, names in os.walk(waiting):
            target = os.path.normpath(os.path.join(path, os.path.relpath(place, waiting)))
            os.makedirs(target, exist_ok=True)
            for name in sorted(names):
                os.replace(os.path.join(place, name), os.path.join(target, name))
    except OSError as error:
        raise ModelError(
            f"The encoder could not be saved to {os.fspath(folder)!r}: {error.strerror or error}."
        ) from error
    finally:
        if waiting:
            shutil.rmtree(waiting, ignore_errors=True)


def find_folder(source: str | os.PathLike[str]) -> str:
    """The local folder that a path or a name on the hub means."""
    path = os.path.expanduser(os.fspath(source))
    if os.path.isdir(path):
        return path
    if os.path.exists(path):
        raise ModelError(f"An encoder is a folder with several files, but {path!r} is a file.")
    if not _HUB_NAME.fullmatch(path) or ".." in path:
        raise ModelError(f"There is no folder {path!r}.")
    return _snapshot(path)


def _snapshot(name: str) -> str:
    """The local folder of a model of the hub, downloaded unless it is there."""
    need("huggingface_hub")
    library = need_library()
    settings: dict[str, Any] = {"ignore_patterns": _OTHERS, "etag_timeout": PATIENCE}
    with contextlib.suppress(Exception):  # whatever it is, the cache hasn't got it, or not all of it
        folder: str = library.snapshot_download(name, local_files_only=True)
        check_files(network_folder(folder))
        return folder
    if reason := unreachable(library):
        raise _unreached(name, reason)
    try:
        with quiet(library):
            folder = library.snapshot_download(name, allow_patterns=_PATTERNS, **settings)
    except library.errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"There is no folder {name!r}, and the Hugging Face hub has no public model of that name."
        ) from error
    except Exception as error:  # of whatever HTTP library the hub's client uses
        raise _unreached(name, (str(error).strip().splitlines() or [type(error).__name__])[0]) from error
    return folder


def _unreached(name: str, why: str) -> ModelError:
    return ModelError(
        f"There is no folder {name!r}, and the Hugging Face hub can't be asked for a model of that name "
        f"({why.rstrip('.')}). Give the path of a local folder."
    )


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
    _read_prompts(folder, recipe)
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


def _read_prompts(folder: str, recipe: Recipe) -> None:
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
