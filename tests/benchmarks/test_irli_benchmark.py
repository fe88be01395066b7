"""What benchmarks.irli plans, computes, and makes of finished rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.irli import ablation_tables, ours, plan, points, sets, tables


def point(recall: float, candidates: float, **more: Any) -> dict[str, Any]:
    return {"recall": recall, "candidates": candidates, "scoring": 256.0, **more}


def row(contender: str, points: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    shared = {"set": "title-vectors", "contender": contender, "seed": 0, "queries": 10, "vectors": 25_600}
    build = {"wall_s": 1.0, "cpu_s": 2.0, "peak_mb": 100.0}
    sizes = {"dimensions": 96, "index_mb": 12.0, "vectors_mb": 10.0, "build": build}
    return {**shared, **sizes, "points": points, **more}


def both(recall: float, candidates: float, **more: Any) -> list[dict[str, Any]]:
    """The same point by each order."""
    return [point(recall, candidates, by=by, increments=1000.0, probes=8, **more) for by in
            ("probability", "votes", "min_votes")]  # fmt: skip


def test_candidates_at_a_recall_lie_between_the_settings_around_it() -> None:
    found = [point(0.85, 100.0), point(0.95, 300.0), point(0.9, 400.0), point(0.99, 900.0)]
    assert points.at_recall(found)["candidates"] == pytest.approx(200.0)
    assert points.at_recall(found, 0.5)["candidates"] == 100.0
    assert points.at_recall(found, 0.995) is None
    assert [one["candidates"] for one in points.frontier(found)] == [100.0, 300.0, 900.0]


def test_compressed_codes_count_as_work() -> None:
    few, many = point(0.95, 10.0, codes=2000.0, work=510.0), point(0.95, 50.0, codes=100.0, work=75.0)
    assert points.at_recall([few, many]) is many


def test_goals_compare_with_ivf_and_k_means() -> None:
    runs = [
        row("ivf", [point(0.9, 1000.0, ms=0.1)], n_buckets=256),
        row("ivf", [point(0.9, 1200.0, ms=0.2)], n_buckets=64),
        row("kmeans", both(0.9, 400.0), n_buckets=256, n_repetitions=16),
        row("irli", both(0.9, 300.0, ms=0.25, p50_ms=0.3), n_buckets=256, n_repetitions=16, hidden=128,
            load_deviation=0.5),
    ]  # fmt: skip
    text = "\n".join(tables.section("neighbors", runs))
    assert "| candidates by probability, of IVF's | at most 0.35 | 0.30 | reached |" in text
    assert "| candidates by probability, of R k-means' | below 1 | 0.75 | reached |" in text
    assert "| load deviation, of the mean load | below 1% | 0.50% | reached |" in text
    assert "| milliseconds of a query, of IVF's | at most 3 | 2.5 | reached |" in text
    assert "with 256 buckets it computes 1,256 distances" in text


def test_seeds_are_averaged() -> None:
    runs = [row("ivf", [point(0.9, count)], n_buckets=256, seed=seed) for seed, count in enumerate((100.0, 104.0))]
    assert "| IVF | 256 | 102 ± 3 |" in "\n".join(tables.section("neighbors", runs))


def test_what_a_hundred_million_vectors_take_is_told_from_the_largest_row() -> None:
    parts = {"scoring_ms": 0.1, "counting_ms": 0.2, "ranking_ms": 0.05, "increments": 50_000.0, "candidates": 500.0}
    ours = row("irli", both(0.9, 500.0, level=0.9, ms=0.4), base=10**6, n_buckets=1024, n_repetitions=16, hidden=128,
               parts=parts, repartition={"affinity_s": 60.0, "placing_s": 4.0})  # fmt: skip
    text = "\n".join(tables.section("scaling", [ours]))
    assert "| 1,000,000 | 1,024 | IRLI (R = 16, hidden 128) |" in text
    assert "Each machine has 12,500,000 vectors" in text and "| vectors | 4.8 GB |" in text


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


def test_peers_that_do_not_tell_their_candidates_have_their_times() -> None:
    timed = [{"breadth": 10, "recall": 0.8, "ms": 0.03, "scoring": 0.0},
             {"breadth": 16, "recall": 0.92, "ms": 0.05, "p50_ms": 0.06, "scoring": 0.0}]  # fmt: skip
    runs = [row("hnswlib", timed, links=16), row("ivf-rabitq", [point(0.9, 40.0, codes=1000.0, work=71.0, ms=0.02)],
                                                 n_buckets=256)]  # fmt: skip
    text = "\n".join(tables.section("neighbors", runs))
    assert "| hnswlib (16 links) | – | – | – | – | 0 | 0.050 / 0.060 |" in text
    assert "| IVF-RaBitQ | 256 | 40 (1,000) |" in text
    assert tables.main_figure(runs[0]) == "at recall 0.9: candidates –; built in 1.0 s"


def test_a_random_map_has_the_load_deviation_of_the_table() -> None:
    drawn = np.random.default_rng(0).integers(256, size=(8, 25_600))
    deviation = np.mean([np.bincount(row, minlength=256).std() for row in drawn])
    assert ablation_tables.drawn_deviation(25_600, 256) == pytest.approx(deviation, rel=0.05)
    assert round(ablation_tables.drawn_deviation(100_000, 256), 1) == 19.7


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


def test_why_later_rounds_are_worse_is_said_from_the_figures() -> None:
    rounds = [
        {"number": number, "points": both(0.9, count), "in_four": four, "moved": 0.5, "load_deviation": 0.5,
         "recall_of_all": 0.99, "neighbour_votes": votes, "alike": alike}
        for number, count, four, votes, alike in ((1, 300.0, 100.0, 8.0, 1.5), (2, 400.0, 200.0, 10.0, 3.0))
    ]  # fmt: skip
    run = row("irli-rounds", [], watched=rounds)
    same = dict.fromkeys(ablation_tables.ABLATED, 2)
    shared = {"load_deviation": 0.5, "largest_bucket": 101, "neighbour_votes": 9.0, "alike": 2.0}
    other = row("irli", both(0.9, 300.0), **{**same, "n_buckets": 256}, **shared)
    text = "\n".join(ablation_tables.section([other, run]))
    assert "after round 1. From there to round 2 a true neighbour gains 25% in votes" in text
    assert "the same other vector 2.0 times as often" in text and "from 100 to 200" in text
    run["watched"] = rounds[:1]
    assert "fewest candidates are needed" not in "\n".join(ablation_tables.section([other, run]))


def test_an_index_without_settings_stands_beside_brute_force_and_ivf() -> None:
    asked = {"ms": 0.5, "p50_ms": 0.6, "p99_ms": 0.9}
    runs = [
        row("numpy", [point(1.0, 25_600.0, **asked)]),
        row("ivf", [point(0.8, 500.0, ms=0.01), point(0.93, 900.0, **{**asked, "ms": 0.02})], n_buckets=256),
        row("irli-defaults", [point(0.91, 120.0, **asked)], threads=1, planned_s=70.2),
    ]
    text = "\n".join(tables.section("defaults", runs))
    assert "| brute force, NumPy | 1.000 | 25,600 | 0.500 | 0.600 / 0.900 | 1.0 | 2.0 | – | 100 |" in text
    assert "| IVF, 256 lists | 0.930 | 900 | 0.020 |" in text
    assert "| IRLIIndex(), built by one thread | 0.910 | 120 |" in text and "| 70 | 100 |" in text
    assert tables.main_figure(runs[2]) == "recall 0.910 in 0.500 ms; built in 1.0 s"
