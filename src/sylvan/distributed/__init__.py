"""Trainings, rankings and vectors on several machines, on Ray: ``pip install "sylvan[ray]"``."""

from __future__ import annotations

from sylvan.distributed.ranking import RankedFiles, rank, rank_files
from sylvan.distributed.ray_runner import ray
from sylvan.distributed.shards import ray_shards

__all__ = ["RankedFiles", "rank", "rank_files", "ray", "ray_shards"]
