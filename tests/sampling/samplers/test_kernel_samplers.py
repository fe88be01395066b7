"""LSH, RFF and Sphere: they draw by their definitions, which are written out slowly here, and tell the probabilities.

Of both structures of RFF and Sphere, however the work is divided. What every sampler must do is in
``sampling/test_contract.py``.
"""

from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.chance import assert_mean
from sampling.suite import EMPTY_BUCKETS, NEGATIVE_ESTIMATES

from sylvan.sampling import LSH, RFF, Sampler, Sphere

Kind = TypeVar("Kind", bound=Sampler)


def made(
    kind: type[Kind], n: int, dim: int, *, seed: int = 0, batch: int = 3, **parameters: Any
) -> tuple[Kind, torch.Tensor, torch.Tensor]:
    """A sampler that has seen a class table, the table (n, dim), and queries (batch, dim)."""
    torch.manual_seed(seed)
    table, queries = torch.randn(n, dim), torch.randn(batch, dim)
    own_seed = {} if kind is Sphere else {"seed": seed}  # Sphere makes nothing at random
    sampler = kind(n, dim, **own_seed, **parameters)
    assert parameters.items() <= sampler.get_params(deep=False).items()  # which the definitions ask it for
    sampler.refresh(table)
    return sampler, table, queries


def all_log_probs(sampler: Sampler, queries: torch.Tensor) -> torch.Tensor:
    return sampler.log_prob(queries, torch.arange(sampler.n_classes))


# ---------------------------------------- the definitions, class by class in float64


def lsh_probabilities(sampler: LSH, table: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Query by query and table by table."""
    planes = sampler.planes.double().numpy().reshape(sampler.n_tables, sampler.n_bits, -1)
    if sampler.augment:
        lengths = np.linalg.norm(table, axis=1)
        rest = np.sqrt(np.maximum(0, lengths.max() ** 2 - lengths**2))
        table = np.hstack([table, rest[:, None]])  # all divided by the largest length have the same signs
        queries = np.hstack([queries, np.zeros((len(queries), 1))])
    n = len(table)
    found = np.zeros((len(queries), n))
    for row, query in enumerate(queries):
        for hashes in planes:
            same = ((table @ hashes.T > 0) == (hashes @ query > 0)).all(axis=1)
            found[row] += same / same.sum() if same.any() else np.full(n, 1 / n)
    return (1 - sampler.uniform_share) * found / sampler.n_tables + sampler.uniform_share / n


def sphere_probabilities(sampler: Sphere, table: np.ndarray, queries: np.ndarray) -> np.ndarray:
    mass = sampler.alpha * (queries @ table.T) ** 2 + 1
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def rff_kernel(sampler: RFF, table: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The random Fourier features' estimates of the kernel of normalised vectors, (batch, n_classes)."""
    frequencies = sampler.frequencies.double().numpy()

    def features(vectors: np.ndarray) -> np.ndarray:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        angles = (vectors / np.where(lengths == 0, 1, lengths)) @ frequencies
        return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(frequencies.shape[1])

    return np.asarray(features(queries) @ features(table).T)


def rff_tree_probabilities(kernel: np.ndarray, floor: float, depth: int, size: int) -> np.ndarray:
    """Every class's probability in the tree, from one query's kernel estimates (n_classes,), class by class."""
    n_classes = len(kernel)

    def mass(first: int, span: int) -> float:
        part = kernel[first : first + span]
        return max(part.sum(), floor * len(part))

    found = np.empty(n_classes)
    for label in range(n_classes):
        probability, first, span = 1.0, 0, size << depth
        while span > size:
            span //= 2
            left, right = mass(first, span), mass(first + span, span)
            goes_right = label >= first + span
            probability *= (right if goes_right else left) / (left + right)
            first += span * goes_right
        leaf = np.maximum(kernel[first : first + size], floor)
        found[label] = probability * leaf[label - first] / leaf.sum()
    return found


def rff_probabilities(sampler: RFF, table: np.ndarray, queries: np.ndarray) -> np.ndarray:
    kernel = rff_kernel(sampler, table, queries)
    floor = sampler.floor or max(np.exp(-2 * sampler.temperature), 0.25 / np.sqrt(2 * sampler.n_features))
    if sampler.tree is None:
        mass = np.maximum(kernel, floor)
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))
    return np.stack([rff_tree_probabilities(row, floor, sampler.tree.depth, sampler.blocks.size) for row in kernel])


DEFINITIONS: dict[type, Any] = {LSH: lsh_probabilities, RFF: rff_probabilities, Sphere: sphere_probabilities}


def expected(sampler: Sampler, table: torch.Tensor, queries: torch.Tensor) -> np.ndarray:
    """Every class's probability by the definition, float64 (batch, n_classes)."""
    found: np.ndarray = DEFINITIONS[type(sampler)](sampler, table.double().numpy(), queries.double().numpy())
    return found


# ---------------------------------------- probabilities and draws

STRUCTURES = {"structure": st.sampled_from(["scan", "tree"]), "leaf_size": st.integers(1, 40)}
PARAMETERS: dict[type, dict[str, st.SearchStrategy[Any]]] = {
    LSH: {"n_tables": st.integers(1, 5), "n_bits": st.integers(1, 7), "uniform_share": st.sampled_from([0.0, 0.1, 1.0]),
          "augment": st.booleans()},
    RFF: {**STRUCTURES, "n_features": st.sampled_from([1, 3, 32]), "floor": st.sampled_from([None, 0.01, 1.0])},
    Sphere: {**STRUCTURES, "alpha": st.sampled_from([0.0, 0.3, 100.0])},
}  # fmt: skip
TOLERANCES: dict[type, dict[str, float]] = {
    LSH: {"rtol": 1e-5, "atol": 1e-9}, RFF: {"rtol": 5e-3, "atol": 1e-5}, Sphere: {"rtol": 2e-4, "atol": 1e-7},
}  # fmt: skip


@pytest.mark.parametrize("kind", PARAMETERS)
@settings(max_examples=30)
@given(data=st.data(), n=st.integers(1, 70), dim=st.integers(1, 9), seed=st.integers(0, 99))
def test_probabilities_are_the_definition(kind: Any, data: st.DataObject, n: int, dim: int, seed: int) -> None:
    parameters = data.draw(st.fixed_dictionaries(PARAMETERS[kind]))
    sampler, table, queries = made(kind, n, dim, seed=seed, **parameters)
    wanted = expected(sampler, table, queries)
    np.testing.assert_allclose(wanted.sum(axis=1), 1, rtol=1e-9)
    np.testing.assert_allclose(all_log_probs(sampler, queries).exp(), wanted, **TOLERANCES[kind])
    draw = sampler.sample(queries, 9)
    assert bool(((draw.ids >= 0) & (draw.ids < n)).all()) and bool(draw.log_q.isfinite().all())
    of_draws = np.take_along_axis(wanted, draw.ids.numpy(), axis=1)
    np.testing.assert_allclose(draw.log_q.exp(), of_draws, **TOLERANCES[kind])


def test_what_is_rare_occurs_where_draws_are_counted() -> None:
    """In test_draws.py: empty buckets beside full ones, and classes and leaves with a negative estimate."""
    lsh: Any = EMPTY_BUCKETS.ready()
    _, _, size = lsh._buckets(EMPTY_BUCKETS.queries(2))
    assert bool(((size == 0).any(dim=1) & (size > 0).any(dim=1)).any())
    rff: Any = NEGATIVE_ESTIMATES.ready()
    table, queries = NEGATIVE_ESTIMATES.table(), NEGATIVE_ESTIMATES.queries(2)
    kernel = rff_kernel(rff, table.double().numpy(), queries.double().numpy())
    assert (kernel < 0).mean() > 0.05
    assert (np.add.reduceat(kernel, np.arange(0, 500, rff.blocks.size), axis=1) < 0).any()


@pytest.mark.parametrize("dense_nodes", [1, 4, 1024])
@pytest.mark.parametrize(("kind", "more"), [(RFF, {}), (Sphere, {"alpha": 3.0})])
def test_the_distribution_does_not_depend_on_where_walking_begins(kind: Any, more: Any, dense_nodes: int) -> None:
    sampler, table, queries = made(kind, 300, 8, structure="tree", leaf_size=5, **more)
    assert sampler.tree is not None and sampler.tree.depth == 6
    sampler.tree.dense_nodes = dense_nodes
    wanted_of_all, ids = expected(sampler, table, queries), torch.randint(300, (3, 7))
    for labels, log_q in ((ids, sampler.log_prob(queries, ids)), sampler.sample(queries, 40)):
        wanted = np.take_along_axis(wanted_of_all, labels.numpy(), axis=1)
        np.testing.assert_allclose(log_q.exp(), wanted, rtol=2e-3 if kind is RFF else 1e-4)


@pytest.mark.parametrize("structure", ["scan", "tree"])
@pytest.mark.parametrize("kind", [RFF, Sphere])
def test_parts_change_nothing(kind: Any, structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is in memory at once, the probabilities and the index are the same."""
    whole, table, queries = made(kind, 150, 4, structure=structure, leaf_size=8)
    before, close = all_log_probs(whole, queries), dict.fromkeys(("atol", "rtol"), 1e-4 if kind is RFF else 1e-5)
    some = torch.tensor([[3, 149, 3], [0, 1, 2], [77, 5, 149]])
    of_one = lambda n, size: (slice(i, i + 1) for i in range(n))  # noqa: E731
    monkeypatch.setattr("sylvan.sampling.samplers.kernel_sampler.slices", of_one)
    small = kind(150, 4, structure=structure, leaf_size=8, **({"seed": 0} if kind is RFF else {}))
    small.refresh(table)
    draw = small.sample(queries, 4)
    torch.testing.assert_close(all_log_probs(small, queries), before, **close)
    torch.testing.assert_close(small.log_prob(queries, some), before.gather(1, some), **close)
    torch.testing.assert_close(draw.log_q, before.gather(1, draw.ids), **close)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("kind", "parameters", "scale", "close"),
    [
        *((LSH, {"augment": augment}, 3000, {"rtol": 1e-4}) for augment in (False, True)),
        *((RFF, {"structure": structure, "leaf_size": 8, "temperature": 40.0}, 300, {"rtol": 1e-2, "atol": 1e-5})
          for structure in ("scan", "tree")),
    ],
)  # fmt: skip
def test_half_precision_large_scores_and_zero_vectors(
    kind: Any, parameters: dict[str, Any], scale: int, close: dict[str, float], dtype: torch.dtype
) -> None:
    torch.manual_seed(1)
    table, queries = (torch.randn(90, 5) * scale).to(dtype), (torch.randn(4, 5) * scale).to(dtype)
    table[::4], queries[0] = 0, 0
    sampler = kind(90, 5, **parameters)
    sampler.refresh(table)
    log_q = all_log_probs(sampler, queries)
    assert log_q.dtype == torch.float32
    np.testing.assert_allclose(log_q.exp(), expected(sampler, table, queries), **close)
    assert bool(sampler.sample(queries, 3).log_q.isfinite().all())


# ---------------------------------------- LSH


def test_without_a_uniform_share_some_classes_are_never_drawn() -> None:
    sampler, table, queries = made(LSH, 300, 16, uniform_share=0.0)
    missed = np.isneginf(all_log_probs(sampler, queries).numpy())
    np.testing.assert_array_equal(missed, expected(sampler, table, queries) == 0)
    assert missed.mean() > 0.1
    assert bool(all_log_probs(made(LSH, 300, 16)[0], queries).isfinite().all())


def test_augmented_collisions_fall_with_the_inner_product() -> None:
    """Two classes in the query's own direction: with the added dimension the longer one collides more."""
    table = torch.tensor([[1.0, 0.0], [0.2, 0.0], [0.0, 1.0]])
    query = torch.tensor([[5.0, 0.0]])
    for augment in (False, True):
        sampler = LSH(3, 2, n_tables=15_000, n_bits=2, augment=augment, seed=1)
        sampler.refresh(table)
        codes, _, _ = sampler._buckets(query)
        collided = sampler.codes == codes.view(-1, 1)
        angles = np.arccos([1.0, 0.2, 0.0]) if augment else np.array([0.0, 0.0, np.pi / 2])
        for column, angle in zip(collided.T, angles, strict=True):
            assert_mean(column, (1 - angle / np.pi) ** 2, off_by=0.035)


def test_planes_are_drawn_and_a_second_refresh_leaves_nothing_of_the_first() -> None:
    assert not torch.equal(LSH(9, 4).planes, LSH(9, 4).planes)
    sampler, table, queries = made(LSH, 100, 4)
    before = all_log_probs(sampler, queries)
    sampler.refresh(table.flip(0))
    torch.testing.assert_close(all_log_probs(sampler, queries), before.flip(1))
    sampler.refresh(torch.zeros(100, 4))
    np.testing.assert_allclose(all_log_probs(sampler, torch.zeros(1, 4)), -np.log(100), rtol=1e-5)


# ---------------------------------------- RFF


@pytest.mark.parametrize("structure", ["scan", "tree"])
def test_many_features_give_the_softmax_of_normalised_embeddings(structure: str) -> None:
    sampler, table, queries = made(RFF, 40, 5, structure=structure, leaf_size=4, n_features=20_000, temperature=1.5)
    unit = torch.nn.functional.normalize
    wanted = (1.5 * unit(queries, dim=1) @ unit(table, dim=1).t()).softmax(dim=1)
    np.testing.assert_allclose(all_log_probs(sampler, queries).exp(), wanted, atol=2e-3)


def test_frequencies_come_from_the_seed_and_defaults_are_the_papers() -> None:
    assert torch.equal(RFF(9, 4, seed=3).frequencies, RFF(70, 4, seed=3).frequencies)
    assert not torch.equal(RFF(9, 4).frequencies, RFF(9, 4).frequencies)
    sampler = RFF(10, 1500)
    assert sampler.frequencies.shape == (1500, 32)
    assert_mean(sampler.frequencies, 0.0, off_by=0.1)
    assert_mean(sampler.frequencies.square(), 4.0, off_by=0.25)
    assert sampler.tree is None
    assert RFF(20_000, 4).tree is not None


# ---------------------------------------- Sphere


def test_auto_is_the_tree_for_many_classes_and_queries_come_in_any_company() -> None:
    assert Sphere(511, 1).tree is None
    assert Sphere(512, 1).tree is not None
    assert Sphere(512, 1, structure="scan").tree is None
    sampler, _, queries = made(Sphere, 2048, 4, batch=5)
    alone = torch.cat([all_log_probs(sampler, query[None]) for query in queries])
    torch.testing.assert_close(all_log_probs(sampler, queries), alone, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("structure", ["scan", "tree"])
def test_large_scores_and_zero_vectors(structure: str) -> None:
    torch.manual_seed(2)
    table, queries = torch.randn(70, 8) * 100, torch.randn(6, 8) * 100
    table[::3], queries[0] = 0, 0
    sampler = Sphere(70, 8, structure=structure, leaf_size=4)
    sampler.refresh(table)
    assert sampler.alpha == 100
    np.testing.assert_allclose(all_log_probs(sampler, queries), np.log(expected(sampler, table, queries)), atol=2e-3)
    np.testing.assert_allclose(all_log_probs(sampler, queries)[0], -np.log(70), rtol=1e-6)
    draw = sampler.sample(queries, 200)
    assert bool(draw.log_q.isfinite().all())
    assert bool((draw.ids[1:] % 3 != 0).all())  # their probability is some 1e-11


@pytest.mark.parametrize("leaf_size", [1, 10])
def test_query_at_a_right_angle_to_everything(leaf_size: int) -> None:
    """Sums of squares that cancel to nothing, or far below, leave the classes about equally likely."""
    torch.manual_seed(3)
    turn = torch.linalg.qr(torch.randn(16, 16)).Q
    table, query = 300 * torch.randn(200, 1) * turn[:1], 5 * turn[1:2]
    sampler = Sphere(200, 16, structure="tree", leaf_size=leaf_size)
    sampler.refresh(table)
    assert sampler.tree is not None
    assert (sampler._features(query) @ sampler.tree.sums.T).min() < -2 / sampler.alpha, "rounding that matters"
    log_q = all_log_probs(sampler, query)
    np.testing.assert_allclose(log_q, -np.log(200), atol=1e-2)
    assert len(sampler.sample(query, 2000).ids.unique()) > 150


def test_memory_of_the_tree() -> None:
    """The moments of all nodes take dim / leaf_size of the class table's memory, whatever the classes."""
    sampler = Sphere(2**15, 32, structure="tree")
    assert sampler.tree is not None
    assert sampler.blocks.rows.numel() == 2**15 * 32
    assert sampler.tree.sums.numel() < 0.55 * sampler.blocks.rows.numel()
