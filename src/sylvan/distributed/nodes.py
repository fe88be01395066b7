"""Asking every node of a cluster something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sylvan.errors import DataError

__all__ = ["on_each_node"]

_PATIENCE = 60.0  # seconds in which every node must have answered


def on_each_node(module: Any, asked: Any, *arguments: Any) -> Iterator[tuple[str, Any]]:
    """The name of each node that is there, and its answer.

    Parameters
    ----------
    module : module
        Ray, connected to a cluster.
    asked : remote function
    *arguments
        What it is called with.

    Raises
    ------
    DataError
        When a node can't run it, or doesn't answer.
    """
    strategy = module.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    nodes = [node for node in module.nodes() if node["Alive"]]
    answers = [
        (node["NodeManagerHostname"], node["NodeID"],
         asked.options(scheduling_strategy=strategy(node["NodeID"], soft=False)).remote(*arguments))
        for node in nodes
    ]  # fmt: skip
    for name, number, reference in answers:
        try:
            answer = module.get(reference, timeout=_PATIENCE)
        except module.exceptions.TaskUnschedulableError:
            continue  # a node that has just left the cluster runs nothing
        except Exception as error:
            if number not in {node["NodeID"] for node in module.nodes() if node["Alive"]}:
                continue  # it left while it was asked
            lines = str(error).strip().splitlines()
            why = lines[-1] if lines else type(error).__name__
            raise DataError(f"The node {name!r} can't run Sylvan: {why}") from error
        yield name, answer
