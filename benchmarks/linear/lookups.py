"""The data structures for weights of PECOS's Table 1 beside Sylvan's, on the models of the shared sets; JSON out.

``python -m benchmarks.linear.lookups --data DIR --sets eurlex57k,gutenberg,cpv-tenders``; needs a C++ compiler (CXX).

A model with its defaults and weights of 32 bits is searched once for 2,000 test rows. Then each structure scores the
clusters that the search opened in each layer, for one query after the other, on one thread. All but the label-indexed
one have the same entries and differ in how the row of a feature is found; beam and heap aren't part of the time. The
structures take turns; microseconds are of CPU time, medians over the rounds.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.common import datasets, records
from benchmarks.common.process import say
from sylvan import XRLinear
from sylvan.arrays import validate
from sylvan.matching import beam as matching
from sylvan.models.xr.params import layer_words
from sylvan.weights.layer import LayerWeights

STRUCTURES = {
    "blocks of keys": 0, "label-indexed": 1, "feature-indexed": 2, "binary search": 3, "hash table": 4,
    "hash table, prefetched": 5,
}  # fmt: skip
BEAM, QUERIES = 10, 2_000  # clusters a layer, test rows
COMPARED = 1_000_000  # scores of the last layer that must agree
CLOSE = 1e-4


def compiled(folder: str) -> ctypes.CDLL:
    """The structures, compiled with the options of the kernels."""
    native, library = ROOT / "native", Path(folder) / "lookups.so"
    sources = [Path(__file__).with_suffix(".cpp"), native / "linear" / "lookup.cpp", native / "linear" / "adding.cpp"]
    options = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC", f"-I{native}"]
    subprocess.run([os.environ.get("CXX", "c++"), *options, *map(str, sources), "-o", str(library)], check=True)
    made = ctypes.CDLL(str(library))
    made.lookups_layer.restype, made.lookups_run.restype = ctypes.c_void_p, ctypes.c_double
    made.lookups_bytes.restype = ctypes.c_int64
    return made


def address(array: np.ndarray) -> ctypes.c_void_p:
    """Where an array begins."""
    return ctypes.c_void_p(array.ctypes.data)


def native_layer(made: ctypes.CDLL, layer: LayerWeights) -> ctypes.c_void_p:
    """A layer in every structure; it borrows the arrays."""
    assert layer.children is not None and layer.children.dtype == np.uint8 and layer.values.dtype == np.float32
    n_clusters = len(layer.child_offsets) - 1
    sizes = np.array([
        n_clusters, layer.child_offsets[-1], layer.n_features, len(layer.block_starts) // (2 * n_clusters) - 1,
        layer.row_offsets[-1], layer.entry_offsets[-1], np.diff(layer.child_offsets).max(), layer.block_bits,
        layer.keys.dtype == np.uint16,
    ], np.int64)  # fmt: skip
    arrays = (
        sizes, layer.child_offsets, layer.row_offsets, layer.entry_offsets, layer.block_starts, layer.keys,
        layer.lengths, layer.children, layer.values, layer.intercepts,
    )  # fmt: skip
    return ctypes.c_void_p(made.lookups_layer(*map(address, arrays)))


def opened(model: XRLinear, features: validate.Csr) -> list[np.ndarray]:
    """The clusters of each layer that a search opens, (n, beam) of int32, -1 where there are fewer."""
    found, clusters = matching.root_beam(features.shape[0]), []
    for weights, combine in zip(model.layers_, layer_words(model, "combine", model.tree_.depth), strict=True):
        own = np.full((features.shape[0], BEAM), -1, np.int32)
        own[:, : found[0].shape[1]] = found[0]
        clusters.append(own)
        found = matching.next_beam(features, weights, found, BEAM, combine, 1)
    return clusters


def measured(made: ctypes.CDLL, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """A row for each structure: microseconds a query, and bytes beside the entries."""
    X, Y, X_test = datasets.load(folder, "X.trn", "Y.trn", "X.tst")
    model = XRLinear(weight_dtype="float32", calibration=None, n_jobs=1, beam=BEAM).fit(X, Y)
    features = validate.features(X_test[:QUERIES], n_features=X.shape[1])
    clusters = opened(model, features)
    layers = [native_layer(made, layer) for layer in model.layers_]
    handles = (ctypes.c_void_p * len(layers))(*layers)
    own = (ctypes.c_void_p * len(layers))(*[array.ctypes.data for array in clusters])
    indptr, indices, data = (np.ascontiguousarray(a, t) for a, t in (
        (features.indptr, np.int64), (features.indices, np.int32), (features.data, np.float32)))  # fmt: skip
    n, scores, seconds = features.shape[0], {}, {name: [] for name in STRUCTURES}
    for _ in range(rounds + 1):
        for name, number in STRUCTURES.items():
            scores[name] = out = np.zeros(COMPARED, np.float32)
            took = made.lookups_run(
                handles, ctypes.c_int64(len(layers)), number, ctypes.c_int64(n), address(indptr), address(indices),
                address(data), own, ctypes.c_int64(BEAM), address(out), ctypes.c_int64(COMPARED),
            )  # fmt: skip
            seconds[name].append(took)
    n_entries = sum(layer.n_entries for layer in model.layers_)
    rows = []
    for name, number in STRUCTURES.items():
        assert np.abs(scores[name] - scores["feature-indexed"]).max() < CLOSE, f"{name} answers something else"
        n_bytes = sum(made.lookups_bytes(layer, number) for layer in layers)
        each = [1e6 * took / n for took in seconds[name][1:]]
        rows.append({"structure": name, "us": median(each), "raw_us": each, "index_mb": n_bytes / 1e6})
        say(f"{rows[-1]}")
    for layer in layers:
        made.lookups_free(layer)
    about = {"entries": n_entries, "queries": n, "features_a_query": features.nnz / n, "n_features": X.shape[1]}
    return [row | about for row in rows]


def main() -> None:
    """Measures every set."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg,cpv-tenders", threads=None)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = compiled(folder)
        for set_name, prepared in records.prepared(options):
            say(set_name)
            records.write("lookups", set_name, options, runs=measured(made, prepared, options.rounds))


if __name__ == "__main__":
    main()
