"""Four-bit weights: a codebook of 16 weights a cluster, and child numbers packed beside their codes. An entry is
``child_bits + 4`` bits: the child's number, and below it the code of its weight. A few weights, those that one code is
farthest from, take several entries of one child, whose codes' weights add up: the largest weights of a cluster decide
most of its answers, and would need most of the codebook otherwise. Lengths of rows are four bits as well, so that a
longer row is continued in the next, with the same key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sylvan.arrays.types import Array, Float32, Float64, Int32, Int64, UInt8

LEAST_RATIO = 1e-5  # magnitudes below this part of the largest share the codebook's least
CODE_BITS = 4
BOOK = 1 << CODE_BITS  # weights of a codebook
LONGEST = 16  # entries of a row; a longer one is continued in the next
ENTRY_PADDING = 8  # bytes: an entry is read as part of a 64-bit number
REFINED = 0.04  # of a cluster's weights get another entry, those that their code is farthest from
PASSES = 2  # at most so many entries more a weight
ROUNDS = 10  # of k-means


def make_codebook(least: float, largest: float) -> Float32:
    """Codes 0 to 127: magnitudes from the least to the largest in equal ratios; 128 to 255: their negatives."""
    if largest == 0:
        return np.zeros(256, np.float32)
    least = max(min(least, largest), largest * LEAST_RATIO)
    magnitudes = least * (largest / least) ** (np.arange(128) / 127)
    magnitudes[-1] = largest
    return np.concatenate((magnitudes, -magnitudes)).astype(np.float32)


def encode(weights: Float32, codebook: Float32) -> UInt8:
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


@dataclass(frozen=True)
class CodedRows:
    """A cluster's rows with codes for weights: features (rising, repeated where a row is continued) and lengths of the
    rows, child numbers and codes of the entries, and the cluster's codebook."""

    features: Int32
    lengths: Int64
    children: Int32
    codes: UInt8
    codebook: Float32


def child_bits(most_children: int) -> int:
    """Bits of a child number in a layer whose largest cluster has ``most_children``."""
    return max(0, most_children - 1).bit_length()


def coded(features: Int32, lengths: Int32, children: Int32, weights: Float32, book: Float32 | None = None) -> CodedRows:
    """Rows of a cluster with every weight rounded to a codebook: the one given, or what k-means makes of them."""
    book = _fit(weights) if book is None else book
    middles = (book[1:] + book[:-1]) / 2
    rows = np.repeat(np.arange(len(features)), lengths)
    places, codes = [np.arange(len(weights))], [np.searchsorted(middles, weights)]
    left = weights - book[codes[0]]
    if len(weights):
        # A residual below half of the least magnitude is better left alone.
        least = max(np.abs(book).min() / 2, np.quantile(np.abs(left), 1 - REFINED))
        for _ in range(PASSES):
            far = np.flatnonzero(np.abs(left) > least)
            places.append(far)
            codes.append(np.searchsorted(middles, left[far]))
            left[far] -= book[codes[-1]]
    order = np.argsort(np.concatenate(places), kind="stable")  # the entries of one weight side by side
    place = np.concatenate(places)[order]
    of_row = np.bincount(rows[place], minlength=len(features))
    pieces, split = _in_pieces(of_row)
    return CodedRows(
        np.repeat(features, pieces), split, children[place], np.concatenate(codes)[order].astype(np.uint8), book
    )


def joined_codes(first: CodedRows, second: CodedRows) -> CodedRows:
    """The rows of two clusters of one codebook as one: of each feature the entries of the first, then the second's."""
    of_entry = np.concatenate([np.repeat(rows.features, rows.lengths) for rows in (first, second)])
    order = np.argsort(of_entry, kind="stable")
    features, counts = np.unique(of_entry, return_counts=True)
    pieces, split = _in_pieces(counts)
    children = np.concatenate((first.children, second.children))[order]
    codes = np.concatenate((first.codes, second.codes))[order]
    return CodedRows(np.repeat(features, pieces), split, children, codes, first.codebook)


def _in_pieces(counts: Int64) -> tuple[Int64, Int64]:
    """In how many rows entries of each feature are stored, and the lengths of these rows."""
    pieces = -(-counts // LONGEST)
    split = np.full(int(pieces.sum()), LONGEST, np.int64)
    split[np.cumsum(pieces) - 1] = counts - (pieces - 1) * LONGEST
    return pieces, split


def _fit(weights: Float32) -> Float32:
    """The codebook, rising: half for each sign, where both are there."""
    magnitudes = [np.sort(np.abs(weights[weights * sign > 0])).astype(np.float64) for sign in (-1, 1)]
    sizes = [BOOK // 2 if len(other) else BOOK for other in magnitudes[::-1]]
    below, above = (_means(part, size) for part, size in zip(magnitudes, sizes, strict=True))
    book = np.concatenate((-below[::-1], above)).astype(np.float32)
    return np.concatenate((book, np.full(BOOK - len(book), book[-1] if len(book) else 0, np.float32)))


def _means(values: Float64, n_means: int) -> Float64:
    """At most ``n_means`` means of sorted values above 0, by Lloyd's algorithm from a geometric series."""
    if not len(values):
        return values
    distinct = values[np.concatenate(([True], values[1:] > values[:-1]))]
    if len(distinct) <= n_means:
        return distinct
    sums = np.concatenate(([0.0], np.cumsum(values)))
    first = max(values[0], values[-1] * LEAST_RATIO)
    means: Float64 = first * (values[-1] / first) ** (np.arange(n_means) / (n_means - 1))
    for _ in range(ROUNDS):
        ends = np.concatenate(([0], np.searchsorted(values, (means[1:] + means[:-1]) / 2), [len(values)]))
        counts, totals = ends[1:] - ends[:-1], sums[ends]
        new = np.where(counts > 0, (totals[1:] - totals[:-1]) / np.maximum(counts, 1), means)
        if np.array_equal(new, means):
            break
        means = new
    return means


def stream_bytes(n_entries: int, bits: int) -> int:
    """Bytes of so many entries, with the padding that reading takes."""
    return -(-n_entries * bits // 8) + ENTRY_PADDING


def pack_bits(numbers: Array, bits: int) -> UInt8:
    """Numbers of ``bits`` bits one after another, low bits first."""
    spread = np.empty((len(numbers), bits), np.uint8)
    for bit in range(bits):
        spread[:, bit] = numbers >> bit & 1
    return np.packbits(spread.ravel(), bitorder="little")


def unpack_bits(stream: UInt8, first: int, n: int, bits: int) -> Int64:
    """``n`` numbers from number ``first`` on of what :func:`pack_bits` made; ``stream`` is padded."""
    bit = (first + np.arange(n, dtype=np.int64)) * bits
    words = np.zeros(n, np.uint64)
    for byte in range(8):
        words |= stream[(bit >> 3) + byte].astype(np.uint64) << np.uint64(8 * byte)
    numbers: Int64 = (words >> (bit & 7).astype(np.uint64) & np.uint64((1 << bits) - 1)).astype(np.int64)
    return numbers


def pack_lengths(lengths: Int64) -> UInt8:
    """Lengths of 1 to 16, less one, two a byte, the first in the low bits."""
    halves = np.zeros(len(lengths) + len(lengths) % 2, np.uint8)
    halves[: len(lengths)] = lengths - 1
    packed: UInt8 = halves[::2] | halves[1::2] << np.uint8(4)
    return packed


def unpack_lengths(stream: UInt8, first: int, n: int) -> Int64:
    """``n`` lengths from row ``first`` on of what :func:`pack_lengths` made."""
    half = first + np.arange(n, dtype=np.int64)
    halves: Int64 = (stream[half >> 1] >> (4 * (half & 1)).astype(np.uint8) & np.uint8(15)).astype(np.int64)
    return halves + 1
