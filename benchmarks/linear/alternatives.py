"""Each choice of XRLinear beside its alternatives, one at a time, on the shared sets; JSON out.

``python -m benchmarks.linear.alternatives --data DIR --sets eurlex57k,gutenberg,cpv-tenders``

The choices are PECOS's: how labels are embedded and clustered, overlap, negatives, losses, how scores are combined, and
relevances. Each row is a process of its own on one thread with everything else at its default, without calibration;
the same command again does what is missing. ``--groups embedding,loss``, ``--name PII`` and ``--seeds 0`` select.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import datasets, measure, process, records
from benchmarks.linear import label_names

Settings = dict[str, Any]
DEFAULT = "default"
NAMED = ("eurlex57k", "gutenberg")  # sets whose labels have names of words
BY_COUNT = 5.0  # instances with which a label's own features count as much as theirs
# Of each group: what a row is called, and what it changes. "relevance" and "alpha" are words that the worker reads.
GROUPS: dict[str, dict[str, Settings]] = {
    DEFAULT: {DEFAULT: {}},
    "embedding": {
        "PII": {"embedding": "pii"},
        "PIFA+LF": {"embedding": "pifa_lf"},
        "PIFA+LF, alpha by count": {"embedding": "pifa_lf", "alpha": "count"},
        "spectral, 64 dimensions": {"embedding": "spectral"},
        "spectral, 256 dimensions": {"embedding": "spectral", "spectral_dimensions": 256},
        "none: random clusters": {"clustering": "random"},
    },
    "features a label": {
        "16": {"max_features_per_label": 16},
        "64": {"max_features_per_label": 64},
        "256": {"max_features_per_label": 256},
        "4,096": {"max_features_per_label": 4096},
        "all": {"max_features_per_label": None},
    },
    "clustering": {"k-means": {"clustering": "kmeans"}},
    "overlap": {"2 clusters": {"overlap": 2}, "3 clusters": {"overlap": 3}},
    "negatives": {"tfn": {"negatives": "tfn"}, "man": {"negatives": "man"}, "tfn+man": {"negatives": "tfn+man"}},
    "loss": {
        "hinge": {"loss": "hinge"},
        "logistic": {"loss": "logistic"},
        "logistic, sigmoid": {"loss": "logistic", "combine": "sigmoid"},
    },
    "combine": {
        "product, hinge^1": {"combine": "l1_hinge"},
        "product, hinge^2": {"combine": "l2_hinge"},
        "product, hinge^3": {"combine": "l3_hinge"},
        "product, hinge^4": {"combine": "l4_hinge"},
        "product, sigmoid": {"combine": "sigmoid"},
        "ranker alone in the last layer": {"combine": "paper"},
        "ranker alone in all layers": {"combine": "ranker"},
    },
    "relevance": {
        "labels of a row share its cost": {"relevance": "row"},
        "inverse propensity": {"relevance": "propensity"},
    },
}


def relevances(Y: sp.csr_matrix, word: str | None) -> sp.csr_matrix:
    """Y with relevances whose mean is 1: the same within a row, or the larger the rarer a label is."""
    if word is None:
        return Y
    sizes = np.diff(Y.indptr)
    weights = 1 / np.repeat(sizes, sizes) if word == "row" else measure.propensities(Y)[Y.indices]
    return sp.csr_matrix(((weights / weights.mean()).astype(np.float32), Y.indices, Y.indptr), shape=Y.shape)


def one(job: dict[str, Any]) -> dict[str, float]:
    """Trains and ranks with one setting, in this process."""
    from sylvan import XRLinear

    folder, settings = Path(job["set"]), dict(job["settings"])
    X, Y = datasets.load(folder, "X.trn", "Y.trn")
    Y = relevances(Y, settings.pop("relevance", None))
    about = {}
    if settings.get("embedding") == "pifa_lf":
        about["label_features"] = sp.csr_matrix(sp.load_npz(job["names"]))
    if settings.get("alpha") == "count":
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        settings["alpha"] = counts / (counts + BY_COUNT)
    model = XRLinear(**settings, seed=job["seed"], calibration=None, n_jobs=1)
    before = measure.resident()
    with measure.Training() as indexing:
        (tree,) = model.index(X, Y, **about)
    with measure.Training() as training:
        XRLinear.fit(model.set_params(tree=tree), X, Y)
    X_test, Y_test = datasets.load(folder, "X.tst", "Y.tst")
    spent, top = measure.batch(lambda: model.rank(X_test, 10), X_test.shape[0], 1)
    model.save(Path(job["scratch"]) / "model")
    return {
        "index_cpu_s": indexing.cpu, "index_mb": indexing.peak - before, "train_cpu_s": training.cpu,
        "train_mb": training.peak - before, "model_mb": measure.folder_bytes(Path(job["scratch"]) / "model") / 1e6,
        "rank_cpu_ms": spent["cpu_ms_per_row"], **measure.precision(top.labels, Y_test, Y),
        **measure.recall(top.labels, Y_test),
    }  # fmt: skip


def main() -> None:
    """Measures what is missing."""
    if process.served(one):
        return
    parser = records.command_line(__doc__, "eurlex57k,gutenberg,cpv-tenders", threads=None)
    parser.add_argument("--groups", default=",".join(GROUPS), help="only these, separated by commas")
    parser.add_argument("--name", action="append", help="only this row and the default; may be repeated")
    parser.add_argument("--seeds", default="0,1,2")
    options = parser.parse_args()
    groups = [DEFAULT, *(name for name in options.groups.split(",") if name != DEFAULT)]
    rows = [(group, name, settings) for group in groups for name, settings in GROUPS[group].items()]
    rows = [row for row in rows if options.name is None or row[1] in (DEFAULT, *options.name)]
    rows.sort(key=lambda row: row[2].get("embedding") == "spectral")  # the slow ones last
    for set_name, folder in records.prepared(options):
        runs = records.Book(Path(options.results) / f"alternatives-{set_name}.json").runs
        named = set_name in NAMED and any(settings.get("embedding") == "pifa_lf" for _, _, settings in rows)
        names = label_names.features(set_name, Path(options.data), folder) if named else None
        for seed in map(int, options.seeds.split(",")):
            for group, name, settings in rows:
                row = {"group": group, "name": name, "seed": seed}
                known = any(row.items() <= run.items() for run in runs)
                if known or (settings.get("embedding") == "pifa_lf" and not named):
                    continue
                job = {"set": str(folder), "names": str(names), "settings": settings, "seed": seed}
                figures = process.run(sys.executable, "benchmarks.linear.alternatives", job)
                process.say(f"{set_name} {row}: {figures}")
                if "error" not in figures:
                    runs.append({**row, "settings": settings, **figures})
                    records.write("alternatives", set_name, options, runs=runs)


if __name__ == "__main__":
    main()
