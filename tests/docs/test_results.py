"""The numbers in README.md and docs/sampling.md are those of benchmarks/results, as report.py writes them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "benchmarks" / "report.py"


@pytest.mark.skipif(not REPORT.exists(), reason="no benchmarks beside these tests")
def test_the_tables_are_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPORT.parent))  # where its parts lie
    spec = importlib.util.spec_from_file_location("benchmark_report", REPORT)
    assert spec is not None and spec.loader is not None
    report = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = report  # its dataclasses look themselves up
    try:
        spec.loader.exec_module(report)
        readme = (ROOT / "README.md").read_text("utf-8")
        table = report.summary(ROOT / "benchmarks" / "results")
        assert "<!-- results:begin -->" in readme
        assert report.with_summary(readme, table) == readme, "README.md is out of date: run benchmarks/report.py"
        page = (ROOT / "docs" / "sampling.md").read_text("utf-8")
        table = report.sampling_tables(ROOT / "benchmarks" / "results")
        assert "<!-- output-layer:begin -->" in page
        assert report.with_summary(page, table, "output-layer") == page, "docs/sampling.md: run benchmarks/report.py"
    finally:
        del sys.modules[spec.name]


@pytest.mark.skipif(not REPORT.exists(), reason="no benchmarks beside these tests")
def test_every_contender_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPORT.parent))
    contenders, figures = (importlib.import_module(name) for name in ("sampling_contenders", "sampling_figures"))
    planned = {name for plan in contenders.PLANS.values() for name in plan["contenders"]}
    assert planned <= set(contenders.CONTENDERS) and set(contenders.CONTENDERS) == set(figures.COLOURS)
