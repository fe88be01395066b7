"""The engine without a server: a text in, JSON out, one at a time; the limit of what a server can do."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from benchmarks.common import process


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Ranks the texts in turn for so many seconds."""
    import numpy as np

    import sylvan
    from benchmarks.serving.sets import TOP, read_lines

    model = sylvan.load(job["model"])
    texts = [row["text"] for row in read_lines(Path(job["texts"]) / "test.jsonl")]

    def answer(text: str) -> bytes:
        found = model.rank([text], TOP)
        names, scores = found.names[0], found.scores[0].tolist()
        return json.dumps({"results": [{"labels": names, "scores": scores[: len(names)]}]}).encode()

    for text in texts[:200]:
        answer(text)
    spent: list[int] = []
    begun, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - begun < job["seconds"]:
        text = texts[len(spent) % len(texts)]
        start = time.perf_counter_ns()
        answer(text)
        spent.append(time.perf_counter_ns() - start)
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    p50, p99, p999 = (float(np.percentile(spent, share)) / 1e6 for share in (50, 99, 99.9))
    return {
        "requests": len(spent), "requests_s": len(spent) / wall, "cpu_ms": 1e3 * cpu / len(spent), "p50_ms": p50,
        "p99_ms": p99, "p99.9_ms": p999,
    }  # fmt: skip


def answers(job: dict[str, Any]) -> dict[str, Any]:
    """The names of the best labels of the first texts."""
    import sylvan
    from benchmarks.serving.sets import TOP, read_lines

    rows = read_lines(Path(job["texts"]) / "test.jsonl")[: job["answers"]]
    return {"names": sylvan.load(job["model"]).rank([row["text"] for row in rows], TOP).names}


if __name__ == "__main__":
    process.serve(lambda job: answers(job) if "answers" in job else work(job))
