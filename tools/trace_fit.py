#!/usr/bin/env python3
"""How far a reader must go to follow one training, one ranking or one request of the service: the files and functions
of Sylvan that a ``fit`` runs through, a ``rank`` of two texts, and an HTTP body with two texts.

    tools/trace_fit.py [MODEL ...] [--list] [--json]

Small data, one thread, no limit of memory and no checkpoint. Of three times the first, which loads what is imported
when it is needed, isn't counted, and the shorter of the others is shown. For each: the files whose code ran; the
functions (names in a file, so that all comprehensions of a file are one); and the changes of file, which are the calls
that enter another file than the call before them. Returns don't count. Comprehensions are calls up to Python 3.11, so
compare figures of one version only.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import scipy.sparse as sp

import sylvan

SOURCE = Path(sylvan.__file__).parent
Actions = Iterator[Callable[[], Any]]  # the same three times
WORDS = ("whale", "sea", "bread", "oven", "law", "court", "star", "moon")


@dataclass
class Trace:
    """The calls of functions of Sylvan, in their order."""

    calls: list[tuple[str, str]] = field(default_factory=list)  # file and function

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note what is called, in threads that are started meanwhile too."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            self.calls.append((code.co_filename, code.co_name))

    def files(self) -> list[str]:
        """The files, by when they were first entered."""
        return [Path(file).relative_to(SOURCE).as_posix() for file in dict.fromkeys(file for file, _ in self.calls)]

    def counts(self) -> dict[str, int]:
        """The figures of a line."""
        files = [file for file, _ in self.calls]
        changes = sum(before != after for before, after in zip([None, *files], files, strict=False))
        return {"files": len(set(files)), "functions": len(set(self.calls)), "changes_of_file": changes}


def matrices() -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """300 rows of 60 features and 120 labels, three of them a row."""
    rng = np.random.default_rng(0)
    X = sp.random(300, 60, 0.2, format="csr", random_state=0, dtype=np.float32)
    return X, sp.csr_matrix((rng.random((300, 120)) < 3 / 120).astype(np.float32))


def tagged() -> tuple[list[str], list[list[str]]]:
    """48 texts with one or two labels."""
    pairs = [(WORDS[i % 8], WORDS[(i * 3 + 1) % 8]) for i in range(48)]
    texts = [f"{first} {second} {first} common words" for first, second in pairs]
    return texts, [[first, second] if i % 3 == 0 else [first] for i, (first, second) in enumerate(pairs)]


def fits(build: Callable[[], Any], data: tuple[Any, ...]) -> Actions:
    """Three trainings."""
    for _ in range(3):
        yield partial(build().fit, *data)


def xr_linear() -> Actions:
    from sylvan import XRLinear

    return fits(lambda: XRLinear(branching=4, max_leaf=20, n_jobs=1), matrices())


def irli() -> Actions:
    from sylvan import IRLIClassifier

    return fits(lambda: IRLIClassifier(n_buckets=8, n_repetitions=2, hidden=8, seed=0, n_jobs=1), matrices())


def beam_tree() -> Actions:
    from sylvan import BeamTreeClassifier

    X, _ = matrices()
    return fits(lambda: BeamTreeClassifier(branching=4, seed=0, n_jobs=1), (X, np.arange(X.shape[0]) % 60))


def xr_transformer() -> Actions:
    from sylvan import TransformerMatcher, XRLinear, XRTransformer
    from sylvan.neural import BagTextEncoder

    settings = {"preset": "tiny", "device": "cpu", "seed": 0, "n_jobs": 1}
    matcher, ranker = TransformerMatcher(epochs=2.0), XRLinear(branching=2, max_leaf=2)
    encoder = BagTextEncoder(dim=8, n_buckets=64)
    return fits(lambda: XRTransformer(encoder, matcher=matcher, ranker=ranker, **settings), tagged())


def text_model() -> Any:
    """A model of texts that is trained."""
    from sylvan import TextModel, TfidfVectorizer, XRLinear

    return TextModel(TfidfVectorizer(), XRLinear(branching=2, max_leaf=2, n_jobs=1)).fit(*tagged())


def ranking() -> Actions:
    """Three rankings of two texts."""
    model = text_model()
    for _ in range(3):
        yield partial(model.rank, tagged()[0][:2], k=3)


def http_body() -> Actions:
    """Three requests that a service answers with the labels of two texts; it starts with the first."""
    import asyncio

    from sylvan.serve.application import App
    from sylvan.serve.settings import ServedFolder, Settings

    body = json.dumps({"texts": tagged()[0][:2], "k": 3}).encode()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "root_path": "",
        "path": "/v1/models/model/rank", "raw_path": b"/v1/models/model/rank", "query_string": b"", "scheme": "http",
        "headers": [(b"content-type", b"application/json")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def ask() -> None:
        if not app.service.started:
            app.service.start()
            await app.service.opened()
        await app(dict(scope), receive, send)

    with tempfile.TemporaryDirectory() as folder:
        text_model().save(f"{folder}/model")
        app = App(Settings((ServedFolder("model", f"{folder}/model"),), watch=3600.0, log=False))
        loop = asyncio.new_event_loop()
        for _ in range(3):
            sent.clear()
            yield lambda: loop.run_until_complete(ask())
            assert sent[0]["status"] == 200, sent
        loop.run_until_complete(app.service.stop())
        loop.close()


ACTIONS = {
    "XRLinear": xr_linear,
    "IRLIClassifier": irli,
    "BeamTreeClassifier": beam_tree,
    "XRTransformer": xr_transformer,
    "TextModel.rank": ranking,
    "HTTP": http_body,
}


def traced(actions: Actions) -> Trace:
    """The shortest trace of some actions but the first: on a busy machine one may call more."""
    trace, traces = Trace(), []
    with trace.running():  # before threads are started that later actions use again
        for action in actions:
            trace.calls.clear()
            action()
            traces.append(Trace(list(trace.calls)))
    return min(traces[1:], key=lambda each: each.counts()["functions"])


def main() -> None:
    """Traces what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(ACTIONS)}; by default all")
    parser.add_argument("--list", action="store_true", help="the files too, by when they were first entered")
    parser.add_argument("--json", action="store_true", help="as JSON, with the version of Python")
    options = parser.parse_args()
    if unknown := set(options.models) - set(ACTIONS):
        parser.error(f"no {', '.join(sorted(unknown))}; there are {', '.join(ACTIONS)}")
    found = {name: traced(ACTIONS[name]()) for name in options.models or ACTIONS}
    if options.json:
        figures = {name: trace.counts() | {"entered": trace.files()} for name, trace in found.items()}
        print(json.dumps({"python": platform.python_version(), "models": figures}, indent=1))
        return
    for name, trace in found.items():
        counts = trace.counts()
        print(f"{name}: {counts['files']} files, {counts['functions']} functions, "
              f"{counts['changes_of_file']} changes of file")  # fmt: skip
        if options.list:
            print(*(f"  {file}" for file in trace.files()), sep="\n")


if __name__ == "__main__":
    main()
