"""Embedding many texts: order, batches, and vectors stored on disk."""

import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kit.errors import raises, warns
from kit.watching import stopped

from sylvan.errors import ParameterError
from sylvan.neural import BagTextEncoder, Engine, TokenRows, embed
from sylvan.neural.text import embedding
from sylvan.neural.text.embedding import EmbeddingCache, batches

TEXTS = [f"{'whale ' * (i % 7)}number {i} of the sea" for i in range(50)]


class Counting(BagTextEncoder):
    """Counts the texts that it encodes."""

    n_encoded = 0

    def forward(self, batch: Any) -> torch.Tensor:
        self.n_encoded += len(batch["offsets"]) - 1
        return super().forward(batch)


def encoder(**settings: Any) -> Counting:
    return Counting(**{"dim": 8, "n_buckets": 500, **settings}).load()


@pytest.mark.parametrize("batch_tokens", [1, 7, 100, 10**9])
def test_batches_hold_every_text_once(batch_tokens: int) -> None:
    lengths = np.random.default_rng(0).integers(0, 30, 200)
    found = list(batches(lengths, batch_tokens))
    assert sorted(np.concatenate(found).tolist()) == list(range(200))
    for some in found:
        assert len(some) == 1 or len(some) * max(1, lengths[some].max()) <= batch_tokens
    longest = [lengths[some].max() for some in found]
    assert longest == sorted(longest, reverse=True)
    if batch_tokens == 100:  # little padding
        assert sum(len(some) * lengths[some].max() for some in found) < 1.2 * lengths.sum()


def test_the_order_is_that_of_the_texts() -> None:
    mine = encoder().train()
    found = embed(mine, TEXTS, batch_tokens=40)
    rows = mine.tokenize(TEXTS)
    np.testing.assert_allclose(found, embed(mine, rows), atol=1e-6)
    shuffled = np.random.default_rng(1).permutation(50)
    np.testing.assert_allclose(embed(mine, rows.take(shuffled)), found[shuffled], atol=1e-6)
    assert mine.training  # as it was before
    lengths = np.linalg.norm(embed(mine, TEXTS, normalize=True), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)
    with raises(ParameterError, "batch_tokens"):
        embed(mine, TEXTS, batch_tokens=0)


def test_nothing_normalised_is_nothing() -> None:
    nothing = encoder()
    with torch.no_grad():
        for weight in nothing.parameters():
            weight.zero_()
    assert (embed(nothing, TEXTS[:2], normalize=True) == 0).all()


def test_an_engine_says_where_and_how(tmp_path: Path) -> None:
    mine = encoder(hidden=16)
    expected = embed(mine, TEXTS)
    np.testing.assert_array_equal(embed(mine, TEXTS, engine=Engine(device="cpu", precision="no")), expected)
    rough = embed(mine, TEXTS, engine=Engine(device="cpu", precision="bf16"), cache=tmp_path)
    assert 0 < abs(rough - expected).max() < 0.02 * abs(expected).max()
    np.testing.assert_allclose(embed(mine, TEXTS, cache=tmp_path), expected, atol=1e-6)  # not what bf16 gave


class Half(Engine):
    """The first or the second of two processes, as far as embedding goes."""

    def __init__(self, place: int) -> None:
        super().__init__(device="cpu", precision="no")
        self.place_of_mine = place

    def share(self, rows: TokenRows) -> TokenRows:
        return rows.take(np.array_split(np.arange(len(rows)), 2)[self.place_of_mine])

    def gather(self, array: np.ndarray) -> np.ndarray:
        parts[self.place_of_mine] = array
        return np.concatenate([parts.get(0, array[:0]), parts.get(1, array[:0])])


parts: dict[int, np.ndarray] = {}


def test_two_processes_do_half_each() -> None:
    mine = encoder()
    halves = [embed(mine, TEXTS, engine=Half(place)) for place in (0, 1)]
    assert mine.n_encoded == len(TEXTS) and len(halves[0]) == len(TEXTS) // 2
    np.testing.assert_allclose(halves[1], embed(mine, TEXTS), atol=1e-6)


# ------------------------------------------------------------------------------------ on disk


def stored(folder: Path) -> Path:
    (path,) = folder.rglob("*.sqlite")
    return path


def test_vectors_are_found_again(tmp_path: Path) -> None:
    first = encoder()
    expected = embed(first, TEXTS)
    first.n_encoded = 0
    np.testing.assert_array_equal(embed(first, TEXTS[:20], cache=tmp_path, batch_tokens=8192), embed(first, TEXTS[:20]))
    again = encoder()
    np.testing.assert_allclose(embed(again, [*TEXTS[30:], *TEXTS[:10], TEXTS[0]], cache=tmp_path)[-1], expected[0])
    assert again.n_encoded == 20
    np.testing.assert_allclose(embed(again, TEXTS, cache=tmp_path, normalize=True) ** 2 @ np.ones(8), 1, atol=1e-5)
    assert again.n_encoded == 30
    np.testing.assert_allclose(embed(again, TEXTS, cache=tmp_path), expected, atol=1e-6)
    assert again.n_encoded == 30
    other = encoder(seed=1)
    np.testing.assert_allclose(embed(other, TEXTS, cache=tmp_path), embed(encoder(seed=1), TEXTS), atol=1e-6)
    assert other.n_encoded == 50 and len(list(tmp_path.iterdir())) == 2  # a file an encoder


def spoil_vectors(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        ((vector,),) = file.execute("SELECT vector FROM vectors LIMIT 1")
        file.execute("UPDATE vectors SET vector = ?", (vector[:-1] + bytes([vector[-1] ^ 1]),))


def spoil_keys(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        keys = [key for (key,) in file.execute("SELECT key FROM vectors")]
        marked = [key + b"\0" for key in keys]
        file.execute("UPDATE vectors SET key = key || x'00'")
        file.executemany("UPDATE vectors SET key = ? WHERE key = ?", zip(keys[1:] + keys[:1], marked, strict=True))


def spoil_types(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE vectors SET vector = 7")


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_vectors, spoil_keys, spoil_types, lambda path: path.write_bytes(path.read_bytes()[:-1000]),
        lambda path: path.write_bytes(path.read_bytes()[:2000]),
        lambda path: path.write_bytes(b"no database at all" * 100), lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
)  # fmt: skip
def test_damaged_vectors_are_computed_again(spoil: Any, tmp_path: Path) -> None:
    mine = encoder()
    expected = embed(mine, TEXTS, cache=tmp_path)
    spoil(stored(tmp_path))
    mine.n_encoded = 0
    np.testing.assert_allclose(embed(mine, TEXTS, cache=tmp_path), expected, atol=1e-6)
    assert mine.n_encoded == 50
    np.testing.assert_allclose(embed(mine, TEXTS, cache=tmp_path), expected, atol=1e-6)
    assert mine.n_encoded < 70, "they are stored again, but for what a cut page loses once more"


def test_a_file_that_is_busy_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = encoder()
    expected = embed(mine, TEXTS[:25], cache=tmp_path)
    monkeypatch.setattr(embedding, "_PATIENCE", 0.01)
    with contextlib.closing(sqlite3.connect(stored(tmp_path))) as file:
        file.execute("BEGIN EXCLUSIVE")
        with warns(RuntimeWarning, "database"):
            np.testing.assert_allclose(embed(mine, TEXTS, cache=tmp_path)[:25], expected, atol=1e-6)
    mine.n_encoded = 0
    np.testing.assert_allclose(embed(mine, TEXTS[:25], cache=tmp_path), expected, atol=1e-6)
    assert mine.n_encoded == 0


def test_many_at_once(tmp_path: Path) -> None:
    """Threads stand for processes: all that they share is the folder."""
    expected = embed(encoder(), TEXTS)
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            order = np.random.default_rng(seed).permutation(50)
            for start in range(0, 50, 3):
                chosen = order[start : start + 3]
                cache = EmbeddingCache(tmp_path, {"n": 1}, 8)
                keys = cache.keys(TokenRows.from_lists([[int(i)] for i in chosen]))
                known, vectors = cache.find(keys)
                np.testing.assert_array_equal(vectors, expected[chosen][known])
                cache.add([keys[i] for i in np.flatnonzero(~known)], expected[chosen][~known])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    cache = EmbeddingCache(tmp_path, {"n": 1}, 8)
    known, vectors = cache.find(cache.keys(TokenRows.from_lists([[i] for i in range(50)])))
    assert known.all()
    np.testing.assert_array_equal(vectors, expected)
    assert list(tmp_path.iterdir()) == [stored(tmp_path)]


def test_an_interrupted_embedding_keeps_what_it_had(tmp_path: Path) -> None:
    with stopped(Counting, "forward", lambda self, batch: self.n_encoded > 20):
        embed(encoder(), TEXTS, cache=tmp_path, batch_tokens=40)
    mine = encoder()
    embed(mine, TEXTS, cache=tmp_path)
    assert 0 < mine.n_encoded < 30


def test_places_that_cannot_hold_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with raises(ParameterError, "cache"):
        embed(encoder(), TEXTS, cache=tmp_path / "file")

    def full(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite3, "connect", full)
    with warns(RuntimeWarning, "database"):
        found = embed(encoder(), TEXTS, cache=tmp_path / "full")
    np.testing.assert_allclose(found, embed(encoder(), TEXTS), atol=1e-6)


@pytest.mark.parametrize("kind", ["bag", "network"])
def test_weights_are_looked_at_once_while_they_stay(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sylvan.neural import TransformerEncoder
    from sylvan.neural.text import bag_text_encoder, network_encoder

    made: Any = BagTextEncoder(dim=4, n_buckets=32)
    if kind == "network":
        pytest.importorskip("transformers")
        from neural.text.tiny_bert import tiny_bert

        made = TransformerEncoder(tiny_bert(tmp_path / "bert", TEXTS))
    calls, checksum = [], bag_text_encoder.checksum_of_tensors
    for module in (bag_text_encoder, network_encoder):
        monkeypatch.setattr(module, "checksum_of_tensors", lambda *given: calls.append(1) or checksum(*given))
    first = made.identity()
    for _ in range(3):
        embed(made, TEXTS[:5], cache=tmp_path / "vectors")
    assert made.to("cpu").identity() == first and len(calls) == 1
    assert made.copy().identity() == first and len(calls) == 2, "a copy is looked at anew"
    before = {name: value.clone() for name, value in made.state_dict().items()}
    optimizer = torch.optim.SGD(made.inner_parameters() or made.tables(), lr=1.0)
    made(made.collate(made.tokenize(TEXTS[:5]))).square().sum().backward()
    optimizer.step()
    assert made.identity() != first and made.identity() != first and len(calls) == 3
    made.load_state_dict(before)
    assert made.identity() == first and len(calls) == 4
    with torch.no_grad():
        next(iter(made.parameters()))[0] += 1
    changed = made.identity()
    assert changed != first and len(calls) == 5
    module, name = next(
        (module, name) for module in made.modules() for name, _ in module.named_parameters(recurse=False)
    )
    setattr(module, name, torch.nn.Parameter(getattr(module, name).detach() + 1))
    assert made.identity() != changed and len(calls) == 6
