"""A process of Annif's that has a project open, as a server has it: its memory, and what of it is there before the
model is; the time of a document.

``python asked.py PROJECT DOCUMENTS N`` asks for the subjects of the first N documents, one at a time.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Writes one line of JSON."""
    import annif
    import annif.registry
    from annif.corpus import Document

    name, documents, n = sys.argv[1:]
    with open(documents, encoding="utf-8") as lines:
        texts = [line.partition("\t")[0] for line in itertools.islice(lines, int(n))]
    app = annif.create_flask_app()
    app.config["INITIALIZE_PROJECTS"] = False
    with app.app_context():
        project = annif.registry.get_project(name)
        project.analyzer.tokenize_words(texts[0])
        len(project.subjects)  # opens the vocabulary
        before = _resident()
        project.initialize()
        project.suggest([Document(text=texts[0])])
        figures: dict[str, Any] = {}
        analysed = _milliseconds(lambda text: project.analyzer.tokenize_words(text), texts)
        figures["document_ms"] = _milliseconds(lambda text: project.suggest([Document(text=text)]), texts)
        figures["analysis_ms"] = analysed
        figures["memory_mb"], figures["memory_without_model_mb"] = _resident(), before
    print(json.dumps(figures))


def _milliseconds(ask: Any, texts: list[str]) -> float:
    """The median time of a text."""
    times = []
    for text in texts:
        began = time.perf_counter()
        ask(text)
        times.append(time.perf_counter() - began)
    return round(1000 * statistics.median(times), 3)


def _resident() -> float:
    """Memory of this process in MB, its share of what it has in common with others included."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        return next(round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
