"""Language models: texts as streams, batches, perplexity against a slow reference, training and resuming."""

import bz2
import lzma
import math
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kit.bits import same_bits
from kit.errors import raises, warns

from sylvan.errors import DataError, ParameterError
from sylvan.neural import RefreshSchedule, load_tree, train
from sylvan.sampling import HarmfulOptimizerWarning, SampledSoftmaxLoss, Uniform
from sylvan.sampling.by_name import HEADS, LOSSES
from sylvan.tasks import LanguageModel, build_corpus, read_corpus, run_task
from sylvan.tasks.language_model import Corpus

SMALL: dict[str, Any] = {
    "embedding": 12, "hidden": 10, "n_heads": 2, "feed_forward": 16, "length": 6, "batch_size": 4, "n_samples": 5,
    "sampler": "unigram",
}  # fmt: skip


def sentences(n: int, seed: int) -> list[list[str]]:
    """A walk over 30 words in which each is followed by one of two."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        word = int(rng.integers(30))
        sentence = []
        for _ in range(int(rng.integers(3, 9))):
            sentence.append(f"w{word}")
            word = (2 * word + int(rng.integers(2))) % 30
        found.append(sentence)
    return found


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build_corpus(sentences(300, 0), sentences(40, 1), sentences(30, 2))


def test_a_text_becomes_a_stream() -> None:
    corpus = build_corpus([["b", "a", "a"], [], ["a"]], [["a"]], [["b", "a"]])
    assert corpus.words == ["a", "<eos>", "b"]
    assert corpus.train.tolist() == [2, 0, 0, 1, 0, 1] and corpus.test.tolist() == [2, 0, 1]
    assert corpus.counts().tolist() == [3, 2, 1]
    assert repr(corpus) == "Corpus(3 words; train 6, validation 2, test 3 tokens)"


def test_a_given_vocabulary() -> None:
    corpus = build_corpus([["b", "a", "c"], ["a", "c"]], [["a"]], [["b"]], vocabulary=["a", "z"])
    assert corpus.words == ["<unk>", "a", "<eos>", "z"]
    assert corpus.train.tolist() == [0, 1, 0, 2, 1, 0, 2] and corpus.counts().tolist() == [3, 2, 2, 0]


def test_texts_from_files(tmp_path: Path) -> None:
    (tmp_path / "train.txt.xz").write_bytes(lzma.compress(" a b \n\nb ağaç\n".encode()))
    (tmp_path / "valid.txt").write_text("a\n")
    (tmp_path / "test.txt").write_text("b zz")
    (tmp_path / "words").write_text("a\nb\n")
    corpus = read_corpus(tmp_path)
    assert corpus.words == ["b", "<eos>", "a", "ağaç", "<unk>"] and corpus.test.tolist() == [0, 4, 1]
    parts = [tmp_path / name for name in ("train.txt.xz", "valid.txt", "test.txt")]
    (tmp_path / "test.txt").unlink()
    (tmp_path / "test.txt.bz2").write_bytes(bz2.compress(b"b zz"))
    assert read_corpus(tmp_path).test.tolist() == corpus.test.tolist()
    parts[2] = tmp_path / "test.txt.bz2"
    assert read_corpus(*parts).describe() == corpus.describe()
    assert set(read_corpus(*parts, vocabulary=tmp_path / "words").words) == {"a", "b", "<eos>", "<unk>"}


def test_wrong_texts(tmp_path: Path) -> None:
    with raises(DataError, "folder"):
        read_corpus(tmp_path / "nowhere")
    with raises(DataError, "train.txt", "holds"):
        read_corpus(tmp_path)
    (tmp_path / "train.txt").write_bytes(b"a\nb\xff\n")
    (tmp_path / "empty.txt").write_bytes(b" \n")
    with raises(DataError, "line 2", "UTF-8"):
        read_corpus(tmp_path / "train.txt", tmp_path / "train.txt", tmp_path / "train.txt")
    with raises(DataError, "empty.txt", "empty"):
        read_corpus(tmp_path / "empty.txt", tmp_path / "train.txt", tmp_path / "train.txt")
    with raises(DataError, "texts", "three"):
        read_corpus(tmp_path / "train.txt", tmp_path / "train.txt")


def test_the_class_tables_rate_suits_the_encoder(corpus: Corpus) -> None:
    for more, rate in (({}, 0.4), ({"model": "transformer"}, 0.05), ({"table_learning_rate": 0.2}, 0.2)):
        job = LanguageModel(corpus, **{**SMALL, **more})
        assert job.optimizers[-1].param_groups[0]["lr"] == rate == job.plain_settings()["table_learning_rate"]


def test_the_lstm_reads_columns_from_top_to_bottom(corpus: Corpus) -> None:
    job = LanguageModel(corpus, **SMALL)
    batches = list(job.batches(0))
    assert len(batches) == job.steps_per_epoch() == len(corpus.train) // 4 // 6
    targets = torch.cat([target for _, target in batches], 1)
    inputs = torch.cat([given for given, _ in batches], 1)
    size = len(corpus.train) // 4
    for row in range(4):
        column = corpus.train[row * size :][: targets.shape[1]]
        assert targets[row].tolist() == column.tolist()
        assert inputs[row, 1:].tolist() == column[:-1].tolist()
    assert inputs[0, 0] == corpus.words.index("<eos>") and inputs[1, 0] == corpus.train[size - 1]


def test_the_transformer_takes_every_window_once_in_another_order_each_epoch(corpus: Corpus) -> None:
    job = LanguageModel(corpus, **{**SMALL, "model": "transformer", "batch_size": 1})
    epochs = [torch.cat([target for _, target in job.batches(epoch)]) for epoch in (0, 1, 1)]
    windows = torch.from_numpy(corpus.train[: len(corpus.train) // 6 * 6].astype(np.int64)).view(-1, 6)
    assert sorted(epochs[0].tolist()) == sorted(windows.tolist())
    assert torch.equal(epochs[1], epochs[2]) and not torch.equal(epochs[0], epochs[1])


def naive_perplexity(job: LanguageModel, ids: np.ndarray[Any, Any]) -> float:
    """Word by word over columns (LSTM) or windows (Transformer), from the scores of the whole vocabulary."""
    end = job.corpus.words.index("<eos>")
    before = [end, *ids[:-1].tolist()]
    piece = -(-len(ids) // 20) if job.model == "lstm" else job.length
    total = 0.0
    for start in range(0, len(ids), piece):
        inputs = torch.tensor([before[start : start + piece]])
        queries = job.encoder_(inputs)
        queries = queries[0] if isinstance(queries, tuple) else queries
        logs = (queries[0] @ job.table_.t()).double().log_softmax(1)
        total -= sum(float(logs[i, word]) for i, word in enumerate(ids[start : start + piece].tolist()))
    return math.exp(total / len(ids))


@pytest.mark.parametrize("model", ["lstm", "transformer"])
def test_perplexity_is_the_naive_one(model: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sylvan.tasks.language_model._CELLS", 100)  # some rows at a time
    job = LanguageModel(corpus, **{**SMALL, "model": model})
    job.module.eval()
    with torch.no_grad():
        for split, ids in (("validation", corpus.validation), ("test", corpus.test)):
            assert job.evaluate(split)["perplexity"] == pytest.approx(naive_perplexity(job, ids), rel=1e-5)


@pytest.mark.parametrize("given", [{"model": "lstm", "dropout": 0.1, "shared": True}, {"model": "transformer"}])
def test_it_learns(given: dict[str, Any], corpus: Corpus) -> None:
    quick = {"n_samples": 8, "batch_size": 8, "learning_rate": 0.04, "table_learning_rate": 0.4}
    results = run_task(LanguageModel(corpus, **{**SMALL, **quick, **given}), epochs=2)
    assert results["test"]["perplexity"] < 12, results["epochs"]  # 32 words; two can follow, and a sentence can end


def test_objects_in_place_of_names(corpus: Corpus) -> None:
    n_words = len(corpus.words)
    job = LanguageModel(corpus, **{**SMALL, "loss": SampledSoftmaxLoss(Uniform(n_words), 4)})
    train(job, epochs=1, max_steps=2)
    assert "SampledSoftmaxLoss" in str(job.settings()["loss"])


def test_an_adaptive_sampler_is_refreshed_on_schedule(corpus: Corpus) -> None:
    job = LanguageModel(corpus, **{**SMALL, "sampler": "softmax", "refresh": RefreshSchedule(3, 3, 0)})
    sampler = job._objective.sampler
    assert sampler is not None
    seen = []
    refresh = sampler.refresh
    sampler.refresh = lambda table: (seen.append(len(seen)), refresh(table))[1]  # type: ignore[method-assign]
    train(job, epochs=1, max_steps=8)
    assert len(seen) == 3


# Whose state differs from that of the others; that each carries it over is in sampling/test_contract.py.
SAMPLERS = (
    "in-batch", "softmax", "sphere", "lsh", "exact-midx-rq", "midx-learned-rq", "midx-joint-pq", "midx-aware-rq",
)  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {"model": "lstm", "dropout": 0.2},
        {"model": "transformer"},
        {"loss": "beam-tree"},
        {"sampler": "rff", "sampler_parameters": {"n_features": 8}},
        *({"sampler": name, "codewords": 4} for name in SAMPLERS),
    ],
    ids=str,
)
def test_resumed_it_is_the_same_to_the_bit(given: dict[str, Any], corpus: Corpus, tmp_path: Path) -> None:
    for folder, stops in (("whole", [9]), ("parts", [4, 9])):
        for stop in stops:
            job = LanguageModel(corpus, **{**SMALL, **given})
            train(job, epochs=9, max_steps=stop, folder=tmp_path / folder, resume=True)
    trees = [load_tree(tmp_path / folder / "checkpoint", kind="neural-checkpoint") for folder in ("whole", "parts")]
    for part in ("module", "random"):
        same_bits(*(tree[part] for tree in trees))


def test_codewords_that_are_parameters_are_trained(corpus: Corpus) -> None:
    job = LanguageModel(corpus, **{**SMALL, "sampler": "midx-rq", "codewords": 4,
                                   "sampler_parameters": {"learnable": "joint"}})  # fmt: skip
    job.step(next(job.batches(0)), 0).backward()  # type: ignore[no-untyped-call]
    gradients = [parameter.grad for parameter in job._objective.parameters()]
    assert len(gradients) == 2 and all(g is not None and bool(g.abs().sum() > 0) for g in gradients)


def test_adam_on_the_class_table_of_a_sampled_loss_warns(corpus: Corpus) -> None:
    with warns(HarmfulOptimizerWarning, "sampled"):
        LanguageModel(corpus, **{**SMALL, "optimizer": "adam"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in ({"optimizer": "sgd"}, {"optimizer": "adagrad"}, {"optimizer": "adam", "loss": "full"}):
            train(LanguageModel(corpus, **{**SMALL, **given}), epochs=1, max_steps=2)


@pytest.mark.parametrize("loss", [*LOSSES, *HEADS])
def test_every_loss_lowers_the_perplexity(loss: str, corpus: Corpus) -> None:
    given = {"loss_parameters": {"n_subsets": 4}} if loss == "cane" else {}
    quick = {"batch_size": 8, "learning_rate": 0.04, "table_learning_rate": 0.4}
    job = LanguageModel(corpus, **{**SMALL, **quick, "loss": loss, **given})
    before = job.evaluate("test")["perplexity"]
    after = train(job, epochs=1).test["perplexity"]
    most = {"negative-sampling": 30, "cane": 25}.get(loss, 20)  # the former's scores are no log-probabilities
    assert after < most < before


@pytest.mark.parametrize(
    ("given", "piece"),
    [
        ({"model": "rnn"}, ("model", "LanguageModel")), ({"hidden": 0}, ("hidden", 0)),
        ({"sampler": "unigrm"}, "unigrm"), ({"loss": "softmx"}, "softmx"),
        ({"sampler_parameters": {"powr": 1}}, "powr"), ({"optimizer": "lion"}, ("optimizer", "lion")),
    ],
)  # fmt: skip
def test_wrong_parameters(given: dict[str, Any], piece: object, corpus: Corpus) -> None:
    with raises(ParameterError, piece):
        LanguageModel(corpus, **{**SMALL, **given})


def test_a_text_too_short_for_a_batch() -> None:
    corpus = build_corpus([["a", "b"]], [["a"]], [["a"]])
    with raises(DataError, "batch"):
        train(LanguageModel(corpus, **{**SMALL, "n_samples": 2}), epochs=1)


def test_log_probabilities_of_a_sentence(corpus: Corpus) -> None:
    job = LanguageModel(corpus, **SMALL)
    logs = job.log_probabilities(["w1", "w2"])
    assert logs.shape == (3,) and bool((logs < 0).all())
    with raises(DataError, "zebra"):
        job.log_probabilities(["zebra"])
    with raises(DataError, "'w1 w2'", "list of words"):
        build_corpus([["w1"], "w1 w2"], [["w1"]], [["w2"]])
    windows = LanguageModel(corpus, **{**SMALL, "model": "transformer", "length": 3})
    assert len(windows.log_probabilities(["w1", "w2"])) == 3
    with raises(DataError, "length=3", "Got 3"):
        windows.log_probabilities(["w1", "w2", "w1"])


def test_nothing_is_dropped_while_it_is_measured(corpus: Corpus) -> None:
    job = LanguageModel(corpus, **{**SMALL, "dropout": 0.9})
    assert len({job.evaluate("test")["perplexity"] for _ in range(3)}) == 1


def test_results_and_pictures(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / (os.fsdecode(b"r\xfcn") if sys.platform == "linux" else "run")  # a name that is no text
    results = run_task(LanguageModel(corpus, **{**SMALL, "batch_size": 32}), epochs=2, folder=folder)
    names = {path.name for path in folder.iterdir()}
    assert names == {"results.json", "convergence.png", "convergence.svg", "checkpoint", "best"}
    assert results["settings"]["task"] == "language-model" and results["settings"]["data"]["words"] == 31
    assert results["versions"]["torch"] == torch.__version__ and len(results["epochs"]) == 2
    assert "language-model: lstm, head-and-tail, 5 from unigram" in (folder / "convergence.svg").read_text()
