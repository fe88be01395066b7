"""A served model: its current version, the engine that answers for it, and how a new version takes its place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from sylvan.serve.engine import Engine
from sylvan.serve.problems import Problem
from sylvan.serve.settings import Limits, ServedFolder
from sylvan.serve.versions import Version, open_version, reason, stamp_of


class Served:
    """A model by its name, whatever version of it is current. Requests take the current version once and keep it to
    their end, so that every answer is of one version. A new one takes its place when it is open, verified and warm;
    until then, and if anything is wrong with it, the old one stays. A first version whose ``examples`` or
    ``vocabulary`` are wrong is served without them."""

    def __init__(
        self, folder: ServedFolder, limits: Limits, batched: Callable[[int], None], changed: Callable[[Served], None]
    ) -> None:
        self.folder = folder
        self.current: Version | None = None  # None while the first one is being opened
        self.refused: str | None = None  # why the newest version on disk isn't served
        self.looked = False  # whether the folder was looked at at all
        self.engine = Engine(folder.name, limits.queue, limits.seconds, batched)
        self._changed = changed
        self._stamp: tuple[int, ...] | None = None
        self._reloading = asyncio.Lock()

    @property
    def name(self) -> str:
        """What it is called in addresses."""
        return self.folder.name

    @property
    def message(self) -> str | None:
        """What is wrong: why the newest version on disk isn't served, or which settings the current one is without."""
        faults = self.current.faults if self.current is not None else []
        return self.refused or " ".join(faults) or None

    def version(self) -> Version:
        """The current version."""
        if self.current is None:
            why = f"can't be opened: {self.refused}" if self.refused else "is being opened."
            raise Problem(503, f"The model {self.name!r} {why}", {"Retry-After": "1"})
        return self.current

    async def reload(self, force: bool = False) -> bool:
        """Open what is in the folder now, if that isn't what was looked at last; whether a new version is current. A
        version that can't be opened leaves the old one where it is; ``refused`` says why."""
        async with self._reloading:
            stamp = stamp_of(self.folder.folder)
            if stamp == self._stamp and self.looked and not force:
                return False
            loop = asyncio.get_running_loop()
            before = self.current
            try:
                new = await loop.run_in_executor(None, open_version, self.folder)
            except Exception as error:
                self.refused = reason(error)
            else:
                worse = bool(new.faults) and before is not None and not before.faults
                self.refused = " ".join(new.faults) if worse else None
                if not worse and (before is None or new.checksum != before.checksum or force):
                    self.current = new
            self._stamp, self.looked = stamp, True
            self._changed(self)
            return self.current is not before and (before is None or self.current.checksum != before.checksum)  # type: ignore[union-attr]

    async def watch(self, seconds: float) -> None:
        """Look at the manifest now and then, for ever."""
        while True:
            started = time.monotonic()
            await self.reload()
            await asyncio.sleep(max(0.0, seconds - (time.monotonic() - started)))

    def close(self) -> None:
        """End the engine."""
        self.engine.close()
        close: Any = getattr(self.current.model, "close", None) if self.current is not None else None
        if close is not None:
            close()
