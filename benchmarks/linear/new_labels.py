"""New labels, learned from ten rows each with the model's own rows and without any, beside training anew; JSON out.

``python -m benchmarks.linear.new_labels --data DIR --sets eurlex57k,gutenberg``. A tenth of the labels are hidden. Of
each, up to ten rows come later; other rows that have a hidden label are left out, so that none lacks a label that it
has. The labels come all at once, and then a hundred of them one after the other, each in an update of its own.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from benchmarks.common import measure, records
from benchmarks.common.hidden_labels import Hidden
from sylvan import XRLinear
from sylvan.models.xr import added_labels

ALONE = 100


def measured(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One set's figures."""
    came, settings = Hidden(folder, options.seed), {"n_jobs": options.threads}
    with measure.Clock() as clock:
        kept = XRLinear(keep_rows=True, **settings).fit(*came.first())
    first_s = clock.cpu
    plain = XRLinear(**settings).fit(*came.first())
    n_hidden = came.Y_new.shape[1] - came.n_known
    parts = {"at once": [(0, n_hidden)], "one by one": [(at, at + 1) for at in range(min(ALONE, n_hidden))]}
    figures: dict[str, Any] = {}
    for name, ranges in parts.items():
        last = ranges[-1][1]
        ways = {"before": (came.judged(plain, last), 0.0)}
        for way, model in (("without rows", plain), ("without stand-ins", plain), ("rows kept", kept)):
            ways[way] = _updated(way, copy.copy(model), came, ranges)
        with measure.Clock() as clock:
            anew = XRLinear(**settings).fit(*_all(came, last))
        ways["trained anew"] = (came.judged(anew, last), clock.cpu)
        figures[name] = {way: {**judged, "cpu_s": spent} for way, (judged, spent) in ways.items()}
        print(name, figures[name], flush=True)
    sizes = {"first_rows": came.X.shape[0], "new_rows": came.X_new.shape[0], "known": came.n_known, "new": n_hidden}
    return {"seed": options.seed, **sizes, "alone": len(parts["one by one"]), "first_cpu_s": first_s, "parts": figures}


def _updated(way: str, model: Any, came: Hidden, ranges: list[tuple[int, int]]) -> tuple[dict[str, Any], float]:
    """What a model gives when labels come in these updates, and the seconds of all of them."""
    nothing = np.zeros(0, np.int64)
    beside = (lambda *_: nothing) if way == "without stand-ins" else added_labels.leaves_beside
    with patch.object(added_labels, "leaves_beside", beside), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with measure.Clock() as clock:
            for begin, end in ranges:
                model.update(*came.new(begin, end))
    return came.judged(model, ranges[-1][1]), clock.cpu


def _all(came: Hidden, n_new: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """The first rows and those of the first hidden labels."""
    X, Y = came.new(0, n_new)
    return sp.vstack([came.X, X]).tocsr(), sp.vstack([came.Y[:, : came.n_known + n_new], Y]).tocsr()


def main() -> None:
    """Runs what the command line asks for."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, folder in records.prepared(options):
        records.write("new-labels", name, options, **measured(folder, options))


if __name__ == "__main__":
    main()
