"""k-means codebooks against a plain NumPy reference implementation, at odd sizes and on several threads."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan.errors import DataError
from sylvan.indexing import codebooks
from sylvan.indexing.codebooks import assign_codes, codeword_sizes, fit_codebooks, reconstruct


def reference_kmeans(rows: np.ndarray, words: np.ndarray, weights: np.ndarray, n_iterations: int) -> np.ndarray:
    words = words.copy()
    for _ in range(n_iterations):
        codes = ((rows[:, None] - words[None]) ** 2).sum(axis=2).argmin(axis=1)
        for word in range(len(words)):
            mine = codes == word
            if weights[mine].sum() > 0:
                words[word] = (rows[mine] * weights[mine, None]).sum(axis=0) / weights[mine].sum()
    return words


@pytest.mark.parametrize("scale", [None, 1.0, 1e-5])
def test_lloyd_iterations_equal_the_reference(scale: float | None) -> None:
    """Weights of any size: a codeword may stand for less than one row."""
    weighted = scale is not None
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 6))  # more than one block
    weights = np.ones(5000) if scale is None else scale * rng.uniform(0.1, 4, size=5000)
    expected = reference_kmeans(rows, rows[:7], weights, 4)
    tensor = torch.from_numpy(rows).float()
    given_weights = torch.from_numpy(weights).float() if weighted else None
    found = codebooks.kmeans(tensor, 7, weights=given_weights, start=tensor[:7], n_iterations=4)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-3)


def test_residual_codes_quantise_what_the_first_codewords_leave() -> None:
    torch.manual_seed(1)
    rows = torch.randn(300, 5)
    books = fit_codebooks(rows, 8, quantizer="rq", n_codebooks=3)
    left = rows.double()
    for book, words in enumerate(books.codewords):
        distances = (left[:, None] - words.double()[None]).square().sum(dim=2)
        chosen = distances.gather(1, books.codes[:, book, None]).flatten()
        assert torch.all(chosen <= distances.min(dim=1).values + 1e-5)
        left = left - words[books.codes[:, book]]
    torch.testing.assert_close(reconstruct(books.codewords, books.codes, "rq"), (rows - left).float())


def test_product_codes_quantise_parts_of_the_dimensions() -> None:
    torch.manual_seed(2)
    rows = torch.randn(200, 7)
    books = fit_codebooks(rows, 6, quantizer="pq", n_codebooks=3)
    assert [words.shape[1] for words in books.codewords] == codeword_sizes(7, 3, "pq") == [3, 2, 2]
    begin = 0
    for book, words in enumerate(books.codewords):
        part = rows[:, begin : begin + words.shape[1]]
        assert torch.equal(books.codes[:, book], torch.cdist(part, words).argmin(dim=1))
        begin += words.shape[1]
    rebuilt = reconstruct(books.codewords, books.codes, "pq")
    assert rebuilt.shape == rows.shape
    assert (rebuilt - rows).square().mean() < 0.8 * rows.var()


def test_more_codewords_and_a_residual_quantise_better() -> None:
    torch.manual_seed(3)
    rows = torch.randn(1000, 8)

    def distortion(n_codewords: int, quantizer: str) -> float:
        books = fit_codebooks(rows, n_codewords, quantizer=quantizer)
        return float((reconstruct(books.codewords, books.codes, quantizer) - rows).square().sum())

    assert distortion(32, "rq") < distortion(8, "rq") < distortion(2, "rq")
    assert distortion(16, "rq") < distortion(16, "pq") * 1.2


def test_heavy_vectors_are_quantised_better() -> None:
    torch.manual_seed(4)
    rows = torch.randn(2000, 8)
    weights = torch.ones(2000)
    weights[:20] = 1000.0
    plain = fit_codebooks(rows, 16)
    weighted = fit_codebooks(rows, 16, weights=weights)
    error = [(reconstruct(b.codewords, b.codes, "rq") - rows)[:20].square().sum() for b in (plain, weighted)]
    assert error[1] < 0.1 * error[0]


def test_a_sample_keeps_the_heavy_vectors_and_the_objective() -> None:
    torch.manual_seed(5)
    rows = torch.randn(20_000, 4)
    weights = 1.0 / torch.arange(1, 20_001)
    books = fit_codebooks(rows, 16, weights=weights, sample_size=1000)
    full = fit_codebooks(rows, 16, weights=weights)
    assert books.codes.shape == (20_000, 2)

    def objective(b: object) -> float:
        rebuilt = reconstruct(b.codewords, b.codes, "rq")  # type: ignore[attr-defined]
        return float(((rebuilt - rows).square().sum(dim=1) * weights).sum())

    assert objective(books) < 1.3 * objective(full)


def test_a_warm_start_goes_on_from_the_codewords_given() -> None:
    torch.manual_seed(6)
    rows = torch.randn(500, 4)
    first = fit_codebooks(rows, 8, n_iterations=50)
    again = fit_codebooks(rows, 8, start=first.codewords, n_iterations=1)
    for a, b in zip(first.codewords, again.codewords, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)
    assert torch.equal(first.codes, again.codes)


def test_codewords_without_rows_are_placed_anew() -> None:
    torch.manual_seed(7)
    rows = torch.randn(400, 3)
    start = torch.full((10, 3), 1000.0)
    start[0] = 0
    words = codebooks.kmeans(rows, 10, start=start, n_iterations=10)
    codes, _ = codebooks.nearest_codewords(rows, words)
    assert len(codes.unique()) == 10


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_are_computed_in_float32(dtype: torch.dtype) -> None:
    torch.manual_seed(8)
    rows = (torch.randn(100, 4) * 100).to(dtype)
    books = fit_codebooks(rows, 8)
    assert all(words.dtype == torch.float32 and torch.isfinite(words).all() for words in books.codewords)
    assert torch.equal(books.codes, assign_codes(rows.float(), books.codewords, "rq"))


def test_the_vectors_are_left_as_they_are() -> None:
    rows = torch.randn(50, 4)
    before = rows.clone()
    fit_codebooks(rows, 4)
    assert torch.equal(rows, before)


@pytest.mark.parametrize("quantizer", ["pq", "rq"])
def test_one_seed_gives_the_same_bits_on_any_number_of_threads(quantizer: str, torch_threads: None) -> None:
    rows = torch.randn(9000, 33, generator=torch.Generator().manual_seed(9))
    weights = rows[:, 0].exp()
    found = []
    for n_threads in (1, 2, 1):
        torch.set_num_threads(n_threads)
        generator = torch.Generator().manual_seed(10)
        found.append(
            fit_codebooks(
                rows, 12, quantizer=quantizer, weights=weights, sample_size=8000, n_iterations=3, generator=generator
            )
        )
    for other in found[1:]:
        assert torch.equal(found[0].codes, other.codes)
        assert all(torch.equal(a, b) for a, b in zip(found[0].codewords, other.codewords, strict=True))


@given(
    st.integers(1, 12), st.integers(1, 5), st.integers(1, 9), st.integers(1, 3), st.sampled_from(["pq", "rq"]),
    st.integers(1, 12), st.booleans(), st.sampled_from([None, 1, 5]),
)  # fmt: skip
@settings(max_examples=40)
def test_odd_sizes(
    n: int, dim: int, n_codewords: int, n_codebooks: int, quantizer: str, distinct: int, weighted: bool,
    sample_size: int | None,
) -> None:  # fmt: skip
    if quantizer == "pq" and n_codebooks > dim:
        n_codebooks = dim
    torch.manual_seed(n * 31 + dim)
    rows = torch.randn(n, dim)[torch.arange(n) % distinct]  # rows repeat
    weights = (torch.arange(n) % 3).float() + (torch.arange(n) == 0) if weighted else None
    books = fit_codebooks(
        rows, n_codewords, quantizer=quantizer, n_codebooks=n_codebooks, weights=weights, sample_size=sample_size
    )
    sizes = codeword_sizes(dim, n_codebooks, quantizer)
    assert [tuple(words.shape) for words in books.codewords] == [(n_codewords, size) for size in sizes]
    assert all(torch.isfinite(words).all() for words in books.codewords)
    assert books.codes.shape == (n, n_codebooks)
    assert int(books.codes.min()) >= 0 and int(books.codes.max()) < n_codewords
    if sample_size is None and weights is None and n_codewords >= min(n, distinct):
        torch.testing.assert_close(reconstruct(books.codewords, books.codes, quantizer), rows, atol=1e-4, rtol=0)


@pytest.mark.parametrize("weights", [torch.zeros(10), -torch.ones(10), torch.full((10,), torch.nan)])
def test_weights_that_say_nothing_are_refused(weights: torch.Tensor) -> None:
    with raises(DataError, 0):
        fit_codebooks(torch.randn(10, 4), 2, weights=weights)


def test_rows_that_are_sure_to_be_sampled_keep_their_weight() -> None:
    """Weights that fall tenfold from row to row: each round of finding the certain ones finds few of them."""
    weights, vectors = 10.0 ** -torch.arange(40), torch.arange(40.0)[:, None]
    chosen, own = codebooks._sample(vectors, weights, 20, torch.Generator().manual_seed(0))
    assert own is not None
    rows = chosen.flatten().long()
    assert rows[:12].tolist() == list(range(12))
    assert (own >= weights[rows] * (1 - 1e-6)).all(), "a row's weight is over its chance, which is 1 at most"
