"""The section of docs/results.md on how near MIDX's codewords come to the softmax."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["codewords_section"]

_MEASURES = ("ln_d2", "kl_q_p", "kl_p_q")


def codewords_section(folder: Path) -> list[str]:
    """What ``codeword_learning.py`` found, nearest first."""
    path = folder / "codeword-learning.json"
    if not path.exists():
        return []
    record = json.loads(path.read_text())
    intro = (
        f"By `benchmarks/codeword_learning.py`: an LSTM trained on Penn Treebank by the full softmax for "
        f"{record['steps']} steps, codewords made from queries of training text ({record['joint_steps']} steps where "
        f"they are learned jointly, as in the paper's 6.2.3), means over {record['queries']} queries of other text. "
        "ln d₂(P‖Q) bounds the gradient's bias (the paper's Theorem 6). The longer a network was trained, and the "
        "faster its class table moves, the further every sampler is: table 5 above has the same after a whole epoch."
    )
    lines = ["", "### How near codewords come", "", intro, ""]
    lines += ["| | ln d₂(P‖Q) | KL(Q‖P) | KL(P‖Q) |", "|---|---|---|---|"]
    for name, found in sorted(record["samplers"].items(), key=lambda item: item[1]["ln_d2"]):
        lines.append(f"| {name} | " + " | ".join(f"{found[measure]:.2f}" for measure in _MEASURES) + " |")
    return lines
