"""The section of docs/results.md on plans."""

from __future__ import annotations

from typing import Any

__all__ = ["plan_section"]


def plan_section(records: list[dict[str, Any]]) -> list[str]:
    """What ``plan.py`` found: estimated beside measured."""
    if not records:
        return []
    lines = [
        "",
        "## Plans",
        "",
        "By `benchmarks/plan.py`, on one thread: what `model.plan` says before the work, then what the training took; "
        "peak memory is all that the process held, data and libraries included.",
        "",
        "| set | settings | the plan itself, CPU-s | training, CPU-s | peak memory, MB | model, MB |",
        "|---|---|---|---|---|---|",
    ]
    for record in records:
        for run in record["runs"]:
            plan, fit = run["plan"], run["fit"]
            cells = " | ".join(
                f"{plan[key]:.{digits}f} → {fit[key]:.{digits}f} ({100 * (plan[key] / fit[key] - 1):+.0f}%)"
                for key, digits in (("seconds", 1), ("peak_mb", 0), ("model_mb", 1))
            )
            lines.append(f"| {record['set']} | {run['settings']} | {plan['took_s']:.2f} | {cells} |")
    return lines
