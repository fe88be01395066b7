"""The codebook of a layer whose weights are bytes: magnitudes that grow by a constant factor, and their negatives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LEAST_RATIO = 1e-5  # magnitudes below this part of the largest share the codebook's least


def make_codebook(least: float, largest: float) -> npt.NDArray[np.float32]:
    """Codes 0 to 127: magnitudes from the least to the largest in equal ratios; 128 to 255: their negatives."""
    if largest == 0:
        return np.zeros(256, np.float32)
    least = max(min(least, largest), largest * LEAST_RATIO)
    magnitudes = least * (largest / least) ** (np.arange(128) / 127)
    magnitudes[-1] = largest
    return np.concatenate((magnitudes, -magnitudes)).astype(np.float32)


def encode(weights: npt.NDArray[np.float32], codebook: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """The code of the nearest magnitude (in ratio) of each weight."""
    least, largest = float(codebook[0]), float(codebook[127])
    codes = np.zeros(len(weights), np.float32)
    if largest > least:
        scale = 127 / np.log(largest / least)
        np.log(np.maximum(np.abs(weights), least) / np.float32(least), out=codes)
        codes *= np.float32(scale)
    np.rint(codes, out=codes)
    np.clip(codes, 0, 127, out=codes)
    encoded = codes.astype(np.uint8)
    encoded[weights < 0] += np.uint8(128)
    return encoded
