"""Imported models beside the libraries they are from: the same answers, how fast, how large.

``python -m benchmarks.linear.importers --data DATA --sets gutenberg --python PEER_PYTHON`` trains a model of each
library (with the settings of ``contenders.py``), lets the library rank the test rows, imports the model and ranks them
again; writes ``results/importers-SET.json``. Beams are those of the library, so that a difference is one of the search
or of rounding, and not of what was asked. Runs one process of the peer at a time.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import measure, process, records
from benchmarks.linear import contenders
from benchmarks.linear.file_contenders import CONTENDERS

PEERS = ("libpecos", "omikuji", "napkinxc")
TOP, N_SINGLE = contenders.TOP, 500
CLOSE = 1e-4  # scores that differ by less may stand in either order


def scored(answer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels and scores (n, 10) of a library's answer, a CSR matrix or rows of pairs; -1 and 0 where there are none."""
    if sp.issparse(answer):
        labels = measure.top_labels(answer, TOP)
        columns = np.maximum(labels, 0)
        scores = np.asarray(answer.tocsr()[np.arange(len(labels))[:, None], columns].todense(), np.float64)
        return labels, np.where(labels >= 0, scores, 0)
    labels, scores = np.full((len(answer), TOP), -1), np.zeros((len(answer), TOP))
    for at, pairs in enumerate(answer):
        best = sorted(pairs, key=lambda pair: -pair[1])[:TOP]
        labels[at, : len(best)] = [int(label) for label, _ in best]
        scores[at, : len(best)] = [score for _, score in best]
    return labels, scores


def run_peer(job: dict[str, Any]) -> dict[str, Any]:
    """In the peer's interpreter: train unless the model is there, rank, write the answers; times."""
    contender = CONTENDERS[job["library"]]()
    contender.load_imports()
    folder, model = Path(job["set"]), Path(job["model"])
    if not model.exists():
        contender.prepare(folder, Path(job["scratch"]))
        contender.train_measured(job["threads"])
        contender.save(model)
    contender.open(model, 1)
    X = contenders.read(folder, "X.tst")
    queries = contender.queries(X)
    times, answer = measure.batch(lambda: contender.rank_all(queries), X.shape[0], 1)
    times |= measure.one_by_one(contender.rank_one, contender.rows(X[:N_SINGLE]))
    labels, scores = scored(answer)
    np.savez(job["answers"], labels=labels, scores=scores)
    return {"version": contender.version(), **times}


def compare(library: str, own: dict[str, Any], job: dict[str, Any], folder: Path, scratch: Path) -> dict[str, Any]:
    """The figures of one library: its own, those of the imported model, and how far apart the answers are."""
    import sylvan
    from sylvan.importers import import_model

    X, Y, Y_train = (contenders.read(folder, name) for name in ("X.tst", "Y.tst", "Y.trn"))
    with np.load(job["answers"]) as found:
        theirs, their_scores = found["labels"], found["scores"]
    # The beams that contenders.py asks for.
    options = {"beam": contenders.BEAM} if library == "napkinxc" else {}
    figures: dict[str, Any] = {
        "version": own.pop("version"),
        "theirs": own | measure.precision(theirs, Y, Y_train),
        "their_mb": measure.folder_bytes(Path(job["model"])) / 1e6,
    }
    rows = [X[at] for at in range(min(N_SINGLE, X.shape[0]))]
    for dtype in ("float32", "uint8"):
        start = time.perf_counter()
        model = import_model(job["model"], library, weight_dtype=dtype, **options)
        spent = time.perf_counter() - start
        model.save(scratch / library / dtype)
        model = sylvan.load(scratch / library / dtype)
        model.n_jobs = 1
        times, top = measure.batch(lambda ranker=model: ranker.rank(X, TOP), X.shape[0], 1)
        times |= measure.one_by_one(lambda row, ranker=model: ranker.rank(row, TOP), rows)
        labels = np.asarray(top.labels, np.int64)
        figures[dtype] = {
            "import_s": spent,
            "model_mb": measure.folder_bytes(scratch / library / dtype) / 1e6,
            **times,
            **measure.precision(labels, Y, Y_train),
            **agreement(labels, top.scores, theirs, their_scores),
        }
    return figures


def agreement(labels: np.ndarray, scores: np.ndarray, theirs: np.ndarray, their_scores: np.ndarray) -> dict[str, float]:
    """Shares of equal answers among the first five, and the largest difference of a label's score."""
    same = labels[:, :5] == theirs[:, :5]
    close = same | (np.abs(scores[:, :5] - their_scores[:, :5]) < CLOSE)
    shared, apart = [], []
    for mine, values, others, their_values in zip(labels, scores, theirs, their_scores, strict=True):
        shared.append(len(set(mine[:5].tolist()) & set(others[:5].tolist())) / 5)
        known = dict(zip(others.tolist(), their_values.tolist(), strict=True))
        pairs = zip(mine.tolist(), values.tolist(), strict=True)
        apart += [abs(known[label] - value) for label, value in pairs if label >= 0 and label in known]
    return {
        "first_equal": float((labels[:, 0] == theirs[:, 0]).mean()),
        "rows_equal": float(same.all(axis=1).mean()),
        "rows_equal_or_tied": float(close.all(axis=1).mean()),
        "labels_shared": float(np.mean(shared)),
        "scores_apart_median": float(np.median(apart)),
        "scores_apart_most": float(np.max(apart)),
    }


def main() -> None:
    """Measures every set with every library that an interpreter has."""
    if process.served(run_peer):
        return
    parser = records.command_line(__doc__, "gutenberg,eurlex57k")
    parser.add_argument("--libraries", default=",".join(PEERS))
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has the libraries")
    parser.add_argument("--models", help="keep the libraries' models here, and use those that are there")
    options = parser.parse_args()
    for name, folder in records.prepared(options):
        with tempfile.TemporaryDirectory() as scratch:
            models = Path(options.models or scratch) / name
            models.mkdir(parents=True, exist_ok=True)
            found: dict[str, Any] = {}
            for library in options.libraries.split(","):
                job = {
                    "library": library, "set": str(folder), "model": str(models / library), "threads": options.threads,
                    "answers": str(Path(scratch) / f"{library}.npz"),
                }  # fmt: skip
                own = process.run(options.python, "benchmarks.linear.importers", job, threads=options.threads)
                if "error" in own:
                    found[library] = {"missing": own["error"]}
                else:
                    found[library] = compare(library, own, job, folder, Path(scratch))
                print(library, json.dumps(found[library], indent=1))
            about = {"python": sys.version.split()[0], "beam": contenders.BEAM}
            records.write("importers", name, options, **about, libraries=found)


if __name__ == "__main__":
    main()
