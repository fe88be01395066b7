"""A damaged copy in the Hub's cache: the error says how the model is fetched again."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan import XRLinear
from sylvan.errors import ModelError


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize("name", ["from_pretrained", "pull"])
@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_how_a_damaged_copy_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: Any
) -> None:
    copy = tmp_path / "models--owner--name"
    folder = copy / "snapshots" / "0123"
    XRLinear(n_jobs=1).fit(np.eye(3), [[0], [1], [2]]).save(folder)
    module = importlib.import_module("sylvan.remote.client")
    monkeypatch.setattr(module, "download", lambda *_: (str(folder), None))
    monkeypatch.setattr(module, "check_links", lambda *_: None)
    damage(next(folder.glob("*.npy")))
    with raises(ModelError, "Hub", f"delete {copy}"):
        getattr(module, name)("owner/name")
