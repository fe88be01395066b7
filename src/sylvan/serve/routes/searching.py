"""``POST /v1/models/{model}/search``: the nearest vectors of an index."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from sylvan.params.wording import counted
from sylvan.serve.calls import JSON, Call, Reply, decode
from sylvan.serve.openapi import Operation
from sylvan.serve.problems import Problem
from sylvan.serve.routes.ranking import MODEL
from sylvan.serve.service import Service
from sylvan.serve.versions import Version


class NearestVectors(msgspec.Struct):
    """The nearest vectors to one query, nearest first."""

    ids: list[int]
    distances: list[float]


class Found(msgspec.Struct):
    """The nearest vectors to each query, in the order of the queries."""

    results: list[NearestVectors]


def operations(service: Service) -> list[Operation]:
    """The route."""
    kind = service.bodies.search

    async def search(call: Call) -> Reply:
        served, version = service.asked(call)
        if version.takes != "vectors":
            raise Problem(422, f"The model {call.model!r} ranks labels; only an index of vectors is searched.")
        call.need_type(JSON)
        served.engine.check_room()
        body = decode(await call.body(), kind)
        call.rows = len(body.vectors)
        width = version.model.n_dimensions_
        for number, vector in enumerate(body.vectors):
            if len(vector) != width:
                raise Problem(
                    422,
                    f"The 'vectors' field must hold vectors of {counted(width, 'number')}. Got {len(vector)} in vector "
                    f"{number}.",
                )
        if not body.vectors:
            return Reply.of(Found([]), version.headers())
        options = (("k", body.k), ("probes", body.probes), ("candidates", body.candidates),
                   ("min_votes", body.min_votes), ("order", body.order))  # fmt: skip
        rows = await served.engine.ask((version, options), body.vectors, lambda rows: _nearest(version, options, rows))
        return Reply.of(Found(rows), version.headers())

    return [
        Operation(
            "POST", "/v1/models/{model}/search", search, "Finds the nearest vectors of an index.", Found, {JSON: kind},
            parameters=(MODEL,), errors=(404, 429, 503), tag="ranking",
        )
    ]  # fmt: skip


def _nearest(version: Version, options: tuple[tuple[str, Any], ...], rows: list[Any]) -> list[NearestVectors]:
    ids, distances = version.model.search(np.array(rows, np.float32), **dict(options))
    results = []
    for row, far in zip(ids.tolist(), distances.tolist(), strict=True):
        n = row.index(-1) if -1 in row else len(row)
        results.append(NearestVectors(row[:n], far[:n]))
    return results
