"""What the machine says of its memory: plausible here, and read right from control groups of both kinds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sylvan.runtime import machine


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")
def test_resident_memory_follows_what_is_held() -> None:
    before, private = machine.resident_bytes(), machine.private_bytes()
    allocated = np.ones(400_000_000, np.uint8)  # what else comes and goes meanwhile is small beside it
    assert 200e6 < machine.resident_bytes() - before < 600e6
    assert 200e6 < machine.private_bytes() - private < 600e6
    assert len(allocated) and (machine.available_bytes() or 0) > 1e6


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
    assert machine._room(str(tmp_path)) == 500


def test_no_limit_and_no_group(tmp_path: Path) -> None:
    assert machine._room(str(tmp_path / "nowhere")) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("800\n")
    assert machine._room(str(tmp_path)) is None


def test_a_system_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", refuse)
    assert machine.available_bytes() is None
    assert machine.resident_bytes() == machine.INTERPRETER
    assert machine.private_bytes(7) == 60_000_007
