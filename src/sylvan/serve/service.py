"""What an application serves with: its models, keys, metrics and log, from start to end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
import traceback
from collections.abc import Coroutine
from typing import Any

from sylvan.serve.bodies import Bodies, make_bodies
from sylvan.serve.calls import Call
from sylvan.serve.monitoring import Log, Metrics, say
from sylvan.serve.problems import Problem
from sylvan.serve.settings import Keyring, Limits, Settings
from sylvan.serve.versions import Served, Version

_HOUSEKEEPING = 0.1  # seconds between two times that the log is written and gauges are set


class Service:
    """The parts of a server that its routes use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limits: Limits = settings.limits
        self.bodies: Bodies = make_bodies(settings.limits)
        self.metrics, self.keyring = Metrics(), Keyring(settings.keys)
        self.served: dict[str, Served] = {}  # by name; empty until it is started
        self.draining = False  # whether it was told to end, and answers what still comes
        self.openapi = b"{}"  # the OpenAPI document
        self.log: Log | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._versions: dict[str, tuple[str, str | None]] = {}  # of a model: what is current and what was refused
        self._ids = itertools.count()
        self._prefix = secrets.token_hex(4)

    @property
    def started(self) -> bool:
        """Whether it is at work."""
        return bool(self.served)

    @property
    def has_open(self) -> bool:
        """Whether there is a model that answers."""
        return any(served.current is not None for served in self.served.values())

    def new_id(self) -> str:
        """An id for a request that came without one."""
        return f"{self._prefix}-{next(self._ids):x}"

    def start(self) -> None:
        """Begin to open the models, in threads; called in the event loop."""
        for folder in self.settings.models:
            batched = self.metrics.batched(folder.name)
            self.served[folder.name] = Served(folder, self.limits, batched, self._changed)
        if self.settings.log:
            self.log = Log(self.metrics.dropped)
        for served in self.served.values():
            self._begin(served.watch(self.settings.watch))
        self._begin(self._keep_house())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(_said(work)))

    async def stop(self) -> None:
        """End what was begun."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for served in self.served.values():
            await asyncio.get_running_loop().run_in_executor(None, served.close)
        if self.log is not None:
            await asyncio.get_running_loop().run_in_executor(None, self.log.close)
        self.served, self._tasks = {}, []

    async def opened(self) -> None:
        """Wait until every model is open, or can't be opened."""
        while not all(served.looked for served in self.served.values()):
            await asyncio.sleep(_HOUSEKEEPING / 4)

    async def reload_all(self) -> None:
        """Look at all manifests now."""
        for served in self.served.values():
            await served.reload(force=served.message is not None)

    def find(self, name: str) -> Served:
        """The model of that name."""
        result = self.served.get(name)
        if result is None:
            known = ", ".join(map(repr, self.served))
            raise Problem(404, f"There is no model {name!r:.100} here. There is: {known}.")
        return result

    def asked(self, call: Call, parameter: str = "model") -> tuple[Served, Version]:
        """The model that a request's path names by a parameter, and its current version; noted for log and metrics."""
        served = self.find(call.params[parameter])
        call.model = served.name  # not what a client made up, which would fill log and metrics
        version = served.version()
        call.version = version.checksum
        return served, version

    def readiness(self) -> dict[str, Any]:
        """Whether the models can answer, and what is wrong with each. A model that can't be opened takes none of the
        others away: it is named, and they are ready."""
        models = {
            name: {
                "ready": served.current is not None,
                "version": None if served.current is None else served.current.checksum,
                "message": served.message,
            }
            for name, served in self.served.items()
        }
        looked = all(served.looked for served in self.served.values())
        ready = looked and self.has_open and not self.draining
        return {"ready": ready, "draining": self.draining, "models": models}

    def _changed(self, served: Served) -> None:
        """A model's folder was looked at: say what is new."""
        old, message = self._versions.get(served.name, ("", None))
        now = "" if served.current is None else served.current.checksum
        if served.refused and served.refused != message:
            stays = f" The version {now} is still served." if now else ""
            say(f"The model {served.name!r} on disk can't be served: {served.refused}{stays}")
            self.metrics.refused(served.name)
        if now != old:
            say(f"Serving {served.name!r} from {served.folder.folder}, version {now}.")
            self.metrics.version(served.name, old or None, now, time.time())
        if served.message and not served.refused and served.message != message:
            say(f"The model {served.name!r} is served, but: {served.message}")
        self._versions[served.name] = (now, served.message)

    async def _keep_house(self) -> None:
        """Write the log and set the gauges now and then."""
        for turn in itertools.count():
            if self.log is not None:
                self.log.flush()
            if turn % 10 == 0:
                with contextlib.suppress(OSError):
                    self.metrics.memory()
                for name, served in self.served.items():
                    self.metrics.queue(name, served.engine.waiting)
            await asyncio.sleep(_HOUSEKEEPING)


async def _said(work: Coroutine[Any, Any, None]) -> None:
    """Say it where work that has no end ends in an error: nobody else would hear of it."""
    try:
        await work
    except Exception as error:
        say(f"Something went wrong inside the server ({type(error).__name__}: {error}).")
        traceback.print_exception(type(error), error, error.__traceback__)
