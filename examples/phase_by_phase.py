"""Index, match, rank: the three phases one by one, over sparse matrices.

Run it with ``python examples/phase_by_phase.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sylvan import LabelTree, XRLinear, indexing, metrics

# A thousand labels in a hundred topics. A row is about one topic, has one to three of its labels, and features
# that tell the topic and the labels apart, under a good deal of noise.
rng = np.random.default_rng(0)
n_rows, n_labels, n_features = 6_000, 1_000, 3_000
topics = rng.integers(0, 100, n_rows)
rows, columns, labels = [], [], []
for row, topic in enumerate(topics):
    chosen = topic * 10 + rng.choice(10, size=rng.integers(1, 4), replace=False)
    labels.append(chosen.tolist())
    features = np.concatenate([2_000 + topic * 10 + rng.integers(0, 10, 4), chosen, rng.integers(1_000, 2_000, 8)])
    columns.extend(features.tolist())
    rows.extend([row] * len(features))
X = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(n_rows, n_features))
X_train, X_test, Y_train, Y_test = X[:5_000], X[5_000:], labels[:5_000], labels[5_000:]
Y = sp.csr_matrix(
    (np.ones(sum(map(len, Y_train))), ([i for i, row in enumerate(Y_train) for _ in row], np.concatenate(Y_train))),
    shape=(5_000, n_labels),
)

# 1. Indexing: labels whose inputs are alike come into one cluster.
tree = LabelTree.build(indexing.pifa(X_train, Y), branching=16, max_leaf=20, seed=0)
print(tree)

# 2 and 3. Matching and ranking: a linear model a node; the beam is how many clusters a query follows.
model = XRLinear(tree=tree).fit(X_train, Y)
for beam in (1, 10):
    top = model.rank(X_test, k=3, beam=beam)
    values = metrics.precision(Y_test, top, at=(1, 3))
    print(f"beam {beam:2}: P@1 {100 * values[1]:.1f}  P@3 {100 * values[3]:.1f}")
