"""One row in a process of its own, by the interpreter that has what it needs.

The job: ``{"step": "row", "row": {...}, "set": FOLDER, "cache": FOLDER, "encoder": FOLDER}``; the other step,
``version``, says what the interpreter has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common import process


def version(job: dict[str, Any]) -> dict[str, Any]:
    """What the interpreter has."""
    if job["row"]["contender"].startswith("libpecos"):
        from pecos.xmc.xtransformer.model import XTransformer  # which is what needs versions of others

        return {"class": XTransformer.__name__}
    import sylvan

    return {"version": sylvan.__version__}


def row(job: dict[str, Any]) -> dict[str, Any]:
    """Trains and asks."""
    folder = Path(job["set"])
    if job["row"]["contender"].startswith("libpecos"):
        import torch

        from benchmarks.transformers import pecos

        torch.set_num_threads(1)
        return pecos.measured(job["row"], folder, job)
    from benchmarks.transformers import ours

    if job["row"]["contender"] != "xr-linear":
        import torch

        torch.set_num_threads(1)
    if "seeds" in job["row"]:
        return ours.joined(job["row"], folder, job)
    return ours.measured(job["row"], folder, job)


STEPS = {"version": version, "row": row}

if __name__ == "__main__":
    process.serve(lambda job: STEPS[job["step"]](job))
