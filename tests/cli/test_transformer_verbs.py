"""``sylvan train xr-transformer`` and ``x-transformer``, and the other verbs on what they saved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.topics import write_topics

import sylvan
from sylvan import XRTransformer, data
from sylvan.cli import main

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of one label each, a matrix, a small encoder, and a model, saved."""
    from sylvan.neural import BagTextEncoder

    place = tmp_path_factory.mktemp("encoded")
    write_topics(place, ["Astronomy", "Baking", "Chess", "Whaling"], train=80, test=20)
    for name in ("X.npz", "Y.npz"):
        data.save_npz(place / name, np.eye(4))
    BagTextEncoder(dim=8, n_buckets=256).save_pretrained(place / "bag")
    settings = f"--set encoder={place}/bag --set preset=tiny --set ranker__max_leaf=2 --device cpu --threads 1"
    train = f"train xr-transformer {place}/train.jsonl --model {place}/model --seed 3 -q {settings}"
    assert main(f"{train} --ngrams 1,2 --test {place}/test.jsonl".split()) == 0
    return place


@pytest.fixture
def place(folder: Path) -> Callable[[str], str]:
    return lambda name: str(folder / name)


TRAIN = "train xr-transformer {train.jsonl} --model m --threads 1"


def test_training_and_asking(call: Any, folder: Path) -> None:
    model = sylvan.load(folder / "model")
    assert isinstance(model, XRTransformer)
    assert (model.preset, model.seed, model.device, model.ranker.max_leaf) == ("tiny", 3, "auto", 2)
    assert model.vectorizer.ngrams == (1, 2) and model.n_dense_ == 8
    texts = data.read_jsonl(folder / "test.jsonl").texts
    assert call("predict {model} {test.jsonl} -k 2 --device cpu -q").labels == model.rank(texts, k=2).names
    assert "100.00" in call("evaluate {model} {test.jsonl} -q").out
    assert call("predict {model} - -k 1 -q", stdin=b"flour and yeast\n").labels == [["Baking"]]
    assert "flour" in call("explain {model} --text 'flour and yeast' --label Baking").out
    shown = call("inspect {model}").out
    for words in ("XRTransformer, a text encoder and linear models", "8 dimensions of the encoder", "ranker.tree0"):
        assert words in shown
    assert "100.00" in shown, "figures of --test"


def test_x_transformer_tells_its_memory_and_size(call: Any) -> None:
    settings = "--set preset=tiny --set encoder={bag} --set matcher__epochs=2 --set ranker__max_leaf=2"
    made = call("train x-transformer {train.jsonl} --model x --threads 1 " + settings).out
    assert "The encoder needs about" in made and "node vectors" in made
    assert "Trained XTransformer with 4 labels" in made
    size = sum(path.stat().st_size for path in Path("x").rglob("*") if path.is_file())
    assert f"({size / 1000:.1f} kB)" in made
    call("ensemble x x --model both")
    call("predict both {test.jsonl} --device cpu -q")


def test_plan(call: Any) -> None:
    planned = call("plan xr-transformer {train.jsonl} --set preset=tiny --set encoder={bag} --threads 1")
    assert planned.err.count("\n") == 1 and planned.err.startswith("Read 80 rows")
    for words in ("its training", "node vectors", "embeddings", "rankers", "peak memory", "saved model"):
        assert words in planned.out


@pytest.mark.parametrize("verb", ["train", "plan"])
def test_help_names_an_encoder(call: Any, verb: str) -> None:
    for model in ("xr-transformer", "x-transformer"):
        shown = call(f"{verb} {model} --help").out
        assert "encoder=models/minilm" in shown and "dense_scale=None" in shown
        assert "X.trn.npz --labels" not in shown, "it learns from texts alone"


def test_a_configuration_reaches_the_parts(call: Any, folder: Path) -> None:
    own = f"[parameters]\npreset = 'tiny'\nencoder = '{folder / 'bag'}'\nranker__beam = 7\n"
    own += "[parameters.matcher]\nepochs = 0.25\n"
    Path("run.toml").write_text(own)
    call(f"{TRAIN} --config run.toml --set ranker__cost=3 --set-text min_df=4")
    model = sylvan.load("m")
    assert isinstance(model, XRTransformer) and model.vectorizer.min_df == 4
    assert (model.matcher.epochs, model.ranker.beam, model.ranker.cost) == (0.25, 7, 3)
    Path("wrong.toml").write_text(own + "width = 3\n[parameters.ranker]\nbeam = 0\n")
    said = call(f"{TRAIN} --config wrong.toml", code=2).err
    for sentence in ("TransformerMatcher has no parameter 'width'", "'beam' parameter of XRLinear must be an int"):
        assert sentence in said


TINY = f"{TRAIN} --set preset=tiny"


@pytest.mark.parametrize(("line", "said"), [
    ("train xr-transformer {X.npz} --labels {Y.npz} --model m", "XRTransformer learns from texts, but"),
    ("train x-transformer {train.jsonl} --model m --memory-limit 1GB", "--memory-limit is not for XTransformer"),
    (f"{TINY} --label-features {{X.npz}}", "--label-features is not for"),
    ("train xr-linear {train.jsonl} --model m --device cpu", "--device is not for XRLinear"),
    (f"{TINY} --device 'GPU 1'", "'device' parameter of XRTransformer must be"),
    ("predict {model} {X.npz}", "takes text, but"),
    ("predict {model} {train.jsonl} --set matcher__epochs=3",
     "matters in training alone. Those that can be set"),
    ("predict {model} {train.jsonl} --set matcher__beam=3", "ranker__beam, ranker__combine, ranker__tail"),
    ("predict {model} {train.jsonl} --set beam=3", "Did you mean 'matcher__beam' or 'ranker__beam'?"),
    (f"{TINY} --set n_trees=3", "Did you mean 'ranker__n_trees'?"),
    (f"{TINY} --set ranker__n_tree=3", "XRLinear has no parameter 'n_tree'."),
    (f"{TINY} --set ranker__beam=0", "'beam' parameter of XRLinear must be"),
    (f"{TINY} --set ranker__seed=1", "'seed' parameter of XRTransformer is"),
    (f"{TINY} --set ranker=1", "as in ranker__branching"),
    ("train x-transformer {train.jsonl} --model m --set ranker__n_trees=2", "must have --set n_trees=1"),
    (f"{TINY} --set vectorizer__min_df=2 --min-df 3",
     "--set vectorizer__min_df and --set-text min_df say the same thing"),
    (f"{TINY} --set encoder={{nowhere}}", "nowhere"),
])  # fmt: skip
def test_matrices_and_options_of_others_are_refused(line: str, said: str, refused: Any) -> None:
    refused(said, line)


def test_a_device_is_for_models_with_an_encoder(call: Any, refused: Any) -> None:
    call("train xr-linear {X.npz} --labels {Y.npz} --model m -q")
    refused("--device is for models with a text encoder", "predict m {X.npz} --device cpu")


def test_notes_and_missing_packages_are_sentences(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sylvan.models.transformer import presets as transformer_presets

    texts = ["bread " * 300, "whales and ships", ""] * 3
    data.write_jsonl("long.jsonl", texts, [["Baking"], ["Whaling"], ["Whaling"]] * 3)
    line = "train xr-transformer long.jsonl --model m --set preset=tiny --set frozen=true --threads 1 -q"
    assert call(line).err.splitlines() == [
        "Note: 3 of 9 texts with labels are empty: nothing can be learned from them.",
        "Note: 3 of 9 texts are longer than --set max_length=256 tokens: the encoder sees their beginnings only "
        "(TF-IDF sees them whole).",
    ]
    way = 'Encoders of this kind need transformers. Install it with: pip install "sylvan[transformers]"'

    def missing(model: Any) -> Any:
        raise ImportError(way)

    monkeypatch.setattr(transformer_presets, "encoder_of", missing)
    said = call(line, code=2).err
    assert said.strip().endswith('pip install "sylvan[transformers]".') and "inside Sylvan" not in said
