"""Static vectors: two formats, the rules of the libraries that write them, faulty folders, models without PyTorch."""

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_processes import python
from kit.errors import raises
from kit.static_folders import DIM, model2vec_folder, safetensors, static_embedding_folder, table, tokenizer

from sylvan.errors import DataError, ModelError
from sylvan.models.encoders import described_encoder, opened_encoder
from sylvan.text import StaticEncoder

WORDS = ["the", "whale", "sea", "south", "bread", "cakes"]
TEXTS = ["The whale", "south sea sea", "an unheard-of whale", "", "unheard of", "bread " * 700, "half \ud83d"]
UNKNOWN = 1


def same(got: Any, expected: Any) -> None:
    """Of the same texts, all but the last; the libraries add up the long one's hundreds of tokens in float32."""
    is_long = np.array([len(text) > 1000 for text in TEXTS[:-1]])
    np.testing.assert_allclose(got[~is_long], expected[~is_long], atol=1e-6)
    np.testing.assert_allclose(got[is_long], expected[is_long], atol=2e-5)


def ids_of(text: str) -> list[int]:
    ids = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    return [ids.get(word, UNKNOWN) for word in text.lower().split()]


def slow(texts: list[str], vectors: Any, weights: Any, *, skip: bool, most: int | None, normalize: bool) -> Any:
    """The obvious mean."""
    rows = []
    for text in texts:
        ids = [token for token in ids_of(text) if not skip or token != UNKNOWN][:most]
        mean = np.mean([vectors[token] * weights[token] for token in ids], axis=0) if ids else np.zeros(DIM)
        rows.append(mean / max(np.linalg.norm(mean), 1e-30) if normalize else mean)
    return np.array(rows)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8"])
@pytest.mark.parametrize("n_vectors", [None, 3])
def test_a_folder_of_model2vec(tmp_path: Path, dtype: str, n_vectors: int | None) -> None:
    folder = model2vec_folder(tmp_path / "a", WORDS, dtype=dtype, n_vectors=n_vectors, normalize=n_vectors is None)
    n = len(WORDS) + 2
    vectors, weights = table(n_vectors or n, dtype).astype(float), np.ones(n)
    if n_vectors is not None:
        vectors, weights = vectors[np.arange(n) % n_vectors], np.linspace(0.1, 1, n)
    expected = slow(TEXTS, vectors, weights, skip=True, most=512, normalize=n_vectors is None)
    encoder = StaticEncoder(folder)
    got = encoder.encode(TEXTS)
    np.testing.assert_allclose(got, expected, atol=1e-6 * np.abs(expected).max())
    assert (got.dtype, encoder.dim_out, encoder.nbytes > 0) == (np.float32, DIM, True)
    assert not got[3].any() and not got[4].any()


@pytest.mark.parametrize("normalize", [False, True])
def test_a_folder_of_sentence_transformers(tmp_path: Path, normalize: bool) -> None:
    encoder = StaticEncoder(static_embedding_folder(tmp_path / "a", WORDS, normalize=normalize))
    with_prompt = [f"the {text}" for text in TEXTS]
    vectors = table(len(WORDS) + 2).astype(float)
    for asked in (None, not normalize):
        expected = slow(
            with_prompt, vectors, np.ones(len(vectors)), skip=False, most=None,
            normalize=normalize if asked is None else asked,
        )  # fmt: skip
        np.testing.assert_allclose(encoder.encode(TEXTS, normalize=asked), expected, atol=1e-6)


def test_the_same_bits_in_any_company(tmp_path: Path) -> None:
    """Alone, among a few, among many, saved, pickled, copied."""
    for folder in (
        model2vec_folder(tmp_path / "a", WORDS, n_vectors=4), static_embedding_folder(tmp_path / "b", WORDS)
    ):  # fmt: skip
        encoder = StaticEncoder(folder)
        whole = encoder.encode(TEXTS * 300)
        alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
        np.testing.assert_array_equal(whole, np.tile(alone, (300, 1)))
        encoder.save_pretrained(tmp_path / "saved")
        for other in (StaticEncoder(tmp_path / "saved"), pickle.loads(pickle.dumps(encoder)), encoder.copy()):
            np.testing.assert_array_equal(other.encode(TEXTS), alone)
        for file in (tmp_path / "saved").iterdir():
            file.unlink()


@pytest.mark.parametrize("n_vectors", [None, 3])
def test_vectors_are_those_of_model2vec(tmp_path: Path, n_vectors: int | None) -> None:
    library = pytest.importorskip("model2vec")
    encoder = StaticEncoder(model2vec_folder(tmp_path / "a", WORDS, n_vectors=n_vectors))
    encoder.save_pretrained(tmp_path / "b")  # without padding, which model2vec would count
    expected = library.StaticModel.from_pretrained(tmp_path / "b").encode(TEXTS[:-1])
    same(encoder.encode(TEXTS[:-1]), expected)


@pytest.mark.parametrize("normalize", [False, True])
def test_vectors_are_those_of_sentence_transformers(tmp_path: Path, normalize: bool) -> None:
    library = pytest.importorskip("sentence_transformers")
    folder = static_embedding_folder(tmp_path / "a", WORDS, normalize=normalize)
    StaticEncoder(folder).save_pretrained(tmp_path / "b")
    for place in (folder, str(tmp_path / "b")):
        expected = library.SentenceTransformer(place, device="cpu").encode(TEXTS[:-1])
        same(StaticEncoder(folder).encode(TEXTS[:-1]), expected)


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def spoil(folder: Path, name: str) -> None:
    """One fault of a folder of model2vec."""
    weights, good = folder / "model.safetensors", {"embeddings": table(len(WORDS) + 2)}
    entry = {"dtype": "F32", "shape": [len(WORDS) + 2, DIM]}
    nan = good["embeddings"].copy()
    nan[2, 3] = np.nan
    tables: dict[str, bytes] = {
        "not a number": safetensors({"embeddings": nan}),
        "infinite": safetensors({"embeddings": np.where(np.isnan(nan), np.inf, nan).astype(np.float32)}),
        "too large": safetensors({"embeddings": good["embeddings"] * np.float32(1e30)}),
        "fewer rows than tokens": safetensors({"embeddings": table(4)}),
        "one row": safetensors({"embeddings": table(8)[0]}),
        "no rows": safetensors({"embeddings": table(8)[:0]}),
        "no table": safetensors({"weights": np.ones(8)}),
        "two tables": safetensors({**good, "embedding.weight": good["embeddings"]}),
        "whole numbers": safetensors({"embeddings": np.ones((8, DIM), np.int64)}),
        "mapping beyond": safetensors({**good, "mapping": np.full(8, 8)}),
        "mapping below": safetensors({**good, "mapping": np.full(8, -1)}),
        "mapping of another shape": safetensors({**good, "mapping": np.zeros((8, 1), np.int64)}),
        "mapping of fractions": safetensors({**good, "mapping": np.zeros(8)}),
        "short mapping": safetensors({**good, "mapping": np.zeros(3, np.int64)}),
        "short weights": safetensors({**good, "weights": np.ones(3)}),
        "weights not numbers": safetensors({**good, "weights": np.full(8, np.nan)}),
        "beyond the file": safetensors(good, embeddings={**entry, "data_offsets": [0, 10**12]}),
        "another size": safetensors(good, embeddings={**entry, "data_offsets": [0, 8]}),
        "huge": safetensors(good, embeddings={**entry, "shape": [2**40, 2**20], "data_offsets": [0, 2**62]}),
        "overlapping": safetensors(good, weights={**entry, "data_offsets": [0, (len(WORDS) + 2) * DIM * 4]}),
        "unknown dtype": safetensors(good, embeddings={**entry, "dtype": "F7", "data_offsets": [0, 192]}),
        "huge header": struct.pack("<Q", 2**60) + b"{}",
        "no header": b"\0" * 4,
        "empty": b"",
        "cut": safetensors(good)[:-10],
    }
    if name in tables:
        weights.write_bytes(tables[name])
    elif name == "no vectors":
        weights.unlink()
    elif name == "no tokenizer":
        (folder / "tokenizer.json").unlink()
    elif name == "vectors are a folder":
        weights.unlink()
        weights.mkdir()
    elif name == "tokenizer is no JSON":
        (folder / "tokenizer.json").write_bytes(b"\xff{")
    elif name == "tokenizer without a model":
        (folder / "tokenizer.json").write_text("{}")
    elif name == "tokenizer without tokens":
        change(folder / "tokenizer.json", model={"type": "WordLevel", "vocab": {}, "unk_token": "a"})
    elif name == "unknown token unknown":
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer(WORDS, unknown="nobody")))
    elif name == "ids beyond":
        words = {word: 5000 + number for number, word in enumerate(WORDS)}
        change(folder / "tokenizer.json", model={"type": "WordLevel", "vocab": words, "unk_token": "the"})
    elif name == "added token beyond":
        more = {"id": 99, "content": "far", "special": False, "single_word": False, "lstrip": False, "rstrip": False}
        change(folder / "tokenizer.json", added_tokens=[{**more, "normalized": False}])
    elif name == "normalize unclear":
        change(folder / "config.json", normalize="perhaps")
    else:
        raise AssertionError(name)


FAULTS = [
    "not a number", "infinite", "too large", "fewer rows than tokens", "one row", "no rows", "no table", "two tables",
    "whole numbers", "mapping beyond", "mapping below", "mapping of another shape", "mapping of fractions",
    "short mapping", "short weights", "weights not numbers", "beyond the file", "another size", "huge", "overlapping",
    "unknown dtype", "huge header", "no header", "empty", "cut", "no vectors", "no tokenizer", "vectors are a folder",
    "tokenizer is no JSON", "tokenizer without a model", "tokenizer without tokens", "unknown token unknown",
    "ids beyond", "added token beyond", "normalize unclear",
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_folder_is_refused_in_a_sentence(tmp_path: Path, fault: str) -> None:
    folder = Path(model2vec_folder(tmp_path / "a", WORDS))
    spoil(folder, fault)
    with raises(ModelError) as error:
        StaticEncoder(folder).encode(["the whale nobody"])
    assert "\n" not in str(error.value) and str(error.value).endswith(".")


def test_steps_that_arent_known_and_paths_that_lead_elsewhere(tmp_path: Path) -> None:
    folder = Path(static_embedding_folder(tmp_path / "a", WORDS))
    steps = json.loads((folder / "modules.json").read_text())
    for more in ({"type": "sentence_transformers.models.Dense", "path": "1"}, 3):
        (folder / "modules.json").write_text(json.dumps([*steps, more]))
        with raises(ModelError, "Normalize"):
            StaticEncoder(folder).load()
    (folder / "modules.json").write_text(json.dumps([{**steps[0], "path": "../elsewhere"}]))
    with raises(ModelError, "../elsewhere"):
        StaticEncoder(folder).load()
    with raises(DataError):
        StaticEncoder(model2vec_folder(tmp_path / "b", WORDS)).encode("one text")


def test_vectors_that_would_be_cut_are_refused(tmp_path: Path) -> None:
    folder = static_embedding_folder(tmp_path / "a", WORDS)
    path = Path(folder, "config_sentence_transformers.json")
    path.write_text(json.dumps({"prompts": {}, "truncate_dim": 3}))
    with raises(ModelError, "3 dimensions (truncate_dim)", "null"):
        StaticEncoder(folder).load()
    change(path, truncate_dim=None)
    assert StaticEncoder(folder).encode(WORDS).shape == (len(WORDS), DIM)


def test_an_object_is_described_by_its_folder(tmp_path: Path) -> None:
    folder = model2vec_folder(tmp_path / "a", WORDS)
    encoder = StaticEncoder(folder)
    assert opened_encoder(encoder) is encoder
    assert described_encoder(encoder) == {"class": "StaticEncoder", "params": {"source": folder}}


WITHOUT_TORCH = """
import sys, numpy as np
sys.modules["torch"] = None  # importing it fails
import sylvan
from sylvan import NeighborRanker, Reranker, TextModel, XRLinear
static, place = sys.argv[1:]
texts = ["the whale", "the south sea", "bread", "cakes bread"] * 60
labels = [["whaling"], ["sea"], ["baking"], ["baking"]] * 60
terms = {"whaling": "whale", "sea": "south sea", "baking": "bread cakes", "ships": "whale south"}
models = [
    TextModel(model=XRLinear(keep_rows=True), label_encoder=static, unlearned="answer"),
    Reranker([TextModel(model=NeighborRanker())], label_encoder=static, scorer="trees", n_trees=3),
]
for i, model in enumerate(models):
    model.fit(texts, labels, label_texts=terms)
    model.save(f"{place}/{i}")
    loaded = sylvan.load(f"{place}/{i}")
    loaded.save(f"{place}/{i}")
    for other in (loaded, sylvan.load(f"{place}/{i}")):
        a, b = model.rank(texts[:4], k=3), other.rank(texts[:4], k=3)
        assert np.array_equal(a.scores, b.scores) and a.names == b.names
    assert model.plan(texts, labels, label_texts=terms).seconds > 0
print(models[0].rank(["whale south"], k=4).names, models[1].feature_names_[-2:])
"""


def test_models_with_static_vectors_need_no_pytorch(tmp_path: Path) -> None:
    folder = model2vec_folder(tmp_path / "static", WORDS)
    done = python("-c", WITHOUT_TORCH, folder, str(tmp_path), check=True)
    assert "ships" in done.stdout and "cosine" in done.stdout, done.stderr


def test_trainings_of_encoders_refuse_static_vectors(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from sylvan import XRTransformer
    from sylvan.neural import open_encoder

    folder = model2vec_folder(tmp_path / "static", WORDS)
    with raises(ModelError, "label_encoder"):
        open_encoder(folder)
    for encoder in (folder, StaticEncoder(folder)):
        with raises(ModelError, "label_encoder"):
            XRTransformer(encoder, n_jobs=1).fit(["whales", "bread"] * 4, [["a"], ["b"]] * 4)
