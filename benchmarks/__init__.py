"""Measurements of Sylvan beside other libraries, run from the root: ``python -m benchmarks.linear.peers --help``."""

from pathlib import Path

__all__ = ["CACHE", "FIGURES", "RESULTS", "ROOT"]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CACHE = ROOT / "benchmarks" / "cache"  # prepared sets, checkpoints, models
FIGURES = ROOT / "docs" / "figures"
