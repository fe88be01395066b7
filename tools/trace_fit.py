#!/usr/bin/env python3
"""How far a reader must go to follow one training: the files and functions of Sylvan that a ``fit`` runs through.

    tools/trace_fit.py [MODEL ...] [--list] [--json]

Small data, one thread, no limit of memory and no checkpoint; a ``fit`` before it, which isn't counted, loads what is
imported when it is needed. For each model: the files whose code ran; the functions (names in a file, so that all
comprehensions of a file are one); and the changes of file, which are the calls that enter another file than the call
before them. Returns don't count. Comprehensions are calls up to Python 3.11, so compare figures of one version only.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import scipy.sparse as sp

import sylvan

SOURCE = Path(sylvan.__file__).parent
Training = tuple[Callable[[], Any], tuple[Any, ...]]  # what makes a model, and what it learns from
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


def xr_linear() -> Training:
    from sylvan import XRLinear

    return lambda: XRLinear(branching=4, max_leaf=20, n_jobs=1), matrices()


def irli() -> Training:
    from sylvan import IRLIClassifier

    return lambda: IRLIClassifier(n_buckets=8, n_repetitions=2, hidden=8, seed=0, n_jobs=1), matrices()


def beam_tree() -> Training:
    from sylvan import BeamTreeClassifier

    X, _ = matrices()
    return lambda: BeamTreeClassifier(branching=4, seed=0, n_jobs=1), (X, np.arange(X.shape[0]) % 60)


def xr_transformer() -> Training:
    from sylvan import TransformerMatcher, XRLinear, XRTransformer
    from sylvan.neural import BagTextEncoder

    pairs = [(WORDS[i % 8], WORDS[(i * 3 + 1) % 8]) for i in range(48)]
    texts = [f"{first} {second} {first} common words" for first, second in pairs]
    labels = [[first, second] if i % 3 == 0 else [first] for i, (first, second) in enumerate(pairs)]
    settings = {"preset": "tiny", "device": "cpu", "seed": 0, "n_jobs": 1}
    matcher, ranker = TransformerMatcher(epochs=2.0), XRLinear(branching=2, max_leaf=2)
    encoder = BagTextEncoder(dim=8, n_buckets=64)
    return lambda: XRTransformer(encoder, matcher=matcher, ranker=ranker, **settings), (texts, labels)


MODELS = {
    "XRLinear": xr_linear,
    "IRLIClassifier": irli,
    "BeamTreeClassifier": beam_tree,
    "XRTransformer": xr_transformer,
}


def traced(training: Training) -> Trace:
    """The trace of a ``fit`` after another one."""
    build, data = training
    build().fit(*data)
    model, trace = build(), Trace()
    with trace.running():
        model.fit(*data)
    return trace


def main() -> None:
    """Traces what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; by default all")
    parser.add_argument("--list", action="store_true", help="the files too, by when they were first entered")
    parser.add_argument("--json", action="store_true", help="as JSON, with the version of Python")
    options = parser.parse_args()
    if unknown := set(options.models) - set(MODELS):
        parser.error(f"no {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    found = {name: traced(MODELS[name]()) for name in options.models or MODELS}
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
