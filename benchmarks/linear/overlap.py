"""Whether labels in several clusters pay: chosen by cosine, chosen by the matcher, and a second tree; JSON out.

``python -m benchmarks.linear.overlap --data DIR --sets eurlex57k,gutenberg``

Texts by the default vectoriser, whose time doesn't count; each row is a process of its own on one thread, everything
else at its default, without calibration. The same command again does what is missing; ``--name`` and ``--seeds``
select. ``learned_overlap.py`` has the algorithm.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import datasets, measure, process, records

Settings = dict[str, Any]
# What a row is called, parameters of XRLinear, and those of learned overlap where it is that. Overlapping clusters of
# up to 100 are built with fewer labels, as XRLinear(overlap=2) does; of up to 200, 300, they are as many as without
# overlap, as in the paper.
ROWS: dict[str, tuple[Settings, Settings | None]] = {
    "no overlap": ({}, None),
    "no overlap, clusters of 200": ({"max_leaf": 200}, None),
    "geometric, 2 clusters": ({"overlap": 2}, None),
    "geometric, 3 clusters": ({"overlap": 3}, None),
    "geometric, 2 clusters of 200": ({"overlap": 2, "max_leaf": 200}, None),
    "learned, 2 clusters": ({"max_leaf": 50}, {"overlap": 2, "max_leaf": 100}),
    "learned, 2 clusters, all layers again": ({"max_leaf": 50}, {"overlap": 2, "max_leaf": 100, "again": "all"}),
    "learned, 2 clusters, by scores": ({"max_leaf": 50}, {"overlap": 2, "max_leaf": 100, "scored": True}),
    "learned, 3 clusters": ({"max_leaf": 33}, {"overlap": 3, "max_leaf": 100}),
    "learned, 3 clusters, all layers again": ({"max_leaf": 33}, {"overlap": 3, "max_leaf": 100, "again": "all"}),
    "learned, 2 clusters of 200": ({}, {"overlap": 2, "max_leaf": 200}),
    "learned, 2 clusters of 200, all layers again": ({}, {"overlap": 2, "max_leaf": 200, "again": "all"}),
    "learned, 2 clusters of 200, by scores, all layers again": (
        {}, {"overlap": 2, "max_leaf": 200, "scored": True, "again": "all"},
    ),
    "learned, 2 clusters of 200, homes left": ({}, {"overlap": 2, "max_leaf": 200, "keeps_home": False}),
    "two trees": ({"n_trees": 2}, None),
}  # fmt: skip
BEAMS = (5, 10)


def prepared(source: Path, target: Path) -> Path:
    """A folder with the set's texts as the default vectoriser makes them, and its labels."""
    from sylvan.models.text import usual_vectorizer

    def write(folder: Path) -> None:
        (texts, labels), (test_texts, test_labels) = (
            datasets.read_jsonl(source / f"{part}.jsonl.xz") for part in ("train", "test")
        )
        ids = {label: at for at, label in enumerate(sorted({label for row in labels for label in row}))}
        Y, Y_test = datasets.label_matrix(labels, ids), datasets.label_matrix(test_labels, ids)
        known = np.diff(Y_test.indptr) > 0
        vectorizer = usual_vectorizer(n_jobs=1)
        X = vectorizer.fit_transform(texts)
        X_test = vectorizer.transform([text for text, keep in zip(test_texts, known, strict=True) if keep])
        datasets.save(folder, {"X.trn": X, "Y.trn": Y, "X.tst": X_test, "Y.tst": Y_test[known]})

    return datasets.made_once(target, [f"{part}.npz" for part in datasets.NAMES], write)


def found_by_matcher(model: Any, X: sp.csr_matrix, Y: sp.csr_matrix, beam: int) -> float:
    """Percent of the true labels that stand in a cluster which the search reaches, in any of the model's trees."""
    from sylvan.arrays import validate
    from sylvan.matching.beam import next_beam, root_beam
    from sylvan.models.xr.params import layer_words

    features = validate.features(X)
    reached: Any = 0 * Y
    for ranker in model.rankers_:
        tree, found = ranker.tree, root_beam(X.shape[0])
        for weights, combine in zip(ranker.layers[:-1], layer_words(model, "combine", tree.depth), strict=False):
            found = next_beam(features, weights, found, beam, combine)
        nodes = found[0]
        rows, places = np.nonzero(nodes >= 0)
        ones, clusters = np.ones(len(rows), np.float32), (rows, nodes[rows, places])
        matched = sp.csr_matrix((ones, clusters), (X.shape[0], len(tree.cluster_sizes)))
        reached = reached + Y.multiply(matched @ tree.to_matrices()[-1].T)
    return 100 * int((reached > 0).sum()) / Y.nnz


def one(job: dict[str, Any]) -> dict[str, float]:
    """Trains and ranks with one setting, in this process."""
    from benchmarks.linear.learned_overlap import fit_overlapping
    from sylvan import XRLinear

    folder = Path(job["set"])
    X, Y, X_test, Y_test = datasets.load(folder, *datasets.NAMES)
    model = XRLinear(**job["settings"], seed=job["seed"], calibration=None, n_jobs=1)
    before = measure.resident()
    with measure.Training() as training:
        if job["learned"] is None:
            model.fit(X, Y)
        else:
            fit_overlapping(model, X, Y, **job["learned"])
    spent, top = measure.batch(lambda: model.rank(X_test, 10), X_test.shape[0])
    model.save(Path(job["scratch"]) / "model")
    tree = model.tree_
    return {
        "train_cpu_s": training.cpu, "train_mb": training.peak - before,
        "model_mb": measure.folder_bytes(Path(job["scratch"]) / "model") / 1e6, "rank_cpu_ms": spent["cpu_ms_per_row"],
        "leaves_per_label": tree.n_leaves / tree.n_labels, "n_clusters": len(tree.cluster_sizes),
        "largest_cluster": int(tree.cluster_sizes.max()), **measure.precision(top.labels, Y_test, Y),
        **{f"matched@{beam}": found_by_matcher(model, X_test, Y_test, beam) for beam in BEAMS},
    }  # fmt: skip


def main() -> None:
    """Measures what is missing."""
    if process.served(one):
        return
    parser = records.command_line(__doc__, "eurlex57k,gutenberg", threads=None)
    parser.add_argument("--name", action="append", help="only this row; may be repeated")
    parser.add_argument("--seeds", default="0,1,2")
    options = parser.parse_args()
    for set_name in options.sets.split(","):
        folder = prepared(Path(options.data) / set_name, Path(options.cache) / f"{set_name}-default-vectorizer")
        runs = records.Book(Path(options.results) / f"overlap-{set_name}.json").runs
        for seed in map(int, options.seeds.split(",")):
            for name in options.name or ROWS:
                row = {"name": name, "seed": seed}
                if any(row.items() <= run.items() for run in runs):
                    continue
                settings, learned = ROWS[name]
                job = {"set": str(folder), "settings": settings, "learned": learned, "seed": seed}
                figures = process.run(sys.executable, "benchmarks.linear.overlap", job)
                process.say(f"{set_name} {row}: {figures}")
                if "error" not in figures:
                    runs.append({**row, "settings": settings, "learned": learned, **figures})
                    records.write("overlap", set_name, options, runs=runs)


if __name__ == "__main__":
    main()
