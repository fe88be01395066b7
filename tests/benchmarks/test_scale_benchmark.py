"""Rows × labels of any size: the set, phases that add up, a training that doesn't fit, rows that replace each other."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common import process, synthetic
from benchmarks.linear import scale
from benchmarks.linear.scale_phases import Phased, Phases
from benchmarks.report.scale import scale_section
from sylvan import XRLinear
from sylvan.runtime import Runner


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small set."""
    folder = tmp_path_factory.mktemp("cache")
    job = {"step": "prepare", "name": "synthetic-900x400", "cache": str(folder)}
    assert process.run(sys.executable, scale.WORKER, job) == {}
    return folder


def test_phases_add_up_and_change_no_bit() -> None:
    matrices = synthetic.generate("synthetic-small")
    X, Y = matrices["X.trn"], matrices["Y.trn"]
    phases = Phases()
    phases.begin("checks")
    model = XRLinear(n_jobs=1).fit(X, Y, runner=Phased(Runner(1), phases))
    phases.end()
    wanted = {"checks", "embeddings", "clustering", "rows", "searching", "solving", "layout"}
    assert wanted <= set(phases.found) <= {*wanted, "other"}
    assert all(phase["cpu_s"] >= 0 and phase["peak_mb"] > 0 for phase in phases.found.values())
    plain = XRLinear(n_jobs=1).fit(X, Y).rank(matrices["X.tst"])
    assert (model.rank(matrices["X.tst"]).scores == plain.scores).all()


def test_a_size_is_measured(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = f"scale --sizes 900x400 --cache {cache} --results {tmp_path} --single 60 --settings"
    for more in ("fast,balanced", "fast --memory-limit 4GB"):
        monkeypatch.setattr(sys, "argv", f"{command} {more}".split())
        scale.main()
    runs = json.loads((tmp_path / "scale.json").read_text())["runs"]
    found = [(run["setting"], run.get("memory_limit")) for run in runs]
    assert found == [("fast", None), ("balanced", None), ("fast", "4GB")]
    assert runs[0]["bits"] == runs[2]["bits"] != runs[1]["bits"]
    for run in runs:
        assert (run["rows"], run["labels"]) == (900, 400) and run["P@1"] > 10 and run["model_mb"] > 0
        trained = sum(phase["cpu_s"] for name, phase in run["phases"].items() if name != "saving")
        assert trained <= run["cpu_s"]
    lines = scale_section(tmp_path)
    assert sum("900 × 400" in line for line in lines) == 6 and sum(runs[0]["bits"] in line for line in lines) == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited by a call of Linux")
def test_what_does_not_fit_is_a_row_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = f"scale --sizes 900x400 --cache {cache} --results {tmp_path} --settings fast,none --memory 0.02"
    monkeypatch.setattr(sys, "argv", command.split())
    monkeypatch.setattr(scale.process, "first_with", lambda *_: None)
    for _ in range(2):
        scale.main()
    runs: list[dict[str, Any]] = json.loads((tmp_path / "scale.json").read_text())["runs"]
    assert len(runs) == 2 and runs[0]["error"] and runs[1]["error"] == "no interpreter can import none"
    assert scale.in_words("exit -6: no backtrace").startswith("ended by signal 6")
    assert scale.in_words("exit 1: no") == "exit 1: no"
    assert sum("not finished within 0.02 GB" in line for line in scale_section(tmp_path)) == 2
    assert [path.name for path in cache.iterdir()] == ["synthetic-900x400"]  # no model is left behind
