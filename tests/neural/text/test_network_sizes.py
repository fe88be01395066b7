"""Folders of encoders whose config.json asks for another network than that of the weights beside it."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from child_processes import exit_code, forked
from kit.errors import raises
from neural.text.tiny_bert import change, quietly, save_tokenizer, tiny_bert

from sylvan.errors import ModelError
from sylvan.neural import open_encoder
from sylvan.neural.text import hugging_face

HOWS = ("whole", "in two files", "with a head")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders that open, of the same network saved in several ways."""
    place = tmp_path_factory.mktemp("saved")
    folders = {how: Path(tiny_bert(place / how)) for how in HOWS}
    for how, folder in folders.items():
        save_otherwise(folder, how)
        open_encoder(folder, max_length=20).load()
    return folders


@pytest.fixture
def folder(saved: dict[str, Path], tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(saved["whole"], tmp_path / "bert"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit of a process's memory is Linux's")
def test_a_network_too_large_for_the_memory_is_refused_by_the_shapes_of_its_weights(folder: Path) -> None:
    """In a fork that may have 2 GiB more than it begins with."""
    change(folder / "config.json", vocab_size=2**27)

    def work() -> None:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, resource.RLIM_INFINITY))
        with pytest.raises(ModelError) as raised:
            open_encoder(folder, max_length=20)
        (folder / "said").write_text(str(raised.value))

    assert exit_code(forked(work)) == 0
    path = re.escape(repr(str(folder / "model.safetensors")))
    shapes = r"has the shape \(\d+, 32\), where config.json asks for \(134217728, 32\)\."
    assert re.fullmatch(
        rf"The weights in {path} are not those of its config.json: 'embeddings.word_embeddings.weight' {shapes}",
        (folder / "said").read_text(),
    )


SIZES: list[tuple[dict[str, Any], str]] = [
    ({"vocab_size": 2**50}, ("embeddings.word_embeddings.weight", "(1125899906842624, 32)")),
    ({"num_hidden_layers": 3}, ("parameters", 16)),
    ({"num_hidden_layers": 1}, (1, "encoder.layer")),
    ({"hidden_size": 2**20}, ("(93, 32)", "config.json", "(93, 1048576)")),
    ({"intermediate_size": 2**40}, ("encoder.layer.0.intermediate.dense.weight", "(64, 32)")),
    ({"max_position_embeddings": 2**40}, ("embeddings.position_embeddings.weight", "(160, 32)")),
    ({"num_hidden_layers": 10**6}, ("num_hidden_layers", "[0, 256]", 1000000)),
    ({"num_hidden_layers": 250}, ("tensors", "asks")),
    ({"num_hidden_layers": 0}, (0, "encoder.layer")),
    ({"num_hidden_layers": -1}, ("num_hidden_layers", "[0, 256]", -1)),
]


@pytest.mark.parametrize("how", HOWS)
def test_sizes_that_are_not_those_of_the_weights(how: str, saved: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved[how], tmp_path / "bert"))
    settings = (folder / "config.json").read_bytes()
    for config, sentence in SIZES if how == "whole" else SIZES[:3]:
        (folder / "config.json").write_bytes(settings)
        change(folder / "config.json", **config)
        with raises(ModelError, sentence) as raised:
            open_encoder(folder, max_length=20)
        assert str(raised.value).endswith(".") and str(folder) in str(raised.value)


def save_otherwise(folder: Path, how: str) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    if how == "in two files":
        (folder / "model.safetensors").unlink()
        names = sorted(weights)
        for i in range(2):
            part = {name: weights[name] for name in names[i::2]}
            save_file(part, folder / f"part{i}.safetensors", metadata={"format": "pt"})
        where = {name: f"part{i % 2}.safetensors" for i, name in enumerate(names)}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}), "utf-8")
    elif how == "with a head":  # as BertForMaskedLM and the like are saved, of old; those have no pooler
        weights = {
            f"bert.{name.replace('LayerNorm.weight', 'LayerNorm.gamma').replace('LayerNorm.bias', 'LayerNorm.beta')}": w
            for name, w in weights.items()
            if not name.startswith("pooler")
        }
        weights["cls.predictions.bias"] = torch.zeros(9)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_huge_table_that_no_file_has(tmp_path: Path) -> None:
    """T5's files may have its table under the name of the encoder's alone."""
    from safetensors.torch import load_file, save_file
    from transformers import T5Config, T5Model

    folder = tmp_path / "t5"
    n_ids = save_tokenizer(folder)
    change(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    with quietly():
        small = T5Config(vocab_size=n_ids, d_model=16, d_ff=16, d_kv=8, num_layers=1, num_heads=2)
        T5Model(small).save_pretrained(folder)
    open_encoder(folder, max_length=20).load()
    weights = load_file(folder / "model.safetensors")
    weights["elsewhere"] = weights.pop("shared.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    change(folder / "config.json", vocab_size=2**40)
    with raises(ModelError, "(1099511627776, 16)"):
        open_encoder(folder, max_length=20)


def test_a_file_of_weights_that_ends_within_its_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((2**60).to_bytes(8, "little") + b"{}")
    with raises(ModelError, "model.safetensors", "loaded"):
        open_encoder(folder, max_length=20)


def test_what_no_file_holds_may_not_be_much(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_encoder(folder).load()
    monkeypatch.setattr(hugging_face, "_SPARE", -(2**40))
    with raises(ModelError, str(folder), "config.json"):
        open_encoder(folder).load()
