"""Small models that all tests of the server share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.books import load_sample
from kit.commands import call, place, refused  # noqa: F401

from sylvan import TextModel, XRLinear


@dataclass
class Fitted:
    """A model, the folder it is saved in, and texts that it hasn't seen."""

    model: Any
    folder: Path
    texts: list[str] = field(default_factory=list)

    def expected(self, texts: Sequence[str], k: int = 10) -> list[dict[str, Any]]:
        """What the server must answer, of the model itself."""
        top = self.model.rank(list(texts), k=k)
        return [
            {"labels": list(names), "scores": [float(s) for s in scores[: len(names)]]}
            | ({} if names else {"unknown": True})
            for names, scores in zip(top.names, top.scores, strict=True)
        ]


def _fitted(folder: Path, rows: slice) -> Fitted:
    train, test = load_sample()
    model = TextModel().fit(train.texts[rows], train.labels[rows])
    model.save(folder)
    return Fitted(model, folder, list(test.texts))


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """A model from texts to labels, in a folder that no test changes."""
    return _fitted(tmp_path_factory.mktemp("models") / "first", slice(0, 1000))


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """Another one, of other texts."""
    return _fitted(tmp_path_factory.mktemp("models") / "second", slice(1000, 2000))


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """A model over features, whose labels are ids."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("models") / "numbers"
    model = XRLinear(seed=0).fit(rng.random((400, 30), dtype=np.float32), [[i % 50, i % 7] for i in range(400)])
    model.save(folder)
    return Fitted(model, folder)
