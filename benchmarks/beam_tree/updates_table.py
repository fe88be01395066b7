"""The table of classes that come to a trained BeamTreeClassifier."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common import markdown

__all__ = ["updates_section"]

INTRO = (
    "By `python -m benchmarks.beam_tree.updates`: a `BeamTreeClassifier` with its defaults of a random 60% of the "
    "classes is updated with the others, by their rows alone, with as many rows of known classes beside, or with all "
    "rows. Percent of the test rows that are right: of all, of those of known classes, and of the new ones. Mean ± "
    "standard deviation over seeds; one thread."
)


def updates_section(folder: Path) -> list[str]:
    """What ``updates.py`` measured."""
    found = markdown.book(folder / "beam_tree_updates.json")
    if found is None:
        return []
    runs, rows = found["runs"], []
    for name in dict.fromkeys(run["set"] for run in runs):
        own = [run["ways"] for run in runs if run["set"] == name]
        for way in own[0]:
            shares = [markdown.mean([run[way][part] for run in own]) for part in ("all", "known", "new")]
            rows.append([name, way, *shares, markdown.mean([run[way]["cpu_s"] for run in own])])
    heads = ["set", "model", "right", "known classes", "new classes", "CPU-s"]
    return ["", "### Classes that come later", "", INTRO, "", *markdown.table(heads, rows), "", markdown.taken(found)]
