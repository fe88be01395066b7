"""On a Ray cluster, trials of rates, vectors of encoders and the trainings of a tuning have the same bits as here."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import same_bits
from kit.books import load_sample

import sylvan
from sylvan import BeamTreeClassifier, XRTransformer, XTransformer
from sylvan.distributed.ray_runner import array_bytes

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def jobs_of(runner: Any) -> dict[str, int]:
    """How many jobs of each kind were sent to the cluster."""
    found: dict[str, int] = {}
    for phase in runner.phases:
        found[phase.name] = found.get(phase.name, 0) + phase.n_jobs
    return found


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(12, 20))
    y = rng.integers(12, size=1500)
    return (centers[y] + rng.normal(size=(1500, 20))).astype(np.float32), y


@pytest.mark.parametrize("parameters", [{}, {"optimizer": "adagrad", "epochs": 1}], ids=str)
def test_trials_of_learning_rates(
    cluster: Any, rows: tuple[Any, Any], parameters: dict[str, Any], tmp_path: Path
) -> None:
    plain = BeamTreeClassifier(n_jobs=1, **parameters).fit(*rows)
    with sylvan.distributed.ray() as runner:
        spread = BeamTreeClassifier(n_jobs=1, **parameters).fit(*rows)
        assert jobs_of(runner)["trying a learning rate"] >= 3
        beside = BeamTreeClassifier(n_jobs=1, **parameters).fit(*rows, checkpoint=tmp_path / "checkpoint")
    same_bits(plain, spread)
    same_bits(plain, beside)


@pytest.fixture(scope="module")
def texts() -> tuple[list[str], list[list[str]]]:
    pytest.importorskip("torch")
    train, _ = load_sample()
    return train.texts[:400], train.labels[:400]


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
@pytest.mark.parametrize("frozen", [False, True])
def test_transformers(
    cluster: Any, texts: tuple[Any, Any], kind: Any, frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sylvan.neural.text import embedding

    monkeypatch.setattr(embedding, "_BATCHES_OF_JOB", 1)
    plain = kind("bag", preset="tiny", frozen=frozen, n_jobs=1, seed=3).fit(*texts)
    with sylvan.distributed.ray() as runner:
        spread = kind("bag", preset="tiny", frozen=frozen, n_jobs=1, seed=3).fit(*texts)
        sent = jobs_of(runner)
    same_bits(plain, spread)
    np.testing.assert_array_equal(plain.embed(texts[0][:20]), spread.embed(texts[0][:20]))
    assert sent["Encoding texts"] > 1, sent
    if kind is XRTransformer and not frozen:
        assert sent["Embedding texts"] > sent["Encoding texts"], "before each layer"
        assert "Training layer 1 of 2" in sent, "rankers that a layer begins with"


def test_an_encoder_of_hugging_face(
    cluster: Any, texts: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from neural.text.tiny_bert import tiny_bert

    from sylvan.neural import TransformerEncoder, embed
    from sylvan.neural.text import embedding

    monkeypatch.setattr(embedding, "_BATCHES_OF_JOB", 1)
    encoder = TransformerEncoder(tiny_bert(tmp_path / "bert", texts[0][:50])).load()
    plain = embed(encoder, texts[0][:60], batch_tokens=512)
    with sylvan.distributed.ray() as runner:
        spread = embed(encoder, texts[0][:60], batch_tokens=512, runner=runner, cache=tmp_path / "cache")
        (phase,) = runner.phases
        assert phase.n_jobs == 4 and phase.bytes_shared > sum(weight.nbytes for weight in encoder.parameters())
        again = embed(encoder, texts[0][:60], batch_tokens=512, runner=runner, cache=tmp_path / "cache")
        assert runner.phases == [phase], "nothing is computed twice"
    assert plain.tobytes() == spread.tobytes() == again.tobytes()


def test_tuning(cluster: Any, texts: tuple[Any, Any]) -> None:
    pytest.importorskip("optuna")
    plain = sylvan.tune(*texts, max_trials=3, n_jobs=1)
    with sylvan.distributed.ray() as runner:
        spread = sylvan.tune(*texts, max_trials=3, n_jobs=1)
        assert len(runner.phases) > 3
    assert [(trial.members, trial.score) for trial in plain.trials] == [
        (trial.members, trial.score) for trial in spread.trials
    ]
    same_bits(plain.model, spread.model)


def test_what_names_itself_is_counted_once() -> None:
    class Node:
        def __init__(self) -> None:
            self.own, self.kind, self.values = self, Node, np.zeros(10)
            self.again = [self.values, {"self": self}]

    assert array_bytes(Node()) == 80
