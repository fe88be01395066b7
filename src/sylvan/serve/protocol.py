"""HTTP as the server speaks it: uvicorn's, that drops whoever sends too slowly or headers without end."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["CarefulProtocol"]

_SLOW = 10.0
_HEADER_BYTES = 64 << 10
_LEAST_RATE = 4096  # bytes of a body a second, on average, that a client must send after its first seconds


class CarefulProtocol(HttpToolsProtocol):
    """Clients have some seconds for their headers, as an application's limits say, and again until a rate counts."""

    def connection_made(self, transport: Any) -> None:
        """Begin to watch."""
        limits = getattr(getattr(self.app, "settings", None), "limits", None)
        self._slow: float = _SLOW if limits is None else limits.slow
        self._n_header_bytes = 0
        self._in_headers = True
        self._timer: asyncio.TimerHandle | None = None
        self._received = 0
        self._since = 0.0
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_headers:
            self._n_header_bytes += len(data)
        else:
            self._received += len(data)
        super().data_received(data)
        if self._in_headers and self._n_header_bytes > _HEADER_BYTES and not self.transport.is_closing():
            self._drop(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True
        self._start_timer()

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._n_header_bytes = self._received = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_timer()
        super().on_message_complete()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._since = self.loop.time()
            self._timer = self.loop.call_later(self._slow, self._look)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Time for the headers, or for as much of the body as has come, is over."""
        self._timer = None
        if self.transport.is_closing():
            return
        now = self.loop.time()
        if self._in_headers:
            allowed = self._since + self._slow
        elif self.flow.read_paused:  # it is we who don't take it
            self._since, self._received, allowed = now, 0, now + self._slow
        else:
            allowed = self._since + self._slow + self._received / _LEAST_RATE
        if now >= allowed - 0.001:
            self._drop(b"408 Request Timeout")
        else:
            self._timer = self.loop.call_later(max(0.05, min(allowed - now, self._slow)), self._look)

    def _drop(self, status: bytes) -> None:
        """Close the connection, with an answer where none has begun."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
