"""Every node of a cluster is asked; one that leaves meanwhile is none, one that can't answer is named."""

from types import SimpleNamespace
from typing import Any

from kit.errors import raises

from sylvan.distributed.ray_runner import ask_nodes
from sylvan.errors import DataError


class Crashed(Exception):
    """What a lost worker raises."""


class Scripted:
    """Stands for Ray, with two nodes, of which the second crashes when it is asked, and is then ``alive`` or not."""

    exceptions = SimpleNamespace(TaskUnschedulableError=KeyError)
    util = SimpleNamespace(
        scheduling_strategies=SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node)
    )

    def __init__(self, alive: bool) -> None:
        self.alive, self.second = alive, True

    def remote(self, **_: int) -> Any:
        return lambda work: self

    def nodes(self) -> list[dict[str, Any]]:
        found = {"one": True, "two": self.second}
        return [{"NodeManagerHostname": name, "NodeID": name, "Alive": found[name]} for name in found]

    def options(self, scheduling_strategy: str) -> Any:
        return SimpleNamespace(remote=lambda: scheduling_strategy)

    def get(self, reference: str, timeout: float) -> str:
        if reference == "two":
            self.second = self.alive
            raise Crashed("the worker died")
        return reference


def test_a_node_that_leaves_is_none_and_one_that_stays_and_cant_answer_is_named() -> None:
    assert ask_nodes(Scripted(alive=False), print) == [("one", "one")]
    with raises(DataError, "two"):
        ask_nodes(Scripted(alive=True), print)
