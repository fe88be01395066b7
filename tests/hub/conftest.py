"""The Hub's stand-in in place of the Hub, an empty cache, and a token in the environment."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("huggingface_hub", reason="needs the extra hub")

import huggingface_hub
import huggingface_hub.constants
import huggingface_hub.file_download
import huggingface_hub.hf_api
import huggingface_hub.utils._http
from hub_server import LABELS, TEXTS, WRITER, Hub, hub_server
from kit.commands import call, place, refused  # noqa: F401

from sylvan import TextModel, TfidfVectorizer, XRLinear


class Clock:
    """The time, for the client alone: between its attempts it doesn't wait."""

    def __getattr__(self, name: str) -> Any:
        return (lambda seconds: None) if name == "sleep" else getattr(time, name)


@pytest.fixture(scope="session")
def shared() -> Iterator[Hub]:
    """One Hub for all tests: its client keeps its connections, and reads its certificates once."""
    close = getattr(huggingface_hub, "close_session", lambda: None)
    close()
    with hub_server() as served:
        yield served
    close()


@pytest.fixture
def hub(shared: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The client reads its settings when it is imported, which other tests may have done."""
    constants = huggingface_hub.constants
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    settings = {
        "ENDPOINT": shared.url, "HUGGINGFACE_CO_URL_TEMPLATE": shared.url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_TOKEN_PATH": str(tmp_path / "no-token"), "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True, "HF_HUB_DISABLE_TELEMETRY": True,
    }  # fmt: skip
    for name, value in settings.items():
        for module in (constants, huggingface_hub.file_download, huggingface_hub.hf_api):
            if hasattr(module, name):  # some versions take copies
                monkeypatch.setattr(module, name, value)
    monkeypatch.setenv("HF_ENDPOINT", shared.url)
    monkeypatch.setenv("HF_TOKEN", WRITER)
    monkeypatch.setattr(huggingface_hub.utils._http, "time", Clock())
    shared.clear()
    return shared


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a text model."""
    folder = tmp_path_factory.mktemp("saved") / "books"
    TextModel(TfidfVectorizer(), XRLinear(branching=3, max_leaf=2)).fit(TEXTS, LABELS).save(folder)
    return str(folder)
