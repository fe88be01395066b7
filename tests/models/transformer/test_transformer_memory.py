"""What a training of XRTransformer or XTransformer will take: plans, memory beforehand, memory that runs out."""

from pathlib import Path
from typing import Any

import pytest
from encoded_texts import LABELS, TEXTS, small
from kit.errors import raises
from kit.watching import calls_of

from sylvan import TfidfVectorizer, TransformerMatcher, XRTransformer, XTransformer
from sylvan.errors import MemoryLimitError
from sylvan.models.transformer.memory import EncoderSizes, memory_words, refuse_beyond_memory
from sylvan.models.transformer.presets import encoder_of

pytest.importorskip("torch")

import torch

from sylvan.models.transformer import fine_tuning, memory
from sylvan.models.transformer import layer_job as deep_layer_job
from sylvan.models.transformer import training as transformer_plan
from sylvan.neural import BagTextEncoder
from sylvan.neural.text import embedding


def test_too_little_memory_is_reported_beforehand_with_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(MemoryLimitError) as refused:
        small(encoder=BagTextEncoder(dim=8, n_buckets=4096)).fit(TEXTS, LABELS)
    for words in ("of memory, but there are only", "frozen=True", "a smaller encoder", "force=True"):
        assert words in str(refused.value)
    small().fit(TEXTS, LABELS, force=True)


def test_running_out_of_memory_on_the_way_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(self: Any, batch: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(BagTextEncoder, "forward", forward)
    for frozen in (True, False):
        with raises(MemoryLimitError, "CUDA", "max_length"):
            small(frozen=frozen).fit(TEXTS, LABELS)


def test_plan_and_report_name_the_parts() -> None:
    lines: list[str] = []
    small().fit(TEXTS, LABELS, report=lines.append)
    assert len(lines) == 1
    assert all(words in lines[0] for words in ("encoder", "its training", "node vectors", "embeddings"))
    for kind in (XRTransformer, XTransformer):
        plan = small(kind).plan(TEXTS, LABELS)
        assert plan.fits and plan.seconds > 0
        assert {"features", "its training", "node vectors", "embeddings", "rankers"} <= {p.name for p in plan.phases}
        model = small(kind).fit(TEXTS, LABELS)
        size = sum(array.nbytes for array in model.encoder_.state_dict().values())
        assert size < plan.model_bytes < size + 100_000
    assert not any(phase.name == "its training" for phase in small(frozen=True).plan(TEXTS, LABELS).phases)


def test_a_plan_counts_the_steps_that_training_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, model = calls_of(monkeypatch, TransformerMatcher, "steps"), small(matcher__accumulate=3)
    model.plan(TEXTS, LABELS)
    planned = [call.result for call in steps]
    model.fit(TEXTS, LABELS)
    assert [call.result for call in steps] == 2 * planned and planned


def test_a_plan_counts_how_often_texts_are_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that are found anew within a layer take as long as those it begins with."""
    plans = calls_of(monkeypatch, transformer_plan, "_texts_seen")
    model = small(matcher__epochs=1.0, matcher__batch_size=8, matcher__refresh=2, matcher__holdout=4)
    model.plan(TEXTS, LABELS)
    embedded = [calls_of(monkeypatch, module, "embed") for module in (deep_layer_job, fine_tuning, embedding)]
    model.fit(TEXTS, LABELS)
    assert plans[0].result[1] == sum(len(call.args[1]) for calls in embedded for call in calls) > 48 * 4
    assert model.set_params(frozen=True, matcher__holdout=0).plan(TEXTS, LABELS) and plans[-1].result == (0, 48)


def test_a_plan_counts_what_pytorch_takes_once_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = []
    for loaded in (10**8, 5 * 10**8):  # before the encoder is opened, and after
        resident = iter([10**8, loaded])
        monkeypatch.setattr(transformer_plan, "resident_bytes", lambda resident=resident: next(resident))
        peaks.append(small().plan(TEXTS, LABELS).peak_bytes)
    weights = sum(weight.numel() for weight in encoder_of(small()).parameters())
    assert peaks[1] - peaks[0] == 4 * 10**8 - 4 * weights and peaks[0] > 10**8


def test_a_plan_is_of_the_encoder_whatever_the_cache_knows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = small(frozen=True, cache=tmp_path).fit(TEXTS, LABELS)
    asked = calls_of(monkeypatch, BagTextEncoder, "forward")
    model.rank(TEXTS, k=1)
    assert not asked, "the cache knows them all"
    model.plan(TEXTS, LABELS)
    assert asked


def test_the_memory_of_670_000_labels() -> None:
    """Amazon-670K with a MiniLM of 22.7 million weights, by hand."""
    sizes = EncoderSizes(
        n_rows=490_449, n_tokens=490_449 * 128, n_weights=22_700_000, n_trained=22_700_000, n_table=0, n_wide=0,
        n_dense=384, batch_tokens=32 * 128, layer_sizes=(16, 256, 6701, 670_091), n_terms=490_449 * 70,
    )  # fmt: skip
    found, rows, vectors = sizes.bytes(), 490_449, 490_449 * 384
    assert found["TF-IDF"] == 8 * (rows + 1) + 8 * 70 * rows
    assert found["encoder"] == 90_800_000
    assert found["its training"] == 4 * 90_800_000
    assert found["node vectors"] == 4 * 384 * (16 + 256 + 6701 + 670_091 + 3 * 670_091)
    assert found["embeddings"] == 16 * vectors + 4 * rows * 128
    entries = 70 * rows + vectors
    assert found["rankers"] == 8 * (rows + 1) + 8 * entries + 4 * entries + 148 * rows + (64 + 20 + 4) * 384
    assert sizes.training == sum(found.values()) - found["rankers"]
    others = found["TF-IDF"] + found["encoder"] + 4 * vectors + 4 * rows * 128 + 4 * 384 * (16 + 256 + 6701 + 670_091)
    assert sizes.ranking == others + found["rankers"] and sizes.total == max(sizes.training, sizes.ranking)
    assert sizes.gpu == 5 * 90_800_000 + 16 * 384 * 670_091
    words = memory_words(sizes)
    assert (
        "about 8.1 GB of memory: TF-IDF 278.6 MB, encoder 90.8 MB, its training 363.2 MB, node vectors 4.1 GB" in words
    )
    assert words.endswith("embeddings 3.3 GB; about 5.2 GB when the rankers are solved.")
    assert memory_words(sizes, gpu=True) == f"{words} The GPU holds about 4.6 GB of the encoder's."


def test_values_of_tf_idf_are_estimated_from_a_few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_COUNTED_TEXTS", 8)
    training = XRTransformer.training(small(vectorizer=TfidfVectorizer(ngrams=(1, 2))), TEXTS, LABELS, None)
    estimated = training.estimate(encoder_of(training.model)).n_terms
    assert estimated == pytest.approx(len(training.terms().indices), rel=0.2)
    nothing = XRTransformer.training(small(vectorizer=TfidfVectorizer(min_token_length=99)), TEXTS, LABELS, None)
    assert nothing.estimate(encoder_of(nothing.model)).n_terms == 0


def test_too_little_memory_of_a_gpu_is_reported_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of CUDA, and what follows from its answer; nothing is trained."""
    training = XRTransformer.training(small(device="cuda:1"), TEXTS, LABELS, None)
    encoder = encoder_of(training.model)
    sizes, given = training.estimate(encoder), (training.suited_matcher(encoder), "cuda:1")
    asked: list[Any] = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: asked.append(device) or (sizes.gpu - 1, 10**12))
    with raises(MemoryLimitError, "GPU", "force=True"):
        refuse_beyond_memory(encoder, sizes, *given)
    assert asked == [torch.device("cuda:1")]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (sizes.gpu, 10**12))
    refuse_beyond_memory(encoder, sizes, *given)
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with raises(MemoryLimitError, "max_length"):
        refuse_beyond_memory(encoder, sizes, *given)
