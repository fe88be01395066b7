"""The tables of README.md and docs/ are what ``python -m benchmarks.report`` makes of benchmarks/results."""

from __future__ import annotations

from benchmarks import RESULTS, ROOT
from benchmarks.report.__main__ import document, with_table
from benchmarks.report.peers import summary
from benchmarks.report.sampling import output_layer_summary


def test_the_tables_are_generated() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "<!-- results:begin -->" in readme
    assert with_table(readme, summary(RESULTS)) == readme, "README.md is out of date: run python -m benchmarks.report"
    page = (ROOT / "docs" / "sampling.md").read_text("utf-8")
    assert "<!-- output-layer:begin -->" in page
    table = output_layer_summary(RESULTS)
    assert with_table(page, table, "output-layer") == page, "docs/sampling.md: run python -m benchmarks.report"


def test_the_results_are_written() -> None:
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    assert document(RESULTS) == page, "docs/results.md is out of date: run python -m benchmarks.report"
