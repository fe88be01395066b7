"""Bodies that come packed by gzip, unpacked piece by piece."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from sylvan.serve.problems import Problem

__all__ = ["Gunzip", "unpacker_of"]

_PIECE = 1 << 18  # bytes: a small body mustn't become a large one at once
_GZIP = 31  # zlib's window bits for gzip


class Gunzip:
    """What unpacks a body; it may be of several members, as ``cat a.gz b.gz`` makes one."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._ended = True  # between two members, or before the first

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What a part of the body unpacks to."""
        while data:
            try:
                piece = self._member.decompress(data, _PIECE)
            except zlib.error as error:
                raise Problem(400, f"The body isn't gzip, though its Content-Encoding says so: {error}.") from None
            self._ended = self._member.eof
            data = self._member.unconsumed_tail
            if self._ended:
                data, self._member = self._member.unused_data, zlib.decompressobj(_GZIP)
            if piece:
                yield piece

    def end(self) -> None:
        """Refuse a body that ends too early."""
        if not self._ended:
            raise Problem(400, "The body's gzip ends too early: it isn't whole.")


def unpacker_of(encoding: str) -> Gunzip | None:
    """What unpacks bodies of a Content-Encoding; None where they aren't packed."""
    word = encoding.strip().lower()
    if word in ("", "identity"):
        return None
    if word in ("gzip", "x-gzip"):
        return Gunzip()
    words = f"The Content-Encoding must be gzip or identity. Got {encoding!r:.60} instead."
    raise Problem(415, words, {"Accept-Encoding": "gzip, identity"})
