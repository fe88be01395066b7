"""Training on several machines, and vectors on several machines, on Ray: ``pip install "sylvan[ray]"``."""

from __future__ import annotations

from sylvan.distributed.cluster import ray
from sylvan.distributed.shards import ray_shards

__all__ = ["ray", "ray_shards"]
