"""The section of docs/results.md on ensembles."""

from __future__ import annotations

from typing import Any

__all__ = ["ensembles_section"]


def ensembles_section(records: list[dict[str, Any]]) -> list[str]:
    """What ``ensembles.py`` found, a table a set."""
    if not records:
        return []
    lines = [
        "",
        "## Ensembles",
        "",
        "By `benchmarks/ensembles.py`, on one thread, from raw texts to a trained model, vectorisers included "
        "(libpecos: from finished features, whose time is left out). Words, pairs of words and characters are n-grams "
        "1, 1 to 2 (frequent: 120,000 of them), and runs of 4 characters within words; neighbours are a "
        "`NeighborRanker` on characters (eurlex57k: on words). Weights were chosen on rows that are neither trained on "
        "nor tested.",
    ]
    for record in records:
        lines += [
            "", f"### {record['set']}", "",
            "| | weights | P@1/3/5 | training, CPU-s | ranking, CPU-ms a row | model, MB |",
            "|---|---|---|---|---|---|",
        ]  # fmt: skip
        for run in record["recipes"]:
            if "error" in run:
                continue
            weights = "–" if not run.get("weights") else "/".join(f"{weight:.2f}" for weight in run["weights"])
            precision = "/".join(f"{run[f'P@{k}']:.2f}" for k in (1, 3, 5))
            ranking = f"{run['rank_cpu_ms']:.3f}" if "rank_cpu_ms" in run else "–"
            lines.append(
                f"| {run['recipe']} | {weights} | {precision} | {run['train_cpu_s']:.2f} | {ranking} | "
                f"{run['model_mb']:.1f} |"
            )
    return lines
