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
    "vocabulary and analyser alone. Rows without milliseconds were measured while the machine did other things."
)
NETWORKS = (
    "Annif's nn_ensemble is a network that learns how far to trust its sources, here with Annif's own settings. It "
    "needs documents that its sources weren't trained on, so it has tables of its own, for each of which some of the "
    "documents to train with are kept for it. Vocabulary and test documents stay the same, so that figures can be "
    "compared with those of the set's first table. A network begins with random weights, and each was trained once; "
    "its process has TensorFlow in it."
)
KEPT = "The nn_ensembles are trained on {kept} documents, and everything else in this table on the other {train}."
NAMES = {
    "sylvan": "sylvan", "sylvan-3-trees": "sylvan, `n_trees=3`", "sylvan-both": "sylvan, `model=linear+neighbors`",
    "omikuji-parabel": "omikuji (Parabel)", "omikuji-bonsai": "omikuji (Bonsai)", "tfidf": "tfidf", "mllm": "mllm",
    "fasttext": "fasttext", "ensemble": "ensemble of sylvan and mllm",
    "omikuji-ensemble": "ensemble of omikuji (Bonsai) and mllm",
    "nn-ensemble": "nn_ensemble of omikuji (Bonsai) and mllm", "nn-ensemble-sylvan": "nn_ensemble of sylvan and mllm",
}  # fmt: skip
# The ensembles with MLLM were measured on a part of eurlex57k alone.
ORDER = {
    "gutenberg": "gutenberg", "gutenberg-kept-10": "gutenberg, a tenth kept for nn_ensemble", "eurlex57k": "eurlex57k",
    "eurlex57k-2000": "eurlex57k, 2,000 documents",
    "eurlex57k-2000-kept-10": "eurlex57k, 2,000 documents, a tenth kept for nn_ensemble",
    "eurlex57k-2000-kept-2": "eurlex57k, 2,000 documents, half kept for nn_ensemble",
}  # fmt: skip
RIVALS = ("omikuji-parabel", "omikuji-bonsai")
HEADS = (
    "backend", "nDCG", "F1@5", "P@1", "training s", "again s", "training MB", "model MB", "ms a document",
    "its analysis ms", "MB", "MB of the model",
)  # fmt: skip


def annif_section(folder: Path) -> list[str]:
    """A part for each set; nothing where none was measured."""
    books = {name: found for name in ORDER if (found := _book(folder, name))}
    if not books:
        return []
    lines = ["", "## In Annif", "", WORDS, *(["", NETWORKS] if any("kept" in name for name in books) else [])]
    for name, book in books.items():
        runs = {run["project"]: run for run in book["runs"]}
        rows = [_cells(runs[project], title) for project, title in NAMES.items() if project in runs]
        filled = [at for at in range(len(HEADS)) if any(row[at] for row in rows)]
        lines += ["", f"### Annif {ORDER[name]}", "", f"{markdown.taken(book)} {_versions(book['runs'])}", ""]
        kept = book["runs"][0].get("documents", {})
        if "kept" in kept:
            lines += [KEPT.format(train=f"{kept['train']:,}", kept=f"{kept['kept']:,}"), ""]
        lines += markdown.table([HEADS[at] for at in filled], [[row[at] for at in filled] for row in rows])
        if goals := _goals(runs) if "kept" not in kept else []:
            lines += ["", *goals]
    return lines


def _book(folder: Path, name: str) -> Record | None:
    """What was measured of a set: the rows with times and, of other projects, those without."""
    timed, untimed = (markdown.book(folder / f"annif-{name}{end}.json") for end in ("", "-busy"))
    if timed is None or untimed is None:
        return timed or untimed
    known = {run["project"] for run in timed["runs"]}
    more = [run for run in untimed["runs"] if run["project"] not in known]
    when = f"{timed['date']}, rows without milliseconds {untimed['date']}" if more else timed["date"]
    return {**timed, "date": when, "runs": [*timed["runs"], *more]}


def _cells(run: Record, title: str) -> list[str]:
    trained = [f"{run[key]:,.0f}" if key in run else "" for key in ("train_s", "train_cached_s", "train_peak_mb")]
    quality = [f"{run[key]:.4f}" for key in ("NDCG", "F1@5", "Precision@1")]
    asked = [f"{run[key]:.2f}" if key in run else "" for key in ("document_ms", "analysis_ms")]
    memory = [f"{run['memory_mb']:,.0f}", f"{_own_memory(run):,.0f}"]
    return [title, *quality, *trained, f"{run['model_mb']:,.1f}", *asked, *memory]


def _own_memory(run: Record) -> float:
    return float(run["memory_mb"] - run["memory_without_model_mb"])


def _versions(runs: list[Record]) -> str:
    """Those of all rows, which share what they have in common."""
    versions = {name: version for run in runs for name, version in run["versions"].items()}
    return "; ".join(f"{name} {version}" for name, version in versions.items()) + "."


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
