"""Training on several machines, on Ray: ``pip install "sylvan[ray]"``."""

from __future__ import annotations

from sylvan.distributed.cluster import ray

__all__ = ["ray"]
