"""Who competes, by name, and the rates that each is tried with."""

from __future__ import annotations

from typing import Any

__all__ = ["CONTENDERS", "OPTIMIZERS", "PEERS", "POWERS", "RATES", "choices", "is_tree", "optimizers"]

Settings = dict[str, Any]
RATES = {  # of rows that are of unit length on average
    "adagrad": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    "sgd": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    "vw": (0.03, 0.1, 0.3, 1.0, 3.0),
}
OPTIMIZERS = ("adagrad", "sgd")
POWERS = (0.5, 0.75, 1.0)  # of the classes' frequencies, for who draws noises by them


def _cane(n_candidates: int, n_noises: int, **more: Any) -> Settings:
    """As the paper has it."""
    paper = {"loss": "cane", "scores": "path", "together": False}
    return {**paper, "n_candidates": n_candidates, "n_noises": n_noises, **more}


CONTENDERS: dict[str, Settings] = {
    "CANE-1v9": _cane(1, 9),
    "CANE-5v5": _cane(5, 5),
    "CANE-9v1": _cane(9, 1),
    "CANE-9v1-unigram": _cane(9, 1, noise="unigram"),  # an extension; the paper's noises are uniform
    "CANE-9v1-random": _cane(9, 1, tree="random"),  # what the tree brings
    "CANE-15v5": _cane(15, 5),
    "CANE-19v1": _cane(19, 1),
    "softmax": {"loss": "softmax"},
    "NCE-10": {"loss": "nce", "n_noises": 10, "noise": "unigram"},
    "NCE-20": {"loss": "nce", "n_noises": 20, "noise": "unigram"},
    "BlackOut-10": {"loss": "blackout", "n_noises": 10, "noise": "unigram"},
    "BlackOut-20": {"loss": "blackout", "n_noises": 20, "noise": "unigram"},
    "negative-sampling-10": {"loss": "negative_sampling", "n_noises": 10, "noise": "unigram"},
    "HSM": {"loss": "hsm"},
    "softmax-batches": {"torch": True},  # PyTorch, 256 rows a step: the softmax as most people train it
}
PEERS: dict[str, Settings] = {  # Vowpal Wabbit's reductions
    "VW-filter-tree": {"vw": "ect"},
    "VW-LOMTree": {"vw": "log_multi"},
    "VW-recall-tree": {"vw": "recall_tree"},
    "VW-oaa": {"vw": "oaa"},  # one against all: no tree, for the scale
}
_TREES = ("cane", "hsm")


def is_tree(name: str) -> bool:
    """Whether a contender of ours scores classes along a tree."""
    return CONTENDERS.get(name, {}).get("loss") in _TREES


def optimizers(name: str) -> tuple[str, ...]:
    """What a contender is trained with."""
    return ("vw",) if name in PEERS else OPTIMIZERS


def choices(name: str, *, balanced: bool) -> list[Settings]:
    """What is chosen together with the rate: the power of the noises, LOMTree's size and resistance to swaps."""
    if name == "VW-LOMTree":
        return [{"nodes": nodes, "swap_resistance": swaps} for nodes in (1, 4) for swaps in (4, 64)]
    if CONTENDERS.get(name, {}).get("noise") == "unigram" and not balanced:
        return [{"power": power} for power in POWERS]
    return [{}]
