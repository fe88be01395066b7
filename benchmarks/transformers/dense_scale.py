r"""How long an encoder's vectors should be beside TF-IDF's, whose length is 1: XRTransformer's ``dense_scale``.

On the bundled sample, whose test rows aren't used: a part of the training rows is the holdout, drawn with another seed
each time. The encoder is trained once a seed, or not at all with ``--frozen``; the scale changes only the rankers.

    python -m benchmarks.transformers.dense_scale --seeds 5 --json benchmarks/results/dense_scale-tiny.json
    python -m benchmarks.transformers.dense_scale --encoder models/minilm --preset base --frozen --tokens 32 \
        --json scales.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import records
from sylvan import XRLinear, XRTransformer, data, metrics

SCALES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5)  # 0 is TF-IDF alone
AT = (1, 3, 5)


def measured(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """P@k in percent on rows that were held out, by scale."""
    n_rows, n_holdout = options.rows, options.holdout
    train = data.load_sample()[0]
    rows = np.random.default_rng(seed).permutation(len(train.texts))
    holdout, learned = rows[:n_holdout], rows[n_holdout : n_holdout + n_rows]
    texts, labels = ([part[row] for row in learned] for part in (train.texts, train.labels))
    settings = {"frozen": options.frozen, "max_length": options.tokens, "device": "cpu", "n_jobs": options.threads}
    model = XRTransformer(options.encoder, preset=options.preset, seed=seed, **settings).fit(texts, labels)
    asked = [train.texts[row] for row in holdout]
    truth = model.vocabulary_.encode([train.labels[row] for row in holdout], unknown="ignore")
    terms = [model.vectorizer_.transform(some) for some in (texts, asked)]
    vectors = [model.embed(some) for some in (texts, asked)]
    Y = model.vocabulary_.encode(labels)
    given = {name: value for name, value in model.ranker_.get_params(deep=False).items() if name != "tree"}
    found = {}
    for scale in SCALES:
        X, Z = (
            sp.hstack([t, sp.csr_matrix(v * np.float32(scale))]).tocsr() if scale else t
            for t, v in zip(terms, vectors, strict=True)
        )
        ranker = XRLinear(**given, tree=model.tree_).fit(X, Y)
        precision = metrics.precision(truth, ranker.rank(Z, k=max(AT)), at=AT)
        found[str(scale)] = {f"P@{k}": round(100 * float(precision[k]), 2) for k in AT}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", help="a folder; by default the preset's")
    parser.add_argument("--name", help="what the encoder is called in the figures; by default its folder's name")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--frozen", action="store_true", help="leave the encoder as it is")
    parser.add_argument("--tokens", type=int, help="of a text; by default the preset's")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=15_332, help="training rows to learn from")
    parser.add_argument("--holdout", type=int, default=2_000, help="training rows to measure on")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", help="a file for the figures of every seed")
    options = parser.parse_args()
    runs = []
    for seed in range(options.seeds):
        runs.append(measured(options, seed))
        for scale, found in runs[-1].items():
            print(f"seed {seed}  dense_scale {scale:>4}  {found}", flush=True)
    for scale in map(str, SCALES):
        mean = {f"P@{k}": round(float(np.mean([run[scale][f"P@{k}"] for run in runs])), 2) for k in AT}
        print(f"mean    dense_scale {scale:>4}  {mean}")
    if options.json:
        names = ("preset", "frozen", "tokens", "rows", "holdout")
        about = records.about() | {name: getattr(options, name) for name in names}
        about["encoder"] = None if options.encoder is None else options.name or Path(options.encoder).resolve().name
        records.save(Path(options.json), {**about, "runs": runs})


if __name__ == "__main__":
    main()
