"""The `.npy` files of a model: version 1.0, little-endian, C order, no objects; nothing is evaluated. Only what
:func:`header` writes is read back (NumPy writes the same bytes), by a regular expression, so that a hostile header
cannot reach a parser with surprises."""

from __future__ import annotations

import math
import re

import numpy as np

MAGIC = b"\x93NUMPY\x01\x00"
ALIGNMENT = 64
_DESCRIPTIONS = ("|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")
DTYPES = {text: np.dtype(text) for text in _DESCRIPTIONS}
_HEADER = re.compile(
    rb"\{'descr': '([<|][iuf][1248])', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,19}, ?)*[0-9]{0,19})\), \} *\n"
)
_MAX_DIMENSIONS = 8
_MAX_BYTES = 2**62


class HeaderError(ValueError):
    """What is wrong with a header, as the end of a sentence about the file."""


def header(dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bytes:
    """The first bytes of a `.npy` file, padded so that the data starts at a multiple of 64."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape!r}, }}".encode("ascii")
    padding = -(len(MAGIC) + 2 + len(text) + 1) % ALIGNMENT
    text += b" " * padding + b"\n"
    return MAGIC + len(text).to_bytes(2, "little") + text


def parse_header(start: bytes) -> tuple[str, tuple[int, ...], int]:
    """Dtype, shape and offset of the data from the first bytes of a file (65,546 are always enough)."""
    if len(start) < len(MAGIC) + 2:
        raise HeaderError("is too short to be a .npy file")
    if start[:6] != MAGIC[:6]:
        raise HeaderError("is no .npy file")
    if start[: len(MAGIC)] != MAGIC:
        raise HeaderError(f"is a .npy file of version {start[6]}.{start[7]}; Sylvan reads version 1.0")
    offset = len(MAGIC) + 2 + int.from_bytes(start[len(MAGIC) : len(MAGIC) + 2], "little")
    if len(start) < offset:
        raise HeaderError("ends within its header")
    match = _HEADER.fullmatch(start[len(MAGIC) + 2 : offset])
    if match is None:
        raise HeaderError("has a header other than those that Sylvan writes")
    if offset % ALIGNMENT:
        raise HeaderError(f"has data at byte {offset}, which is not a multiple of {ALIGNMENT}")
    descr = match[1].decode("ascii")
    if descr not in DTYPES:
        raise HeaderError(f"has the dtype {descr!r}, which no model holds")
    shape = tuple(int(size) for size in match[2].split(b",") if size.strip())
    if len(shape) > _MAX_DIMENSIONS:
        raise HeaderError(f"has {len(shape)} dimensions")
    # The product of the non-zero sizes: a zero must not hide sizes that overflow elsewhere.
    if math.prod(size for size in shape if size) * DTYPES[descr].itemsize > _MAX_BYTES:
        raise HeaderError(f"has the shape {shape}, which no memory holds")
    return descr, shape, offset
