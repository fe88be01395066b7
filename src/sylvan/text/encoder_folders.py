"""Folders of text encoders: found here or on the Hugging Face hub, their files checked and read with sentences, and
written so that a reader never meets half of one. Nothing here needs PyTorch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from sylvan.errors import ModelError
from sylvan.remote.client import PATIENCE, need_library, quiet, unreachable

WEIGHTS = "model.safetensors"
MODEL2VEC = "model2vec"  # what the configuration of a folder of model2vec calls its kind
_STATIC = "StaticEmbedding"  # what sentence-transformers calls the step that looks tokens up in a table
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "tekken.json", "bpe.codes")
_TOKENIZER_ENDINGS = (".model", ".spm", ".tiktoken")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_PATTERNS = ["*.json", "*.txt", "*.model", "*.spm", "*.tiktoken", "*.codes", "*.safetensors"]
_OTHERS = ["onnx/*", "openvino/*", "coreml/*", "original/*", "consolidated*", "*.fp16.safetensors"]


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
    if WEIGHTS not in names:
        index = f"{WEIGHTS}.index.json"
        if index not in names:
            pickled = sorted(name for name in names if name.startswith("pytorch_model") and ".bin" in name)
            reason = f"its weights ({WEIGHTS}) are missing; Sylvan reads no others."
            if pickled:
                reason = (
                    f"its weights are pickled ({pickled[0]}), and Sylvan reads {WEIGHTS} alone. Where you trust them, "
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


def model_type(folder: str) -> str | None:
    """What the configuration of an encoder calls its kind, such as "bert"; None where it doesn't say."""
    path = os.path.join(folder, "config.json")
    name = read_json(path).get("model_type") if os.path.isfile(path) else None
    return name if isinstance(name, str) else None


def static_modules(folder: str) -> list[Any] | None:
    """The steps that a folder's ``modules.json`` names where the first looks up static vectors; None where it doesn't,
    or there is no such file."""
    path = os.path.join(folder, "modules.json")
    steps = read_json(path, list) if os.path.isfile(path) else []
    kind = steps[0].get("type") if steps and isinstance(steps[0], dict) else None
    return steps if isinstance(kind, str) and kind.rsplit(".", 1)[-1] == _STATIC else None


def is_static(folder: str) -> bool:
    """Whether a folder is one of static vectors, as model2vec or sentence-transformers write it."""
    return model_type(folder) == MODEL2VEC or static_modules(folder) is not None


def static_place(folder: str) -> str:
    """Where the table and the tokenizer of static vectors lie, which are there."""
    steps = None if model_type(folder) == MODEL2VEC else static_modules(folder)
    place = folder if steps is None else inside(folder, steps[0].get("path", ""))
    for path in (os.path.join(place, name) for name in (WEIGHTS, "tokenizer.json")):
        if not os.path.isfile(path):
            raise ModelError(f"The static vectors in {folder!r} are incomplete: {path!r} is missing.")
    return place


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


def read_prompts(folder: str) -> tuple[dict[str, str], str]:
    """What may be put before a text, by name, and what is put before every text."""
    path = os.path.join(folder, "config_sentence_transformers.json")
    if not os.path.isfile(path):
        return {}, ""
    config = read_json(path)
    prompts, name = config.get("prompts") or {}, config.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise ModelError(f"{path!r} is damaged: prompts must be texts by their names.")
    if name is not None and (not isinstance(name, str) or name not in prompts):
        raise ModelError(f"{path!r} is damaged: its default prompt {name!r} is not among its prompts.")
    if (width := config.get("truncate_dim")) is not None:
        whole = "Set it to null there, and vectors are whole."
        raise ModelError(f"{path!r} cuts vectors to {width!r} dimensions (truncate_dim), but Sylvan cuts none. {whole}")
    return prompts, prompts[name] if name is not None else ""


def reason_of(error: BaseException) -> str:
    """What another library's error says, on one line and with a full stop."""
    message = " ".join(str(error).split()) or type(error).__name__
    return message if message.endswith((".", "!", "?")) else f"{message}."


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
    library = need_library()
    settings: dict[str, Any] = {"ignore_patterns": _OTHERS, "etag_timeout": PATIENCE}
    with contextlib.suppress(Exception):  # whatever it is, the cache hasn't got it, or not all of it
        folder: str = library.snapshot_download(name, local_files_only=True)
        if is_static(folder):
            static_place(folder)
        else:
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
