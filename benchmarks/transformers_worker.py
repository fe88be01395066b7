"""One row of ``transformers.py`` in a process of its own, by the interpreter that has what it needs.

``python transformers_worker.py '{"step": "row", "row": {...}, "set": "folder", "cache": "folder", "encoder": "folder",
"scratch": "folder", "out": "file.json"}'``; the other step, ``version``, says what the interpreter has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# This folder has a transformers.py and a datasets.py; those that the libraries import are the packages of these names.
sys.path.append(sys.path.pop(0))


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
        import transformers_pecos

        torch.set_num_threads(1)
        return transformers_pecos.measured(job["row"], folder, job)
    import transformers_ours

    if job["row"]["contender"] != "xr-linear":
        import torch

        torch.set_num_threads(1)
    if "seeds" in job["row"]:
        return transformers_ours.joined(job["row"], folder, job)
    return transformers_ours.measured(job["row"], folder, job)


def main() -> None:
    """Does the job of the command line."""
    job = json.loads(sys.argv[1])
    step = {"version": version, "row": row}[job["step"]]
    Path(job["out"]).write_text(json.dumps(step(job)))


if __name__ == "__main__":
    main()
