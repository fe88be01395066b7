"""What the machine says of its memory: plausible here, and read right from control groups of both kinds."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sylvan.runtime import memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")
def test_resident_memory_follows_what_is_held() -> None:
    before, private = memory.resident_bytes(), memory.private_bytes()
    allocated = np.ones(400_000_000, np.uint8)  # what else comes and goes meanwhile is small beside it
    assert 200e6 < memory.resident_bytes() - before < 600e6
    assert 200e6 < memory.private_bytes() - private < 600e6
    assert len(allocated) and (memory.available_bytes() or 0) > 1e6


@pytest.mark.parametrize(
    ("names", "stat"),
    [
        (("memory.max", "memory.current"), "inactive_file 300\nanon 5\n"),
        (("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file 9\ninactive_file 300\n"),
    ],
    ids=["version 2", "version 1"],
)
def test_room_in_a_control_group(tmp_path: Path, names: tuple[str, str], stat: str) -> None:
    (tmp_path / names[0]).write_text("1000\n")
    (tmp_path / names[1]).write_text("800\n")
    (tmp_path / "memory.stat").write_text(stat)
    assert memory._room(str(tmp_path)) == 500


def test_no_limit_and_no_group(tmp_path: Path) -> None:
    assert memory._room(str(tmp_path / "nowhere")) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("800\n")
    assert memory._room(str(tmp_path)) is None


def test_a_system_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", refuse)
    assert memory.available_bytes() is None
    assert memory.resident_bytes() == memory.INTERPRETER
    assert memory.private_bytes(7) == 60_000_007
