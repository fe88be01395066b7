"""Overlap chosen by a matcher: equal to the reference implementation, within its limits, the same for all threads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import overlap_reference

from benchmarks.common import datasets
from benchmarks.linear import learned_overlap, overlap
from benchmarks.report import overlap as tables
from sylvan import XRLinear

N_LABELS = 450


def drawn(random: np.random.Generator, n_rows: int, n_columns: int, density: float) -> sp.csr_matrix:
    values = random.random((n_rows, n_columns)) < density
    return sp.csr_matrix(values.astype(np.float32))


@pytest.fixture(scope="module")
def data() -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Rows whose features say their labels, of which each has rows of two kinds."""
    random = np.random.default_rng(0)
    Y = drawn(random, 900, N_LABELS, 0.008)
    kinds = np.arange(900) % 2
    features = sp.hstack([Y.multiply(kinds[:, None] == kind) for kind in (0, 1)] + [drawn(random, 900, 40, 0.1)])
    return sp.csr_matrix(features, dtype=np.float32), Y


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_labels, n_clusters, n_rows = (draw(st.integers(1, most)) for most in (14, 5, 12))
    overlap_ = draw(st.integers(1, 4))
    home = random.integers(0, n_clusters, n_labels)
    enough = max(int(np.bincount(home).max()), -(-n_labels // n_clusters))
    M = drawn(random, n_rows, n_clusters, draw(st.sampled_from([0.2, 0.6])))
    if draw(st.booleans()):
        M.data[:] = random.choice([0.25, 0.5, 1.0], M.nnz)  # sums of these are exact
    return {
        "Y": drawn(random, n_rows, n_labels, draw(st.sampled_from([0.1, 0.5]))), "M": M, "home": home,
        "overlap": overlap_, "max_leaf": enough + draw(st.integers(0, 6)), "keeps_home": draw(st.booleans()),
    }  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(cases())
def test_the_assignment_equals_the_reference(case: dict[str, Any]) -> None:
    Y, M, limits = case["Y"], case["M"], (case["overlap"], case["max_leaf"], case["keeps_home"])
    sums = learned_overlap.label_sums(Y, M)
    rows = [set(row.indices.tolist()) for row in Y]
    matched = [dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in M]
    expected = overlap_reference.label_sums(rows, matched, Y.shape[1], M.shape[1])
    np.testing.assert_array_equal(sums.toarray(), expected)
    clusters = learned_overlap.assigned(sums, case["home"], *limits)
    assert [set(labels) for labels in clusters] == overlap_reference.assigned(expected, case["home"].tolist(), *limits)


def test_the_share_that_a_matcher_finds(data: tuple[sp.csr_matrix, sp.csr_matrix]) -> None:
    X, Y = data
    model = XRLinear(max_leaf=20, calibration=None, n_jobs=1).fit(X, Y)
    top = model.rank(X, N_LABELS)  # every label of a cluster that is reached has an answer
    found = sum(int(np.isin(row.indices, labels).sum()) for row, labels in zip(Y, top.labels, strict=True))
    assert overlap.found_by_matcher(model, X, Y, model.beam) == pytest.approx(100 * found / Y.nnz)
    assert overlap.found_by_matcher(model, X, Y, 1) < overlap.found_by_matcher(model, X, Y, model.beam)


def test_every_row_is_measured_and_shown(data: tuple[sp.csr_matrix, sp.csr_matrix], tmp_path: Path) -> None:
    """And is another model than all others: whatever its name says is done."""
    X, Y = data
    datasets.save(tmp_path, {"X.trn": X, "Y.trn": Y, "X.tst": X[:200], "Y.tst": Y[:200]})
    runs = []
    for name, (params, learned) in overlap.ROWS.items():
        job = {"set": str(tmp_path), "settings": params, "learned": learned, "seed": 0, "scratch": str(tmp_path)}
        figures = overlap.one(job)
        assert 0 < figures["P@1"] <= 100 and figures["matched@5"] <= figures["matched@10"] <= 100
        most = (params if learned is None else learned).get("max_leaf", 100)
        assert figures["largest_cluster"] <= most
        runs.append({"name": name, "seed": 0, **figures})
    found = [tuple(run[name] for name in ("P@1", "P@5", "matched@5", "largest_cluster", "model_mb")) for run in runs]
    assert len(set(found)) == len(found), found
    lines = tables.overlap_table({"set": "some", "runs": runs})
    assert len(lines) == 2 + len(overlap.ROWS) and all(line.count("|") == lines[0].count("|") for line in lines)
