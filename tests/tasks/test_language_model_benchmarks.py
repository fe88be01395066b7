"""What the benchmarks of language models do beside training: runs are shared out, tables have their optimiser."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sylvan.neural import LSTMEncoder

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(
    not FOLDER.exists() or os.name == "nt", reason="no benchmarks beside these tests, or no POSIX system"
)


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def beside_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))  # where their parts lie


def test_a_run_is_free_again_when_its_process_was_killed(tmp_path: Path) -> None:
    cane, lock = load("cane"), tmp_path / "run.lock"
    code = (
        f"import sys, time; sys.path.insert(0, {str(FOLDER)!r}); import cane; from pathlib import Path\n"
        f"with cane.claimed(Path({str(lock)!r})) as free: print(free, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        with cane.claimed(lock) as free:
            assert not free
        other.kill()
        other.wait()
    with cane.claimed(lock) as free:
        assert free


def test_adagrad_trains_the_words_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, list[Any]] = {}
    for name in ("Adam", "Adagrad"):
        kind = getattr(torch.optim, name)

        def make(parameters: Any, name: str = name, kind: Any = kind, **more: Any) -> Any:
            given[name] = list(parameters)
            return kind(given[name], **more)

        monkeypatch.setattr(torch.optim, name, make)
    encoder, table = LSTMEncoder(30, 6, 5), torch.nn.Parameter(torch.randn(30, 5))
    load("codeword_learning").train(encoder, table, torch.arange(30).repeat(40), steps=1)
    assert [id(one) for one in given["Adagrad"]] == [id(encoder.inputs.weight), id(table)]
    assert len(given["Adam"]) == len(list(encoder.parameters())) - 1
