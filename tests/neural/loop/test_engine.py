"""Devices, precisions, accumulated gradients and schedules; what runs out of memory says so."""

import importlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jobs import PER_EPOCH, Points, Rows, last_bits, weights
from kit.errors import raises
from kit.watching import stopped
from torch import Tensor, nn

from sylvan.errors import MemoryLimitError, ModelError, ParameterError
from sylvan.neural import Engine, WarmupSchedule, load_tree, train


def parameters(job: Points) -> list[Tensor]:
    return [tensor.clone() for tensor in job.module.state_dict().values()]


def test_an_engine_of_one_process_changes_no_bit() -> None:
    plain, engined = Points(), Points()
    a = train(plain, epochs=3, clip_norm=1.0)
    b = train(engined, epochs=3, clip_norm=1.0, engine=Engine(device="cpu"))
    assert weights(plain) == weights(engined)
    assert [{**e, "seconds": 0} for e in a.epochs] == [{**e, "seconds": 0} for e in b.epochs]


@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_four_batches_of_eight_are_one_of_32(clip_norm: float | None) -> None:
    """Slow reference: the same rows in one batch. 120 rows: the last step has 24, that is 3 batches of 8."""
    whole, parts = Rows([32, 32, 32, 24]), Rows([8] * 15)
    a = train(whole, epochs=3, clip_norm=clip_norm, engine=Engine(device="cpu"))
    b = train(parts, epochs=3, clip_norm=clip_norm, engine=Engine(device="cpu", accumulate=4))
    assert parts.steps[:9] == [0, 0, 0, 0, 1, 1, 1, 1, 2] and [e["step"] for e in b.epochs] == [4, 8, 12]
    for one, other in zip(parameters(whole), parameters(parts), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert [e["loss"] for e in a.epochs] != pytest.approx([0, 0, 0], abs=0.1)
    without = Rows([8] * 15)
    train(without, epochs=3, clip_norm=clip_norm)
    assert any(float((x - y).abs().max()) > 0.01 for x, y in zip(parameters(whole), parameters(without), strict=True))


@pytest.mark.parametrize("fail_at", [6, 7, 8, 18])
def test_interrupted_within_an_accumulation_it_goes_on_to_the_same_bits(fail_at: int, tmp_path: Path) -> None:
    engine = Engine(device="cpu", accumulate=4)
    train(Points(), epochs=3, folder=tmp_path / "whole", engine=engine)
    with stopped(Points, "step", fail_at):
        train(Points(), epochs=3, folder=tmp_path / "parts", checkpoint_every=0, engine=engine)
    again = Points()
    history = train(again, epochs=3, folder=tmp_path / "parts", resume=True, engine=engine)
    assert again.steps[0] == (fail_at - 1) // 4 and len(again.steps) == 3 * PER_EPOCH - 4 * again.steps[0]
    assert last_bits(tmp_path / "whole") == last_bits(tmp_path / "parts")
    assert history.epochs[-1]["step"] == 3 * PER_EPOCH // 4


def test_limits_count_steps_of_the_optimisers(tmp_path: Path) -> None:
    engine = Engine(device="cpu", accumulate=5)  # 12 batches: steps of 5, 5 and 2
    job = Points()
    history = train(job, epochs=9, max_steps=4, evaluate_every=2, folder=tmp_path, engine=engine)
    assert history.stopped == "steps" and [e["step"] for e in history.epochs] == [2, 4]
    assert len(job.steps) == 12 + 5


def test_another_engine_is_another_training(tmp_path: Path) -> None:
    train(Points(), epochs=1, folder=tmp_path, engine=Engine(device="cpu", accumulate=2))
    with raises(ModelError, "accumulate", 2, 3):
        train(Points(), epochs=2, folder=tmp_path, resume=True, engine=Engine(device="cpu", accumulate=3))
    with raises(ModelError, "precision", "no", "bf16"):
        engine = Engine(device="cpu", accumulate=2, precision="bf16")
        train(Points(), epochs=2, folder=tmp_path, resume=True, engine=engine)


def test_bf16_on_the_cpu() -> None:
    seen = []
    job = Points()
    job.module.out.register_forward_hook(lambda module, given, out: seen.append(out.dtype))
    history = train(job, epochs=4, engine=Engine(device="cpu", precision="bf16"))
    assert torch.bfloat16 in seen and all(tensor.dtype == torch.float32 for tensor in parameters(job))
    assert history.best is not None and history.best["accuracy"] > 0.35


def scaled() -> Engine:
    """What float16 does on a GPU, on the CPU: powers of two, so that scaling and unscaling change no bit."""
    engine = Engine(device="cpu")
    engine._scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
    return engine


def test_a_scaled_loss_changes_nothing_but_what_overflows(tmp_path: Path) -> None:
    plain, other = Points(), Points()
    train(plain, epochs=2, clip_norm=1.0)
    train(other, epochs=2, clip_norm=1.0, engine=scaled())
    assert weights(plain) == weights(other)

    def spoilt() -> Points:
        job = Points()
        job.schedulers = WarmupSchedule(steps=20).schedulers(job.optimizers)
        job.module.out.weight.register_hook(lambda grad: grad * float("inf") if job.steps[-1] == 3 else grad)
        return job

    job, engine = spoilt(), scaled()
    train(job, epochs=9, max_steps=3, engine=engine)
    before = [tensor.tolist() for tensor in parameters(job)[1:]]  # those of the optimiser whose gradient overflows
    job, engine = spoilt(), scaled()
    train(job, epochs=9, max_steps=4, folder=tmp_path, engine=engine)
    assert before == [tensor.tolist() for tensor in parameters(job)[1:]] and engine.state()["scaler"]["scale"] == 512.0
    assert job.schedulers[0].last_epoch == 3
    again = scaled()
    train(spoilt(), epochs=9, max_steps=6, folder=tmp_path, resume=True, engine=again)
    assert again.state()["scaler"]["scale"] == 512.0
    assert load_tree(tmp_path / "checkpoint", kind="neural-checkpoint")["schedulers"][0]["last_epoch"] == 5


def test_schedulers_step_with_the_optimisers_and_resume(tmp_path: Path) -> None:
    def scheduled(rates: list[float] | None = None) -> Points:
        job = Points()
        job.schedulers = WarmupSchedule(steps=3 * PER_EPOCH, warmup=0.25).schedulers(job.optimizers)
        if rates is not None:
            step = job.step
            job.step = lambda b, at: (rates.append(job.optimizers[0].param_groups[0]["lr"]), step(b, at))[1]  # type: ignore[method-assign]
        return job

    rates: list[float] = []
    train(scheduled(rates), epochs=3, folder=tmp_path / "whole")
    schedule = WarmupSchedule(steps=3 * PER_EPOCH, warmup=0.25)
    assert rates == pytest.approx([0.02 * schedule.factor(step) for step in range(3 * PER_EPOCH)])
    assert rates.index(max(rates)) == 8 and rates[-1] < 0.001
    train(scheduled(), epochs=3, folder=tmp_path / "parts", max_steps=PER_EPOCH + 5)
    rest: list[float] = []
    train(scheduled(rest), epochs=3, folder=tmp_path / "parts", resume=True)
    assert rest == rates[PER_EPOCH + 5 :]
    assert last_bits(tmp_path / "whole") == last_bits(tmp_path / "parts")


def test_the_shape_of_a_schedule() -> None:
    assert [WarmupSchedule(4, 0.0, 0.5).factor(step) for step in range(6)] == [1, 0.875, 0.75, 0.625, 0.5, 0.5]
    assert WarmupSchedule(1, 0.0).factor(0) == 1
    assert [WarmupSchedule(2, 1.0).factor(step) for step in range(4)] == [0.5, 1.0, 0.0, 0.0]


def test_batches_go_to_the_device_whatever_they_are_in() -> None:
    engine = Engine(device="cpu")
    x = torch.arange(3)
    rows = np.arange(3)
    found = engine.batch({"a": x, "b": [x, (x, "text")], "c": rows})
    assert torch.equal(found["b"][1][0], x) and found["b"][1][1] == "text" and found["c"] is rows
    assert engine.share(rows) is rows and engine.gather(x) is x and engine.agree(3) == 3 and engine.everyone(3) == [3]
    assert (engine.n_processes, engine.process, engine.is_main) == (1, 0, True)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1099511627776 bytes."),
        MemoryError(),
    ],
)
@pytest.mark.parametrize("engine", [None, Engine(device="cpu")])
def test_out_of_memory_says_what_to_lower(error: Exception, engine: Engine | None) -> None:
    job = Points()

    def step(batch: Tensor, at: int) -> Tensor:
        raise error

    job.step = step  # type: ignore[method-assign]
    with raises(MemoryLimitError, "batch_size", "max_length") as caught:
        train(job, epochs=1, engine=engine)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_the_allocator_itself_refuses() -> None:
    job = Points()
    job.step = lambda batch, at: torch.empty(2**58)  # type: ignore[method-assign]
    with raises(MemoryLimitError, "alloc_cpu.cpp"):
        train(job, epochs=1)


def test_other_errors_stay_what_they_are() -> None:
    job = Points()
    job.step = lambda batch, at: torch.ones(2) @ torch.ones(3)  # type: ignore[method-assign]
    with raises(RuntimeError, "size"):
        train(job, epochs=1)


@pytest.mark.parametrize(
    ("given", "piece"),
    [
        ({"device": "gpu"}, ("auto", "cpu", "'cuda'", "gpu")),
        ({"device": 3.5}, "3.5"),
        ({"device": "meta"}, "meta"),
        ({"device": "cuda:99"}, ("cuda:99", "PyTorch", "CUDA")),
        ({"device": "cpu", "precision": "fp16"}, ("fp16", "CUDA", "cpu")),
    ],
)
def test_engines_that_there_are_not(given: dict[str, Any], piece: object) -> None:
    with raises(ParameterError, piece):
        Engine(**given)


def test_every_process_has_the_main_one_s_values(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, module = Engine(device="cpu"), nn.Linear(2, 3)
    module.weight = nn.Parameter(torch.zeros(2, 3).t())  # which is no array of one piece
    monkeypatch.setattr(engine, "n_processes", 2)
    monkeypatch.setattr(engine, "_with_others", nullcontext)
    monkeypatch.setattr("torch.distributed.broadcast", lambda tensor, src, group: tensor.fill_(7))
    engine.place(module)
    assert all((parameter == 7).all() for parameter in module.parameters())


def test_an_optimiser_without_any_gradient_rests() -> None:
    first, second = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    engine = scaled()
    engine.backward(first.sum(), 1.0)
    assert engine.update([torch.optim.SGD([each], lr=0.5) for each in (first, second)])
    assert first.tolist() == [0.5, 0.5] and second.tolist() == [1, 1]


def test_without_accelerate_several_processes_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name.startswith("accelerate"):
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with raises(ParameterError, "launched", 2):
        Engine(device="cpu")
    monkeypatch.delenv("LOCAL_RANK")
    assert Engine(device="cpu").n_processes == 1  # no launcher's variables
