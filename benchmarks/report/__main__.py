"""Writes the pages of docs/results/, the table in docs/sampling.md and figures, from the JSON files in results/.

``python -m benchmarks.report [--results DIR] [--out docs/results]``
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import RESULTS, ROOT
from benchmarks.beam_tree.tables import beam_tree_section
from benchmarks.irli.tables import irli_section
from benchmarks.report.alternatives import alternatives_sections
from benchmarks.report.annif import annif_section
from benchmarks.report.cluster import cluster_section
from benchmarks.report.lexical import lexical_section
from benchmarks.report.linear import linear_sections
from benchmarks.report.more_peers import more_peers_sections
from benchmarks.report.mutation import mutation_section
from benchmarks.report.overlap import overlap_sections
from benchmarks.report.pages import pages
from benchmarks.report.peers import peers_sections, summary
from benchmarks.report.presets import draw_presets
from benchmarks.report.sampling import (
    codewords_section,
    output_layer_section,
    output_layer_summary,
    peaked_section,
    variance_section,
)
from benchmarks.report.scale import scale_section
from benchmarks.report.serving import serving_section
from benchmarks.report.simulation import draw_simulation, simulation_section
from benchmarks.report.wheels import wheels_section
from benchmarks.sampling.cane_tables import cane_section
from benchmarks.sampling.tables import sampling_section
from benchmarks.transformers.tables import transformers_section

INTRO = (
    "What Sylvan's models reach beside other libraries and beside each other. `python -m benchmarks.report` writes "
    "these pages from the files in `benchmarks/results/`, which contain every raw value; `benchmarks/README.md` says "
    "how each figure is measured. All libraries use branching 16, leaves of up to 100 labels, beam 10 and one tree, on "
    "the same features. Sylvan has its defaults, its preset `fast` teacher-forcing negatives (TFN) as the others have, "
    "its preset `accurate` three trees. It isn't calibrated there, as the others aren't: [that takes time as "
    "well](#probabilities-and-stopping-rules). A figure is the median of "
    "as many repeats as its page says, or of one that run's."
)
SECTIONS = (
    peers_sections, more_peers_sections, linear_sections, alternatives_sections, overlap_sections, scale_section,
    transformers_section, irli_section, sampling_section, codewords_section, peaked_section, variance_section,
    beam_tree_section, cane_section, output_layer_section, serving_section, annif_section, lexical_section,
    cluster_section, simulation_section, wheels_section, mutation_section,
)  # fmt: skip


def documents(folder: Path) -> dict[str, str]:
    """The pages of docs/results/ by their names."""
    lines = [line for section in SECTIONS for line in section(folder)]
    return pages(lines, INTRO, summary(folder))


def with_table(text: str, table: str, name: str) -> str:
    """A document with the table between its markers."""
    begin, end = f"<!-- {name}:begin -->\n", f"\n<!-- {name}:end -->"
    head, _, rest = text.partition(begin)
    _, found, tail = rest.partition(end)
    return f"{head}{begin}{table}{end}{tail}" if found else text


def main() -> None:
    """Writes the documents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--sampling", type=Path, default=ROOT / "docs" / "sampling.md")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in documents(options.results).items():
        (options.out / f"{name}.md").write_text(text, encoding="utf-8")
    draw_presets(options.results, options.out.parent / "figures" / "presets")
    draw_simulation(options.results, options.out.parent / "figures" / "cluster_simulation")
    if options.sampling.exists():
        page = with_table(options.sampling.read_text("utf-8"), output_layer_summary(options.results), "output-layer")
        options.sampling.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
