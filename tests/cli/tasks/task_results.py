"""What ``sylvan task`` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def results(folder: Path) -> dict[str, Any]:
    """The results of a training."""
    written: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return written
