"""The native solver and the reference's: at a tight tolerance both stand at the same minimum; the latter by hand."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import linear_reference as reference
from sylvan.arrays import validate
from sylvan.ranking.linear import Folds, LayerProblem, LinearOptions, block_jobs, squared_norms
from sylvan.runtime import Runner
from sylvan.weights.layer import ClusterRows

LOSSES = ["squared_hinge", "hinge", "logistic"]


def layer_problem(
    positive: np.ndarray, offsets: np.ndarray, rows: list[list[int]], relevance: np.ndarray | None = None
) -> LayerProblem:
    values = positive if relevance is None else positive * relevance
    starts = np.concatenate(([0], np.cumsum([len(r) for r in rows]))).astype(np.int64)
    flat = np.array([row for r in rows for row in r], np.int32)
    return LayerProblem(offsets.astype(np.int64), validate.labels(values), starts, flat, weighted=relevance is not None)


def dense_answer(
    X: np.ndarray, problem: LayerProblem, options: LinearOptions, **more: object
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (d, nodes) and intercepts (nodes,) that the fast solver finds."""
    return with_changes(X, problem, options, (), **more)[0]


def with_changes(
    X: np.ndarray, problem: LayerProblem, options: LinearOptions, held_out: Sequence[list[int]], **more: object
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The same, and (n, nodes) what the scores of held-out rows change by without their fold."""
    folds = Folds.of([np.array(rows, np.int32) for rows in held_out], len(X))
    n_jobs = int(more.pop("n_jobs", 1))  # type: ignore[call-overload]
    features = validate.features(X)
    jobs = block_jobs(features, squared_norms(features), problem, 0, options, folds=folds, **more)  # type: ignore[arg-type]
    blocks = Runner(n_jobs).run(jobs)
    changes = np.zeros((len(X), int(problem.child_offsets[-1])))
    for block in blocks:
        changed_rows, changed_nodes, added = block.changes()
        assert not changes[changed_rows, changed_nodes].any()  # each once
        changes[changed_rows, changed_nodes] = added
    return dense(X, problem, [rows for block in blocks for rows in block]), changes


def dense(X: np.ndarray, problem: LayerProblem, solutions: Sequence[ClusterRows]) -> tuple[np.ndarray, np.ndarray]:
    n_nodes = int(problem.child_offsets[-1])
    W, b = np.zeros((X.shape[1], n_nodes)), np.zeros(n_nodes)
    for cluster, solution in enumerate(solutions):
        first = int(problem.child_offsets[cluster])
        assert (np.diff(solution.features) > 0).all()
        rows = np.repeat(solution.features, solution.lengths)
        W[rows, solution.children + first] = solution.weights
        b[first : int(problem.child_offsets[cluster + 1])] = solution.intercepts
    return W, b


@st.composite
def problems(draw: st.DrawFn) -> dict[str, object]:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d = draw(st.integers(1, 14)), draw(st.integers(1, 9))
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 5, 9, 17]), min_size=1, max_size=4))
    X = random.normal(size=(n, d)) * (random.random((n, d)) < draw(st.sampled_from([0.3, 0.7, 1.0])))
    X = np.float32(X).astype(np.float64)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    positive = (random.random((n, offsets[-1])) < draw(st.sampled_from([0.1, 0.4, 0.9]))).astype(float)
    rows = [sorted(np.flatnonzero(random.random(n) < 0.8).tolist()) for _ in sizes]
    if draw(st.booleans()):
        rows = [list(range(n)) for _ in sizes]
    return {
        "X": X,
        "offsets": offsets,
        "positive": positive,
        "rows": rows,
        "relevance": random.choice([0.5, 1.0, 3.0], positive.shape) if draw(st.booleans()) else None,
        "weight": np.float32(random.choice([0.25, 1.0, 2.0], n)) if draw(st.booleans()) else None,
        "options": {
            "loss": draw(st.sampled_from(LOSSES)),
            "cost": draw(st.sampled_from([0.1, 1.0, 4.0])),
            "positive_cost": draw(st.sampled_from([1.0, 2.5])),
            "negative_cost": draw(st.sampled_from([1.0, 0.5])),
            "bias": draw(st.sampled_from([0.0, 1.0, 0.5])),
        },
    }


@settings(deadline=None, max_examples=20)
@given(problems())
def test_the_solver_reaches_the_reference_minimum(case: dict) -> None:
    X, offsets, positive, rows = case["X"], case["offsets"], case["positive"], case["rows"]
    options = case["options"]
    problem = layer_problem(positive, offsets, rows, case["relevance"])
    exact = LinearOptions(**options, tolerance=1e-5, max_iterations=20000, threshold=0.0)
    W, b = dense_answer(X, problem, exact, sample_weight=case["weight"])
    for cluster, chosen in enumerate(rows):
        for node in reference.children(offsets, cluster):
            if not chosen:
                assert not W[:, node].any()
                continue
            y = np.where(positive[chosen, node] > 0, 1.0, -1.0)
            cost = np.where(y > 0, options["positive_cost"], options["negative_cost"]) * options["cost"]
            if case["weight"] is not None:
                cost = cost * case["weight"][chosen]
            if case["relevance"] is not None:
                cost = cost * np.where(y > 0, case["relevance"][chosen, node], 1.0)
            binary = reference.Problem(X[chosen], y, cost, options["loss"], options["bias"])
            best_w, best_b = reference.solve(binary)
            least, found = binary.objective(best_w, best_b), binary.objective(W[:, node], b[node])
            assert found <= least + 1e-3 * (1 + abs(least))
            np.testing.assert_allclose(W[:, node], best_w, atol=2e-2)
            np.testing.assert_allclose(b[node], best_b, atol=2e-2)


def test_another_seed_is_another_order() -> None:
    random = np.random.default_rng(0)
    X, positive = random.random((60, 9)), (random.random((60, 2)) < 0.5).astype(float)
    problem = layer_problem(positive, np.array([0, 2]), [list(range(60))])
    found = [dense_answer(X, problem, LinearOptions(seed=seed))[0] for seed in (0, 1, 1)]
    assert (found[0] != found[1]).any() and (found[1] == found[2]).all()


def test_weights_of_rows_and_relevance_take_memory() -> None:
    X, positive, offsets = validate.features(np.eye(4)), np.ones((4, 2)), np.array([0, 2])
    plain, relevant = (layer_problem(positive, offsets, [[0, 1, 2, 3]], each) for each in (None, positive))
    peaks = [
        block_jobs(X, squared_norms(X), problem, 0, LinearOptions(), sample_weight=weight)[0].peak_bytes
        for problem in (plain, relevant)
        for weight in (None, np.ones(4, np.float32))
    ]
    assert peaks[0] < peaks[1] == peaks[2] == peaks[3]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.1])
def test_scores_of_held_out_rows_are_those_of_a_solution_without_them(
    loss: str, weighted: bool, threshold: float
) -> None:
    random = np.random.default_rng(3)
    X = random.random((200, 100)) * (random.random((200, 100)) < 0.1) + 0.01 * np.eye(200, 100)
    X = np.float32(X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float64)  # as texts are
    offsets = np.array([0, 3, 21])
    truth = X @ random.normal(size=(100, 21)) + 0.3 * random.normal(size=(200, 21)) > 1
    rows = [list(range(200)), sorted(random.permutation(200)[:150].tolist())]
    relevance = random.choice([0.5, 1.0, 3.0], truth.shape) if weighted else None
    weight = np.float32(random.choice([0.25, 1.0, 2.0], 200)) if weighted else None
    problem = layer_problem(truth.astype(float), offsets, rows, relevance)
    options = LinearOptions(loss=loss, threshold=threshold)
    held_out = [random.permutation(200)[:20].tolist(), random.permutation(200)[:40].tolist()]
    held_out[1] = [row for row in held_out[1] if row not in held_out[0]]
    plain = dense_answer(X, problem, options, sample_weight=weight)
    both, changes = with_changes(X, problem, options, held_out, sample_weight=weight)
    alone, first_changes = with_changes(X, problem, options, held_out[:1], sample_weight=weight)
    for solution in (both, alone):  # held-out rows or not, all rows are learned from
        assert plain[0].tobytes() == solution[0].tobytes() and plain[1].tobytes() == solution[1].tobytes()
    assert np.array_equal(first_changes[held_out[0]], changes[held_out[0]]) and first_changes[held_out[0]].any()
    outside = np.setdiff1d(np.arange(200), sorted(held_out[0] + held_out[1]))
    assert not changes[outside].any() and not changes[np.setdiff1d(np.arange(200), rows[1]), 3:].any()
    seen = X @ plain[0] + plain[1]
    for holdout in held_out:
        left = [[row for row in chosen if row not in holdout] for chosen in rows]
        slow = layer_problem(truth.astype(float), offsets, left, relevance)
        slow_W, slow_b = dense_answer(X, slow, options, sample_weight=weight)
        within = np.ones((len(holdout), 21), bool)
        within[~np.isin(holdout, rows[1]), 3:] = False
        scores, expected, before = (
            values[within] for values in ((seen + changes)[holdout], X[holdout] @ slow_W + slow_b, seen[holdout])
        )
        assert np.corrcoef(scores, expected)[0, 1] > 0.89
        # Having seen a row makes its own margin larger; what was solved without it has forgotten that.
        side = np.where(truth[holdout], 1, -1)[within]
        margin, least, most = ((side * each).mean() for each in (scores, expected, before))
        assert abs(margin - least) < 0.55 * (most - least)


@pytest.mark.parametrize("loss", LOSSES)
def test_what_nobody_is_left_for_is_unlikely(loss: str) -> None:
    X = np.eye(6)
    problem = layer_problem(np.eye(6)[:, :4], np.array([0, 2, 4]), [[0, 1], [2, 3, 4, 5]])
    (W, b), changes = with_changes(X, problem, LinearOptions(loss=loss), [[0, 1]])
    scores = X @ W + b + changes
    np.testing.assert_allclose(scores[:2, :2], -1, atol=0.01)  # smaller changes are dropped
    assert not changes[2:].any() and not changes[:2, 2:].any()
    _, changes = with_changes(X, problem, LinearOptions(loss=loss), [[]])
    assert not changes.any()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_jobs", [2, 5])
def test_threads_change_no_bit(loss: str, n_jobs: int) -> None:
    random = np.random.default_rng(1)
    X = np.float32(random.normal(size=(40, 20)) * (random.random((40, 20)) < 0.4))
    offsets = np.array([0, 3, 20, 21, 60])
    positive = (random.random((40, 60)) < 0.2).astype(float)
    rows = [sorted(np.flatnonzero(random.random(40) < 0.6).tolist()) for _ in range(4)]
    problem = layer_problem(positive, offsets, rows)
    one = dense_answer(X, problem, LinearOptions(loss=loss), n_jobs=1)
    many = dense_answer(X, problem, LinearOptions(loss=loss), n_jobs=n_jobs)
    assert one[0].tobytes() == many[0].tobytes()
    assert one[1].tobytes() == many[1].tobytes()


@pytest.mark.parametrize("loss", LOSSES)
def test_threshold_and_weights_per_label_only_drop(loss: str) -> None:
    random = np.random.default_rng(2)
    X = np.float32(random.normal(size=(30, 12)))
    problem = layer_problem((random.random((30, 18)) < 0.3).astype(float), np.array([0, 18]), [list(range(30))])
    full, _ = dense_answer(X, problem, LinearOptions(loss=loss, threshold=0.0))
    cut, _ = dense_answer(X, problem, LinearOptions(loss=loss, threshold=0.1))
    np.testing.assert_array_equal(cut, np.where(np.abs(full) >= np.float32(0.1), full, 0))
    few, _ = dense_answer(X, problem, LinearOptions(loss=loss, threshold=0.0, max_weights_per_label=4))
    for node in range(18):
        largest = np.argsort(-np.abs(full[:, node]), kind="stable")[:4]
        expected = np.zeros(12)
        expected[largest] = full[largest, node]
        np.testing.assert_array_equal(few[:, node], expected)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_tolerance_that_floats_cannot_reach_is_as_near_to_the_minimum(loss: str) -> None:
    """Lanes that never come within it visit the rows that they shrank away all the same."""
    apart = 1e-4 if loss == "hinge" else 1e-7  # a hinge converges slowly
    random = np.random.default_rng(1)
    for n, d, share, cost in ((60, 20, 0.2, 1.0), (80, 30, 0.1, 1.0), (50, 8, 0.3, 4.0)):
        X = random.normal(size=(n, d)) * (random.random((n, d)) < 0.5)
        X = np.float32(X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float64)
        truth = X @ random.normal(size=(d, 12)) * d**0.5 + 0.5 * random.normal(size=(n, 12))
        positive = (truth > np.quantile(truth, 1 - share, axis=0)).astype(float)
        problem = layer_problem(positive, np.array([0, 12]), [list(range(n))])
        given = {"loss": loss, "cost": cost, "max_iterations": 2000, "threshold": 0.0}
        found = [dense_answer(X, problem, LinearOptions(**given, tolerance=tolerance)) for tolerance in (1e-5, 1e-8)]
        for node in range(0, 12, 6 if loss == "hinge" else 2):
            y = np.where(positive[:, node] > 0, 1.0, -1.0)
            binary = reference.Problem(X, y, np.full(n, cost), loss, 1.0)
            least = binary.objective(*reference.solve(binary))
            for W, b in found:
                assert binary.objective(W[:, node], b[node]) <= least + apart * (1 + abs(least))


# Two clusters of two labels: nodes 0 and 1 under the root, leaves 0 1 | 2 3 with labels 3 2 | 1 0.
TREE = ([np.array([0, 2]), np.array([0, 2, 4])], np.array([3, 2, 1, 0]))
WEIGHTS = [np.array([[0.5, 0.25]]), np.array([[1.0, 0.0, 2.0, 0.75]])]
ZERO = [np.zeros(2), np.zeros(4)]


def rank(combine: str, beam: int, k: int = 4, x: float = 1.0) -> reference.Ranking:
    return reference.rank_row(np.array([x]), WEIGHTS, ZERO, TREE, beam=beam, k=k, combine=combine)


def test_ranker_only_scores_by_the_last_layer() -> None:
    assert rank("ranker", beam=2).labels == [1, 3, 0, 2]
    assert rank("ranker", beam=2).scores == [2.0, 1.0, 0.75, 0.0]
    assert rank("ranker", beam=1).labels == [3, 2], "the beam of one keeps the first cluster, of 0.5"


def test_l3_hinge_multiplies_along_the_path() -> None:
    answer = rank("l3_hinge", beam=2)
    first, second = math.exp(-(0.5**3)), math.exp(-(0.75**3))
    assert answer.labels == [3, 1, 0, 2]
    np.testing.assert_allclose(answer.scores, [first, second, second * math.exp(-(0.25**3)), first * math.exp(-1.0)])


def test_sigmoid_multiplies_probabilities() -> None:
    sigmoid = lambda h: 1 / (1 + math.exp(-h))  # noqa: E731
    scores = dict(zip(rank("sigmoid", 2).labels, rank("sigmoid", 2).scores, strict=True))
    assert scores[1] == pytest.approx(sigmoid(0.25) * sigmoid(2.0))
    assert scores[2] == pytest.approx(sigmoid(0.5) * sigmoid(0.0))


def test_ties_go_to_the_lower_label() -> None:
    answer = rank("l3_hinge", beam=2, x=0.0)
    assert answer.labels == [0, 1, 2, 3]
    assert answer.margin == math.inf
    assert rank("l3_hinge", beam=1, x=0.0).labels == [2, 3], "and in the beam to the lower node"


def test_a_label_in_two_leaves_counts_once_with_its_best() -> None:
    tree = ([np.array([0, 2]), np.array([0, 2, 4])], np.array([0, 1, 0, 2]))
    answer = reference.rank_row(np.array([1.0]), WEIGHTS, ZERO, tree, beam=2, k=4, combine="ranker")
    assert answer.labels == [0, 2, 1]
    assert answer.scores == [2.0, 0.75, 0.0]


def test_truth_climbs_the_tree() -> None:
    Y = np.array([[1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]])
    inner, leaves = reference.truth(Y, TREE)
    assert leaves.tolist() == [[0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert inner.tolist() == [[0, 1], [1, 0], [0, 0]]


def test_negatives() -> None:
    Y = np.array([[1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]])
    reached = [[0], [0], [1]]
    assert reference.cluster_rows(Y, TREE, 1, "tfn") == [[1], [0]]
    assert reference.cluster_rows(Y, TREE, 1, "man", reached) == [[0, 1], [2]]
    assert reference.cluster_rows(Y, TREE, 1, "tfn+man", reached) == [[0, 1], [0, 2]]
    assert reference.cluster_rows(Y, TREE, 0, "tfn") == [[0, 1]]
    assert reference.cluster_rows(Y, TREE, 0, "man", [[0]] * 3) == [[0, 1, 2]]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_the_solver_finds_a_minimum(loss: str) -> None:
    random = np.random.default_rng(3)
    X, y = random.normal(size=(12, 4)), np.where(random.random(12) < 0.4, 1.0, -1.0)
    problem = reference.Problem(X, y, random.uniform(0.2, 2.0, 12), loss, bias=0.7)
    w, intercept = reference.solve(problem)
    least = problem.objective(w, intercept)
    for _ in range(200):
        step = random.normal(size=5) * 10.0 ** random.uniform(-4, 0)
        assert problem.objective(w + step[:4], intercept + step[4]) >= least - 1e-9


def test_one_point_by_hand() -> None:
    """min 1/2 w^2 + c (1 - w)^2 has its minimum at w = 2c / (1 + 2c); of the hinge, at min(1, c)."""
    one = np.array([[1.0]]), np.array([1.0]), np.array([0.75])
    assert reference.solve(reference.Problem(*one, "squared_hinge", bias=0.0))[0] == pytest.approx([0.6], abs=1e-6)
    assert reference.solve(reference.Problem(*one, "hinge", bias=0.0))[0] == pytest.approx([0.75])


def test_training_separates_what_is_separable() -> None:
    X = np.eye(4)
    model = reference.train(X, np.eye(4), TREE, negatives="tfn+man", cost=10.0)
    assert [model.rank(x, k=1).labels[0] for x in X] == [0, 1, 2, 3]
