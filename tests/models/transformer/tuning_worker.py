"""Two processes that fine-tune one small BERT; ``test_tuning_processes`` starts them. Called with a folder.

What each found goes to ``folder/<process>.npz``.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from kit.watching import stopped

from sylvan import LabelTree
from sylvan.arrays import validate
from sylvan.models.transformer.fine_tuning import FineTuning
from sylvan.models.transformer.layer_job import LayerJob
from sylvan.models.transformer.presets import TransformerMatcher
from sylvan.neural import Engine, embed, open_encoder
from sylvan.runtime import Checkpoint, opened_runner

WORDS = ("whale", "sea", "bread", "oven", "law", "court", "star", "moon")
TEXTS = [f"{WORDS[i % 8]} {WORDS[(i * 3 + 1) % 8]} common" for i in range(45)]
LABELS = [[i % 8] + ([(i * 3 + 1) % 8] if i % 3 == 0 else []) for i in range(45)]
TREE = LabelTree((np.array([0, 2]), np.array([0, 2, 4]), np.array([0, 2, 4, 6, 8])), np.arange(8), 8)
# 41 rows are learned from: a batch of each epoch has one row, and candidates are found anew there as everywhere.
SETTINGS = TransformerMatcher(
    learning_rate=1e-3, label_learning_rate=0.02, epochs=2, batch_size=8, beam=1, refresh=1, holdout=4, evaluations=1
)
STEPS = 12  # a layer


def training(bert: Path, engine: Engine | None, checkpoint: Path | None = None) -> dict[str, np.ndarray]:
    """Vectors of nodes and texts, losses, steps made, and how often was searched anew."""
    encoder, looked, steps = open_encoder(bert, max_length=16), 0, 0
    begin = embed(encoder, TEXTS, normalize=True)
    prepare = LayerJob.prepare

    def counted(self: LayerJob, step: int) -> None:
        nonlocal looked, steps
        before = self.looked
        prepare(self, step)
        steps += 1
        looked += self.looked != before

    LayerJob.prepare = counted  # type: ignore[method-assign]
    try:
        rows, labels = encoder.tokenize(TEXTS), validate.labels(LABELS)
        place = None if checkpoint is None else Checkpoint(checkpoint)
        with opened_runner(1, checkpoint=place, writes=engine is None or engine.is_main) as runner:
            matcher = FineTuning(encoder, rows, labels, TREE, range(3), SETTINGS, engine=engine, runner=runner).run()
    finally:
        LayerJob.prepare = prepare  # type: ignore[method-assign]
    found = {f"table{layer.layer}": layer.table for layer in matcher.layers}
    losses = [entry["loss"] for record in matcher.history() for entry in record["history"]["epochs"] if entry["step"]]
    vectors = embed(encoder, TEXTS, normalize=True)
    return {
        **found, "losses": np.array(losses), "begin": begin, "vectors": vectors, "looked": np.array(looked),
        "steps": np.array(steps), "best": np.array([record["history"]["best"]["step"] for record in matcher.history()]),
    }  # fmt: skip


def run(folder: Path) -> dict[str, Any]:
    bert, engine = folder / "bert", Engine(device="cpu", timeout=60.0)
    assert engine.n_processes == 2
    found = {f"whole.{name}": value for name, value in training(bert, engine).items()}
    for at in (STEPS + 2, 2 * STEPS + 9):  # a layer is done, and no epoch of the next; within the last layer
        with stopped(LayerJob, "prepare", at + 1):  # before a step, counted over all layers
            training(bert, engine, folder / f"stopped{at}")
        resumed = training(bert, engine, folder / f"stopped{at}")
        found.update({f"stopped{at}.{name}": value for name, value in resumed.items()})
    return found


def main() -> None:
    from forked_processes import together  # of tests/neural/loop

    folder = Path(sys.argv[1])

    def work(process: int) -> None:
        np.savez(folder / f"{process}.npz", **run(folder))

    print(json.dumps(together(work, imports=["transformers"])))


if __name__ == "__main__":
    main()
