"""A first layer in four bits a weight: whole numbers from -8 to 7, times a scale for each row and repetition."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["packed", "rounded", "unpacked"]

LEAST, MOST = -8, 7
CLIPPED = 2.7  # standard deviations from 0 beyond which weights are cut, which makes the others finer
_ROWS = 4096  # rounded at once

Float32 = npt.NDArray[np.float32]


def rounded(layer: Float32, n_repetitions: int) -> tuple[Float32, Float32]:
    """The weights rounded, and their scales."""
    # Shape: layer (n, n_repetitions * hidden); returns scales (n, n_repetitions)
    result, scales = np.empty_like(layer), np.empty((len(layer), n_repetitions), np.float32)
    for start in range(0, len(layer), _ROWS):
        rows = slice(start, start + _ROWS)
        part = layer[rows].reshape(-1, n_repetitions, layer.shape[1] // n_repetitions)
        squares = np.mean(np.square(part, dtype=np.float64), axis=2)  # those of large weights are beyond float32
        own = (np.sqrt(squares) * (CLIPPED / MOST)).astype(np.float32)
        own[own == 0] = 1
        values = np.clip(np.rint(part / own[:, :, None]), LEAST, MOST) * own[:, :, None]
        result[rows], scales[rows] = values.reshape(-1, layer.shape[1]), own
    return result, scales


def packed(layer: Float32, scales: Float32) -> npt.NDArray[np.uint8]:
    """What :func:`rounded` gave, two weights in a byte, the first in its lower half; (n, half the width)."""
    n, width = layer.shape
    codes = np.empty((n, (width + 1) // 2), np.uint8)
    for start in range(0, n, _ROWS):
        rows = slice(start, start + _ROWS)
        part = layer[rows].reshape(-1, scales.shape[1], width // scales.shape[1])
        whole = (np.rint(part / scales[rows, :, None]) - LEAST).astype(np.uint8).reshape(-1, width)
        codes[rows] = whole[:, ::2]
        codes[rows, : width // 2] |= whole[:, 1::2] << 4
    return codes


def unpacked(codes: npt.NDArray[np.uint8], scales: Float32, width: int) -> Float32:
    """The layer that :func:`packed` was given, to the last bit; its shape is (n, width)."""
    n, n_repetitions = scales.shape
    layer = np.empty((n, width), np.float32)
    whole = np.empty((min(_ROWS, n), width), np.float32)
    with np.errstate(all="ignore"):  # scales from a damaged file
        for start in range(0, n, _ROWS):
            part = codes[start : start + _ROWS]
            values = whole[: len(part)]
            values[:, ::2], values[:, 1::2] = part & 15, part[:, : width // 2] >> 4
            values += LEAST
            own = np.repeat(scales[start : start + _ROWS], width // n_repetitions, axis=1)
            np.multiply(values, own, out=layer[start : start + _ROWS])
    return layer
