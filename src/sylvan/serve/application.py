"""The application: from an ASGI request to a route's answer, its headers, its line in the log and its counts."""

from __future__ import annotations

import asyncio
import time
import traceback

import msgspec
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from sylvan.errors import MemoryLimitError, ModelError, SylvanError
from sylvan.serve.calls import Call, ClientGone, Operation, Reply, document, send_reply
from sylvan.serve.problems import PROBLEM_TYPE, Problem
from sylvan.serve.routes import all_operations
from sylvan.serve.service import Service, say
from sylvan.serve.settings import Settings

_GONE = 499  # as nginx counts clients that left: nobody reads this status


class App:
    """An ASGI application that serves models; see :func:`sylvan.serve.app`. Its settings have been checked: a worker
    that is started later serves what it can, whatever has become of the models' folders."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.service = Service(self.settings)
        self.operations: list[Operation] = all_operations(self.service)  # all of its routes
        self.service.openapi = msgspec.json.encode(document(self.operations, bool(self.settings.keys)))
        routes = [Route(each.path, each, methods=[each.method]) for each in self.operations]
        self._router = Router(routes, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI calls it."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            if not self.service.started:  # mounted in an application that passes no lifespan on
                self.service.start()
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.service.start()
                if self.settings.wait or self.settings.workers > 1:  # the others answer meanwhile
                    await self.service.opened()
                if self.settings.wait and not self.service.has_open:
                    wrong = list(self.service.served.values())
                    await self.service.stop()
                    sentences = (f"The model {each.name!r} can't be opened: {each.refused}" for each in wrong)
                    await send({"type": "lifespan.startup.failed", "message": " ".join(sentences)})
                    return
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.service.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        call = Call(scope, receive, self.service)
        scope["app"], scope["sylvan.call"] = self, call
        try:
            await self._router(scope, receive, send)
        except ClientGone:
            call.status = _GONE
        except asyncio.CancelledError:
            call.status = _GONE
            raise
        except Exception as error:
            await _refuse(error, call, send)
        finally:
            self._note(call, time.perf_counter() - started)
            # A circle would leave the request to the garbage collector, which under load comes to it minutes later.
            del scope["sylvan.call"]

    def _note(self, call: Call, seconds: float) -> None:
        """Count the request, and write its line."""
        self.service.metrics.request(call.route or "none", call.model, call.status, seconds)
        if self.service.log is not None:
            self.service.log.add(
                id=call.id, method=call.scope["method"], route=call.route or "none", model=call.model,
                status=call.status, milliseconds=round(seconds * 1e3, 3), rows=call.rows, key=call.key,
                client=(call.scope.get("client") or ("",))[0],
                version="" if call.version is None else call.version.checksum,
            )  # fmt: skip


async def _refuse(error: Exception, call: Call, send: Send) -> None:
    """Answer with what is wrong; where an answer has begun already, end the connection."""
    problem = _problem_of(error)
    if problem.status == 500:
        say(f"Request {call.id}:\n{''.join(traceback.format_exception(error))}")
    if call.status:
        raise error
    if problem.pause:
        await asyncio.sleep(problem.pause)
    headers = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in problem.headers.items()]
    await send_reply(send, Reply(problem.body(call.id), problem.status, PROBLEM_TYPE, headers), call)


def _problem_of(error: Exception) -> Problem:
    """The answer to whatever was raised."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):  # of the router
        sentence = {404: "There is nothing at this address.", 405: "This address takes another method."}
        return Problem(error.status_code, sentence.get(error.status_code, error.detail), error.headers)
    if isinstance(error, MemoryLimitError | MemoryError):
        return Problem(503, "There is not enough memory for this request.")
    if isinstance(error, SylvanError):
        return Problem(503 if isinstance(error, ModelError) else 422, str(error))
    return Problem(500, "Something went wrong inside the server; its log says what, beside this request's id.")
