"""Small models that all tests of the server share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sylvan import TextModel, XRLinear, data


@dataclass
class Fitted:
    """A model, the folder it is saved in, and texts that it hasn't seen."""

    model: Any
    folder: Path
    texts: list[str] = field(default_factory=list)
    _known: dict[tuple[int, int], list[dict[str, Any]]] = field(default_factory=dict)

    def expected(self, texts: Sequence[str], k: int = 10) -> list[dict[str, Any]]:
        """What the server must answer, of the model itself."""
        top = self.model.rank(list(texts), k=k)
        return [
            {"labels": list(names), "scores": [float(s) for s in scores[: len(names)]]}
            | ({} if names else {"unknown": True})
            for names, scores in zip(top.names, top.scores, strict=True)
        ]


def _sample(first: int, end: int) -> tuple[list[str], list[list[str]]]:
    train = data.load_sample().train
    return train.texts[first:end], train.labels[first:end]


@pytest.fixture(scope="session")
def unseen() -> list[str]:
    """Texts that no model was trained on."""
    return list(data.load_sample().test.texts)


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory, unseen: list[str]) -> Fitted:
    """A model from texts to labels, in a folder that no test changes."""
    folder = tmp_path_factory.mktemp("models") / "first"
    model = TextModel().fit(*_sample(0, 5000))
    model.save(folder)
    return Fitted(model, folder, unseen)


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory, unseen: list[str]) -> Fitted:
    """Another one, of other texts."""
    folder = tmp_path_factory.mktemp("models") / "second"
    model = TextModel().fit(*_sample(5000, 10000))
    model.save(folder)
    return Fitted(model, folder, unseen)


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """A model over features, whose labels are ids."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("models") / "numbers"
    model = XRLinear(seed=0).fit(rng.random((400, 30), dtype=np.float32), [[i % 50, i % 7] for i in range(400)])
    model.save(folder)
    return Fitted(model, folder)
