"""The tables of docs/ are what ``python -m benchmarks.report`` makes of benchmarks/results."""

from __future__ import annotations

from benchmarks import RESULTS, ROOT
from benchmarks.report.__main__ import documents, with_table
from benchmarks.report.sampling import output_layer_summary

PAGES = ROOT / "docs" / "results"


def test_the_tables_are_generated() -> None:
    page = (ROOT / "docs" / "sampling.md").read_text("utf-8")
    assert "<!-- output-layer:begin -->" in page
    table = output_layer_summary(RESULTS)
    assert with_table(page, table, "output-layer") == page, "docs/sampling.md: run python -m benchmarks.report"


def test_the_results_are_written() -> None:
    made = documents(RESULTS)
    assert {path.stem for path in PAGES.glob("*.md")} == made.keys(), "docs/results: run python -m benchmarks.report"
    for name, text in made.items():
        page = (PAGES / f"{name}.md").read_text("utf-8")
        assert text == page, f"docs/results/{name}.md is out of date: run python -m benchmarks.report"
