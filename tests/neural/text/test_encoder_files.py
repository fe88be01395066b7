"""Folders of encoders: others open what is saved, and whatever is wrong with one is a sentence."""

import json
import os
import shutil
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kit.errors import raises
from neural.text.tiny_bert import WORDS, change, minilm, quietly, save_tokenizer, tiny_bert

from sylvan.errors import ModelError, ParameterError
from sylvan.neural import BagTextEncoder, SentenceEncoder, TransformerEncoder, embed, open_encoder
from sylvan.neural.text import encoder_files, hugging_face
from sylvan.text import encoder_folders

TEXTS = ["Whales in the south seas", "", "A history of the law", "astronomy " * 100, "love"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_bert(tmp_path_factory.mktemp("files") / "bert", TEXTS)


@pytest.fixture
def folder(whole: str, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(whole, tmp_path / "bert"))


@pytest.fixture(scope="module")
def saved_whole(whole: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(whole, tmp_path_factory.mktemp("saved") / "bert"))
    open_encoder(folder, max_length=16).save_pretrained(folder)
    return folder


@pytest.fixture
def saved(saved_whole: Path, tmp_path: Path) -> Path:
    """A copy to spoil of what is saved with modules.json."""
    return Path(shutil.copytree(saved_whole, tmp_path / "saved"))


# ------------------------------------------------------------------------------------ others open it


@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler", "max", "last"])
def test_sentence_transformers_gives_the_same_vectors(whole: str, tmp_path: Path, pooling: str) -> None:
    import sentence_transformers

    encoder = TransformerEncoder(whole, pooling=pooling, max_length=20)
    encoder.save_pretrained(tmp_path / "saved")
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    found = theirs.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(embed(encoder, TEXTS), found, atol=1e-5)
    assert theirs.max_seq_length == 20
    again = SentenceEncoder(tmp_path / "saved")
    np.testing.assert_array_equal(embed(again, TEXTS), embed(encoder, TEXTS))


def test_a_folder_of_sentence_transformers_with_every_step(whole: str, tmp_path: Path) -> None:
    import sentence_transformers as st
    from sentence_transformers.sentence_transformer import modules

    torch.manual_seed(0)
    network = modules.Transformer(whole, max_seq_length=30)
    modes = ("mean", "max", "cls", "weightedmean", "mean_sqrt_len_tokens", "lasttoken")
    pooling = modules.Pooling(32, pooling_mode=modes)
    dense = modules.Dense(32 * 6, 7, activation_function=torch.nn.GELU())
    theirs = st.SentenceTransformer(modules=[network, pooling, dense, modules.Normalize()], device="cpu")
    theirs.prompts, theirs.default_prompt_name = {"other": "law ", "query": "the whale "}, "query"
    theirs.save(str(tmp_path / "theirs"))
    mine = SentenceEncoder(tmp_path / "theirs")
    found = embed(mine, TEXTS)
    np.testing.assert_allclose(found, theirs.encode(TEXTS, show_progress_bar=False), atol=1e-5)
    assert mine.dim_out == 7 and mine.normalizes and mine.max_length == 30
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert abs(np.linalg.norm(embed(mine, TEXTS, normalize=False), axis=1) - 1).max() > 0.1
    other = embed(SentenceEncoder(tmp_path / "theirs", prompt="other"), TEXTS)
    np.testing.assert_allclose(other, theirs.encode(TEXTS, prompt_name="other", show_progress_bar=False), atol=1e-5)
    mine.save_pretrained(tmp_path / "mine")
    np.testing.assert_array_equal(embed(open_encoder(tmp_path / "mine"), TEXTS), found)
    again = st.SentenceTransformer(str(tmp_path / "mine"), device="cpu")
    assert again.default_prompt_name == "query" and again.prompts["other"] == "law "
    np.testing.assert_allclose(again.encode(TEXTS, show_progress_bar=False), found, atol=1e-5)


def test_the_pretrained_encoder_is_that_of_sentence_transformers() -> None:
    import sentence_transformers as st

    encoder = open_encoder(minilm())
    assert type(encoder) is SentenceEncoder and encoder.normalizes and encoder.max_length == 256
    theirs = st.SentenceTransformer(minilm(), device="cpu")
    np.testing.assert_allclose(embed(encoder, TEXTS), theirs.encode(TEXTS, show_progress_bar=False), atol=1e-5)


def test_transformers_opens_it(whole: str, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    encoder = TransformerEncoder(whole, max_length=20).load()
    with torch.no_grad():
        for weight in encoder.inner_parameters():
            weight.add_(0.01)
    encoder.save_pretrained(tmp_path / "saved")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    network = AutoModel.from_pretrained(tmp_path / "saved").eval()
    text = TEXTS[3] + TEXTS[0]  # the length that was cut at is not in the tokenizer's file
    assert len(tokenizer(text)["input_ids"]) == len(AutoTokenizer.from_pretrained(whole)(text)["input_ids"]) > 100
    with torch.no_grad():
        hidden = network(**tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state
    np.testing.assert_allclose(embed(encoder, TEXTS[:1])[0], hidden[0].mean(dim=0).numpy(), atol=1e-5)
    described = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text("utf-8"))
    assert not {"local_files_only", "trust_remote_code"} & set(described)
    modes = {os.stat(tmp_path / "saved" / name).st_mode for name in os.listdir(tmp_path / "saved")}
    assert len({mode for mode in modes if mode & 0o100000}) == 1  # nobody is shut out of the weights alone


# ------------------------------------------------------------------------------------ kinds of networks


def make(folder: Path, kind: str, config: dict[str, Any], *, special: bool = True, tokenizer: str = "") -> str:
    import transformers

    n_ids = save_tokenizer(folder, special=special)
    if tokenizer:
        change(folder / "tokenizer_config.json", tokenizer_class=tokenizer)
    settings = getattr(transformers, f"{kind}Config")(vocab_size=n_ids, **config)
    with torch.random.fork_rng(devices=[]), quietly():
        torch.manual_seed(0)
        getattr(transformers, f"{kind}Model")(settings).save_pretrained(folder)
    return str(folder)


SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
OTHER = {"d_model": 16, "d_ff": 16, "d_kv": 8, "num_layers": 1, "num_heads": 2}
GPT2 = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 40, "bos_token_id": 2, "eos_token_id": 3}
DISTIL = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16, "max_position_embeddings": 30}
FAST = "PreTrainedTokenizerFast"


@pytest.mark.parametrize(
    ("kind", "config", "special", "most", "pooler"),
    [
        ("Roberta", {**SMALL, "max_position_embeddings": 34, "pad_token_id": 0}, True, 33, True),
        ("GPT2", GPT2, False, 40, False),  # no token for padding, none before or after a text
        ("DistilBert", DISTIL, True, 30, False),
        ("Albert", {**SMALL, "embedding_size": 8, "max_position_embeddings": 30}, True, 30, False),
        ("T5", OTHER, True, None, False),  # the encoder alone
        ("DebertaV2", {**SMALL, "relative_attention": True, "max_position_embeddings": 30}, True, 30, False),
    ],
)
def test_kinds(
    kind: str, config: dict[str, Any], special: bool, most: int | None, pooler: bool, tmp_path: Path
) -> None:
    folder = make(tmp_path / kind, kind, config, special=special, tokenizer=FAST)
    encoder = TransformerEncoder(folder, max_length=most or 50)
    together = embed(encoder, TEXTS)
    assert encoder.n_truncated == 1
    alone = np.concatenate([embed(encoder, [text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.isfinite(together).all()
    encoder.save_pretrained(tmp_path / "saved")
    np.testing.assert_array_equal(embed(open_encoder(tmp_path / "saved"), TEXTS), together)
    if most is not None:
        with raises(ParameterError, most, most + 1):
            TransformerEncoder(folder, max_length=most + 1).load()
    if pooler:
        assert TransformerEncoder(folder, max_length=20, pooling="pooler").dim_out == 16
    else:
        with raises(ParameterError, "pooler"):
            TransformerEncoder(folder, max_length=20, pooling="pooler").load()


def test_networks_that_cannot(tmp_path: Path) -> None:
    sizes = {"layers": 1, "ffn_dim": 8, "attention_heads": 1}
    small = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in sizes.items()}
    bart = make(tmp_path / "bart", "Bart", {"d_model": 8, **small}, tokenizer=FAST)
    with raises(ModelError, "t5", "bart"):
        open_encoder(bart)
    albert = make(tmp_path / "albert", "Albert", {**SMALL, "embedding_size": 8}, tokenizer=FAST)
    with raises(ParameterError, "gradient_checkpointing", "False", "AlbertModel"):
        open_encoder(albert, gradient_checkpointing=True)


# ------------------------------------------------------------------------------------ how weights were saved


def test_half_precision_is_read_as_single(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    half = {name: tensor.half() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(half, folder / "model.safetensors", metadata={"format": "pt"})
    change(folder / "config.json", torch_dtype="float16", dtype="float16")
    encoder = open_encoder(folder, max_length=20)
    assert {weight.dtype for weight in encoder.parameters()} == {torch.float32}
    table = encoder.network.get_input_embeddings().weight
    torch.testing.assert_close(table.detach(), half["embeddings.word_embeddings.weight"].float(), atol=0, rtol=0)


def test_weights_in_several_files(folder: Path, whole: str) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    expected = embed(TransformerEncoder(whole, max_length=20), TEXTS)
    names = sorted(weights)
    for i, some in enumerate((names[:5], names[5:])):
        save_file({name: weights[name] for name in some}, folder / f"part{i}.safetensors", metadata={"format": "pt"})
    where = {name: f"part{int(name not in names[:5])}.safetensors" for name in names}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}), "utf-8")
    np.testing.assert_array_equal(embed(TransformerEncoder(folder, max_length=20), TEXTS), expected)
    (folder / "part1.safetensors").unlink()
    with raises(ModelError, "part1.safetensors", "model.safetensors.index.json"):
        open_encoder(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin"])
def test_pickled_weights_are_refused(name: str, folder: Path, tmp_path: Path) -> None:
    import pickle

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    (folder / "model.safetensors").unlink()
    torch.save({"a": Trap()}, folder / name, pickle_module=pickle)
    with raises(ModelError, name, "model.safetensors"):
        open_encoder(folder, max_length=20)
    assert not (tmp_path / "sprung").exists()


def test_pickled_weights_of_a_layer_are_refused(whole: str, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    steps = [modules.Transformer(whole), modules.Pooling(32), modules.Dense(32, 4)]
    SentenceTransformer(modules=steps, device="cpu").save(str(tmp_path / "theirs"))
    open_encoder(tmp_path / "theirs").load()
    layer = tmp_path / "theirs" / "2_Dense"
    torch.save(steps[2].state_dict(), layer / "pytorch_model.bin")
    (layer / "model.safetensors").unlink()
    with raises(ModelError, "model.safetensors", "missing"):
        open_encoder(tmp_path / "theirs")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"config_kwargs": {"num_hidden_layers": 10**9}, "model_kwargs": {"attn_implementation": "no/such"}}, ""),
        ({"tokenizer_name_or_path": "../elsewhere", "model_args": {"trust_remote_code": True}}, ""),
        ({"module_output_name": "sentence_embedding"}, "pools"),
        ({"modality_config": {"text": {"method": "save_pretrained"}}}, "{'method': 'save_pretrained'}"),
        ({"modality_config": []}, "settings"),
        ({"model_kwargs": 3}, "settings"),
    ],
)
def test_settings_of_sentence_transformers_reach_no_constructor(
    settings: dict[str, Any], sentence: str, saved: Path, saved_whole: Path
) -> None:
    """Beside lengths, lower case and what is pooled, the file may hold arguments of transformers' functions."""
    change(saved / "sentence_bert_config.json", **settings)
    if sentence:
        with raises(ModelError, sentence):
            open_encoder(saved)
    else:
        np.testing.assert_array_equal(embed(open_encoder(saved), TEXTS), embed(open_encoder(saved_whole), TEXTS))


@pytest.mark.parametrize("kind", ["os.path.Pooling", "own.Pooling", "sentence_transformers.no.such.Pooling"])
def test_no_class_is_imported_by_its_name_in_a_file(
    kind: str, saved: Path, saved_whole: Path, whole: str, tmp_path: Path
) -> None:
    (saved / "own.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'sprung')!r})\n", "utf-8")
    modules = json.loads((saved / "modules.json").read_text("utf-8"))
    modules[1]["type"] = kind
    (saved / "modules.json").write_text(json.dumps(modules), "utf-8")
    found = [embed(open_encoder(place), TEXTS) for place in (saved, saved_whole)]
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(found[0], embed(open_encoder(whole, max_length=16), TEXTS))
    assert not (tmp_path / "sprung").exists()


def test_activations_that_are_none(folder: Path) -> None:
    open_encoder(folder, max_length=16, pooling="pooler").save_pretrained(folder)
    for activation in ("os.mkdir", "torch.hub.Tanh", "own.Tanh", "torch.nn.Sequential", 3):
        change(folder / "2_Dense" / "config.json", activation_function=activation)
        with raises(ModelError, "describes"):
            open_encoder(folder)


def test_lower_case_that_a_folder_asks_for(folder: Path) -> None:
    import sentence_transformers

    change(folder / "tokenizer_config.json", do_lower_case=False)
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    tokenizer["normalizer"]["lowercase"] = False
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    encoder = open_encoder(folder, max_length=16)
    small, large = ["whales in the south seas"], ["WHALES in the South Seas"]
    assert abs(embed(encoder, small) - embed(encoder, large)).max() > 1e-3
    encoder.save_pretrained(folder)
    change(folder / "sentence_bert_config.json", do_lower_case=True)
    lower = open_encoder(folder)
    np.testing.assert_array_equal(embed(lower, small), embed(lower, large))
    lower.save_pretrained(folder / "again")
    np.testing.assert_array_equal(embed(open_encoder(folder / "again"), large), embed(encoder, small))
    theirs = sentence_transformers.SentenceTransformer(str(folder / "again"), device="cpu")
    np.testing.assert_allclose(theirs.encode(large, show_progress_bar=False), embed(lower, large), atol=1e-5)


def test_quantised_weights_are_refused(folder: Path) -> None:
    change(folder / "config.json", quantization_config={"quant_method": "fp8"})
    with raises(ModelError, "quantised"):
        open_encoder(folder, max_length=20)


def test_code_that_comes_with_a_model_is_not_run(folder: Path, tmp_path: Path) -> None:
    (folder / "own.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'sprung')!r})\n", "utf-8")
    change(folder / "config.json", model_type="own", auto_map={"AutoConfig": "own.C", "AutoModel": "own.M"})
    with raises(ModelError, "code"):
        open_encoder(folder, max_length=20)
    assert not (tmp_path / "sprung").exists()


# ------------------------------------------------------------------------------------ spoiled folders


def remove(*names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).unlink() for name in names] and None


def write(name: str, text: str) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")

    return act


def cut(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


def with_weight(value: float | None) -> Callable[[Path], None]:
    """Another value for one of the weights, or none."""

    def act(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        weights = load_file(folder / "model.safetensors")
        weight = weights.pop("encoder.layer.0.output.dense.weight")
        if value is not None:
            weights["encoder.layer.0.output.dense.weight"] = torch.full_like(weight, value)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return act


def larger_tokenizer(folder: Path) -> None:
    save_tokenizer(folder, [*TEXTS, "zyxomma"])  # an id more than the table has rows


def no_padding(folder: Path) -> None:
    save_tokenizer(folder, TEXTS, special=False)
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    settings.pop("eos_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    change(folder / "config.json", pad_token_id=None, eos_token_id=None)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (remove("config.json"), ("config.json", "missing")),
        (lambda f: (f / "config.json").rename(f / "adapter_config.json"), ("config.json", "missing")),
        (write("adapter_config.json", "{}"), ("adapter_config.json", "adapter")),
        (remove("model.safetensors"), ("model.safetensors", "incomplete")),
        (remove("tokenizer.json", "vocab.txt"), "tokenizer"),
        (write("config.json", "{"), ("config.json", "JSON")),
        (write("config.json", "[]"), "list"),
        (write("config.json", '{"model_type": "unheard-of"}'), "configuration"),
        (write("tokenizer.json", "{}"), "tokenizer"),
        (write("model.safetensors", "nonsense"), "loaded"),
        (cut, "loaded"),
        (with_weight(None), (1, "encoder.layer.0.output.dense.weight")),
        (with_weight(float("nan")), "vectors"),
        (larger_tokenizer, "belong"),
        (no_padding, "padding"),
        (lambda f: change(f / "config.json", hidden_size=30), ("config.json", "shape")),
        (lambda f: change(f / "config.json", max_position_embeddings=50), ("(160, 32)", "config.json")),
    ],
)
def test_spoiled_folders(spoil: Callable[[Path], Any], sentence: object, folder: Path) -> None:
    spoil(folder)
    with raises(ModelError, sentence) as raised:
        open_encoder(folder, max_length=20)
    assert str(raised.value).endswith(".") and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("modules", "sentence"),
    [
        ([], ("names", "Pooling")),
        ({}, "dict"),
        ([3], "entry 0"),
        ([("Nothing", "")], ("modules.json", "'Nothing'", 0)),
        ([("models.Transformer", ""), ("models.LSTM", "")], ("models.LSTM", "place 1")),
        ([("models.Pooling", "1")], ("models.Pooling", "place 0")),
        ([("models.Transformer", "../elsewhere")], ("../elsewhere", "leads")),
        ([("models.Transformer", ""), ("models.Pooling", "none")], ("none/config.json", "read")),
        ([("models.Transformer", ""), ("models.Pooling", "odd")], ("odd", "median")),
        ([("models.Transformer", ""), ("models.Pooling", "lists")], "mean"),
        ([("models.Transformer", ""), ("models.Pooling", "prompt")], "pools"),
        ([("models.Transformer", ""), ("models.Pooling", "1"), ("models.Dense", "flat")], "layer"),
        ([("models.Transformer", ""), ("models.Pooling", "1"), ("models.Dense", "2")], "model.safetensors"),
        ([("models.Transformer", ""), ("models.Pooling", "1"), ("models.Dense", "huge")], "model.safetensors"),
        (
            [("models.Transformer", ""), ("models.Pooling", "1"), ("models.Normalize", ""), ("models.Dense", "2")],
            ("models.Dense", "place 3"),
        ),
    ],
)
def test_spoiled_modules(modules: Any, sentence: object, folder: Path) -> None:
    if isinstance(modules, list):
        modules = [step if isinstance(step, int) else {"type": step[0], "path": step[1]} for step in modules]
    write("modules.json", json.dumps(modules))(folder)
    write("1/config.json", json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}))(folder)
    for name, config in (
        ("odd", {"pooling_mode": "median"}),
        ("lists", {"pooling_mode": [["mean"], "cls"]}),
        ("prompt", {"pooling_mode": "mean", "include_prompt": False}),
    ):
        write(f"{name}/config.json", json.dumps({"embedding_dimension": 32, **config}))(folder)
    write("flat/config.json", json.dumps({"in_features": 0, "out_features": 4}))(folder)
    write("2/config.json", json.dumps({"in_features": 32, "out_features": 4}))(folder)
    write("huge/config.json", json.dumps({"in_features": 2**20, "out_features": 2**20}))(folder)
    with raises(ModelError, sentence):
        open_encoder(folder)


def test_a_folder_that_says_no_step(folder: Path) -> None:
    with raises(ModelError, "SentenceEncoder", "modules.json"):
        SentenceEncoder(folder).load()


@pytest.mark.parametrize(
    ("change_config", "sentence"),
    [
        ({"dim": 7}, "settings"),
        ({"n_buckets": 2**31 - 1}, "settings"),
        ({"dim": "wide"}, ("dim", "BagTextEncoder")),
        ({"surprise": 1}, "surprise"),
        ({"format": 3}, ("BagTextEncoder", "release")),
        ({"hidden": 8}, "_map.weight"),
        ({"hidden": 8, "dim": 2**33}, "_map.weight"),  # said before a layer of that size is made
    ],
)
def test_spoiled_bags(change_config: dict[str, Any], sentence: object, tmp_path: Path) -> None:
    BagTextEncoder(dim=8, n_buckets=50).save_pretrained(tmp_path)
    change(tmp_path / "config.json", **change_config)
    with raises(ModelError, sentence):
        open_encoder(tmp_path)


def test_bags_over_a_vectorizer_are_saved_with_it(tmp_path: Path) -> None:
    from sylvan import TfidfVectorizer

    encoder = BagTextEncoder(dim=4, vectorizer=TfidfVectorizer(ngrams=(1, 2)).fit(TEXTS), hidden=3).load()
    encoder.save_pretrained(tmp_path / "bag")
    again = open_encoder(tmp_path / "bag")
    assert again.identity() == encoder.identity()
    np.testing.assert_array_equal(embed(again, TEXTS), embed(encoder, TEXTS))
    assert again.bag.n_features == len(again.tables()[0]) == again.vectorizer.n_terms_
    for settings in ({"dim": 10**9}, {"hidden": None}, {"hidden": 2}):
        change(tmp_path / "bag" / "config.json", **{"dim": 4, "hidden": 3, **settings})
        with raises(ModelError, "shapes", "_map.weight"):
            open_encoder(tmp_path / "bag")
    change(tmp_path / "bag" / "config.json", dim=4, hidden=3)
    frozen = open_encoder(tmp_path / "bag", frozen=True)
    assert frozen.tables() == [] and not any(weight.requires_grad for weight in frozen.parameters())


@pytest.mark.parametrize("name", [["query"], {"query": 1}, "other"])
def test_default_prompts_that_are_none(name: Any, saved: Path) -> None:
    change(saved / "config_sentence_transformers.json", prompts={"query": "find "}, default_prompt_name=name)
    with raises(ModelError, "default"):
        open_encoder(saved)


# ------------------------------------------------------------------------------------ where nothing is, or may be


def test_places_that_are_none(tmp_path: Path, whole: str) -> None:
    (tmp_path / "file").write_text("")
    for source, sentence in (
        (tmp_path / "absent", ("folder", "absent")),
        (tmp_path / "file", "files"),
        ("../some/folder", ("../some/folder", "folder")),
        ("", "''"),
    ):
        with raises(ModelError, sentence):
            open_encoder(source)
    encoder = BagTextEncoder(dim=2, n_buckets=5)
    with raises(ModelError, "file", "saved"):
        encoder.save_pretrained(tmp_path / "file")
    with raises(ModelError, "saved"):
        open_encoder(whole, max_length=20).save_pretrained(tmp_path / "file" / "below")
    assert sorted(os.listdir(tmp_path)) == ["file"]


def test_a_name_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with raises(ModelError, "someone/", "HF_HUB_OFFLINE"):
        open_encoder("someone/no-such-model")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")  # where nobody listens
    with raises(ModelError, "refused"):
        open_encoder("someone/no-such-model")
    assert sum(pauses) < 10, "it asks again and again"


def test_a_name_that_was_downloaded_before(whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    place = tmp_path / "models--someone--tiny"
    shutil.copytree(whole, place / "snapshots" / ("0" * 40))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    encoder = open_encoder("someone/tiny", max_length=20)
    np.testing.assert_array_equal(embed(encoder, TEXTS), embed(open_encoder(whole, max_length=20), TEXTS))
    assert "someone/tiny" in repr(encoder)
    (place / "snapshots" / ("0" * 40) / "tokenizer.json").unlink()
    (place / "snapshots" / ("0" * 40) / "vocab.txt").unlink()
    with raises(ModelError, "asked"):  # what is there is not enough
        open_encoder("someone/tiny", max_length=20)


def test_a_name_that_has_to_be_downloaded(whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the hub is asked for: no pickled weights, and nothing when it has no such model."""
    import huggingface_hub.constants

    asked: list[list[str] | None] = []
    place = Path(shutil.copytree(whole, tmp_path / "bert"))

    def download(name: str, *, allow_patterns: list[str] | None = None, **settings: Any) -> str:
        asked.append(allow_patterns)
        if settings.get("local_files_only"):
            raise OSError("not there")
        if name == "someone/unknown":
            response = types.SimpleNamespace(headers={}, request=None, status_code=404)
            raise huggingface_hub.errors.RepositoryNotFoundError("404", response=response)  # type: ignore[arg-type]
        if name == "someone/slow":
            raise TimeoutError("timed out\nand more")
        if name == "someone/old":
            (place / "model.safetensors").unlink(missing_ok=True)
        return str(place)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(encoder_folders, "unreachable", lambda library: "")
    assert open_encoder("someone/new", max_length=20).dim_out == 32
    assert len(asked) == 4 and "*.bin" not in asked[1]  # once by open_encoder, once by the encoder itself
    with raises(ModelError, "model.safetensors", "reads"):
        open_encoder("someone/old", max_length=20)
    assert not any("bin" in pattern for patterns in asked for pattern in patterns or [])
    with raises(ModelError, "someone/unknown", "public"):
        open_encoder("someone/unknown")
    with raises(ModelError, "asked"):
        open_encoder("someone/slow")


def test_missing_packages(monkeypatch: pytest.MonkeyPatch, whole: str) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with raises(ImportError, "sylvan[transformers]"):
        open_encoder(whole)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "peft", None)
    with raises(ImportError, "sylvan[lora]"):
        open_encoder(whole, max_length=20, lora_rank=2)
    assert WORDS and hugging_face.need("json") is json


def test_a_pooler_of_another_make_is_none_of_bert_s() -> None:
    for dense, activation in ((None, torch.nn.Tanh()), (torch.nn.Linear(2, 2), torch.nn.ReLU()), (None, None)):
        pooler = types.SimpleNamespace(dense=dense, activation=activation)
        assert encoder_files.pooler_as_dense(types.SimpleNamespace(pooler=pooler)) is None


def test_weights_that_are_none_are_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with raises(ModelError, "model.safetensors", "read"):
        encoder_files.read_tensors(str(tmp_path))


@pytest.mark.parametrize(("said", "limit"), [(512, 512), (0, None), (None, None), ("many", None)])
def test_the_most_tokens_are_those_of_the_configuration(said: Any, limit: int | None) -> None:
    network = torch.nn.Linear(2, 2)
    network.config = types.SimpleNamespace(max_position_embeddings=said)
    assert hugging_face.longest_input(network) == limit
