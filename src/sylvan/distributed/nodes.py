"""Asking every node of a cluster something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sylvan.errors import DataError

_PATIENCE = 60.0  # seconds in which every node must have answered


def ask_nodes(module: Any, work: Callable[..., Any], *arguments: Any) -> list[tuple[str, Any]]:
    """What a worker of every node answers: names of nodes and answers; parameters and errors as those below. ``work``
    is a function of a module."""
    return list(on_each_node(module, module.remote(num_cpus=0, max_retries=0)(work), *arguments))


def on_each_node(module: Any, asked: Any, *arguments: Any) -> Iterator[tuple[str, Any]]:
    """The name of each node that is there, and its answer."""
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
