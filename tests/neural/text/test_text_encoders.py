"""Encoders of texts: the same vectors as by the obvious way, whatever the batch and the tokenizer; their training."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from child_processes import environment, python
from kit.errors import raises
from kit.watching import calls_of
from neural.text.tiny_bert import minilm, tiny_bert

from sylvan.errors import DataError, ParameterError
from sylvan.neural import (
    BagEncoder,
    BagTextEncoder,
    SentenceEncoder,
    TextEncoder,
    TokenRows,
    TransformerEncoder,
    embed,
    open_encoder,
)
from sylvan.neural.text import hugging_face

TEXTS = ["Whales in the south seas", "", "A history of the law", "astronomy " * 100, "love", "Grüße 北京 \U0001f40b"]
POOLINGS = ("mean", "cls", "pooler", "max", "last")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_bert(tmp_path_factory.mktemp("encoders") / "bert", TEXTS)


def by_hand(folder: str, texts: list[str], pooling: str, max_length: int) -> np.ndarray:
    """One text at a time, without padding, pooled as its definition says."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    found = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=max_length, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            output = network(input_ids=ids)
        tokens = output.last_hidden_state[0]
        pooled = {
            "mean": tokens.sum(dim=0) / len(tokens),
            "cls": tokens[0],
            "max": torch.stack([tokens[:, i].max() for i in range(tokens.shape[1])]),
            "last": tokens[-1],
            "pooler": output.pooler_output[0],
        }
        found.append(pooled[pooling].numpy())
    return np.stack(found)


def steps(encoder: TextEncoder, n: int = 3) -> None:
    """A few steps of some training."""
    encoder.train()
    batch = encoder.collate(encoder.tokenize(TEXTS))
    parameters = [*encoder.inner_parameters(), *encoder.tables()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for _ in range(n):
        optimizer.zero_grad()
        (encoder(batch)[:, 0].tanh() - 1).pow(2).sum().backward()
        optimizer.step()
    encoder.eval()


# ------------------------------------------------------------------------------------ vectors


@pytest.mark.parametrize("pooling", POOLINGS)
def test_vectors_are_those_by_hand(folder: str, pooling: str) -> None:
    encoder = TransformerEncoder(folder, pooling=pooling, max_length=20)
    found = embed(encoder, TEXTS, batch_tokens=50)
    np.testing.assert_allclose(found, by_hand(folder, TEXTS, pooling, 20), atol=1e-5)
    assert found.shape == (len(TEXTS), encoder.dim_out) and found.dtype == np.float32
    assert len(np.unique(found.round(3), axis=0)) == len(TEXTS)
    assert encoder.n_truncated == 1


def test_pretrained_vectors_are_those_by_hand() -> None:
    encoder = TransformerEncoder(minilm(), max_length=64)
    found = embed(encoder, TEXTS)
    np.testing.assert_allclose(found, by_hand(minilm(), TEXTS, "mean", 64), atol=1e-5)
    like = embed(encoder, ["a whale", "a sperm whale at sea", "tax law"], normalize=True)
    assert like[0] @ like[1] > 0.5 > 0.3 > like[0] @ like[2]


def test_vectors_of_bags_are_sums_by_hand() -> None:
    encoder = BagTextEncoder(dim=8, n_buckets=50, max_length=30, seed=1)
    rows = encoder.tokenize(TEXTS)
    assert encoder.n_truncated == 1
    table, constant = (t.detach().numpy() for t in (encoder.bag.features, encoder.bag.constant))
    assert rows.values is not None
    for text, vector in zip(range(len(TEXTS)), embed(encoder, rows), strict=True):
        here = slice(rows.offsets[text], rows.offsets[text + 1])
        np.testing.assert_allclose(vector, constant + rows.values[here] @ table[rows.ids[here]], atol=1e-5)
        assert len(set(rows.ids[here].tolist())) == rows.lengths[text]
        if rows.lengths[text]:
            assert (rows.values[here] ** 2).sum() == pytest.approx(1, abs=1e-5)
    assert rows.lengths[1] == 0  # nothing but the constant


def test_bags_know_words_and_pairs() -> None:
    encoder = BagTextEncoder(dim=1, n_buckets=2**20)

    def ids(text: str) -> set[int]:
        return set(encoder.tokenize([text]).ids.tolist())

    assert len(ids("south seas, South Seas!")) == 4  # two words, "south seas" and "seas south"
    assert ids("seas south") & ids("south seas") == ids("seas") | ids("south")
    assert ids("whale北京") >= ids("whale") | ids("北") | ids("京") and len(ids("whale北京")) == 5
    assert encoder.tokenize(["a b", "b a"]).ids.tolist() == encoder.tokenize(["a b"]).ids.tolist() + (
        encoder.tokenize(["b a"]).ids.tolist()
    )


def test_bags_over_a_vectorizer() -> None:
    from sylvan import TfidfVectorizer

    vectorizer = TfidfVectorizer().fit(TEXTS)
    encoder = BagTextEncoder(dim=4, vectorizer=vectorizer)
    rows, matrix = encoder.tokenize(TEXTS), vectorizer.transform(TEXTS)
    assert rows.ids.tolist() == matrix.indices.tolist() and rows.offsets.tolist() == matrix.indptr.tolist()
    assert encoder.tables()[0].shape == (vectorizer.n_terms_, 4)
    with raises(ParameterError, "TfidfVectorizer", "fitted"):
        BagTextEncoder(vectorizer=TfidfVectorizer()).load()


@pytest.mark.parametrize("kind", ["bag", "bert"])
def test_texts_that_are_none(kind: str, folder: str) -> None:
    encoder = open_encoder(BagTextEncoder(dim=8, n_buckets=500) if kind == "bag" else folder)
    with raises(DataError, "str", "single"):
        encoder.tokenize("one text")
    with raises(DataError, 1, "NoneType"):
        encoder.tokenize(["a", None])  # type: ignore[list-item]
    assert embed(encoder, []).shape == (0, encoder.dim_out)
    half = embed(encoder, ["whale \ud83d", "whale \N{REPLACEMENT CHARACTER}"])
    assert np.isfinite(half).all()


def test_rows() -> None:
    rows = TokenRows.from_lists([[1, 2], [], [3]])
    assert rows.take([2, 0, 0]).ids.tolist() == [3, 1, 2, 1, 2]
    assert TokenRows.join([rows, rows]).offsets.tolist() == [0, 2, 2, 3, 5, 5, 6]
    assert len(TokenRows.join([])) == 0
    ids, mask = rows.dense(9)
    assert ids.tolist() == [[1, 2], [9, 9], [3, 9]] and mask.tolist() == [[1, 1], [0, 0], [1, 0]]
    with_values = TokenRows(rows.ids, rows.offsets, np.ones(3, dtype=np.float32))
    assert with_values.take([2]).values is not None and with_values.nbytes == rows.nbytes + 12
    with raises(DataError, "joined"):
        TokenRows.join([rows, with_values])
    for offsets in ([0, 2], [1, 3], [0, 2, 1, 3], [[0, 3]]):
        with raises(DataError, "offsets", 0):
            TokenRows(rows.ids, np.array(offsets))


def test_rows_without_tokens_are_refused(folder: str) -> None:
    encoder = open_encoder(folder, max_length=20)
    with raises(DataError, "token"):
        encoder.collate(TokenRows.from_lists([[1], []]))


# ------------------------------------------------------------------------------------ training


def test_what_is_trained(folder: str) -> None:
    whole, frozen = open_encoder(folder, max_length=20), open_encoder(folder, max_length=20, frozen=True)
    assert frozen.inner_parameters() == [] and frozen.tables() == []
    names = {id(weight): name for name, weight in whole.named_parameters()}
    trained = {names[id(weight)] for weight in whole.inner_parameters()}
    assert trained == {name for name in names.values() if "pooler" not in name}  # on which nothing depends
    pooled = open_encoder(folder, max_length=20, pooling="pooler")
    assert len(pooled.inner_parameters()) == len(list(pooled.parameters()))
    bag = BagTextEncoder(dim=8, n_buckets=500)
    assert [tuple(t.shape) for t in bag.tables()] == [(500, 8)] and len(bag.inner_parameters()) == 1
    assert BagTextEncoder(dim=8, n_buckets=500, frozen=True).tables() == []
    steps(bag)
    assert bag.tables()[0].grad is not None and bag.tables()[0].grad.is_sparse


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_trained_weight_has_a_gradient(folder: str, pooling: str) -> None:
    encoder = TransformerEncoder(folder, pooling=pooling, max_length=20).load().train()
    encoder(encoder.collate(encoder.tokenize(TEXTS))).pow(2).sum().backward()
    without = [name for name, weight in encoder.named_parameters() if weight.requires_grad and weight.grad is None]
    assert without == []


def test_recomputed_activations_give_the_same_gradients(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "bert", TEXTS, dropout=0.2)
    gradients = []
    for checkpointing in (False, True):
        encoder = open_encoder(folder, max_length=20, gradient_checkpointing=checkpointing).train()
        torch.manual_seed(7)
        encoder(encoder.collate(encoder.tokenize(TEXTS))).tanh().sum().backward()
        gradients.append([weight.grad for weight in encoder.inner_parameters()])
        layers = [module for module in encoder.modules() if getattr(module, "gradient_checkpointing", False)]
        assert bool(layers) is checkpointing
    assert len(gradients[0]) == len(gradients[1]) > 10
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_lora_changes_little_and_is_saved_as_a_whole(folder: str, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    encoder = open_encoder(folder, max_length=20, lora_rank=2)
    few = sum(weight.numel() for weight in encoder.inner_parameters())
    assert 0 < few < 0.05 * sum(weight.numel() for weight in encoder.parameters())
    before = embed(encoder, TEXTS)
    np.testing.assert_allclose(before, embed(open_encoder(folder, max_length=20), TEXTS), atol=1e-6)
    steps(encoder)
    after = embed(encoder, TEXTS)
    assert abs(after - before).max() > 1e-3
    encoder.save_pretrained(tmp_path / "merged")
    assert not (tmp_path / "merged" / "adapter_config.json").exists()
    np.testing.assert_allclose(embed(open_encoder(tmp_path / "merged"), TEXTS), after, atol=1e-5)
    np.testing.assert_array_equal(embed(encoder, TEXTS), after)  # saving leaves it as it was
    unfolded = encoder.identity()
    encoder.fold()
    folded = embed(encoder, TEXTS)
    np.testing.assert_allclose(folded, after, atol=1e-5)
    np.testing.assert_array_equal(folded, embed(open_encoder(tmp_path / "merged"), TEXTS))
    assert encoder.identity() != unfolded
    steps(encoder)
    assert abs(embed(encoder, TEXTS) - folded).max() > 1e-3, "it learns on"
    same = open_encoder(folder, max_length=20, lora_rank=2)
    assert same.identity() == open_encoder(folder, max_length=20, lora_rank=2).identity() != encoder.identity()
    with raises(ParameterError, "lora_rank", "TransformerEncoder", "None"):
        TransformerEncoder(folder, lora_rank=2, frozen=True, max_length=20).load()


# ------------------------------------------------------------------------------------ copies and identity


@pytest.mark.parametrize("kind", ["bag", "bert"])
def test_copies_and_identities(kind: str, folder: str, tmp_path: Path) -> None:
    def made(max_length: int = 20) -> TextEncoder:
        small = BagTextEncoder(dim=8, n_buckets=500, max_length=max_length)
        return small.load() if kind == "bag" else open_encoder(folder, max_length=max_length)

    encoder = made()
    copied = encoder.copy()
    assert copied.identity() == encoder.identity() == made().identity()
    steps(copied)
    assert copied.identity() != encoder.identity()
    np.testing.assert_array_equal(embed(encoder, TEXTS), embed(made(), TEXTS))
    assert made(19).identity() != encoder.identity()
    with raises(ParameterError, "changed"):
        encoder.set_params(max_length=10)
    copied.save_pretrained(tmp_path / "saved")
    again = open_encoder(tmp_path / "saved")
    assert again.identity() == copied.identity()
    np.testing.assert_array_equal(embed(again, TEXTS), embed(copied, TEXTS))
    again.save_pretrained(tmp_path / "saved")  # over itself
    assert open_encoder(tmp_path / "saved").identity() == copied.identity()


def test_what_opens_what(folder: str, tmp_path: Path) -> None:
    assert type(open_encoder(folder, max_length=20)) is TransformerEncoder
    open_encoder(folder, max_length=20).save_pretrained(tmp_path / "saved")
    saved = open_encoder(tmp_path / "saved")
    assert type(saved) is SentenceEncoder and saved.max_length == 20
    assert type(open_encoder(tmp_path / "saved", pooling="cls", max_length=20)) is TransformerEncoder
    usual = open_encoder("bag", max_length=7)
    assert (usual.max_length, usual.dim_out) == (7, 128)
    bag = BagTextEncoder(dim=8, n_buckets=500)
    assert open_encoder(bag) is bag
    bag.save_pretrained(tmp_path / "bag")
    assert open_encoder(tmp_path / "bag", frozen=True).tables() == []
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (3, {}, ("bag", 3)), (bag, {"max_length": 3}, "parameters"), (bag, {"frozen": True}, "parameters"),
        ("bag", {"pooling": "cls"}, ("pooling", "takes")), ("bag", {"max_length": 0}, ("max_length", "BagTextEncoder")),
        (folder, {"pooling": "sum"}, ("pooling", "TransformerEncoder", "mean", "cls")),
        (folder, {"lora_rank": 0}, ("lora_rank", 0)), (folder, {"max_length": 161}, ("[3, 160]", 161)),
        (folder, {"max_length": 2}, ("[3, 160]", 2)),
    ]  # fmt: skip
    for source, options, sentence in wrong:
        with raises(ParameterError, sentence):
            open_encoder(source, **options)


def test_nothing_more_is_loaded_than_an_encoder_needs_and_nothing_said(folder: str, tmp_path: Path) -> None:
    """No bars and warnings of other libraries: loading, long texts, training with little memory, saving."""
    code = f"""
import sys
from sylvan.neural import BagTextEncoder, SentenceEncoder, TransformerEncoder, embed, open_encoder, train
embed(BagTextEncoder(dim=2), ["a"])
TransformerEncoder("bert")
SentenceEncoder("bert")
loaded = {{"sentence_transformers", "transformers", "accelerate", "sklearn"}} & set(sys.modules)
assert not loaded, loaded

encoder = open_encoder({folder!r}, max_length=20, gradient_checkpointing=True, lora_rank=2)
embed(encoder, ["whale " * 3000])
encoder.train()(encoder.collate(encoder.tokenize(["whale"]))).sum().backward()
encoder.save_pretrained({str(tmp_path / "saved")!r})
embed(open_encoder({str(tmp_path / "saved")!r}), ["whale"])
"""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = python("-c", code, env=environment(PYTHONPATH=paths, HF_HUB_OFFLINE="1"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("hidden", [None, 7])
def test_bag_encoder_against_a_dense_product(hidden: int | None) -> None:
    torch.manual_seed(2)
    encoder = BagEncoder(30, 5, hidden=hidden)
    X = sp.random(6, 30, 0.2, format="csr", random_state=3, dtype=np.float32)
    X = sp.vstack([X[:2], sp.csr_matrix((1, 30), dtype=np.float32), X[2:]], format="csr")  # with an empty row
    parts = (torch.from_numpy(X.indices.astype(np.int64)), torch.from_numpy(X.indptr.astype(np.int64)))
    found = encoder(*parts, torch.from_numpy(X.data))
    summed = torch.from_numpy(X.toarray()) @ encoder.features + encoder.constant
    expected = summed if hidden is None else encoder._map(torch.relu(summed))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    found.sum().backward()
    assert encoder.features.grad is not None and encoder.features.grad.is_sparse
    touched = encoder.features.grad.coalesce().indices().flatten().tolist()
    assert touched == sorted(set(X.indices.tolist()))


def test_bag_encoder_refuses_what_does_not_fit_together() -> None:
    encoder = BagEncoder(30, 5)
    ids = torch.tensor([1, 2])
    with raises(DataError, "nnz"):
        encoder(ids, torch.tensor([0, 2]), torch.ones(3))


SOME_WORDS = "the of whales in south seas Astronomy für Anfänger l'été it's 1,984 北京 www.example.org/a-b_c?d=e ---"
WORDS_APART = SOME_WORDS.split()


def texts() -> list[str]:
    """Texts long and short, with spaces of all kinds, and such as have none."""
    rng = np.random.default_rng(0)
    spaces = [" "] * 8 + ["  ", "\n", "\t ", "\u3000"]
    found = ["", " ", "a" * 1500, "北京" * 900, " " * 1500 + "whale", "whale" + " " * 1500 + "seas", "a " * 900]
    for n in (1, 5, 20, 60, 100, 300):
        for _ in range(2):
            found.append("".join(str(rng.choice(WORDS_APART)) + str(rng.choice(spaces)) for _ in range(n)))
    return found


def trained(kind: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<unk>", "<s>", "</s>"]
    trainer: Any
    if kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=special, unk_token="<unk>")
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=350, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([SOME_WORDS] * 20, trainer)
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ids)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_beginnings_are_enough(kind: str, tmp_path: Path) -> None:
    if kind == "wordpiece":
        tokenizer = TransformerEncoder(tiny_bert(tmp_path / "bert", [SOME_WORDS]), max_length=40).load().tokenizer
    else:
        tokenizer = trained(kind)
    given = texts()
    whole = [tokenizer(text, verbose=False)["input_ids"] for text in given]
    for max_length in (3, 10, 40):
        ids, n_truncated = hugging_face.token_ids(tokenizer, given, max_length)
        assert ids == [tokenizer(text, truncation=True, max_length=max_length)["input_ids"] for text in given]
        assert n_truncated == sum(len(row) > max_length for row in whole)
        assert {len(row) for row in ids} >= {2, max_length}


def test_only_beginnings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = trained("bpe")
    calls = calls_of(monkeypatch, hugging_face, "_encode")

    def read() -> list[int]:
        return [len(text) for call in calls for text in call.args[1]]

    long = "whales in the south seas " * 10_000
    tokenizer.truncation_side = "left"
    left, _ = hugging_face.token_ids(tokenizer, [long], 20)
    assert read() == [len(long)]  # only its end is used
    tokenizer.truncation_side = "right"
    right, n_truncated = hugging_face.token_ids(tokenizer, [long, "whales"], 20)
    assert sum(read()[1:]) < 500 and n_truncated == 1 and right[0] != left[0]


def test_tokenizers_in_python() -> None:
    from transformers import ByT5Tokenizer

    tokenizer = ByT5Tokenizer()
    given = ["whale", "", "a whale at sea", "1234567"]
    ids, n_truncated = hugging_face.token_ids(tokenizer, given, 8)
    assert [len(row) for row in ids] == [6, 1, 8, 8] and n_truncated == 1
    assert ids[0] == tokenizer("whale")["input_ids"]
