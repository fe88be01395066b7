"""What benchmarks.irli plans, computes, and makes of finished rows."""

from typing import Any

import numpy as np
import pytest

from benchmarks.irli import neural_lsh, ours, plan, points, sets


def point(recall: float, candidates: float, **more: Any) -> dict[str, Any]:
    return {"recall": recall, "candidates": candidates, "scoring": 256.0, **more}


def test_candidates_at_a_recall_lie_between_the_settings_around_it() -> None:
    found = [point(0.85, 100.0), point(0.95, 300.0), point(0.9, 400.0), point(0.99, 900.0)]
    assert points.at_recall(found)["candidates"] == pytest.approx(200.0)
    assert points.at_recall(found, 0.5)["candidates"] == 100.0
    assert points.at_recall(found, 0.995) is None
    assert [one["candidates"] for one in points.frontier(found)] == [100.0, 300.0, 900.0]


def test_compressed_codes_count_as_work() -> None:
    few, many = point(0.95, 10.0, codes=2000.0, work=510.0), point(0.95, 50.0, codes=100.0, work=75.0)
    assert points.at_recall([few, many]) is many


def test_places_of_neighbours_and_the_exact_ones() -> None:
    rng = np.random.default_rng(0)
    base, queries = rng.normal(size=(500, 8)).astype(np.float32), rng.normal(size=(20, 8)).astype(np.float32)
    naive = np.argsort(np.linalg.norm(queries[:, None] - base, axis=2), axis=1)[:, :10]
    found = sets.exact(base, queries, 10, "euclidean")
    assert (found == naive).all()
    assert sets.recall(found[:, ::-1], naive) == 1.0 and sets.recall(found[:, :5], naive) == 0.5


def test_a_row_is_found_again_only_by_the_same_settings() -> None:
    for part in plan.PLANS:
        rows = plan.planned(part)
        assert rows and all(sum(plan.same(one, other) for other in rows) == 1 for one in rows)
        assert all(set(one) <= {*plan.KEYS, "seed"} for one in rows)


@pytest.mark.parametrize(("copied", "alike"), [(False, 1.0), (True, 20.0)])
def test_repetitions_that_open_the_same_others_are_alike(copied: bool, alike: float) -> None:
    """Each opens a twentieth of all others, at random; where one is like another, so often as chance says times 20."""
    rng, n_queries, n_vectors, n_repetitions = np.random.default_rng(0), 20, 20_000, 8
    one = rng.random((n_queries, n_vectors, 1 if copied else n_repetitions)) < 1 / 20
    votes = np.broadcast_to(one, (n_queries, n_vectors, n_repetitions)).sum(axis=2)
    votes[:, : sets.K] = 6  # of the true neighbours, which don't count
    at_least = np.array([(votes >= max(least, 1)).sum() / n_queries for least in range(n_repetitions + 1)])
    places = ours.Places({}, votes[:, : sets.K], (votes > 0).sum(axis=1), at_least, 0.0)
    found = ours.shared_by(places, n_vectors)
    assert found["neighbour_votes"] == 6 and found["recall_of_all"] == 1
    assert found["alike"] == pytest.approx(alike, rel=0.03)


def test_neural_lsh_learns_the_share_of_neighbours_in_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(neural_lsh, "EPOCHS", 20)
    rng = np.random.default_rng(0)
    sides = rng.integers(2, size=600)
    base = (rng.normal(size=(600, 4)) + 8 * sides[:, None]).astype(np.float32)
    parts = (2 * sides).astype(np.int32)  # the second and the fourth have no vector
    neighbors = np.stack([rng.choice(np.flatnonzero(sides == side), 10) for side in sides])
    neighbors[:, :2] = np.stack([rng.choice(np.flatnonzero(sides != side), 2) for side in sides])
    network = neural_lsh.trained({"n_buckets": 4, "seed": 0}, base, parts, neighbors)
    with torch.inference_mode():
        shares = torch.softmax(network(torch.from_numpy(base)), dim=1).numpy()
    for side in (0, 1):  # its own part and eight of ten neighbours are on its side
        expected = [9 / 11, 0, 2 / 11, 0] if side == 0 else [2 / 11, 0, 9 / 11, 0]
        np.testing.assert_allclose(shares[sides == side].mean(axis=0), expected, atol=0.03)
