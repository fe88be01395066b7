"""First layers in four bits against a slow rounding, weight by weight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sylvan.models.irli import bucket_network
from sylvan.models.irli.bucket_network import CLIPPED, packed, rounded, unpacked


def slowly(layer: np.ndarray, n_repetitions: int) -> tuple[np.ndarray, list[list[list[int]]]]:
    """Rounded weights, and the whole numbers that they are of their scale."""
    hidden, values, wholes = layer.shape[1] // n_repetitions, np.zeros(layer.shape), []
    for i, row in enumerate(layer.astype(np.float64)):
        wholes.append([])
        for r in range(n_repetitions):
            own = row[r * hidden : (r + 1) * hidden]
            scale = CLIPPED * np.sqrt(sum(weight**2 for weight in own) / hidden) / 7 or 1.0
            whole = [min(max(round(weight / scale), -8), 7) for weight in own]
            values[i, r * hidden : (r + 1) * hidden] = [number * scale for number in whole]
            wholes[-1].append(whole)
    return values, wholes


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**16), st.sampled_from([2, 4096]))
def test_rounding_and_packing(n: int, n_repetitions: int, hidden: int, seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.choice([0, 1e-3, 1, 50], (n, 1))
    layer = (sizes * random.standard_t(3, (n, n_repetitions * hidden))).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_network, "_ROWS", rows)
        found, scales = rounded(layer, n_repetitions)
        codes = packed(found, scales)
        again = unpacked(codes, scales, layer.shape[1])
    values, wholes = slowly(layer, n_repetitions)
    np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-30)
    np.testing.assert_array_equal(again, found)
    assert codes.shape == (n, (layer.shape[1] + 1) // 2)
    for i in range(n):
        flat = [whole + 8 for own in wholes[i] for whole in own] + [0] * (layer.shape[1] % 2)
        assert codes[i].tolist() == [low + 16 * high for low, high in zip(flat[::2], flat[1::2], strict=True)]


def test_rounding_again_changes_nothing_that_is_packed() -> None:
    layer, scales = rounded(np.random.default_rng(0).normal(size=(50, 24)).astype(np.float32), 3)
    assert np.abs(layer / scales.repeat(8, axis=1)).max() <= 8
    np.testing.assert_array_equal(unpacked(packed(layer, scales), scales, 24), layer)
