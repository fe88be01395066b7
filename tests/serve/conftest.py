"""Small models that all tests of the server share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.books import load_sample
from kit.commands import call, place, refused  # noqa: F401
from serve.models import sample, saved, text_model

import sylvan
from sylvan import TextModel, XRLinear, data


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


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """The folder of a small model, for applications in this process."""
    text_model().save(tmp_path / "books")
    return tmp_path / "books"


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Those of small models of all kinds, by name."""
    return saved(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def model(folders: dict[str, str]) -> Any:
    return sylvan.load(folders["books"])


@pytest.fixture(scope="session")
def asking(folders: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An application that serves them in this process, books with its training rows as examples."""
    from serve.asgi import running

    from sylvan import serve

    texts, labels, _ = sample()
    examples = tmp_path_factory.mktemp("examples") / "train.jsonl.bz2"
    data.write_jsonl(examples, texts, labels)
    models = [
        serve.ServedFolder(name, path, examples=str(examples) if name == "books" else None)
        for name, path in folders.items()
    ]
    with running(serve.app(models)) as application:
        yield application
