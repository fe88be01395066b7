"""Two processes that train one XRTransformer, stop once its embeddings are stored, and go on; called with a folder.

What each found goes to ``folder/<process>.json``.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from encoded_texts import LABELS, TEXTS, small
from forked_processes import together  # of tests/neural/loop
from kit.watching import calls_of, stopped

from sylvan import XRLinear
from sylvan.models.transformer import training as transformer_training
from sylvan.runtime import Checkpointed, checkpointed


def fitted(folder: Path | None) -> Any:
    return small(matcher__epochs=1.0).fit(TEXTS, LABELS, checkpoint=folder)


def stop(folder: Path) -> None:
    """A training whose embeddings are stored, and that comes no further."""
    with stopped(XRLinear, "fit", 1):
        fitted(folder)


def resumed(folder: Path) -> dict[str, Any]:
    """Whether the embeddings were made anew, and what the model answers."""
    with pytest.MonkeyPatch.context() as patch:
        made = calls_of(patch, transformer_training, "dense_features")
        model = fitted(folder)
    return {"made": len(made), "scores": model.rank(TEXTS, k=4).scores.tolist()}


def run(process: int, folder: Path) -> dict[str, Any]:
    checkpointed.SECONDS = 0.0  # so that so short a training stores its embeddings
    found: dict[str, Any] = {"whole": fitted(None).rank(TEXTS, k=4).scores.tolist()}
    stop(folder / "stored")
    found["stored"] = resumed(folder / "stored")
    stop(folder / "spoiled")
    if process == 1:  # which sees less than the main one
        stored = Checkpointed.stored
        Checkpointed.stored = lambda runner, jobs: (  # type: ignore[method-assign]
            iter(()) if jobs[0].name == "embeddings" else stored(runner, jobs)
        )
    found["spoiled"] = resumed(folder / "spoiled")
    return found


def main() -> None:
    folder = Path(sys.argv[1])

    def work(process: int) -> None:
        (folder / f"{process}.json").write_text(json.dumps(run(process, folder)))

    print(json.dumps(together(work, seconds=120.0)))


if __name__ == "__main__":
    main()
