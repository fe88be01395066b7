"""The section of docs/results/ on Annif's backends, from what ``benchmarks.annif`` measured."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["annif_section"]

WORDS = (
    "By `python -m benchmarks.annif`: Annif's own commands with each backend, all with the same analyser. Training "
    "is `annif train`, with Annif's start and the analysis of the documents, which sylvan divides among processes; "
    "its memory is the process's peak. Training again is `annif train --cached`, which takes what the analysis "
    "left, where a backend can. Quality is that of `annif eval` with ten suggestions a document. Memory and "
    "milliseconds a document are those of a process that has the project open and no other, and is asked for one "
    "document at a time, as a server is; the last column is its memory without what the same process has with "
    "vocabulary and analyser alone."
)
NAMES = {
    "sylvan": "sylvan", "sylvan-3-trees": "sylvan, `n_trees=3`", "sylvan-both": "sylvan, `model=linear+neighbors`",
    "omikuji-parabel": "omikuji (Parabel)", "omikuji-bonsai": "omikuji (Bonsai)", "tfidf": "tfidf", "mllm": "mllm",
    "fasttext": "fasttext", "ensemble": "ensemble of sylvan and mllm",
}  # fmt: skip
# The ensemble with MLLM was measured on a part of eurlex57k alone.
ORDER = {"gutenberg": "gutenberg", "eurlex57k": "eurlex57k", "eurlex57k-2000": "eurlex57k, 2,000 documents"}
RIVALS = ("omikuji-parabel", "omikuji-bonsai")
HEADS = (
    "| backend | nDCG | F1@5 | P@1 | training s | again s | training MB | model MB | ms a document | its analysis ms | "
    "MB | MB of the model |"
)


def annif_section(folder: Path) -> list[str]:
    """A part for each set; nothing where none was measured."""
    books = {name: found for name in ORDER if (found := markdown.book(folder / f"annif-{name}.json"))}
    if not books:
        return []
    lines = ["", "## In Annif", "", WORDS]
    for name, book in books.items():
        runs = {run["project"]: run for run in book["runs"]}
        rows = [_cells(runs[project], title) for project, title in NAMES.items() if project in runs]
        lines += ["", f"### Annif {ORDER[name]}", "", f"{markdown.taken(book)} {_versions(book['runs'])}", ""]
        lines += [*markdown.table(HEADS, rows), "", *_goals(runs)]
    return lines


def _cells(run: Record, title: str) -> list[str]:
    trained = [f"{run[key]:,.0f}" if key in run else "" for key in ("train_s", "train_cached_s", "train_peak_mb")]
    quality = [f"{run[key]:.4f}" for key in ("NDCG", "F1@5", "Precision@1")]
    asked = [f"{run['document_ms']:.2f}", f"{run['analysis_ms']:.2f}", f"{run['memory_mb']:,.0f}"]
    return [title, *quality, *trained, f"{run['model_mb']:,.1f}", *asked, f"{_own_memory(run):,.0f}"]


def _own_memory(run: Record) -> float:
    return float(run["memory_mb"] - run["memory_without_model_mb"])


def _versions(runs: list[Record]) -> str:
    """Those of the first row, which all rows of a file share."""
    return "; ".join(f"{name} {version}" for name, version in runs[0]["versions"].items()) + "."


def _goals(runs: dict[str, Record]) -> list[str]:
    """Sylvan's default beside the better one of omikuji's in each figure."""
    own, rivals = runs.get("sylvan"), [runs[name] for name in RIVALS if name in runs]
    if own is None or not rivals:
        return []
    lines = []
    for key, title in (("NDCG", "nDCG"), ("F1@5", "F1@5")):
        best = max(run[key] for run in rivals)
        lines.append(f"- {title}: {own[key]:.4f} beside {best:.4f}; goal above: {_word(own[key] > best)}.")
    for key, title, goal in (("train_s", "Training", 0.2), ("train_cached_s", "Training with `--cached`", 0.2)):
        if all(key in run for run in (own, *rivals)):
            share = own[key] / min(run[key] for run in rivals)
            lines.append(f"- {title} takes {share:.2f} of omikuji's time; goal {goal}: {_word(share <= goal)}.")
    share = own["memory_mb"] / min(run["memory_mb"] for run in rivals)
    model = _own_memory(own) / min(map(_own_memory, rivals))
    lines.append(
        f"- The process takes {share:.2f} of omikuji's memory, and its model {model:.2f}; goal 0.5: "
        f"{_word(share <= 0.5)}, and {_word(model <= 0.5)}."
    )
    return lines


def _word(met: bool) -> str:
    return "met" if met else "not met"
